"""Replays: in small random histories they are what a simulation comes to that tries everything at every event."""

from argparse import Namespace
from collections import Counter

import pytest

from replayfuzz.__main__ import check


@pytest.mark.parametrize("seed", range(20))
def test_replay_is_what_trying_everything_comes_to(seed):
    """Each job runs when, where and with the devices that a simulation gives it which keeps nothing."""
    assert check(f"test {seed}", Namespace(), Counter()) == []
