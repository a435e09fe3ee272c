"""Fencing: what an earlier operator sent, and is not stored yet, fails before the first decision is made.

An allocation is sent on a claim that has our finalizer and none yet (`cluster.writes`), so a list shows all claims of
which one may be under way; to take the finalizer off gives each another version, and the late patch gets a 409. Claims
that kube-scheduler is about to allocate are read again by it (k8s.io/kubernetes, dynamicresources, `bindClaim`).
Why so: docs/decisions.md; what it means for users: docs/operator.md, "What a killed operator had sent".
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import FINALIZER, OPT_OUT_LABEL
from dra_operator.api.text import shortened
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Write, allocation_of, fence, finalizers_of
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimScope, Key, text
from dra_operator.controller.context import Context
from dra_operator.controller.logs import get_logger
from dra_operator.controller.queue import Backoff, Timers
from dra_operator.pods.gate import SchedulingPod

DOUBT_SECONDS = 120.0
"""How long a patch of an operator that was killed may still be stored: a minute that a proxy may hold it for, and one
that the API server may take (`--request-timeout`, 60 s)."""
AGAIN = (1.0, 30.0)
"""First and longest pause, in seconds, from one attempt to fence a claim to the next."""

log = get_logger()


@dataclass(slots=True)
class WriteFence:
    """The claims that an earlier operator may still be allocating. Written in the thread of cycles.

    What is listed must have been so after the end of the earlier operator: after the kill, or the moment from which it
    held back its writes (`cluster.lease`). Decisions wait no longer than a patch can be under way (`DOUBT_SECONDS`), so
    a sender that is frozen between the check of its Lease and its patch can be too late for that. `clock` is monotonic.
    """

    context: Context
    _end: float = 0.0
    """When decisions need to wait no longer, by the clock, once everything has been listed."""
    _backoff: Backoff = field(init=False)
    _claims: dict[Key, Write] = field(default_factory=dict)
    """What ends each version on which an allocation may be under way."""
    _begun: int = 0
    """How many claims had to be fenced when decisions were first wanted."""
    _listed: bool = False
    _over: bool = False

    def __post_init__(self) -> None:
        self._backoff = Backoff("fence", self.context.clock, self.context.timers)

    def observe(self, delta: Delta) -> None:
        """Take in what is listed, and later what becomes of it."""
        if self._over or delta.kind != "ResourceClaim":
            return
        key = (delta.namespace, delta.name)
        found = None if delta.body is None else _plan_fence(key, delta.body, self.context.claims.scope)
        if not self._listed and found is not None:
            self._claims[key] = found
        elif key in self._claims and self._claims[key] != found:
            # The answer, or a change by somebody else: what counts is that the version that was listed is over.
            del self._claims[key]

    def is_pending(self) -> bool:
        """Return whether decisions must still wait, and write what ends that. Everything has been listed."""
        if self._over:
            return False
        if not self._listed:
            self._begin()
        if not self._claims or self.context.clock() >= self._end:
            self._finish()
            return False
        self._backoff.pop_expired()
        for key, write in self._claims.items():
            if key not in self.context.in_flight and not self._backoff.holds(key, write.uid, write.version):
                self.context.in_flight.submit(write)
                self._backoff.add(key, write.uid, *AGAIN)
        return True

    def reasons(self) -> tuple[str, ...]:
        """Return why decisions wait, for `/readyz`, in one line or none. May be called in any thread."""
        claims = self._names()
        if not claims or not self._listed:
            return ()
        left = max(0.0, self._end - self.context.clock())
        why = f"an earlier operator may still be writing to {', '.join(claims)}"
        return (f"{why}; no claim is allocated until that cannot be stored any more, {left:.0f} s at most",)

    def _begin(self) -> None:
        self._listed = True
        self._end = self.context.clock() + DOUBT_SECONDS
        self.context.timers.set("fence", self._end)
        self._begun = len(self._claims)
        if self._claims:
            log.info(messages.FENCING, claims=self._names())

    def _finish(self) -> None:
        self._over = True
        if self._claims:
            log.warning(messages.NOT_FENCED, claims=self._names())
        elif self._begun:
            log.info(messages.FENCED, claims=self._begun)
        self._claims.clear()
        self._backoff.clear()
        self.context.timers.set("fence", None)

    def _names(self) -> list[str]:
        return shortened([text(key) for key in tuple(self._claims)])


def _plan_fence(key: Key, body: dict[str, Any], scope: ClaimScope) -> Write | None:
    """Return what ends the version of a claim if an operator may have sent an allocation on it, else None.

    It is read straight from the wire, so that a claim that cannot be understood any more counts, too. Where gated pods
    are ours, the claims that were made for pods are among them, whatever has become of these.
    """
    if scope is ClaimScope.NONE or allocation_of(body) is not None:
        return None
    metadata, finalizers = body["metadata"], finalizers_of(body)
    if FINALIZER not in finalizers:
        return None
    if metadata.get("deletionTimestamp") or (body.get("status") or {}).get("reservedFor"):
        return None
    if (metadata.get("labels") or {}).get(OPT_OUT_LABEL) == "false":
        return None
    if not scope.has_gated and any(
        owner.get("controller") for owner in metadata.get("ownerReferences") or ()
    ):
        return None
    return fence(key, metadata["uid"], metadata["resourceVersion"], finalizers)


@dataclass(slots=True)
class EarlierWrites:
    """What an earlier operator sent for gated pods and their claims, as far as it may be stored yet.

    Each write is for one version of its object. So what has another version than when it was listed is safe at once,
    and all else when no patch can be under way any more. Without this a gate that comes off late lets go a pod whose
    claims were taken back, and a pod is let go whose claim is taken back late; no write of ours gives a gated pod just
    another version. `clock` is monotonic, in seconds.
    """

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
