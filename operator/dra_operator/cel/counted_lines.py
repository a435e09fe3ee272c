"""Lines: how counted code is written down, with the costs that are known before there is a device."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from dra_operator.cel.certainty import certain_type
from dra_operator.cel.paths import named
from dra_operator.cel.plan import Attribute, Const, Step, Variable
from dra_operator.cel.types import BOOL, Type

_ERROR_WORK: Final = 25
"""What catching an error takes, in steps."""


_DEEPEST: Final = 12
"""So many blocks nest in one function; Python allows twenty."""


class UnsupportedError(Exception):
    """The plan has a step that no code is made for."""


@dataclass(slots=True)
class Lines:
    """Lines of Python with the constants that they name."""

    writers: Mapping[type, Any] = field(default_factory=dict)
    """What writes a step, by its type."""
    types: Mapping[int, Type] = field(default_factory=dict)
    steps: int = 0
    """How many steps are written, weighed by the time they take."""
    sure: dict[int, Type] = field(default_factory=dict)
    """The types of variables that run over constants."""
    failing: set[int] = field(default_factory=set)
    """The slots that may hold a failure."""
    building: list[int] = field(default_factory=list)
    """The accumulators of the folds around, which nobody else holds."""
    lazy: dict[int, str] = field(default_factory=dict)
    """The slots of bindings, with what evaluates them when they are first asked for."""
    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    cost: int = 0
    """What steps written so far cost for certain, and no line says yet."""
    names: int = 0
    indent: int = 0
    depth: int = 0
    """How many blocks of the kind that Python limits we are in."""

    def value(self, step: Step) -> str:
        """Write the evaluation of a step; return the name of its value."""
        self.steps += 1
        write = self.writers.get(type(step))
        if write is None:
            raise UnsupportedError
        if self.depth < _DEEPEST:
            return write(self, step)  # type: ignore[no-any-return]
        part = self._name("f")
        with self._inner(part):
            self._return(write(self, step))
        return self._set(f"{part}()")

    def condition(self, step: Step) -> str:
        """Write the evaluation of what must be a bool."""
        value = self.value(step)
        if self._type(step) != BOOL:
            self._line(f"if {value} is not True and {value} is not False: raise no_overload()")
        return value

    def _type(self, step: Step) -> Type:
        """Return the type that a value is certain to have, dyn if that is not known."""
        return certain_type(step, self.types, {}, self.sure)

    def _can_fail(self, step: Step) -> bool:
        """Return whether a step may raise, as far as that is plain."""
        if isinstance(step, Const):
            return False
        if isinstance(step, Attribute) and isinstance(step.root, Variable) and step.root.slot:
            return bool(step.qualifiers) or step.root.slot in self.failing
        return not (isinstance(step, Attribute) and _presence(step))

    def _line(self, text: str) -> None:
        if self.cost:
            self.lines.append(f"{' ' * self.indent}c += {self.cost}")
            self.cost = 0
        self.lines.append(" " * self.indent + text)

    @contextmanager
    def _block(self, header: str) -> Iterator[None]:
        self._line(header)
        nests = header.startswith(("try", "for", "except", "finally"))
        self.indent += 1
        self.depth += nests
        yield
        self._line("pass")
        self.indent -= 1
        self.depth -= nests

    @contextmanager
    def _inner(self, name: str, *outer: str) -> Iterator[None]:
        """Write a function inside, which has blocks of its own; `outer` are names that it sets outside."""
        self._line(f"def {name}():")
        self.indent += 1
        depth, self.depth = self.depth, 0
        self._line(f"nonlocal {', '.join(('c', 'w', *outer))}")
        yield
        self.indent -= 1
        self.depth = depth

    def _return(self, value: str) -> None:
        self._line(f"return {value}")

    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _set(self, expression: str) -> str:
        name = self._name("v")
        self._line(f"{name} = {expression}")
        return name

    def _constant(self, value: Any) -> str:
        if value is True or value is False or value is None:
            return str(value)
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    @contextmanager
    def _caught(self) -> Iterator[None]:
        """Write what is done with an error `x` that does not end the evaluation."""
        with self._block("except CelError as x:"):
            self._line("if type(x) is Abort: raise")
            self._line(f"w += {_ERROR_WORK}")
            yield


def _presence(step: Attribute) -> bool:
    """Return whether a step asks whether something constant is in the device, which has an answer always."""
    if step.test_id is None or not isinstance(step.root, Variable) or step.root.slot:
        return False
    keys = named(tuple(step.qualifiers))
    return keys is not None and len(keys) == 3 and keys[0] in ("attributes", "capacity")
