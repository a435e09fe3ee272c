"""The built site: it asks no other host, each page is also Markdown, and its search finds what people paste.

`make site` builds it strictly, with its links; without that, outside CI, these tests are skipped.
"""

import os
import re
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "dist" / "site"
PAGES = sorted(SITE.rglob("index.html"))

pytestmark = pytest.mark.skipif(
    not PAGES and os.environ.get("CI") != "true", reason="there is no dist/site: make site builds it"
)


def test_nothing_is_loaded_from_another_host():
    """Whoever reads the site tells nobody, and it works without a network."""
    loads = re.compile(
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=\"(?!data:)(?:https?:)?//[^\"]*\""
        r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|icon|preload|preconnect|modulepreload))[^>]*href=\"(?:https?:)?//[^\"]*\""
    )
    assert PAGES
    assert [found[0] for page in PAGES for found in loads.finditer(page.read_text())] == []
    for style in SITE.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text()) == []


def test_each_page_is_also_markdown():
    """Assistants read the pages that people read: each has its Markdown, which llms.txt lists."""
    index = (SITE / "llms.txt").read_text()
    for address in re.findall(r"<loc>(.*?)</loc>", (SITE / "sitemap.xml").read_text()):
        assert f"({address}index.md)" in index
    assert [page for page in PAGES if not page.with_suffix(".md").is_file()] == []


def test_who_has_the_site_has_what_it_tells_to_apply():
    """The archive has the files of the repository that pages name."""
    with tarfile.open(SITE / "files" / "dra-operator.tar.gz") as archive:
        names = set(archive.getnames())

    assert {
        f"dra-operator/{name}" for name in ("manifests/kustomization.yaml", "crds/kustomization.yaml")
    } <= names
    for path in (ROOT / "examples").rglob("*.yaml"):
        assert f"dra-operator/{path.relative_to(ROOT)}" in names
