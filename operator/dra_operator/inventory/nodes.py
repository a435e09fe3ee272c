"""Nodes, as far as allocation looks at them, and an index of which node selectors can concern a node.

A claim must not be pinned to a node that its pod could not reach: being deleted, cordoned or not ready. Fields that
select nodes are filed under the labels or the name that they require (an inverted index); what is found may still be
a no, what is not found is one for certain. Selectors that cannot be parsed are found by every node.
Source: docs/dra-semantics 2.2; k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from dra_operator.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_operator.api.node_selector import NodeSelectorError, parse_node_selector

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""The feature a node declares when its kubelet can skip node operations."""
Trait = tuple[str | None, ...]
"""What of a node is looked at: the keys of labels, None for its name."""
Values = tuple[str | None, ...]
"""What is found there; None for a label that a node has not."""


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


def read_node(node: Node) -> NodeRecord:
    """Return what the core keeps of a node."""
    this_node = NodeSelectorRequirement(_NAME_FIELD, "In", (node.metadata.name,))
    return NodeRecord(
        name=node.metadata.name,
        labels=node.metadata.labels,
        unusable=_unusable(node),
        skips_operations=OPTIONAL_NODE_OPERATIONS in node.status.declared_features,
        selector=NodeSelector((NodeSelectorTerm((), (this_node,)),)),
    )


def _unusable(node: Node) -> str | None:
    if node.metadata.deletion_timestamp:
        return "being deleted"
    if node.spec.unschedulable:
        return "cordoned"
    if any(item.type == "Ready" and item.status in ("False", "Unknown") for item in node.status.conditions):
        return "not ready"
    return None


_Mark = tuple[Trait, Values]
_NAME: Trait = (None,)
_NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeFields:
    """Where a slice, or a device with its own selection, can be used: the first field that is set decides."""

    node_name: str | None = None
    all_nodes: bool = False
    selector: NodeSelector | None = None

    @property
    def is_set(self) -> bool:
        """True if any of the fields is set."""
        return self.node_name is not None or self.all_nodes or self.selector is not None


@dataclass(frozen=True, slots=True)
class SelectorIndex:
    """Node fields in a row, indexed: `everywhere` are the positions of those that every node has to ask.

    `filed` holds the positions of the others, by what the fields look at of a node and by what they want to find there.
    """

    everywhere: tuple[int, ...] = ()
    filed: Mapping[Trait, Mapping[Values, tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, row: Iterable[NodeFields]) -> "SelectorIndex":
        """Return the index of these fields."""
        return cls._filed(_marks(fields) for fields in row)

    @classmethod
    def union(cls, indexes: Iterable["SelectorIndex"]) -> "SelectorIndex":
        """Return a row whose every position stands for all fields of one of these."""
        return cls._filed(
            None
            if each.everywhere
            else [(trait, values) for trait, table in each.filed.items() for values in table]
            for each in indexes
        )

    @classmethod
    def _filed(cls, row: Iterable[Iterable[_Mark] | None]) -> "SelectorIndex":
        everywhere: list[int] = []
        filed: dict[Trait, dict[Values, list[int]]] = {}
        for position, marks in enumerate(row):
            if marks is None:
                everywhere.append(position)
                continue
            for trait, values in dict.fromkeys(marks):
                filed.setdefault(trait, {}).setdefault(values, []).append(position)
        tables = {
            trait: {values: tuple(positions) for values, positions in table.items()}
            for trait, table in filed.items()
        }
        return cls(tuple(everywhere), tables)

    def near(self, node: NodeRecord) -> Sequence[int]:
        """Return the positions of the fields that can concern a node, in order."""
        found: set[int] = set()
        for trait, table in self.filed.items():
            found.update(table.get(node.values(trait), ()))
        return sorted(found.union(self.everywhere)) if found else self.everywhere


NOWHERE: Final = SelectorIndex()
"""The index of no fields."""


def _marks(fields: NodeFields) -> list[_Mark] | None:
    """Return what nodes have that the fields concern, or None if every node has to ask."""
    if fields.node_name is not None:
        return [(_NAME, (fields.node_name,))]
    if fields.all_nodes:
        return None
    if fields.selector is None:
        return []
    try:
        parse_node_selector(fields.selector)
    except NodeSelectorError:
        return None
    marks: list[_Mark] = []
    for term in fields.selector.node_selector_terms:
        # An empty term matches nothing.
        if term.match_expressions or term.match_fields:
            if (found := _of_term(term)) is None:
                return None
            marks += found
    return marks


def _of_term(term: NodeSelectorTerm) -> list[_Mark] | None:
    """Return what nodes have that a term can match, as narrowly as one lookup can tell, or None if it cannot."""
    wanted: list[tuple[str | None, tuple[str, ...]]] = [
        (None, each.values) for each in term.match_fields if each.operator == "In" and each.key == _NAME_FIELD
    ]
    wanted += [(each.key, each.values) for each in term.match_expressions if each.operator == "In"]
    if not wanted:
        return None
    # Each requirement with one value narrows at no cost; one more with several costs a lookup a value.
    wanted.sort(key=lambda each: len(each[1]))
    single = sum(len(values) == 1 for _, values in wanted)
    chosen = wanted[: single + 1]
    trait = tuple(key for key, _ in chosen)
    return [(trait, values) for values in product(*(values for _, values in chosen))]
