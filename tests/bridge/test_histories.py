"""Random histories of the bridge; `make bridgefuzz` runs as many as one likes."""

import pytest

from bridgefuzz.run import run_history


@pytest.mark.parametrize("seed", range(3))
def test_history(seed):
    """Crashes at any write, plugins that die, devices that come and go: no device twice, and nothing is left."""
    run_history(f"suite {seed}", steps=20)
