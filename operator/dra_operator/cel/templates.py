"""Templates: parametrised compilation of texts that differ in nothing but values and names of attributes.

The first text is compiled with blanks; each later one is that code with its own values in the blanks. A literal is a
blank where it has no say in the types, the plan or the code: one that a constant path into the device is compared with,
plainly written, and domain and name of such a path. Texts with the same pieces between their literals, and the same
literals that are no blanks, have the same tree; what they cost is bounded by their length.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

from dra_operator.cel.compiler.codegen import Compiled
from dra_operator.cel.costs.quick_bound import COMPARING, way
from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.library.semvers import parse_semver
from dra_operator.cel.paths import LEVELS, MAPS
from dra_operator.cel.syntax import nodes

_MOST: Final = 1024
_QUOTES: Final = ("'", '"')
_split: Final = re.compile(
    r"""("[ !#-\[\]-~]*"|'[ -&(-\[\]-~]*'|(?<![\w.])[0-9]{1,15}(?![\w.])|(?<=\]\.)[A-Za-z_][A-Za-z0-9_]*)"""
).split
_is_plain_amount: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[numkMGTPE]|[KMGTPE]i)?").fullmatch
_SEARCHING: Final = frozenset(("contains", "startsWith", "endsWith"))
_ORDERING: Final = frozenset(("compareTo", "isGreaterThan", "isLessThan"))
_KEYWORDS: Final = frozenset(("true", "false", "null", "in"))

Read: TypeAlias = Callable[..., Any]
"""Returns what stands in code for literals as they are written; raises ValueError or CelError for any others."""


class Blank(NamedTuple):
    """What is left blank in code: the id of its node, the places of its literals in the text, and what reads them.

    `table` is that of a path, `attributes` or `capacity`.
    """

    node: int
    places: tuple[int, ...]
    read: Read
    table: str = ""

    @property
    def mark(self) -> complex:
        """What stands for it in code. No value of CEL is a complex number."""
        return complex(0, self.places[-1] + 1)


class Text:
    """A text, cut into its plain literals, with the names behind an index among them, and the pieces between them."""

    __slots__ = ("length", "literals", "pieces")

    def __init__(self, text: str) -> None:
        parts = _split(text)
        self.length = len(text)
        self.literals: list[str] = parts[1::2]
        self.pieces: tuple[str, ...] = tuple(parts[::2])

    def starts(self) -> dict[int, int]:
        """Return the places of literals by where they start.

        Those that may end elsewhere if they say something else are left out: `""` in front of a quote opens another
        text.
        """
        starts: dict[int, int] = {}
        position = 0
        last = len(self.literals) - 1
        for place, literal in enumerate(self.literals):
            position += len(self.pieces[place])
            following = self.pieces[place + 1]
            if not following.startswith(_QUOTES) if following else place == last:
                starts[position] = place
            position += len(literal)
        return starts


@dataclass(frozen=True, slots=True)
class Template:
    """A function with blanks. `constants` has, for each, where it is in the code.

    `reads` is what the selector looks at beside the paths that are blanks; `longest` how long a text may be that is
    known to cost little.
    """

    code: CodeType
    names: Mapping[str, Any]
    constants: tuple[tuple[int, Blank], ...]
    reads: frozenset[str] | None
    longest: int

    def fill(self, literals: list[str], otherwise: Compiled) -> tuple[Compiled, frozenset[str] | None] | None:
        """Return the function with these literals in its blanks, and what it reads; None if one cannot stand there."""
        values: list[Any] = list(self.code.co_consts)
        paths: list[str] = []
        try:
            for index, (_, places, read, table) in self.constants:
                value = values[index] = read(*[literals[place] for place in places])
                if table:
                    paths.append(f"{table}/{value}")
        except (ValueError, CelError):
            return None
        code = self.code.replace(co_consts=tuple(values))
        reads = None if self.reads is None else self.reads.union(paths)
        return FunctionType(code, {**self.names, "otherwise": otherwise}), reads


@dataclass(slots=True)
class Templates:
    """The templates of the texts that were seen. The oldest half goes when there are too many.

    Which of its literals are no blanks follows from the pieces between them.
    """

    maximum: int = _MOST
    _fixed: dict[tuple[Environment, tuple[str, ...]], tuple[int, ...]] = field(default_factory=dict)
    _templates: dict[object, Template] = field(default_factory=dict)

    def find(self, text: Text, environment: Environment) -> Template | None:
        """Return the template of a text, or None if none is known."""
        shape = (environment, text.pieces)
        fixed = self._fixed.get(shape)
        if fixed is None:
            return None
        literals = text.literals
        template = self._templates.get((shape, tuple([literals[place] for place in fixed])))
        return template if template is not None and text.length <= template.longest else None

    def keep(self, text: Text, environment: Environment, template: Template) -> None:
        """Keep the template that was made of a text."""
        shape, literals = (environment, text.pieces), text.literals
        filled = {place for _, blank in template.constants for place in blank.places}
        fixed = tuple([place for place in range(len(literals)) if place not in filled])
        _make_room(self._fixed, self.maximum)
        # Where one text has a number and another one has a text, the first decides.
        if self._fixed.setdefault(shape, fixed) == fixed:
            _make_room(self._templates, self.maximum)
            self._templates.setdefault((shape, tuple([literals[place] for place in fixed])), template)


def blanks_of(text: Text, tree: nodes.Expr) -> tuple[Blank, ...]:
    """Return what may be left blank of a text, by its tree, which is a simple one."""
    starts = text.starts()
    found: list[Blank] = []
    waiting = [tree]
    while waiting:
        expr = waiting.pop()
        waiting.extend(nodes.children(expr))
        if type(expr) is nodes.Call:
            for literal, read in _compared(expr):
                place = starts.get(literal.position)
                if place is not None:
                    found.append(Blank(literal.id, (place,), read))
        elif type(expr) is nodes.Select and (path := _path(expr, starts)) is not None:
            found.append(path)
    return tuple(found)


def template_of(
    function: Compiled, blanks: tuple[Blank, ...], reads: frozenset[str] | None, longest: int
) -> Template | None:
    """Return what is left of a function that was made with blanks, or None if its code does not have each of them."""
    assert isinstance(function, FunctionType)
    code = function.__code__
    indices = {constant: index for index, constant in enumerate(code.co_consts) if type(constant) is complex}
    if len(indices) < len(blanks):
        return None
    used = {*code.co_names, "__builtins__"} - {"otherwise"}
    names = {name: value for name, value in function.__globals__.items() if name in used}
    constants = tuple([(indices[blank.mark], blank) for blank in blanks])
    return Template(code, names, constants, reads, longest)


def _path(expr: nodes.Select, starts: Mapping[int, int]) -> Blank | None:
    """Return the blank for the path that a select ends, if that is one to an attribute or a capacity."""
    names = way(expr)
    domain = expr.operand
    if len(names) != LEVELS or names[0] not in MAPS or type(domain) is not nodes.Call:
        return None
    places = starts.get(domain.args[1].position), starts.get(expr.position + 1)
    if places[0] is None or places[1] is None:
        return None
    return Blank(expr.id, (places[0], places[1]), _name, names[0])


def _compared(call: nodes.Call) -> Iterator[tuple[nodes.Literal, Read]]:
    """Yield the literals that a call compares with a constant path into the device, each with what reads it."""
    name, arguments, target = call.function, call.args, call.target
    if name in COMPARING and len(arguments) == 2:
        for one, other in (arguments, arguments[::-1]):
            if type(one) is nodes.Literal and type(one.value) in _READERS and way(other):
                yield one, _READERS[type(one.value)]
    elif target is None or len(arguments) != 1 or not way(target):
        return
    elif name in _SEARCHING and type(arguments[0]) is nodes.Literal and type(arguments[0].value) is str:
        yield arguments[0], _text
    elif name in _ORDERING and type(made := arguments[0]) is nodes.Call:
        read = _MAKING.get(made.function)
        if read is not None and len(made.args) == 1 and type(made.args[0]) is nodes.Literal:
            yield made.args[0], read


def _text(written: str) -> str:
    if not written.startswith(_QUOTES):
        raise ValueError(written)
    return written[1:-1]


def _name(domain: str, name: str) -> str:
    domain = _text(domain)
    # A text in its place is a mistake, which compiling tells.
    if "/" in domain or name in _KEYWORDS or name.startswith(_QUOTES):
        raise ValueError(name)
    return intern(f"{domain}/{name}")


def _amount(written: str) -> int:
    text = _text(written)
    if not _is_plain_amount(text):
        raise ValueError(text)
    return parse_quantity(text).nano


def _version(written: str) -> object:
    return parse_semver(_text(written)).key


_READERS: Final[Mapping[type, Read]] = {str: _text, int: int}
_MAKING: Final[Mapping[str, Read]] = {"quantity": _amount, "semver": _version}


def _make_room(kept: dict[Any, Any], maximum: int) -> None:
    if len(kept) >= maximum:
        for old in list(kept)[: maximum // 2]:
            kept.pop(old, None)
