"""Reach: which of many node fields can concern a node, looked up by its labels and name instead of asked one by one.

A rack of devices is a pool with a node selector, and a cluster has hundreds of racks: nearly all that a node could ask
is answered with no. A term that wants certain labels, or a certain name, can only be met by the nodes that have them.
So fields are filed under what they want, and both ways are short: from a node to the fields, and from fields to the
nodes.

What is found may still be a no and has to be asked; what is not found is a no for certain. A selector that cannot be
parsed is an error on every node that asks it, so every node finds it.
Source: docs/dra-semantics 2.2; k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from dra_operator.api.core import NodeSelector, NodeSelectorTerm
from dra_operator.api.node_selector import NodeSelectorError, parse_node_selector
from dra_operator.inventory.nodes import NodeIndex, NodeRecord, Trait, Values

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
class Reach:
    """Node fields in a row, filed: `everywhere` are the positions of those that every node has to ask.

    `filed` holds the positions of the others, by what the fields look at of a node and by what they want to find there.
    """

    everywhere: tuple[int, ...] = ()
    filed: Mapping[Trait, Mapping[Values, tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Iterable[NodeFields]) -> "Reach":
        """Return these fields, filed."""
        return cls._filed(_marks(fields) for fields in row)

    @classmethod
    def joined(cls, reaches: Iterable["Reach"]) -> "Reach":
        """Return a row whose every position stands for all fields of one of these."""
        return cls._filed(None if each.everywhere else each.marks() for each in reaches)

    @classmethod
    def _filed(cls, row: Iterable[Iterable[_Mark] | None]) -> "Reach":
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

    def marks(self) -> Iterator[_Mark]:
        """Yield what fields are filed under."""
        for trait, table in self.filed.items():
            for values in table:
                yield trait, values

    def near(self, node: NodeRecord) -> Sequence[int]:
        """Return the positions of the fields that can concern a node, in order."""
        found: set[int] = set()
        for trait, table in self.filed.items():
            found.update(table.get(node.values(trait), ()))
        return sorted(found.union(self.everywhere)) if found else self.everywhere

    def nodes(self, index: NodeIndex) -> AbstractSet[str] | None:
        """Return the names of the nodes that any of the fields can concern, or None if that can be all."""
        if self.everywhere:
            return None
        return set().union(*(index.having(trait, values) for trait, values in self.marks()))


NOWHERE: Final = Reach()
"""The reach of no fields."""


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
