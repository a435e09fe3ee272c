"""Fixtures: `simulate`, run on objects; logging as it was before."""

import pytest

from simulation import simulate  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def own_logging(logging_is_put_back):
    """A command sends logs to its own stderr."""
