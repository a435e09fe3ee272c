"""Tables for people: columns as wide as they must be, as kubectl prints them; at a terminal no wider than it is.

Where there is no room, the texts of the last columns that can be cut are cut; a name never is, as somebody copies it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import click

from dra_operator.api.text import printable

_MORE: Final = re.compile(r" \+\d+(?:  |$)")
_NOTHING: Final = ("", "-", "0")
_LEAST: Final = 12
"""So much of a text is shown at least."""


class Colour(StrEnum):
    """How a cell is shown at a terminal."""

    GOOD = "green"
    WARNING = "yellow"
    BAD = "red"
    QUIET = "bright_black"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a colour. Of a text that lists `names`, whole ones are left out where there is no room.

    `more` is how many there are beside these.
    """

    text: str
    colour: Colour | None = None
    names: tuple[str, ...] = ()
    separator: str = ", "
    more: int = 0

    @property
    def least(self) -> int:
        """How much room the first of the names needs, with how many more there are."""
        return len(self._first(1) if len(self.names) > 1 else self.text) if self.names else 0

    def cut(self, width: int) -> str:
        """Return the text in so much room: the first names and how many more, or else its beginning."""
        if len(self.text) <= width:
            return self.text
        found = f"{self.text[: width - 1]}…"
        # There may be thousands of names.
        for shown in range(1, len(self.names)):
            if len(text := self._first(shown)) > width:
                break
            found = text
        return found

    def _first(self, shown: int) -> str:
        return f"{self.separator.join(self.names[:shown])} +{len(self.names) + self.more - shown}"


def names_cell(
    names: Sequence[str], most: int | None = None, separator: str = ", ", *, more: int = 0
) -> Cell:
    """Return a cell that lists some names, or the first of them, and how many more there are beside these."""
    shown = names[:most]
    rest = len(names) + more - len(shown)
    text = separator.join(shown) + (f" +{rest}" if rest else "")
    return Cell(printable(text) or "-", names=tuple(map(printable, names)), separator=separator, more=more)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title; numbers stand to the right; some texts may be cut; some columns are for `-o wide` alone.

    One that `is_dropped` is left out where cutting does not make enough room, the first such first; one that
    `is_optional`, where it says nothing of any item. `show` makes its cell of an item.
    """

    title: str
    show: Callable[[Any], "str | Cell"] = str
    is_number: bool = False
    is_cut: bool = False
    is_wide: bool = False
    is_dropped: bool = False
    is_optional: bool = False


Row = Sequence[str | Cell]


@dataclass(frozen=True, slots=True)
class Style:
    """How tables are printed: how wide they may be (None: as wide as they are), in colours, wide, with a first line.

    `gap` is between columns.
    """

    width: int | None = None
    colours: bool = False
    wide: bool = False
    headers: bool = True
    gap: int = 3


def listing(
    columns: Sequence[Column], items: Sequence[Any], style: Style, last: Mapping[str, str] | None = None
) -> list[str]:
    """Return the lines of a table with a row for each item, none for none; `last` is one more row, by titles."""
    shown = [[column.show(item) for column in columns] for item in items]
    kept = [
        index
        for index, column in enumerate(columns)
        if style.wide
        or not column.is_optional
        or any(_cell(row[index]).text not in _NOTHING for row in shown)
    ]
    rows: list[Row] = [[row[index] for index in kept] for row in shown]
    if last is not None:
        rows.append([last.get(columns[index].title, "") for index in kept])
    return list(table([columns[index] for index in kept], rows, style)) if items else []


def table(columns: Sequence[Column], rows: Iterable[Row], style: Style) -> Iterator[str]:
    """Yield the lines of a table."""
    kept = [index for index, column in enumerate(columns) if style.wide or not column.is_wide]
    chosen = [columns[index] for index in kept]
    cells = [[_cell(row[index]) for index in kept] for row in rows]
    if style.headers:
        cells.insert(0, [Cell(column.title) for column in chosen])
    if not cells:
        return
    widths = [max(len(row[index].text) for row in cells) for index in range(len(chosen))]
    if style.width is not None:
        least = [max(_LEAST, *(row[index].least for row in cells)) for index in range(len(chosen))]
        fitted = _fitted(chosen, widths, least, style)
        dropped = [index for index, column in enumerate(chosen) if column.is_dropped]
        while dropped and sum(fitted) + style.gap * (len(fitted) - 1) > style.width:
            index = dropped.pop(0)
            del chosen[index], widths[index], least[index]
            for row in cells:
                del row[index]
            dropped = [each - 1 for each in dropped]
            fitted = _fitted(chosen, widths, least, style)
        widths = fitted
    last = len(chosen) - 1
    for row in cells:
        parts = []
        for index, (column, cell) in enumerate(zip(chosen, row, strict=True)):
            text = cell.cut(widths[index])
            shown = click.style(text, fg=cell.colour) if style.colours and cell.colour and text else text
            blanks = " " * (widths[index] - len(text))
            parts.append(
                f"{blanks}{shown}" if column.is_number else shown if index == last else f"{shown}{blanks}"
            )
        yield (" " * style.gap).join(parts).rstrip()


def _cell(value: str | Cell) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    return cell if cell.text.isprintable() else Cell(printable(cell.text), cell.colour)


def _fitted(columns: Sequence[Column], widths: list[int], least: list[int], style: Style) -> list[int]:
    """Return widths with which rows fit into a line, if cutting makes them; the last of the columns gives way first."""
    excess = sum(widths) + style.gap * (len(widths) - 1) - (style.width or 0)
    found = [*widths]
    for index in reversed(range(len(columns))):
        if excess > 0 and columns[index].is_cut:
            kept = min(found[index], max(least[index], len(columns[index].title)))
            given = min(excess, found[index] - kept)
            found[index] -= given
            excess -= given
    return found


def is_cut(lines: Iterable[str]) -> bool:
    """Return whether something is left out of the lines of a table."""
    return any("…" in line or _MORE.search(line) for line in lines)


def wrapped(text: str, style: Style, indent: str = "") -> Iterator[str]:
    """Yield a text in lines no wider than the terminal, each after an indent; elsewhere in one line."""
    text = printable(text)
    if style.width is None:
        yield f"{indent}{text}"
        return
    room = max(style.width - len(indent), _LEAST)
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > room:
            yield f"{indent}{line}"
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield f"{indent}{line}"


def sentence(text: str, style: Style) -> list[str]:
    """Return a long text behind a table: at a terminal its beginning in one line, elsewhere and with -o wide all."""
    text = printable(text)
    width = style.width
    return [text if width is None or len(text) <= width else f"{text[: width - 1]}…"]


def count(number: int, word: str) -> str:
    """Return how many there are of something: `1 claim`, `2,000 classes`, `8 copies`."""
    if number == 1:
        return f"1 {word}"
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number:,} {plural}"
