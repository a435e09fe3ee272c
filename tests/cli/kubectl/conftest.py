"""Fixtures: a certificate authority."""

import sys
from pathlib import Path

import pytest

# The authority of the tests of credentials.
sys.path.insert(0, str(Path(__file__).parents[2] / "cluster"))

from authority import Authority


@pytest.fixture
def authority(tmp_path):
    """A certificate authority, its files in a folder of its own."""
    folder = tmp_path / "authority"
    folder.mkdir()
    return Authority(folder)
