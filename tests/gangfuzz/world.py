"""Worlds at random: up to four nodes and six devices, and a gang of up to four pods with match, topology and cpu.

What is true is kept as plain data; `World.bodies` are the same as objects on the wire.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from factories import manifest

DRIVER: Final = "gpu.example.com"
RAIL: Final = f"{DRIVER}/rail"
RACK: Final = "example.com/rack"
NAMESPACE: Final = "team"
Body = dict[str, Any]


@dataclass(frozen=True)
class Device:
    """A device of a node. `slots` is what it draws on the node's counter; `is_shared`: its memory is given in parts."""

    node: str
    name: str
    kind: str
    rail: str
    slots: int
    memory: int
    is_shared: bool
    is_used: bool


@dataclass(frozen=True)
class Option:
    """A way to serve a request: so many devices of a kind, any if it is empty, with so much memory of each."""

    kind: str
    count: int
    memory: int


@dataclass(frozen=True)
class World:
    """Nodes with cpu left and rack, devices, and pods: cpu and options each. `shared` are those of a claim of all."""

    nodes: dict[str, tuple[int, str]]
    slots: int
    devices: tuple[Device, ...]
    pods: tuple[tuple[int, tuple[Option, ...]], ...]
    shared: tuple[Option, ...]
    matches: bool
    has_topology: bool
    at_least: int

    def bodies(self) -> Iterator[Body]:
        """Yield the objects of the cluster, and the gang."""
        yield manifest(
            "DeviceClass", "gpu", {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
        )
        for name, (cpu, rack) in self.nodes.items():
            yield manifest(
                "Node",
                name,
                status={"allocatable": {"cpu": str(cpu), "pods": "110"}},
                uid=name,
                labels={RACK: rack} if rack else {},
            )
            yield from self._slices(name)
        for device in self.devices:
            if device.is_used:
                yield _holding(device)
        if self.shared:
            yield {**_spec(self.shared, "ResourceClaim"), "metadata": {"name": "all", "namespace": NAMESPACE}}
        spec: Body = {"schedulingPolicy": {"gang": {"minCount": self.at_least}}}
        if self.has_topology:
            spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
        yield {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": NAMESPACE},
            "spec": spec,
        }
        for number, (cpu, options) in enumerate(self.pods):
            yield from self._pod(number, cpu, options)

    def _slices(self, node: str) -> Iterator[Body]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
        common = {"driver": DRIVER, "nodeName": node, "pool": pool}
        counters = [{"name": "set", "counters": {"slots": {"value": str(self.slots)}}}]
        of_node = [each for each in self.devices if each.node == node]
        for name, rest in (
            ("counters", {"sharedCounters": counters}),
            ("devices", {"devices": list(map(_device, of_node))}),
        ):
            metadata = {"name": f"{node}-{name}"}
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": metadata,
                "spec": {**common, **rest},
            }

    def _pod(self, number: int, cpu: int, options: tuple[Option, ...]) -> Iterator[Body]:
        entries = []
        if self.shared:
            entries.append({"name": "all", "resourceClaimName": "all"})
        if options:
            entries.append({"name": "own", "resourceClaimTemplateName": f"t{number}"})
            template = _spec(options, "ResourceClaimTemplate")
            yield {**template, "metadata": {"name": f"t{number}", "namespace": NAMESPACE}}
        annotations = {"dra-operator.io/gang-match": RAIL} if self.matches else {}
        resources = {"requests": {"cpu": str(cpu)}}
        yield manifest(
            "Pod",
            f"p{number}",
            {
                "schedulingGroup": {"podGroupName": "gang"},
                "containers": [{"name": "c", "image": "i", "resources": resources}],
                "resourceClaims": entries,
            },
            namespace=NAMESPACE,
            annotations=annotations,
        )


def _device(device: Device) -> Body:
    attributes = {"kind": {"string": device.kind}}
    if device.rail:
        attributes["rail"] = {"string": device.rail}
    body: Body = {
        "name": device.name,
        "attributes": attributes,
        "capacity": {"memory": {"value": str(device.memory)}},
    }
    if device.slots:
        counters = {"slots": {"value": str(device.slots)}}
        body["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
    if device.is_shared:
        body["allowMultipleAllocations"] = True
    return body


def _spec(options: tuple[Option, ...], kind: str) -> Body:
    bodies = []
    for number, option in enumerate(options):
        body: Body = {
            "name": f"o{number}",
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": option.count,
            "capacity": {"requests": {"memory": str(option.memory)}},
        }
        if option.kind:
            text = f'device.attributes["{DRIVER}"].kind == "{option.kind}"'
            body["selectors"] = [{"cel": {"expression": text}}]
        bodies.append(body)
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": bodies}]}}
    is_claim = kind == "ResourceClaim"
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec if is_claim else {"spec": spec}}


def _holding(device: Device) -> Body:
    result: Body = {"request": "r/o0", "driver": DRIVER, "pool": device.node, "device": device.name}
    if device.is_shared:
        memory = {"memory": str(device.memory)}
        result |= {"shareID": "00000000-0000-4000-8000-000000000000", "consumedCapacity": memory}
    body = _spec((Option("", 1, 1),), "ResourceClaim")
    metadata = {"name": f"held-{device.node}-{device.name}", "namespace": NAMESPACE}
    return {**body, "metadata": metadata, "status": {"allocation": {"devices": {"results": [result]}}}}


def make_world(seed: str) -> World:
    """Return the world of a seed."""
    random = Random(seed)  # noqa: S311 - a case of a seed
    names = [f"n{number}" for number in range(random.randint(1, 4))]
    racks = ["r1", "r2", "r2", ""]
    nodes = {name: (random.randint(1, 3), random.choice(racks)) for name in names}
    has_shares, has_partitions = random.random() < 0.4, random.random() < 0.5
    devices = [
        Device(
            random.choice(names),
            f"d{number}",
            random.choice("aab"),
            random.choice(["x", "x", "y", ""]),
            random.randint(1, 2) if has_partitions else 0,
            random.randint(1, 3),
            has_shares and random.random() < 0.5,
            random.random() < 0.1,
        )
        for number in range(random.randint(1, 6))
    ]
    # One in use on each node, so that counters are not drawn on beyond what they have.
    used = {each.node: each.name for each in devices if each.is_used}
    devices = [replace(each, is_used=used.get(each.node) == each.name) for each in devices]

    def options() -> tuple[Option, ...]:
        most = 1 if has_shares else 2
        return tuple(
            [
                Option(random.choice(["a", "b", ""]), random.randint(1, most), random.randint(1, 2))
                for _ in range(random.randint(1, 2))
            ]
        )

    is_equal, same = random.random() < 0.5, options()
    size = random.randint(1, 4)
    pods = []
    for _ in range(size):
        own = same if is_equal else options() if random.random() < 0.9 else ()
        pods.append((random.choice([0, 1, 1, 2]) if not is_equal else 1, own))
    return World(
        nodes,
        random.randint(2, 3),
        tuple(devices),
        tuple(pods),
        options() if random.random() < 0.15 else (),
        random.random() < 0.4,
        random.random() < 0.4,
        random.choice([0, 0, size, max(1, size - 1)]),
    )
