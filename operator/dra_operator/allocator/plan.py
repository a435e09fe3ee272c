"""The plan of a claim: what it asks for, checked once and expressed in candidate keys.

Errors of a claim that do not depend on the node are found here, before any device is looked at. Claims with equal
signatures are the same search problem, whatever the names of the claims and their requests.
Source: docs/dra-semantics 3.1 and 3.7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Final, TypeGuard

from dra_operator.allocator.asked import Asked, AskedAmount, Expressions, Rule, Wanted, asked_by
from dra_operator.allocator.constraints import COUNTED, KINDS, ConstraintPlan
from dra_operator.allocator.decision import FatalError, claim_key
from dra_operator.allocator.matching.candidates import CandidateKey, Candidates, KeyContent
from dra_operator.allocator.matching.room import drop_older_half
from dra_operator.allocator.reasons import Reason
from dra_operator.api.quantity import Quantity
from dra_operator.api.sealed import sealed
from dra_operator.api.types import (
    DeviceClass,
    DeviceToleration,
    ResourceClaim,
)

MAX_DEVICES = 32
"""How many devices one claim can have. Source: AllocationResultsMaxSize of resource.k8s.io."""

_MAX_ASKED = 2048
"""As many as there are kept selectors: plans of what one claim alone asks for need not be kept longer."""

_NONE_DERIVED: Final[Mapping[str, str]] = MappingProxyType({})
_NOTHING: Final[Mapping[str, Quantity]] = MappingProxyType({})


@sealed
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


@sealed
class RequestPlan:
    """A request and its alternatives; `prioritized` if these are subrequests."""

    name: str
    prioritized: bool
    alternatives: tuple[Alternative, ...]


@sealed
class ClaimPlan:
    """A claim, ready to be searched for.

    `signature`: equal for claims that are the same search problem.
    `evaluates_used`: devices in use are looked at as well.
    `needs_free`: a node without a free device can neither serve the claim nor end it with an error.
    `countable`: fast searches may be asked. They know each kind of constraint, none applies to a request for all
    devices, and the claim cannot exceed the limit of devices, whichever alternatives are chosen.
    `quick`: the quick search may be asked.
    `derives`: a constraint asks for a derived attribute.
    `bare`: one request without amounts and tolerations, so no shortcut but the sieve applies.
    """

    claim: ResourceClaim
    requests: tuple[RequestPlan, ...]
    constraints: tuple[ConstraintPlan, ...]
    signature: object
    evaluates_used: bool
    needs_free: bool
    countable: bool
    derives: bool
    quick: bool
    bare: bool

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the claim."""
        return claim_key(self.claim)

    @property
    def title(self) -> str:
        """The claim's name as texts have it."""
        return "/".join(part for part in self.key if part)


_after_claim = attrgetter(*(item.name for item in fields(ClaimPlan)[1:]))
"""Returns all of a plan but the claim: what it shares with the plans of claims that ask for the same."""


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
    bare = len(requests) == 1
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
            if item.tolerations or item.key.requests:
                bare = False
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
        # A request for all devices can end the attempt with an error before any alternative is tried.
        countable
        and not derives
        and len(requests) == 1
        and (not evaluates_used or len(requests[0].alternatives) == 1),
        bare,
    )


@dataclass(slots=True)
class Planner:
    """Makes the plans of claims. Claims that ask for the same share one, until a class changes."""

    classes: Mapping[str, DeviceClass]
    candidates: Candidates
    _plans: dict[Asked, ClaimPlan] = field(default_factory=dict)

    def plan(self, claim: ResourceClaim) -> ClaimPlan:
        """Return the plan of a claim. Raises FatalError for errors that do not depend on the node."""
        asked = asked_by(claim.spec.devices)
        alike = self._plans.get(asked)
        if alike is not None:
            return ClaimPlan(claim, *_after_claim(alike))
        if len(self._plans) >= _MAX_ASKED:
            drop_older_half(self._plans)
        try:
            plan = self._plans[asked] = self._make(claim, asked)
        except FatalError as error:
            error.claim = claim_key(claim)
            raise
        return plan

    def forget(self) -> None:
        """Forget all plans: a class has changed."""
        self._plans.clear()

    def _make(self, claim: ResourceClaim, asked: Asked) -> ClaimPlan:
        wanted, rules = asked
        requests: tuple[RequestPlan, ...] = ()
        left = MAX_DEVICES
        for name, exactly, others in wanted:
            if exactly is not None:
                item = self._alternative(name, name, exactly, rules)
                requests += (RequestPlan(name, False, (item,)),)
                # A request for all devices may turn out to be for none; only the search on a node knows.
                least = item.count or 0
            else:
                items = self._prioritized(name, others, rules)
                requests += (RequestPlan(name, True, items),)
                least = min([item.count or 0 for item in items])
            if least > left:
                raise too_many(name, least, MAX_DEVICES - left)
            left -= least
        return _claim_plan(claim, requests, _constraints(rules) if rules else ())

    def _prioritized(
        self, name: str, others: Sequence[tuple[str, Wanted]], rules: Sequence[Rule]
    ) -> tuple[Alternative, ...]:
        if not others:
            raise _unsupported(name, "neither exactly nor firstAvailable is set")
        if not self.candidates.features.prioritized_list:
            raise _unsupported(name, "has subrequests, but the feature DRAPrioritizedList is switched off")
        return tuple([self._alternative(name, f"{name}/{other}", wanted, rules) for other, wanted in others])

    def _alternative(self, parent: str, name: str, wanted: Wanted, rules: Sequence[Rule]) -> Alternative:
        class_name, selectors, mode, number, tolerations, written, derivations, admin_access = wanted
        if written is not None and not self.candidates.features.consumable_capacity:
            raise _unsupported(
                name, "has capacity requests, but the feature DRAConsumableCapacity is switched off"
            )
        if derivations and not self.candidates.features.derived_attributes:
            raise _unsupported(
                name, "has derived attributes, but the feature DRADerivedAttributes is switched off"
            )
        if not _are_known(selectors):
            raise _unknown(name, selectors)
        if admin_access is not None and not self.candidates.features.admin_access:
            raise _unsupported(name, "admin access is requested, but the feature is switched off")
        device_class, class_selectors = self._class(name, class_name)
        applicable = _applicable(parent, name, rules) if rules else ()
        count: int | None = number
        if mode != "ExactCount":
            if mode != "All":
                raise _unsupported(name, f"allocation mode {mode!r} is not known; ExactCount and All are")
            count = None
        amounts: tuple[AskedAmount, ...] = ()
        quantities: Mapping[str, Quantity] = _NOTHING
        if written:
            amounts = tuple(sorted(written))
            quantities = {capacity: Quantity(nano, text) for capacity, nano, text in amounts}
        content = KeyContent(class_selectors, selectors, tolerations, amounts)
        # Positional arguments, as this is made for each claim if all claims differ.
        return Alternative(
            name,
            device_class,
            self.candidates.key(content, quantities),
            count,
            admin_access is True,
            tolerations,
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
        selectors = tuple(
            [None if item.cel is None else item.cel.expression for item in found.spec.selectors]
        )
        if not _are_known(selectors):
            raise _unknown(request, selectors)
        return found, selectors


def too_many(request: str, count: int, before: int) -> FatalError:
    """Return the error of a claim that asks for more devices than one claim can have."""
    others = f", and {before} of the requests before it," if before else ""
    wanted = "1 device" if count == 1 else f"{count} devices"
    text = f"request {request}: {wanted}{others} are more than the {MAX_DEVICES} that a claim can have"
    return FatalError(text, Reason.TOO_MANY_DEVICES, request=request)


def _unsupported(request: str, text: str) -> FatalError:
    return FatalError(f"request {request}: {text}", Reason.REQUEST_UNSUPPORTED, request=request)


def _are_known(selectors: Expressions) -> TypeGuard[tuple[str, ...]]:
    return None not in selectors


def _unknown(request: str, selectors: Expressions) -> FatalError:
    number = selectors.index(None)
    return _unsupported(request, f"selector #{number} is not of a known kind; only cel is")


def _applicable(parent: str, name: str, rules: Sequence[Rule]) -> tuple[int, ...]:
    """Return the positions of the constraints that apply to a request, or to a subrequest of `parent`."""
    found: tuple[int, ...] = ()
    for number, (named, _) in enumerate(rules):
        if not named or parent in named or name in named:
            found += (number,)
    return found


def _derived(derivations: Sequence[tuple[str, str]], rules: Sequence[Rule]) -> dict[str, str]:
    """Return the expressions of those derived attributes that a constraint asks for."""
    asked = {constraint.attribute for _, constraint in rules if constraint is not None}
    # If two have the same name, the last one counts.
    return {name: expression for name, expression in derivations if name in asked}


def _constraints(rules: Sequence[Rule]) -> tuple[ConstraintPlan, ...]:
    constraints: tuple[ConstraintPlan, ...] = ()
    for number, (_, constraint) in enumerate(rules):
        if constraint is None:
            raise FatalError(
                f"constraint #{number} names no attribute of a known kind; {' and '.join(KINDS)} are",
                Reason.REQUEST_UNSUPPORTED,
            )
        constraints += (constraint,)
    return constraints
