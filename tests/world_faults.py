"""Faults put into a world in which nothing is wrong: at least two of each sort, each with what an audit must find.

A fault returns the findings that it causes, by sort, kind, namespace and name, or nothing where the world has no place
for it. It causes no others.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import clean_worlds as worlds
import factories
from clean_worlds import GPU, NIC, World, ago
from factories import manifest

Body = dict[str, Any]
Found = set[tuple[str, str, str, str]]
Fault = Callable[[World], Found | None]
FAULTS: dict[str, list[Fault]] = {}


def of_sort(sort: str) -> Callable[[Fault], Fault]:
    """Enter a fault under its sort."""

    def enter(fault: Fault) -> Fault:
        FAULTS.setdefault(sort, []).append(fault)
        return fault

    return enter


def about(sort: str, body: Body) -> Found:
    """Return the finding about an object."""
    metadata = body["metadata"]
    return {(sort, body["kind"], metadata.get("namespace", ""), metadata["name"])}


def of_device(sort: str, item: Body) -> Found:
    """Return the finding about a device that a result names."""
    return {(sort, "Device", "", f"{item['driver']}/{item['pool']}/{item['device']}")}


def held(world: World, *, share: bool, counted: bool = False) -> tuple[Body, Body] | None:
    """Return a claim in use and the result that gives it a device of its own, or a share, on a node that is there."""
    draws = {(device.pool, device.name) for device in world.devices if device.draws}
    for claim in world.of_kind("ResourceClaim"):
        if claim["metadata"].get("deletionTimestamp"):
            continue
        for item in results(claim):
            if item.get("adminAccess") or bool(item.get("shareID")) != share:
                continue
            if ((item["pool"], item["device"]) in draws) == counted:
                return claim, item
    return None


def results(claim: Body) -> list[Body]:
    """Return the results of the allocation of a claim."""
    return (claim["status"].get("allocation") or {}).get("devices", {}).get("results", [])


def holding(world: World, item: Body, *, time: str | None = None, **metadata: Any) -> Body:
    """Add a claim that is used by a pod and holds what another one has."""
    given = {
        name: item[name]
        for name in ("driver", "pool", "device", "shareID", "consumedCapacity")
        if name in item
    }
    node = "" if item["driver"] == NIC else item["pool"]
    allocation = world.allocation(node or world.nodes[0], [{"request": "", **given}], time or ago(hours=1))
    claim = world.claim("team-b", allocation, **metadata)
    world.pod("team-b", [claim], node=node or world.nodes[0])
    return claim


def free_device(world: World, *, owned: bool | None = None, plain: bool = True) -> worlds.Device | None:
    """Return a device of a node that nobody has."""
    for device in world.devices:
        is_plain = not (device.is_shareable or device.draws)
        if device.node and world.is_free(device) and is_plain == plain and owned in (None, device.is_owned):
            return device
    return None


def allocated(
    world: World, device: worlds.Device, *, time: str | None, namespace: str = "team-a", **metadata: Any
) -> Body:
    """Add a claim that holds a device and is reserved for nobody."""
    item = {"request": "", "driver": device.driver, "pool": device.pool, "device": device.name}
    return world.claim(namespace, world.allocation(device.node or world.nodes[0], [item], time), **metadata)


def in_use(world: World, claim: Body, node: str) -> Body:
    """Add a pod that uses a claim."""
    return world.pod(claim["metadata"]["namespace"], [claim], node=node)


# --- held twice


@of_sort("TwoHolders")
def second_claim_on_a_device(world: World) -> Found | None:
    if (found := held(world, share=False)) is None:
        return None
    holding(world, found[1])
    return of_device("TwoHolders", found[1])


@of_sort("TwoHolders")
def second_claim_on_a_partition(world: World) -> Found | None:
    if (found := held(world, share=False, counted=True)) is None:
        return None
    holding(world, found[1])
    return of_device("TwoHolders", found[1])


@of_sort("ExclusiveBesideShares")
def whole_device_beside_a_share(world: World) -> Found | None:
    if (found := held(world, share=True)) is None:
        return None
    item = {name: value for name, value in found[1].items() if name not in ("shareID", "consumedCapacity")}
    holding(world, item)
    return of_device("ExclusiveBesideShares", item)


@of_sort("ExclusiveBesideShares")
def share_of_a_device_that_has_a_holder(world: World) -> Found | None:
    if (found := held(world, share=False)) is None or found[1]["driver"] != GPU:
        return None
    share = {"shareID": "00000000-0000-4000-8000-00000000ffff", "consumedCapacity": {"memory": "1Gi"}}
    holding(world, {**found[1], **share})
    return of_device("ExclusiveBesideShares", found[1])


# --- overdrawn


def _counter_slice(world: World) -> Body | None:
    return next((body for body in world.of_kind("ResourceSlice") if body["spec"].get("sharedCounters")), None)


def _holding_partition(world: World, pool: str, name: str) -> None:
    holding(world, {"driver": GPU, "pool": pool, "device": name})


@of_sort("Overdrawn")
def whole_and_parts_in_use(world: World) -> Found | None:
    body = _counter_slice(world)
    if body is None:
        return None
    pool = body["spec"]["pool"]["name"]
    added = [name for name in ("whole", "part-0") if (pool, name) not in world.held]
    for name in added:
        _holding_partition(world, pool, name)
    return about("Overdrawn", body) if added else None


@of_sort("Overdrawn")
def fewer_slots_than_are_used(world: World) -> Found | None:
    body = _counter_slice(world)
    if body is None or not any(pool == body["spec"]["pool"]["name"] for pool, _ in world.held):
        return None
    body["spec"]["sharedCounters"][0]["counters"]["slots"]["value"] = "0"
    return about("Overdrawn", body)


@of_sort("Overdrawn")
def share_beyond_what_there_is(world: World) -> Found | None:
    if (found := held(world, share=True)) is None:
        return None
    holding(
        world,
        {
            **found[1],
            "shareID": "00000000-0000-4000-8000-00000000fffd",
            "consumedCapacity": {"memory": "40Gi"},
        },
    )
    return about("Overdrawn", _slice_of(world, found[1]))


@of_sort("Overdrawn")
def device_smaller_than_its_shares(world: World) -> Found | None:
    if (found := held(world, share=True)) is None:
        return None
    body = _slice_of(world, found[1])
    for device in body["spec"]["devices"]:
        if device["name"] == found[1]["device"]:
            device["capacity"]["memory"]["value"] = "0"
    return about("Overdrawn", body)


def _slice_of(world: World, item: Body) -> Body:
    """Return the slice of the newest generation that has the device of a result."""
    found = [
        body
        for body in world.of_kind("ResourceSlice")
        if (body["spec"]["driver"], body["spec"]["pool"]["name"]) == (item["driver"], item["pool"])
        and any(device["name"] == item["device"] for device in body["spec"].get("devices", ()))
    ]
    return max(found, key=lambda body: body["spec"]["pool"]["generation"])


# --- not there


@of_sort("NotPublished")
def device_that_only_an_old_generation_has(world: World) -> Found | None:
    old = next(
        (body for body in world.of_kind("ResourceSlice") if body["metadata"]["name"].endswith("-old")), None
    )
    if old is None:
        return None
    spec = old["spec"]
    claim = holding(world, {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": "gone"})
    return about("NotPublished", claim)


@of_sort("NotPublished")
def device_of_a_pool_that_is_gone(world: World) -> Found | None:
    item = {"driver": "fpga.example.com", "pool": "rack", "device": "fpga-0"}
    allocation = factories.allocation(factories.result(**item), allocationTimestamp=ago(hours=1))
    del allocation["nodeSelector"]
    claim = world.put(
        factories.claim("lost", status={"allocation": allocation}, namespace="team-a", uid="uid-lost")
    )
    world.reserve(claim, world.pod("team-a", [], node=world.nodes[0])["metadata"]["name"])
    return about("NotPublished", claim)


@of_sort("NotPublished")
def device_that_left_its_slice(world: World) -> Found | None:
    if (found := held(world, share=False)) is None:
        return None
    body = _slice_of(world, found[1])
    devices = body["spec"]["devices"]
    body["spec"]["devices"] = [each for each in devices if each["name"] != found[1]["device"]]
    holders = [
        claim
        for claim in world.of_kind("ResourceClaim")
        if any(
            (each["driver"], each["pool"], each["device"])
            == (found[1]["driver"], found[1]["pool"], found[1]["device"])
            for each in results(claim)
        )
    ]
    return {each for claim in holders for each in about("NotPublished", claim)}


def _lost_node(world: World, *, unused: bool = False, namespace: str = "team-a", **fields: Any) -> Body:
    item = factories.result("nic-x", "fabric", driver=NIC)
    device = next(device for device in world.devices if device.driver == NIC)
    item["device"] = device.name
    item["adminAccess"] = True
    allocation = factories.allocation(item, node="node-9", allocationTimestamp=ago(hours=3))
    claim = world.claim(namespace, allocation, **fields)
    if not unused:
        world.reserve(claim, world.pod(namespace, [], node=world.nodes[0])["metadata"]["name"])
    return claim


@of_sort("NodeGone")
def allocation_for_a_node_that_is_gone(world: World) -> Found | None:
    return about("NodeGone", _lost_node(world))


@of_sort("NodeGone")
def node_is_gone_with_its_slices(world: World) -> Found | None:
    item = {"driver": GPU, "pool": "node-8", "device": "gpu-0"}
    allocation = factories.allocation(
        factories.result(**item), node="node-8", allocationTimestamp=ago(hours=1)
    )
    claim = world.put(
        factories.claim("stranded", status={"allocation": allocation}, namespace="team-a", uid="uid-stranded")
    )
    return about("NodeGone", claim)


# --- reservations


def _used(world: World) -> Body | None:
    claims = world.of_kind("ResourceClaim")
    return next(
        (
            each
            for each in claims
            if each["status"].get("reservedFor") and not each["metadata"].get("deletionTimestamp")
        ),
        None,
    )


@of_sort("ConsumerGone")
def reserved_for_a_pod_that_is_gone(world: World) -> Found | None:
    if (claim := _used(world)) is None:
        return None
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "lost", "uid": "uid-lost"})
    return about("ConsumerGone", claim)


@of_sort("ConsumerGone")
def reserved_for_an_earlier_pod_of_the_name(world: World) -> Found | None:
    if (claim := _used(world)) is None:
        return None
    claim["status"]["reservedFor"][0]["uid"] = "uid-of-yesterday"
    return about("ConsumerGone", claim)


@of_sort("ConsumerGone")
def reserved_for_a_pod_of_another_namespace(world: World) -> Found | None:
    if (claim := _used(world)) is None:
        return None
    world.pod("monitoring", [], name="elsewhere", node=world.nodes[0])
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "elsewhere", "uid": "uid-elsewhere"})
    return about("ConsumerGone", claim)


@of_sort("ConsumerGone")
def reserved_for_a_group_that_is_gone(world: World) -> Found | None:
    if (claim := _used(world)) is None:
        return None
    api = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    world.put({**api, "metadata": {"name": "ring", "namespace": "team-a", "uid": "uid-ring"}, "spec": {}})
    entry = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "chain", "uid": "uid-chain"}
    claim["status"]["reservedFor"].append(entry)
    return about("ConsumerGone", claim)


# --- deletions


@of_sort("DeletionHangs")
def claim_that_a_pod_still_uses(world: World) -> Found | None:
    if (claim := _used(world)) is None:
        return None
    claim["metadata"]["deletionTimestamp"] = ago(hours=1)
    return about("DeletionHangs", claim)


@of_sort("DeletionHangs")
def claim_that_nobody_clears(world: World) -> Found | None:
    device = free_device(world)
    if device is None:
        return None
    claim = allocated(world, device, time=ago(hours=2), deletionTimestamp=ago(minutes=20))
    return about("DeletionHangs", claim)


@of_sort("DeletionHangs")
def pod_on_a_silent_node(world: World) -> Found | None:
    if (claim := _used(world)) is None:
        return None
    names = {entry["name"] for entry in claim["status"]["reservedFor"]}
    pod = next(each for each in world.of_kind("Pod") if each["metadata"]["name"] in names)
    pod["metadata"]["deletionTimestamp"] = ago(minutes=30)
    return about("DeletionHangs", pod)


@of_sort("DeletionHangs")
def rule_that_no_operator_lets_go(world: World) -> Found | None:
    rule = factories.taint_rule(
        "leaving", {"driver": "fpga.example.com"}, key=worlds.OWNED, uid="uid-leaving",
        deletionTimestamp=ago(hours=5), finalizers=[worlds.OWNED],
    )  # fmt: skip
    return about("DeletionHangs", world.put(rule))


# --- pools and slices


@of_sort("PoolNotComplete")
def slice_that_is_missing(world: World) -> Found | None:
    place = {"name": "rack", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": NIC, "pool": place, "devices": [{"name": "nic-0"}], "allNodes": True}
    return about("PoolNotComplete", world.put(manifest("ResourceSlice", "rack-0", spec)))


@of_sort("PoolNotComplete")
def newer_generation_that_is_not_complete(world: World) -> Found | None:
    body = next(each for each in world.of_kind("ResourceSlice") if each["spec"]["driver"] == NIC)
    body = deepcopy(body)
    body["metadata"]["name"] = "fabric-next"
    body["spec"]["pool"] |= {"generation": body["spec"]["pool"]["generation"] + 5, "resourceSliceCount": 3}
    return about("PoolNotComplete", world.put(body))


@of_sort("PoolNotComplete")
def two_publishers_of_one_pool(world: World) -> Found | None:
    for number in range(2):
        body = factories.resource_slice(
            f"twice-{number}", [{"name": f"d{number}"}], driver=NIC, pool="twice", allNodes=True
        )
        world.put(body)
    return {("PoolNotComplete", "ResourceSlice", "", "twice-0")}


@of_sort("PoolNotComplete")
def device_name_that_occurs_twice(world: World) -> Found | None:
    for number in range(2):
        body = factories.resource_slice(
            f"same-{number}", [{"name": "d"}], driver=NIC, pool="same", count=2, allNodes=True
        )
        world.put(body)
    return {("PoolNotComplete", "ResourceSlice", "", "same-0")}


@of_sort("PoolNotComplete")
def counter_set_that_is_not_there(world: World) -> Found | None:
    uses = [{"counterSet": "none", "counters": {"slots": {"value": "1"}}}]
    devices = [{"name": "d", "consumesCounters": uses}]
    return about(
        "PoolNotComplete",
        world.put(factories.resource_slice("odd", devices, driver=NIC, pool="odd", allNodes=True)),
    )


@of_sort("SliceWithoutNode")
def slice_that_outlived_its_node(world: World) -> Found | None:
    return about(
        "SliceWithoutNode",
        world.put(factories.resource_slice("late", [{"name": "d"}], driver=NIC, pool="node-7")),
    )


@of_sort("SliceWithoutNode")
def slice_whose_devices_name_nodes(world: World) -> Found | None:
    devices = [{"name": "a", "nodeName": world.nodes[0]}, {"name": "b", "nodeName": "node-7"}]
    body = factories.resource_slice("each", devices, driver=NIC, pool="each", perDeviceNodeSelection=True)
    return about("SliceWithoutNode", world.put(body))


@of_sort("SliceWithoutNode")
def node_that_was_deleted(world: World) -> Found | None:
    used = {pod["spec"].get("nodeName") for pod in world.of_kind("Pod")}
    used |= {pod["status"].get("nominatedNodeName") for pod in world.of_kind("Pod")}
    used |= {item["pool"] for claim in world.of_kind("ResourceClaim") for item in results(claim)}
    name = next((each for each in world.nodes if each not in used), None)
    if name is None or len(world.nodes) < 2:
        return None
    del world.objects["Node", "", name]
    gone = [each for each in world.of_kind("ResourceSlice") if each["spec"].get("nodeName") == name]
    return {each for body in gone for each in about("SliceWithoutNode", body)}


# --- nodes without devices


def _bare_node(world: World, name: str) -> Body:
    """Add a node like the others, which publishes nothing."""
    like = deepcopy(world.objects["Node", "", world.nodes[0]])
    like["metadata"] |= {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}}
    like["spec"] = {}
    like["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return world.put(like)


@of_sort("NodeWithoutDevices")
def slice_that_is_empty(world: World) -> Found | None:
    if not any(device.node and device.driver == GPU for device in world.devices):
        return None
    world.put(factories.resource_slice("bare", [], driver=GPU, pool="bare", nodeName="bare"))
    return about("NodeWithoutDevices", _bare_node(world, "bare"))


@of_sort("NodeWithoutDevices")
def label_of_all_others_with_devices(world: World) -> Found | None:
    nodes = {device.node for device in world.devices if device.node and device.driver == GPU}
    if len(nodes) < 2:
        return None
    bare = _bare_node(world, "bare")
    for body in (*[world.objects["Node", "", name] for name in nodes], bare):
        body["metadata"]["labels"]["example.com/gpu"] = "true"
    _bare_node(world, "other")
    return about("NodeWithoutDevices", bare)


# --- served twice


def _plugin(world: World, resource: str, *, driver: str = GPU, amount: str = "2") -> Found | None:
    name = next((device.node for device in world.devices if device.node and device.driver == driver), None)
    if name is None:
        return None
    node = world.objects["Node", "", name]
    node["status"]["allocatable"][resource] = amount
    return about("ServedTwice", node)


@of_sort("ServedTwice")
def device_plugin_beside_the_driver(world: World) -> Found | None:
    gpu = world.objects["DeviceClass", "", "gpu"]
    gpu["spec"]["extendedResourceName"] = worlds.RESOURCE
    return _plugin(world, worlds.RESOURCE)


@of_sort("ServedTwice")
def device_plugin_of_the_implicit_name(world: World) -> Found | None:
    return _plugin(world, "deviceclass.resource.kubernetes.io/gpu")


# --- devices that no container is given


def _user(world: World, **fields: Any) -> Body | None:
    device = free_device(world)
    if device is None:
        return None
    return world.pod("team-a", [allocated(world, device, time=ago(hours=1))], node=device.node, **fields)


def _bound_late(world: World, *conditions: Body) -> Body | None:
    """Add a claim in use, of whose device the driver is to say that it is attached; it says what is given."""
    device = free_device(world)
    if device is None:
        return None
    claim = allocated(world, device, time=ago(minutes=11))
    name = world.pod("team-a", [claim])["metadata"]["name"]
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    (result,) = results(claim)
    result |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    names = {name: result[name] for name in ("driver", "pool", "device")}
    claim["status"]["devices"] = [{**names, "conditions": [*conditions]}]
    return claim


@of_sort("BindingOverdue")
def driver_that_says_nothing(world: World) -> Found | None:
    claim = _bound_late(world, {"type": "attached", "status": "False"})
    return about("BindingOverdue", claim) if claim else None


@of_sort("BindingOverdue")
def binding_that_failed_and_nobody_decides_anew(world: World) -> Found | None:
    claim = _bound_late(world, {"type": "broken", "status": "True", "message": "no free lane"})
    return about("BindingOverdue", claim) if claim else None


@of_sort("UnknownRequest")
def request_of_a_container_that_its_claim_lacks(world: World) -> Found | None:
    body = _user(world)
    if body is None:
        return None
    body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c0", "request": "gpus"}]
    return about("UnknownRequest", body)


@of_sort("UnknownRequest")
def resource_that_is_mapped_to_a_request_that_is_not_there(world: World) -> Found | None:
    body = _user(world)
    if body is None:
        return None
    mapping = {
        "containerName": "main",
        "resourceName": worlds.RESOURCE,
        "requestName": "container-0-request-0",
    }
    name = body["spec"]["resourceClaims"][0]["resourceClaimName"]
    body["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": name, "requestMappings": [mapping]}
    return about("UnknownRequest", body)


# --- who decides


def _lease(world: World) -> Body | None:
    """Return the Lease, if anything waits for who holds it."""
    is_owned = any(device.is_owned for device in world.devices)
    return world.objects["Lease", "dra-operator", "dra-operator"] if is_owned else None


def _nobody_decides(world: World, lease: Body) -> Found:
    """Return the findings about the Lease, and about each pod that has waited with our gate alone for long."""
    gated = [
        body
        for body in world.of_kind("Pod")
        if [each["name"] for each in body["spec"].get("schedulingGates", ())] == [worlds.GATE]
        if body["metadata"]["creationTimestamp"] < ago(minutes=10)
    ]
    return about("NobodyDecides", lease).union(*(about("GateLeftBehind", body) for body in gated))


@of_sort("NobodyDecides")
def lease_that_nobody_renews(world: World) -> Found | None:
    """The operator was killed an hour ago, or a minute."""
    if (lease := _lease(world)) is None:
        return None
    lease["spec"]["renewTime"] = ago(seconds=world.random.choice([60, 3600]))
    return _nobody_decides(world, lease)


@of_sort("NobodyDecides")
def lease_that_nobody_holds(world: World) -> Found | None:
    """The operator was stopped, and gave it back."""
    if (lease := _lease(world)) is None:
        return None
    lease["spec"] |= {"holderIdentity": "", "renewTime": ago(seconds=1)}
    return _nobody_decides(world, lease)


@of_sort("NobodyDecides")
def lease_that_was_never_renewed(world: World) -> Found | None:
    """Somebody made it, and no operator took it."""
    if (lease := _lease(world)) is None:
        return None
    del lease["spec"]["renewTime"]
    return _nobody_decides(world, lease)


@of_sort("NobodyDecides")
def lease_of_which_only_pods_remind(world: World) -> Found | None:
    """No device is owned, and a pod has the gate."""
    if (lease := _lease(world)) is not None:
        return None
    lease = world.objects["Lease", "dra-operator", "dra-operator"]
    lease["spec"]["renewTime"] = ago(minutes=11)
    world.pod(
        "team-a",
        [world.claim("team-a", annotations={worlds.PENDING: "no device"})],
        spec={"schedulingGates": [{"name": worlds.GATE}]},
    )
    return _nobody_decides(world, lease)


# --- gates and nominations

_GATED = {"schedulingGates": [{"name": worlds.GATE}]}


@of_sort("GateLeftBehind")
def gate_that_no_operator_looks_at(world: World) -> Found | None:
    return about("GateLeftBehind", world.pod("team-a", [world.claim("team-a")], spec=_GATED))


@of_sort("GateLeftBehind")
def gate_of_a_pod_without_claims(world: World) -> Found | None:
    body = world.pod("team-a", [], spec=_GATED)
    del body["spec"]["resourceClaims"]
    return about("GateLeftBehind", body)


@of_sort("GateLeftBehind")
def gate_of_a_pod_whose_claims_are_allocated(world: World) -> Found | None:
    device = free_device(world, owned=True)
    if device is None:
        return None
    claim = allocated(world, device, time=ago(hours=3))
    return about("GateLeftBehind", world.pod("team-a", [claim], spec=_GATED))


@of_sort("GateLeftBehind")
def nomination_for_a_node_that_is_gone(world: World) -> Found | None:
    claim = world.claim("team-a", annotations={worlds.PENDING: "no"})
    return about("GateLeftBehind", world.pod("team-a", [claim], status={"nominatedNodeName": "node-9"}))


@of_sort("GateLeftBehind")
def nomination_for_another_node_than_that_of_the_claim(world: World) -> Found | None:
    device = free_device(world, owned=False)
    if device is None:
        return None
    other = next(name for name in world.nodes if name != device.node)
    claim = allocated(world, device, time=ago(minutes=5))
    return about("GateLeftBehind", world.pod("team-a", [claim], status={"nominatedNodeName": other}))


@of_sort("GateLeftBehind")
def nomination_of_a_gated_pod_whose_claim_was_taken_back(world: World) -> Found | None:
    claim = world.claim("team-a", annotations={worlds.PENDING: "no"})
    status = {"nominatedNodeName": world.nodes[0]}
    return about("GateLeftBehind", world.pod("team-a", [claim], spec=_GATED, status=status))


# --- devices that the operator owns


@of_sort("ForeignAllocation")
def device_that_was_in_use_when_it_was_owned(world: World) -> Found | None:
    if (device := free_device(world, owned=True)) is None:
        return None
    claim = allocated(world, device, time=ago(days=9))
    in_use(world, claim, device.node)
    return about("ForeignAllocation", claim)


@of_sort("ForeignAllocation")
def owned_device_of_a_claim_that_opted_out(world: World) -> Found | None:
    if (device := free_device(world, owned=True)) is None:
        return None
    claim = allocated(world, device, time=ago(hours=2), labels={"dra-operator.io/allocate": "false"})
    in_use(world, claim, device.node)
    return about("ForeignAllocation", claim)


@of_sort("ForeignAllocation")
def owned_device_that_kube_scheduler_wrote(world: World) -> Found | None:
    return _written_by_kube_scheduler(world, ago(hours=2))


@of_sort("ForeignAllocation")
def device_that_kube_scheduler_wrote_before_it_was_owned(world: World) -> Found | None:
    return _written_by_kube_scheduler(world, ago(days=9))


def _written_by_kube_scheduler(world: World, time: str) -> Found | None:
    if (device := free_device(world, owned=True)) is None:
        return None
    manager = {
        "manager": "kube-scheduler",
        "operation": "Update",
        "subresource": "status",
        "fieldsV1": {"f:status": {"f:allocation": {"f:devices": {}}}},
    }
    claim = allocated(world, device, time=time, managedFields=[manager])
    in_use(world, claim, device.node)
    return about("ForeignAllocation", claim)


def _half(world: World, drawing: list[str], *, by_rule: bool = False, count: int = 2) -> Found:
    uses = [{"counterSet": "gpu", "counters": {"slots": {"value": "1"}}}]
    taints = [] if by_rule else [{"key": worlds.OWNED, "effect": "NoSchedule"}]
    devices = [
        {"name": name, "consumesCounters": uses} | ({"taints": taints} if taints and name in drawing else {})
        for name in ("a", "b", "c", "d")
    ]
    place = {"name": "half", "generation": 1, "resourceSliceCount": count}
    counters = [{"name": "gpu", "counters": {"slots": {"value": "4"}}}]
    shared = {"driver": NIC, "pool": place, "allNodes": True, "sharedCounters": counters}
    world.put(manifest("ResourceSlice", "half-counters", shared))
    parts = [devices] if count == 2 else [devices[:2], devices[2:]]
    for number, part in enumerate(parts):
        spec = {"driver": NIC, "pool": place, "allNodes": True, "devices": part}
        world.put(manifest("ResourceSlice", f"half-{number}", spec))
    if by_rule:
        for name in drawing:
            selector = {"driver": NIC, "pool": "half", "device": name}
            world.put(
                factories.taint_rule(
                    f"own-half-{name}", selector, key=worlds.OWNED, creationTimestamp=ago(days=1)
                )
            )
    return {
        ("CountersHalfOwned", "ResourceSlice", "", f"half-{number}")
        for number, part in enumerate(parts)
        if any(device["name"] in drawing for device in part)
    }


@of_sort("CountersHalfOwned")
def one_partition_owned_by_its_slice(world: World) -> Found | None:
    return _half(world, ["a"])


@of_sort("CountersHalfOwned")
def one_partition_owned_by_a_rule(world: World) -> Found | None:
    return _half(world, ["b"], by_rule=True)


@of_sort("CountersHalfOwned")
def partitions_of_one_of_two_slices_owned(world: World) -> Found | None:
    return _half(world, ["a", "b"], by_rule=True, count=3)


# --- tolerant of what is owned


def _tolerant(name: str, *tolerations: Body, **exactly: Any) -> Body:
    return factories.request(name, "gpu", tolerations=[*tolerations], **exactly)


def _owns_any(world: World) -> bool:
    return any(device.is_owned for device in world.devices)


def _template(world: World, *requests: Body) -> Found | None:
    if not _owns_any(world):
        return None
    spec = {"spec": {"devices": {"requests": [*requests]}}}
    return about(
        "ToleratesOwned", world.put(manifest("ResourceClaimTemplate", "tolerant", spec, namespace="team-a"))
    )


@of_sort("ToleratesOwned")
def template_that_tolerates_every_taint(world: World) -> Found | None:
    return _template(world, factories.request(), _tolerant("any", {"operator": "Exists"}))


@of_sort("ToleratesOwned")
def template_with_a_tolerant_alternative_beside_tolerations_that_do_not_count(world: World) -> Found | None:
    harmless = (
        {"key": worlds.OWNED, "operator": "Exists", "effect": "NoExecute"},
        {"key": worlds.OWNED, "operator": "Equal", "value": "team-a"},
        {"key": "example.com/broken", "operator": "Exists"},
    )
    plain, tolerant = (
        {"name": name, "deviceClassName": "gpu", "tolerations": [*tolerations]}
        for name, tolerations in (("a", harmless), ("b", ({"operator": "Exists"},)))
    )
    admin = _tolerant("monitor", {"operator": "Exists"}, adminAccess=True)
    return _template(
        world, admin, _tolerant("one", *harmless), {"name": "some", "firstAvailable": [plain, tolerant]}
    )


@of_sort("ToleratesOwned")
def claim_that_waits_and_tolerates_every_taint(world: World) -> Found | None:
    if not _owns_any(world):
        return None
    claim = world.claim("team-a")
    claim["spec"]["devices"]["requests"] = [_tolerant("any", {"operator": "Exists", "effect": "NoSchedule"})]
    return about("ToleratesOwned", claim)


# --- allocated and not used


@of_sort("Unreserved")
def claim_that_nobody_used_for_two_days(world: World) -> Found | None:
    if (device := free_device(world)) is None:
        return None
    return about("Unreserved", allocated(world, device, time=ago(days=2)))


@of_sort("Unreserved")
def claim_whose_pod_ended_and_stayed(world: World) -> Found | None:
    if (device := free_device(world)) is None:
        return None
    claim = allocated(world, device, time=ago(days=3))
    world.pod("team-a", [claim], node=device.node, phase="Succeeded")
    return about("Unreserved", claim)


@of_sort("Unreserved")
def claim_whose_pod_has_waited_for_days(world: World) -> Found | None:
    if (device := free_device(world)) is None:
        return None
    claim = allocated(world, device, time=ago(hours=25))
    world.pod("team-a", [claim])
    return about("Unreserved", claim)


# --- the project's own kinds


def own_object(world: World, kind: str, status: Body | None, **metadata: Any) -> Body:
    """Put an object of one of the project's own kinds, which is a day old."""
    body = {"apiVersion": "dra-operator.io/v1alpha1", "kind": kind, "metadata": {"name": "own", **metadata}}
    body["metadata"]["creationTimestamp"] = ago(days=1)
    return world.put(body if status is None else {**body, "status": status})


def own_condition(sort: str, status: str, time: str) -> Body:
    """Return a status with a condition that is so since a time."""
    return {
        "conditions": [
            {"type": sort, "status": status, "reason": "X", "message": "x", "lastTransitionTime": time}
        ]
    }


@of_sort("ObjectStuck")
def policy_that_nobody_has_looked_at(world: World) -> Found | None:
    return about("ObjectStuck", own_object(world, "AllocationPolicy", None))


@of_sort("ObjectStuck")
def reservation_with_a_lost_device(world: World) -> Found | None:
    status = own_condition("Lost", "True", ago(seconds=1))
    return about("ObjectStuck", own_object(world, "DeviceReservation", status, namespace="team-a"))


@of_sort("ObjectStuck")
def maintenance_that_is_blocked(world: World) -> Found | None:
    return about(
        "ObjectStuck", own_object(world, "DeviceMaintenance", own_condition("Blocked", "True", ago(hours=1)))
    )
