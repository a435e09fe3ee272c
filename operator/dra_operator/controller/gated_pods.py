"""Gated pods: the devices of all their claims are decided together on one node, stored, and then the pod is let go.

Level-triggered: the next step follows from what is stored of a pod and its claims, so that a successor goes on where an
operator was killed. The steps: allocations are stored, and beside that the pod is nominated to the node, which holds
its cpu and memory; the watch has told of the allocations; our gate comes off (`hand_over`). Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from dra_operator.allocator import Failed
from dra_operator.allocator.decision import claim_key
from dra_operator.allocator.extended import extended_resources
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Consumer, WriteOutcome
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, Standing, is_pending, text
from dra_operator.controller.earlier_writes import EarlierWrites
from dra_operator.controller.fencing import DOUBT_SECONDS
from dra_operator.controller.gated_state import GatedPod, GatedState, WriteTrouble
from dra_operator.controller.hand_over import HandOver, waits_for_binding
from dra_operator.controller.handback import Handback
from dra_operator.controller.pod_queue import PodQueue
from dra_operator.controller.queue import Backoff, InFlightWrites
from dra_operator.controller.unused_allocations import UnusedAllocations
from dra_operator.ledger import Ledger
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.entries import resolve_entries
from dra_operator.pods.gate import SchedulingPod, find_release, not_gated, read_scheduling_pod
from dra_operator.pods.pod_decision import PodDecider, PodDecision

BUDGET: Final = 1.0
"""Seconds for which a cycle decides pods, beside what claims without pods take."""
FLUSH: Final = 0.01
"""Seconds after which decisions made so far are handed over."""
DEFECT: Final = (5.0, 600.0)
"""First and longest wait, in seconds, of a pod that met a defect of ours."""
ABORTED: Final = (30.0, 600.0)
"""First and longest wait, in seconds, after a search that used up its time."""


class AllocationSink(Protocol):
    """Enters allocations in the ledger, and has them written: `controller.cycle`."""

    def __call__(
        self, decided: Iterable[tuple[ResourceClaim, AllocationResult, Consumer | None]], node: str
    ) -> None:
        """Enter the allocations of one decision in the ledger, and have them written, all with the same time.

        A claim is reserved for the consumer, if there is one.
        """


@dataclass(slots=True)
class GatedPods:
    """Keeps the pods that have no node yet and name claims, and takes those that our gate holds through their steps.

    `claim_writes` and `claim_backoff` are those of claims; what is decided for them goes by `assume`. `is_ours` says
    whether the allocation of a claim was made by an operator. `on_changed` is told of each pod of which something else
    is to be said now.
    """

    claims: ClaimStore
    cluster: ClusterPods
    decider: PodDecider
    ledger: Ledger
    claim_writes: InFlightWrites
    claim_backoff: Backoff
    queue: PodQueue
    hand_over: HandOver
    handback: Handback
    unused: UnusedAllocations
    earlier_writes: EarlierWrites
    clock: Callable[[], float]
    assume: AllocationSink
    defect_logger: DefectLogger
    is_ours: Callable[[ResourceClaim], bool]
    on_changed: Callable[[Key], None]
    _pods: dict[Key, GatedPod] = field(default_factory=dict)
    _touched: set[Key] = field(default_factory=set)
    """The pods of which something has become, or that are to be asked again in the next cycle."""
    _claim_troubles: dict[Key, WriteTrouble] = field(default_factory=dict)
    """What is against the last write to each claim."""
    _in_vain: set[object] = field(default_factory=set)
    """What pods have in common for which there was no room in this cycle."""

    # --- taking in

    def observe_pod(self, delta: Delta) -> None:
        """Take in what has become of a pod."""
        key = delta.namespace, delta.name
        pod = None if delta.body is None else read_scheduling_pod(delta.body)
        known = self._pods.get(key)
        if known is not None and (pod is None or pod.uid != known.pod.uid):
            self._forget(known)
            known = None
        if pod is None or not pod.is_active or pod.node:
            if known is not None:
                self._forget(known)
            return
        if known is None:
            self._pods[key] = GatedPod(pod)
        else:
            known.pod = pod
        self._touched.add(key)

    def observe_claims(self, keys: Iterable[Key]) -> None:
        """Take in that some claims have changed, or that an answer about them has come."""
        for key in keys:
            claim = self.claims.get(key)
            if claim is None:
                self._claim_troubles.pop(key, None)
            else:
                self.unused.observe_claim(claim)
            self._touched.update([(key[0], pod) for pod in self.claims.users(key)])

    def report_claim(self, key: Key, trouble: WriteTrouble | None) -> None:
        """Take in what is in the way of a write to the claim of a gated pod; None once it is written."""
        if trouble is None and self._claim_troubles.pop(key, None) is None:
            return
        if trouble is not None:
            self._claim_troubles[key] = trouble
        for pod in self.claims.users(key):
            self.on_changed((key[0], pod))

    def observe_outcome(self, outcome: WriteOutcome) -> None:
        """Take in the answer to a write to a pod; the state of the pod that it brought was taken in just before."""
        key = outcome.write.key
        gated = self._pods.get(key)
        if gated is not None and gated.pod.uid != outcome.write.uid:
            gated = None
        if self.hand_over.observe_outcome(outcome, gated):
            self._touched.add(key)

    def _forget(self, gated: GatedPod) -> None:
        """Forget a pod that is gone, is over, or has a node."""
        key = gated.pod.key
        del self._pods[key]
        self.unused.observe_end(gated.pod)
        self.hand_over.forget(gated)
        self.handback.forget(key)
        self._touched.discard(key)

    # --- steps without a decision

    def requeue(self, *, all_waiting: bool) -> None:
        """Have pods tried that a change may help: all that wait, or those whose time has come."""
        if all_waiting:
            self.queue.activate_all()
        self._touched |= self.queue.backoff.pop_expired()
        inventory, ledger = self.decider.allocator.inventory, self.ledger
        self.queue.observe((inventory.version, ledger.version, self.cluster.version))

    def advance(self) -> None:
        """Take each pod that something has become of one step further, if that needs no decision."""
        if not self.earlier_writes.is_begun:
            self._begin()
        touched, self._touched = self._touched, set()
        if self.earlier_writes.pop_end():
            touched |= {key for key, gated in self._pods.items() if gated.waits_for_earlier_writes}
        for key in touched:
            if (gated := self._pods.get(key)) is not None:
                self._safely(self._advance, gated)
        self.unused.release_orphans()

    def _begin(self) -> None:
        """Remember what an earlier operator may have seen: it may have sent a patch that is still under way."""
        self.earlier_writes.begin(
            [gated.pod for gated in self._pods.values() if gated.pod.is_gated],
            [
                claim
                for claim in self.claims.allocated()
                if not claim.status.reserved_for or self.claims.standing(claim) is Standing.GATED
            ],
        )

    def _advance(self, gated: GatedPod) -> None:
        pod = gated.pod
        if self.hand_over.is_writing(pod.key):
            return
        if gated.waits_for_earlier_writes:
            # If it still does, that is found out now.
            gated.waits_for_earlier_writes = False
            self.on_changed(pod.key)
        if not pod.is_gated:
            self._follow(gated)
            return
        if self.queue.is_held(pod):
            return
        if why := self._find_release(pod):
            self.hand_over.release(pod, why)
            return
        claims = self.claims.find_all(pod.namespace, pod.claims)
        if not pod.is_last_gate or self._is_any_changing(claims):
            return
        if gated.node:
            is_complete = not pod.missing and len(claims) == len(pod.claims)
            if is_complete and all(map(_is_usable, claims)):
                self._hand_over(gated, claims)
                return
            # Not all of it could be stored, or a claim is gone.
            self.hand_over.cancel(gated)
        self.queue.activate((pod.key,))

    def _find_release(self, pod: SchedulingPod) -> str:
        """Return why a pod is let go without a decision; empty if it is to be decided."""
        why = find_release(pod, self.claims.find_all(pod.namespace, pod.claims))
        return messages.gate_removed(why) if why else ""

    def _hand_over(self, gated: GatedPod, claims: list[ResourceClaim]) -> None:
        if self.hand_over.advance(gated, claims):
            self._touched.add(gated.pod.key)

    # --- deciding

    def decide_all(self, flush: Callable[[], None], stopping: Callable[[], bool]) -> bool:
        """Decide the active pods, each alone; return whether all are done."""
        active, flushed = self.queue.active, self.clock()
        until = flushed + BUDGET
        # What is decided only takes something away.
        self._in_vain.clear()
        for pod in self.queue.begin_cycle(self._find_pod):
            now = self.clock()
            if stopping() or now >= until:
                return False
            active.start(pod.key)
            self._safely(self._decide, self._pods[pod.key])
            after = self.clock()
            self.queue.charge(pod.key, after - now)
            if after - flushed >= FLUSH:
                flush()
                flushed = after
        return active.end_cycle()

    def _find_pod(self, key: Key) -> SchedulingPod | None:
        gated = self._pods.get(key)
        return None if gated is None else gated.pod

    def _decide(self, gated: GatedPod) -> None:
        pod, waiting = gated.pod, self.cluster.gated.get(gated.pod.key)
        is_under_way = self.hand_over.is_writing(pod.key) or bool(gated.node)
        if is_under_way or not pod.is_last_gate or waiting is None:
            return
        claims = self.claims.find_all(pod.namespace, pod.claims)
        if self._is_any_changing(claims):
            return
        unallocated = [claim for claim in claims if claim.status.allocation is None]
        if any(map(self.claim_backoff.holds_claim, unallocated)):
            # Of a pod of which nobody knows when it goes nothing of a node is held.
            self.hand_over.clear_nomination(pod)
            return
        self._withdraw_assumed(unallocated)
        entries = resolve_entries(waiting.pod, self.decider.find_claim, self.decider.has_template)
        is_ready = all(entry.problem is None for entry in entries)
        is_ready = is_ready and not any(map(self._is_of_others, unallocated))
        decision = self._find_node(pod, waiting, claims) if is_ready else None
        if isinstance(decision, PodDecision):
            self._accept(gated, decision, claims)
        else:
            self._set_unschedulable(gated, is_tried=is_ready and decision is None)

    def _withdraw_assumed(self, claims: Iterable[ResourceClaim]) -> None:
        """Withdraw what is assumed for claims whose answer never came: it must not block their pod."""
        used = self.ledger.version
        for claim in claims:
            self.ledger.withdraw(*claim_key(claim))
        if self.ledger.version != used:
            self._in_vain.clear()

    def _find_node(
        self, pod: SchedulingPod, waiting: WaitingPod, claims: list[ResourceClaim]
    ) -> PodDecision | Failed | None:
        """Return the decision about a pod whose claims are all there.

        Pods of one workload, for which there is no room, are tried once a cycle.
        """
        alike = None
        if not pod.nominated_node and not extended_resources(waiting.pod):
            # Claims of one template share their spec.
            parts = [(id(claim.spec), id(claim.status.allocation)) for claim in claims]
            alike = pod.namespace, waiting.requirements, tuple(parts)
        if alike in self._in_vain:
            return None
        decision = self.decider.find_node(waiting.pod, waiting.requirements)
        if isinstance(decision, Failed):
            self.queue.backoff.add(pod.key, pod.uid, *ABORTED)
        elif decision is None and alike is not None:
            self._in_vain.add(alike)
        return decision

    def _accept(self, gated: GatedPod, decision: PodDecision, claims: list[ResourceClaim]) -> None:
        """Have the allocations of a pod stored on the node that was found, and the pod nominated to it."""
        pod = gated.pod
        self.queue.accept(pod.key)
        gated.trouble = None
        gated.node = decision.node
        self.cluster.assume(pod.key, decision.node)
        self.on_changed(pod.key)
        by_name = {claim.metadata.name: claim for claim in claims}
        consumer = Consumer(pod.name, pod.uid)
        decided = [
            (by_name[name], allocation, consumer if self.claims.is_shared((pod.namespace, name)) else None)
            for name, allocation in decision.allocations.items()
        ]
        self.assume(decided, decision.node)
        if not decided:
            self._hand_over(gated, claims)
        elif not any(map(waits_for_binding, decision.allocations.values())):
            # At once, beside the allocations: until then others may take what it needs of the node.
            self.hand_over.nominate(gated)

    def _set_unschedulable(self, gated: GatedPod, *, is_tried: bool) -> None:
        """Take in that a pod has no node. Where it was not tried with all its claims, they keep what they have."""
        pod = gated.pod
        self.queue.set_unschedulable(pod.key)
        # It waits for that now, and not for what was said against earlier writes.
        gated.trouble = None
        for claim in self.claims.find_all(pod.namespace, pod.claims):
            if not self.claim_backoff.holds_claim(claim):
                self._claim_troubles.pop(claim_key(claim), None)
        if is_tried:
            self._take_back(gated)
        else:
            # Of a pod of which nobody knows when it goes nothing of a node is held.
            self.hand_over.clear_nomination(pod)
        self.on_changed(pod.key)

    def _take_back(self, gated: GatedPod) -> None:
        """Have taken back what is stored for a pod that it cannot use, and nobody else does.

        Not while a patch of an earlier operator could still let one of its pods go.
        """
        unused = self.unused.find(gated.pod, self._is_going)
        if self.hand_over.clear_nomination(gated.pod):
            # That makes another version of the pod, too.
            return
        users = {name for claim in unused for name in self.claims.users(claim_key(claim))}
        pods = [self._find_pod((gated.pod.namespace, name)) for name in users]
        if any(pod is not None and self.earlier_writes.may_let_go(pod) for pod in pods):
            self.hand_over.wait_for_earlier_writes(gated)
        else:
            self.unused.withdraw(unused)

    def _is_going(self, key: Key) -> bool:
        """True if a pod has been decided, or is being written."""
        gated = self._pods.get(key)
        return (gated is not None and bool(gated.node)) or self.hand_over.is_writing(key)

    def _is_of_others(self, claim: ResourceClaim) -> bool:
        """True if it is not for us to allocate a claim that has no allocation."""
        return is_pending(claim) and self.claims.standing(claim) is not Standing.GATED

    # --- pods that were let go

    def _follow(self, gated: GatedPod) -> None:
        """Take in what becomes of a pod without our gate, which is kube-scheduler's now.

        After a restart, whose gate was taken off is known by our annotation. Where somebody else took it off, by a
        nomination that an operator set, or by claims that were made for their pod: an operator allocates these only
        while the gate is on. One that the pod only names may have had its devices before.
        """
        pod = gated.pod
        self.queue.set_decided(pod.key)
        node = gated.node or self._find_stored_node(pod)
        if gated.is_let_go or node:
            gated.is_let_go = True
            self.handback.observe(pod, node)
        if self.handback.is_handed_back(pod.key) or not node:
            self.hand_over.cancel(gated)

    def _find_stored_node(self, pod: SchedulingPod) -> str:
        """Return the node that an operator let a pod go for, nominated it to, or stored the claims made for it on.

        Empty if none did.
        """
        if pod.let_go is not None:
            return pod.let_go.node
        if pod.is_nominated_by_operator:
            return pod.nominated_node
        for claim in self.claims.find_all(pod.namespace, pod.claims):
            allocation = claim.status.allocation
            if not any(
                owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references
            ):
                continue
            if allocation is not None and not claim.status.reserved_for and self.is_ours(claim):
                return pinned_to(allocation.node_selector) or pod.nominated_node
        return ""

    # --- what others ask

    def trouble(self, key: Key) -> WriteTrouble | None:
        """Return what is against the writes that a pod waits for, or keeps its claims from being ours.

        Of one without our gate, whether it was handed back.
        """
        gated = self._pods.get(key)
        if gated is not None and not gated.pod.is_gated:
            return self.handback.trouble(key)
        if gated is None or gated.trouble is not None:
            return None if gated is None else gated.trouble
        if self.hand_over.is_releasing(key):
            return None
        for claim in self.claims.find_all(gated.pod.namespace, gated.pod.claims):
            if (found := self._claim_troubles.get(claim_key(claim))) is not None:
                return found
            if claim.status.allocation is None and self._is_of_others(claim):
                others = sorted(self.claims.users(claim_key(claim)) - {key[1]})
                return WriteTrouble(messages.EVENT_CLAIM_NOT_GATED, not_gated(claim, others))
        if gated.waits_for_earlier_writes:
            return WriteTrouble(messages.EVENT_EARLIER_WRITES, messages.earlier_writes(DOUBT_SECONDS))
        return None

    def has_lost_devices(self, key: Key) -> bool:
        """True if a pod was let go, and a claim of it has no allocation any more."""
        gated = self._pods.get(key)
        if gated is None or gated.pod.is_gated or not (gated.is_let_go or gated.pod.let_go):
            return False
        return self.handback.has_lost_devices(gated.pod)

    def is_waiting(self, key: Key) -> bool:
        """True if there was no room for a pod, or something is against what is to be written for it."""
        return self.queue.is_unschedulable(key) or self.trouble(key) is not None

    def counts(self) -> Mapping[GatedState, int]:
        """Return how many pods are how far."""
        counts = Counter(dict.fromkeys(GatedState, 0))
        for key, gated in self._pods.items():
            is_back = gated.is_let_go and self.handback.is_handed_back(key)
            if (state := gated.state(is_handed_back=is_back)) is not None:
                counts[state] += 1
        return counts

    def gated_since(self) -> float:
        """Return as Unix time when the pod was created that our gate has held longest; 0 if it holds none."""
        pods = [gated.pod for gated in self._pods.values()]
        times = [pod.creation for pod in pods if pod.is_gated and pod.creation]
        return datetime.fromisoformat(min(times)).timestamp() if times else 0.0

    def let_go_since(self) -> float:
        """Return as Unix time when the pod was let go that has been without a node longest; 0 if there is none.

        Whoever may change a pod may write any time into its annotation; one before its creation counts as that.
        """
        pods = [gated.pod for gated in self._pods.values() if not gated.pod.is_gated and gated.pod.creation]
        return min(
            [
                max(pod.let_go.time, datetime.fromisoformat(pod.creation).timestamp())
                for pod in pods
                if pod.let_go is not None
            ],
            default=0.0,
        )

    def _is_any_changing(self, claims: Iterable[ResourceClaim]) -> bool:
        """True if a write is under way by which one of some claims gets an allocation or loses it."""
        return any(self.claim_writes.is_changing_allocation(claim_key(claim)) for claim in claims)

    def _safely(self, work: Callable[[GatedPod], None], gated: GatedPod) -> None:
        """Do some work on a pod. After a defect of ours the pod backs off; the others go on."""
        try:
            work(gated)
        except Exception as error:
            pod = gated.pod
            self.defect_logger.exception(Defect.DECISION, pod=text(pod.key))
            self.hand_over.cancel(gated)
            self.queue.backoff.add(pod.key, pod.uid, *DEFECT)
            gated.trouble = WriteTrouble(messages.EVENT_INTERNAL, messages.defect(error))
            self.on_changed(pod.key)


def _is_usable(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None and claim.metadata.deletion_timestamp is None
