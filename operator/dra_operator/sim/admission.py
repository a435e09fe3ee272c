"""Admin access: only in a namespace whose label permits it.

The API server refuses a claim with `adminAccess` elsewhere. A test that wants to smuggle one past it switches the rule
off.
Source: pkg/registry/resource/utils.go, `AuthorizedForAdmin` and `AuthorizedForAdminStatus`.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from dra_operator.api.names import ADMIN_ACCESS_LABEL
from dra_operator.sim import errors
from dra_operator.sim.errors import FieldError
from dra_operator.sim.resources import NAMESPACES, Resource
from dra_operator.sim.store import Store

Body = Mapping[str, Any]

_WHY = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"


class AdminAccess(Enum):
    """Whether the rule is on."""

    CHECKED = "checked"
    UNCHECKED = "unchecked"


def _permitted(store: Store, namespace: str) -> bool:
    stored = store.get(NAMESPACES, "", namespace)
    return (
        stored is not None and (stored.body["metadata"].get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true"
    )


def admit_create(mode: AdminAccess, store: Store, resource: Resource, body: Body) -> list[FieldError]:
    """Return the refusal of a new claim or template that asks for admin access where it may not."""
    if mode is AdminAccess.UNCHECKED or resource.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return []
    claim_spec = body["spec"]["spec"] if resource.kind == "ResourceClaimTemplate" else body["spec"]
    for index, request in enumerate(claim_spec["devices"].get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            if _permitted(store, body["metadata"]["namespace"]):
                return []
            # Upstream names this path for templates, too, and leaves `exactly` out.
            return [errors.forbidden_field(f"spec.devices.requests[{index}].adminAccess", _WHY)]
    return []


def admit_status(
    mode: AdminAccess, store: Store, resource: Resource, body: Body, old: Body
) -> list[FieldError]:
    """Return the refusal of an allocation with admin access where it may not be."""
    if mode is AdminAccess.UNCHECKED or resource.kind != "ResourceClaim":
        return []
    before = _results(old)
    for index, result in enumerate(_results(body)):
        if result.get("adminAccess") and result not in before:
            if _permitted(store, body["metadata"]["namespace"]):
                return []
            return [errors.forbidden_field(f"status.allocation.devices.results[{index}].adminAccess", _WHY)]
    return []


def _results(body: Body) -> Sequence[Body]:
    allocation = body["status"].get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()
