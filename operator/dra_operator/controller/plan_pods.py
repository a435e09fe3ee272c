"""Plans for gated pods: the next step of a decided pod, and which allocations nobody is going to use.

Level-triggered: each follows from what is stored of the pod and its claims. A pod that was decided is nominated to its
node, and let go once all that is stored has been seen: claims that several pods share are reserved, then the
nomination, at last our gate. Source: docs/pods.md; kube-scheduler, binding cycle and PreEnqueue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.writes import Consumer, Write, annotate, nominate, open_gate, reserve, withdraw
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, Standing, annotation, is_pending, text
from dra_operator.controller.context import Context
from dra_operator.controller.facts import PendingReason
from dra_operator.controller.fencing import EarlierWrites
from dra_operator.controller.gangs import Gangs
from dra_operator.controller.logs import get_logger
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.gate import SchedulingPod, handed_back, let_go_mark
from dra_operator.pods.pod_decision import PodDecider

WaitsFor: TypeAlias = Literal["answers", "decision", "watch", "earlier writes"]


@dataclass(frozen=True, slots=True)
class Step:
    """What is written to a pod or to its claims, and what the pod waits for then."""

    waits_for: WaitsFor = "answers"
    to_pod: Write | None = None
    to_claims: tuple[Write, ...] = ()

    @property
    def opens_gate(self) -> bool:
        """Whether it takes the gate off."""
        return self.to_pod is not None and self.to_pod.kind == "gate"


def plan_gang(steps: Sequence[Step], *, is_begun: bool) -> tuple[Step, ...]:
    """Return the next steps of the gated pods of a gang that were decided: no gate comes off before all may.

    `is_begun`: the gate of one is off, so the others follow, each as soon as it may. A step for a decision has all
    decided again, and nothing of the others is written.
    """
    if is_begun:
        return tuple(steps)
    if any(step.waits_for == "decision" for step in steps):
        return (Step("decision"),) * len(steps)
    if all(step.opens_gate for step in steps):
        return tuple(steps)
    return tuple(replace(step, to_pod=None) if step.opens_gate else step for step in steps)


@dataclass(frozen=True, slots=True)
class PodPlans:
    """Plans by the state of the cluster, which they only read."""

    context: Context
    cluster: ClusterPods
    decider: PodDecider
    earlier_writes: EarlierWrites

    def plan_hand_over(self, pod: SchedulingPod, node: str, claims: Sequence[ResourceClaim]) -> Step:
        """Return the next step of a pod that was decided for a node, and all of whose claims are allocated."""
        # kube-scheduler counts the time that binding conditions may take from that of the allocation.
        is_urgent = any(
            claim.status.allocation and waits_for_binding(claim.status.allocation) for claim in claims
        )
        if not self._suits(pod, node, claims):
            return Step("decision")
        if reserving := [claim for claim in claims if self._is_to_reserve(pod, claim)]:
            consumer = Consumer(pod.name, pod.uid)
            writable = filter(self.context.is_writable, reserving)
            return Step(to_claims=tuple(reserve(claim, consumer) for claim in writable))
        if not is_urgent and pod.nominated_node != node:
            return Step(to_pod=nominate(pod, node))
        fences = self._plan_fences(claims)
        if any(map(self.earlier_writes.may_take_back, claims)):
            return Step("earlier writes", to_claims=fences)
        # Whoever watches as well should know what is stored before the gate comes off.
        if not (is_urgent or all(self.context.has_told(claim.metadata.resource_version) for claim in claims)):
            return Step("watch", to_claims=fences)
        mark = let_go_mark(self.context.wall(), node, pod.uid)
        return Step(to_pod=open_gate(pod, mark), to_claims=fences)

    def _suits(self, pod: SchedulingPod, node: str, claims: Sequence[ResourceClaim]) -> bool:
        """True if a node still suits a pod; somebody else may have allocated a claim meanwhile, elsewhere."""
        waiting = self.cluster.gated.get(pod.key)
        if waiting is None or node not in self.cluster.nodes:
            return False
        return self.decider.can_use(claims, node) and (
            self.cluster.find_obstacle(waiting.requirements, node, pod.key) is None
        )

    def _is_to_reserve(self, pod: SchedulingPod, claim: ResourceClaim) -> bool:
        """True if a claim is to be reserved for a pod, as others name it or have named it.

        Else kube-controller-manager clears it with the reservation of the last pod that has run or is gone: at any
        moment, and for a pod that has run and is still there again and again. kube-scheduler does not reserve it once
        more. What somebody else allocated is left to them.
        """
        users = claim.status.reserved_for
        if any(each.uid == pod.uid for each in users):
            return False
        is_shared = bool(users) or self.context.claims.is_shared(claim_key(claim))
        return is_shared and self.context.is_ours(claim)

    def _plan_fences(self, claims: Sequence[ResourceClaim]) -> tuple[Write, ...]:
        """Return what gives claims another version that an earlier operator may be taking back.

        They get our annotation, which says so, and lose it again: what was sent for the version before fails then.
        """
        writes = list[Write]()
        for claim in filter(self.context.is_writable, claims):
            is_told = annotation(claim) is not None
            if is_told or self.earlier_writes.may_take_back(claim):
                told = None if is_told else messages.CLAIM_FENCED
                writes.append(annotate(claim, PENDING_ANNOTATION, told))
        return tuple(writes)

    # --- what nobody is going to use

    def find_unused(self, pod: SchedulingPod, is_going: Callable[[Key], bool]) -> list[ResourceClaim]:
        """Return the claims of a pod, which cannot use their allocations, that nobody else is going to use.

        A claim is ours to clear, and only gated pods name it: then it is reserved for these at most. `is_going` says
        whether a pod has been decided, or is being written.
        """
        claims, context = self.context.claims, self.context
        return [
            claim
            for claim in claims.find_all(pod.namespace, pod.claims)
            if claim.status.allocation is not None
            and claims.standing(claim) is Standing.GATED
            and context.is_writable(claim)
            and context.may_end(claim)
            and self.is_for_us_to_clear(claim)
            and not any(
                is_going((pod.namespace, name)) for name in claims.users(claim_key(claim)) - {pod.name}
            )
        ]

    def is_orphan(self, claim: ResourceClaim) -> bool:
        """True if a claim has an allocation and no pod names it; false where claims without pods are ours."""
        return (
            claim.status.allocation is not None
            and not claim.status.reserved_for
            and not claim.metadata.deletion_timestamp
            and self.context.claims.standing(claim) is Standing.STANDALONE
        )

    def is_for_us_to_clear(self, claim: ResourceClaim) -> bool:
        """True if an operator made the allocation of a claim, or its node is gone: then nobody can use it."""
        assert claim.status.allocation is not None
        node = pinned_to(claim.status.allocation.node_selector)
        return self.context.is_ours(claim) or (node is not None and node not in self.cluster.nodes)


def waits_for_binding(allocation: AllocationResult) -> bool:
    """True if some device of an allocation must get ready before a pod can be bound."""
    return any(result.binding_conditions for result in allocation.devices.results)


# --- Handing back: the claims of a pod that was let go and cannot be placed are taken back, on evidence.
# kube-scheduler takes an allocation back only if another node is eligible; else pod and device wait for each other
# for ever. The evidence is its own word, the condition Unschedulable, which no gated pod has; how long a pod has been
# bound for is none, as a binding cycle may take minutes. Whoever is in one after all fails there: PreBind wants the
# allocation (k8s.io/kubernetes, dynamicresources, `bindClaim`), and nobody allocates the claim anew while the pod
# names it.


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
            why = pod.unschedulable
            if why is None or any(sign in why for sign in MAKES_ROOM):
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
