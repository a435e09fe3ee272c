"""What is read of the metadata of watched objects, such as who nominated a pod.

The API server records that in `metadata.managedFields`, and takes it off with the nomination.

Source: k8s.io/apimachinery, ManagedFieldsEntry; core/v1 Pod, `status.nominatedNodeName`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.names import FIELD_MANAGER, KNOWN_ANNOTATIONS, KNOWN_LABELS
from dra_operator.api.text import seconds_of


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


# --- Managers: who wrote the status of a claim, and when, as `metadata.managedFields` has it.
# The rest of these fields is long, and answers no question. Source: k8s.io/apimachinery, ManagedFieldsEntry.


_STATUS: Final = "f:status"
_ALLOCATION: Final = "f:allocation"
_RESERVATIONS: Final = "f:reservedFor"


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """The last write of a manager to a status, and whether the allocation, or reservations, are of this manager."""

    manager: str
    time: float | None
    is_of_allocation: bool
    is_of_reservations: bool = False


def find_status_writes(body: Mapping[str, Any]) -> list[StatusWrite]:
    """Return who has written the status of an object, as far as that is kept."""
    return [
        StatusWrite(
            str(entry.get("manager") or ""),
            seconds_of(str(entry.get("time") or "")),
            _ALLOCATION in entry["fieldsV1"][_STATUS],
            _RESERVATIONS in entry["fieldsV1"][_STATUS],
        )
        for entry in _entries(body)
    ]


def trim_managed_fields(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the managed fields of a claim as far as `find_status_writes` reads them."""
    return [
        {
            **{
                name: entry[name] for name in ("manager", "operation", "subresource", "time") if name in entry
            },
            "fieldsV1": {
                _STATUS: {
                    name: {} for name in (_ALLOCATION, _RESERVATIONS) if name in entry["fieldsV1"][_STATUS]
                }
            },
        }
        for entry in _entries(body)
    ]


def _entries(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the managed fields that are about a status."""
    found = (body.get("metadata") or {}).get("managedFields")
    return [
        entry
        for entry in (found if isinstance(found, list) else ())
        if isinstance(entry, Mapping)
        and isinstance(fields := entry.get("fieldsV1"), Mapping)
        and isinstance(fields.get(_STATUS), Mapping)
    ]
