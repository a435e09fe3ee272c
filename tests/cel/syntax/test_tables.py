"""The parser's tables, computed ahead."""

import pytest

from dra_operator.cel.syntax import tables
from dra_operator.cel.syntax.grammar import grammar

ASIDE = "the tables are old; write them anew as the module's text says"


@pytest.fixture
def computed(monkeypatch):
    """Count how often tables are computed."""
    calls = []

    def counting(text, compute=tables.computed):
        calls.append(text)
        return compute(text)

    monkeypatch.setattr(tables, "computed", counting)
    return calls


def test_the_stored_tables_are_those_that_lark_computes():
    """From the grammar of the installed cel-python, patched as it is now, with the installed Lark."""
    assert tables.stored() == tables.serialized(grammar()), ASIDE


def test_with_stored_tables_none_are_computed(computed):
    """Lark has nothing to do."""
    tables.tables(grammar())

    assert computed == []


def test_the_tables_of_another_grammar_are_computed(computed):
    """A change of the grammar costs time and nothing else."""
    other = tables.tables(grammar() + "\n")

    assert len(computed) == 1
    assert other.actions == tables.tables(grammar()).actions


@pytest.mark.parametrize("kept", [b"", b"{", b"{}"])
def test_without_stored_tables_they_are_computed(computed, monkeypatch, kept):
    """A file that is missing or cut off is no reason to fail."""
    monkeypatch.setattr(tables, "stored", lambda: kept)

    assert tables.tables(grammar()).rules
    assert len(computed) == 1


def test_written_tables_are_read_back(computed, monkeypatch):
    """What would be written is what is understood."""
    written = tables.serialized(grammar())
    computed.clear()
    monkeypatch.setattr(tables, "stored", lambda: written)

    assert tables.tables(grammar()).actions
    assert computed == []
