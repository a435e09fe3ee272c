"""Parser: from text to the syntax tree, with every refusal as a CelError at its place.

It is the loop of an LALR parser over the tables that Lark computes from the grammar, and calls the builder at each
reduction. Most rules of an expression's grammar only pass on their one part (a name is a primary, a member, a unary and
so on, up to an expression); which state comes of all of them is looked up at once.
Source: cel-go `parser/parser.go`, for the limits and the wording.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import compile_error
from dra_operator.cel.syntax.builder import Pending, Reduction, ending, reduction
from dra_operator.cel.syntax.grammar import STRING, grammar
from dra_operator.cel.syntax.lexer import Lexer, unexpected
from dra_operator.cel.syntax.nodes import Expr
from dra_operator.cel.syntax.tables import Tables, tables
from dra_operator.cel.values import legal_text

MAX_BYTES: Final = 10 * 1024
"""The longest expression the API server admits (`CELSelectorExpressionMaxLength`)."""
MAX_DEPTH: Final = 250
"""How deep brackets may nest."""

_Endings: TypeAlias = tuple[Callable[[Any], Any], ...]


def parse(text: str, environment: Environment) -> Expr:
    """Return the syntax tree of an expression, macros expanded; raises CelError with a code-point position."""
    text = legal_text(text)
    if sum(map(text.count, "([{")) >= MAX_DEPTH:
        _check_depth(text)
    parser = _parser()
    expr = parser.parse(text)
    if not environment.quoted_fields and "`" in text:
        for position in parser.lexer.quoted(text):
            raise compile_error("unsupported syntax: '`'", position)
    return expr


@cache
def _parser() -> "Parser":
    return Parser(tables(grammar()))


class Parser:
    """A parser of expressions; it keeps nothing of one text for the next."""

    def __init__(self, made: Tables) -> None:
        self.lexer = Lexer(made)
        self._tables = made
        self._searches = [self.lexer.search(state) for state in range(len(made.actions))]
        self._reductions: list[tuple[int, str, Reduction | None]] = [
            (len(parts), rule, reduction(rule, parts)) for rule, parts in made.rules
        ]
        self._jumps: dict[tuple[int, str, int], tuple[int, _Endings]] = {}

    def parse(self, text: str) -> Expr:
        """Return the syntax tree of a text; raises CelError."""
        searches, actions, reductions, jumps = (
            self._searches, self._tables.actions, self._reductions, self._jumps,
        )  # fmt: skip
        state = self._tables.start
        states, values = [state], list[Any]()
        position = 0
        while True:
            match, columns = searches[state]
            found = match(text, position)
            action = 0
            if found is not None:
                group: Any = found.lastindex
                column = columns[group]
                action = actions[state][column]
            if action:
                assert found is not None
                token = (found[group], found.start(group))
                position = found.end()
            else:
                column, token = self.lexer.exactly(text, position, state)
                action = actions[state][column]
                position = token[1] + len(token[0])
            while action < 0:
                size, rule, reduce = reductions[-action - 1]
                assert reduce is not None
                parts = values[-size:]
                del values[-size:], states[-size:]
                value = reduce(parts)
                jump = jumps.get((states[-1], rule, column))
                if jump is None:
                    jump = self._jump(states[-1], rule, column)
                state, endings = jump
                if endings and isinstance(value, Pending):
                    for end in endings:
                        value = end(value)
                values.append(value)
                states.append(state)
                action = actions[state][column]
            if action == 0:
                if column == self.lexer.end and state == self._tables.end:
                    return value  # type: ignore[no-any-return]
                raise unexpected(token)
            state = action - 1
            states.append(state)
            values.append(token)

    def _jump(self, state: int, rule: str, column: int) -> tuple[int, _Endings]:
        """Return the state after `rule` was reduced in `state`, and after all rules that then only pass it on.

        With it comes what these rules make of something pending.
        """
        endings: list[Callable[[Any], Any]] = []
        reached = rule
        while True:
            after = self._tables.gotos[state][reached]
            action = self._tables.actions[after][column]
            if action >= 0 or self._reductions[-action - 1][2] is not None:
                break
            reached = self._reductions[-action - 1][1]
            end = ending(reached)
            if end is not None:
                endings.append(end)
        self._jumps[state, rule, column] = after, tuple(endings)
        return after, tuple(endings)


def _check_depth(text: str) -> None:
    depth = 0
    for found in re.finditer(rf"{STRING}|//[^\n]*|([(\[{{])|([)\]}}])", text):
        depth += bool(found[1]) - bool(found[2])
        if depth >= MAX_DEPTH:
            raise compile_error(f"expression recursion limit exceeded: {MAX_DEPTH}", found.start())
