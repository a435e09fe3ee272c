"""Filters: ways to leave nodes out without a search, as most nodes of a nearly full cluster have too little.

A filter may leave a node out only if the exhaustive search would find nothing there and would meet no error. So filters
are only used for claims that a node with too few devices can neither serve nor end with an error.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.equivalence_cache import EquivalenceCache
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What filters are built from, and what nodes have answered to those of earlier claims."""

    availability: Availability
    candidates: Candidates
    subproblems: EquivalenceCache
    error_free: EquivalenceCache


class NodeFilter:
    """Leaves nodes out of one iteration. Those that it knows nothing of are left to other filters or a search."""

    __slots__ = ()

    def exclude(self, nodes: int) -> int:
        """Return which of the nodes to leave out without looking at them."""
        raise NotImplementedError

    def rejects(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view have too little; false if not, or if that is not known. Raises AbortedError."""
        raise NotImplementedError

    def learn(self, view: NodeView, budget: Budget) -> None:
        """Learn that nodes of a view had too little. Raises AbortedError."""
        raise NotImplementedError


def can_be_left_out(plans: Sequence[ClaimPlan], fast: Sequence[object]) -> bool:
    """True if nodes with too few devices for a request can be left out: the claims neither fit nor fail there.

    `fast` are the fast searches for these claims.
    """
    return bool(fast) and bool(plans) and all(plan.needs_free and not plan.derives for plan in plans)
