"""Iteration over nodes by name: the first node on which the claims fit wins.

Most nodes are left out without a search: those that have said no before (equivalence cache), those without a free
device, and for a new problem those that filters exclude or reject; after some searches in vain the capacity filter is
used for known problems too. An error that is fatal upstream ends the iteration, even if a later node would fit.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.capacity_filter import (
    CapacityFilter,
    build_capacity_filter,
    build_for_new_amounts,
)
from dra_operator.allocator.nodes.equivalence_cache import EquivalenceCache
from dra_operator.allocator.nodes.filters import FilterContext, NodeFilter, can_be_left_out
from dra_operator.allocator.nodes.subproblem_filter import build_subproblem_filter
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.chain import FastSearches, SearchChain
from dra_operator.allocator.search.result_types import Solution
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability

_FAILURES_BEFORE_CAPACITY = 2
_FEW_NODES = 16
"""If no more are open to a new problem, it takes longer to build filters than to search them all."""
_ALL_NODES = -1


@dataclass(slots=True)
class NodeIterator:
    """Iterates over nodes and remembers what they have answered. Views and ledger must be up to date."""

    availability: Availability
    candidates: Candidates
    _answers: EquivalenceCache = field(init=False)
    _context: FilterContext = field(init=False)

    def __post_init__(self) -> None:
        log = self.availability.log
        self._answers = EquivalenceCache(log)
        self._context = FilterContext(
            self.availability, self.candidates, EquivalenceCache(log), EquivalenceCache(log)
        )

    def first_that_fits(
        self, plans: Sequence[ClaimPlan], allowed: int, searches: SearchChain, budget: Budget
    ) -> tuple[Solution, str] | None:
        """Return what the claims get on the first of the allowed nodes that fits, and its name; None if none fits.

        Raises FatalError and AbortedError.
        """
        availability = self.availability
        views = availability.views
        # Most attempts are about one claim, for which a loop is faster than a generator.
        signatures: tuple[object, ...] = ()
        need_free = bool(plans)
        for plan in plans:
            signatures += (plan.signature,)
            need_free = need_free and plan.needs_free
        answers = self._answers.get(signatures)
        wanted = allowed & answers.open_nodes
        if need_free:
            wanted &= availability.nonempty
        fast = searches.fast_for(plans)
        first: Sequence[NodeFilter] = ()
        outright = False
        if answers.open_nodes == _ALL_NODES:
            outright = wanted.bit_count() <= _FEW_NODES
            if not outright and can_be_left_out(plans, fast):
                first = self._for_new(plans, searches)
        filters, asked, failures = first, wanted, 0
        try:
            for node_filter in first:
                wanted &= ~node_filter.exclude(wanted)
            while wanted:
                position = (wanted & -wanted).bit_length() - 1
                node = views.order[position]
                view = views.of_node(node)
                lack = False
                if filters and view.error is None:
                    for node_filter in filters:
                        if lack := node_filter.rejects(view, budget):
                            break
                if not lack:
                    found = searches.search(plans, fast, node, view, budget)
                    if found is not None:
                        return found, node
                    failures += 1
                    if failures == _FAILURES_BEFORE_CAPACITY and not outright and not first:
                        another = self._after_failures(plans, fast, view, budget)
                        if another is not None:
                            wanted &= ~another.exclude(wanted)
                            filters = (*filters, another)
                # All nodes of a view give the same answer, unless it depends on what their kubelets can do.
                wanted &= ~(1 << position if view.skips_operations else view.nodes)
                for node_filter in filters:
                    node_filter.learn(view, budget)
        finally:
            # Even if the time is used up: the next attempt goes on from here.
            if wanted != asked:
                answers.open_nodes &= ~(asked ^ wanted)
        return None

    def _for_new(self, plans: Sequence[ClaimPlan], searches: SearchChain) -> Sequence[NodeFilter]:
        subproblem = build_subproblem_filter(self._context, plans, searches.fast_for)
        capacity = build_for_new_amounts(self._context, plans)
        return [node_filter for node_filter in (subproblem, capacity) if node_filter is not None]

    def _after_failures(
        self, plans: Sequence[ClaimPlan], fast: FastSearches, view: NodeView, budget: Budget
    ) -> CapacityFilter | None:
        """Return a capacity filter if it leaves out more nodes like the last one, where a search was in vain.

        Nodes that were filled since the problem came up last have too little left.
        """
        found = build_capacity_filter(self._context, plans) if can_be_left_out(plans, fast) else None
        if found is not None and (found.rejects(view, budget) or found.narrow_to_selected(view, budget)):
            return found
        return None
