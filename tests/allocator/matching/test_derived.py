"""Values of derived attributes, kept by what their expressions read."""

from typing import Any

import pytest

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.matching.derived import DerivedAttributes
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel.types.environment import STORED

ROOT = 'device.attributes["d.example"].root'
EVERY = 0b111


def at(root: int, **attributes: Any) -> dict[str, Any]:
    """Return a device at a root."""
    return {"attributes": {"root": {"int": root}, **attributes}}


@pytest.fixture
def derived() -> DerivedAttributes:
    """Values of nothing yet."""
    return DerivedAttributes(SelectorCache(STORED))


@pytest.fixture
def budget() -> Budget:
    """A budget that lasts."""
    return Budget(Limits(), lambda: 0.0)


def test_a_device_that_fails_leaves_the_others_their_values(
    slice_with: Any, derived: DerivedAttributes, budget: Budget
) -> None:
    """And the error names the device and what it lacks."""
    content = slice_with(at(1), {"attributes": {}})

    assert derived.values(ROOT, content, 0b11, budget).failed == 0b10
    assert derived.value("r", "d/x", ROOT, content, 0, budget) == AttributeValue("int", 1)
    with pytest.raises(
        FatalError, match=r"request r: derived attribute d/x fails on device d.example/p/d1: .*root"
    ):
        derived.value("r", "d/x", ROOT, content, 1, budget)


def test_time_that_is_used_up_ends_it(
    slice_with: Any, derived: DerivedAttributes, ticking_budget: Budget
) -> None:
    """What was computed before stays."""
    content = slice_with(at(1), at(2), at(3))
    with pytest.raises(AbortedError):
        derived.values(ROOT, content, EVERY, ticking_budget)

    later = Budget(Limits(seconds=None), lambda: 0.0)
    assert derived.values(ROOT, content, 0, later).known == 0b001


@pytest.fixture
def ticking_budget() -> Budget:
    """A budget that lasts for one look at the clock."""
    seconds = iter(range(10))
    return Budget(Limits(seconds=1.5), lambda: next(seconds))
