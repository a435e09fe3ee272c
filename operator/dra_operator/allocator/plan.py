"""The plan of a claim: what it asks for, checked once and put in terms of candidate keys.

Two claims with equal signatures are the same search problem, whatever they and their requests are called.
Source: docs/dra-semantics 3.1 and 3.7.
"""

from collections.abc import Mapping

from dra_operator.allocator.candidates import CandidateKey
from dra_operator.allocator.decision import FatalError, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.sealed import sealed
from dra_operator.api.types import DeviceClass, DeviceToleration, ResourceClaim

MAX_DEVICES = 32
"""How many devices one claim can have. Source: AllocationResultsMaxSize of resource.k8s.io."""


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
    looked at too, and `needs_free` that no node without a free device can serve it. `countable` says that no derived
    attribute is asked for, that no constraint applies to a request for all devices, and that the numbers stay within
    what a claim can have whichever alternatives are chosen.
    """

    claim: ResourceClaim
    requests: tuple[RequestPlan, ...]
    constraints: tuple[ConstraintPlan, ...]
    signature: object
    evaluates_used: bool
    needs_free: bool
    countable: bool

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
    """Return the plan of a claim that asked for something else."""
    return plan_of(plan.claim, requests, constraints)


def plan_for(claim: ResourceClaim, plan: ClaimPlan) -> ClaimPlan:
    """Return the plan of a claim that asks for what the claim of another plan asks for."""
    return ClaimPlan(
        claim,
        plan.requests,
        plan.constraints,
        plan.signature,
        plan.evaluates_used,
        plan.needs_free,
        plan.countable,
    )


def plan_of(
    claim: ResourceClaim, requests: tuple[RequestPlan, ...], constraints: tuple[ConstraintPlan, ...]
) -> ClaimPlan:
    """Return the plan of a claim with these requests and constraints."""
    evaluates_used = needs_free = False
    countable = True
    most = 0
    # Texts and numbers, one after the other: a record among them would be hashed by a call.
    signature: list[object] = []
    for request in requests:
        largest, takes = 0, True
        signature += (request.prioritized, len(request.alternatives))
        for item in request.alternatives:
            count = item.count
            if count is None:
                evaluates_used, takes = True, False
                countable = countable and not item.constraints
            elif count > largest:
                largest = count
            elif count <= 0:
                countable, takes = False, takes and count != 0
            if item.admin_access:
                evaluates_used = True
            signature += (item.key.serial, count, item.admin_access, item.constraints)
            if item.derived:
                countable = False
                signature.append(tuple(sorted(item.derived.items())))
        needs_free = needs_free or takes
        most += largest
    for constraint in constraints:
        signature += (constraint.attribute, constraint.matching)
    return ClaimPlan(
        claim,
        requests,
        constraints,
        tuple(signature),
        evaluates_used,
        needs_free,
        countable and most <= MAX_DEVICES,
    )


def too_many(request: str, count: int, before: int) -> FatalError:
    """Return the error of a claim that asks for more devices than one claim can have."""
    return FatalError(
        f"request {request}: adding {count} devices exceeds the claim limit of {MAX_DEVICES}, "
        f"with {before} already accounted for",
        Reason.TOO_MANY_DEVICES,
        request=request,
    )
