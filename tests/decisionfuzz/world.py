"""Worlds at random: up to four nodes and six devices, and a gated pod with up to three claims.

What is true is kept as plain data; `World.bodies` are the same as objects on the wire.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import factories
from pod_world import allocation, named, node, pod

Body = dict[str, Any]
DRIVER: Final = "gpu.example.com"
RESOURCE: Final = "example.com/gpu"
FABRIC: Final = "fabric"
OWNED: Final = {"key": "dra-operator.io/owned", "effect": "NoSchedule"}
BROKEN: Final = {"key": "broken", "value": "fan", "effect": "NoSchedule"}
MOST_NODES: Final = 4
MOST_DEVICES: Final = 6
MOST_CLAIMS: Final = 3


@dataclass(frozen=True)
class Node:
    """A node as a pod sees it. `cpu` is what is left, in thousandths; `plugged` are devices of a device plugin."""

    name: str
    disk: str
    cpu: int
    is_tainted: bool
    is_cordoned: bool
    is_ready: bool
    plugged: int


@dataclass(frozen=True)
class Device:
    """A device. `memory` is what is left of one that can be shared, else None; `slots` is what it draws on its pool."""

    pool: str
    name: str
    model: str
    numa: int | None
    is_owned: bool
    is_broken: bool
    is_used: bool
    memory: int | None
    total_memory: int
    slots: int


@dataclass(frozen=True)
class Option:
    """One way to serve a request; `count` None stands for all devices."""

    name: str
    of_class: str
    model: str
    count: int | None
    tolerates: bool
    memory: int | None


@dataclass(frozen=True)
class Request:
    """A request, and the ways to serve it; more than one are its subrequests."""

    name: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Constraint:
    """Devices of some requests, or of all, agree in an attribute, or differ in it."""

    attribute: str
    requests: tuple[str, ...]
    is_distinct: bool


@dataclass(frozen=True)
class Claim:
    """A claim of the pod. `node` is where it is allocated already, if it is, `devices` are those that it has there."""

    name: str
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    node: str = ""
    device: Device | None = None


@dataclass
class World:
    """A cluster and its pod.

    `owns`: whether devices must be owned. `slots` is what each pool has. `wanted` is how many devices the pod asks for
    as extended resource.
    """

    nodes: list[Node] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    owns: bool = True
    wanted: int = 0
    cpu: int = 100
    disk: str = ""
    tolerates_taint: bool = False
    tolerates_cordon: bool = False

    def bodies(self) -> Iterator[Body]:
        """Yield the objects of the cluster, the pod last."""
        yield _with_resource(factories.device_class("gpu", f'device.driver == "{DRIVER}"'))
        yield factories.device_class("few", f'device.attributes["{DRIVER}"].model == "a"')
        for each in self.nodes:
            yield from _node_bodies(each)
        for pool in sorted({device.pool for device in self.devices}):
            yield from self._slice_bodies(pool)
        for number, device in enumerate(self.devices):
            if device.is_used:
                yield _holder(f"holder-{number}", device, None)
            elif device.memory is not None and device.memory < device.total_memory:
                yield _holder(f"holder-{number}", device, device.total_memory - device.memory)
        for claim in self.claims:
            yield _claim_body(claim)
        yield self._pod_body()

    def _slice_bodies(self, pool: str) -> Iterator[Body]:
        devices = [_device_body(device) for device in self.devices if device.pool == pool]
        where: Body = {"allNodes": True} if pool == FABRIC else {"nodeName": pool}
        slots = self.slots.get(pool)
        count = 1 if slots is None else 2
        yield factories.resource_slice(f"{pool}-0", devices, driver=DRIVER, pool=pool, count=count, **where)
        if slots is not None:
            body = factories.resource_slice(f"{pool}-1", [], driver=DRIVER, pool=pool, count=count, **where)
            del body["spec"]["devices"]
            sets = [{"name": "set", "counters": {"slots": {"value": str(slots)}}}]
            body["spec"]["sharedCounters"] = sets
            yield body

    def _pod_body(self) -> Body:
        spec: Body = {"schedulingGates": [{"name": "dra-operator.io/allocation"}]}
        if self.disk:
            spec["nodeSelector"] = {"disk": self.disk}
        tolerations: list[Body] = []
        if self.tolerates_taint:
            tolerations.append({"key": "dedicated", "operator": "Exists"})
        if self.tolerates_cordon:
            tolerations.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})
        if tolerations:
            spec["tolerations"] = tolerations
        entries = [named(f"e{number}", claim.name) for number, claim in enumerate(self.claims)]
        body = pod("p", *entries, cpu=f"{self.cpu}m", **spec)
        if self.wanted:
            resources = body["spec"]["containers"][0]["resources"]
            resources["limits"] = {RESOURCE: str(self.wanted)}
            resources["requests"][RESOURCE] = str(self.wanted)
        return body


def _with_resource(body: Body) -> Body:
    body["spec"]["extendedResourceName"] = RESOURCE
    return body


def _node_bodies(each: Node) -> Iterator[Body]:
    spec: Body = {}
    if each.is_tainted:
        spec["taints"] = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
    if each.is_cordoned:
        spec["unschedulable"] = True
    body = node(each.name, labels={"disk": each.disk}, cpu="4", **spec)
    if not each.is_ready:
        body["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    if each.plugged:
        body["status"]["allocatable"][RESOURCE] = str(each.plugged)
    yield body
    if each.cpu < 4000:
        yield pod(f"busy-{each.name}", cpu=f"{4000 - each.cpu}m", nodeName=each.name)


def _device_body(device: Device) -> Body:
    attributes: Body = {"model": {"string": device.model}}
    if device.numa is not None:
        attributes["numa"] = {"int": device.numa}
    body: Body = {"name": device.name, "attributes": attributes}
    taints = [OWNED] * device.is_owned + [BROKEN] * device.is_broken
    if taints:
        body["taints"] = taints
    if device.memory is not None:
        body["allowMultipleAllocations"] = True
        body["capacity"] = {"memory": {"value": str(device.total_memory)}}
    if device.slots:
        counters = {"slots": {"value": str(device.slots)}}
        body["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
    return body


def _holder(name: str, device: Device, memory: int | None) -> Body:
    result = factories.result(device.name, device.pool, driver=DRIVER)
    if memory is not None:
        result |= {"shareID": f"share-{name}", "consumedCapacity": {"memory": str(memory)}}
    status = {"allocation": {"devices": {"results": [result]}}}
    return factories.claim(name, factories.request(), status=status, namespace="team", uid=name)


def _claim_body(claim: Claim) -> Body:
    requests = [_request_body(request) for request in claim.requests]
    constraints = [
        {
            ("distinctAttribute" if each.is_distinct else "matchAttribute"): f"{DRIVER}/{each.attribute}",
            **({"requests": list(each.requests)} if each.requests else {}),
        }
        for each in claim.constraints
    ]
    status: Body = {}
    if claim.node:
        assert claim.device is not None
        held = allocation(claim.node, claim.device.name, driver=DRIVER)
        held["devices"]["results"][0]["pool"] = claim.device.pool
        status = {"allocation": held}
    return factories.claim(
        claim.name, *requests, status=status, constraints=constraints, namespace="team", uid=claim.name
    )


def _request_body(request: Request) -> Body:
    if len(request.options) == 1:
        return {"name": request.name, "exactly": _option_body(request.options[0])}
    parts = [{"name": option.name, **_option_body(option)} for option in request.options]
    return {"name": request.name, "firstAvailable": parts}


def _option_body(option: Option) -> Body:
    body: Body = {"deviceClassName": option.of_class}
    if option.count is None:
        body["allocationMode"] = "All"
    else:
        body |= {"allocationMode": "ExactCount", "count": option.count}
    if option.model:
        expression = f'device.attributes["{DRIVER}"].model == "{option.model}"'
        body["selectors"] = factories.selectors(expression)
    if option.tolerates:
        body["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    if option.memory is not None:
        body["capacity"] = {"requests": {"memory": str(option.memory)}}
    return body


def make_world(seed: object) -> World:
    """Return the world of a seed."""
    return _Maker(Random(f"decisionfuzz {seed}")).make()  # noqa: S311 - a seed makes a world repeatable


@dataclass
class _Maker:
    """Makes one world."""

    random: Random
    shares: bool = False

    def likely(self, probability: float) -> bool:
        return self.random.random() < probability

    def make(self) -> World:
        random = self.random
        world = World(owns=self.likely(0.8))
        self.shares = self.likely(0.3)
        names = [f"n{number}" for number in range(1, random.randint(1, MOST_NODES) + 1)]
        world.nodes = [self.node(name) for name in names]
        self.add_devices(world)
        world.wanted = random.choice((1, 1, 2)) if self.likely(0.15) else 0
        world.cpu = random.choice((100, 100, 1500))
        world.disk = "ssd" if self.likely(0.25) else ""
        world.tolerates_taint, world.tolerates_cordon = self.likely(0.4), self.likely(0.3)
        self.add_claims(world)
        return world

    def node(self, name: str) -> Node:
        random = self.random
        return Node(
            name,
            random.choice(("ssd", "ssd", "hdd")),
            random.choice((4000, 4000, 4000, 1000)),
            self.likely(0.15),
            self.likely(0.1),
            self.likely(0.95),
            random.choice((1, 2)) if self.likely(0.2) else 0,
        )

    def add_devices(self, world: World) -> None:
        random = self.random
        # More than one device on a node more often than by chance.
        pools = [each.name for each in random.sample(world.nodes, random.randint(1, len(world.nodes)))]
        pools += [FABRIC] if self.likely(0.25) else []
        counted = {pool for pool in pools if self.likely(0.2)}
        owned = {pool: self.likely(0.85) for pool in pools}
        for number in range(random.choice((2, 4, 5, 6, MOST_DEVICES))):
            pool = random.choice(pools)
            is_counted = pool in counted
            # Devices that share counters are owned together.
            is_owned = owned[pool] if is_counted else self.likely(0.85) is owned[pool]
            total = random.choice((4, 8))
            is_shared = self.shares and not is_counted and self.likely(0.7)
            world.devices.append(
                Device(
                    pool,
                    f"d{number}",
                    random.choice("ab"),
                    random.choice((0, 1)) if self.likely(0.9) else None,
                    world.owns and is_owned,
                    self.likely(0.1),
                    not is_shared and not is_counted and self.likely(0.1),
                    random.randint(0, total) if is_shared else None,
                    total,
                    random.choice((1, 2)) if is_counted else 0,
                )
            )
            if is_counted:
                world.slots.setdefault(pool, random.choice((1, 2, 3)))

    def add_claims(self, world: World) -> None:
        for number in range(self.random.choice((1, 1, 2, MOST_CLAIMS))):
            claim = self.claim(f"c{number}")
            free = [
                device
                for device in world.devices
                if not device.is_used and device.memory is None and not device.slots
            ]
            if free and self.likely(0.15):
                device = self.random.choice(free)
                at = self.random.choice(world.nodes).name if device.pool == FABRIC else device.pool
                used = Device(**{**vars(device), "is_used": True})
                world.devices[world.devices.index(device)] = used
                claim = Claim(claim.name, claim.requests, claim.constraints, at, used)
            world.claims.append(claim)

    def claim(self, name: str) -> Claim:
        random = self.random
        requests = tuple(self.request(f"r{number}") for number in range(random.choice((1, 1, 2))))
        constraints: tuple[Constraint, ...] = ()
        takes_all = any(option.count is None for request in requests for option in request.options)
        # A device of a request for all that breaks a constraint ends the attempt with an error.
        if not takes_all and self.likely(0.35):
            bound = (
                ()
                if self.likely(0.6)
                else tuple({random.choice(requests).name, random.choice(requests).name})
            )
            constraints = (Constraint(random.choice(("model", "numa")), bound, self.likely(0.3)),)
        return Claim(name, requests, constraints)

    def request(self, name: str) -> Request:
        several = 2 if self.likely(0.2) else 1
        return Request(
            name, tuple(self.option(f"s{number}" if several > 1 else "") for number in range(several))
        )

    def option(self, name: str) -> Option:
        random = self.random
        return Option(
            name,
            random.choice(("gpu", "gpu", "gpu", "gpu", "few")),
            random.choice(("", "", "", "", "", "", "a", "b")),
            None if self.likely(0.07) else random.choice((1, 1, 1, 1, 2)),
            self.likely(0.3),
            random.choice((1, 2, 4)) if self.likely(0.5 if self.shares else 0.01) else None,
        )
