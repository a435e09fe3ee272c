"""Devices that take resources of their nodes: only for nodes that declare that they account for them.

Source: plugin/pkg/admission/nodedeclaredfeatures.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.read import read_object
from dra_operator.sim.objects import Stored
from dra_operator.sim.resources import RESOURCES, Resource
from dra_operator.sim.store import Store

Body = Mapping[str, Any]

_FEATURE = "DRANodeAllocatableResources"
_NODES = next(resource for resource in RESOURCES if resource.kind == "Node")


def missing_feature(store: Store, resource: Resource, body: Body) -> str:
    """Return why a slice is forbidden; empty if it is not."""
    if resource.kind != "ResourceSlice":
        return ""
    taking = any(device.get("nodeAllocatableResources") for device in body["spec"].get("devices") or ())
    return next(_problems(store, read_object(body, "ResourceSlice").spec), "") if taking else ""


def _problems(store: Store, spec: Any) -> Iterator[str]:
    for device in spec.devices:
        if not device.node_allocatable_resources:
            continue
        place = device if spec.per_device_node_selection else spec
        if place.node_name:
            node = store.get(_NODES, "", place.node_name)
            if node is None:
                yield f'node "{place.node_name}" not found for device "{device.name}"'
                return
            nodes = [node]
        else:
            nodes = [
                node
                for node in store.table(_NODES).in_order("")
                if place.all_nodes or _selects(place.node_selector, node)
            ]
        for node in nodes:
            if _FEATURE not in (node.body["status"].get("declaredFeatures") or ()):
                yield f'node "{node.name}" does not support {_FEATURE} feature'


def _selects(selector: Any, node: Stored) -> bool:
    try:
        return selector is not None and matches(
            selector, node.name, node.body["metadata"].get("labels") or {}
        )
    except NodeSelectorError:
        # Upstream has refused it before. Here nobody has looked at it.
        return False
