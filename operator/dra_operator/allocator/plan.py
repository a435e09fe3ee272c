"""The plan of a claim: what it asks for, checked once and expressed in candidate keys.

Errors of a claim that do not depend on the node are found here, before any device is looked at. Claims with equal
signatures are the same search problem, whatever the names of the claims and their requests.
Source: docs/dra-semantics 3.1 and 3.7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from dra_operator.allocator.constraints import COUNTED, DISTINCT, KINDS, MATCH, ConstraintPlan
from dra_operator.allocator.decision import Decider, FatalError, claim_key
from dra_operator.allocator.matching.candidates import AskContent, CandidateKey, Candidates
from dra_operator.allocator.matching.capacity import AskedAmount
from dra_operator.allocator.reasons import Reason
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.types import (
    DerivedAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from dra_operator.api.wire import Flag

MAX_DEVICES = 32
"""How many devices one claim can have. Source: AllocationResultsMaxSize of resource.k8s.io."""


_NONE_DERIVED: Final[Mapping[str, str]] = MappingProxyType({})


@fast_dataclass
class Alternative:
    """One way to serve a request: all of it, or one of its subrequests. `name` is the request's name in the result.

    `count` is None for All. `constraints` are the positions of the claim's constraints that apply. `derived` are the
    expressions of the derived attributes that these ask for; others are never evaluated.
    """

    name: str
    device_class: DeviceClass
    key: CandidateKey
    count: int | None
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    derived: Mapping[str, str]
    constraints: tuple[int, ...]


@fast_dataclass
class RequestPlan:
    """A request and its alternatives; `prioritized` if these are subrequests."""

    name: str
    prioritized: bool
    alternatives: tuple[Alternative, ...]


@fast_dataclass
class ClaimPlan:
    """A claim, ready to be searched for.

    `signature`: equal for claims that are the same search problem.
    `evaluates_used`: devices in use are looked at as well.
    `needs_free`: a node without a free device can neither serve the claim nor end it with an error.
    `countable`: what fits can be counted. The search knows each kind of constraint, none applies to a request for all
    devices, and the claim cannot exceed the limit of devices, whichever alternatives are chosen.
    `derives`: a constraint asks for a derived attribute.
    """

    claim: ResourceClaim
    requests: tuple[RequestPlan, ...]
    constraints: tuple[ConstraintPlan, ...]
    signature: object
    evaluates_used: bool
    needs_free: bool
    countable: bool
    derives: bool

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the claim."""
        return claim_key(self.claim)

    @property
    def title(self) -> str:
        """The claim's name as texts have it."""
        return "/".join(part for part in self.key if part)


def with_requests(
    plan: ClaimPlan, requests: tuple[RequestPlan, ...], constraints: tuple[ConstraintPlan, ...]
) -> ClaimPlan:
    """Return the plan of a claim as if it had asked for these requests and constraints."""
    return _claim_plan(plan.claim, requests, constraints)


def _claim_plan(
    claim: ResourceClaim, requests: tuple[RequestPlan, ...], constraints: tuple[ConstraintPlan, ...]
) -> ClaimPlan:
    evaluates_used = needs_free = derives = False
    countable = True
    most = 0
    for constraint in constraints:
        countable = countable and constraint.kind in COUNTED
    asked: tuple[object, ...] = ()
    for request in requests:
        largest, takes = 0, True
        for item in request.alternatives:
            count, derived = item.count, item.derived
            if count is None:
                evaluates_used, takes = True, False
                countable = countable and not item.constraints
            elif count > largest:
                largest = count
            elif count <= 0:
                countable, takes = False, takes and count != 0
            if item.admin_access:
                evaluates_used = True
            if derived:
                derives = True
            texts = tuple(sorted(derived.items())) if derived else ()
            asked += ((item.key.serial, count, item.admin_access, texts, item.constraints),)
        # This also marks where the alternatives of the request end.
        asked += (request.prioritized,)
        needs_free = needs_free or takes
        most += largest
    countable = countable and most <= MAX_DEVICES
    return ClaimPlan(
        claim,
        requests,
        constraints,
        # Tuples of texts and numbers are hashed fast; dataclasses are hashed by Python code.
        (asked, constraints),
        evaluates_used,
        needs_free and not evaluates_used,
        countable,
        derives,
    )


@dataclass(slots=True)
class Planner:
    """Makes the plans of claims; what classes ask for is kept until one changes."""

    classes: Mapping[str, DeviceClass]
    candidates: Candidates
    decider: Decider = Decider.KUBE_SCHEDULER
    _implied: int = field(init=False)
    _implied_for_admin: int = field(init=False)
    _classes: dict[str, tuple[DeviceClass, tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._implied = self.decider.implied(admin_access=False)
        self._implied_for_admin = self.decider.implied(admin_access=True)

    def plan(self, claim: ResourceClaim) -> ClaimPlan:
        """Return the plan of a claim. Raises FatalError for errors that do not depend on the node."""
        try:
            return self._make(claim)
        except FatalError as error:
            error.claim = claim_key(claim)
            raise

    def forget(self) -> None:
        """Forget all classes: one has changed."""
        self._classes.clear()

    def _make(self, claim: ResourceClaim) -> ClaimPlan:
        devices = claim.spec.devices
        rules = devices.constraints
        requests: tuple[RequestPlan, ...] = ()
        left = MAX_DEVICES
        for request in devices.requests:
            name, exactly = request.name, request.exactly
            if exactly is not None:
                item = self._alternative(name, name, exactly, exactly.admin_access, rules)
                requests += (RequestPlan(name, False, (item,)),)
                # A request for all devices may turn out to be for none; only the search on a node knows.
                least = item.count or 0
            else:
                items = self._prioritized(request, rules)
                requests += (RequestPlan(name, True, items),)
                least = min([item.count or 0 for item in items])
            if least > left:
                raise too_many(name, least, MAX_DEVICES - left)
            left -= least
        return _claim_plan(claim, requests, _constraints(rules) if rules else ())

    def _prioritized(
        self, request: DeviceRequest, rules: Sequence[DeviceConstraint]
    ) -> tuple[Alternative, ...]:
        name, parts = request.name, request.first_available
        if not parts:
            raise _unsupported(name, "neither exactly nor firstAvailable is set")
        if not self.candidates.features.prioritized_list:
            raise _unsupported(name, "has subrequests, but the feature DRAPrioritizedList is switched off")
        return tuple([self._alternative(name, f"{name}/{part.name}", part, None, rules) for part in parts])

    def _alternative(
        self,
        parent: str,
        name: str,
        part: ExactDeviceRequest | DeviceSubRequest,
        admin_access: Flag | None,
        rules: Sequence[DeviceConstraint],
    ) -> Alternative:
        capacity, derivations = part.capacity, part.derived_attributes
        if capacity is not None and not self.candidates.features.consumable_capacity:
            raise _unsupported(
                name, "has capacity requests, but the feature DRAConsumableCapacity is switched off"
            )
        if derivations and not self.candidates.features.derived_attributes:
            raise _unsupported(
                name, "has derived attributes, but the feature DRADerivedAttributes is switched off"
            )
        selectors = _expressions(name, part.selectors)
        if admin_access is not None and not self.candidates.features.admin_access:
            raise _unsupported(name, "admin access is requested, but the feature is switched off")
        device_class, class_selectors = self._classes.get(part.device_class_name) or self._class(
            name, part.device_class_name
        )
        applicable = _applicable(parent, name, rules) if rules else ()
        count: int | None = part.count
        if (mode := part.allocation_mode) != "ExactCount":
            if mode != "All":
                raise _unsupported(name, f"allocation mode {mode!r} is not known; ExactCount and All are")
            count = None
        amounts: tuple[AskedAmount, ...] = ()
        if capacity is not None and (written := capacity.requests):
            amounts = tuple(sorted([(item, amount.nano, amount.text) for item, amount in written.items()]))
        implied = self._implied_for_admin if admin_access is True else self._implied
        content = AskContent(class_selectors, selectors, part.tolerations, implied)
        # Positional arguments, as this is made for each claim if all claims differ.
        return Alternative(
            name,
            device_class,
            self.candidates.key(content, amounts),
            count,
            admin_access is True,
            part.tolerations,
            _derived(derivations, [rules[place] for place in applicable]) if derivations else _NONE_DERIVED,
            applicable,
        )

    def _class(self, request: str, name: str) -> tuple[DeviceClass, tuple[str, ...]]:
        """Return a class and the expressions of its selectors."""
        if not name:
            raise _unsupported(request, "names no device class")
        if (found := self.classes.get(name)) is None:
            raise FatalError(
                f"request {request}: device class {name} does not exist",
                Reason.CLASS_NOT_FOUND,
                request=request,
                subject=("DeviceClass", name),
            )
        read = self._classes[name] = (found, _expressions(request, found.spec.selectors))
        return read


def too_many(request: str, count: int, before: int) -> FatalError:
    """Return the error of a claim that asks for more devices than one claim can have."""
    others = f", and {before} of the requests before it," if before else ""
    wanted = "1 device" if count == 1 else f"{count} devices"
    text = f"request {request}: {wanted}{others} are more than the {MAX_DEVICES} that a claim can have"
    return FatalError(text, Reason.TOO_MANY_DEVICES, request=request)


def _unsupported(request: str, text: str) -> FatalError:
    return FatalError(f"request {request}: {text}", Reason.REQUEST_UNSUPPORTED, request=request)


def _expressions(request: str, selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    expressions: tuple[str, ...] = ()
    for number, selector in enumerate(selectors):
        if selector.cel is None:
            raise _unsupported(request, f"selector #{number} is not of a known kind; only cel is")
        expressions += (selector.cel.expression,)
    return expressions


def _applicable(parent: str, name: str, rules: Sequence[DeviceConstraint]) -> tuple[int, ...]:
    """Return the positions of the constraints that apply to a request, or to a subrequest of `parent`."""
    found: tuple[int, ...] = ()
    for number, rule in enumerate(rules):
        named = rule.requests
        if not named or parent in named or name in named:
            found += (number,)
    return found


def _derived(derivations: Sequence[DerivedAttribute], rules: Sequence[DeviceConstraint]) -> dict[str, str]:
    """Return the expressions of those derived attributes that a constraint asks for."""
    asked = {constraint.attribute for constraint in map(_constraint, rules) if constraint is not None}
    # If two have the same name, the last one counts.
    return {item.name: item.expression for item in derivations if item.name in asked}


def _constraint(rule: DeviceConstraint) -> ConstraintPlan | None:
    if rule.match_attribute is not None:
        return ConstraintPlan(MATCH, rule.match_attribute)
    if rule.distinct_attribute is not None:
        return ConstraintPlan(DISTINCT, rule.distinct_attribute)
    return None


def _constraints(rules: Sequence[DeviceConstraint]) -> tuple[ConstraintPlan, ...]:
    constraints: tuple[ConstraintPlan, ...] = ()
    for number, rule in enumerate(rules):
        constraint = _constraint(rule)
        if constraint is None:
            raise FatalError(
                f"constraint #{number} names no attribute of a known kind; {' and '.join(KINDS)} are",
                Reason.REQUEST_UNSUPPORTED,
            )
        constraints += (constraint,)
    return constraints
