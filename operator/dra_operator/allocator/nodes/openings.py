"""Openings: on which nodes a request may find a device, by the barriers that it would have to tolerate.

If teams have nodes of their own, each claim may have tolerations of its own. Then no two claims share a candidate key,
and each would search node after node that is kept for others. But what is behind which barriers is the same for all
requests with the same selectors and amounts. So it is noted when a search fails on a node. The next such request leaves
out the nodes where every device is behind a barrier that it does not tolerate, and those with too few devices for
anybody.

A node is left out only if the plain search would meet no error there: all of its free devices were asked about when the
node was noted. Taking devices changes none of this, so what is noted holds until something comes back on that node.
Source: docs/engine sections 4 and 5.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import untolerated
from dra_operator.allocator.nodes.memory import Learnt, Memory
from dra_operator.allocator.nodes.shortcut import Shortcut
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Features, NodeView
from dra_operator.inventory.barriers import Barriers
from dra_operator.ledger import Log

_MAX_KINDS = 1024
"""Of sets of barriers, for one kind of request."""


@dataclass(slots=True)
class Opening(Learnt):
    """What requests with the same selectors and amounts find on which nodes.

    `asked` counts the search problems that asked. `known` are the nodes that were noted; the rest is about these only:
    `free` have a device without a barrier; `barred` have one behind these barriers, by key and value of the first;
    `fewer` have fewer devices than this, whatever is tolerated.
    """

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
        """Note what the nodes of a view have, if that is known without asking."""
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
        if total < count:
            self.fewer[count] = self.fewer.get(count, 0) | view.nodes

    def _add(self, nodes: int, *, free: bool, found: AbstractSet[Barriers]) -> None:
        if len(found) > _MAX_KINDS:
            # More than are kept: later requests have to search this node.
            free, found = True, frozenset()
        if self.kinds + len(found) > _MAX_KINDS:
            self._forget_all()
        if free:
            self.free |= nodes
        for barriers in found:
            first = barriers[0]
            group = self.barred.setdefault((first.key, first.value), {})
            self.kinds += barriers not in group
            group[barriers] = group.get(barriers, 0) | nodes
        self.known |= nodes

    def catch_up(self, log: Log) -> None:
        """Forget nodes on which something came back; those in `free` and `barred` may stay, at the cost of a search."""
        nodes = log.since(self.position)
        if nodes is None:
            self._forget_all()
            return
        self.known &= ~nodes
        for count, those in self.fewer.items():
            self.fewer[count] = those & ~nodes

    def _forget_all(self) -> None:
        self.known = self.free = self.kinds = 0
        self.barred.clear()
        self.fewer.clear()


@dataclass(frozen=True, slots=True)
class FirstRequest(Shortcut):
    """Leaves out nodes with too few devices for each alternative of the first request; each has its opening."""

    parts: tuple[tuple[Alternative, Opening], ...]

    def closed(self, nodes: int) -> int:
        """Return which of the nodes have too few devices for each alternative."""
        for item, opening in self.parts:
            nodes &= opening.closed(item.count or 0, item.key.content.tolerations)
        return nodes

    def note(self, view: NodeView, budget: Budget) -> None:
        """Note nodes on which a search found nothing, if more than one claim has asked."""
        del budget
        for item, opening in self.parts:
            if opening.asked > 1:
                opening.note(item, view)


@dataclass(frozen=True, slots=True)
class Openings:
    """The openings that were asked about lately, by selectors and amounts."""

    features: Features
    memory: Memory[Opening]

    def of(self, plans: Sequence[ClaimPlan]) -> FirstRequest | None:
        """Return the openings for the first request of some new claims, or None if it tolerates nothing."""
        alternatives = plans[0].requests[0].alternatives
        if not self.features.device_taints or not any(item.tolerations for item in alternatives):
            # Its candidate key is shared by all requests with these selectors and amounts.
            return None
        return FirstRequest(tuple([(item, self._of(item)) for item in alternatives]))

    def _of(self, item: Alternative) -> Opening:
        content = item.key.content
        opening = self.memory.of((content.class_selectors, content.request_selectors, content.amounts))
        opening.asked += 1
        return opening
