"""Writing: the inverse of reading."""

import pytest

from dra_operator.api.attributes import UNKNOWN, AttributeValue
from dra_operator.api.convert import from_v1
from dra_operator.api.read import read_object
from dra_operator.api.types import (
    AllocationResult,
    Device,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSliceSpec,
)
from dra_operator.api.write import allocation_to_wire, to_wire
from recordings import recorded

KINDS_OF = {
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
    "claims": "ResourceClaim",
    "nodes": "Node",
}

ALLOCATION = {
    "devices": {
        "results": [
            {
                "request": "r/s",
                "driver": "d",
                "pool": "p",
                "device": "gpu-0",
                "adminAccess": True,
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
                "shareID": "8b0b1f8e-0000-4000-8000-000000000000",
                "consumedCapacity": {"memory": "1.50Gi"},
            }
        ],
        "config": [{"source": "FromClass", "opaque": {"driver": "d", "parameters": {"a": [None, 1.5]}}}],
    },
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    },
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}


def test_an_allocation_is_written_as_it_was_read():
    """Names are camel case, amounts keep their text, tuples are lists."""
    claim = read_object({"metadata": {"name": "c"}, "status": {"allocation": ALLOCATION}}, "ResourceClaim")

    assert allocation_to_wire(claim.status.allocation) == ALLOCATION


def test_an_allocation_without_devices_still_has_the_field():
    """A claim without requests gets an allocation, and Go writes the empty object in it."""
    assert allocation_to_wire(AllocationResult()) == {"devices": {}}


def test_an_object_of_a_kind_says_what_it_is():
    """A whole object has apiVersion and kind; what is absent is left out."""
    assert to_wire(ResourceClaim()) == {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


def test_an_explicit_false_is_written():
    """False is not absent where the API has a pointer."""
    assert to_wire(ResourceSliceSpec(all_nodes=False)) == {"allNodes": False}


def test_an_empty_selector_is_not_absent():
    """An empty device selector means all devices, none at all means no device."""
    assert to_wire(DeviceTaintRuleSpec(device_selector=DeviceTaintSelector())) == {"deviceSelector": {}}


@pytest.mark.parametrize(
    ("attribute", "wire"),
    [
        (AttributeValue("bool", value=False), {"bool": False}),
        (AttributeValue("ints", (1, 2)), {"ints": [1, 2]}),
        (UNKNOWN, {}),
    ],
)
def test_an_attribute_is_written_as_its_union(attribute, wire):
    """An attribute is an object with one field, or none if its type is unknown."""
    assert to_wire(Device("a", {"x": attribute})) == {"name": "a", "attributes": {"x": wire}}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_recorded_objects_survive_a_round_trip(version):
    """Every recorded object is equal after writing, converting and reading."""
    count = 0
    for scenario in recorded("allocator_upstream_table"):
        for field, kind in KINDS_OF.items():
            for body in scenario.get(field) or ():
                obj = read_object(body, kind)
                assert read_object(from_v1(to_wire(obj), version)) == obj
                count += 1
    assert count > 800
