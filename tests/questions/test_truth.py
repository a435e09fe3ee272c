"""Answers against what comes of doing what is asked about, in worlds at random (see `questionfuzz`)."""

import sys
from pathlib import Path
from random import Random

import pytest

# The small cluster of the controller's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from questionfuzz.compare import (
    find_wrong_fit,
    find_wrong_headroom,
    find_wrong_pods,
    find_wrong_removal,
)
from questionfuzz.world import make_world


@pytest.mark.parametrize("seed", range(15))
async def test_fit_is_what_the_operator_does(seed):
    """As many copies fit, with the same devices, as the operator allocates of claims created one after the other."""
    assert [*await find_wrong_fit(make_world(f"fit {seed}"))] == []


@pytest.mark.parametrize("seed", range(15))
async def test_headroom_is_when_the_operator_refuses(seed):
    """There is room for as many as the operator allocates before it leaves one waiting."""
    assert [*await find_wrong_headroom(make_world(f"headroom {seed}"))] == []


@pytest.mark.parametrize("seed", range(60))
def test_pods_fit_where_they_are_placed(seed):
    """Copies of a pod go to the nodes where as many pods go, by their claims and what they request."""
    assert [*find_wrong_pods(make_world(f"pods {seed}"))] == []


@pytest.mark.parametrize("seed", range(60))
def test_what_is_gone_is_gone(seed):
    """Without claims, pods and nodes answers are those of a cluster that never had them."""
    found = find_wrong_removal(make_world(f"gone {seed}"), Random(seed))  # noqa: S311 - a seed makes it repeatable

    assert [*found] == []
