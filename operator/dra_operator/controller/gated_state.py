"""Gated pods: what is known of each beside what the API server stores.

How far a pod is follows from its claims, its nomination and its gate, so a successor goes on without these records.
Which pods are to be tried or back off is in `queue`. Source: docs/pods.md.
"""

from dataclasses import dataclass
from enum import Enum

from dra_operator.controller import messages
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
class LetGoPod:
    """A pod that was let go for a node, and since when, by the clock, all says that it cannot be placed."""

    pod: SchedulingPod
    node: str
    why: str = ""
    """What kube-scheduler said last of why it cannot."""
    reserved: frozenset[str] = frozenset()
    """The claims that are reserved for it. We reserve those that are shared before the gate comes off, PreBind all."""
    since: float | None = None
    withdraws: bool = False
    """Whether its claims are being taken back."""
    trouble: WriteTrouble | None = None
    """What is told of it: that it was handed back, or that its claims stay."""
    is_nomination_over: bool = False

    @property
    def is_handed_back(self) -> bool:
        """Whether its devices were taken back; it is not decided again."""
        return self.trouble is not None and self.trouble.reason == messages.EVENT_HANDED_BACK

    def observe(self, pod: SchedulingPod) -> None:
        """Take in the newest state of the pod."""
        self.pod = pod
        if pod.scheduled is not None and pod.is_unschedulable:
            self.why = pod.scheduled.message
        # One that kube-scheduler took off, or replaced, is not ours any more, even if it comes back.
        self.is_nomination_over = self.is_nomination_over or pod.nominated_node != self.node


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

    def state(self, let_go: LetGoPod | None) -> GatedState | None:
        """Return how far it is; None for a pod that was never ours."""
        if self.pod.is_gated:
            return GatedState.STORING if self.node else GatedState.WAITING
        if let_go is None:
            return None
        return GatedState.HANDED_BACK if let_go.is_handed_back else GatedState.LET_GO
