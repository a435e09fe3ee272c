"""The chain of searches on one node: what one leaves undecided goes to the next; all give the same answer.

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
from dra_operator.allocator.search.backtracking import BacktrackingSearch, is_countable
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch
from dra_operator.allocator.search.result_types import UNDECIDED, Answer, Solution
from dra_operator.allocator.search.single_request import SingleRequestSearch, has_single_request
from dra_operator.allocator.search.state import NodeState
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability

FastSearch: TypeAlias = Callable[[Sequence[ClaimPlan], NodeView, Budget], Answer]
"""A fast search. Raises AbortedError."""
FastSearches: TypeAlias = Sequence[FastSearch]
FastSearchesFor: TypeAlias = Callable[[Sequence[ClaimPlan]], FastSearches]
"""Tells the fast searches that can be asked about some claims, the faster first."""


class SearchMode(Enum):
    """How devices are searched for: one at a time in upstream's order, or by counting where the answer is the same."""

    PLAIN = "plain"
    COUNTING = "counting"


@dataclass(frozen=True, slots=True)
class SearchChain:
    """The searches in a node: the fast ones, the faster first, or none; and always the exhaustive one."""

    availability: Availability
    candidates: Candidates
    fast: FastSearches = ()

    @classmethod
    def counting(cls, availability: Availability, candidates: Candidates) -> Self:
        """Return all searches."""
        eligibility = Eligibility(availability, candidates)
        fast = (SingleRequestSearch(eligibility).search, BacktrackingSearch(eligibility).search)
        return cls(availability, candidates, fast)

    def fast_for(self, plans: Sequence[ClaimPlan]) -> FastSearches:
        """Return the fast searches that can be asked about some claims."""
        if not self.fast:
            return ()
        if has_single_request(plans):
            # Whatever the search for a single request can be asked, the backtracking search can be asked as well.
            return self.fast
        return self.fast[1:] if is_countable(plans) else ()

    def search(
        self, plans: Sequence[ClaimPlan], fast: FastSearches, node: str, view: NodeView, budget: Budget
    ) -> Solution | None:
        """Return what some claims get on a node, or None. Raises FatalError and AbortedError.

        `fast` are the fast searches for these claims, `view` is what the node sees.
        """
        for search in fast:
            answer = search(plans, view, budget)
            if answer is not UNDECIDED:
                return answer
        state = NodeState(
            plans=plans,
            node=self.availability.views.inventory.nodes[node],
            view=view,
            availability=self.availability,
            candidates=self.candidates,
            derived=partial(self.candidates.derived.value, budget=budget),
        )
        plain = ExhaustiveSearch(state, budget)
        return plain.found() if plain.run() else None
