"""Patches: one merge-patch of a claim or a pod, and whether an object is already as a patch makes it.

A merge-patch replaces a list as a whole, so a patch of a list names all that stays. Source: RFC 7396.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dra_operator.api.names import FINALIZER, GATE

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge-patch without its preconditions. `place` is the field that it is for, such as `status.allocation`."""

    place: str
    body: Mapping[str, Any]

    @property
    def subresource(self) -> str:
        """The subresource that is patched; empty for the object itself."""
        return "status" if self.place.startswith("status.") else ""

    @property
    def allocates(self) -> bool:
        """True if a claim gets devices by it."""
        return self.place == "status.allocation" and self.body["status"]["allocation"] is not None

    def to_wire(self, uid: str, version: str) -> Body:
        """Return the merge-patch with its preconditions."""
        metadata = {**self.body.get("metadata", {}), "resourceVersion": version, "uid": uid}
        return {**self.body, "metadata": metadata}

    def holds(self, body: Body) -> bool:
        """Return whether an object has in `place` what is set.

        Of lists that others share, that is our entry. Of an allocation it is each device with its request: other
        fields the API server may fill in or drop.
        """
        part, field = self.place.split(".")
        wanted, found = self.body[part][field], (body.get(part) or {}).get(field)
        match field:
            case "finalizers":
                return (FINALIZER in wanted) == (FINALIZER in (found or ()))
            case "annotations":
                return all((found or {}).get(name) == text for name, text in wanted.items())
            case "allocation":
                if wanted is None or found is None:
                    return found is wanted
                return _devices(found) == _devices(wanted)
            case "reservedFor":
                return any(each.get("uid") == wanted[-1]["uid"] for each in found or ())
            case "schedulingGates":
                return all(gate["name"] != GATE for gate in found or ())
            case _:
                return bool((found or None) == wanted)


def finalizers_of(body: Body) -> tuple[str, ...]:
    """Return the finalizers of a claim as on the wire."""
    return tuple(body["metadata"].get("finalizers") or ())


def allocation_of(body: Body) -> Body | None:
    """Return the allocation of a claim as on the wire."""
    return (body.get("status") or {}).get("allocation")


def _devices(allocation: Mapping[str, Any]) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        tuple(result.get(part, "") for part in ("request", "driver", "pool", "device")) for result in results
    ]
