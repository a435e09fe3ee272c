"""SECURITY.md names a test for each line of its threat model."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize(("module", "name"), NAMED, ids=lambda part: part)
def test_each_test_that_the_page_names_is_there(module, name):
    """A line of the threat model is as good as the test behind it."""
    text = (ROOT / module).read_text(encoding="utf-8")

    assert not name or f"def {name}(" in text


def test_each_line_has_a_test_or_says_whose_it_is():
    """No line of a table is without a test, but for those that say `Not ours`."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "what it tries" not in line]
    rows = [line for line in rows if "what happens | what comes" not in line]

    assert len(rows) > 15
    assert [line for line in rows if ".py" not in line and "Not ours" not in line] == []
