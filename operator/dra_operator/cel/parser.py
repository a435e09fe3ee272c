"""Parser: from text to the syntax tree, with every refusal as a CelError at its place.

Source: cel-go `parser/parser.go`, for the limits and the wording.
"""

from typing import Any

from lark.exceptions import LarkError, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import CelError, compile_error
from dra_operator.cel.grammar import parser
from dra_operator.cel.nodes import Expr
from dra_operator.cel.values import legal_text

MAX_BYTES = 10 * 1024
"""The longest expression the API server admits (`CELSelectorExpressionMaxLength`)."""
MAX_DEPTH = 250
"""How deep brackets may nest."""


def parse(text: str, environment: Environment) -> Expr:
    """Return the syntax tree of an expression, macros expanded; raises CelError with a code-point position."""
    text = legal_text(text)
    if len(text) > MAX_DEPTH:
        _check_depth(text)
    try:
        expr: Expr = parser().parse(text)  # type: ignore[assignment]
    except CelError:
        raise
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except LarkError as error:
        raise compile_error(f"Syntax error: {error}") from None
    if not environment.quoted_fields and "`" in text:
        _refuse_quotes(text)
    return expr


def _syntax_error(text: str, error: UnexpectedInput) -> CelError:
    # Lark leaves the position of the end of the text open.
    found: Any = error.pos_in_stream
    position = found if type(found) is int else len(text)
    if isinstance(error, UnexpectedToken):
        if error.token.type == "$END":
            return compile_error("Syntax error: mismatched input '<EOF>'", len(text))
        return compile_error(f"Syntax error: mismatched input '{error.token}'", position)
    if isinstance(error, UnexpectedCharacters):
        return compile_error(
            f"Syntax error: token recognition error at: '{text[position : position + 1]}'", position
        )
    return compile_error("Syntax error", position)


def _check_depth(text: str) -> None:
    depth = 0
    for position, character in enumerate(text):
        if character in "([{":
            depth += 1
            if depth >= MAX_DEPTH:
                raise compile_error(f"expression recursion limit exceeded: {MAX_DEPTH}", position)
        elif character in ")]}":
            depth -= 1


def _refuse_quotes(text: str) -> Any:
    for token in parser().lex(text):
        if token.type == "QUOTED_IDENT":
            raise compile_error("unsupported syntax: '`'", token.start_pos)
