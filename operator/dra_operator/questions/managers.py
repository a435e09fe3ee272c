"""Managers: who wrote the status of a claim, and when, as `metadata.managedFields` has it.

The rest of these fields is long, and answers no question. Source: k8s.io/apimachinery, ManagedFieldsEntry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.text import seconds_of

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
