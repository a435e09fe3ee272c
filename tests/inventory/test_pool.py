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


def test_a_pool_with_all_its_slices_is_complete(judge: Judge, make_slice: Any) -> None:
    """As many slices as announced are a complete pool, sorted by name."""
    found = judge([make_slice("b", ["1"], count=2), make_slice("a", ["2"], count=2)])

    assert found.verdict is Verdict.COMPLETE
    assert [item.name for item in found.slices] == ["a", "b"]


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


def test_a_pool_name_that_two_nodes_use_is_complete_on_each(judge: Judge, make_slice: Any) -> None:
    """A node that sees as many slices as these announce looks no further; an onlooker finds too many."""
    slices = [make_slice("a", ["1"], nodeName="node-1"), make_slice("b", ["1"], nodeName="node-2")]

    assert judge(slices, "a").verdict is Verdict.COMPLETE
    assert judge(slices, "b").verdict is Verdict.COMPLETE
    assert judge(slices).verdict is Verdict.INCOMPLETE


def test_a_newer_generation_elsewhere_is_noticed_only_when_slices_lack(judge: Judge, make_slice: Any) -> None:
    """An incomplete old generation with a newer one elsewhere is obsolete; a complete one is still used."""
    newer = make_slice("new", ["2"], generation=2)

    assert judge([make_slice("old", ["1"], count=2), newer], "old").verdict is Verdict.OBSOLETE
    assert judge([make_slice("old", ["1"]), newer], "old").verdict is Verdict.COMPLETE


def test_slices_of_other_nodes_complete_a_pool(judge: Judge, make_slice: Any) -> None:
    """A node needs all slices of the pool to exist, but sees the devices of its own only."""
    found = judge([make_slice("a", ["1"], count=2), make_slice("b", ["2"], count=2)], "a")

    assert found.verdict is Verdict.COMPLETE
    assert [item.name for item in found.slices] == ["a"]


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


def test_counters_of_slices_for_other_nodes_count(judge: Judge, make_slice: Any) -> None:
    """Devices of other nodes draw on the same counters."""
    counters = make_slice("counters", [], count=3, sharedCounters=COUNTERS)
    slices = [
        counters,
        make_slice("far", [partition("1")], count=3),
        make_slice("near", [partition("2")], count=3),
    ]
    found = judge(slices, "near")

    assert found.counters is not None
    assert sorted(found.counters.draws) == ["1", "2"]


def test_slices_with_groups_do_not_count_while_groups_are_off(judge: Judge, make_slice: Any) -> None:
    """With the feature off, one device with groups leaves its pool incomplete."""
    grouped = make_slice("a", [partition("1", compatibilityGroups=["x"])], count=2)
    found = judge(
        [grouped, make_slice("b", ["2"], count=2)], "b", features=Features(compatibility_groups=False)
    )

    assert found.verdict is Verdict.INCOMPLETE
