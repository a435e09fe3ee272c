"""The steps of situations, as tests/situations/README.md describes their files."""

import re
from pathlib import Path

import yaml

SITUATIONS = sorted(Path(__file__).parent.glob("situations/*/"))
_COMMENT = re.compile(r"(?:#.*\n)*")


class Step:
    """A step: the objects that it puts, those that go, and what is expected."""

    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self.name = path.name
        self._comment = _COMMENT.match(text).group()
        self.objects = [body for body in yaml.safe_load_all(text) if body]
        self.deleted = [tuple(line.split(" ", 1)) for line in self._lines("Deleted")]
        self.rows, self.notes = self._lines("Expected"), self._lines("Notes")

    def _lines(self, title):
        block = re.search(rf"^# {title}:\n((?:#   .*\n)*)", self._comment, re.MULTILINE)
        return [line.removeprefix("#   ") for line in block.group(1).splitlines()] if block else []


def steps_of(situation):
    """Return the steps of a situation, in order."""
    return [Step(path) for path in sorted(situation.glob("*.yaml"), key=lambda path: int(path.stem))]
