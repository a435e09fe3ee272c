"""Sight: which slices of a pool, and which devices of those, concern a node.

A slice says where its devices can be used: on one node, on all, where a selector matches, or each device for itself. A
slice that says nothing known is left out silently: it comes from a newer API.
Source: docs/dra-semantics 2.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_operator.api.core import NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.inventory.features import Features
from dra_operator.inventory.nodes import NodeRecord
from dra_operator.inventory.pool import Pool
from dra_operator.inventory.reach import NodeFields
from dra_operator.inventory.slices import Slice

_SIZE_OF_SELECTOR = 16
"""A selector takes about as much room as so many of its answers."""


@dataclass(frozen=True, slots=True)
class DeviceSight:
    """The devices of a slice with per-device selection that a node can use, and those with a broken selector."""

    visible: int
    errors: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """What a node sees of a pool: slices in upstream's order, and what of their devices where those say it."""

    slices: tuple[Slice, ...]
    devices: tuple[tuple[int, DeviceSight], ...]

    @property
    def key(self) -> object:
        """Return what two nodes have in common if they see the same."""
        return (tuple(item.serial for item in self.slices), self.devices)


class BrokenSelector(NamedTuple):
    """A slice with a node selector that cannot be parsed, and why it cannot."""

    slice: str
    why: str


@dataclass(slots=True)
class NodeMatcher:
    """Matches node fields against nodes; each selector is asked once a node.

    `size` is how many answers are kept; a selector may be asked about every node, and takes room itself.
    """

    size: int = 0
    _answers: dict[NodeSelector, dict[str, bool | str]] = field(default_factory=dict)

    def matches(self, fields: NodeFields, node: NodeRecord) -> bool:
        """True if the fields concern the node. Raises NodeSelectorError if their selector cannot be parsed."""
        if fields.node_name is not None:
            return fields.node_name == node.name
        if fields.all_nodes:
            return True
        return fields.selector is not None and self._selects(fields.selector, node)

    def forget(self, node: str) -> None:
        """Drop what is known of a node: its labels have changed, or it is gone."""
        for answers in self._answers.values():
            self.size -= answers.pop(node, None) is not None

    def clear(self) -> None:
        """Drop all answers; done now and then, as selectors that are gone leave theirs behind."""
        self._answers.clear()
        self.size = 0

    def _selects(self, selector: NodeSelector, node: NodeRecord) -> bool:
        answers = self._answers.get(selector)
        if answers is None:
            answers = self._answers[selector] = {}
            self.size += _SIZE_OF_SELECTOR
        answer = answers.get(node.name)
        if answer is None:
            try:
                answer = matches(selector, node.name, node.labels)
            except NodeSelectorError as error:
                answer = str(error)
            answers[node.name] = answer
            self.size += 1
        if isinstance(answer, str):
            raise NodeSelectorError(answer)
        return answer


def look(
    pool: Pool, node: NodeRecord, features: Features, matcher: NodeMatcher
) -> Sight | BrokenSelector | None:
    """Return what a node sees of a pool, or None if no slice of it concerns the node.

    If a selector that had to be asked cannot be parsed, that is the answer.
    """
    slices: list[Slice] = []
    devices: list[tuple[int, DeviceSight]] = []
    # Upstream lists the slices of the node first, then those without a node name.
    local = pool.local.get(node.name)
    own = [local[name] for name in sorted(local)] if local else ()
    for content in (*own, *pool.near(node)):
        if not is_known(content, features):
            continue
        try:
            if content.nodes.is_set:
                if matcher.matches(content.nodes, node):
                    slices.append(content)
            elif content.per_device_nodes and (sight := _look_at_devices(content, node, matcher)):
                slices.append(content)
                devices.append((content.serial, sight))
        except NodeSelectorError as error:
            return BrokenSelector(content.name, str(error))
    return Sight(tuple(slices), tuple(devices)) if slices else None


def is_known(content: Slice, features: Features) -> bool:
    """True if a slice uses nothing that is switched off."""
    if not features.partitionable_devices and (content.per_device_nodes or content.counter_sets):
        return False
    return features.compatibility_groups or not content.has_groups


def same_for_all_nodes(slices: Iterable[Slice]) -> bool:
    """True if all of these slices are for all nodes, so that a node's name and labels do not matter."""
    return all(item.nodes.node_name is None and item.nodes.all_nodes for item in slices)


def _look_at_devices(content: Slice, node: NodeRecord, matcher: NodeMatcher) -> DeviceSight | None:
    visible = 0
    errors: list[tuple[int, str]] = []
    for index in content.reach.near(node):
        try:
            if matcher.matches(content.traits[index].nodes, node):
                visible |= 1 << index
        except NodeSelectorError as error:
            if not visible:
                # Upstream asks in order until one device matches; a broken selector before it ends the attempt.
                raise
            errors.append((index, str(error)))
    return DeviceSight(visible, tuple(errors)) if visible else None
