"""Idle: what would fit if no device were in use and none were tainted.

A claim that does not fit even then waits in vain. The same walk and the same searches answer that decide, on views of
their own with an empty ledger, for plans that tolerate everything. Answers hold until something else is published.
Nobody has asked for this: it gets a tenth of the claim's budget, and searches that do not end some seconds a minute.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.explanation.contention import Contention
from dra_operator.allocator.explanation.reduced import most_that_fit
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.iteration import NodeIterator
from dra_operator.allocator.plan import Alternative, ClaimPlan, with_requests
from dra_operator.allocator.search.chain import SearchChain
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Inventory, Views
from dra_operator.ledger import Availability, Ledger

_EVERYTHING: Final = (DeviceToleration(operator="Exists"),)
_MAX_KNOWN: Final = 4096
_SPARE_CHANGES: Final = 1024
_MOST_IN_VAIN: Final = 5.0
_PERIOD: Final = 60.0
"""Seconds that searches may take which do not end, all together, in so many seconds; then no other begins."""


@dataclass(slots=True)
class IdleCluster:
    """What there is, with nothing in use. It is made when somebody asks, and dropped if nobody does for long."""

    inventory: Inventory
    candidates: Candidates
    _availability: Availability | None = None

    def availability(self) -> Availability:
        """Return it as it is now."""
        if self._availability is None:
            self._availability = Availability(Views(self.inventory, self.candidates.features), Ledger())
        changes = self._availability.refresh()
        if changes is not None:
            self.candidates.forget(changes.removed)
        return self._availability

    def keep_up(self) -> None:
        """Drop it once there is more to catch up with than it takes to begin anew: changes must not heap up."""
        known = self._availability
        if known is not None and known.views.behind > 2 * len(known.views.order) + _SPARE_CHANGES:
            gone = [view for views in known.views.of_pool.values() for view in views.values()]
            self.candidates.forget(gone)
            self._availability = None


@dataclass(slots=True)
class Idle:
    """Answers for an idle cluster. `counting` makes the searches that are asked, for what is available."""

    cluster: IdleCluster
    counting: Callable[[Availability, Candidates], SearchChain]
    _known: dict[object, str | None] = field(default_factory=dict)
    _version: int = -1
    _availability: Availability | None = None
    _walk: NodeIterator = field(init=False)
    _searches: SearchChain = field(init=False)
    _given_up: set[object] = field(default_factory=set)
    _given_up_since: float = 0.0
    _in_vain: float = 0.0

    def fits(self, plan: ClaimPlan, budget: Budget) -> bool | None:
        """Return whether a plan would fit; None if that cannot be told."""
        try:
            return self.node(plan, budget) is not None
        except (FatalError, AbortedError):
            return None

    def most(self, plan: ClaimPlan, budget: Budget) -> int | None:
        """Return how many devices a plan of one alternative could have, which asks for too many; None if unknown."""
        return most_that_fit(plan, lambda fewer: self.node(fewer, budget))[0]

    def node(self, plan: ClaimPlan, budget: Budget) -> str | None:
        """Return the first node on which a plan would fit, or None. Raises FatalError and AbortedError."""
        if self._version != self.cluster.inventory.version:
            self._known.clear()
            self._version = self.cluster.inventory.version
        if plan.signature in self._known:
            return self._known[plan.signature]
        self._refresh()
        budget = budget.tenth()
        began = budget.clock()
        if began - self._given_up_since > _PERIOD:
            self._given_up.clear()
            self._given_up_since, self._in_vain = began, 0.0
        if plan.signature in self._given_up or self._in_vain > _MOST_IN_VAIN:
            raise AbortedError("it was given up before")
        try:
            found = self._search(plan, budget)
        except AbortedError:
            self._given_up.add(plan.signature)
            self._in_vain += budget.clock() - began
            raise
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[plan.signature] = found
        return found

    def contention(self) -> Contention:
        """Return what tells how requests compete there; it asks about plans that tolerate what they tolerate."""
        return Contention(Eligibility(self.cluster.availability(), self.cluster.candidates))

    def tolerating(self, plan: ClaimPlan) -> ClaimPlan:
        """Return a plan as if it tolerated everything."""
        requests = tuple(
            replace(request, alternatives=tuple(map(self._tolerating, request.alternatives)))
            for request in plan.requests
        )
        return with_requests(plan, requests, plan.constraints)

    def _tolerating(self, item: Alternative) -> Alternative:
        content = item.key.content
        content = content._replace(tolerations=content.tolerations + _EVERYTHING)
        return replace(item, key=self.cluster.candidates.key(content, item.key.requests))

    def _refresh(self) -> None:
        availability, candidates = self.cluster.availability(), self.cluster.candidates
        if availability is not self._availability:
            self._availability = availability
            self._walk = NodeIterator(availability, candidates)
            self._searches = self.counting(availability, candidates)

    def _search(self, plan: ClaimPlan, budget: Budget) -> str | None:
        usable = self.cluster.availability().views.usable
        found = self._walk.first_that_fits([self.tolerating(plan)], usable, self._searches, budget)
        return None if found is None else found[1]
