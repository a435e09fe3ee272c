"""Clusters at random in which nothing is wrong: objects as on the wire, small, with most that a cluster can have.

Admin access, shares, partitions, binding conditions, old generations, devices owned and not, pods that run, wait, have
ended and are gated. Devices are given by plain counting, without the package.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import factories
from factories import manifest, request

Body = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
GPU, NIC = "gpu.example.com", "nic.example.com"
OWNED = "dra-operator.io/owned"
GATE = "dra-operator.io/allocation"
PENDING = "dra-operator.io/pending"
FINALIZER = "resource.kubernetes.io/delete-protection"
NAMESPACES = ("team-a", "team-b", "monitoring")
ADMIN = "monitoring"
RESOURCE = "example.com/gpu"


def ago(**duration: float) -> str:
    """Return a time before now, as the API server writes it."""
    return (NOW - timedelta(**duration)).isoformat().replace("+00:00", "Z")


@dataclass
class Device:
    """A published device, and what is left of it. `sets` are the counters that it draws on, with amounts."""

    driver: str
    pool: str
    name: str
    node: str
    is_owned: bool
    memory: int = 0
    is_shareable: bool = False
    draws: dict[str, int] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)


@dataclass
class World:
    """The objects of a cluster by kind, namespace and name; devices, and what is left of counters and capacities."""

    random: Random
    objects: dict[tuple[str, str, str], Body] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    held: set[tuple[str, str]] = field(default_factory=set)
    left: Counter[tuple[str, ...]] = field(default_factory=Counter)
    serial: int = 0

    @property
    def bodies(self) -> list[Body]:
        """All objects."""
        return [*self.objects.values()]

    def put(self, body: Body) -> Body:
        """Add an object, or replace it."""
        metadata = body["metadata"]
        self.objects[body["kind"], metadata.get("namespace", ""), metadata["name"]] = body
        return body

    def of_kind(self, kind: str) -> list[Body]:
        """Return the objects of a kind."""
        return [body for key, body in self.objects.items() if key[0] == kind]

    def number(self) -> int:
        """Return another number each time."""
        self.serial += 1
        return self.serial

    def sometimes(self, probability: float) -> bool:
        """Return true now and then."""
        return self.random.random() < probability

    def is_free(self, device: Device) -> bool:
        """Return whether a claim could have a device for itself alone."""
        return (device.pool, device.name) not in self.held and all(
            self.left[device.pool, name] >= amount for name, amount in device.draws.items()
        )

    # --- claims and pods

    def take(self, device: Device, share: int = 0) -> Body:
        """Return the result that gives a device, or a share of it, to a claim."""
        fields: Body = {}
        if device.conditions:
            fields |= {"bindingConditions": device.conditions, "bindingFailureConditions": ["Failed"]}
        if device.is_shareable:
            number = self.number()
            fields |= {
                "shareID": f"00000000-0000-4000-8000-{number:012}",
                "consumedCapacity": {"memory": f"{share}Gi"},
            }
            self.left[device.pool, device.name, "memory"] -= share
        else:
            self.held.add((device.pool, device.name))
            for name, amount in device.draws.items():
                self.left[device.pool, name] -= amount
        return factories.result(device.name, device.pool, driver=device.driver, **fields)

    def choose(self, node: str, *, owned: bool, count: int = 1) -> list[Body]:
        """Return results for some devices that pods on a node can use; none if there are not so many."""
        found: list[Body] = []
        candidates = [
            device for device in self.devices if device.node in ("", node) and device.is_owned == owned
        ]
        self.random.shuffle(candidates)
        for device in candidates:
            if len(found) == count:
                break
            if device.is_shareable:
                left = self.left[device.pool, device.name, "memory"]
                if left > 1:
                    found.append(self.take(device, self.random.randint(1, left - 1)))
            elif self.is_free(device):
                found.append(self.take(device))
        return found

    def allocation(self, node: str, results: list[Body], time: str | None) -> Body:
        """Return an allocation of devices, pinned to a node unless all of them are for every node."""
        names = {(device.driver, device.pool, device.name): device.node for device in self.devices}
        is_pinned = any(
            names.get((item["driver"], item["pool"], item["device"]), item["pool"]) for item in results
        )
        body = factories.allocation(*results, node=node)
        if not is_pinned:
            del body["nodeSelector"]
        return body | ({} if time is None else {"allocationTimestamp": time})

    def claim(self, namespace: str, allocation: Body | None = None, **metadata: Any) -> Body:
        """Add a claim, with as many requests as its allocation has results."""
        name = metadata.pop("name", f"claim-{self.number()}")
        results = allocation["devices"]["results"] if allocation else [{"request": "gpu", "driver": GPU}]
        requests = []
        for number, item in enumerate(results):
            item["request"] = f"r{number}"
            asked = request(f"r{number}", item["driver"].partition(".")[0])
            if item.get("adminAccess"):
                asked["exactly"]["adminAccess"] = True
            if item.get("consumedCapacity"):
                asked["exactly"]["capacity"] = {"requests": item["consumedCapacity"]}
            requests.append(asked)
        status = {"allocation": allocation} if allocation else {}
        if allocation:
            metadata["finalizers"] = [FINALIZER]
        uid = f"uid-{name}"
        times = {"creationTimestamp": metadata.pop("created", ago(hours=20))}
        return self.put(
            factories.claim(name, *requests, status=status, namespace=namespace, uid=uid, **times, **metadata)
        )

    def pod(
        self, namespace: str, claims: list[Body], *, node: str = "", phase: str = "", **fields: Any
    ) -> Body:
        """Add a pod that uses some claims and, if it has a node, has them reserved."""
        name = fields.pop("name", f"pod-{self.number()}")
        entries = [
            {"name": f"c{number}", "resourceClaimName": claim["metadata"]["name"]}
            for number, claim in enumerate(claims)
        ]
        owner = fields.pop("owner", "")
        metadata: Body = {"namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": ago(hours=19)}
        metadata |= fields.pop("metadata", {})
        if owner:
            metadata["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "owner", "controller": True}
            ]
        body = factories.pod(name, *entries, **metadata)
        body["spec"] |= {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
        }
        body["spec"] |= fields.pop("spec", {}) | ({"nodeName": node} if node else {})
        body["status"] = {"phase": phase or ("Running" if node else "Pending")} | fields.pop("status", {})
        if node and phase not in ("Succeeded", "Failed"):
            for claim in claims:
                self.reserve(claim, name)
        return self.put(body)

    def reserve(self, claim: Body, pod: str) -> None:
        """Reserve a claim for a pod."""
        entry = {"resource": "pods", "name": pod, "uid": f"uid-{pod}"}
        claim["status"].setdefault("reservedFor", []).append(entry)


def make_world(seed: object) -> World:
    """Return the world of a seed."""
    world = World(Random(f"world {seed}"))  # noqa: S311 - a seed makes a world repeatable
    _put_nodes(world)
    _put_classes(world)
    _put_pools(world)
    _put_claims(world)
    _put_waiting(world)
    lease = {"holderIdentity": "operator-0", "renewTime": ago(seconds=1), "leaseDurationSeconds": 15}
    metadata = {"name": "dra-operator", "namespace": "dra-operator", "uid": "uid-lease"}
    world.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease})
    return world


def _put_nodes(world: World) -> None:
    world.nodes = [f"node-{number}" for number in range(world.random.randint(2, 4))]
    for name in world.nodes:
        spec = {"unschedulable": True} if world.sometimes(0.1) else {}
        status = {
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        labels = {"kubernetes.io/hostname": name}
        world.put(manifest("Node", name, spec, status=status, labels=labels, uid=f"uid-{name}"))
    for name in NAMESPACES:
        labels = {"resource.kubernetes.io/admin-access": "true"} if name == ADMIN else {}
        world.put(manifest("Namespace", name, labels=labels))


def _put_classes(world: World) -> None:
    for name, driver in (("gpu", GPU), ("nic", NIC)):
        body = factories.device_class(name, f'device.driver == "{driver}"')
        if name == "gpu" and world.sometimes(0.7):
            body["spec"]["extendedResourceName"] = RESOURCE
        world.put(body)
    world.put(
        factories.device_class(
            "large",
            f'device.driver == "{GPU}"',
            'device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0',
        )
    )


def _put_pools(world: World) -> None:
    kinds = ["plain", "plain", "shared", "partitions"]
    for node in world.nodes:
        kind = world.random.choice(kinds)
        is_owned = world.sometimes(0.4)
        _PUBLISHERS[kind](world, node, is_owned=is_owned)
    _publish_fabric(world)


def _own(world: World, pool: str, *, is_owned: bool) -> list[Body]:
    """Return the taints that slices of a pool publish, if they own it by themselves; else a rule may own it."""
    if not is_owned:
        return []
    if world.sometimes(0.3):
        return [{"key": OWNED, "effect": "NoSchedule", "timeAdded": ago(days=7)}]
    rule = factories.taint_rule(
        f"own-{pool}",
        {"driver": GPU, "pool": pool},
        key=OWNED,
        uid=f"uid-own-{pool}",
        creationTimestamp=ago(days=7),
    )
    world.put(rule)
    return []


def _publish(world: World, pool: str, devices: list[Body], *, driver: str = GPU, **fields: Any) -> None:
    """Publish devices in one slice or two, sometimes with what is left of an older generation."""
    generation = world.random.randint(1, 3)
    where = fields.pop("where", {"nodeName": pool})
    parts = [devices[:1], devices[1:]] if len(devices) > 1 and world.sometimes(0.3) else [devices]
    extra = 1 if fields else 0
    for number, part in enumerate(parts):
        body = factories.resource_slice(
            f"{pool}-{number}", part, driver=driver, pool=pool, generation=generation,
            count=len(parts) + extra, **where,
        )  # fmt: skip
        world.put(body)
    if fields:
        place = {"name": pool, "generation": generation, "resourceSliceCount": len(parts) + 1}
        world.put(
            manifest(
                "ResourceSlice", f"{pool}-counters", {"driver": driver, "pool": place, **where, **fields}
            )
        )
    if generation > 1 and world.sometimes(0.5):
        old = [{"name": "gone"}, *devices[:1]]
        world.put(
            factories.resource_slice(
                f"{pool}-old", old, driver=driver, pool=pool, generation=generation - 1, count=1, **where
            )
        )


def _publish_plain(world: World, node: str, *, is_owned: bool) -> None:
    taints, bodies = _own(world, node, is_owned=is_owned), []
    for number in range(world.random.randint(2, 5)):
        memory = world.random.choice([10, 20, 40])
        body: Body = {"name": f"gpu-{number}", "capacity": {"memory": {"value": f"{memory}Gi"}}}
        marks = [*taints]
        if world.sometimes(0.15):
            marks.append({"key": "maintenance", "effect": world.random.choice(["NoSchedule", "None"])})
        bodies.append(body | ({"taints": marks} if marks else {}))
        world.devices.append(Device(GPU, node, body["name"], node, is_owned, memory))
    _publish(world, node, bodies)


def _publish_shared(world: World, node: str, *, is_owned: bool) -> None:
    taints, bodies = _own(world, node, is_owned=is_owned), []
    for number in range(world.random.randint(1, 3)):
        memory = world.random.choice([20, 40])
        body: Body = {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": f"{memory}Gi"}},
        }
        bodies.append(body | ({"taints": taints} if taints else {}))
        device = Device(GPU, node, body["name"], node, is_owned, memory, is_shareable=True)
        world.devices.append(device)
        world.left[node, device.name, "memory"] = memory
    _publish(world, node, bodies)


def _publish_partitions(world: World, node: str, *, is_owned: bool) -> None:
    """Publish a GPU that is used whole or in quarters."""
    taints, bodies = _own(world, node, is_owned=is_owned), []
    world.left[node, "gpu"] = 4
    for name, amount in (("whole", 4), ("part-0", 1), ("part-1", 1), ("part-2", 1), ("part-3", 1)):
        uses = [{"counterSet": "gpu", "counters": {"slots": {"value": str(amount)}}}]
        body: Body = {
            "name": name,
            "consumesCounters": uses,
            "capacity": {"memory": {"value": f"{10 * amount}Gi"}},
        }
        bodies.append(body | ({"taints": taints} if taints else {}))
        world.devices.append(Device(GPU, node, name, node, is_owned, 10 * amount, draws={"gpu": amount}))
    counters = [{"name": "gpu", "counters": {"slots": {"value": "4"}}}]
    _publish(world, node, bodies, sharedCounters=counters)


def _publish_fabric(world: World) -> None:
    """Publish devices that every node can use, some of which must be attached first."""
    bodies = []
    for number in range(world.random.randint(1, 3)):
        body: Body = {"name": f"nic-{number}"}
        conditions = ["Attached"] if world.sometimes(0.5) else []
        if conditions:
            body |= {
                "bindingConditions": conditions,
                "bindingFailureConditions": ["Failed"],
                "bindsToNode": True,
            }
        bodies.append(body)
        node = ""
        world.devices.append(Device(NIC, "fabric", body["name"], node, False, conditions=conditions))
    _publish(world, "fabric", bodies, driver=NIC, where={"allNodes": True})


_PUBLISHERS = {"plain": _publish_plain, "shared": _publish_shared, "partitions": _publish_partitions}


def _put_claims(world: World) -> None:
    for node in world.nodes:
        for _ in range(world.random.randint(1, 3)):
            _put_pod_claims(world, node)
        if world.sometimes(0.7) and (
            results := world.choose(node, owned=True, count=world.random.randint(1, 2))
        ):
            _put_standalone(world, node, results)
        if world.sometimes(0.5):
            _put_monitor(world, node)


def _put_pod_claims(world: World, node: str) -> None:
    """Add a pod that has devices which kube-scheduler gave it."""
    namespace = world.random.choice(NAMESPACES[:2])
    time = world.random.choice([None, ago(days=3), ago(hours=1)])
    claims = [
        world.claim(namespace, world.allocation(node, results, time))
        for results in [world.choose(node, owned=False) for _ in range(world.random.choice([1, 1, 2]))]
        if results
    ]
    if claims:
        phase = world.random.choice(["Running", "Running", "Running", "Pending"])
        owner = world.random.choice(["ReplicaSet", "Job", "DaemonSet", ""])
        world.pod(namespace, claims, node=node, phase=phase, owner=owner)


def _put_standalone(world: World, node: str, results: list[Body]) -> None:
    """Add a claim that the operator decided: not used yet, used by a pod, or being deleted since a moment ago."""
    namespace = world.random.choice(NAMESPACES[:2])
    fate = world.random.choice(["unused", "used", "deleted", "finished"])
    time = ago(hours=world.random.randint(1, 23)) if fate == "unused" else ago(days=3)
    if fate == "finished":
        time = ago(hours=2)
    leaving = {"deletionTimestamp": ago(minutes=2)} if fate == "deleted" else {}
    claim = world.claim(namespace, world.allocation(node, results, time), created=ago(days=4), **leaving)
    if fate in ("used", "deleted"):
        world.pod(namespace, [claim], node=node)
    elif fate == "finished":
        world.pod(namespace, [claim], node=node, phase=world.random.choice(["Succeeded", "Failed"]))


def _put_monitor(world: World, node: str) -> None:
    """Add a pod that has admin access to all GPUs of a node, for weeks; sometimes it is gone and its claim is not."""
    devices = [device for device in world.devices if device.node == node and device.driver == GPU]
    results = [factories.result(item.name, item.pool, driver=GPU, adminAccess=True) for item in devices]
    claim = world.claim(ADMIN, world.allocation(node, results, ago(days=20)), created=ago(days=20))
    if world.sometimes(0.8):
        world.pod(ADMIN, [claim], node=node, owner="DaemonSet")


def _put_waiting(world: World) -> None:
    """Add claims and pods that wait, gated ones among them, and one that is nominated."""
    namespace = NAMESPACES[0]
    world.claim(namespace, annotations={PENDING: "NoDevices: all are in use"})
    world.pod(namespace, [world.claim(namespace)])
    gated = {"schedulingGates": [{"name": GATE}]}
    waiting = world.claim(namespace, annotations={PENDING: "NoDevices: all are in use"})
    world.pod(namespace, [waiting], spec=gated)
    recent = {"metadata": {"creationTimestamp": ago(minutes=1)}}
    world.pod(namespace, [world.claim(namespace, created=ago(minutes=1))], spec=gated, **recent)
    both = {"schedulingGates": [{"name": GATE}, {"name": "kueue.x-k8s.io/admission"}]}
    world.pod(namespace, [world.claim(namespace)], spec=both)
    node = world.random.choice(world.nodes)
    if results := world.choose(node, owned=False):
        claim = world.claim(namespace, world.allocation(node, results, ago(minutes=1)))
        world.pod(namespace, [claim], status={"nominatedNodeName": node})
    spec = {"spec": {"devices": {"requests": [request("gpu", "large")]}}}
    world.put(manifest("ResourceClaimTemplate", "train", spec, namespace=namespace))
