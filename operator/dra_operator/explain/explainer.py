"""Explanations: why claims wait, in one line that names the request, the numbers and the obstacle.

One thing is taken away at a time, and the allocator is asked again: the other claims, the other requests, the
constraints, the uses and taints. The first whose absence helps is the reason.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import (
    AbortedError,
    Allocated,
    Decider,
    Decision,
    Explanation,
    Failed,
    FatalError,
)
from dra_operator.allocator.matching.selectors import (
    Whereabouts,
    failing,
    in_class,
    in_request,
    invalid,
    partly_failing,
)
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import did_you_mean, listed, near_object, shortened
from dra_operator.api.types import ResourceClaim
from dra_operator.api.versions import Rules
from dra_operator.explain.relax import (
    Kept,
    Relaxer,
    bound_by,
    minimal_conflict,
    only,
    unconstrained,
    with_alternative,
    without,
)
from dra_operator.explain.sentence import (
    NONE_SELECTED,
    Hints,
    describe_left,
    describe_stages,
    first_few,
    no_nodes,
)
from dra_operator.explain.stages import CLASS, PASSING, DeviceCounter, DeviceCounts, SliceDevices
from dra_operator.inventory import Verdict, bits

# --- One claim explained: what is taken away from it, in which order, until it fits.
# Does each request fit alone? Without constraints? The first request that does not is told with its device counts; if
# each does, the fewest that do not fit together are.


_PASSING: Final = PASSING | {
    Reason.NOT_ENOUGH_DEVICES,
    Reason.CONSTRAINT_UNSATISFIABLE,
    Reason.REQUESTS_DO_NOT_FIT_TOGETHER,
}
"""The reasons that may pass when uses or taints end."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The explanation of one of some `plans`, which fit nowhere together. What takes too long raises AbortedError."""

    plans: Sequence[ClaimPlan]
    plan: ClaimPlan
    counter: DeviceCounter
    hints: Hints
    relaxer: Relaxer
    budget: Budget

    def explain(self) -> Explanation:
        """Return why the claim is not allocated. Raises FatalError if a device that it would come to is an error."""
        plan, inventory = self.plan, self.relaxer.allocator.inventory
        if (found := self._find_invalid()) is not None:
            return found
        if not any(node.unusable is None for node in inventory.nodes.values()):
            return Explanation(Reason.NO_NODES, no_nodes(inventory))
        if len(self.plans) > 1 and self._node(plan) is not None:
            others = f"with the {len(self.plans) - 1} others it is allocated with"
            text = f"the claim fits alone, but not on one node {others}"
            return Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text)
        nodes: dict[str, str] = {}
        failed: dict[str, FatalError] = {}
        for request in plan.requests:
            try:
                node = self._node(only(plan, (request,)))
            except FatalError as error:
                # Of a device that the claim itself never comes to.
                failed[request.name] = error
                continue
            if node is None:
                return self._with_never(self._explain_request(request))
            nodes[request.name] = node
        if not failed:
            return self._with_never(self._explain_together(plan, nodes))
        part = only(plan, [request for request in plan.requests if request.name in nodes])
        if len(nodes) < 2 or self._node(part) is not None:
            raise next(iter(failed.values()))
        found = self._explain_together(part, nodes)
        aside = listed([f"{name} ({error.reason})" for name, error in failed.items()])
        return replace(found, message=f"leaving aside {aside}, {found.message}")

    def _node(self, plan: ClaimPlan) -> str | None:
        return self.relaxer.node(plan, budget=self.budget)

    def _fits(self, plan: ClaimPlan) -> bool | None:
        return self.relaxer.fits(plan, self.budget)

    def _find_invalid(self) -> Explanation | None:
        """Return the first selector that does not compile: nothing that devices do makes it any better."""
        for item in _alternatives(self.plan):
            for source, expressions in selectors_of(self.plan, item):
                for number, expression in enumerate(expressions):
                    answers = self.counter.candidates.selectors.get(expression)
                    if answers.error is not None:
                        text = invalid(answers, source, number)
                        return Explanation(Reason.SELECTOR_INVALID, text, source.request)
        return None

    def _with_never(self, found: Explanation) -> Explanation:
        """Return an explanation that says as well if the claim would not fit even if no device were in use or tainted.

        Where the reason is another, or that cannot be told, nothing is added.
        """
        if found.reason not in _PASSING or self.relaxer.idle().fits(self.plan, self.budget) is not False:
            return found
        never = "; it would not fit even if no device were in use or tainted"
        return replace(found, message=found.message + never)

    # --- one request

    def _explain_request(self, request: RequestPlan) -> Explanation:
        found = [self._explain_alternative(request, item) for item in request.alternatives]
        if not request.prioritized:
            return found[0]
        texts = [
            (item.name.rpartition("/")[2], each.message.removeprefix(f"request {item.name}: "))
            for item, each in zip(request.alternatives, found, strict=True)
        ]
        reasons = [each.reason for each in found]
        # What the claim fits without keeps it waiting; else what the user wants most stands for all, if it can come.
        bound = Reason.CONSTRAINT_UNSATISFIABLE in reasons
        if bound or reasons[0] not in (*NONE_SELECTED, *_PASSING):
            reason = Reason.CONSTRAINT_UNSATISFIABLE if bound else reasons[0]
        else:
            could_fit = (
                reason
                for item, reason in zip(request.alternatives, reasons, strict=True)
                if self._could_fit(request, item, reason)
            )
            reason = next(could_fit, reasons[0])
        return Explanation(reason, f"request {request.name}: {first_few(texts)}", request.name)

    def _could_fit(self, request: RequestPlan, item: Alternative, reason: Reason) -> bool:
        """Return whether one alternative that waits for some reason may fit once uses or taints end."""
        plan = with_alternative(only(self.plan, (request,)), request, item)
        return reason in _PASSING and self.relaxer.idle().fits(plan, self.budget) is not False

    def _explain_alternative(self, request: RequestPlan, item: Alternative) -> Explanation:
        plan = with_alternative(only(self.plan, (request,)), request, item)
        free = unconstrained(plan)
        try:
            bound = bool(plan.constraints) and self._node(free) is not None
        except FatalError as error:
            return Explanation(error.reason, " ".join(error.message.split()), error.request)
        if bound:
            text = self._describe_constraint(plan)
            return Explanation(Reason.CONSTRAINT_UNSATISFIABLE, f"request {item.name}: {text}", request.name)
        counts = self.counter.count(item, self.budget)
        if (failure := self._find_failure(item, counts)) is not None:
            return failure
        reason, text = describe_stages(plan, item, counts, self.hints, self.budget)
        if reason not in NONE_SELECTED:
            left = counts.figures.left
            is_told = reason is not None and (item.count is None or not left)
            if not is_told or self._is_too_few(free, counts):
                reason = Reason.NOT_ENOUGH_DEVICES
            if left or reason is Reason.NOT_ENOUGH_DEVICES:
                # Those that are left on a node need not be left together.
                together = self._most(free) if left else (None, "")
                text += describe_left(item, counts, together)
        assert reason is not None
        return Explanation(reason, f"request {item.name}: {text}", request.name)

    def _most(self, plan: ClaimPlan, relaxer: Relaxer | None = None) -> tuple[int | None, str]:
        """Return how many devices a plan of one alternative could have, and where."""
        (request,) = plan.requests
        return (relaxer or self.relaxer).most(plan, request, request.alternatives[0], self.budget)

    def _is_too_few(self, plan: ClaimPlan, counts: DeviceCounts) -> bool:
        """True if a node has some of the devices for a plan of one alternative, if none is in use, but not enough."""
        if PASSING.isdisjoint(counts.refusals):
            return False
        if counts.figures.drawing:
            idle = self.relaxer.idle()
            return idle.fits(plan, self.budget) is False and self._most(plan, idle)[0] != 0
        return 0 < counts.most_if_idle < (plan.requests[0].alternatives[0].count or 0)

    def _find_failure(self, item: Alternative, counts: DeviceCounts) -> Explanation | None:
        """Return the failure of a selector that leaves no device because of it, if there is one."""
        (of_class, _), (of_request, expressions) = sources = selectors_of(self.plan, item)
        left = counts.figures.in_class
        stages = [(of_class, sources[0][1], counts.of_class(), left)]
        for number in range(len(expressions)):
            left -= counts.of_stage(number).count
            stages.append((of_request, expressions, counts.of_stage(number), left))
        for source, asked, refusals, remaining in stages:
            if remaining:
                continue
            if (found := refusals.failure) is None:
                return None
            answers = self.counter.candidates.selectors.get(asked[found.number])
            text = failing(answers, source, found.number, found.slice_, found.device)
            return Explanation(Reason.SELECTOR_FAILED, text, source.request)
        return None

    # --- constraints

    def _describe_constraint(self, plan: ClaimPlan) -> str:
        """Return what keeps one alternative from devices that are free: a constraint, and who lacks its attribute."""
        item, number = plan.requests[0].alternatives[0], self._find_constraint(plan)
        together = item.count != 1
        most = self._most(plan)[0] if together else None
        lacks = {
            constraint.attribute: self.hints.absent(self.plan, at, (item,), self.budget)
            for at, constraint in enumerate(self.plan.constraints)
            if at in item.constraints and number in (None, at)
        }
        none = "none together satisfy" if together and most != 0 else "none satisfies"
        at_most = f", at most {most} together, {item.count} requested" if most else ""
        return f"devices are free, but {none} {self._name(plan, number)}{at_most}{''.join(lacks.values())}"

    def _find_constraint(self, plan: ClaimPlan) -> int | None:
        """Return the first constraint without which the plan would fit; there may be none that does it alone."""
        numbers = range(len(plan.constraints))
        if len(numbers) == 1:
            return 0
        return next((number for number in numbers if self._fits(without(plan, number))), None)

    def _name(self, plan: ClaimPlan, number: int | None) -> str:
        """Return the constraint that is in the way, and those beside which it is."""
        if number is None:
            return f"its {len(plan.constraints)} constraints"
        others = [other for other in range(len(plan.constraints)) if other != number]
        beside = minimal_conflict(others, lambda some: self._fits(bound_by(plan, [number, *some])))
        return " beside ".join(
            [f"constraint #{each} ({plan.constraints[each]})" for each in (number, *beside)]
        )

    # --- requests that each fit alone

    def _explain_together(self, plan: ClaimPlan, nodes: dict[str, str]) -> Explanation:
        """Explain requests that each fit alone, on these nodes, and not together."""
        free = unconstrained(plan)
        try:
            node = self._node(free) if plan.constraints else None
        except FatalError:
            # Of a device that the claim itself never comes to: it may be the constraints, or not.
            node = None
        if node is not None:
            number = self._find_constraint(plan)
            lacks = ""
            if number is not None:
                bound = [item for item in _alternatives(plan) if number in item.constraints]
                lacks = self.hints.absent(plan, number, bound, self.budget)
            text = f"the requests fit together on node {node}, but not with {self._name(plan, number)}{lacks}"
            return Explanation(Reason.CONSTRAINT_UNSATISFIABLE, text)
        places = listed([f"{name} on {where}" for name, where in nodes.items()])
        text = f"each request fits alone ({places}), but no node has room for all of them"
        rivals = minimal_conflict(free.requests, lambda some: not some or self._fits(only(free, some)))
        if len(rivals) < len(plan.requests):
            *names, name = shortened([request.name for request in rivals])
            text += f", not even for {', '.join(names)} and {name}"
        return Explanation(
            Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text + self._describe_fewer(only(free, rivals))
        )

    def _describe_fewer(self, plan: ClaimPlan) -> str:
        """Return with how many devices for one of some requests they would fit together."""
        for request in plan.requests:
            item = request.alternatives[0]
            if not request.prioritized and (most := self.relaxer.most(plan, request, item, self.budget)[0]):
                return f"; they would fit with {most} instead of {item.count} for {request.name}"
        return ""


def selectors_of(plan: ClaimPlan, item: Alternative) -> tuple[tuple[Whereabouts, tuple[str, ...]], ...]:
    """Return the selectors of an alternative, those of its class first, each with where they stand."""
    content = item.key.content
    return (
        (in_class(item.device_class.metadata.name, item.name), content.class_selectors),
        (in_request(plan.title, item.name), content.request_selectors),
    )


# --- What others call, and what is kept.


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
        self, claim: ResourceClaim, *, decider: Decider | None = None
    ) -> Iterator[tuple[Alternative, SliceDevices]]:
        """Yield the devices that each alternative of each request of a claim selects, and what keeps some of them away.

        Nothing of a claim that cannot be planned; what takes too long ends it.
        """
        budget = self._begin(None)
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
            message += did_you_mean(near_object(failed.subject[1], self.allocator.inventory.classes))
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
