"""One claim explained: what is taken away from it, in which order, until it fits.

Does each request fit alone? Without constraints? The first request that does not is told with its device counts; if
each does, what keeps them from each other is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, Explanation, FatalError
from dra_operator.allocator.matching.failures import Whereabouts, failing, in_class, in_request, invalid
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import listed
from dra_operator.explain.contention import Contention, names_of
from dra_operator.explain.hints import Hints
from dra_operator.explain.relax import (
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
    Most,
    StageText,
    constraint_name,
    first_few,
    holders_text,
    left_text,
    may_pass,
    no_nodes,
    places_text,
    when_idle,
)
from dra_operator.explain.stages import DeviceCounter, DeviceCounts
from dra_operator.ledger import ClaimKey

_MOST_OTHERS: Final = 3


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
                found = self._explain_request(request)
                more = self._describe_others(request, found.reason) + self._never_together()
                return replace(found, message=found.message + more)
            nodes[request.name] = node
        if not failed:
            return self._explain_together(plan, nodes)
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
        for item in [item for request in self.plan.requests for item in request.alternatives]:
            for source, expressions in selectors_of(self.plan, item):
                for number, expression in enumerate(expressions):
                    answers = self.counter.candidates.selectors.get(expression)
                    if answers.error is not None:
                        text = invalid(answers, source, number)
                        return Explanation(Reason.SELECTOR_INVALID, text, source.request)
        return None

    # --- one request

    def _explain_request(self, request: RequestPlan) -> Explanation:
        found = [self._explain_alternative(request, item) for item in request.alternatives]
        reasons = [each.reason for each in found]
        bound = Reason.CONSTRAINT_UNSATISFIABLE in reasons
        never = "" if bound or {*reasons} == {Reason.SELECTOR_FAILED} else self._never(request)
        if not request.prioritized:
            return replace(found[0], message=f"{found[0].message}{never}")
        texts = [
            (item.name.rpartition("/")[2], each.message.removeprefix(f"request {item.name}: "))
            for item, each in zip(request.alternatives, found, strict=True)
        ]
        # What the claim fits without keeps it waiting; else what the user wants most stands for all.
        reason = Reason.CONSTRAINT_UNSATISFIABLE if bound else reasons[0]
        return Explanation(reason, f"request {request.name}: {first_few(texts)}{never}", request.name)

    def _explain_alternative(self, request: RequestPlan, item: Alternative) -> Explanation:
        plan = with_alternative(self.plan, request, item)
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
        reason, text = StageText(plan, item, counts, self.hints, self.budget).describe()
        if reason not in NONE_SELECTED:
            reason, rest = left_text(item, counts, reason, self._most(free, counts))
            text += rest + counts.old_text()
        assert reason is not None
        return Explanation(reason, f"request {item.name}: {text}", request.name)

    def _most(self, plan: ClaimPlan, counts: DeviceCounts) -> Most:
        """Return how many devices a plan of one alternative could have, which no constraint binds."""
        figures, wanted = counts.figures, plan.requests[0].alternatives[0].count
        now, node = None, ""
        if wanted is not None and figures.left and (figures.rivals or counts.most_on_a_node >= wanted):
            # Those that are left on a node need not be left together.
            now, node = self.relaxer.most(plan, self.budget)
        most = Most(now, node)
        if not may_pass(counts):
            return most
        idle: int | None = counts.most_if_idle
        if figures.drawing:
            if self.relaxer.idle().fits(plan, self.budget) is not False:
                return most
            idle = self.relaxer.idle().most(plan, self.budget)[0]
        elif counts.most_if_idle >= (wanted or 0):
            return most
        # Where no node has any, something else is said of the devices.
        return most if idle == 0 else Most(now, node, True, idle, when_idle((counts,)))

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

    def _describe_others(self, request: RequestPlan, reason: Reason) -> str:
        """Return which requests after one do not fit either, for another reason."""
        texts: list[str] = []
        for other in self.plan.requests[self.plan.requests.index(request) + 1 :]:
            try:
                if self._node(only(self.plan, (other,))) is not None:
                    continue
                if (also := self._explain_request(other).reason) is not reason:
                    texts.append(f"; request {other.name} does not fit either ({also})")
            except FatalError as error:
                texts.append(f"; request {other.name} by itself ends with an error ({error.reason})")
            except AbortedError:
                continue
        if (more := len(texts) - _MOST_OTHERS) > 0:
            texts[_MOST_OTHERS:] = [f"; {more} more do not fit either"]
        return "".join(texts)

    # --- constraints of one request

    def _describe_constraint(self, plan: ClaimPlan) -> str:
        """Return what keeps one alternative from devices that are free: a constraint, and who lacks its attribute."""
        item, number = plan.requests[0].alternatives[0], self._find_constraint(plan, self.relaxer)
        is_there, lacks = self._describe_lacks(plan, number)
        together = is_there and item.count != 1
        most = self.relaxer.most(plan, self.budget)[0] if together else None
        apart = at_most = users = ""
        if together and number is not None:
            apart = self.hints.disagreement(plan, number, self.budget)
        in_vain = False
        if most:
            in_vain, at_most = self._describe_most(plan, most)
        if number is not None and is_there and not apart and not in_vain:
            users = self._describe_users(plan, number)
        none = "none together satisfy" if together and most != 0 else "none satisfies"
        return f"devices are free, but {none} {self._name(plan, number)}{at_most}{lacks}{apart}{users}"

    def _find_constraint(self, plan: ClaimPlan, relaxer: Relaxer) -> int | None:
        """Return the first constraint without which the plan would fit; there may be none that does it alone."""
        numbers = range(len(plan.constraints))
        if len(numbers) == 1:
            return 0
        return next((number for number in numbers if relaxer.fits(without(plan, number), self.budget)), None)

    def _name(self, plan: ClaimPlan, number: int | None) -> str:
        """Return the constraint that is in the way, and those beside which it is."""
        if number is None:
            return constraint_name(plan, None)
        others = [other for other in range(len(plan.constraints)) if other != number]
        beside = minimal_conflict(others, lambda some: self._fits(bound_by(plan, [number, *some])))
        return " beside ".join([constraint_name(plan, each) for each in (number, *beside)])

    def _describe_lacks(self, plan: ClaimPlan, number: int | None) -> tuple[bool, str]:
        """Return whether each attribute of the constraints on an alternative is on a device, and who lacks one of them.

        If one constraint alone is in the way, its attribute.
        """
        item, is_there = plan.requests[0].alternatives[0], True
        texts: dict[str, str] = {}
        for at, constraint in enumerate(self.plan.constraints):
            if at in item.constraints and number in (None, at):
                having, text = self.hints.absent(self.plan, at, (item,), self.budget)
                is_there = is_there and having > 0
                if text:
                    texts[constraint.attribute] = f"; {text}"
                texts[f"{constraint.attribute} derived"] = self.hints.misread(plan, at, self.budget)
        return is_there, "".join(texts.values())

    def _describe_most(self, plan: ClaimPlan, most: int) -> tuple[bool, str]:
        """Return whether a request waits in vain for devices in use, and how many it could have of what it asks for."""
        item = plan.requests[0].alternatives[0]
        text = f", at most {most} together"
        if item.admin_access or self.relaxer.idle().fits(plan, self.budget) is not False:
            return False, f"{text}, {item.count} requested"
        idle = self.relaxer.idle().most(plan, self.budget)[0]
        when = when_idle([self.counter.count(item, self.budget)])
        if idle is None:
            return True, f"{text}, {item.count} requested"
        if idle <= most:
            return True, f"{text} even {when}, {item.count} requested"
        return True, f"{text}, {item.count} requested, at most {idle} {when}"

    def _describe_users(self, plan: ClaimPlan, number: int) -> str:
        """Return which claims use devices for the requests that a constraint binds, if that one alone is in the way.

        Nothing where that cannot be found out: without it there is enough to tell.
        """
        claims: set[ClaimKey] = set()
        if self._fits(bound_by(plan, (number,))) is not False:
            return ""
        for item in [item for request in plan.requests for item in request.alternatives]:
            if number in item.constraints:
                claims.update(*self.counter.count(item, self.budget).holders.values())
        count, names = holders_text(claims, plan.key[0])
        return f"; others are in use {count}{f' ({names})' if names else ''}" if claims else ""

    # --- what never fits

    def _never(self, request: RequestPlan) -> str:
        """Return what would keep a request waiting if all devices were free: the constraint that it can never meet."""
        plan, texts = self.plan, dict[str, str]()
        for at, constraint in enumerate(plan.constraints):
            if all(at in item.constraints for item in request.alternatives):
                having, text = self.hints.absent(plan, at, request.alternatives, self.budget)
                if text and not having:
                    texts.setdefault(constraint.attribute, f"; constraint #{at} cannot be met: {text}")
        if texts or not plan.constraints:
            return "".join(texts.values())
        counts = self._count((request,))
        if not any(each.figures.kept for each in counts):
            return ""
        alone, item = only(plan, (request,)), request.alternatives[0]
        try:
            if self.relaxer.idle().node(alone, budget=self.budget) is not None:
                return ""
        except FatalError as error:
            text = error.message.removeprefix(f"request {request.name}: ")
            conflict = error.reason is Reason.CONSTRAINT_CONFLICT
            return f"; {when_idle(counts)}, it {text}" if conflict else ""
        except AbortedError:
            return ""
        if not self.relaxer.idle().fits(unconstrained(alone), self.budget):
            return ""
        text = f"; {constraint_name(alone, self._find_constraint(alone, self.relaxer.idle()))} cannot be met"
        if request.prioritized or not (most := self.relaxer.idle().most(alone, self.budget)[0]):
            return f"{text} even {when_idle(counts)}"
        return f"{text}: at most {most} together even {when_idle(counts)}, {item.count} requested"

    def _never_together(self) -> str:
        """Return a clause on requests that may fit alone, but never together."""
        plan, budget = self.plan, self.budget
        counts = self._count(plan.requests) if len(plan.requests) > 1 else ()
        if not any(each.figures.kept for each in counts):
            return ""
        idle = self.relaxer.idle()
        alone = [idle.fits(only(plan, (request,)), budget) for request in plan.requests]
        if not all(alone) or idle.fits(plan, budget) is not False:
            return ""
        text, free = f"; even {when_idle(counts)}, the requests do not fit together", unconstrained(plan)
        if plan.constraints and idle.fits(free, budget) is not False:
            return f"{text} with {constraint_name(plan, self._find_constraint(plan, idle))}"
        cause = self._describe_contention(free, free, idle)
        return f"{text}: {cause}" if cause else text

    def _count(self, requests: Sequence[RequestPlan]) -> Sequence[DeviceCounts]:
        """Return the device counts of some requests; none where that takes too long."""
        try:
            return [self.counter.count(item, self.budget) for each in requests for item in each.alternatives]
        except AbortedError:
            return ()

    # --- requests that each fit alone

    def _explain_together(self, plan: ClaimPlan, nodes: dict[str, str]) -> Explanation:
        """Explain requests that each fit alone, on these nodes, and not together."""
        free, bound = unconstrained(plan), ""
        try:
            node = self._node(free) if plan.constraints else None
        except FatalError:
            # Of a device that the claim itself never comes to: it may be the constraints, or not.
            node = None
            bound = f" with {constraint_name(plan, 0 if len(plan.constraints) == 1 else None)}"
        if node is not None:
            number = self._find_constraint(plan, self.relaxer)
            text = f"the requests fit together on node {node}, but not with {self._name(plan, number)}"
            if number is not None:
                text += self._describe_between(plan, number)
            reason = Reason.CONSTRAINT_UNSATISFIABLE
        else:
            text = (
                f"each request fits alone ({places_text(nodes)}), but no node has room for all of them{bound}"
            )
            reason = Reason.REQUESTS_DO_NOT_FIT_TOGETHER
            rivals = minimal_conflict(free.requests, lambda some: not some or self._fits(only(free, some)))
            if len(rivals) < len(plan.requests):
                text += f", not even for {names_of(rivals)}"
            whole, free = free, only(free, rivals)
            if self._is_apart(free):
                names = f"{names_of(rivals)} have no node in common"
                return Explanation(reason, f"{text}; {names} even if no device were in use")
            cause = self._describe_contention(free, whole, self.relaxer)
            text += f"; {cause}" if cause else ""
        return Explanation(reason, text + (self._never_together() if plan is self.plan else ""))

    def _is_apart(self, plan: ClaimPlan) -> bool:
        """True if no node would have what each request of a plan wants if no device were in use."""
        try:
            return self.relaxer.idle().common_node(plan, self.budget) is None
        except AbortedError:
            return False

    def _describe_between(self, plan: ClaimPlan, number: int) -> str:
        """Return why requests do not fit together with a constraint, or nothing where that cannot be found out."""
        alone = bound_by(plan, (number,))
        text = self.hints.disagreement(plan, number, self.budget) or self.hints.misread(
            plan, number, self.budget
        )
        if text or self._fits(alone) is not False:
            return text
        names = names_of(plan.requests)
        try:
            node = self.relaxer.common_node(alone, self.budget)
            if node is None:
                text = f"with it, no node has enough left for each of {names}"
            else:
                text = Contention.find(self.counter, alone, node, self.budget).describe_constraint(number)
        except AbortedError:
            text = ""
        return (f"; {text}" if text else "") + self._describe_users(plan, number)

    def _describe_contention(self, plan: ClaimPlan, whole: ClaimPlan, relaxer: Relaxer) -> str:
        """Return a clause on why requests do not fit together, each of which fits alone; no constraint binds them.

        They are some of `whole`, or all: a node on which each of those fits alone is what the claim comes closest to.
        """
        names = names_of(plan.requests)
        try:
            node = relaxer.common_node(whole, self.budget) or relaxer.common_node(plan, self.budget)
            if node is None:
                return f"no node has enough left for each of {names}"
            allocator = relaxer.allocator
            counter = DeviceCounter(allocator.availability, allocator.candidates)
            return Contention.find(counter, relaxer.as_asked(plan), node, self.budget).describe()
        except AbortedError:
            return ""


def selectors_of(plan: ClaimPlan, item: Alternative) -> tuple[tuple[Whereabouts, tuple[str, ...]], ...]:
    """Return the selectors of an alternative, those of its class first, each with where they stand."""
    content = item.key.content
    return (
        (in_class(item.device_class.metadata.name, item.name), content.class_selectors),
        (in_request(plan.title, item.name), content.request_selectors),
    )
