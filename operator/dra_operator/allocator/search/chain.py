"""The search in one node: the check, then a search by counting, or one device at a time where counting cannot tell.

All give the same answer. Source: docs/engine sections 6 and 9.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Self

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.check import first_fit, is_countable, lowest_devices, solution_of
from dra_operator.allocator.search.domains import first_state, narrow_groups
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch
from dra_operator.allocator.search.hardest import HardestFirst
from dra_operator.allocator.search.problem import build, find_rows
from dra_operator.allocator.search.result_types import UNDECIDED, Answer, Solution
from dra_operator.allocator.search.state import NodeState
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability


class SearchMode(Enum):
    """How devices are searched for: one at a time in upstream's order, or by counting where the answer is the same."""

    PLAIN = "plain"
    COUNTING = "counting"


def count(eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget) -> Answer:
    """Return what some countable claims get on a node by counting, None if they do not fit, or UNDECIDED.

    Raises AbortedError.
    """
    # Otherwise errors of any request come before the search.
    in_order = not any(plan.evaluates_used or plan.derives for plan in plans)
    rows = find_rows(eligibility, plans, view, budget, give_up=in_order)
    if rows is UNDECIDED or rows is None:
        return rows
    picks = lowest_devices(plans, rows, view) if in_order else None
    if picks is None:
        problem = build(eligibility, plans, view, budget, rows)
        if problem is UNDECIDED:
            return UNDECIDED
        now = first_state(problem)
        if now is not None and problem.rules:
            now = narrow_groups(problem, now)
        if now is None:
            return None
        picks = first_fit(problem, now, budget)
        if picks is None:
            picks = HardestFirst(problem, budget).solve(now)
        if picks is None:
            return None
    return solution_of(plans, view, picks)


@dataclass(frozen=True, slots=True)
class SearchChain:
    """The searches in a node: by counting, with `eligibility`, and always the exhaustive one."""

    availability: Availability
    candidates: Candidates
    eligibility: Eligibility | None = None

    @classmethod
    def counting(cls, availability: Availability, candidates: Candidates) -> Self:
        """Return all searches."""
        return cls(availability, candidates, Eligibility(availability, candidates))

    def that_can_serve(self, plans: Sequence[ClaimPlan]) -> Self:
        """Return the searches that can be asked about some claims."""
        return self if self.eligibility is None or is_countable(plans) else replace(self, eligibility=None)

    def search(
        self, plans: Sequence[ClaimPlan], node: str, view: NodeView, budget: Budget
    ) -> Solution | None:
        """Return what some claims get on a node, or None; `view` is what the node sees.

        Raises FatalError and AbortedError.
        """
        if self.eligibility is not None:
            answer = count(self.eligibility, plans, view, budget)
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
