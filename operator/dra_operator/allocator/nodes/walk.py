"""The walk over nodes: it goes through them by name, and the first node on which the claims fit wins.

Most nodes are left out without a search. Five things tell which, the cheapest first:

- Memory: a node that has said no to the same question still says no, until something comes back there (`problems`).
- A node without a free device has nothing for anybody.
- For a question that is new, shortcuts know nodes from similar questions: `common` those that have nothing for a part
  of it, `openings` those that are kept for others, `scales` those with too little capacity left, `either` those with
  too little for some alternatives and nothing for the others.
- At each node, the same shortcuts first compare what it has.
- After some searches in vain, `scales` compare amounts for questions that are not new as well, `ceilings` know nodes
  for which less was too much, and `sieve` counts the devices of a node.

If a search meets an error that is fatal upstream, the walk ends, even if a later node would fit.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes import either
from dra_operator.allocator.nodes.ceilings import Ceiling, Ceilings
from dra_operator.allocator.nodes.common import Commons
from dra_operator.allocator.nodes.doubts import Doubts
from dra_operator.allocator.nodes.memory import Memory
from dra_operator.allocator.nodes.openings import Opening, Openings
from dra_operator.allocator.nodes.problems import SearchProblem
from dra_operator.allocator.nodes.scales import ScalesMaker
from dra_operator.allocator.nodes.shortcut import Shortcut, can_be_left_out
from dra_operator.allocator.nodes.sieve import Sieve
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.found import Found
from dra_operator.allocator.search.searches import FastSearches, Searches
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability

_FAILURES_BEFORE_SHORTCUTS = 2
_FAILURES_BEFORE_SIEVE = 4
_FEW_NODES = 16
"""If no more are open to a new question, it takes longer to look for shortcuts than to search them all."""
_ALL_NODES = -1


@dataclass(slots=True)
class Walk:
    """Walks over the nodes of a cluster, with the memory of all of them. Views and ledger must be up to date."""

    availability: Availability
    candidates: Candidates
    _problems: Memory[SearchProblem] = field(init=False)
    _commons: Commons = field(init=False)
    _openings: Openings = field(init=False)
    _scales: ScalesMaker = field(init=False)
    _ceilings: Ceilings = field(init=False)

    def __post_init__(self) -> None:
        log, candidates = self.availability.log, self.candidates
        self._problems = Memory(log, SearchProblem)
        self._openings = Openings(candidates.features, Memory(log, Opening, maximum=64))
        doubts = Doubts(candidates, Memory(log, SearchProblem))
        self._commons = Commons(candidates, doubts, Memory(log, SearchProblem))
        self._scales = ScalesMaker(self.availability, candidates, doubts)
        self._ceilings = Ceilings(candidates, Memory(log, Ceiling, maximum=256))

    def first_that_fits(
        self, plans: Sequence[ClaimPlan], allowed: int, searches: Searches, budget: Budget
    ) -> tuple[Found, str] | None:
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
        problem = self._problems.of(signatures)
        wanted = allowed & problem.maybe
        if need_free:
            wanted &= availability.nonempty
        fast = searches.fast_for(plans)
        first: Sequence[Shortcut] = ()
        # A bare claim has none of these, and would look for them each time, as long as the first node fits.
        outright = len(plans) == 1 and plans[0].bare
        if not outright and problem.maybe == _ALL_NODES:
            outright = wanted.bit_count() <= _FEW_NODES
            if not outright and can_be_left_out(plans, fast):
                first = self._for_new(plans, searches)
        shortcuts, asked, failures = first, wanted, 0
        try:
            for shortcut in first:
                wanted &= ~shortcut.closed(wanted)
            while wanted:
                position = (wanted & -wanted).bit_length() - 1
                node = views.order[position]
                view = views.of_node(node)
                lack = False
                if shortcuts and view.error is None:
                    for shortcut in shortcuts:
                        if lack := shortcut.finds_lack(view, budget):
                            break
                if not lack:
                    found = searches.search(plans, fast, node, view, budget)
                    if found is not None:
                        return found, node
                    failures += 1
                    if failures == _FAILURES_BEFORE_SIEVE and can_be_left_out(plans, fast):
                        shortcuts = (*shortcuts, Sieve(self.candidates, plans[0].requests[0].alternatives))
                    if failures == _FAILURES_BEFORE_SHORTCUTS and not outright:
                        another = self._after_failures(plans, fast, view, budget, is_new=bool(first))
                        if another is not None:
                            wanted &= ~another.closed(wanted)
                            shortcuts = (*shortcuts, another)
                # All nodes of a view give the same answer, unless it depends on what their kubelets can do.
                wanted &= ~(1 << position if view.skips_operations else view.nodes)
                for shortcut in shortcuts:
                    shortcut.note(view, budget)
        finally:
            # Even if the time is used up: the next attempt goes on from here.
            if wanted != asked:
                problem.maybe &= ~(asked ^ wanted)
        return None

    def _for_new(self, plans: Sequence[ClaimPlan], searches: Searches) -> Sequence[Shortcut]:
        """Return the shortcuts for a question that is new."""
        commons, scales = self._commons, self._scales
        found: tuple[Shortcut | None, ...]
        found = (commons.of(plans, searches.fast_for), self._openings.of(plans), scales.of_new(plans))
        if len(plans) == 1 and len(plans[0].requests[0].alternatives) > 1:
            found = (*found, either.of(plans[0], scales, commons, searches.fast_for))
        return [shortcut for shortcut in found if shortcut is not None]

    def _after_failures(
        self, plans: Sequence[ClaimPlan], fast: FastSearches, view: NodeView, budget: Budget, *, is_new: bool
    ) -> Shortcut | None:
        """Return the shortcut that may leave out more nodes like the last one, where a search was in vain."""
        if not can_be_left_out(plans, fast):
            return None
        if not is_new:
            # Nodes that were filled since the question came up last have too little left.
            scales = self._scales.of(plans)
            if scales is not None and (scales.finds_lack(view, budget) or scales.look_closer(view, budget)):
                return scales
        return self._ceilings.of(plans)
