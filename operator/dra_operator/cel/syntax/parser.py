"""Parser: from text to the syntax tree, with every refusal as a CelError at its place.

Lark reads the text by cel-python's grammar, with our corrections, and calls the builder at each reduction. Its tables
are kept in the user's cache folder: computing them takes longer than compiling a hundred expressions.
Source: cel-go `parser/parser.go`, for the limits and the wording.
"""

import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import compile_error
from dra_operator.cel.syntax.builder import REDUCTIONS
from dra_operator.cel.syntax.grammar import STRING, grammar
from dra_operator.cel.syntax.nodes import Expr
from dra_operator.cel.values import legal_text

if TYPE_CHECKING:
    from lark import Lark

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
    if not environment.quoted_fields and "`" in text:
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
