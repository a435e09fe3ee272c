"""The interpreter of the operator's process."""

import gc
import sys
from collections.abc import Iterator

import pytest

from dra_operator.cli.run import freeze


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_known_is_not_looked_at_again() -> None:
    """After the start, what lives is left out of collections; what comes later is not."""
    freeze()
    known = gc.get_freeze_count()
    later = [[] for _ in range(100)]

    assert known > 1000
    assert len(gc.get_objects()) < known
    assert any(each is later for each in gc.get_objects())


def test_what_comes_later_is_collected() -> None:
    """Collections of the oldest generation do not wait for as many objects as were known at the start."""
    freeze()
    before = gc.get_stats()[2]["collections"]

    gc.set_threshold(100, 1, 1)
    later = [[] for _ in range(1000)]

    assert len(later) < gc.get_freeze_count() / 4
    assert gc.get_stats()[2]["collections"] > before
