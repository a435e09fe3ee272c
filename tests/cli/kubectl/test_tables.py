"""Tables and texts for people: as kubectl prints them, and at a terminal no wider than it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cli.kubectl.tables import (
    Column,
    Style,
    is_cut,
    names_cell,
    table,
    wrapped,
)

COLUMNS = (
    Column("NAME"),
    Column("N", is_number=True),
    Column("TEXT", is_cut=True),
    Column("MORE", is_wide=True),
)
ROWS = [
    ["a", "1", "one", "x"],
    ["long-name", "1000", "a text that may be cut where there is no room for it", "y"],
]


def lines(style=Style(), rows=ROWS):  # noqa: B008 - it is frozen
    """Return the lines of a table."""
    return list(table(COLUMNS, rows, style))


def test_columns_are_aligned():
    """Names stand to the left, numbers to the right, three blanks between."""
    assert lines() == [
        "NAME           N   TEXT",
        "a              1   one",
        "long-name   1000   a text that may be cut where there is no room for it",
    ]


def test_text_of_an_object_cannot_order_the_terminal_about():
    """Control characters are written as escapes."""
    assert lines(Style(headers=False), [["a\x1b[2J", "1", "b\nc", ""]]) == ["a\\x1b[2J   1   b\\nc"]


@given(st.lists(st.text("ab ", max_size=30), min_size=1, max_size=5), st.integers(40, 160))
def test_no_line_is_wider_than_the_terminal(texts, width):
    """Whatever the texts that can be cut are."""
    assert all(
        len(line) <= width for line in lines(Style(width=width), [["n", "1", text, ""] for text in texts])
    )


@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1).map(" ".join), st.integers(20, 80))
def test_wrapped_text_loses_nothing(text, width):
    """Lines joined again are the text."""
    found = list(wrapped(text, Style(width=width), "  "))

    assert " ".join(line[2:] for line in found) == text
    assert all(len(line) <= width for line in found)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, "claim   gpu-0, gpu-1, gpu-2   node-1   5m"),
        (40, "claim   gpu-0, gpu-1 +1   node-1   5m"),
        (34, "claim   gpu-0 +2   node-1   5m"),
        (24, "claim   gpu-0 +2   5m"),
    ],
)
def test_list_is_cut_between_names_and_a_column_is_left_out_where_that_is_not_enough(width, line):
    """A name that is cut could not be copied; what is left out is known."""
    columns = (Column("A"), Column("B", is_cut=True), Column("C", is_dropped=True), Column("D"))
    row = ["claim", names_cell(["gpu-0", "gpu-1", "gpu-2"]), "node-1", "5m"]

    found = [each.rstrip() for each in table(columns, [row], Style(width=width, headers=False))]

    assert [" ".join(each.split()) for each in found] == [" ".join(line.split())]
    assert is_cut(found) == (width is not None)
