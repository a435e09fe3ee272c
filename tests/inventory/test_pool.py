"""The verdict on a pool."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.inventory import Features, Verdict
from dra_operator.inventory.pool import Judgement, Pool
from dra_operator.inventory.slices import Columns, read_slice

Judge = Callable[..., Judgement]
ALL_ON = Features.all_on()
COUNTERS = [{"name": "set", "counters": {"memory": {"value": "10Gi"}}}]


@pytest.fixture
def judge() -> Judge:
    """Judge a pool of these slices by those of them that are named, or by all."""

    def run(slices: list[Any], *relevant: str, features: Features = ALL_ON) -> Judgement:
        pool = Pool(("gpu", "pool"))
        for item in slices:
            pool.put(read_slice(item, Columns()))
        wanted = relevant or tuple(pool.slices)
        return pool.judge([pool.slices[name] for name in wanted], features)

    return run


def partition(name: str, counter_set: str = "set", counter: str = "memory", **more: Any) -> dict[str, Any]:
    """Return a device that takes 1Gi of a counter."""
    use = {"counterSet": counter_set, "counters": {counter: {"value": "1Gi"}}, **more}
    return {"name": name, "consumesCounters": [use]}


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (1, "too many slices of generation 1 (2 where 1 is announced)"),
        (3, "1 of 3 slices of generation 1 missing"),
    ],
)
def test_another_number_of_slices_is_incomplete(
    judge: Judge, make_slice: Any, count: int, reason: str
) -> None:
    """Too few slices are as incomplete as too many."""
    found = judge([make_slice("a", ["1"], count=count), make_slice("b", ["2"], count=count)])

    assert found.verdict is Verdict.INCOMPLETE
    assert found.reason == reason


def test_a_device_name_given_twice_makes_a_pool_invalid(judge: Judge, make_slice: Any) -> None:
    """Device names are unique in what a node sees of a pool."""
    found = judge([make_slice("a", ["1"], count=2), make_slice("b", ["1"], count=2)])

    assert (found.verdict, found.reason) == (Verdict.INVALID, "duplicate device name 1")


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        pytest.param(
            partition("1", "other"), "device 1 uses counter set other, which the pool does not have", id="set"
        ),
        pytest.param(
            partition("1", "set", "cores"),
            "device 1 uses counter cores, which counter set set does not have",
            id="counter",
        ),
    ],
)
def test_a_reference_to_unknown_counters_makes_a_pool_invalid(
    judge: Judge, make_slice: Any, device: dict[str, Any], reason: str
) -> None:
    """Also in a slice that does not concern the node."""
    counters = make_slice("counters", [], count=3, sharedCounters=COUNTERS)
    slices = [counters, make_slice("far", [device], count=3), make_slice("near", ["2"], count=3)]

    assert judge(slices, "near") == Judgement(Verdict.INVALID, reason)


def test_slices_with_groups_do_not_count_while_groups_are_off(judge: Judge, make_slice: Any) -> None:
    """With the feature off, one device with groups leaves its pool incomplete."""
    grouped = make_slice("a", [partition("1", compatibilityGroups=["x"])], count=2)
    found = judge(
        [grouped, make_slice("b", ["2"], count=2)], "b", features=Features(compatibility_groups=False)
    )

    assert found.verdict is Verdict.INCOMPLETE
