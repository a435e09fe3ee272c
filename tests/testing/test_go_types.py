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
