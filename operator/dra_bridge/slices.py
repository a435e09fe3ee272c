"""The ResourceSlices of a driver on a node: what they should be, and by which writes. Pure.

A node is one pool of each driver. A pool that differs is written whole, with the next generation: until all its slices
are there it is incomplete, and nobody allocates of it. Source: k8s.io/dynamic-resource-allocation/resourceslice.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.names import BRIDGE_ANNOTATION

DEVICES_OF_A_SLICE: Final = 64
"""A slice with a taint takes no more."""
_LONGEST_NAME: Final = 253

Slice = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """The writes that make a pool what it should be, in this order."""

    create: tuple[Slice, ...] = ()
    update: tuple[Slice, ...] = ()
    delete: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether all is as it should be."""
        return not (self.create or self.update or self.delete)


def plan_slices(
    *, node: Slice, resource: str, driver: str, devices: Sequence[Slice], present: Sequence[Slice]
) -> SlicePlan:
    """Return the writes after which the driver's pool on a Node has these devices.

    `present` are the driver's slices of the node as they are stored. An update has the stored resourceVersion.
    """
    parts = [devices[at : at + DEVICES_OF_A_SLICE] for at in range(0, len(devices), DEVICES_OF_A_SLICE)]
    pool = {"name": node["metadata"]["name"], "generation": 1, "resourceSliceCount": len(parts)}
    wanted = [_slice(node, resource, driver, number, pool, part) for number, part in enumerate(parts)]
    stored = {each["metadata"]["name"]: each for each in present}
    generations = {each["spec"]["pool"]["generation"] for each in present}
    names = {each["metadata"]["name"] for each in wanted}
    is_same = len(generations) <= 1 and names == stored.keys()
    if is_same and all(_content(each) == _content(stored[each["metadata"]["name"]]) for each in wanted):
        return SlicePlan()
    generation = max(generations, default=0) + 1
    create, update = [], []
    for each in wanted:
        each["spec"]["pool"]["generation"] = generation
        if (known := stored.get(each["metadata"]["name"])) is None:
            create.append(each)
        else:
            each["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            update.append(each)
    return SlicePlan(tuple(create), tuple(update), tuple(sorted(stored.keys() - names)))


def _slice(  # noqa: PLR0917 - one caller, and what its loop is about
    node: Slice, resource: str, driver: str, number: int, pool: Slice, devices: Sequence[Slice]
) -> dict[str, Any]:
    name = node["metadata"]["name"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": name,
        "uid": node["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(name, driver, number),
            "annotations": {BRIDGE_ANNOTATION: resource},
            # With the Node they go, also where nobody is left to delete them.
            "ownerReferences": [owner],
        },
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": dict(pool),
            "devices": list(devices),
        },
    }


def slice_name(node: str, driver: str, number: int) -> str:
    """Return the name of a driver's slice on a node."""
    # Without the hash, node a-b with driver c and node a with driver b-c would have the same name.
    digest = hashlib.sha256(f"{node}/{driver}".encode()).hexdigest()[:8]
    tail = f"-{driver}-{digest}-{number}"
    return f"{node[: _LONGEST_NAME - len(tail)].rstrip('.-')}{tail}"


def _content(written: Slice) -> Any:
    """Return what of a slice the bridge decides; the API server adds times to taints."""
    spec, metadata = written["spec"], written["metadata"]
    devices = [
        {
            **each,
            "taints": [
                {key: taint.get(key, "") for key in ("key", "value", "effect")}
                for taint in each.get("taints") or ()
            ],
        }
        for each in spec.get("devices") or ()
    ]
    return (
        devices,
        spec["pool"]["name"],
        spec["pool"]["resourceSliceCount"],
        (metadata.get("annotations") or {}).get(BRIDGE_ANNOTATION),
        [owner["uid"] for owner in metadata.get("ownerReferences") or ()],
    )
