"""One claim that asks for what several ask for: where it fits, they fit together."""

from collections.abc import Sequence
from dataclasses import replace

from dra_operator.api.types import (
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)


def merge_claims(names: Sequence[str], claims: Sequence[ResourceClaim]) -> ResourceClaim:
    """Return a claim that asks for what several ask for; its requests say by `names` of which claim they are."""
    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    for name, claim in zip(names, claims, strict=True):
        asked = claim.spec.devices
        own = {request.name: f"{request.name} of {name}" for request in asked.requests}
        requests += [replace(request, name=own[request.name]) for request in asked.requests]
        for constraint in asked.constraints:
            parts = [path.partition("/") for path in constraint.requests or own]
            bound = tuple(f"{own[first]}{slash}{rest}" for first, slash, rest in parts if first in own)
            constraints.append(replace(constraint, requests=bound))
    spec = ResourceClaimSpec(DeviceClaim(tuple(requests), tuple(constraints)))
    return replace(claims[0], spec=spec)
