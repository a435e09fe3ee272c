"""Situations: states of a cluster that follow one another, and what `simulate` says about each.

tests/situations/README.md describes the files.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

SITUATIONS = Path(__file__).parents[1] / "situations"
STEP = re.compile(r"(?:#.*\n)*")


class Step:
    """A step: the objects that it puts, those that go, and what is expected."""

    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self._comment = STEP.match(text).group()
        self.objects = [body for body in yaml.safe_load_all(text) if body]
        self.deleted = [tuple(line.split(" ", 1)) for line in self._lines("Deleted")]
        self.rows, self.notes = self._lines("Expected"), self._lines("Notes")

    def _lines(self, title):
        block = re.search(rf"^# {title}:\n((?:#   .*\n)*)", self._comment, re.MULTILINE)
        return [line.removeprefix("#   ") for line in block.group(1).splitlines()] if block else []


def key_of(body):
    """Return kind and name of an object, and its namespace unless it is `default`."""
    metadata = body["metadata"]
    return body["kind"], metadata["name"], metadata.get("namespace", "default")


def is_expected(row, expected):
    """True if a row is the expected one, of which the end may be left open."""
    return row.startswith(expected[:-1]) if expected.endswith("…") else row == expected


@pytest.mark.parametrize("situation", sorted(SITUATIONS.glob("*/")), ids=lambda path: path.name)
def test_situation_comes_out_as_its_rules_say(situation, simulate):
    """After each step, `simulate` prints the table and the notes that the step expects."""
    state = {}
    for path in sorted(situation.glob("*.yaml"), key=lambda path: int(path.stem)):
        step = Step(path)
        for kind, name in step.deleted:
            del state[kind, name, "default"]
        state |= {key_of(body): body for body in step.objects}

        result = simulate(*state.values())
        rows = [re.sub(" {2,}", "  ", line) for line in result.stdout.splitlines()[1:]]
        shown = f"{path.name}\n{result.stdout}{result.stderr}"
        assert len(rows) == len(step.rows), shown
        assert all(map(is_expected, rows, step.rows)), shown
        assert all(note in result.stderr for note in step.notes), shown
        items = json.loads(simulate(*state.values(), options=["-o", "json"]).stdout)["items"]
        state |= {key_of(body): body for body in items}
