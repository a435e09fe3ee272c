"""Nodes, as far as allocation looks at them, and which of them can be used.

A claim must not be pinned to a node that its pod could not reach: one that is being deleted, cordoned, or not ready.
Not ready is what `kubectl get nodes` calls so: Ready is False, or Unknown, as the node lifecycle controller sets it
where a kubelet has gone silent. An absent field means usable, so that objects made by hand need no status.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_operator.api.types import Node

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""The feature a node declares when its kubelet can skip node operations."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node: its labels, why it cannot be used (None if it can), and whether it can skip node operations."""

    name: str
    labels: Mapping[str, str]
    unusable: str | None
    skips_operations: bool


def read_node(node: Node) -> NodeRecord:
    """Return what the core keeps of a node."""
    return NodeRecord(
        name=node.metadata.name,
        labels=node.metadata.labels,
        unusable=_unusable(node),
        skips_operations=OPTIONAL_NODE_OPERATIONS in node.status.declared_features,
    )


def _unusable(node: Node) -> str | None:
    if node.metadata.deletion_timestamp:
        return "being deleted"
    if node.spec.unschedulable:
        return "cordoned"
    if any(item.type == "Ready" and item.status in ("False", "Unknown") for item in node.status.conditions):
        return "not ready"
    return None
