"""The fast searches against the exhaustive one, and memory against none, step by step (see `stepfuzz`)."""

from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepfuzz import World


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 25))
def test_fast_searches_decide_as_the_plain_one(seed: int, steps: int) -> None:
    """Whatever happens between the claims, counting changes no decision, no error and no text."""
    # A seed, as a world takes more chances than an example of hypothesis may hold.
    world = World(Random(seed))  # noqa: S311 - a seed makes a run repeatable
    for _ in range(steps):
        world.step()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("trait", ["paying", "deriving", "listing", "wide", "grouping", "odd"])
def test_long_lives_decide_as_short_ones(trait: str, seed: int) -> None:
    """After hundreds of events an allocator decides, and explains, as one that was told of their outcome only."""
    worlds = (World(Random(f"{trait} {seed} {number}")) for number in count())  # noqa: S311 - as above
    world = next(world for world in worlds if getattr(world.style, trait))
    for _ in range(150):
        world.step()

    assert world.compared
