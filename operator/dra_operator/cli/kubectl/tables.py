"""Tables for people: columns as wide as they must be, as kubectl prints them; at a terminal no wider than it is.

Where there is no room, the texts of the last columns that can be cut are cut; a name never is, as somebody copies it.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import click

from dra_operator.api.text import printable

GAP: Final = 3
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
    """A text with a colour."""

    text: str
    colour: Colour | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title; numbers stand to the right; some texts may be cut; some columns are for `-o wide` alone."""

    title: str
    is_number: bool = False
    is_cut: bool = False
    is_wide: bool = False


Row = Sequence[str | Cell]


@dataclass(frozen=True, slots=True)
class Style:
    """How tables are printed: how wide they may be (None: as wide as they are), in colours, wide, with a first line."""

    width: int | None = None
    colours: bool = False
    wide: bool = False
    headers: bool = True


def terminal_style(*, wide: bool, headers: bool, colours: bool) -> Style:
    """Return how tables are printed on stdout: with `-o wide` nothing is cut, as kubectl has it."""
    if wide:
        return Style(None, colours, wide, headers)
    width = max(shutil.get_terminal_size().columns, 20) if sys.stdout.isatty() else None
    return Style(width, colours, wide, headers)


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
        widths = _fitted(chosen, widths, style.width)
    last = len(chosen) - 1
    for row in cells:
        parts = []
        for index, (column, cell) in enumerate(zip(chosen, row, strict=True)):
            text = cell.text if len(cell.text) <= widths[index] else f"{cell.text[: widths[index] - 1]}…"
            shown = click.style(text, fg=cell.colour) if style.colours and cell.colour and text else text
            blanks = " " * (widths[index] - len(text))
            parts.append(
                f"{blanks}{shown}" if column.is_number else shown if index == last else f"{shown}{blanks}"
            )
        yield (" " * GAP).join(parts).rstrip()


def _cell(value: str | Cell) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    return cell if cell.text.isprintable() else Cell(printable(cell.text), cell.colour)


def _fitted(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Return widths with which rows fit into a line, if cutting makes them; the last of the columns gives way first."""
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    found = [*widths]
    for index in reversed(range(len(columns))):
        if excess > 0 and columns[index].is_cut:
            least = min(found[index], max(_LEAST, len(columns[index].title)))
            given = min(excess, found[index] - least)
            found[index] -= given
            excess -= given
    return found


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


def count(number: int, word: str) -> str:
    """Return how many there are of something: `1 claim`, `2,000 classes`, `8 copies`."""
    if number == 1:
        return f"1 {word}"
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number:,} {plural}"
