"""Gated pods: what is known of each beside what the API server stores, in one record.

How far a pod is follows from its claims, its nomination and its gate, so a successor goes on without these records.
Which pods are to be tried or back off is in `pod_queue`, what kube-scheduler says of those that were let go in
`handback`. Source: docs/pods.md.
"""

from dataclasses import dataclass
from enum import Enum

from dra_operator.pods.gate import SchedulingPod


class GatedState(Enum):
    """How far a pod is: what the metric of gated pods counts."""

    WAITING = "waiting"
    STORING = "storing"
    LET_GO = "let go"
    HANDED_BACK = "handed back"


@dataclass(frozen=True, slots=True)
class WriteTrouble:
    """What is against a pod or a write that it waits for: reason and text, as in Events."""

    reason: str
    message: str


@dataclass(slots=True)
class GatedPod:
    """A pod that names claims, or has our gate, and has no node yet."""

    pod: SchedulingPod
    """As it was seen last: its gates, its claims, its nomination."""
    node: str = ""
    """The node that it was decided for, while what that takes is being stored and until it has it; else empty."""
    trouble: WriteTrouble | None = None
    """What is against the last write to it."""
    waits_for_earlier_writes: bool = False
    """Whether it gets no further, or keeps its claims, until nothing of an earlier operator can be stored any more."""
    is_let_go: bool = False
    """Whether an operator took the gate off after a decision."""

    def state(self, *, is_handed_back: bool) -> GatedState | None:
        """Return how far it is; None for a pod that was never ours."""
        if self.pod.is_gated:
            return GatedState.STORING if self.node else GatedState.WAITING
        if not self.is_let_go:
            return None
        return GatedState.HANDED_BACK if is_handed_back else GatedState.LET_GO
