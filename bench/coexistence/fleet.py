"""The fleet: nodes with plain, partitionable and shareable devices, half of them the operator's.

A side has plain nodes with four devices each, two nodes with a partitionable device (four partitions that draw on one
counter of 4) and one with four shareable devices of capacity 8. Besides there are nodes of which two of four plain
devices are owned: they serve nobody's request for all devices.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from live.objects import API, Body
from live.objects import node as live_node

from coexistence.ownership import rule

DRIVER = "bench.example.com"
KINDS = ("plain", "partition", "share")
PARTITIONS = {"whole": 4, "half-0": 2, "half-1": 2, "quarter": 1}
PER_NODE = 4
MIXED = 4
"""How many nodes are half the operator's."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is created: `plain` is the number of plain nodes of each side."""

    plain: int

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return 2 * PER_NODE * (self.plain + 3) + PER_NODE * MIXED

    def classes(self) -> list[Body]:
        """Return one class for each kind of device."""
        return [
            {
                "metadata": {"name": kind},
                "spec": {
                    "selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}]
                },
            }
            for kind in KINDS
        ]

    def pools(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the kind of each node; each has one pool of its own name."""
        for side in ("own", "other"):
            for number in range(self.plain):
                yield f"{side}-{number:02}", "plain"
            for number in range(2):
                yield f"{side}-parts-{number}", "partition"
            yield f"{side}-shares", "share"
        for number in range(MIXED):
            yield f"mixed-{number}", "plain"

    def nodes(self) -> list[Body]:
        """Return the nodes."""
        return [live_node(name) for name, _ in self.pools()]

    def slices(self) -> list[Body]:
        """Return the slices of all nodes."""
        return [body for name, kind in self.pools() for body in _slices(name, kind)]

    def rules(self) -> list[Body]:
        """Return the rules that make half of the devices the operator's."""
        names = [name for name, _ in self.pools()]
        whole = [rule(name, driver=DRIVER, pool=name) for name in names if name.startswith("own-")]
        half = [
            rule(f"{name}-{number}", driver=DRIVER, pool=name, device=f"gpu-{number}")
            for name in names
            if name.startswith("mixed-")
            for number in range(PER_NODE // 2)
        ]
        return whole + half


def _slices(node: str, kind: str) -> list[Body]:
    if kind == "partition":
        counters = [{"name": "gpu", "counters": {"slots": {"value": str(max(PARTITIONS.values()))}}}]
        devices = [
            _device(name, kind)
            | {"consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": str(size)}}}]}
            for name, size in PARTITIONS.items()
        ]
        return [
            _slice(node, f"{node}-counters", 2, {"sharedCounters": counters}),
            _slice(node, node, 2, {"devices": devices}),
        ]
    devices = [_device(f"gpu-{number}", kind) for number in range(PER_NODE)]
    if kind == "share":
        room = {"value": "8", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}}
        devices = [
            device | {"allowMultipleAllocations": True, "capacity": {"units": room}} for device in devices
        ]
    return [_slice(node, node, 1, {"devices": devices})]


def _device(name: str, kind: str) -> Body:
    return {"name": name, "attributes": {"kind": {"string": kind}}}


def _slice(node: str, name: str, count: int, content: Body) -> Body:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
    return {"metadata": {"name": name}, "spec": spec}


SLICES = f"{API}/resourceslices"
CLASSES = f"{API}/deviceclasses"
