"""The plan of a claim: what it asks for, checked once and put in terms of candidate keys.

Everything that is wrong with a claim on every node alike is found here, before a device is looked at. Two claims with
equal signatures are the same search problem, whatever they and their requests are called.
Source: docs/dra-semantics 3.1 and 3.7.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from dra_operator.allocator.candidates import CandidateKey, Candidates, KeyContent
from dra_operator.allocator.decision import FatalError, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.quantity import Quantity
from dra_operator.api.sealed import sealed
from dra_operator.api.types import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from dra_operator.inventory import Features

MAX_DEVICES = 32
"""How many devices one claim can have. Source: AllocationResultsMaxSize of resource.k8s.io."""

_Request = ExactDeviceRequest | DeviceSubRequest
_NOTHING: Final[Mapping[str, Quantity]] = MappingProxyType({})


@sealed
class Alternative:
    """One way to serve a request: the only one, or a subrequest. `name` is what its results are called.

    `count` is None for All. `constraints` are the positions of the claim's constraints that apply to it, and `derived`
    the expressions of those derived attributes that one of them asks for: others are never evaluated.
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
    """A request and its alternatives; `prioritized` says that they are subrequests."""

    name: str
    prioritized: bool
    alternatives: tuple[Alternative, ...]


@sealed
class ConstraintPlan:
    """A constraint on an attribute: matching, or else distinct."""

    attribute: str
    matching: bool


@sealed
class ClaimPlan:
    """A claim, ready to be searched for.

    `signature` is equal for claims that are the same search problem. `evaluates_used` says that devices in use are
    looked at too, and `needs_free` that no node without a free device can serve it. `countable` says that no constraint
    applies to a request for all devices, and that the numbers stay within what a claim can have whichever alternatives
    are chosen; `derives` that a constraint asks for a derived attribute.
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


def plan_claim(
    claim: ResourceClaim, classes: Mapping[str, DeviceClass], candidates: Candidates, features: Features
) -> ClaimPlan:
    """Return the plan of a claim. Raises FatalError for what is wrong with it on every node."""
    try:
        return _Planner(claim, classes, candidates, features).plan()
    except FatalError as error:
        error.claim = claim_key(claim)
        raise


def with_requests(
    plan: ClaimPlan, requests: tuple[RequestPlan, ...], constraints: tuple[ConstraintPlan, ...]
) -> ClaimPlan:
    """Return the plan of a claim that asked for something else."""
    return _claim_plan(plan.claim, requests, constraints)


def _claim_plan(
    claim: ResourceClaim, requests: tuple[RequestPlan, ...], constraints: tuple[ConstraintPlan, ...]
) -> ClaimPlan:
    evaluates_used = needs_free = derives = False
    countable = True
    most = 0
    asked: list[object] = []
    for request in requests:
        largest, takes = 0, True
        alternatives: list[object] = []
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
            alternatives.append(
                (
                    item.key.serial,
                    count,
                    item.admin_access,
                    tuple(sorted(derived.items())) if derived else (),
                    item.constraints,
                )
            )
        asked.append((request.prioritized, tuple(alternatives)))
        needs_free = needs_free or takes
        most += largest
    # All of it is texts and numbers: a record among them would be hashed by a call.
    signature = (tuple(asked), tuple([(item.attribute, item.matching) for item in constraints]))
    return ClaimPlan(
        claim,
        requests,
        constraints,
        signature,
        evaluates_used,
        needs_free,
        countable and most <= MAX_DEVICES,
        derives,
    )


@sealed
class _Planner:
    claim: ResourceClaim
    classes: Mapping[str, DeviceClass]
    candidates: Candidates
    features: Features

    def plan(self) -> ClaimPlan:
        devices = self.claim.spec.devices
        requests: list[RequestPlan] = []
        left = MAX_DEVICES
        for request in devices.requests:
            planned = self._request(request, devices.constraints)
            requests.append(planned)
            # A request for all devices counts at least none; the search on a node knows its number.
            least = min([item.count or 0 for item in planned.alternatives])
            if least > left:
                raise too_many(planned.name, least, MAX_DEVICES - left)
            left -= least
        constraints = tuple([self._constraint(*item) for item in enumerate(devices.constraints)])
        return _claim_plan(self.claim, tuple(requests), constraints)

    def _request(self, request: DeviceRequest, constraints: Sequence[DeviceConstraint]) -> RequestPlan:
        if request.exactly is not None:
            only = self._alternative(request.name, request.name, request.exactly, constraints)
            return RequestPlan(request.name, prioritized=False, alternatives=(only,))
        if not request.first_available:
            raise _unsupported(request.name, "neither exactly nor firstAvailable is set")
        if not self.features.prioritized_list:
            raise _unsupported(
                request.name, "has subrequests, but the feature DRAPrioritizedList is switched off"
            )
        alternatives = tuple(
            [
                self._alternative(request.name, f"{request.name}/{item.name}", item, constraints)
                for item in request.first_available
            ]
        )
        return RequestPlan(request.name, prioritized=True, alternatives=alternatives)

    def _alternative(
        self, parent: str, name: str, request: _Request, constraints: Sequence[DeviceConstraint]
    ) -> Alternative:
        selectors, admin_access = self._check(name, request)
        device_class = self._class(name, request.device_class_name)
        amounts: Mapping[str, Quantity] = _NOTHING if request.capacity is None else request.capacity.requests
        applicable: tuple[int, ...] = ()
        if constraints:
            applicable = tuple(
                [
                    number
                    for number, item in enumerate(constraints)
                    if not item.requests or parent in item.requests or name in item.requests
                ]
            )
        derived: dict[str, str] = {}
        if request.derived_attributes:
            asked = {_attribute(constraints[number]) for number in applicable}
            # Of two entries with the same name the last one holds.
            derived = {
                item.name: item.expression for item in request.derived_attributes if item.name in asked
            }
        content = KeyContent(
            _expressions(name, device_class.spec.selectors),
            selectors,
            request.tolerations,
            tuple(sorted([(key, amount.nano, amount.text) for key, amount in amounts.items()]))
            if amounts
            else (),
        )
        # By position, in the order of the fields: where each claim asks for something new, one is made for each.
        return Alternative(
            name,
            device_class,
            self.candidates.key(content, amounts),
            _count(name, request),
            admin_access,
            request.tolerations,
            derived,
            applicable,
        )

    def _check(self, name: str, request: _Request) -> tuple[tuple[str, ...], bool]:
        """Refuse what is switched off; return the selectors, and whether admin access is asked for."""
        if request.capacity is not None and not self.features.consumable_capacity:
            raise _unsupported(
                name, "has capacity requests, but the feature DRAConsumableCapacity is switched off"
            )
        if request.derived_attributes and not self.features.derived_attributes:
            raise _unsupported(
                name, "has derived attributes, but the feature DRADerivedAttributes is switched off"
            )
        selectors = _expressions(name, request.selectors)
        if not isinstance(request, ExactDeviceRequest) or request.admin_access is None:
            return selectors, False
        if not self.features.admin_access:
            raise _unsupported(name, "admin access is requested, but the feature is switched off")
        return selectors, request.admin_access

    def _class(self, request: str, name: str) -> DeviceClass:
        if not name:
            raise _unsupported(request, "names no device class")
        if (found := self.classes.get(name)) is None:
            raise FatalError(
                f"request {request}: device class {name} does not exist",
                Reason.CLASS_NOT_FOUND,
                request=request,
                subject=("DeviceClass", name),
            )
        return found

    def _constraint(self, number: int, constraint: DeviceConstraint) -> ConstraintPlan:
        if constraint.match_attribute is not None:
            return ConstraintPlan(constraint.match_attribute, matching=True)
        if constraint.distinct_attribute is not None:
            return ConstraintPlan(constraint.distinct_attribute, matching=False)
        raise FatalError(
            f"constraint #{number} names no attribute of a known kind; matchAttribute and distinctAttribute are",
            Reason.REQUEST_UNSUPPORTED,
        )


def too_many(request: str, count: int, before: int) -> FatalError:
    """Return the error of a claim that asks for more devices than one claim can have."""
    return FatalError(
        f"request {request}: adding {count} devices exceeds the claim limit of {MAX_DEVICES}, "
        f"with {before} already accounted for",
        Reason.TOO_MANY_DEVICES,
        request=request,
    )


def _unsupported(request: str, text: str) -> FatalError:
    return FatalError(f"request {request}: {text}", Reason.REQUEST_UNSUPPORTED, request=request)


def _expressions(request: str, selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    expressions: list[str] = []
    for number, selector in enumerate(selectors):
        if selector.cel is None:
            raise _unsupported(request, f"selector #{number} is not of a known kind; only cel is")
        expressions.append(selector.cel.expression)
    return tuple(expressions)


def _attribute(constraint: DeviceConstraint) -> str | None:
    return constraint.distinct_attribute if constraint.match_attribute is None else constraint.match_attribute


def _count(name: str, request: _Request) -> int | None:
    match request.allocation_mode:
        case "ExactCount":
            return request.count
        case "All":
            return None
        case mode:
            raise _unsupported(name, f"allocation mode {mode!r} is not known; ExactCount and All are")
