"""Faults of what is published: pools that lend no devices, slices of nodes that are gone, devices served in two ways.

Source: docs/dra-semantics 2.3 and 8.7; docs/operator.md, "Devices that are ours".
"""

from collections.abc import Iterator

from dra_operator.allocator import Decider
from dra_operator.allocator.extended import CLASS_PREFIX
from dra_operator.api.core import Node
from dra_operator.api.quantity import read_quantity
from dra_operator.api.text import listed
from dra_operator.inventory import Slice, Verdict, bits
from dra_operator.inventory.object_faults import describe_surplus
from dra_operator.inventory.ownership import counter_sets
from dra_operator.questions.findings import Finding, Sort
from dra_operator.questions.published_devices import (
    PublishedDevices,
    devices_by_node,
    devices_in_class,
)
from dra_operator.questions.state import ClusterState


def find_incomplete_pools(state: ClusterState) -> Iterator[Finding]:
    """Yield the pools whose newest generation is not complete or contradicts itself, at their first slice."""
    for pool in PublishedDevices(state.inventory).pools.values():
        judgement = pool.judgement
        if judgement.verdict is Verdict.COMPLETE:
            continue
        first = pool.slices[0]
        text = f"pool {pool.path} is {judgement.verdict.value}, so its devices are not allocated: {judgement.reason}"
        if judgement.verdict is not Verdict.INCOMPLETE:
            action = "the driver contradicts itself: give each device of the pool its own name, and counters that exist"
        elif len(pool.slices) > first.slice_count:
            action = describe_surplus(state.inventory.pools[pool.key])
        else:
            node = first.nodes.node_name
            where = f" on node {node}" if node else ""
            action = f"see whether the driver {first.driver} runs{where}: it has not published all slices"
        yield _of_slice(Sort.POOL_NOT_COMPLETE, first, text, action)


def find_slices_without_node(state: ClusterState) -> Iterator[Finding]:
    """Yield the slices that are for nodes which are gone, or some of whose devices are."""
    if not state.has_all("Node"):
        return
    nodes = {record.obj.metadata.name for record in state.objects.of_kind("Node")}
    for pool in state.inventory.pools.values():
        for slice_ in pool.slices.values():
            if slice_.per_device_nodes:
                named = {fields.nodes.node_name for fields in slice_.device_fields}
            else:
                named = {slice_.nodes.node_name}
            gone = sorted(name for name in named if name is not None and name not in nodes)
            if gone:
                text = f"is for node {listed(gone)}, which {'is' if len(gone) == 1 else 'are'} gone"
                action = (
                    f"if the node does not come back: kubectl delete resourceslice {slice_.name}"
                    if not slice_.per_device_nodes
                    else f"have the driver {slice_.driver} publish devices of nodes that exist"
                )
                yield _of_slice(Sort.SLICE_WITHOUT_NODE, slice_, text, action)


def find_served_twice(state: ClusterState) -> Iterator[Finding]:
    """Yield the nodes that offer, by a device plugin, a resource that a class serves with devices of the same node."""
    resources = [
        (resource, name)
        for name, item in sorted(state.inventory.classes.items())
        for resource in (item.spec.extended_resource_name, CLASS_PREFIX + name)
        if resource
    ]
    offering: dict[str, list[tuple[str, str, str]]] = {}
    for record in state.objects.of_kind("Node"):
        node: Node = record.obj
        for resource, name in resources:
            amount = node.status.allocatable.get(resource)
            if amount is not None and _is_positive(amount):
                offering.setdefault(node.metadata.name, []).append((resource, str(amount), name))
    if not offering:
        return
    allocator = state.allocators[Decider.OPERATOR]
    counts: dict[tuple[str, str], int] = {}
    for _, slice_ in PublishedDevices(state.inventory).slices():
        for node_name, devices in devices_by_node(slice_).items():
            for name in {each for _, _, each in offering.get(node_name, ())}:
                chosen = devices_in_class(allocator, name, slice_) & devices
                counts[node_name, name] = counts.get((node_name, name), 0) + chosen.bit_count()
    for node_name, those in offering.items():
        for resource, amount, name in those:
            if count := counts.get((node_name, name)):
                text = (
                    f"offers {amount} {resource} by a device plugin, and publishes {count} devices of DeviceClass "
                    f"{name}, which serves the same resource: one device may be given to two pods"
                )
                action = (
                    "run the device plugin or the DRA driver on this node, not both; the kubelet offers what a plugin "
                    "had for five minutes after it left"
                )
                related = (f"DeviceClass {name}",)
                yield Finding(Sort.SERVED_TWICE, "Node", "", node_name, text, action, related)


def find_half_owned(state: ClusterState) -> Iterator[Finding]:
    """Yield the slices of whose devices the operator owns some, and not all that draw on the same counters."""
    if "DeviceTaintRule" in state.unread:
        # The others may be owned by a rule.
        return
    for _, slice_ in PublishedDevices(state.inventory).slices():
        if not (half := slice_.half_owned):
            continue
        sets = sorted({name for index, names in counter_sets(slice_) if half >> index & 1 for name in names})
        devices = [slice_.names[index] for index in bits.each(half)]
        text = (
            f"devices {listed(devices)} are owned, but not all that draw on counter set {listed(sets)}, so the "
            "operator allocates none of them"
        )
        action = "own all of these devices, or none: usually the whole pool, by dra-operator own or disown"
        yield _of_slice(Sort.COUNTERS_HALF_OWNED, slice_, text, action)


def _is_positive(amount: object) -> bool:
    try:
        return read_quantity(amount).nano > 0
    except ValueError:
        return False


def _of_slice(sort: Sort, slice_: Slice, message: str, action: str) -> Finding:
    return Finding(sort, "ResourceSlice", "", slice_.name, message, action)
