"""What is read of the metadata of watched objects, such as who nominated a pod.

The API server records that in `metadata.managedFields`, and takes it off with the nomination.

Source: k8s.io/apimachinery, ManagedFieldsEntry; core/v1 Pod, `status.nominatedNodeName`.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.api.names import FIELD_MANAGER, KNOWN_ANNOTATIONS, KNOWN_LABELS


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


def trim_metadata(body: dict[str, Any], *, is_namespaced: bool) -> None:
    """Take off an object what nobody reads of its managed fields, and of what users may write as much of as they like.

    That are annotations, 256 KiB of each object, and where it is in a namespace, labels, which only the size of the
    object bounds, and what a template says of the metadata of its claims. Labels of nodes and namespaces are read.
    """
    metadata, is_ours = body["metadata"], is_nominated_by_operator(body)
    metadata.pop("managedFields", None)
    if is_ours:
        fields: dict[str, Any] = {"f:status": {"f:nominatedNodeName": {}}}
        metadata["managedFields"] = [{"manager": FIELD_MANAGER, "fieldsV1": fields}]
    _keep(metadata, "annotations", KNOWN_ANNOTATIONS)
    if is_namespaced:
        _keep(metadata, "labels", KNOWN_LABELS)
        if isinstance(spec := body.get("spec"), dict):
            spec.pop("metadata", None)


def _keep(metadata: dict[str, Any], field: str, names: frozenset[str]) -> None:
    if isinstance(found := metadata.get(field), dict):
        metadata[field] = {name: found[name] for name in names & found.keys()}
