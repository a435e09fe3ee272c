"""The table of Go structs is what the published sources say."""

import subprocess
from pathlib import Path

import pytest

from dra_operator.api import fields

from . import go_types

VERSION = "v0.37.2"


@pytest.fixture
def module_cache() -> Path:
    """Return the folder of the k8s.io modules of this version; skip where Go has not fetched them."""
    try:
        answer = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("Go is not on this machine")
    folder = Path(answer.stdout.strip()) / "k8s.io"
    if not (folder / f"api@{VERSION}").is_dir() or not (folder / f"apimachinery@{VERSION}").is_dir():
        pytest.skip(f"k8s.io/api {VERSION} is not in the module cache")
    return folder


def test_the_table_is_made_from_the_published_sources(module_cache: Path) -> None:
    """fields.json is exactly what `go_types` makes of k8s.io/api and k8s.io/apimachinery."""
    shipped = Path(fields.__file__).with_name("fields.json").read_text(encoding="utf-8")

    assert go_types.render(module_cache, VERSION) == shipped


@pytest.fixture
def sources(tmp_path: Path) -> go_types.Sources:
    """Return the sources of a package with one struct of each kind of field."""
    for folder in go_types.PACKAGES.values():
        module, _, rest = folder.partition("/")
        (tmp_path / f"{module}@v1" / rest).mkdir(parents=True, exist_ok=True)
    (tmp_path / "api@v1/core/v1/types.go").write_text(
        """
import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type Colour string

type Inner struct {
	Paint Colour `json:"paint"`
}

type Outer struct {
	Inner `json:""`
	// Times of things.
	When *metav1.Time `json:"when,omitempty"`
	Many []Inner `json:"many,omitempty" patchStrategy:"merge" patchMergeKey:"paint"`
	ByName map[string]Inner `json:"byName"`
	hidden string
	Skipped string `json:"-"`
}
"""
    )
    return go_types.Sources(tmp_path, "v1")


def test_inlined_structs_become_fields_of_the_outer(sources: go_types.Sources) -> None:
    """An embedded struct's fields, a pointer, a keyed list and a map are described; others are left out."""
    assert sources.fields("core/v1.Outer") == {
        "paint": ["string"],
        "when": ["*Time", "omitempty"],
        "many": ["[]core/v1.Inner", "omitempty", "merge", "paint"],
        "byName": ["{}core/v1.Inner"],
    }


def test_the_closure_holds_what_the_roots_reach(sources: go_types.Sources) -> None:
    """A root brings the structs of its fields with it."""
    assert list(sources.closure(("core/v1.Outer",))) == ["core/v1.Inner", "core/v1.Outer"]
