"""What a claim asks for, as a key: claims that ask for the same in the same words have equal plans.

Most claims of a cluster are made from a few templates. Their plans differ in nothing but the claim, and making a plan
takes several times as long as finding one that was made.
"""

from dra_operator.allocator.plan import ClaimPlan
from dra_operator.api.types import (
    DeviceClaim,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)


def asked_by(devices: DeviceClaim) -> object:
    """Return something hashable that is equal for claims with equal plans: all of it but configuration."""
    return (
        tuple([_request(request) for request in devices.requests]),
        tuple(
            [(item.requests, item.match_attribute, item.distinct_attribute) for item in devices.constraints]
        ),
    )


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
        plan.derives,
    )


def _request(request: DeviceRequest) -> object:
    exactly = request.exactly
    if exactly is not None:
        return (request.name, exactly.admin_access, _wanted(exactly))
    return (request.name, tuple([(item.name, _wanted(item)) for item in request.first_available]))


def _wanted(part: ExactDeviceRequest | DeviceSubRequest) -> object:
    capacity, derived = part.capacity, part.derived_attributes
    return (
        part.device_class_name,
        tuple([None if item.cel is None else item.cel.expression for item in part.selectors]),
        part.allocation_mode,
        part.count,
        part.tolerations,
        # In the order in which they are written: results have it, too.
        None
        if capacity is None
        else tuple([(name, amount.nano, amount.text) for name, amount in capacity.requests.items()]),
        tuple([(item.name, item.expression) for item in derived]) if derived else (),
    )
