"""Lexer: which token stands at a place, given what the parser can go on with there.

The sign of a number, keywords and names are told apart by context: after a value `-1` is a minus and a one, after a dot
`in` is a name. What a state of the parser cannot go on with is not looked for, as Lark's contextual lexer has it. Most
tokens are found by one of two regular expressions: one for where a value may start, the other for what may follow one.
Where such an expression finds what the state cannot go on with, its terminals are tried one by one.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, TypeAlias

from dra_operator.cel.errors import CelError, compile_error
from dra_operator.cel.syntax.tables import Tables

Token: TypeAlias = tuple[str, int]
"""The text of a token and its position."""
Match: TypeAlias = Callable[[str, int], re.Match[str] | None]
Search: TypeAlias = tuple[Match, list[int]]
"""Finds the token at a place, blanks and comments passed over; and the terminals, by the group that matched."""

_VALUE: Final = "INT_LIT"
"""A terminal that is there wherever a value may start."""


class Lexer:
    """The tokens of a grammar. Terminals are numbers here, as the columns of the parser's tables are."""

    def __init__(self, tables: Tables) -> None:
        self._patterns = tables.terminals
        self._ignored = tables.ignored
        self._actions = tables.actions
        self.end = len(tables.terminals)
        self._value = [name for name, _ in tables.terminals].index(_VALUE)
        self._single: dict[int, re.Pattern[str]] = {}

    def search(self, state: int) -> Search:
        """Return what finds the tokens of a state of the parser, and of all states like it."""
        return self._before_value if self._actions[state][self._value] else self._after_value

    @cached_property
    def _before_value(self) -> Search:
        return self._joined([row for row in self._actions if row[self._value]])

    @cached_property
    def _after_value(self) -> Search:
        return self._joined([row for row in self._actions if not row[self._value]])

    def _joined(self, rows: list[list[int]]) -> Search:
        found = [column for column in range(self.end) if any(row[column] for row in rows)]
        groups = [rf"({self._patterns[column][1]})" for column in found]
        joined = re.compile("|".join((rf"{self._blanks}(?:(\Z)", *groups)) + ")")
        return joined.match, [-1, self.end, *found]

    @cached_property
    def _blanks(self) -> str:
        patterns = dict(self._patterns)
        return f"(?:{'|'.join(patterns[name] for name in self._ignored)})*+"

    @cached_property
    def _skip(self) -> Match:
        return re.compile(self._blanks).match

    def exactly(self, text: str, position: int, state: int) -> tuple[int, Token]:
        """Return the token at a place, trying each terminal that a state can go on with.

        Raises CelError with the place if there is none.
        """
        position = self._passed(text, position)
        if position == len(text):
            return self.end, ("", position)
        row = self._actions[state]
        found = self._first(text, position, (column for column in range(self.end) if row[column]))
        if found is not None:
            return found
        found = self._first(text, position, range(self.end))
        if found is not None:
            raise unexpected(found[1])
        raise compile_error(f"Syntax error: token recognition error at: '{text[position]}'", position)

    def _passed(self, text: str, position: int) -> int:
        match = self._skip(text, position)
        assert match is not None
        return match.end()

    def _first(self, text: str, position: int, columns: Iterable[int]) -> tuple[int, Token] | None:
        for column in columns:
            name, pattern = self._patterns[column]
            if name in self._ignored:
                continue
            single = self._single.get(column)
            if single is None:
                single = self._single[column] = re.compile(pattern)
            match = single.match(text, position)
            if match is not None:
                return column, (match.group(), position)
        return None

    def quoted(self, text: str) -> Iterator[int]:
        """Yield the positions of quoted names in a text that consists of tokens."""
        names = [name for name, _ in self._patterns]
        position = 0
        while (position := self._passed(text, position)) < len(text):
            found = self._first(text, position, range(self.end))
            if found is None:
                return
            column, (token, _) = found
            if names[column] == "QUOTED_IDENT":
                yield position
            position += len(token)


def unexpected(token: Token) -> CelError:
    """Return the error of a token that cannot stand where it stands."""
    return compile_error(f"Syntax error: mismatched input '{token[0] or '<EOF>'}'", token[1])
