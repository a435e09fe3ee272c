"""The built site: it asks no other host, each page is also Markdown, and its search finds what people paste.

`make site` builds it strictly, with its links; without that, outside CI, these tests are skipped.
"""

import json
import os
import re
import subprocess
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


def test_no_markdown_is_left_in_a_page():
    """A table, a list or a block of code that GitHub shows is one in the site, too."""
    left = re.compile(r"<p>(?:[^<]|<(?!/p>))*?(?:\|---|```|\n- |\n\d\. )")

    assert [(page.parent.name, found[0]) for page in PAGES if (found := left.search(page.read_text()))] == []


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
        f"dra-operator/{name}"
        for name in (
            "manifests/kustomization.yaml",
            "crds/kustomization.yaml",
            "charts/dra-operator/manifests",
        )
    } <= names
    for path in (ROOT / "examples").rglob("*.yaml"):
        assert f"dra-operator/{path.relative_to(ROOT)}" in names


PASTED = """
cannot-allocate-all-claims FailedScheduling default-scheduler 0/2 nodes are available: 2 cannot allocate all claims.
device-class 0/5 nodes are available: 5 request accelerator: device class big-gpu does not exist.
insufficient-nvidiacomgpu 0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available
cel-runtime-error claim a/train: selector #0 on device gpu.example.com/n1/gpu-0: CEL runtime error: no such key: memory
failedpreparedynamicresources Failed to prepare dynamic resources: NodePrepareResources failed for ResourceClaim gpu: x
is-not-registered prepare dynamic resources: DRA driver gpu.nvidia.com is not registered
failedresourceclaimcreation FailedResourceClaimCreation PodResourceClaim gpu: resource claim template "one": not found
field-is-immutable The ResourceClaim "gpu" is invalid: spec: Invalid value: {"devices":{}}: field is immutable
strict-decoding-error ResourceClaim in version "v1" cannot be: strict decoding error: unknown field "spec.devices"
resource-mapping-not-found error: resource mapping not found for name: "gpu" namespace: "" from "x": no matches for kind
have-a-resource-type error: the server doesn't have a resource type "resourceclaims"
unknown-command-dra error: unknown command "dra" for "kubectl"
"""
"""What people paste, each behind a part of the heading of what it leads to."""


@pytest.fixture(scope="module")
def found():
    """Return what the search of the site finds for each line: pages, and of each the places in it."""
    lines = [line.split(" ", 1) for line in PASTED.strip().splitlines()]
    program = ["node", ROOT / "tests" / "site_search.mjs", SITE, *(pasted for _, pasted in lines)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return dict(zip((heading for heading, _ in lines), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("heading", [line.split(" ", 1)[0] for line in PASTED.strip().splitlines()])
def test_what_people_paste_leads_to_what_to_do(found, heading):
    """The first page that the search of the site shows is the right one, and the right text is among its first."""
    places = [each for each in found[heading][0] if "#" in each][:3]

    assert any(each.startswith("troubleshooting/#") and heading in each for each in places), places
