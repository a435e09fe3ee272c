"""Explanations: why claims wait, in one line that names the request, the numbers and the obstacle.

One thing is taken away at a time, and the allocator is asked again: the other claims, the other requests, the
constraints, the uses and taints. The first whose absence helps is the reason.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator import Allocator, Decider, Limits
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import (
    AbortedError,
    Allocated,
    Decision,
    Explanation,
    Failed,
    FatalError,
)
from dra_operator.allocator.matching.selectors import partly_failing
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import near_object
from dra_operator.api.types import ResourceClaim
from dra_operator.api.versions import Rules
from dra_operator.explain.attempt import Attempt, selectors_of
from dra_operator.explain.relax import Kept, Relaxer
from dra_operator.explain.sentence import NONE_SELECTED, Hints
from dra_operator.explain.stages import CLASS, DeviceCounter, DeviceCounts, SliceDevices
from dra_operator.inventory import Verdict, bits

_POOL_REASONS: Final = (Reason.POOL_INCOMPLETE, Reason.POOL_INVALID)
_OF_FAILING: Final = Limits(seconds=0.5)
_TOGETHER: Final = (Reason.REQUESTS_DO_NOT_FIT_TOGETHER, Reason.CONSTRAINT_UNSATISFIABLE)


@dataclass(slots=True)
class Explainer:
    """Explains the decisions of an allocator by its present state, which it follows.

    `limits` are for each call, those of the allocator if nothing is said.
    """

    allocator: Allocator
    _counter: DeviceCounter = field(init=False)
    _hints: Hints = field(init=False)
    _relaxer: Relaxer = field(init=False)
    _of_complete_pools: Relaxer = field(init=False)
    _known: Kept = field(default_factory=Kept)

    def __post_init__(self) -> None:
        allocator = self.allocator
        self._counter = DeviceCounter(allocator.availability, allocator.candidates)
        self._hints = Hints(allocator.availability.views, allocator.candidates)
        self._relaxer = Relaxer(allocator)
        self._of_complete_pools = Relaxer(allocator, complete_only=True)

    def decide_by(self, rules: Rules) -> None:
        """Have the allocator decide by other rules, and explain what it decides; as there, before anything is known."""
        self.allocator.decide_by(rules)
        self.__post_init__()

    def explain(
        self,
        claims: Sequence[ResourceClaim],
        decision: Decision,
        *,
        decider: Decider | None = None,
        limits: Limits | None = None,
        is_preempted: Callable[[], bool] | None = None,
    ) -> tuple[Explanation, ...]:
        """Return, for each of some claims, why it is not allocated; empty for a decision that allocates them.

        It explains the present state, which should be the one in which the decision was made. Raises PreemptedError
        soon after it `is_preempted`; what was counted until then makes the next attempt shorter.
        """
        if isinstance(decision, Allocated):
            return ()
        if isinstance(decision, Failed) and decision.reason not in _POOL_REASONS:
            return tuple(self._explain_failure(decision) for _ in claims)
        budget = self._begin(limits, is_preempted)
        try:
            plans = [self.allocator.plan(claim, decider) for claim in claims]
        except FatalError as error:
            return tuple(self._explain_failure(error.failed()) for _ in claims)
        if isinstance(decision, Failed):
            return tuple(self._explain_ended(decision, plans, plan, budget) for plan in plans)
        return tuple(self._explain(plans, plan, self._relaxer, budget) for plan in plans)

    def count_devices(
        self, claim: ResourceClaim, *, decider: Decider | None = None, limits: Limits | None = None
    ) -> tuple[tuple[Alternative, DeviceCounts], ...]:
        """Return for each alternative of each request of a claim how many devices each stage keeps away.

        Nothing is said of a claim that cannot be planned, as without its class, nor where counting takes too long.
        """
        budget = self._begin(limits)
        try:
            items = _alternatives(self.allocator.plan(claim, decider))
            return tuple([(item, self._counter.count(item, budget)) for item in items])
        except (FatalError, AbortedError):
            return ()

    def find_devices(
        self, claim: ResourceClaim, *, decider: Decider | None = None, limits: Limits | None = None
    ) -> Iterator[tuple[Alternative, SliceDevices]]:
        """Yield the devices that each alternative of each request of a claim selects, and what keeps some of them away.

        Nothing of a claim that cannot be planned; what takes too long ends it.
        """
        budget = self._begin(limits)
        try:
            for item in _alternatives(self.allocator.plan(claim, decider)):
                for found in self._counter.find_devices(item, budget):
                    yield item, found
        except (FatalError, AbortedError):
            return

    def fits_if_idle(self, claim: ResourceClaim, *, decider: Decider | None = None) -> bool | None:
        """Return whether a claim would fit if no device were in use or tainted; None if that cannot be told."""
        budget = self._begin(None)
        try:
            plan = self.allocator.plan(claim, decider)
        except FatalError:
            return False
        return self._relaxer.idle().fits(plan, budget)

    def find_failing(self, claim: ResourceClaim) -> list[str]:
        """Return a sentence for each selector of a claim that fails on some device, whether reached or not.

        kube-scheduler looks at all nodes at once and refuses such a claim from the start (docs/differences.md,
        `selector-error-elsewhere`). Nothing is said of what takes long, nor of a claim that cannot be planned.
        """
        budget = self._begin(_OF_FAILING)
        try:
            plan = self.allocator.plan(claim)
            texts = [text for item in _alternatives(plan) for text in self._find_failing(plan, item, budget)]
        except (FatalError, AbortedError):
            return []
        return list(dict.fromkeys(texts))

    def _find_failing(self, plan: ClaimPlan, item: Alternative, budget: Budget) -> Iterator[str]:
        counts = self._counter.count(item, budget)
        asked = counts.figures.published
        for source, expressions in selectors_of(plan, item):
            is_class = source.subject[0] == "DeviceClass"
            for number, expression in enumerate(expressions):
                refusals = counts.of_stage(CLASS - number if is_class else number)
                if (found := refusals.failure) is not None:
                    answers = self.allocator.candidates.selectors.get(expression)
                    place = found.slice_, found.device
                    yield partly_failing(answers, source, number, *place, failed=refusals.failed, asked=asked)
                asked -= refusals.count

    def refresh(self) -> None:
        """Take in what has changed, as the allocator does; what changes must not heap up while nobody explains."""
        self.allocator.refresh()
        for relaxer in (self._relaxer, self._of_complete_pools):
            relaxer.keep_up()

    def release(self) -> None:
        """Forget what is kept about the views of the allocator; neither can be used any more."""
        for relaxer in (self._relaxer, self._of_complete_pools):
            relaxer.release()
        self.allocator.release()

    def _begin(self, limits: Limits | None, is_preempted: Callable[[], bool] | None = None) -> Budget:
        self.refresh()
        return self.allocator.new_budget(limits, is_preempted)

    def _explain_failure(self, failed: Failed) -> Explanation:
        """Return the explanation of an attempt that ended with an error: the error says it, here in one line."""
        message = " ".join(failed.message.split())
        if failed.reason is Reason.CLASS_NOT_FOUND and failed.subject is not None:
            # A class that exists may have been meant.
            near = near_object(failed.subject[1], self.allocator.inventory.classes)
            message = f'{message}; did you mean "{near}"?' if near else message
        return Explanation(failed.reason, message, failed.request)

    def _explain(
        self, plans: Sequence[ClaimPlan], plan: ClaimPlan, relaxer: Relaxer, budget: Budget
    ) -> Explanation:
        """Return why one of some claims, which fit nowhere together, is not allocated."""
        # Claims are named to those of their own namespace.
        key = (plan.signature, _names(plan), len(plans), plan.key[0], relaxer.complete_only)
        attempt = Attempt(plans, plan, self._counter, self._hints, relaxer, budget)
        try:
            return self._known.find(self._counter.version(), key, attempt.explain)
        except FatalError as error:
            return self._explain_failure(error.failed())
        except AbortedError as error:
            return explain_aborted(str(error))

    # --- attempts that an incomplete pool has ended

    def _explain_ended(
        self, failed: Failed, plans: Sequence[ClaimPlan], plan: ClaimPlan, budget: Budget
    ) -> Explanation:
        """Return why one of some claims is not allocated, of which an attempt has been ended by a pool.

        A request for all devices ends the whole attempt at the first node with a pool that is not complete. To mend
        that pool helps only a claim that would then get devices. So such pools are taken away: where the claim fits
        then, the pool is to blame; where not, what keeps it from the devices that there are is told as for any other.
        """
        own, relaxer = self._explain_failure(failed), self._of_complete_pools
        views = self.allocator.availability.views
        seen = [view for of_pool in views.of_pool.values() for view in of_pool.values()]
        ended = 0
        for view in seen:
            if view.verdict is not Verdict.COMPLETE:
                ended |= view.nodes & views.usable
        try:
            # An error of the node on which the attempt ended, or of one before, stays without the pool.
            relaxer.node(*plans, budget=budget, allowed=bits.first(bits.lowest(ended) + 1))
        except FatalError as error:
            return self._explain_failure(error.failed())
        except AbortedError:
            return own
        try:
            if relaxer.node(*plans, budget=budget) is not None:
                return own
            found = self._explain(plans, plan, relaxer, budget)
            if found.reason in _TOGETHER:
                counts = [self._counter.count(item, budget) for each in plans for item in _alternatives(each)]
                if any(reason in each.refusals for each in counts for reason in _POOL_REASONS):
                    # There are devices for some of the claims in such pools.
                    return own
                found = replace(found, message=f"leaving aside pools that are not complete, {found.message}")
        except (FatalError, AbortedError):
            return own
        if found.reason is Reason.SEARCH_ABORTED:
            return own
        if found.reason in NONE_SELECTED and failed.reason is Reason.POOL_INCOMPLETE and failed.subject:
            # A pool that has too many slices gets no more devices; of any other it is the pool that may get some.
            subject = failed.subject[1].partition("/")
            if (subject[0], subject[2]) in {
                view.key
                for view in seen
                if view.verdict is Verdict.INCOMPLETE and not view.has_surplus and view.nodes & views.usable
            }:
                return own
        return found


def explain_aborted(why: str) -> Explanation:
    """Return the explanation of a claim that fits nowhere, where finding the cause was given up."""
    return Explanation(Reason.SEARCH_ABORTED, f"it fits on no node; the cause was not found, as {why}")


def _alternatives(plan: ClaimPlan) -> list[Alternative]:
    return [item for request in plan.requests for item in request.alternatives]


def _names(plan: ClaimPlan) -> object:
    """Return what texts name of a plan, but its signature does not."""
    return tuple((item.name, item.device_class.metadata.name) for item in _alternatives(plan))
