"""The examples of docs/library.md, run as they stand there."""

import doctest
import re
from pathlib import Path

import pytest

import dra_operator
from dra_operator import LintRule

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


def test_each_example_of_the_page_prints_what_it_says(monkeypatch):
    """Whoever copies the examples, in the folder of the repository, sees the answers that stand below them."""
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(
        "\n".join(blocks), {"__name__": "__main__"}, "docs/library.md", "docs/library.md", 0
    )
    printed = []

    failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=printed.append)

    assert tried > 20
    assert not failed, "".join(printed)


def test_each_rule_of_lint_has_its_row():
    """Whoever reads a finding finds what its rule means, and no row is of a rule that is not."""
    section = PAGE.partition("\n## Lint\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(LintRule)


@pytest.mark.parametrize("name", ["Cluster", "lint", "selector"])
def test_the_first_page_begins_with_what_is_imported(name):
    """The names that the first example imports are the public ones."""
    first = re.search(r"from dra_operator import (.*)", PAGE).group(1)

    assert name in first.split(", ")
    assert name in dra_operator.__all__
