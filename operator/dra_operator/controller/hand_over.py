"""The hand-over: a pod that was decided is nominated to its node, and let go once all that is stored has been seen.

One step a time, each a write that is conditional on the version of the pod: reservations of claims that several pods
share, the nomination, and at last our gate. Source: docs/pods.md; kube-scheduler, binding cycle and PreEnqueue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import (
    Consumer,
    Denied,
    Stale,
    Stored,
    Unclear,
    Write,
    WriteOutcome,
    annotate,
    nominate,
    open_gate,
    reserve,
)
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, annotation, text
from dra_operator.controller.earlier_writes import EarlierWrites
from dra_operator.controller.event_dedup import EventRequest, Subject
from dra_operator.controller.gated_state import GatedPod, WriteTrouble
from dra_operator.controller.logs import get_logger
from dra_operator.controller.permissions import WriteAccess
from dra_operator.controller.pod_queue import PodQueue
from dra_operator.controller.queue import Backoff, InFlightWrites
from dra_operator.controller.timers import Timers
from dra_operator.controller.write_results import DENIED, STALE, UNCLEAR
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.gate import SchedulingPod, let_go_mark
from dra_operator.pods.pod_decision import PodDecider

WATCH_SECONDS: Final = 0.01
"""How soon it is asked again whether the watch of claims has told of what was stored."""

log = get_logger()


@dataclass(frozen=True, slots=True)
class _SentWrite:
    """A write to a pod that has no answer yet: the node that the pod goes to, or why it is let go without one."""

    write: Write
    node: str = ""
    why: str = ""


@dataclass(slots=True)
class HandOver:
    """Has pods written, one write at a time for each, and takes in the answers.

    `claim_writes` and `claim_backoff` are those of claims; `queue` has the pods that back off. `send` gets the writes
    to pods. `has_told` says whether the watch of claims has brought a version: kube-scheduler, which watches as well,
    should have it before the gate comes off. `is_ours` says whether an operator made the allocation of a claim. `clock`
    is monotonic, `wall` the time of day in UTC.
    `on_changed` is told of each pod of which something else is to be said now.
    """

    claims: ClaimStore
    cluster: ClusterPods
    decider: PodDecider
    claim_writes: InFlightWrites
    claim_backoff: Backoff
    queue: PodQueue
    earlier_writes: EarlierWrites
    access: WriteAccess
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    timers: Timers
    send: Callable[[Write], None]
    record: Callable[[EventRequest], None]
    has_told: Callable[[str], bool]
    is_ours: Callable[[ResourceClaim], bool]
    on_changed: Callable[[Key], None]
    _sent: dict[Key, _SentWrite] = field(default_factory=dict)
    """By name: an answer may come after its pod is gone, and a pod made anew under the name waits for it."""

    def is_writing(self, key: Key) -> bool:
        """True if a write to a pod has no answer yet."""
        return key in self._sent

    def is_releasing(self, key: Key) -> bool:
        """True if the gate of a pod is being taken off that was not decided."""
        return key in self._sent and bool(self._sent[key].why)

    # --- steps

    def advance(self, gated: GatedPod, claims: Sequence[ResourceClaim]) -> bool:
        """Do the next step for a decided pod all of whose claims are allocated.

        Return whether it waits for the watch alone, so that it is to be asked for again soon.
        """
        pod = gated.pod
        # kube-scheduler counts the time that binding conditions may take from that of the allocation.
        is_urgent = any(map(_has_binding_conditions, claims))
        if not self._suits(gated, claims):
            self.cancel(gated)
            self.queue.activate((pod.key,))
        elif self._reserve(pod, claims) or (not is_urgent and self.nominate(gated)):
            # What comes of it touches the pod again.
            pass
        elif self._fence(claims):
            self.wait_for_earlier_writes(gated)
        elif is_urgent or all(self.has_told(claim.metadata.resource_version) for claim in claims):
            self.timers.set(("watch", pod.key), None)
            mark = let_go_mark(self.wall(), gated.node, pod.uid)
            self._write(open_gate(pod, mark), node=gated.node)
        else:
            self.timers.set(("watch", pod.key), self.clock() + WATCH_SECONDS)
            return True
        return False

    def release(self, pod: SchedulingPod, why: str) -> None:
        """Have the gate of a pod taken off that needs no decision."""
        self._write(open_gate(pod), why=why)

    def nominate(self, gated: GatedPod) -> bool:
        """Have a pod nominated to its node; return whether it is not yet."""
        pod = gated.pod
        if pod.nominated_node == gated.node:
            return False
        self._write(nominate(pod, gated.node), node=gated.node)
        return True

    def clear_nomination(self, pod: SchedulingPod) -> bool:
        """Have a nomination of ours taken off a pod; return whether it has one. What somebody else set stays."""
        if pod.is_nominated_by_operator:
            self._write(nominate(pod, None))
        return pod.is_nominated_by_operator

    def write_let_go(self, write: Write) -> None:
        """Have a pod written that was let go, unless a write to it is under way, or was not accepted just now."""
        key = write.key
        is_held = self.queue.backoff.holds(key, write.uid, write.version)
        if key not in self._sent and not is_held:
            self._write(write)

    def cancel(self, gated: GatedPod) -> None:
        """Drop the node that a pod was decided for, if it was."""
        key = gated.pod.key
        if gated.node:
            gated.node = ""
            self.cluster.withdraw(key)
        self.timers.set(("watch", key), None)

    def forget(self, gated: GatedPod) -> None:
        """Forget a pod that is gone, is over, or has a node; a write to it may have its answer yet."""
        key = gated.pod.key
        self.cancel(gated)
        self.queue.remove(key)
        self.access.forget(key)

    def wait_for_earlier_writes(self, gated: GatedPod) -> None:
        """Have a pod wait until no write of an earlier operator can be stored any more."""
        gated.waits_for_earlier_writes = True
        self.on_changed(gated.pod.key)
        self.earlier_writes.set_timer()

    def _suits(self, gated: GatedPod, claims: Sequence[ResourceClaim]) -> bool:
        """True if the node of a pod still suits it; somebody else may have allocated a claim meanwhile, elsewhere."""
        key, node = gated.pod.key, gated.node
        waiting = self.cluster.gated.get(key)
        if waiting is None or node not in self.cluster.nodes:
            return False
        return self.decider.can_use(claims, node) and (
            self.cluster.find_obstacle(waiting.requirements, node, key) is None
        )

    def _reserve(self, pod: SchedulingPod, claims: Sequence[ResourceClaim]) -> bool:
        """Have each claim reserved for a pod that others name or have named; return whether that is under way.

        Else kube-controller-manager clears it with the reservation of the last pod that has run or is gone: at any
        moment, and for a pod that has run and is still there again and again. kube-scheduler does not reserve it once
        more. What somebody else allocated is left to them.
        """
        is_under_way = False
        for claim in claims:
            key = claim_key(claim)
            users = claim.status.reserved_for
            is_reserved = any(each.uid == pod.uid for each in users)
            if is_reserved or not (users or self.claims.is_shared(key)) or not self.is_ours(claim):
                continue
            is_under_way = True
            if key not in self.claim_writes and not self.claim_backoff.holds_claim(claim):
                self.claim_writes.submit(reserve(claim, Consumer(pod.name, pod.uid)))
        return is_under_way

    def _fence(self, claims: Sequence[ResourceClaim]) -> bool:
        """Give claims another version that an earlier operator may be taking back; return whether that is under way.

        They get our annotation, which says so, and lose it again: what was sent for the version before fails then.
        """
        is_under_way = False
        for claim in claims:
            key, current = claim_key(claim), annotation(claim)
            is_in_doubt = self.earlier_writes.may_take_back(claim)
            is_under_way = is_under_way or is_in_doubt
            if (
                not (is_in_doubt or current)
                or key in self.claim_writes
                or self.claim_backoff.holds_claim(claim)
            ):
                continue
            told = messages.CLAIM_FENCED if current is None else None
            self.claim_writes.submit(annotate(claim, PENDING_ANNOTATION, told))
        return is_under_way

    def _write(self, write: Write, *, node: str = "", why: str = "") -> None:
        self._sent[write.key] = _SentWrite(write, node, why)
        self.send(write)

    # --- answers

    def observe_outcome(self, outcome: WriteOutcome, gated: GatedPod | None) -> bool:
        """Take in the answer to a write to a pod; the state of the pod that it brought was taken in just before.

        `gated` is the pod, if it is still there. Return whether the next write to it may be sent.
        """
        write, key = outcome.write, outcome.write.key
        sent = self._sent.get(key)
        if sent is None or sent.write is not write:
            return False
        del self._sent[key]
        backoff = self.queue.backoff
        match outcome:
            case Stored():
                self._handle_written(sent, gated)
            case Stale():
                backoff.add(key, write.uid, *STALE, version=write.version)
            case Unclear(missing=None):
                backoff.add(key, write.uid, *UNCLEAR)
            case Denied(missing=ApiError() as error) | Unclear(missing=ApiError() as error):
                why = messages.forbidden(error)
                backoff.add(key, write.uid, *DENIED)
                if self.access.deny(error.verb, error.resource, key, why):
                    log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
                self._set_trouble(gated, messages.EVENT_FORBIDDEN, why)
            case Denied(message=why):
                log.warning(messages.WRITE_REFUSED, pod=text(key), uid=write.uid, write=write.kind, why=why)
                backoff.add(key, write.uid, *DENIED)
                # Once one of those that were refused is accepted, the others need not wait any longer.
                backoff.count_refusal(key)
                self._set_trouble(gated, messages.EVENT_REFUSED, messages.pod_refused(write.kind, why))
        return True

    def _handle_written(self, sent: _SentWrite, gated: GatedPod | None) -> None:
        write, key = sent.write, sent.write.key
        for (verb, resource), denied in self.access.grant(write).items():
            log.info(messages.PERMITTED, verb=verb, resource=resource)
            self.queue.backoff.expire(denied)
        self.queue.backoff.accept(key)
        if gated is not None and gated.trouble is not None:
            gated.trouble = None
            self.on_changed(key)
        if write.kind != "gate":
            return
        log.info(messages.LET_GO, pod=text(key), uid=write.uid, node=sent.node, why=sent.why)
        if sent.why:
            subject = Subject("Pod", *key, write.uid)
            self.record(EventRequest(subject, "Normal", messages.EVENT_GATE_REMOVED, sent.why))

    def _set_trouble(self, gated: GatedPod | None, reason: str, message: str) -> None:
        if gated is not None:
            gated.trouble = WriteTrouble(reason, message)
            self.on_changed(gated.pod.key)


def waits_for_binding(allocation: AllocationResult) -> bool:
    """True if some device of an allocation must get ready before a pod can be bound."""
    return any(result.binding_conditions for result in allocation.devices.results)


def _has_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and waits_for_binding(allocation)
