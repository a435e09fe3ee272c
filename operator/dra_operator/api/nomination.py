"""What is read of the metadata of watched objects, such as who nominated a pod.

The API server records that in `metadata.managedFields`, and takes it off with the nomination.

Source: k8s.io/apimachinery, ManagedFieldsEntry; core/v1 Pod, `status.nominatedNodeName`.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.api.names import FIELD_MANAGER, KNOWN_ANNOTATIONS


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


def trim_metadata(body: dict[str, Any]) -> None:
    """Take off an object what nobody reads of its managed fields, and of its annotations, which may have 256 KiB."""
    metadata, is_ours = body["metadata"], is_nominated_by_operator(body)
    metadata.pop("managedFields", None)
    if is_ours:
        fields: dict[str, Any] = {"f:status": {"f:nominatedNodeName": {}}}
        metadata["managedFields"] = [{"manager": FIELD_MANAGER, "fieldsV1": fields}]
    if isinstance(annotations := metadata.get("annotations"), dict):
        metadata["annotations"] = {name: annotations[name] for name in KNOWN_ANNOTATIONS & annotations.keys()}
