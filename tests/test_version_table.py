"""docs/versions.md: it says what the code does."""

from pathlib import Path

from controlplane.serving import EMULATED
from dra_operator.api.versions import VERSIONS
from version_table import SHOWN, page


def test_the_page_is_up_to_date(repository: Path):
    """The page is generated: `PYTHONPATH=tests .venv/bin/python -m version_table > docs/versions.md`."""
    assert (repository / "docs/versions.md").read_text() == page()


def test_no_version_is_left_out():
    """From the oldest API server of the tests to the newest rules."""
    assert {*EMULATED, *VERSIONS} <= {*SHOWN}
    assert (SHOWN[0], SHOWN[-1]) == (EMULATED[0], VERSIONS[-1])
