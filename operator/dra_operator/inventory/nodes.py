"""Nodes, as far as allocation looks at them, and which of them can be used.

A claim must not be pinned to a node that its pod could not reach: one that is being deleted, cordoned, or not ready.
Not ready is what `kubectl get nodes` calls so: Ready is False, or Unknown, as the node lifecycle controller sets it
where a kubelet has gone silent. An absent field means usable, so that objects made by hand need no status.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dra_operator.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""The feature a node declares when its kubelet can skip node operations."""
Trait = tuple[str | None, ...]
"""What of a node is looked at: the keys of labels, None for its name."""
Values = tuple[str | None, ...]
"""What is found there; None for a label that a node has not."""
_MOST_TRAITS = 4096


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node: its labels, why it cannot be used (None if it can), and whether it can skip node operations.

    `selector` is what selects this node alone: each claim that gets a device of the node gets it as well.
    """

    name: str
    labels: Mapping[str, str]
    unusable: str | None
    skips_operations: bool
    selector: NodeSelector = field(compare=False)

    def values(self, trait: Trait) -> Values:
        """Return what the node has there."""
        return tuple([self.name if key is None else self.labels.get(key) for key in trait])


@dataclass(slots=True)
class NodeIndex:
    """Nodes by what they have: by each trait that has been asked about, kept up to date from then on.

    Nobody asks for nodes that lack a label, which are nearly all where each rack has a label of its own.
    """

    nodes: Mapping[str, NodeRecord]
    _tables: dict[Trait, dict[Values, set[str]]] = field(default_factory=dict)

    def having(self, trait: Trait, values: Values) -> AbstractSet[str]:
        """Return the names of the nodes that have these values there."""
        table = self._tables.get(trait)
        if table is None:
            # Traits of selectors that are gone leave their tables behind.
            if len(self._tables) == _MOST_TRAITS:
                self._tables.clear()
            table = self._tables[trait] = {}
            for node in self.nodes.values():
                _enter(table, node.values(trait), node.name)
        return table.get(values, frozenset())

    def replace(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        """Take note that a node has changed, come (`old` is None) or gone (`new` is None)."""
        for trait, table in self._tables.items():
            if old is not None and (there := table.get(values := old.values(trait))) is not None:
                there.discard(old.name)
                if not there:
                    del table[values]
            if new is not None:
                _enter(table, new.values(trait), new.name)


def _enter(table: dict[Values, set[str]], values: Values, name: str) -> None:
    if None not in values:
        table.setdefault(values, set()).add(name)


def read_node(node: Node) -> NodeRecord:
    """Return what the core keeps of a node."""
    return NodeRecord(
        name=node.metadata.name,
        labels=node.metadata.labels,
        unusable=_unusable(node),
        skips_operations=OPTIONAL_NODE_OPERATIONS in node.status.declared_features,
        selector=_selecting(node.metadata.name),
    )


def _selecting(name: str) -> NodeSelector:
    this_node = NodeSelectorRequirement("metadata.name", "In", (name,))
    return NodeSelector((NodeSelectorTerm((), (this_node,)),))


def _unusable(node: Node) -> str | None:
    if node.metadata.deletion_timestamp:
        return "being deleted"
    if node.spec.unschedulable:
        return "cordoned"
    if any(item.type == "Ready" and item.status in ("False", "Unknown") for item in node.status.conditions):
        return "not ready"
    return None
