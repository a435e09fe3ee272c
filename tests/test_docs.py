"""The pages point at what there is: their links, the headings behind a #, and the files that they name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for where in ("*.md", "docs/*.md", "[a-z]*/README.md") for path in ROOT.glob(where))
BASES = (ROOT, ROOT / "operator" / "dra_operator")
"""What paths in pages are relative to: `docs/user.md`, and `allocator/plain.py` for a module of the package."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the names of the headings of a page, as links have them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@each_page
def test_each_link_leads_somewhere(page):
    """The file of a link is there, and so is the heading that it names."""
    lost = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)

    assert lost == []


@each_page
def test_each_module_that_a_page_names_is_there(page):
    """A file of Python in backticks, with its folder, is one of the repository or of the package."""
    named = re.findall(r"`([\w.*-]+/[\w/.*-]+\.py)`", prose(page))

    assert [name for name in named if not any(any(base.glob(name)) for base in BASES)] == []
