"""Handing back: the claims of a pod that was let go and cannot be placed are taken back, on evidence.

kube-scheduler takes an allocation back only if another node is eligible; else pod and device wait for each other for
ever. The evidence is its own word, the condition Unschedulable, which no gated pod has; how long a pod has been bound
for is none, as a binding cycle may take minutes. Whoever is in one after all fails there: PreBind wants the allocation
(k8s.io/kubernetes, dynamicresources, `bindClaim`), and nobody allocates the claim anew while the pod names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import FINALIZER
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import Write, nominate, withdraw
from dra_operator.controller import messages
from dra_operator.controller.annotations import PendingReason
from dra_operator.controller.claims import Key, is_pending, text
from dra_operator.controller.context import Context
from dra_operator.controller.gangs import Gangs
from dra_operator.controller.logs import get_logger
from dra_operator.pods.gate import SchedulingPod, handed_back

MAKES_ROOM: Final = (
    "found a potential placement for pod on node",
    "due to a terminating pod on the nominated node",
)
"""What kube-scheduler says of a pod that it makes room for. Source: its plugin DefaultPreemption."""

log = get_logger()


@dataclass(slots=True)
class LetGoPod:
    """A pod that was let go for a node, and since when, by the clock, all says that it cannot be placed."""

    pod: SchedulingPod
    node: str
    why: str = ""
    """Why it cannot, by what kube-scheduler said last."""
    reserved: frozenset[str] = frozenset()
    """The claims that are reserved for it. We reserve those that are shared before the gate comes off, PreBind all."""
    since: float | None = None
    withdraws: bool = False
    """Whether its claims are being taken back."""
    trouble: PendingReason | None = None
    """What is told of it: that it was handed back, or that its claims stay."""
    is_nomination_over: bool = False

    @property
    def is_handed_back(self) -> bool:
        """Whether its devices were taken back; it is not decided again."""
        return self.trouble is not None and self.trouble.reason == messages.EVENT_HANDED_BACK

    def observe(self, pod: SchedulingPod) -> None:
        """Take in the newest state of the pod."""
        self.pod = pod
        # One that kube-scheduler took off, or replaced, is not ours any more, even if it comes back.
        self.is_nomination_over = self.is_nomination_over or pod.nominated_node != self.node


@dataclass(slots=True)
class Handback:
    """Takes back what is held for pods that were let go and have no node yet.

    `write_to_pod` has a write to a pod sent, or drops it if one is under way: it is asked for again. `on_changed` is
    told of each pod of which something is to be said now. `seconds` is how long the evidence must hold.
    """

    context: Context
    write_to_pod: Callable[[Write], None]
    on_changed: Callable[[Key], None]
    seconds: float
    gangs: Gangs

    def run(self, pods: Mapping[Key, LetGoPod]) -> float | None:
        """Have taken back what is due; return when time alone makes more due, by the clock."""
        now = self.context.clock()
        for known in pods.values():
            if known.is_handed_back:
                self._clear_nomination(known)
                self._report_handed_back(known)
            elif (why := self._find_evidence(known)) is None:
                known.since = None
            else:
                known.why = why
                if self._observe_reservations(known) or known.since is None:
                    # PreBind reserves one claim after the other, so it may be at work.
                    known.since = now
        since = {key: known.since for key, known in pods.items() if known.since is not None}
        due = {key for key, begun in since.items() if now >= begun + self.seconds}
        for key in sorted(due):
            if not pods[key].is_handed_back:
                self._take_back(pods[key], due)
        return min([begun + self.seconds for key, begun in since.items() if key not in due], default=None)

    def has_lost_devices(self, pod: SchedulingPod) -> bool:
        """Return whether a claim of a pod, all of which were allocated when it was let go, is not any more.

        kube-scheduler clears one after the other where a pod fits on no node, or an operator before this one did so and
        was killed before it could say it. Nobody allocates our devices to the pod any more.
        """
        return any(map(is_pending, self._claims(pod)))

    def _claims(self, pod: SchedulingPod) -> list[ResourceClaim]:
        return self.context.claims.find_all(pod.namespace, pod.claims)

    def _find_evidence(self, known: LetGoPod) -> str | None:
        """Return why kube-scheduler cannot place a pod, by all that is known; None if it may, or is about to."""
        pod = known.pod
        if known.withdraws:
            # After the first claim there is no way back.
            return known.why
        why = self.gangs.find_hold(pod.key)
        if why is None:
            if pod.scheduled is None or not pod.is_unschedulable:
                return None
            why = pod.scheduled.message
            if any(sign in why for sign in MAKES_ROOM):
                return None
        if pod.nominated_node and known.is_nomination_over:
            # A nomination that is not ours: kube-scheduler makes room there.
            return None
        claims = self._claims(pod)
        if pod.claims:
            is_stuck = any(self._is_held(claim) or is_pending(claim) for claim in claims)
            return why if is_stuck or self._kept(pod) else None
        # One of a gang, of which only the nomination is to be taken back, or kube-scheduler has taken it.
        return why if pod.is_nominated_by_operator or not pod.nominated_node else None

    def _kept(self, pod: SchedulingPod) -> list[str]:
        """Return the names of the claims of ours that stay, as we have reserved them for the pods that share them."""
        return [
            claim.metadata.name
            for claim in self._claims(pod)
            if claim.status.allocation is not None
            and self.context.claims.is_shared(claim_key(claim))
            and _is_reserved_for(claim, pod)
            and self.context.is_ours(claim)
        ]

    def _observe_reservations(self, known: LetGoPod) -> bool:
        """Take in which claims are reserved for a pod; return whether that has changed."""
        before, pod = known.reserved, known.pod
        known.reserved = frozenset(
            claim.metadata.name for claim in self._claims(pod) if _is_reserved_for(claim, pod)
        )
        return known.reserved != before

    def _is_held(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has an allocation of ours that nobody uses and that may end.

        Of one that is reserved for its pod PreBind does not ask again whether it is allocated.
        """
        return claim.status.allocation is not None and _is_unused(claim) and self.context.is_ours(claim)

    def _take_back(self, known: LetGoPod, due: set[Key]) -> None:
        """Take back the claims that no pod but those that are due names; when none is left the pod is handed back."""
        pod, is_done = known.pod, True
        known.withdraws = known.withdraws or self.has_lost_devices(pod)
        for claim in self._claims(pod):
            users = {(pod.namespace, name) for name in self.context.claims.users(claim_key(claim))}
            if users - due or not self._is_left(known, claim):
                continue
            known.withdraws, is_done = True, False
            if self.context.is_writable(claim):
                self.context.in_flight.submit(withdraw(claim))
        if is_done and (known.withdraws or not pod.claims):
            self._clear_nomination(known)
            log.warning(messages.HANDED_BACK, pod=text(pod.key), uid=pod.uid, why=known.why)
            self.context.metrics.handed_back.inc()
            self._report_handed_back(known)
        elif is_done and known.trouble is None and (kept := self._kept(pod)):
            log.warning(messages.NOT_HANDED_BACK, pod=text(pod.key), uid=pod.uid, why=known.why)
            self.context.metrics.handed_back.inc()
            self._report_trouble(
                known, messages.EVENT_NOT_HANDED_BACK, messages.not_handed_back(known.why, kept)
            )

    def _is_left(self, known: LetGoPod, claim: ResourceClaim) -> bool:
        """Return whether something of a claim is still to be taken back: its allocation, or only our finalizer."""
        if self._is_held(claim):
            return self.context.may_end(claim)
        is_empty = claim.status.allocation is None and _is_unused(claim)
        return known.withdraws and is_empty and FINALIZER in claim.metadata.finalizers

    def _clear_nomination(self, known: LetGoPod) -> None:
        """Have our nomination taken off; whether that is done the pod itself says. What somebody else set stays."""
        if known.pod.is_nominated_by_operator and not known.is_nomination_over:
            self.write_to_pod(nominate(known.pod, None))

    def _report_handed_back(self, known: LetGoPod) -> None:
        """Have it told that a pod was handed back; again once another one of its gang runs."""
        pod = known.pod
        gang = self.gangs.find(pod.key)
        broken = "" if gang is None or not gang.bound else messages.gang_broken(pod.name, gang.size)
        self._report_trouble(known, messages.EVENT_HANDED_BACK, broken + handed_back(known.why, known.node))

    def _report_trouble(self, known: LetGoPod, reason: str, message: str) -> None:
        """Have it told what became of a pod that kube-scheduler cannot place, if that is new."""
        trouble = PendingReason(reason, message)
        if trouble != known.trouble:
            known.trouble = trouble
            self.on_changed(known.pod.key)


def _is_reserved_for(claim: ResourceClaim, pod: SchedulingPod) -> bool:
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


def _is_unused(claim: ResourceClaim) -> bool:
    return not claim.status.reserved_for and claim.metadata.deletion_timestamp is None
