"""Audit: what is wrong in a cluster, in fifteen sorts, each with the object and what to do.

What controllers mend by themselves is found once they have had the time. What cannot be judged, as a kind was not read,
is said and not found.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from dra_operator.questions.allocation_faults import (
    find_collisions,
    find_foreign_allocations,
    find_lost_consumers,
    find_lost_nodes,
    find_overdrawn,
    find_tolerant,
    find_unpublished,
    find_unreserved,
)
from dra_operator.questions.deletion_faults import find_hanging_deletions
from dra_operator.questions.findings import AuditReport, Finding, Sort, UncheckedSort
from dra_operator.questions.partial import AUDIT
from dra_operator.questions.pod_faults import find_gates_left_behind
from dra_operator.questions.pool_faults import (
    find_half_owned,
    find_incomplete_pools,
    find_served_twice,
    find_slices_without_node,
)
from dra_operator.questions.state import ClusterState

_CHECKS: Final[tuple[Callable[[ClusterState], Iterator[Finding]], ...]] = (
    find_collisions,
    find_overdrawn,
    find_unpublished,
    find_lost_nodes,
    find_lost_consumers,
    find_hanging_deletions,
    find_incomplete_pools,
    find_slices_without_node,
    find_served_twice,
    find_gates_left_behind,
    find_foreign_allocations,
    find_half_owned,
    find_tolerant,
    find_unreserved,
)
_OBJECTS: Final = ("Node", "Pod")
"""Kinds that files may leave out: that there is none of them proves nothing."""


def audit(state: ClusterState) -> AuditReport:
    """Return all that is wrong in a state, the most urgent first."""
    order = {sort: number for number, sort in enumerate(Sort)}
    findings = sorted(
        chain.from_iterable(check(state) for check in _CHECKS),
        key=lambda item: (order[item.sort], item.kind, item.namespace, item.name, item.message),
    )
    return AuditReport(tuple(findings), tuple(_find_unchecked(state)))


def _find_unchecked(state: ClusterState) -> Iterator[UncheckedSort]:
    missing = dict(state.unread)
    for kind in _OBJECTS:
        if not state.has_all(kind):
            missing.setdefault(kind, f"no {kind} is given")
    for sort, kinds in AUDIT.items():
        causes = [f"{kind}: {missing[kind]}" for kind in kinds if kind in missing]
        if causes:
            yield UncheckedSort(sort, "; ".join(causes))
