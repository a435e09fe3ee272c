"""Who nominated a pod: the API server records it in `metadata.managedFields`, and takes it off with the nomination.

Source: k8s.io/apimachinery, ManagedFieldsEntry; core/v1 Pod, `status.nominatedNodeName`.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.api.names import FIELD_MANAGER


def is_nominated_by_operator(body: Mapping[str, Any]) -> bool:
    """Return whether the API server has recorded that the operator set the nomination that a pod has."""
    if not (body.get("status") or {}).get("nominatedNodeName"):
        # Nearly all pods.
        return False
    return any(
        each.get("manager") == FIELD_MANAGER
        and "f:nominatedNodeName" in ((each.get("fieldsV1") or {}).get("f:status") or {})
        for each in body["metadata"].get("managedFields") or ()
    )


def trim_managed_fields(body: dict[str, Any]) -> None:
    """Take the managed fields off an object, but for what `is_nominated_by_operator` reads."""
    is_ours = is_nominated_by_operator(body)
    body["metadata"].pop("managedFields", None)
    if is_ours:
        fields: dict[str, Any] = {"f:status": {"f:nominatedNodeName": {}}}
        body["metadata"]["managedFields"] = [{"manager": FIELD_MANAGER, "fieldsV1": fields}]
