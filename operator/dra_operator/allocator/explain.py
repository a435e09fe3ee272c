"""Explanations: why claims wait, in one line that names the request, the numbers and the obstacle.

A claim that fits nowhere is asked smaller questions: does each request fit alone? without constraints? The first
request that does not is told with its tally; if each does, what keeps them from each other is. The answers come from
the same walk that decides, so an explanation cannot disagree with a decision.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dra_operator.allocator.absent import tell_absent
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, Explanation, Failed, FatalError
from dra_operator.allocator.failures import Source, failing, in_class, in_request, invalid
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.tally import Obstacle, Tally, TallyMaker
from dra_operator.inventory import Inventory

Fits = Callable[[Sequence[ClaimPlan], Budget], str | None]
"""Finds the node on which some claims fit together, or None. Raises FatalError and AbortedError."""

_MAX_ABSENT = 1024

_OBSTACLES = {
    Reason.POOL_INCOMPLETE: "in pools that are being updated",
    Reason.POOL_INVALID: "in invalid pools",
    Reason.CAPACITY_REQUEST_INVALID: "on which the capacity request is impossible",
    Reason.CAPACITY_TOO_SMALL: "with too little capacity",
    Reason.DEVICE_TAINTED: "tainted",
    Reason.NODE_UNUSABLE: "on nodes that cannot be used",
    Reason.NODE_OPERATIONS_UNSUPPORTED: "on nodes that lack a feature",
    Reason.DEVICE_IN_USE: "in use",
    Reason.GROUP_INCOMPATIBLE: "incompatible with devices in use",
    Reason.COUNTERS_EXHAUSTED: "without enough left of their counters",
    Reason.CAPACITY_EXHAUSTED: "without enough capacity left",
}


@dataclass(slots=True)
class Explainer:
    """Explains plans. What it found holds while inventory and ledger stay as they are."""

    inventory: Inventory
    tallies: TallyMaker
    fits: Fits
    _known: dict[object, Explanation] = field(default_factory=dict)
    _absent: dict[object, tuple[int, str]] = field(default_factory=dict)
    _versions: tuple[int, int] = (-1, -1)

    def explain(self, plans: Sequence[ClaimPlan], number: int, budget: Budget) -> Explanation:
        """Return why one of some claims, which fit nowhere together, is not allocated."""
        self._forget_if_changed()
        plan = plans[number]
        key = (plan.signature, _names(plan), len(plans))
        if (found := self._known.get(key)) is not None:
            return found
        try:
            found = self._explain(plans, plan, budget)
        except FatalError as error:
            return explain_failure(error.failed())
        except AbortedError as error:
            return Explanation(Reason.SEARCH_ABORTED, str(error))
        self._known[key] = found
        return found

    def _forget_if_changed(self) -> None:
        versions = (self.inventory.version, self.tallies.availability.ledger.version)
        if versions != self._versions:
            self._known.clear()
            if versions[0] != self._versions[0]:
                # What is published changes less often than what is in use.
                self._absent.clear()
            self._versions = versions

    def _explain(self, plans: Sequence[ClaimPlan], plan: ClaimPlan, budget: Budget) -> Explanation:
        if (found := self._find_invalid(plan)) is not None:
            return found
        if not any(node.unusable is None for node in self.inventory.nodes.values()):
            return Explanation(Reason.NO_NODES, self._no_nodes())
        if len(plans) > 1 and self.fits((plan,), budget) is not None:
            return Explanation(
                Reason.REQUESTS_DO_NOT_FIT_TOGETHER,
                f"the claim fits alone, but not on one node with the {len(plans) - 1} others it is allocated with",
            )
        nodes: list[str] = []
        for request in plan.requests:
            node = self.fits((_only(plan, request),), budget)
            if node is None:
                return self._explain_request(plan, request, budget)
            nodes.append(node)
        return self._explain_together(plan, nodes, budget)

    def _find_invalid(self, plan: ClaimPlan) -> Explanation | None:
        """Return the first selector that does not compile: nothing that devices do makes it any better."""
        for request in plan.requests:
            for item in request.alternatives:
                for source, expressions in _selectors(plan, item):
                    for number, expression in enumerate(expressions):
                        answers = self.tallies.candidates.selectors.get(expression)
                        if answers.error is not None:
                            text = invalid(answers, source, number)
                            return Explanation(Reason.SELECTOR_INVALID, text, source.request)
        return None

    def _no_nodes(self) -> str:
        nodes = self.inventory.nodes.values()
        if not nodes:
            return "there are no nodes"
        causes = Counter(node.unusable for node in nodes)
        listed = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items(), key=str))
        return f"none of {len(nodes)} nodes can be used ({listed})"

    def _explain_request(self, plan: ClaimPlan, request: RequestPlan, budget: Budget) -> Explanation:
        alone = _only(plan, request)
        if plan.constraints and self.fits((_unconstrained(alone),), budget) is not None:
            text = f"request {request.name}: {self._tell_constraint(alone, request, budget)}"
            return Explanation(Reason.CONSTRAINT_UNSATISFIABLE, text, request.name)
        told: list[tuple[Reason, str]] = []
        for item in request.alternatives:
            tally = self.tallies.make(item, budget)
            failure = self._tell_failure(plan, item, tally)
            if failure is not None and not request.prioritized:
                return failure
            if failure is None:
                told.append(self._tell(item, tally))
            else:
                told.append((failure.reason, failure.message.removeprefix(f"request {item.name}: ")))
        if not request.prioritized:
            reason, text = told[0]
            return Explanation(reason, f"request {request.name}: {text}", request.name)
        texts = [
            f"{alternative.name.rpartition('/')[2]}: {text}"
            for alternative, (_, text) in zip(request.alternatives, told, strict=True)
        ]
        # The first alternative is what the user wants most; its reason stands for all.
        return Explanation(told[0][0], f"request {request.name}: {'; '.join(texts)}", request.name)

    def _explain_together(self, plan: ClaimPlan, nodes: Sequence[str], budget: Budget) -> Explanation:
        if plan.constraints and (node := self.fits((_unconstrained(plan),), budget)) is not None:
            name = _constraint_name(plan, self._find_constraint(plan, budget))
            text = f"the requests fit together on node {node}, but not with {name}"
            return Explanation(Reason.CONSTRAINT_UNSATISFIABLE, text)
        places = ", ".join(
            f"{request.name} on {node}" for request, node in zip(plan.requests, nodes, strict=True)
        )
        text = f"each request fits alone ({places}), but no node has room for all of them"
        return Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text)

    def _find_constraint(self, plan: ClaimPlan, budget: Budget) -> int | None:
        """Return the first constraint without which the plan would fit; there may be none that does it alone."""
        for number in range(len(plan.constraints)):
            if len(plan.constraints) == 1 or self.fits((_without(plan, number),), budget) is not None:
                return number
        return None

    def _tell_constraint(self, plan: ClaimPlan, request: RequestPlan, budget: Budget) -> str:
        """Return what keeps a request from devices that are free: a constraint, and who lacks its attribute."""
        number = self._find_constraint(plan, budget)
        together = any(item.count != 1 for item in request.alternatives)
        absent: dict[str, str] = {}
        for at, constraint in enumerate(plan.constraints):
            bound = [item for item in request.alternatives if at in item.constraints]
            if not bound or number not in (None, at):
                continue
            having, text = self._tell_absent(constraint.attribute, bound, budget)
            if text:
                absent[constraint.attribute] = text
            together = together and having > 0
        none = "none together satisfy" if together else "none satisfies"
        told = "".join(f"; {text}" for text in absent.values())
        return f"devices are free, but {none} {_constraint_name(plan, number)}{told}"

    def _tell_absent(self, attribute: str, bound: Sequence[Alternative], budget: Budget) -> tuple[int, str]:
        key = (attribute, tuple([(item.key.serial, attribute in item.derived) for item in bound]))
        if (found := self._absent.get(key)) is None:
            found = tell_absent(attribute, bound, self.inventory, self.tallies.candidates, budget)
            if len(self._absent) >= _MAX_ABSENT:
                self._absent.clear()
            self._absent[key] = found
        return found

    def _tell_failure(self, plan: ClaimPlan, item: Alternative, tally: Tally) -> Explanation | None:
        """Return the failure of a selector that leaves no device because of it, if there is one."""
        (of_class, class_selectors), (of_request, request_selectors) = _selectors(plan, item)
        stages = [(of_class, class_selectors, tally.class_details, tally.in_class)]
        left = tally.in_class
        for obstacle in tally.selectors:
            left -= obstacle.count
            stages.append((of_request, request_selectors, obstacle, left))
        for source, expressions, obstacle, left in stages:
            if left:
                continue
            if obstacle.failure is None:
                return None
            found = obstacle.failure
            answers = self.tallies.candidates.selectors.get(expressions[found.number])
            text = f"{source.title}: {failing(answers, found.number, found.content, found.index)}"
            return Explanation(Reason.SELECTOR_FAILED, text, source.request)
        return None

    def _tell(self, alternative: Alternative, tally: Tally) -> tuple[Reason, str]:
        class_name = alternative.device_class.metadata.name
        if not tally.published:
            return Reason.NO_DEVICES, "no devices are published"
        text = f"{_devices(tally.published)} published, {tally.in_class} in class {class_name}"
        if not tally.in_class or tally.class_details.failure:
            text += tally.class_details.detail()
        if not tally.in_class:
            return Reason.CLASS_MATCHES_NO_DEVICE, text
        left = tally.in_class
        for number, obstacle in enumerate(tally.selectors):
            left -= obstacle.count
            text += f", {left} match selector #{number}"
            if not left or obstacle.failure:
                text += obstacle.detail()
            if not left:
                return Reason.SELECTOR_MATCHES_NO_DEVICE, text
        obstacles = sorted(tally.obstacles.values(), key=lambda item: _ORDER.index(item.reason))
        for obstacle in obstacles:
            text += f", {obstacle.count} {_OBSTACLES[obstacle.reason]}{_with_claims(obstacle, tally)}"
        if not tally.left or (alternative.count is None and obstacles):
            rest = f", {tally.left} left, all requested" if alternative.count is None and tally.left else ""
            return obstacles[-1].reason, text + rest
        if alternative.count is None:
            return Reason.NOT_ENOUGH_DEVICES, f"{text}, {tally.left} left, but not all of them on one node"
        text += (
            f", {tally.left} left, at most {tally.most_on_a_node} on one node, {alternative.count} requested"
        )
        return Reason.NOT_ENOUGH_DEVICES, text


_ORDER = list(_OBSTACLES)


def _with_claims(obstacle: Obstacle, tally: Tally) -> str:
    if obstacle.reason is Reason.DEVICE_IN_USE:
        return f" by {len(tally.claims)} claim{'s' if len(tally.claims) != 1 else ''}"
    return obstacle.detail()


def _devices(count: int) -> str:
    return f"{count} device{'s' if count != 1 else ''}"


def _constraint_name(plan: ClaimPlan, number: int | None) -> str:
    """Return a constraint by number, kind and attribute; None stands for all of them."""
    if number is None:
        return f"its {len(plan.constraints)} constraints"
    constraint = plan.constraints[number]
    kind = "matchAttribute" if constraint.matching else "distinctAttribute"
    return f"constraint #{number} ({kind} {constraint.attribute})"


def _names(plan: ClaimPlan) -> object:
    """Return what texts name of a plan, but its signature does not."""
    items = [item for request in plan.requests for item in request.alternatives]
    return tuple((item.name, item.device_class.metadata.name) for item in items)


def _selectors(plan: ClaimPlan, item: Alternative) -> tuple[tuple[Source, tuple[str, ...]], ...]:
    """Return the selectors of an alternative, those of its class first, each with where they stand."""
    content = item.key.content
    return (
        (in_class(item.device_class.metadata.name, item.name), content.class_selectors),
        (in_request(plan.title, item.name), content.request_selectors),
    )


def _only(plan: ClaimPlan, request: RequestPlan) -> ClaimPlan:
    """Return the plan with one request only."""
    return with_requests(plan, (request,), plan.constraints)


def _unconstrained(plan: ClaimPlan) -> ClaimPlan:
    """Return the plan without its constraints."""
    requests = tuple(
        replace(request, alternatives=tuple(replace(item, constraints=()) for item in request.alternatives))
        for request in plan.requests
    )
    return with_requests(plan, requests, ())


def _without(plan: ClaimPlan, number: int) -> ClaimPlan:
    """Return the plan with one of its constraints applying to nothing."""
    requests = tuple(
        replace(
            request,
            alternatives=tuple(
                replace(item, constraints=tuple(other for other in item.constraints if other != number))
                for item in request.alternatives
            ),
        )
        for request in plan.requests
    )
    return with_requests(plan, requests, plan.constraints)


def explain_failure(failed: Failed) -> Explanation:
    """Return the explanation of an attempt that ended with an error: the error says it, here in one line."""
    return Explanation(failed.reason, " ".join(failed.message.split()), failed.request)
