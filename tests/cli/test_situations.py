"""Situations: states of a cluster that follow one another, and what `simulate` says about each.

tests/situations/README.md describes the files.
"""

import json
import re

import pytest

from situation_steps import SITUATIONS, steps_of


def key_of(body):
    """Return kind and name of an object, and its namespace unless it is `default`."""
    metadata = body["metadata"]
    return body["kind"], metadata["name"], metadata.get("namespace", "default")


def is_expected(row, expected):
    """True if a row is the expected one, of which the end may be left open."""
    return row.startswith(expected[:-1]) if expected.endswith("…") else row == expected


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda path: path.name)
def test_situation_comes_out_as_its_rules_say(situation, simulate):
    """After each step, `simulate` prints the table and the notes that the step expects."""
    state = {}
    for step in steps_of(situation):
        for kind, name in step.deleted:
            del state[kind, name, "default"]
        state |= {key_of(body): body for body in step.objects}

        result = simulate(*state.values())
        rows = [re.sub(" {2,}", "  ", line) for line in result.stdout.splitlines()[1:]]
        shown = f"{step.name}\n{result.stdout}{result.stderr}"
        assert len(rows) == len(step.rows), shown
        assert all(map(is_expected, rows, step.rows)), shown
        assert all(note in result.stderr for note in step.notes), shown
        items = json.loads(simulate(*state.values(), options=["-o", "json"]).stdout)["items"]
        state |= {key_of(body): body for body in items}
