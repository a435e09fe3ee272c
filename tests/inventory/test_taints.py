"""Taint rules merged into slices."""

from typing import Any

import pytest

from dra_operator.inventory import Inventory, Slice

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


def test_a_rule_that_goes_takes_its_taints_with_it(make: Any, make_slice: Any, inventory: Inventory) -> None:
    """Published taints stay."""
    inventory.put(make_slice("a", [{"name": "1", "taints": [TAINT]}]))
    inventory.put(
        make("DeviceTaintRule", "rule", spec={"taint": {"key": "x", "effect": "None"}, "deviceSelector": {}})
    )
    inventory.remove("DeviceTaintRule", "rule")

    assert keys(inventory.pools["gpu", "pool"].slices["a"]) == [["broken"]]
