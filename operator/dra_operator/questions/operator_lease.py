"""The Lease of the operator: who decides, and whether it still does.

Source: `cluster/lease.py`; others take over once it has not been renewed for its duration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.kinds import LEASE
from dra_operator.api.names import LEASE_NAME
from dra_operator.api.text import age_of, human_duration
from dra_operator.pods.workloads import part
from dra_operator.questions.state import ClusterState

_DURATION: Final = 15
_LIVES: Final = 2
"""Clocks differ, and a renewal may be late: so many durations without one are the end of an operator."""


@dataclass(frozen=True, slots=True)
class OperatorLease:
    """Who holds the Lease, empty for nobody, and how many seconds ago it was renewed, where that is known."""

    namespace: str
    holder: str
    age_seconds: int | None
    is_stale: bool

    @property
    def text(self) -> str:
        """How messages say it."""
        name = f"{self.namespace}/{LEASE_NAME}"
        if not self.holder:
            return f"nobody holds its Lease {name}"
        if self.age_seconds is None:
            return f"{self.holder} never renewed its Lease {name}"
        age = human_duration(self.age_seconds)
        # When comes before which: a table may cut the end.
        if self.is_stale:
            return f"{self.holder} has not renewed its Lease for {age} ({name})"
        return f"{self.holder} renewed its Lease {age} ago ({name})"


def is_lease_known(state: ClusterState) -> bool:
    """Return whether the Lease could be read, be it that there is none."""
    return bool(_leases(state)) or ("Lease" in state.objects.listed and "Lease" not in state.unread)


def _leases(state: ClusterState) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the Leases of operators with their namespaces."""
    found = sorted(state.objects.of_operator.items(), key=lambda item: item[0])
    return [(namespace, body) for (kind, namespace, _), body in found if kind == LEASE.kind]


def find_lease(state: ClusterState) -> OperatorLease | None:
    """Return the Lease of the operator, of several the one that was renewed last; None if there is none."""
    found = []
    for namespace, body in _leases(state):
        spec = part(body, "spec")
        holder, age = str(spec.get("holderIdentity") or ""), age_of(spec.get("renewTime"), state.now)
        seconds = spec.get("leaseDurationSeconds")
        bound = _LIVES * (seconds if isinstance(seconds, int) else _DURATION)
        found.append(OperatorLease(namespace, holder, age, not holder or age is None or age > bound))
    return min(
        found, key=lambda each: (each.is_stale, each.age_seconds is None, each.age_seconds), default=None
    )


def describe_operator(state: ClusterState) -> str:
    """Return a clause about who should act for the operator, and whether anybody does; nothing if that is not known."""
    if not is_lease_known(state):
        return ""
    lease = find_lease(state)
    return f"there is no Lease {LEASE_NAME}: no operator runs with gates on" if lease is None else lease.text
