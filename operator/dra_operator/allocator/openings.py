"""Openings: on which nodes a request may find a device, by the barriers that it would have to tolerate.

Where each claim brings tolerations of its own, as those of teams with nodes of their own do, no two have a candidate
key in common, and each would ask node after node that is kept for others. What is behind which barriers is the same for
all requests with these selectors and amounts, though, whatever they tolerate. So it is noted where a search of one of
them fails on a node, and the next one leaves out the nodes on which all it could have is behind a barrier that it does
not tolerate, or on which there are too few devices for anybody.

A node is left out only if the plain search comes to no device there that ends the attempt with an error: those that are
free have been asked about when the node was noted. Taking devices away changes none of this, so what is noted holds
until something comes back on that node.
Source: docs/engine sections 4 and 5.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import untolerated
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.room import drop_older_half
from dra_operator.allocator.shortcut import Shortcut
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import NodeView
from dra_operator.inventory.barriers import Barriers
from dra_operator.ledger import Availability

_MAX_KINDS = 1024
"""Of sets of barriers, for one kind of request."""


@dataclass(slots=True)
class Opening:
    """What requests with the same selectors and amounts find, as sets of nodes.

    `asked` counts the search problems that asked. `known`: the nodes that were noted; all else is said of these only.
    `free`: there is a device without a barrier. `barred`: there is one behind these barriers, by key and value of the
    first. `fewer`: there are fewer devices than so many, whatever is tolerated.
    """

    position: int
    asked: int = 0
    known: int = 0
    free: int = 0
    kinds: int = 0
    barred: dict[tuple[str, str], dict[Barriers, int]] = field(default_factory=dict)
    fewer: dict[int, int] = field(default_factory=dict)

    def closed(self, count: int, tolerations: Sequence[DeviceToleration]) -> int:
        """Return the nodes that have too few devices for a request."""
        if not self.known:
            return 0
        nodes = self.known & ~self._open(tolerations)
        for enough, those in self.fewer.items():
            if enough <= count:
                nodes |= those
        return nodes

    def _open(self, tolerations: Sequence[DeviceToleration]) -> int:
        groups: dict[tuple[str, str], dict[Barriers, int]] = {}
        for toleration in tolerations:
            key, value = toleration.key, toleration.value
            if key and toleration.operator != "Exists":
                if (group := self.barred.get((key, value))) is not None:
                    groups[key, value] = group
            else:
                groups |= {first: group for first, group in self.barred.items() if key in ("", first[0])}
        nodes = self.free
        for group in groups.values():
            for barriers, those in group.items():
                if those & ~nodes and untolerated(barriers, tolerations) is None:
                    nodes |= those
        return nodes

    def note(self, item: Alternative, view: NodeView) -> None:
        """Take note of what the nodes of a view have, as far as that is known without asking."""
        answers_of = item.key.answers
        total = 0
        free = False
        found: set[Barriers] = set()
        for pool in view.pools:
            usable = pool.free
            if not usable or pool.driver in item.key.refused:
                continue
            answers = answers_of.get(pool.serial)
            if answers is None or (answers.unknown | answers.errors) & usable:
                return
            devices = answers.selectable & usable
            total += devices.bit_count()
            for offset, content in pool.placed:
                here = devices >> offset & content.every
                for barriers, behind in content.barred:
                    if behind & here:
                        found.add(barriers)
                        here &= ~behind
                free = free or here != 0
        if view.nodes & ~self.known:
            self._add(view.nodes, free=free, found=found)
        count = item.count or 0
        if total < count and view.nodes & self.known:
            self.fewer[count] = self.fewer.get(count, 0) | view.nodes

    def _add(self, nodes: int, *, free: bool, found: AbstractSet[Barriers]) -> None:
        if len(found) > _MAX_KINDS:
            # More than are kept: whoever comes has to look for himself.
            free, found = True, frozenset()
        if self.kinds + len(found) > _MAX_KINDS:
            self.forget_all()
        if free:
            self.free |= nodes
        for barriers in found:
            first = barriers[0]
            group = self.barred.setdefault((first.key, first.value), {})
            self.kinds += barriers not in group
            group[barriers] = group.get(barriers, 0) | nodes
        self.known |= nodes

    def forget(self, nodes: int) -> None:
        """Forget nodes on which something came back. That they had something open may stay: it only costs a search."""
        self.known &= ~nodes
        for count, those in self.fewer.items():
            self.fewer[count] = those & ~nodes

    def forget_all(self) -> None:
        """Forget everything."""
        self.known = self.free = self.kinds = 0
        self.barred.clear()
        self.fewer.clear()


@dataclass(frozen=True, slots=True)
class FirstRequest(Shortcut):
    """Leaves out nodes that have too few devices for the first request: its alternatives, each with its opening."""

    parts: tuple[tuple[Alternative, Opening], ...]

    def closed(self, nodes: int) -> int:
        """Return those of some nodes that have too few devices for each alternative."""
        for item, opening in self.parts:
            nodes &= opening.closed(item.count or 0, item.tolerations)
        return nodes

    def note(self, view: NodeView, budget: Budget) -> None:
        """Take note of nodes on which a search found nothing, if somebody will ask."""
        del budget
        for item, opening in self.parts:
            if opening.asked > 1:
                opening.note(item, view)


@dataclass(slots=True)
class Openings:
    """The openings that were asked about of late, by selectors and amounts."""

    availability: Availability
    maximum: int = 64
    _known: dict[object, Opening] = field(default_factory=dict)

    def of(self, plans: Sequence[ClaimPlan]) -> FirstRequest | None:
        """Return the openings for the first request of some claims that nobody has asked about before."""
        alternatives = plans[0].requests[0].alternatives
        taints_count = self.availability.views.features.device_taints
        if not taints_count or not any(item.tolerations for item in alternatives):
            # It finds what all find that have these selectors and amounts.
            return None
        return FirstRequest(tuple([(item, self._of(item)) for item in alternatives]))

    def _of(self, item: Alternative) -> Opening:
        content, log = item.key.content, self.availability.log
        asks = (content.class_selectors, content.request_selectors, content.amounts)
        opening = self._known.pop(asks, None)
        if opening is None:
            if len(self._known) >= self.maximum:
                drop_older_half(self._known)
            opening = Opening(log.end)
        self._known[asks] = opening
        if opening.position != log.end:
            came_back = log.since(opening.position)
            if came_back is None:
                opening.forget_all()
            else:
                opening.forget(came_back)
            opening.position = log.end
        opening.asked += 1
        return opening
