"""What would fit if no device were in use and none were tainted: a claim that does not fit even then waits in vain.

The same searches answer that decide, on views of their own with an empty ledger, for plans that tolerate everything.
Nobody has asked for this: it gets a tenth of the claim's budget, and searches that do not end some seconds a minute.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.explanation.answer_cache import AnswerCache
from dra_operator.allocator.explanation.contention import Contention
from dra_operator.allocator.explanation.device_counts import DeviceCounts
from dra_operator.allocator.explanation.obstacles import PASSING
from dra_operator.allocator.explanation.relaxation import Fit, most_that_fit, only, unconstrained, without
from dra_operator.allocator.explanation.text import constraint_name
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.iteration import NodeIterator
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.chain import SearchChain
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Inventory, Views
from dra_operator.inventory.ownership import FENCED_TOLERATION
from dra_operator.ledger import Availability, Ledger

_EVERYTHING: Final = (DeviceToleration(operator="Exists"), FENCED_TOLERATION)
_MOST_KNOWN: Final = 4096
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


class MostIfIdle(NamedTuple):
    """How many devices a request could have that never gets all it asks for; None if that is not known.

    `when` says what would have to be otherwise.
    """

    number: int | None
    when: str

    def clauses(self, counts: DeviceCounts, now: int) -> tuple[str, str]:
        """Return what is said of those that are left now, and behind the number that is requested, or nothing."""
        if self.number is None:
            return "", f", which no node has even {self.when}"
        if self.number <= now:
            return f" even {self.when}", ""
        if self.number < counts.most_if_idle:
            return "", f", only {self.number} of them together {self.when}"
        return "", f", at most {self.number} on one node {self.when}"


@dataclass(slots=True)
class IdleAnswers:
    """Answers for an idle cluster. `searches_for` makes the searches that are asked, for what is available."""

    cluster: IdleCluster
    searches_for: Callable[[Availability, Candidates], SearchChain]
    _known: AnswerCache[tuple[str | None]] = field(init=False)
    _availability: Availability | None = None
    _iterator: NodeIterator = field(init=False)
    _searches: SearchChain = field(init=False)
    _given_up: set[object] = field(default_factory=set)
    _given_up_since: float = 0.0
    _in_vain: float = 0.0

    def __post_init__(self) -> None:
        self._known = AnswerCache(_MOST_KNOWN, lambda: self.cluster.inventory.version)

    def fits(self, plan: ClaimPlan, budget: Budget) -> bool | None:
        """Return whether a plan would fit; None if that cannot be told."""
        try:
            return self.node(plan, budget) is not None
        except (FatalError, AbortedError):
            return None

    def _most(self, plan: ClaimPlan, budget: Budget) -> int | None:
        """Return how many devices a plan of one alternative could have, which asks for too many; None if unknown."""
        return most_that_fit(plan, lambda fewer: self.node(fewer, budget))[0]

    def node(self, plan: ClaimPlan, budget: Budget) -> str | None:
        """Return the first node on which a plan would fit, or None. Raises FatalError and AbortedError."""
        if (kept := self._known.get(plan.signature)) is not None:
            return kept[0]
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
        self._known.put(plan.signature, (found,))
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

    def left(
        self, plan: ClaimPlan, counts: DeviceCounts, last: Reason | None, fit: Fit, budget: Budget
    ) -> tuple[Reason, str]:
        """Return why what is left for a plan of one alternative is too little, and what it is.

        `last` is the last obstacle, if there is one.
        """
        count = plan.requests[0].alternatives[0].count
        vain = self.most(plan, counts, budget)
        if count is None:
            return _all_text(counts, last, vain.when if vain else "")
        if not counts.figures.left and last is not None and vain is None:
            return last, ""
        text, behind = _most_text(plan, counts, count, fit, vain)
        return Reason.NOT_ENOUGH_DEVICES, f"{text}, {count} requested{behind}"

    def most(self, plan: ClaimPlan, counts: DeviceCounts, budget: Budget) -> MostIfIdle | None:
        """Return how many devices a plan of one alternative could have, if it never fits; None if it may.

        No constraint binds it. If no device draws on counters, their number tells: a request gets none of them twice.
        """
        count = plan.requests[0].alternatives[0].count
        if PASSING.isdisjoint(counts.refusals) or (
            not counts.figures.drawing and counts.most_if_idle >= (count or 0)
        ):
            return None
        if not counts.figures.drawing:
            return MostIfIdle(counts.most_if_idle, _when((counts,))) if counts.most_if_idle else None
        if self.fits(plan, budget) is not False:
            return None
        number = self._most(plan, budget)
        # Where no node has any, something else is said of the devices.
        return None if number == 0 else MostIfIdle(number, _when((counts,)))

    def most_bound(self, plan: ClaimPlan, counts: DeviceCounts, budget: Budget) -> MostIfIdle | None:
        """Return how many devices a plan of one alternative could have that constraints keep from all it asks for."""
        if plan.requests[0].alternatives[0].admin_access or self.fits(plan, budget) is not False:
            return None
        return MostIfIdle(self._most(plan, budget), _when((counts,)))

    def constraint(
        self, plan: ClaimPlan, request: RequestPlan, all_counts: Sequence[DeviceCounts], budget: Budget
    ) -> str:
        """Return a clause on the constraint that a request with these counts of its alternatives can never meet."""
        if not plan.constraints or not any(counts.figures.kept for counts in all_counts):
            return ""
        alone = only(plan, (request,))
        try:
            if self.node(alone, budget) is not None or not self.fits(unconstrained(alone), budget):
                return ""
        except FatalError as error:
            return _conflict_text(error, request, all_counts)
        except AbortedError:
            return ""
        text = f"; {self._name(alone, budget)} cannot be met"
        item = request.alternatives[0]
        if request.prioritized or item.count is None or not (most := self._most(alone, budget)):
            return f"{text} even {_when(all_counts)}"
        return f"{text}: at most {most} together even {_when(all_counts)}, {item.count} requested"

    def together(
        self, plan: ClaimPlan, all_counts: Sequence[DeviceCounts], text_before: str, budget: Budget
    ) -> str:
        """Return a clause on requests that may fit alone, but never together; nothing in `text_before` is repeated."""
        if len(plan.requests) == 1 or not any(counts.figures.kept for counts in all_counts):
            return ""
        alone = [only(plan, (request,)) for request in plan.requests]
        nodes = {}
        try:
            for each in alone:
                if (node := self.node(each, budget)) is None:
                    return ""
                nodes[each.requests[0].name] = node
            if self.node(plan, budget) is not None:
                return ""
        except (FatalError, AbortedError):
            return ""
        text = f"; even {_when(all_counts)}, the requests do not fit together"
        free = unconstrained(plan)
        if plan.constraints and self.fits(free, budget) is not False:
            name = self._name(plan, budget)
            return f"{text} with {name.partition(' (')[0] if name in text_before else name}"
        free = self.tolerating(free)
        cause = self.contention().describe(free, free, nodes, budget.tenth())
        return f"{text}: {cause}" if cause and cause not in text_before else text

    def _name(self, plan: ClaimPlan, budget: Budget) -> str:
        """Return the first constraint without which a plan would fit, or all of them."""
        numbers = range(len(plan.constraints))
        alone = (number for number in numbers if self.fits(without(plan, number), budget))
        return constraint_name(plan, next(alone, None))

    def _tolerating(self, item: Alternative) -> Alternative:
        content = item.key.content
        content = content._replace(tolerations=content.tolerations + _EVERYTHING)
        return replace(item, key=self.cluster.candidates.key(content, item.key.requests))

    def _refresh(self) -> None:
        availability, candidates = self.cluster.availability(), self.cluster.candidates
        if availability is not self._availability:
            self._availability = availability
            self._iterator = NodeIterator(availability, candidates)
            self._searches = self.searches_for(availability, candidates)

    def _search(self, plan: ClaimPlan, budget: Budget) -> str | None:
        usable = self.cluster.availability().views.usable
        found = self._iterator.first_that_fits([self.tolerating(plan)], usable, self._searches, budget)
        return None if found is None else found[1]


def _most_text(
    plan: ClaimPlan, counts: DeviceCounts, count: int, fit: Fit, vain: MostIfIdle | None
) -> tuple[str, str]:
    """Return how many are left and could be had at the most, and what is said behind the number requested."""
    if not counts.figures.left:
        return "", vain.clauses(counts, 0)[1] if vain else ""
    now, node, together = counts.most_on_a_node, counts.node, ""
    if counts.figures.rivals or now >= count:
        # Those that are left on a node need not be left together.
        most, node = most_that_fit(plan, fit)
        if most is not None and most < now:
            now, node = most, ""
            together = (
                f", but only {most} of them together{f' {_rivalry(counts)}' if counts.figures.rivals else ''}"
            )
    even, behind = vain.clauses(counts, now) if vain else ("", "")
    where = f" ({node})" if node else ""
    return (
        f", {counts.figures.left} left, at most {counts.most_on_a_node} on one node{where}{together}{even}",
        behind,
    )


def _rivalry(counts: DeviceCounts) -> str:
    """Return why devices that are left are not left together."""
    return (
        f"as they draw on the same counters{' or have no group in common' if counts.figures.grouped else ''}"
    )


def _all_text(counts: DeviceCounts, last: Reason | None, never: str) -> tuple[Reason, str]:
    """Return why a request for all devices does not get what is left, and what it is.

    `never` says when it would not get them either, if that is so.
    """
    if never:
        left = f", {counts.figures.left} left" if counts.figures.left else ""
        return (
            Reason.NOT_ENOUGH_DEVICES,
            f"{left}, all requested, but not all of a node together even {never}",
        )
    if last is not None:
        return last, f", {counts.figures.left} left, all requested" if counts.figures.left else ""
    together = f"but not all of a node together, {_rivalry(counts)}"
    rest = together if counts.figures.rivals else "but not all of them on one node"
    return Reason.NOT_ENOUGH_DEVICES, f", {counts.figures.left} left, {rest}"


def _when(all_counts: Iterable[DeviceCounts]) -> str:
    """Return what would have to be otherwise, for devices that are in use or tainted."""
    tainted = any(Reason.DEVICE_TAINTED in counts.refusals for counts in all_counts)
    return f"if none were in use{' or tainted' if tainted else ''}"


def _conflict_text(error: FatalError, request: RequestPlan, all_counts: Iterable[DeviceCounts]) -> str:
    if error.reason is not Reason.CONSTRAINT_CONFLICT:
        return ""
    return f"; {_when(all_counts)}, it {error.message.removeprefix(f'request {request.name}: ')}"
