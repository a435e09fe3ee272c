"""Resources of nodes, and types of partitions, as a hand gets them wrong in slices.

For the tests of what `simulate` says of them, and for the one that asks the real API server.
"""

from typing import Any

from too_long import DRAW, slice_of

AT = "spec.devices[0].nodeAllocatableResources"


def consuming(item: dict[str, Any], resource: str = "cpu") -> dict[str, Any]:
    """A slice with a device that consumes a resource of the node."""
    return slice_of(
        {"name": "d", "capacity": {"cores": {"value": "8"}}, "nodeAllocatableResources": {resource: item}}
    )


def mapping(**fields: str) -> dict[str, Any]:
    """A slice with a device that is a resource of the node."""
    return consuming({"mapping": fields})


def typed(name: str, **attributes: dict[str, Any]) -> dict[str, Any]:
    """A slice with a partition and a type of partitions."""
    return slice_of(
        {"name": "d", "attributes": attributes, "consumesCounters": [DRAW]}, partitionTypeAttribute=name
    )


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a resource that is none of a node": (
        consuming({"overhead": {"perPod": "1"}}, "pods"),
        f'{AT}["pods"]',
        '"pods" is no resource that devices can consume: ',
    ),
    "a resource without anything": (consuming({}), f'{AT}["cpu"]', "has neither mapping nor overhead: "),
    "a mapping of nothing": (mapping(), f'{AT}["cpu"].mapping', "must have either capacityKey or "),
    "a mapping of two kinds": (
        mapping(capacityKey="cores", capacityMultiplier="1", deviceMultiplier="1"),
        f'{AT}["cpu"].mapping',
        "must have either capacityKey or ",
    ),
    "a mapping of another capacity": (
        mapping(capacityKey="core", capacityMultiplier="1"),
        f'{AT}["cpu"].mapping.capacityKey',
        '"core" is no capacity of the device: ',
    ),
    "a mapping of a capacity without amount": (
        mapping(capacityKey="cores"),
        f'{AT}["cpu"].mapping.capacityMultiplier',
        "is missing: ",
    ),
    "a mapping of a device with an amount of a capacity": (
        mapping(deviceMultiplier="1", capacityMultiplier="1"),
        f'{AT}["cpu"].mapping.capacityKey',
        "is missing: ",
    ),
    "a mapping to nothing": (
        mapping(deviceMultiplier="0"),
        f'{AT}["cpu"].mapping.deviceMultiplier',
        '"0" is not greater than zero: ',
    ),
    "an overhead of nothing": (
        consuming({"overhead": {}}, "memory"),
        f'{AT}["memory"].overhead',
        "has neither perPod nor perContainer: ",
    ),
    "an overhead below zero": (
        consuming({"overhead": {"perPod": "1Mi", "perContainer": "-1Mi"}}, "hugepages-2Mi"),
        f'{AT}["hugepages-2Mi"].overhead.perContainer',
        '"-1Mi" is less than zero: ',
    ),
    "a type of partitions where there are none": (
        slice_of({"name": "d"}, partitionTypeAttribute="a.io/type"),
        "spec.partitionTypeAttribute",
        '"a.io/type" is only for slices with devices that draw on counters: ',
    ),
    "a type of partitions without a domain": (
        typed("type", type={"string": "half"}),
        "spec.partitionTypeAttribute",
        '"type" is not fully qualified: ',
    ),
    "a partition without a type": (
        typed("a.io/type", kind={"string": "half"}),
        'spec.devices[0].attributes["a.io/type"]',
        "is missing: ",
    ),
    "a partition whose type is a number": (
        typed("a.io/type", type={"int": 2}),
        'spec.devices[0].attributes["a.io/type"]',
        "is not a string: ",
    ),
}
"""A slice, the field that is wrong, and how the message about it begins."""
RIGHT: dict[str, dict[str, Any]] = {
    "a type of partitions": typed("a.io/type", type={"string": "half"}),
    "a type of partitions, with its domain": slice_of(
        {"name": "c"},
        {"name": "d", "attributes": {"a.io/type": {"string": "half"}}, "consumesCounters": [DRAW]},
        partitionTypeAttribute="a.io/type",
    ),
}
"""Slices that are right, each close to one that is not."""
OF_A_NODE: dict[str, dict[str, Any]] = {
    "a capacity that is a resource": mapping(capacityKey="cores", capacityMultiplier="500m"),
    "a device that is a resource": mapping(deviceMultiplier="2"),
    "an overhead": consuming({"overhead": {"perPod": "0"}}, "memory"),
}
"""The same, for which the API server wants to know the node, and that it declares the feature."""
