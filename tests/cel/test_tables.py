"""The parser's tables, computed ahead."""

import re

import pytest
from lark import Lark

from dra_operator.cel import tables
from dra_operator.cel.builder import Builder
from dra_operator.cel.grammar import grammar

ASIDE = "the tables are old; write them anew as the module's text says"


@pytest.fixture
def computed(monkeypatch):
    """Count how often tables are computed."""
    calls = []

    class Counting(Lark):
        def __init__(self, *args, **options):
            calls.append(args)
            super().__init__(*args, **options)

    monkeypatch.setattr(tables, "Lark", Counting)
    return calls


def test_the_stored_tables_are_those_of_the_grammar(computed):
    """Of the grammar as it is now, and of the Lark that is installed."""
    tables.make_parser(grammar(), Builder())

    assert computed == [], ASIDE


def test_the_tables_of_another_grammar_are_computed(computed):
    """A change of the grammar, or a release of Lark, costs time and nothing else."""
    parser = tables.make_parser(grammar() + "\n", Builder())

    assert len(computed) == 1
    assert parser.parse("1 + 2")


@pytest.mark.parametrize("kept", [b"", b"{", b"{}"])
def test_without_stored_tables_they_are_computed(computed, monkeypatch, kept):
    """A file that is missing or cut off is no reason to fail."""
    monkeypatch.setattr(tables, "stored", lambda: kept)

    assert tables.make_parser(grammar(), Builder()).parse("1 + 2")
    assert len(computed) == 1


@pytest.mark.parametrize(
    "text",
    ["device.driver == 'a'", "[1, 2].exists(x, x > 1) ? {'a': b'c'} : r\"\\d\"", "a.?b[?0].orValue(1u)"],
)
def test_both_parsers_read_the_same(text):
    """Stored or computed, the tables are the same."""
    parsers = [
        tables.make_parser(grammar(), Builder()),
        Lark(grammar(), transformer=Builder(), **tables._OPTIONS),
    ]
    # Ids only tell the parts of one tree apart.
    stored, computed = (re.sub(r"\bid=\d+", "", repr(parser.parse(text))) for parser in parsers)

    assert stored == computed


def test_written_tables_are_read_back(computed, monkeypatch):
    """What would be written is what is understood."""
    written = tables.tables(grammar())
    computed.clear()
    monkeypatch.setattr(tables, "stored", lambda: written)

    assert tables.make_parser(grammar(), Builder()).parse("1 + 2")
    assert computed == []
