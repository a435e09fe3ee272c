"""Handing back: the claims of a pod that was let go and cannot be placed are taken back, on evidence.

kube-scheduler takes an allocation back only if another node is eligible; else pod and device wait for each other for
ever. The evidence is its own word, the condition Unschedulable, which no gated pod has; how long a pod has been bound
for is none, as a binding cycle may take minutes. Whoever is in one after all fails there: PreBind wants the allocation
(k8s.io/kubernetes, dynamicresources, `bindClaim`), and nobody allocates the claim anew while the pod names it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import FINALIZER
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import Write, nominate, withdraw
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, is_pending, text
from dra_operator.controller.gated_state import WriteTrouble
from dra_operator.controller.logs import get_logger
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.queue import Backoff, InFlightWrites
from dra_operator.pods.gate import SchedulingPod, handed_back

MAKES_ROOM: Final = (
    "found a potential placement for pod on node",
    "due to a terminating pod on the nominated node",
)
"""What kube-scheduler says of a pod that it makes room for. Source: its plugin DefaultPreemption."""

log = get_logger()


@dataclass(slots=True)
class _LetGoPod:
    """A pod that was let go, and since when, by the clock, all says that it cannot be placed."""

    pod: SchedulingPod
    node: str
    why: str = ""
    """What kube-scheduler said last of why it cannot."""
    reserved: frozenset[Key] = frozenset()
    """The claims that are reserved for it. We reserve those that are shared before the gate comes off, PreBind all."""
    since: float | None = None
    withdraws: bool = False
    """Whether its claims are being taken back; after the first there is no way back."""
    is_handed_back: bool = False
    trouble: WriteTrouble | None = None
    """What is told of it: that it was handed back, or that its claims stay."""
    is_nomination_over: bool = False


@dataclass(slots=True)
class Handback:
    """The pods that were let go and have no node yet. Used in the thread of cycles.

    `in_flight` and `backoff` are those of claims. `is_ours` says whether the operator made the allocation of a claim,
    `shares_a_device` whether another claim holds a device of one. `write_to_pod` has a write to a pod sent, or drops it
    if one is under way: it is asked for again. `on_changed` is told of each pod of which something is to be said now.
    `seconds` is how long the evidence must hold; `clock` is monotonic.
    """

    claims: ClaimStore
    in_flight: InFlightWrites
    backoff: Backoff
    is_ours: Callable[[ResourceClaim], bool]
    shares_a_device: Callable[[Key], bool]
    write_to_pod: Callable[[Write], None]
    on_changed: Callable[[Key], None]
    metrics: Metrics
    seconds: float
    clock: Callable[[], float]
    _pods: dict[Key, _LetGoPod] = field(default_factory=dict)

    def observe(self, pod: SchedulingPod, node: str) -> None:
        """Take in a pod that was let go, and later each of its changes; `node` is where its claims are allocated.

        A pod that has a node, has ended or is being deleted is forgotten.
        """
        if pod.node or not pod.is_active or pod.is_gated:
            self.forget(pod.key)
            return
        known = self._pods.get(pod.key)
        if known is None or known.pod.uid != pod.uid:
            self.forget(pod.key)
            known = self._pods[pod.key] = _LetGoPod(pod, node)
        known.pod = pod
        if pod.scheduled is not None and pod.is_unschedulable:
            known.why = pod.scheduled.message
        # One that kube-scheduler took off, or replaced, is not ours any more, even if it comes back.
        known.is_nomination_over = known.is_nomination_over or pod.nominated_node != known.node

    def forget(self, key: Key) -> None:
        """Forget a pod that is gone, or has a node."""
        self._pods.pop(key, None)

    def is_handed_back(self, key: Key) -> bool:
        """Return whether the devices of a pod were taken back; it is not decided again."""
        known = self._pods.get(key)
        return known is not None and known.is_handed_back

    def trouble(self, key: Key) -> WriteTrouble | None:
        """Return what is to be told of a pod that kube-scheduler cannot place; None of another."""
        known = self._pods.get(key)
        return None if known is None else known.trouble

    def run(self) -> float | None:
        """Have taken back what is due; return when time alone makes more due, by the clock."""
        now = self.clock()
        for known in self._pods.values():
            if known.is_handed_back:
                self._clear_nomination(known)
            elif not self._has_evidence(known):
                known.since = None
            elif self._observe_reservations(known) or known.since is None:
                # PreBind reserves one claim after the other, so it may be at work.
                known.since = now
        due = {key for key, known in self._pods.items() if self._is_due(known, now)}
        for key in sorted(due):
            if not self._pods[key].is_handed_back:
                self._take_back(self._pods[key], due)
        waiting = [
            known.since for key, known in self._pods.items() if known.since is not None and key not in due
        ]
        return min(waiting) + self.seconds if waiting else None

    def _is_due(self, known: _LetGoPod, now: float) -> bool:
        return known.since is not None and now >= known.since + self.seconds

    def _has_evidence(self, known: _LetGoPod) -> bool:
        """Return whether all that is known says that kube-scheduler cannot place a pod, and is not about to."""
        pod = known.pod
        if known.withdraws:
            return True
        if not pod.is_unschedulable:
            return False
        if any(sign in known.why for sign in MAKES_ROOM):
            return False
        if pod.nominated_node and known.is_nomination_over:
            # A nomination that is not ours: kube-scheduler makes room there.
            return False
        is_any_held = any(map(self._is_held, self.claims.find_all(pod.namespace, pod.claims)))
        return is_any_held or bool(self._kept_claims(pod)) or self.has_lost_devices(pod)

    def _kept_claims(self, pod: SchedulingPod) -> list[str]:
        """Return the names of the claims of ours that stay, as we have reserved them for the pods that share them."""
        return [
            claim.metadata.name
            for claim in self.claims.find_all(pod.namespace, pod.claims)
            if claim.status.allocation is not None
            and self.claims.is_shared(claim_key(claim))
            and any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)
            and self.is_ours(claim)
        ]

    def has_lost_devices(self, pod: SchedulingPod) -> bool:
        """Return whether a claim of a pod, all of which were allocated when it was let go, is not any more.

        kube-scheduler clears one after the other where a pod fits on no node, or an operator before this one did so and
        was killed before it could say it. Nobody allocates our devices to the pod any more.
        """
        return any(map(is_pending, self.claims.find_all(pod.namespace, pod.claims)))

    def _observe_reservations(self, known: _LetGoPod) -> bool:
        """Take in which claims are reserved for a pod; return whether that has changed."""
        before, pod = known.reserved, known.pod
        known.reserved = frozenset(
            claim_key(claim)
            for claim in self.claims.find_all(pod.namespace, pod.claims)
            if any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)
        )
        return known.reserved != before

    def _is_held(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has an allocation of ours that nobody uses and that may end.

        Of one that is reserved for its pod PreBind does not ask again whether it is allocated.
        """
        return (
            claim.status.allocation is not None
            and not claim.status.reserved_for
            and claim.metadata.deletion_timestamp is None
            and self.is_ours(claim)
        )

    def _take_back(self, known: _LetGoPod, due: set[Key]) -> None:
        """Take back the claims that no pod but those that are due names; when none is left the pod is handed back."""
        pod, is_done = known.pod, True
        known.withdraws = known.withdraws or self.has_lost_devices(pod)
        for claim in self.claims.find_all(pod.namespace, pod.claims):
            key = claim_key(claim)
            others = {(pod.namespace, name) for name in self.claims.users(key)} - due
            if others or not self._is_left(known, key, claim):
                continue
            known.withdraws, is_done = True, False
            if key not in self.in_flight and not self.backoff.holds_claim(claim):
                self.in_flight.submit(withdraw(claim))
        if known.withdraws and is_done:
            known.is_handed_back = True
            self._clear_nomination(known)
            log.warning(messages.HANDED_BACK, pod=text(pod.key), uid=pod.uid, why=known.why)
            self._report(known, messages.EVENT_HANDED_BACK, handed_back(known.why, known.node))
        elif is_done and known.trouble is None and (kept := self._kept_claims(pod)):
            log.warning(messages.NOT_HANDED_BACK, pod=text(pod.key), uid=pod.uid, why=known.why)
            self._report(known, messages.EVENT_NOT_HANDED_BACK, messages.not_handed_back(known.why, kept))

    def _is_left(self, known: _LetGoPod, key: Key, claim: ResourceClaim) -> bool:
        """Return whether something of a claim is still to be taken back: its allocation, or only our finalizer."""
        if self._is_held(claim):
            # kube-scheduler keeps the devices in use as a set, and would forget one that another claim holds as well.
            return not self.shares_a_device(key)
        return (
            known.withdraws
            and claim.status.allocation is None
            and not claim.status.reserved_for
            and claim.metadata.deletion_timestamp is None
            and FINALIZER in claim.metadata.finalizers
        )

    def _clear_nomination(self, known: _LetGoPod) -> None:
        """Have our nomination taken off; whether that is done the pod itself says. What somebody else set stays."""
        pod = known.pod
        if pod.is_nominated_by_operator and not known.is_nomination_over:
            self.write_to_pod(nominate(pod, None))

    def _report(self, known: _LetGoPod, reason: str, message: str) -> None:
        """Have it told what became of a pod that kube-scheduler cannot place, and count it."""
        known.trouble = WriteTrouble(reason, message)
        self.metrics.handed_back.inc()
        self.on_changed(known.pod.key)
