"""Explanations: why claims wait, in one line that names the request, the numbers and the obstacle.

A claim that fits nowhere is relaxed: does each request fit alone? without constraints? The first request that does not
is told with its device counts; if each does, what keeps them from each other is. The answers come from the same walk
that decides, so an explanation cannot disagree with a decision.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, Explanation, Failed, FatalError
from dra_operator.allocator.explanation.answer_cache import AnswerCache
from dra_operator.allocator.explanation.contention import Contention
from dra_operator.allocator.explanation.device_counts import CLASS, DeviceCounter, DeviceCounts
from dra_operator.allocator.explanation.idle_cluster import IdleAnswers
from dra_operator.allocator.explanation.obstacles import TITLES
from dra_operator.allocator.explanation.pool_records import PublishedSlices
from dra_operator.allocator.explanation.relaxation import (
    Fit,
    conflicting_constraints,
    conflicting_requests,
    most_that_fit,
    only,
    unconstrained,
    with_alternative,
    with_constraint,
    without,
)
from dra_operator.allocator.explanation.suggestions import (
    Suggestions,
    derived_names,
    tolerations_meant,
)
from dra_operator.allocator.explanation.text import (
    constraint_name,
    devices,
    first_few,
    holders_text,
    names_of,
)
from dra_operator.allocator.matching.failures import Whereabouts, failing, in_class, in_request, invalid
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.surplus import advise_first, in_pools
from dra_operator.api.likeness import near_object
from dra_operator.api.text import listed
from dra_operator.inventory import Inventory
from dra_operator.ledger import ClaimKey

Fits = Callable[[Sequence[ClaimPlan], Budget], str | None]
"""Finds the node on which some claims fit together, or None. Raises FatalError and AbortedError."""

_MOST_OTHERS = 3
_LASTING = frozenset((Reason.NO_DEVICES, Reason.CLASS_MATCHES_NO_DEVICE, Reason.SELECTOR_MATCHES_NO_DEVICE))
_MOST_KNOWN = 4096


@dataclass(slots=True)
class Explainer:
    """Explains plans by the searches of `fits`."""

    counter: DeviceCounter
    fits: Fits
    idle: IdleAnswers
    _known: AnswerCache[Explanation] = field(init=False)
    _lasting: AnswerCache[Explanation] = field(init=False)
    """What holds whatever is in use, as no device belongs to the class or is selected."""
    _suggestions: Suggestions = field(init=False)
    _contention: Contention = field(init=False)

    def __post_init__(self) -> None:
        counter = self.counter
        self._known = AnswerCache(_MOST_KNOWN, counter.version)
        self._lasting = AnswerCache(_MOST_KNOWN, lambda: self._inventory.version)
        published = PublishedSlices(self._inventory, counter.availability.views)
        self._suggestions = Suggestions(published, counter.candidates)
        self._contention = Contention(Eligibility(counter.availability, counter.candidates))

    @property
    def _inventory(self) -> Inventory:
        return self.counter.availability.views.inventory

    def explain(self, plans: Sequence[ClaimPlan], number: int, budget: Budget) -> Explanation:
        """Return why one of some claims, which fit nowhere together, is not allocated."""
        plan = plans[number]
        # Claims are named to those of their own namespace.
        key = (plan.signature, _names(plan), len(plans), plan.key[0])
        if (found := self._lasting.get(key) or self._known.get(key)) is not None:
            return found
        try:
            found = self._explain(plans, plan, budget)
        except FatalError as error:
            return explain_failure(error.failed(), self._inventory.classes)
        except AbortedError as error:
            return explain_aborted(str(error))
        # No device is there for the only request of these, whoever uses which.
        alone = len(plans) == len(plan.requests) == 1 and not plan.requests[0].prioritized
        known = self._lasting if alone and found.reason in _LASTING else self._known
        known.put(key, found)
        return found

    def _explain(self, plans: Sequence[ClaimPlan], plan: ClaimPlan, budget: Budget) -> Explanation:
        if (found := self._find_invalid(plan)) is not None:
            return found
        if not any(node.unusable is None for node in self._inventory.nodes.values()):
            return Explanation(Reason.NO_NODES, self._no_nodes())
        if len(plans) > 1 and self.fits((plan,), budget) is not None:
            return Explanation(
                Reason.REQUESTS_DO_NOT_FIT_TOGETHER,
                f"the claim fits alone, but not on one node with the {len(plans) - 1} others it is allocated with",
            )
        nodes: dict[str, str] = {}
        failing: dict[str, FatalError] = {}
        for request in plan.requests:
            try:
                node = self.fits((only(plan, (request,)),), budget)
            except FatalError as error:
                # Of a device that the claim itself never comes to.
                failing[request.name] = error
                continue
            if node is None:
                found = self._explain_request(plan, request, budget)
                others = self._describe_others(plan, request, found.reason, budget)
                others += self._describe_never_together(plan, found, budget)
                return replace(found, message=f"{found.message}{others}")
            nodes[request.name] = node
        if not failing:
            found = self._explain_together(plan, nodes, budget)
            if " even if " in found.message:
                return found
            never = self._describe_never_together(plan, found, budget)
            return replace(found, message=f"{found.message}{never}")
        part = only(plan, [request for request in plan.requests if request.name in nodes])
        if len(nodes) < 2 or self.fits((part,), budget) is not None:
            raise next(iter(failing.values()))
        found = self._explain_together(part, nodes, budget)
        aside = listed([f"{name} ({error.reason})" for name, error in failing.items()])
        return replace(found, message=f"leaving aside {aside}, {found.message}")

    def _find_invalid(self, plan: ClaimPlan) -> Explanation | None:
        """Return the first selector that does not compile: nothing that devices do makes it any better."""
        items = [item for request in plan.requests for item in request.alternatives]
        for source, expressions in chain.from_iterable(_selectors(plan, item) for item in items):
            for number, expression in enumerate(expressions):
                answers = self.counter.candidates.selectors.get(expression)
                if answers.error is not None:
                    text = invalid(answers, source, number)
                    return Explanation(Reason.SELECTOR_INVALID, text, source.request)
        return None

    def _no_nodes(self) -> str:
        nodes = self._inventory.nodes.values()
        if not nodes:
            return "there are no nodes"
        causes = Counter(node.unusable for node in nodes)
        counted = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items(), key=str))
        return f"none of {len(nodes)} nodes can be used ({counted})"

    def _explain_request(self, plan: ClaimPlan, request: RequestPlan, budget: Budget) -> Explanation:
        found = [self._explain_alternative(plan, request, item, budget) for item in request.alternatives]
        reasons = [each.reason for each in found]
        bound = Reason.CONSTRAINT_UNSATISFIABLE in reasons
        never = (
            ""
            if bound or {*reasons} == {Reason.SELECTOR_FAILED}
            else self._describe_never(plan, request, budget)
        )
        if not request.prioritized:
            return replace(found[0], message=f"{found[0].message}{never}")
        texts = [
            f"{item.name.rpartition('/')[2]}: {each.message.removeprefix(f'request {item.name}: ')}"
            for item, each in zip(request.alternatives, found, strict=True)
        ]
        # What the claim fits without keeps it waiting; else what the user wants most stands for all.
        reason = Reason.CONSTRAINT_UNSATISFIABLE if bound else reasons[0]
        return Explanation(reason, f"request {request.name}: {first_few(texts)}{never}", request.name)

    def _explain_alternative(
        self, whole: ClaimPlan, request: RequestPlan, item: Alternative, budget: Budget
    ) -> Explanation:
        plan = with_alternative(whole, request, item)
        free = unconstrained(plan)
        try:
            bound = bool(plan.constraints) and self.fits((free,), budget) is not None
        except FatalError as error:
            return explain_failure(error.failed(), self._inventory.classes)
        if bound:
            reason, text = Reason.CONSTRAINT_UNSATISFIABLE, self._describe_constraint(whole, plan, budget)
        else:
            counts = self.counter.count(item, budget)
            if (failure := self._describe_failure(plan, item, counts)) is not None:
                return failure
            reason, text = self._describe(free, counts, budget)
        return Explanation(reason, f"request {item.name}: {text}", request.name)

    def _describe_never(self, plan: ClaimPlan, request: RequestPlan, budget: Budget) -> str:
        """Return what would keep a request waiting if all devices were free: constraints on what none of them has."""
        texts: dict[str, str] = {}
        for at, constraint in enumerate(plan.constraints):
            if all(at in item.constraints for item in request.alternatives):
                having, text = self._suggestions.absent(plan, at, request.alternatives, budget)
                if text and not having:
                    texts.setdefault(constraint.attribute, f"; constraint #{at} cannot be met: {text}")
        if texts:
            return "".join(texts.values())
        return self.idle.constraint(plan, request, self._counts_of((request,), budget), budget)

    def _describe_never_together(self, plan: ClaimPlan, found: Explanation, budget: Budget) -> str:
        counts = self._counts_of(plan.requests, budget) if len(plan.requests) > 1 else ()
        return self.idle.together(plan, counts, found.message, budget)

    def _counts_of(self, requests: Sequence[RequestPlan], budget: Budget) -> Sequence[DeviceCounts]:
        """Return the device counts of some requests; none where that takes too long."""
        items = chain.from_iterable(request.alternatives for request in requests)
        try:
            return [self.counter.count(item, budget) for item in items]
        except AbortedError:
            return ()

    def _describe_others(self, plan: ClaimPlan, request: RequestPlan, reason: Reason, budget: Budget) -> str:
        """Return which requests after one do not fit either, for another reason."""
        texts: list[str] = []
        for other in plan.requests[plan.requests.index(request) + 1 :]:
            try:
                if self.fits((only(plan, (other,)),), budget) is not None:
                    continue
                if (also := self._explain_request(plan, other, budget).reason) is not reason:
                    texts.append(f"; request {other.name} does not fit either ({also})")
            except FatalError as error:
                texts.append(f"; request {other.name} by itself ends with an error ({error.reason})")
            except AbortedError:
                continue
        if (more := len(texts) - _MOST_OTHERS) > 0:
            texts[_MOST_OTHERS:] = [f"; {more} more do not fit either"]
        return "".join(texts)

    def _explain_together(self, plan: ClaimPlan, nodes: Mapping[str, str], budget: Budget) -> Explanation:
        """Explain requests that each fit alone, on these nodes, and not together."""
        free = unconstrained(plan)
        bound = ""
        try:
            node = self.fits((free,), budget) if plan.constraints else None
        except FatalError:
            # Of a device that the claim itself never comes to: it may be the constraints, or not.
            node = None
            bound = f" with {constraint_name(plan, 0 if len(plan.constraints) == 1 else None)}"
        if node is not None:
            number = self._find_constraint(plan, budget)
            name = self._name_constraints(plan, number, budget)
            text = f"the requests fit together on node {node}, but not with {name}"
            if number is not None:
                text += self._describe_between(plan, number, budget)
            return Explanation(Reason.CONSTRAINT_UNSATISFIABLE, text)
        places = listed([f"{name} on {where}" for name, where in nodes.items()])
        text = f"each request fits alone ({places}), but no node has room for all of them{bound}"
        whole = free
        if len(plan.requests) > 2:
            rivals = conflicting_requests(free, self._fit(budget))
            if len(rivals) < len(plan.requests):
                text += f", not even for {names_of(rivals)}"
                free = only(free, rivals)
        cause = self._contention.describe(free, whole, nodes, budget)
        return Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, f"{text}; {cause}" if cause else text)

    def _describe_between(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        """Return why requests do not fit together with a constraint, or nothing where that cannot be found out."""
        alone = with_constraint(plan, number)
        try:
            misread = self._suggestions.misread(plan, number, budget)
            if text := self._suggestions.disagreement(plan, number, budget) or misread:
                return text
            if self.fits((alone,), budget) is not None:
                return ""
        except (FatalError, AbortedError):
            return ""
        cause = self._contention.describe_constraint(alone, number, budget)
        return (f"; {cause}" if cause else "") + self._describe_users(plan, number, budget)

    def _fit(self, budget: Budget) -> Fit:
        return lambda plan: self.fits((plan,), budget)

    def _find_constraint(self, plan: ClaimPlan, budget: Budget) -> int | None:
        """Return the first constraint without which the plan would fit; there may be none that does it alone."""
        for number in range(len(plan.constraints)):
            try:
                if len(plan.constraints) == 1 or self.fits((without(plan, number),), budget) is not None:
                    return number
            except FatalError:
                # Of a device that the claim itself never comes to.
                continue
        return None

    def _name_constraints(self, plan: ClaimPlan, number: int | None, budget: Budget) -> str:
        """Return the constraint that is in the way, and those beside which it is."""
        name = constraint_name(plan, number)
        others = () if number is None else conflicting_constraints(plan, number, self._fit(budget))
        return " beside ".join([name, *(constraint_name(plan, other) for other in others)])

    def _describe_constraint(self, whole: ClaimPlan, plan: ClaimPlan, budget: Budget) -> str:
        """Return what keeps one alternative from devices that are free: a constraint, and who lacks its attribute."""
        number = self._find_constraint(plan, budget)
        is_there, lacks = self._describe_lacks(whole, plan, number, budget)
        together = is_there and plan.requests[0].alternatives[0].count != 1
        most = most_that_fit(plan, self._fit(budget))[0] if together else None
        apart = (
            self._suggestions.disagreement(plan, number, budget) if together and number is not None else ""
        )
        in_vain, at_most = self._describe_most(plan, most, budget) if most else (False, "")
        users = ""
        if number is not None and is_there and not apart and not in_vain:
            users = self._describe_users(plan, number, budget)
        none = "none together satisfy" if together and most != 0 else "none satisfies"
        name = self._name_constraints(plan, number, budget)
        return f"devices are free, but {none} {name}{at_most}{lacks}{apart}{users}"

    def _describe_lacks(
        self, whole: ClaimPlan, plan: ClaimPlan, number: int | None, budget: Budget
    ) -> tuple[bool, str]:
        """Return whether each attribute of the constraints on a request is on a device, and who lacks one of them.

        If one constraint alone is in the way, its attribute. `plan` has one alternative of the request only.
        """
        bound = plan.requests[0].alternatives
        is_there = True
        texts: dict[str, str] = {}
        for at, constraint in enumerate(plan.constraints):
            if at in bound[0].constraints and number in (None, at):
                having, text = self._suggestions.absent(whole, at, bound, budget)
                is_there = is_there and having > 0
                if text:
                    texts[constraint.attribute] = f"; {text}"
                texts[f"{constraint.attribute} derived"] = self._suggestions.misread(plan, at, budget)
        return is_there, "".join(texts.values())

    def _describe_most(self, plan: ClaimPlan, most: int, budget: Budget) -> tuple[bool, str]:
        """Return whether a request waits in vain for devices in use, and how many it could have of what it asks for."""
        item = plan.requests[0].alternatives[0]
        vain = self.idle.most_bound(plan, self.counter.count(item, budget), budget)
        even = free = ""
        if vain is not None and vain.number is not None:
            even = f" even {vain.when}" if vain.number <= most else ""
            free = "" if even else f", at most {vain.number} {vain.when}"
        return vain is not None, f", at most {most} together{even}, {item.count} requested{free}"

    def _describe_users(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        """Return which claims use devices for the requests that a constraint binds, if that one alone is in the way.

        Nothing where that cannot be found out: without it there is enough to tell.
        """
        claims: set[ClaimKey] = set()
        try:
            if self.fits((with_constraint(plan, number),), budget) is not None:
                return ""
            for request in plan.requests:
                for item in request.alternatives:
                    if number in item.constraints:
                        claims.update(*self.counter.count(item, budget).holders.values())
        except (FatalError, AbortedError):
            return ""
        if not claims:
            return ""
        count, names = holders_text(claims, plan.key[0])
        return f"; others are in use {count}{f' ({names})' if names else ''}"

    def _describe_failure(
        self, plan: ClaimPlan, item: Alternative, counts: DeviceCounts
    ) -> Explanation | None:
        """Return the failure of a selector that leaves no device because of it, if there is one."""
        (of_class, class_selectors), (of_request, request_selectors) = _selectors(plan, item)
        left = counts.figures.in_class
        stages = [(of_class, class_selectors, counts.of_stage(CLASS), left)]
        for number in range(len(request_selectors)):
            left -= counts.of_stage(number).count
            stages.append((of_request, request_selectors, counts.of_stage(number), left))
        for source, expressions, refusals, left in stages:
            if left:
                continue
            if refusals.failure is None:
                return None
            found = refusals.failure
            answers = self.counter.candidates.selectors.get(expressions[found.number])
            text = failing(answers, source, found.number, found.slice_, found.device)
            return Explanation(Reason.SELECTOR_FAILED, text, source.request)
        return None

    def _describe(self, plan: ClaimPlan, counts: DeviceCounts, budget: Budget) -> tuple[Reason, str]:
        """Return why a plan of one alternative does not fit, which no constraint keeps from it."""
        alternative = plan.requests[0].alternatives[0]
        class_name = alternative.device_class.metadata.name
        class_selectors = alternative.key.content.class_selectors
        request_selectors = alternative.key.content.request_selectors
        selectors = (*class_selectors, *request_selectors)
        figures = counts.figures
        if not figures.published:
            return Reason.NO_DEVICES, f"no devices are published{self._suggestions.empty(selectors)}"
        text = f"{devices(figures.published)} published, {figures.in_class} in class {class_name}"
        left, out_of_class = figures.in_class, counts.of_stage(CLASS)
        if not left or out_of_class.failure:
            text += out_of_class.detail()
        if not left:
            hints = [self._suggestions.unknown(each, (), class_selectors, budget) for each in class_selectors]
            text += "".join(hints) + self._suggestions.empty(selectors)
            return Reason.CLASS_MATCHES_NO_DEVICE, text
        for number, expression in enumerate(request_selectors):
            refusals = counts.of_stage(number)
            left -= refusals.count
            text += f", {left} match selector #{number}"
            if not left or refusals.failure:
                text += refusals.detail()
            if not left:
                before = (*class_selectors, *request_selectors[:number])
                text += self._suggestions.unknown(expression, before, selectors, budget)
                text += self._suggestions.empty(selectors)
                return Reason.SELECTOR_MATCHES_NO_DEVICE, text
        obstacles = [reason for reason in TITLES if reason in counts.refusals]
        for reason in obstacles:
            refusals = counts.refusals[reason]
            incomplete = reason is Reason.POOL_INCOMPLETE
            title = in_pools(refusals.details) if incomplete else TITLES[reason]
            text += f", {refusals.count} {title}{self._detail(plan, reason, counts, budget)}"
        last = obstacles[-1] if obstacles else None
        reason, rest = self.idle.left(plan, counts, last, self._fit(budget), budget)
        return reason, text + rest + counts.old_text()

    def _detail(self, plan: ClaimPlan, reason: Reason, counts: DeviceCounts, budget: Budget) -> str:
        refusals, alternative = counts.refusals[reason], plan.requests[0].alternatives[0]
        if claims := counts.holders.get(reason):
            count, names = holders_text(claims, plan.key[0])
            if reason is Reason.DEVICE_IN_USE:
                return f" {count} ({names})" if names else f" {count}"
            return refusals.detail(f"; in use {count}: {names}" if names else f"; in use {count}")
        if reason is Reason.DEVICE_NOT_OWNED:
            return refusals.detail(self._suggestions.own_command(alternative, budget))
        if reason is Reason.DEVICE_TAINTED:
            taints = refusals.details.keys()
            rules = self._suggestions.taint_rules(taints, alternative, budget)
            return refusals.detail(tolerations_meant(taints, alternative.tolerations) + rules)
        if reason is Reason.POOL_INCOMPLETE:
            return refusals.detail(advise_first(refusals.details, self._inventory))
        return refusals.detail()


def _names(plan: ClaimPlan) -> object:
    """Return what texts name of a plan, but its signature does not."""
    items = [item for request in plan.requests for item in request.alternatives]
    names = tuple((item.name, item.device_class.metadata.name) for item in items)
    return names, derived_names(plan) if plan.constraints else ()


def _selectors(plan: ClaimPlan, item: Alternative) -> tuple[tuple[Whereabouts, tuple[str, ...]], ...]:
    """Return the selectors of an alternative, those of its class first, each with where they stand."""
    content = item.key.content
    return (
        (in_class(item.device_class.metadata.name, item.name), content.class_selectors),
        (in_request(plan.title, item.name), content.request_selectors),
    )


def explain_aborted(why: str) -> Explanation:
    """Return the explanation of a claim that fits nowhere, where finding the cause was given up."""
    return Explanation(Reason.SEARCH_ABORTED, f"it fits on no node; the cause was not found, as {why}")


def explain_failure(failed: Failed, classes: Iterable[str]) -> Explanation:
    """Return the explanation of an attempt that ended with an error: the error says it, here in one line.

    `classes` are the names of those that exist: one may have been meant.
    """
    message = " ".join(failed.message.split())
    if failed.reason is Reason.CLASS_NOT_FOUND and failed.subject is not None:
        near = near_object(failed.subject[1], classes)
        message = f'{message}; did you mean "{near}"?' if near else message
    return Explanation(failed.reason, message, failed.request)
