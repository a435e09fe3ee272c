"""Earlier writes: what a killed operator sent for gated pods and their claims, as far as it may be stored yet.

Each write is for one version of its object. So what has another version than when it was listed is safe at once, and
all else when no patch can be under way any more. An allocation that may be under way is the matter of `fencing`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.controller.claims import Key
from dra_operator.controller.fencing import DOUBT_SECONDS
from dra_operator.controller.timers import Timers
from dra_operator.pods.gate import SchedulingPod


@dataclass(slots=True)
class EarlierWrites:
    """The pods and claims that an earlier operator may still be writing to. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    timers: Timers
    _pods: dict[Key, str] = field(default_factory=dict)
    """The version that each gated pod had when decisions were first wanted."""
    _claims: dict[Key, str] = field(default_factory=dict)
    """The same of each claim whose allocation an earlier operator may have taken back."""
    _until: float | None = None
    """When nothing can be stored any more; None before anything was listed, or after that was said."""
    is_begun: bool = False

    def begin(self, pods: Iterable[SchedulingPod], claims: Iterable[ResourceClaim]) -> None:
        """Take in what is stored when decisions are first wanted."""
        self.is_begun = True
        self._pods = {pod.key: pod.resource_version for pod in pods}
        self._claims = {claim_key(claim): claim.metadata.resource_version for claim in claims}
        self._until = self.clock() + DOUBT_SECONDS

    def may_let_go(self, pod: SchedulingPod) -> bool:
        """True if a patch that takes off the gate of the present version of a pod may still be stored."""
        return self._are_possible() and self._pods.get(pod.key) == pod.resource_version

    def may_take_back(self, claim: ResourceClaim) -> bool:
        """True if a patch that takes back the allocation of the present version of a claim may still be stored."""
        return self._are_possible() and self._claims.get(claim_key(claim)) == claim.metadata.resource_version

    def set_timer(self) -> None:
        """Have a cycle run when nothing can be stored any more."""
        self.timers.set("earlier writes", self._until)

    def pop_end(self) -> bool:
        """Return True once, when nothing can be stored any more."""
        if self._until is None or self._are_possible():
            return False
        self._until = None
        self._pods.clear()
        self._claims.clear()
        return True

    def _are_possible(self) -> bool:
        return self._until is not None and self.clock() < self._until
