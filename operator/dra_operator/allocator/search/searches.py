"""Searches: what some claims get on one node, from the fastest search that can tell.

All of them give the same answer. The quick search is asked first if it can be, then the window search. What these
leave open goes to the plain search, which can always tell.
Source: docs/engine sections 6 and 9.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Self, TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.found import UNSURE, Answer, Found
from dra_operator.allocator.search.plain import PlainSearch
from dra_operator.allocator.search.quick import QuickSearch, is_quick
from dra_operator.allocator.search.state import NodeState
from dra_operator.allocator.search.window import WindowSearch, is_countable
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability

FastSearch: TypeAlias = Callable[[Sequence[ClaimPlan], NodeView, Budget], Answer]
"""A fast search. Raises AbortedError."""
FastSearches: TypeAlias = Sequence[FastSearch]
FastSearchesFor: TypeAlias = Callable[[Sequence[ClaimPlan]], FastSearches]
"""Tells the fast searches that can be asked about some claims, the faster first."""
_FAILURES_BEFORE_PROSPECTS = 16


class Searching(Enum):
    """How devices are searched for: one at a time in upstream's order, or by counting where the answer is the same."""

    PLAIN = "plain"
    COUNTING = "counting"


@dataclass(frozen=True, slots=True)
class Searches:
    """The searches in a node: the fast ones, the faster first, or none; and always the plain one."""

    availability: Availability
    candidates: Candidates
    fast: FastSearches = ()

    @classmethod
    def counting(cls, availability: Availability, candidates: Candidates) -> Self:
        """Return all searches."""
        eligibility = Eligibility(availability, candidates)
        fast = (QuickSearch(eligibility).search, WindowSearch(eligibility).search)
        return cls(availability, candidates, fast)

    def fast_for(self, plans: Sequence[ClaimPlan]) -> FastSearches:
        """Return the fast searches that can be asked about some claims."""
        if not self.fast:
            return ()
        if is_quick(plans):
            # Whatever the quick search can be asked, the window search can be asked as well.
            return self.fast
        return self.fast[1:] if is_countable(plans) else ()

    def search(
        self, plans: Sequence[ClaimPlan], fast: FastSearches, node: str, view: NodeView, budget: Budget
    ) -> Found | None:
        """Return what some claims get on a node, or None. Raises FatalError and AbortedError.

        `fast` are the fast searches for these claims, `view` is what the node sees.
        """
        for search in fast:
            answer = search(plans, view, budget)
            if answer is not UNSURE:
                return answer
        state = NodeState(
            plans=plans,
            node=self.availability.views.inventory.nodes[node],
            view=view,
            availability=self.availability,
            candidates=self.candidates,
            derived=partial(self.candidates.derived.value, budget=budget),
        )
        plain = PlainSearch(state, budget, _FAILURES_BEFORE_PROSPECTS if self.fast else None)
        return plain.found() if plain.run() else None
