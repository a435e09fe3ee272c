"""Slices as the core keeps them."""

import pytest

from dra_operator.api.read import read_object
from dra_operator.api.types import Device
from dra_operator.api.wire import wire_fields
from dra_operator.inventory.slices import PLAIN, Columns, DeviceFields, read_slice

SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
TRAITS = {
    "consumesCounters": [{"counterSet": "set", "counters": {"cores": {"value": "1"}}}],
    "nodeName": "node-1",
    "nodeSelector": SELECTOR,
    "allNodes": True,
    "taints": [{"key": "k", "effect": "NoSchedule"}],
    "bindsToNode": True,
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["broken"],
    "allowMultipleAllocations": True,
}
"""The fields of a device that its device_fields tell, each with a value."""
ELSEWHERE = {"name", "attributes", "capacity"}
UNUSED = {"nodeAllocatableResources"}


def device_fields(**fields: object) -> DeviceFields:
    """Return the fields kept of a device with these fields."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d", **fields}]
    body = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": pool, "devices": devices}}
    return read_slice(read_object(body, "ResourceSlice"), Columns()).device_fields[0]


def test_it_is_said_of_each_field_of_a_device_where_it_is_kept() -> None:
    """A field that the API gets is read into a column or a trait, or left out on purpose."""
    assert TRAITS.keys() | ELSEWHERE | UNUSED == wire_fields(Device).keys()


@pytest.mark.parametrize("name", TRAITS)
def test_no_trait_of_a_device_is_lost(name: str) -> None:
    """A device that has nothing else is not taken for one without; those without share one record."""
    assert device_fields(**{name: TRAITS[name]}) != PLAIN
    assert device_fields() is PLAIN
    assert device_fields(nodeAllocatableResources={"cpu": {}}) is PLAIN
