"""The walk over nodes: it goes through them by name, and the first node on which the claims fit wins.

Most nodes are left out without a search. Five things tell which, the cheapest first:

- Memory: a node that has said no to the same question still says no, until something comes back there (`problems`).
- A node without a free device has nothing for anybody.
- For a question that is new, shortcuts know nodes from similar questions: `common` those that have nothing for a part
  of it, `scales` those with too little capacity left.
- At each node, the same shortcuts first compare what it has.
- After some searches in vain, `scales` compare amounts for questions that are not new as well.

If a search meets an error that is fatal upstream, the walk ends, even if a later node would fit.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.common import Commons
from dra_operator.allocator.nodes.doubts import Doubts
from dra_operator.allocator.nodes.memory import Memory
from dra_operator.allocator.nodes.scales import Scales, ScalesMaker
from dra_operator.allocator.nodes.shortcut import Shortcut, can_be_left_out
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.found import Found
from dra_operator.allocator.search.searches import FastSearches, Searches
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability

_FAILURES_BEFORE_SCALES = 2
_FEW_NODES = 16
"""If no more are open to a new question, it takes longer to look for shortcuts than to search them all."""
_ALL_NODES = -1


@dataclass(slots=True)
class Walk:
    """Walks over the nodes of a cluster, with the memory of all of them. Views and ledger must be up to date."""

    availability: Availability
    candidates: Candidates
    _problems: Memory = field(init=False)
    _commons: Commons = field(init=False)
    _scales: ScalesMaker = field(init=False)

    def __post_init__(self) -> None:
        log, candidates = self.availability.log, self.candidates
        self._problems = Memory(log)
        doubts = Doubts(self.availability.states, candidates, Memory(log))
        self._commons = Commons(candidates, doubts, Memory(log))
        self._scales = ScalesMaker(self.availability, candidates, doubts)

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
        problem = self._problems.get(signatures)
        wanted = allowed & problem.maybe
        if need_free:
            wanted &= availability.nonempty
        fast = searches.fast_for(plans)
        first: Sequence[Shortcut] = ()
        outright = False
        if problem.maybe == _ALL_NODES:
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
                    if failures == _FAILURES_BEFORE_SCALES and not outright and not first:
                        another = self._after_failures(plans, fast, view, budget)
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
        common, scales = self._commons.of(plans, searches.fast_for), self._scales.of_new(plans)
        return [shortcut for shortcut in (common, scales) if shortcut is not None]

    def _after_failures(
        self, plans: Sequence[ClaimPlan], fast: FastSearches, view: NodeView, budget: Budget
    ) -> Scales | None:
        """Return scales if they leave out more nodes like the last one, where a search was in vain.

        Nodes that were filled since the question came up last have too little left.
        """
        scales = self._scales.of(plans) if can_be_left_out(plans, fast) else None
        if scales is not None and (scales.finds_lack(view, budget) or scales.look_closer(view, budget)):
            return scales
        return None
