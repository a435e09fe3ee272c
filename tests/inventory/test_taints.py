"""Taints in force, those of rules included, and groups of devices by what has to be tolerated."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.types import DeviceTaint
from dra_operator.inventory import Inventory, Slice, bits
from dra_operator.inventory.taints import EffectiveTaint, tainted_groups

TAINTS = st.builds(
    DeviceTaint,
    key=st.sampled_from("ab"),
    value=st.sampled_from(["", "v"]),
    effect=st.sampled_from(["None", "NoSchedule", "NoExecute"]),
    time_added=st.sampled_from([None, "2026-01-01T00:00:00Z"]),
)
SLICE = st.lists(st.lists(TAINTS, max_size=3).map(tuple), max_size=6)


def each(found: Any) -> dict[int, tuple[EffectiveTaint, ...]]:
    """Return the barriers of each device; none is told of twice."""
    told = [(index, barriers) for barriers, devices in found for index in bits.each(devices)]
    assert len(dict(told)) == len(told)
    assert len(dict(found)) == len(found)
    return dict(told)


def expected(taints: Any) -> dict[int, tuple[EffectiveTaint, ...]]:
    """Return the same, device by device."""
    return {
        index: those
        for index, item in enumerate(taints)
        if (those := tuple(EffectiveTaint(x.key, x.value, x.effect) for x in item if x.effect != "None"))
    }


@given(SLICE)
def test_each_device_is_behind_its_own_taints(taints: Any) -> None:
    """In their order, and whenever they were added; a taint without an effect is no barrier."""
    assert each(tainted_groups(taints)) == expected(taints)


TAINT = {"key": "broken", "effect": "NoSchedule"}


def keys(content: Slice) -> list[list[str]]:
    """Return the keys of the taints in force, a list a device."""
    return [[taint.key for taint in taints] for taints in content.taints or [()] * len(content.names)]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({"driver": "gpu"}, [["broken"], ["broken"]], id="driver"),
        pytest.param({"pool": "other"}, [[], []], id="another pool"),
        pytest.param({"device": "2"}, [[], ["broken"]], id="device"),
        pytest.param({}, [["broken"], ["broken"]], id="empty selector"),
        pytest.param(None, [[], []], id="no selector"),
    ],
)
def test_a_rule_taints_what_its_selector_names(
    make: Any, make_slice: Any, inventory: Inventory, selector: Any, expected: Any
) -> None:
    """Absent fields match everything, an absent selector nothing."""
    inventory.put(make_slice("a", ["1", "2"]))
    spec = {"taint": TAINT} if selector is None else {"taint": TAINT, "deviceSelector": selector}
    inventory.put(make("DeviceTaintRule", "rule", spec=spec))

    assert keys(inventory.pools["gpu", "pool"].slices["a"]) == expected


@pytest.mark.parametrize("order", [("r1", "r2"), ("r2", "r1")])
def test_rules_apply_in_the_order_of_their_names(
    make: Any, make_slice: Any, inventory: Inventory, order: tuple[str, str]
) -> None:
    """Whichever rule comes first, and whether it comes before the slice."""
    for name in order:
        rule = {"taint": {"key": name, "effect": "NoSchedule"}, "deviceSelector": {}}
        inventory.put(make("DeviceTaintRule", name, spec=rule))
        inventory.put(make_slice("a", [{"name": "1", "taints": [TAINT]}]))

    assert keys(inventory.pools["gpu", "pool"].slices["a"]) == [["broken", "r1", "r2"]]


CLASS_SPEC = {"selectors": [{"cel": {"expression": "device.attributes['gpu'].model == 't4'"}}]}
BY_CLASS = {"taint": TAINT, "deviceSelector": {"deviceClassName": "t4"}}


def device(name: str, model: str) -> dict[str, Any]:
    """Return a device of a model."""
    return {"name": name, "attributes": {"model": {"string": model}}}


def test_a_rule_follows_its_class_as_that_comes_changes_and_goes(
    make: Any, make_slice: Any, inventory: Inventory
) -> None:
    """Slices are tainted anew, and their nodes are told."""
    inventory.put(make_slice("a", [device("1", "t4"), device("2", "a100")]))
    inventory.put(make("DeviceTaintRule", "rule", spec=BY_CLASS))
    changes = inventory.subscribe()
    seen = []
    for spec in (CLASS_SPEC, {}, None):
        changes.pools.clear()
        if spec is None:
            inventory.remove("DeviceClass", "t4")
        else:
            inventory.put(make("DeviceClass", "t4", spec=spec))
        seen.append((keys(inventory.pools["gpu", "pool"].slices["a"]), list(changes.pools)))

    of_pool = [("gpu", "pool")]
    assert seen == [
        ([["broken"], []], of_pool),
        ([["broken"], ["broken"]], of_pool),
        ([[], []], of_pool),
    ]


def test_a_device_on_which_a_rule_fails_is_a_problem_until_it_is_mended(
    make: Any, make_slice: Any, inventory: Inventory
) -> None:
    """The first is told; a slice that goes takes its part away."""
    inventory.put(make("DeviceClass", "t4", spec=CLASS_SPEC))
    inventory.put(make("DeviceTaintRule", "rule", spec=BY_CLASS))
    inventory.put(make_slice("a", [device("1", "t4"), "2"], count=2))
    inventory.put(make_slice("b", ["3", "4"], count=2))
    messages = [problem.message for problem in inventory.problems()]
    inventory.put(make_slice("a", [device("1", "t4"), device("2", "t4")]))
    inventory.remove("ResourceSlice", "b")

    title = "spec.deviceSelector.deviceClassName: class t4: selector #0"
    assert [text.partition(": gpu/pool/2: ")[0] for text in messages] == [
        f"{title} fails on devices, which are not tainted"
    ]
    assert inventory.problems() == ()
