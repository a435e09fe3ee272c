"""Parser: from text to the syntax tree, with every refusal as a CelError at its place.

Lark reads cel-python's `cel.lark`, corrected in memory where it is not the language of Kubernetes; each place must be
found, so a release that changes the file fails a test and not an allocation. Its tables are kept in the user's cache
folder: computing them takes longer than compiling a hundred expressions.
Source: cel-go `parser/parser.go`, for the limits and the wording, `parser/gen/CEL.g4`.
"""

import re
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from dra_operator.cel.errors import compile_error
from dra_operator.cel.syntax.builder import REDUCTIONS
from dra_operator.cel.syntax.nodes import Expr
from dra_operator.cel.types.environment import Environment
from dra_operator.cel.values.values import legal_text

if TYPE_CHECKING:
    from lark import Lark


_ESCAPE = (
    r"""\\[abfnrtv"'\\?`]|\\[0-3][0-7][0-7]|\\[xX][0-9a-fA-F]{2}"""
    r"""|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}"""
)
# Lark takes a backslash before a double quote away, so in these patterns none stands there.
STRING = "|".join(
    (
        r'''[rR]"""(?:[^"]|"(?!""))*"""''',
        r"""[rR]'''(?:[^']|'(?!''))*'''""",
        rf'''"""(?:{_ESCAPE}|[^"\\]|"(?!""))*"""''',
        rf"""'''(?:{_ESCAPE}|[^\\']|'(?!''))*'''""",
        r'''[rR]"[^"\n\r]*"''',
        r"""[rR]'[^'\n\r]*'""",
        rf'''"(?:{_ESCAPE}|[^"\\\n\r])*"''',
        rf"""'(?:{_ESCAPE}|[^\\'\n\r])*'""",
    )
)
_SIGN = r"(?:-(?:[\t\n\f\r ]|\/\/[^\n]*\n)*)?"
_WORD_ENDS = r"(?![_a-zA-Z0-9])"
_PATCHES: tuple[tuple[str, str], ...] = (
    # Optional selection and indexing, back-quoted fields, a trailing comma in messages.
    ('member_dot     : member "." IDENT\n', 'member_dot     : member "." ["?"] (IDENT | QUOTED_IDENT)\n'),
    ('member_index   : member "[" expr "]"\n', 'member_index   : member "[" ["?"] expr "]"\n'),
    (
        'member_object  : member "{" [fieldinits] "}"\n',
        'member_object  : member "{" [fieldinits] [","] "}"\n',
    ),
    # Optional elements and trailing commas; left recursive, or the last comma would be a conflict.
    ('list_lit       : "[" [exprlist] "]"\n', 'list_lit       : "[" [listinit] [","] "]"\n'),
    ('map_lit        : "{" [mapinits] "}"\n', 'map_lit        : "{" [mapinits] [","] "}"\n'),
    (
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)*\n',
        (
            'listinit       : optexpr | listinit "," optexpr\n'
            'optexpr        : ["?"] expr\n'
            'fieldinits     : fieldinit | fieldinits "," fieldinit\n'
            'fieldinit      : ["?"] (IDENT | QUOTED_IDENT) ":" expr\n'
        ),
    ),
    (
        'mapinits       : expr ":" expr ("," expr ":" expr)*\n',
        'mapinits       : mapinit | mapinits "," mapinit\nmapinit        : ["?"] expr ":" expr\n',
    ),
    # Numbers: the sign may stand apart, a fraction needs digits, and each kind is one token.
    (
        "INT_LIT        : /-?/ /0x/ HEXDIGIT+ | /-?/ DIGIT+\n",
        f"INT_LIT.1 : /{_SIGN}(?:0x[0-9a-fA-F]+|[0-9]+)/\n",
    ),
    ("UINT_LIT       : INT_LIT /[uU]/\n", "UINT_LIT.2 : /(?:0x[0-9a-fA-F]+|[0-9]+)[uU]/\n"),
    (
        'FLOAT_LIT      : /-?/ DIGIT+ "." DIGIT* EXPONENT? | /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT\n',
        rf"FLOAT_LIT.3 : /{_SIGN}(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/" + "\n",
    ),
    # Words end where the letters end: `trueish` and `inner` are names.
    ('BOOL_LIT       : "true" | "false"\n', f"BOOL_LIT.4 : /(?:true|false){_WORD_ENDS}/\n"),
    ('NULL_LIT       : "null"\n', f"NULL_LIT.4 : /null{_WORD_ENDS}/\n"),
    ('relation_in    : relation "in"\n', f"relation_in    : relation IN\nIN.4 : /in{_WORD_ENDS}/\n"),
    (
        "IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/\n",
        "IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/\n" + r"QUOTED_IDENT : /`[a-zA-Z0-9_.\/ \-]+`/" + "\n",
    ),
    # Strings: raw ones have no escapes, others only those of the language, and bytes are either kind.
    (
        "literal        : UINT_LIT | FLOAT_LIT | INT_LIT | MLSTRING_LIT | STRING_LIT | BYTES_LIT\n",
        "literal        : UINT_LIT | FLOAT_LIT | INT_LIT | STRING_LIT | BYTES_LIT\n",
    ),
)
_STRING_BLOCK = ("STRING_LIT     :", "// Moved into STRING_LIT and MLSTRING_LIT")
_STRING_TOKENS = f"STRING_LIT.5 : /(?:{STRING})/\nBYTES_LIT.5 : /[bB](?:{STRING})/\n\n"


class GrammarChangedError(Exception):
    """cel-python's grammar no longer has a text that this module replaces."""


def patched(grammar: str) -> str:
    """Return cel-python's grammar as the language of Kubernetes.

    Raises GrammarChangedError if a place to patch is missing or there twice.
    """
    for old, new in _PATCHES:
        if grammar.count(old) != 1:
            raise GrammarChangedError(f"cel.lark no longer contains exactly one {old.strip()!r}")
        grammar = grammar.replace(old, new)
    start, end = (grammar.find(mark) for mark in _STRING_BLOCK)
    if not 0 <= start < end:
        raise GrammarChangedError("cel.lark no longer has its string literals where they were")
    return grammar[:start] + _STRING_TOKENS + grammar[end:]


def grammar() -> str:
    """Return the grammar that expressions are read by."""
    found = find_spec("celpy")
    assert found is not None
    assert found.submodule_search_locations is not None
    # Looked up, not imported: of cel-python we need this file only, and importing it takes longer than all we do here.
    (folder,) = found.submodule_search_locations
    return patched(Path(folder, "cel.lark").read_text(encoding="utf-8"))


MAX_BYTES: Final = 10 * 1024
"""The longest expression the API server admits (`CELSelectorExpressionMaxLength`)."""
MAX_DEPTH: Final = 250
"""How deep brackets may nest."""


def parse(text: str, environment: Environment) -> Expr:
    """Return the syntax tree of an expression, macros expanded; raises CelError with a code-point position."""
    text = legal_text(text)
    if sum(map(text.count, "([{")) >= MAX_DEPTH:
        _check_depth(text)
    expr = _read(text)
    if not environment.rules.quoted_fields and "`" in text:
        for token in _parser().lex(text):
            if token.type == "QUOTED_IDENT":
                raise compile_error("unsupported syntax: '`'", token.start_pos)
    return expr


def _read(text: str) -> Expr:
    # Imported with the parser: devices are counted also where no expression is ever read.
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415

    try:
        return _parser().parse(text)  # type: ignore[return-value]
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise compile_error("Syntax error: mismatched input '<EOF>'", len(text)) from None
        raise compile_error(f"Syntax error: mismatched input '{error.token}'", error.pos_in_stream) from None
    except UnexpectedCharacters as error:
        place = error.pos_in_stream
        assert place is not None
        raise compile_error(f"Syntax error: token recognition error at: '{text[place]}'", place) from None


@cache
def _parser() -> "Lark":
    from lark import Lark  # noqa: PLC0415

    return Lark(
        grammar(), parser="lalr", lexer="contextual", start="expr", keep_all_tokens=True, maybe_placeholders=False,
        transformer=SimpleNamespace(**REDUCTIONS), cache=_cache() or False,
    )  # fmt: skip


def _cache() -> str | None:
    """Return the file for Lark's tables, None if there can be none.

    It is the user's own: what Lark finds there it executes, and the folder for temporary files is everybody's.
    """
    with suppress(OSError, RuntimeError):
        folder = Path.home() / ".cache" / "dra-operator"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder / "cel.lark")
    return None


def _check_depth(text: str) -> None:
    depth = 0
    for found in re.finditer(rf"{STRING}|//[^\n]*|([(\[{{])|([)\]}}])", text):
        depth += bool(found[1]) - bool(found[2])
        if depth >= MAX_DEPTH:
            raise compile_error(f"expression recursion limit exceeded: {MAX_DEPTH}", found.start())
