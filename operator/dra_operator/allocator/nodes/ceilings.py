"""Ceilings: amounts that were too much for a node.

A node that had nothing for a claim has nothing for a claim that asks for the same and as much or more. `scales` compare
amounts with the most that any device has left, which says little where selectors refuse that device, where several
requests or devices share what is left, or where counters or constraints decide. Searches know of all this, so what they
said in vain is kept, by what claims ask for apart from amounts.

More is never easier: by the rules of ordinary policies, no device is fit for an ordinary amount that is unfit for a
smaller one. So the search goes nowhere that it would not have gone for less, and meets no other errors. Nodes with
other policies are not kept; a policy may permit its default alone. Taking devices makes nothing easier, so what is kept
holds until something comes back on that node.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.room import drop_older_half
from dra_operator.allocator.nodes.memory import Learnt, Memory
from dra_operator.allocator.nodes.shortcut import Shortcut
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.inventory import NodeView
from dra_operator.ledger import Log

_MOST_AMOUNTS = 128

_Amounts: TypeAlias = tuple[int, ...]
"""All amounts of some claims, in the order in which they are asked for, in nano-units."""


@dataclass(slots=True)
class Ceiling(Learnt):
    """What claims that differ only in amounts were refused: the amounts, and the nodes for which they were too much."""

    refused: dict[_Amounts, int] = field(default_factory=dict)

    def catch_up(self, log: Log) -> None:
        """Forget nodes on which something came back, or all of them if they were renumbered."""
        nodes = log.since(self.position)
        self.refused = (
            {}
            if nodes is None
            else {asked: rest for asked, those in self.refused.items() if (rest := those & ~nodes)}
        )


@dataclass(frozen=True, slots=True)
class SameOrMore(Shortcut):
    """Leaves out nodes for which no more than this was too much."""

    candidates: Candidates
    ceiling: Ceiling
    amounts: _Amounts

    def closed(self, nodes: int) -> int:
        """Return which of the nodes had nothing for as much or less."""
        found = 0
        for refused, those in self.ceiling.refused.items():
            if those & nodes and _is_no_more(refused, self.amounts):
                found |= those
        return found & nodes

    def note(self, view: NodeView, budget: Budget) -> None:
        """Note that this is too much for the nodes of a view, if more of it would be as well."""
        del budget
        # What such a view has for a claim depends on the kubelet of each of its nodes.
        if view.skips_operations:
            return
        for pool in view.pools:
            for content in pool.slices:
                if not self.candidates.has_rules(content):
                    return
        refused = self.ceiling.refused
        refused[self.amounts] = refused.get(self.amounts, 0) | view.nodes
        if len(refused) > _MOST_AMOUNTS:
            drop_older_half(refused)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The ceilings of what was asked for lately."""

    candidates: Candidates
    memory: Memory[Ceiling]

    def of(self, plans: Sequence[ClaimPlan]) -> SameOrMore | None:
        """Return the ceiling of some claims, or None if they have no amounts, or odd ones."""
        amounts: _Amounts = ()
        for plan in plans:
            for request in plan.requests:
                for item in request.alternatives:
                    if item.key.requests:
                        if not item.key.known.are_ordinary:
                            return None
                        for _, amount, _ in item.key.content.amounts:
                            amounts += (amount,)
        if not amounts:
            return None
        return SameOrMore(self.candidates, self.memory.of(_apart_from_amounts(plans)), amounts)


def _apart_from_amounts(plans: Sequence[ClaimPlan]) -> object:
    """Return what some claims ask for, with the names of capacities, but not how much of them."""
    asked: tuple[object, ...] = ()
    for plan in plans:
        for request in plan.requests:
            for item in request.alternatives:
                content = item.key.content
                names = tuple([name for name, _, _ in content.amounts])
                asked += (content[:3], names, item.count, item.constraints)
            # This marks where the alternatives of the request end.
            asked += (None,)
        asked += (plan.constraints,)
    return asked


def _is_no_more(these: _Amounts, those: _Amounts) -> bool:
    for amount, other in zip(these, those, strict=True):  # noqa: SIM110 - half as fast with `all`
        if amount > other:
            return False
    return True
