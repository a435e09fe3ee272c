"""Gated pods: the devices of all their claims are decided together on one node, stored, and then the pod is let go.

Level-triggered: the next step follows from what is stored of a pod and its claims (`plan_pods`), so that a successor
goes on where an operator was killed. The steps: allocations are stored, and beside that the pod is nominated to the
node, which holds its cpu and memory; the watch has told of the allocations; our gate comes off. Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, TypeAlias

from dra_operator.allocator.decision import Failed, claim_key
from dra_operator.allocator.extended import extended_resources
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import (
    Consumer,
    Denied,
    Stale,
    Stored,
    Unclear,
    Write,
    WriteOutcome,
    nominate,
    open_gate,
    withdraw,
)
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, Standing, is_pending, text
from dra_operator.controller.context import Context
from dra_operator.controller.facts import EventRequest, PendingReason
from dra_operator.controller.fencing import DOUBT_SECONDS, EarlierWrites
from dra_operator.controller.gangs import GangKey, Gangs, GangStatus
from dra_operator.controller.health import WriteAccess
from dra_operator.controller.logs import get_logger
from dra_operator.controller.plan_pods import Handback, LetGoPod, PodPlans, Step, plan_gang, waits_for_binding
from dra_operator.controller.queue import PodQueue
from dra_operator.controller.write_results import DENIED, STALE, UNCLEAR
from dra_operator.pods.claims import resolve_entries
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.gang_assignment import Assignment, Gang, NoDecision
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
INCOMPLETE_SECONDS: Final = 30.0
"""How long a gang lacks pods before that is told."""
_TOLD: Final = float("-inf")
WATCH_SECONDS: Final = 0.01
"""How soon it is asked again whether the watch of claims has told of what was stored."""

log = get_logger()


class GatedState(Enum):
    """How far a pod is: what the metric of gated pods counts."""

    WAITING = "waiting"
    STORING = "storing"
    LET_GO = "let go"
    HANDED_BACK = "handed back"


@dataclass(slots=True)
class GatedPod:
    """A pod that names claims, or has our gate, and has no node yet."""

    pod: SchedulingPod
    """As it was seen last: its gates, its claims, its nomination."""
    node: str = ""
    """The node that it was decided for, while what that takes is being stored and until it has it; else empty."""
    trouble: PendingReason | None = None
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


Assume: TypeAlias = Callable[[Iterable[tuple[ResourceClaim, AllocationResult, Consumer | None]], str], None]
"""Enters the allocations of one decision in the ledger, and has them written, for a node and all with the same time. A
claim is reserved for the consumer, if there is one."""


@dataclass(slots=True, kw_only=True)
class GatedPods:
    """Keeps the pods that have no node yet and name claims, and takes those that our gate holds through their steps.

    What is decided goes by `assume`. `access` are the rights to write to pods. `on_changed` is told of each pod of
    which something else is to be said now. `handback_seconds`: see `Handback`.
    """

    context: Context
    cluster: ClusterPods
    gangs: Gangs
    decider: PodDecider
    access: WriteAccess
    assume: Assume
    on_changed: Callable[[Key], None]
    handback_seconds: float
    queue: PodQueue = field(init=False)
    plans: PodPlans = field(init=False)
    _earlier_writes: EarlierWrites = field(init=False)
    _handback: Handback = field(init=False)
    _pods: dict[Key, GatedPod] = field(default_factory=dict)
    _let_go: dict[Key, LetGoPod] = field(default_factory=dict)
    """Those whose gate an operator took off after a decision."""
    _sent: dict[Key, tuple[Write, str]] = field(default_factory=dict)
    """The write to each pod that has no answer yet, and why it is let go if that was not decided.

    By name: an answer may come after its pod is gone, and a pod made anew under the name waits for it."""
    _touched: set[Key] = field(default_factory=set)
    """The pods of which something has become, or that are to be asked again in the next cycle."""
    _orphans: set[Key] = field(default_factory=set)
    """Claims with an allocation that perhaps no pod names."""
    _claim_troubles: dict[Key, PendingReason] = field(default_factory=dict)
    """What is against the last write to each claim."""
    _in_vain: set[object] = field(default_factory=set)
    """What pods have in common for which there was no room in this cycle."""
    _tried: set[GangKey] = field(default_factory=set)
    """The gangs that were decided in this cycle."""
    _incomplete: dict[GangKey, float] = field(default_factory=dict)
    """Since when, by the clock, gangs lack pods or their PodGroup; `_TOLD` once that was told."""

    def __post_init__(self) -> None:
        context = self.context
        self.queue = PodQueue(context.clock, context.timers)
        self._earlier_writes = EarlierWrites(context.clock, context.timers)
        self.plans = PodPlans(context, self.cluster, self.decider, self._earlier_writes)
        self._handback = Handback(
            context, self._write_let_go, self.on_changed, self.handback_seconds, self.gangs
        )

    # --- taking in

    def observe_pod(self, delta: Delta) -> None:
        """Take in what has become of a pod."""
        key = delta.namespace, delta.name
        pod = None if delta.body is None else read_scheduling_pod(delta.body)
        known = self._pods.get(key)
        is_over = pod is None or not pod.is_active or bool(pod.node)
        if known is not None and (is_over or pod is None or pod.uid != known.pod.uid):
            self._forget(known)
            known = None
        if pod is None or is_over:
            return
        if known is None:
            self._pods[key] = GatedPod(pod)
        else:
            known.pod = pod
        self._touched.add(key)

    def touch(self, keys: Iterable[Key]) -> None:
        """Take in that something has become of the gangs of some pods."""
        self._touched.update(keys)

    def observe_claims(self, keys: Iterable[Key]) -> None:
        """Take in that some claims have changed, or that an answer about them has come."""
        claims = self.context.claims
        for key in keys:
            claim = claims.get(key)
            if claim is None:
                self._claim_troubles.pop(key, None)
            elif self.plans.is_orphan(claim):
                self._orphans.add(key)
            self._touched.update([(key[0], pod) for pod in claims.users(key)])

    def report_claim(self, key: Key, why: PendingReason | None) -> None:
        """Take in what is in the way of a write to the claim of a gated pod; None once it is written."""
        if why is None and self._claim_troubles.pop(key, None) is None:
            return
        if why is not None:
            self._claim_troubles[key] = why
        for pod in self.context.claims.users(key):
            self.on_changed((key[0], pod))

    def _forget(self, gated: GatedPod) -> None:
        """Forget a pod that is gone, is over, or has a node; a write to it may have its answer yet."""
        key = gated.pod.key
        self._drop_decision(gated)
        del self._pods[key]
        self._let_go.pop(key, None)
        self.queue.remove(key)
        self.access.forget(key)
        self._touched.discard(key)

    # --- writes to pods

    def _write(self, write: Write | None, why: str = "") -> None:
        if write is not None:
            self._sent[write.key] = write, why
            self.context.send(write)

    def _write_let_go(self, write: Write) -> None:
        """Have a pod written that was let go, unless a write to it is under way, or was not accepted just now."""
        if write.key not in self._sent and not self.queue.backoff.holds(write.key, write.uid, write.version):
            self._write(write)

    def observe_outcome(self, outcome: WriteOutcome) -> None:
        """Take in the answer to a write to a pod; the state of the pod that it brought was taken in just before."""
        write, key = outcome.write, outcome.write.key
        sent, why = self._sent.get(key, (None, ""))
        if sent is not write:
            return
        del self._sent[key]
        self._touched.add(key)
        gated = self._pods.get(key)
        if gated is not None and gated.pod.uid != write.uid:
            gated = None
        backoff = self.queue.backoff
        match outcome:
            case Stored():
                self._handle_stored(write, gated, why)
            case Stale():
                backoff.add(key, write.uid, *STALE, version=write.version)
            case Unclear(missing=None):
                backoff.add(key, write.uid, *UNCLEAR)
            case Denied(missing=ApiError() as error) | Unclear(missing=ApiError() as error):
                backoff.add(key, write.uid, *DENIED)
                reason = messages.forbidden(error)
                if self.access.deny(error.verb, error.resource, key, reason):
                    log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
                self._set_trouble(gated, messages.EVENT_FORBIDDEN, reason)
            case Denied(message=refusal):
                log.warning(
                    messages.WRITE_REFUSED, pod=text(key), uid=write.uid, write=write.kind, why=refusal
                )
                backoff.add(key, write.uid, *DENIED)
                self._set_trouble(gated, messages.EVENT_REFUSED, messages.pod_refused(write.kind, refusal))

    def _handle_stored(self, write: Write, gated: GatedPod | None, why: str) -> None:
        key = write.key
        for (verb, resource), denied in self.access.grant(write).items():
            log.info(messages.PERMITTED, verb=verb, resource=resource)
            self.queue.backoff.expire(denied)
        self.queue.backoff.remove(key)
        if gated is not None and gated.trouble is not None:
            gated.trouble = None
            self.on_changed(key)
        if write.kind != "gate":
            return
        node = "" if gated is None or why else gated.node
        log.info(messages.LET_GO, pod=text(key), uid=write.uid, node=node, why=why)
        if why:
            event = EventRequest(Subject("Pod", *key, write.uid), "Normal", messages.EVENT_GATE_REMOVED, why)
            self.context.events.record(event)

    def _set_trouble(self, gated: GatedPod | None, reason: str, message: str) -> None:
        if gated is not None:
            gated.trouble = PendingReason(reason, message)
            self.on_changed(gated.pod.key)

    # --- steps without a decision

    def requeue(self, *, all_waiting: bool) -> None:
        """Have pods tried that a change may help: all that wait, or those whose time has come."""
        if all_waiting:
            self.queue.activate_all()
        self._touched |= self.queue.backoff.pop_expired()
        ledger = self.context.ledger
        versions = self.context.inventory.version, ledger.lasting_version, self.cluster.version
        self.queue.observe(versions)

    def advance(self) -> None:
        """Take each pod that something has become of one step further, if that needs no decision."""
        if not self._earlier_writes.is_begun:
            self._begin()
        touched, self._touched = self._touched, set()
        if self._earlier_writes.pop_end():
            touched |= {key for key, gated in self._pods.items() if gated.waits_for_earlier_writes}
        for key in touched:
            if (gated := self._pods.get(key)) is not None:
                self._safely(self._advance, gated)
        gangs = {gang for key in touched if (gang := self.gangs.key_of(key)) is not None}
        for gang in sorted(gangs):
            self._advance_gang_safely(gang)
        self._tell_incomplete()
        for key in tuple(self._orphans):
            self._release_orphan(key)

    def run_handback(self) -> float | None:
        """Take back what is held for pods that cannot be placed; return when time alone makes more due."""
        return self._handback.run(self._let_go)

    def _begin(self) -> None:
        """Remember what an earlier operator may have seen: it may have sent a patch that is still under way."""
        claims = self.context.claims
        self._earlier_writes.begin(
            [gated.pod for gated in self._pods.values() if gated.pod.is_gated],
            [
                claim
                for claim in claims.allocated()
                if not claim.status.reserved_for or claims.standing(claim) is Standing.GATED
            ],
        )

    def _advance(self, gated: GatedPod) -> None:
        pod = gated.pod
        if pod.key in self._sent or (pod.is_gated and self.gangs.find(pod.key) is not None):
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
        claims = self._claims(pod)
        if why := find_release(pod, claims):
            self._write(open_gate(pod), messages.gate_removed(why))
            return
        if not pod.is_last_gate or self._is_any_changing(claims):
            return
        if gated.node:
            is_complete = not pod.missing and len(claims) == len(pod.claims)
            if is_complete and all(map(_is_usable, claims)):
                self._hand_over(gated, claims)
                return
            # Not all of it could be stored, or a claim is gone.
            self._drop_decision(gated)
        self.queue.activate((pod.key,))

    def _hand_over(self, gated: GatedPod, claims: list[ResourceClaim]) -> None:
        """Do the next step for a decided pod all of whose claims are allocated."""
        self._carry_out(gated, self.plans.plan_hand_over(gated.pod, gated.node, claims))

    def _carry_out(self, gated: GatedPod, step: Step) -> None:
        key, timers = gated.pod.key, self.context.timers
        for write in step.to_claims:
            self.context.in_flight.submit(write)
        self._write(step.to_pod)
        match step.waits_for:
            case "decision":
                self._drop_decision(gated)
                self.queue.activate((key,))
            case "earlier writes":
                self._wait_for_earlier_writes(gated)
            case "watch":
                timers.set(("watch", key), self.context.clock() + WATCH_SECONDS)
                self._touched.add(key)
            case "answers":
                timers.set(("watch", key), None)

    def _drop_decision(self, gated: GatedPod) -> None:
        """Drop the node that a pod was decided for, if it was."""
        key = gated.pod.key
        if gated.node:
            gated.node = ""
            self.cluster.withdraw(key)
        self.context.timers.set(("watch", key), None)

    def _wait_for_earlier_writes(self, gated: GatedPod) -> None:
        """Have a pod wait until no write of an earlier operator can be stored any more."""
        gated.waits_for_earlier_writes = True
        self.on_changed(gated.pod.key)
        self._earlier_writes.set_timer()

    def _release_orphan(self, key: Key) -> None:
        """Take back what was stored for gated pods that are gone, if nobody names the claim any more."""
        claim = self.context.claims.get(key)
        if claim is None or not self.plans.is_orphan(claim):
            self._orphans.discard(key)
        elif (
            self.context.is_writable(claim)
            and self.context.may_end(claim)
            # Else its devices may be ours once they have settled.
            and self.plans.is_for_us_to_clear(claim)
        ):
            self.context.in_flight.submit(withdraw(claim))

    # --- deciding

    def decide_all(self, flush: Callable[[], None], stopping: Callable[[], bool]) -> bool:
        """Decide the active pods, each alone; return whether all are done."""
        clock = self.context.clock
        active, flushed = self.queue.active, clock()
        until = flushed + BUDGET
        # What is decided only takes something away.
        self._in_vain.clear()
        self._tried.clear()
        for pod in self.queue.begin_cycle(self._find_pod):
            if self.gangs.key_of(pod.key) in self._tried:
                continue
            now = clock()
            if stopping() or now >= until:
                return False
            active.start(pod.key)
            self._safely(self._decide, self._pods[pod.key])
            after = clock()
            self.queue.charge(pod.key, after - now)
            self.context.metrics.decision_seconds.observe(after - now)
            if after - flushed >= FLUSH:
                flush()
                flushed = after
        return active.end_cycle()

    def _find_pod(self, key: Key) -> SchedulingPod | None:
        gated = self._pods.get(key)
        return None if gated is None else gated.pod

    def _decide(self, gated: GatedPod) -> None:
        if (status := self.gangs.find(gated.pod.key)) is not None:
            self._decide_gang(status)
            return
        pod, waiting = gated.pod, self.cluster.gated.get(gated.pod.key)
        if pod.key in self._sent or gated.node or not pod.is_last_gate or waiting is None:
            return
        claims = self._claims(pod)
        if self._is_any_changing(claims):
            return
        unallocated = [claim for claim in claims if claim.status.allocation is None]
        if any(map(self.context.queue.backoff.holds_claim, unallocated)):
            # Of a pod of which nobody knows when it goes nothing of a node is held.
            self._clear_nomination(pod)
            return
        self._withdraw_assumed(unallocated)
        entries = resolve_entries(waiting.pod, self.decider.find_claim, self.decider.has_template)
        is_ready = all(entry.problem is None for entry in entries)
        is_ready = is_ready and not any(map(self._is_of_others, unallocated))
        decision = self._find_node(pod, waiting, claims) if is_ready else None
        if isinstance(decision, PodDecision):
            self._accept(gated, decision, claims)
            if not decision.allocations:
                self._hand_over(gated, claims)
        else:
            self._set_unschedulable(gated, is_tried=is_ready and decision is None)

    def _withdraw_assumed(self, claims: Iterable[ResourceClaim]) -> None:
        """Withdraw what is assumed for claims whose answer never came: it must not block their pod."""
        ledger = self.context.ledger
        used = ledger.version
        for claim in claims:
            ledger.withdraw(*claim_key(claim))
        if ledger.version != used:
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
        consumer, is_shared = Consumer(pod.name, pod.uid), self.context.claims.is_shared
        decided = [
            (by_name[name], allocation, consumer if is_shared((pod.namespace, name)) else None)
            for name, allocation in decision.allocations.items()
        ]
        self.assume(decided, decision.node)
        if (
            bool(decided)
            and not any(map(waits_for_binding, decision.allocations.values()))
            and pod.nominated_node != decision.node
        ):
            # At once, beside the allocations: until then others may take what it needs of the node.
            self._write(nominate(pod, decision.node))

    def _set_unschedulable(self, gated: GatedPod, *, is_tried: bool) -> None:
        """Take in that a pod has no node. Where it was not tried with all its claims, they keep what they have."""
        pod = gated.pod
        self.queue.set_unschedulable(pod.key)
        self._forget_troubles(gated)
        # Of a pod of which nobody knows when it goes nothing of a node is held.
        is_nominated = self._clear_nomination(pod)
        if is_tried and not is_nominated:
            # To clear it makes another version of the pod, too.
            self._take_back(gated)
        self.on_changed(pod.key)

    def _forget_troubles(self, gated: GatedPod) -> None:
        """Forget what was said against earlier writes: a pod waits for room now."""
        gated.trouble = None
        for claim in self._claims(gated.pod):
            if not self.context.queue.backoff.holds_claim(claim):
                self._claim_troubles.pop(claim_key(claim), None)

    def _clear_nomination(self, pod: SchedulingPod) -> bool:
        """Have a nomination of ours taken off a pod; return whether it has one. What somebody else set stays."""
        if pod.is_nominated_by_operator:
            self._write(nominate(pod, None))
        return pod.is_nominated_by_operator

    def _take_back(self, gated: GatedPod) -> None:
        """Have taken back what is stored for a pod that it cannot use, and nobody else does.

        Not while a patch of an earlier operator could still let one of its pods go.
        """
        unused = self.plans.find_unused(gated.pod, self._is_going)
        users = {name for claim in unused for name in self.context.claims.users(claim_key(claim))}
        pods = [self._find_pod((gated.pod.namespace, name)) for name in users]
        if any(pod is not None and self._earlier_writes.may_let_go(pod) for pod in pods):
            self._wait_for_earlier_writes(gated)
            return
        for claim in unused:
            self.context.in_flight.submit(withdraw(claim, unreserves=True))

    def _is_going(self, key: Key) -> bool:
        """True if a pod has been decided, or is being written."""
        gated = self._pods.get(key)
        return (gated is not None and bool(gated.node)) or key in self._sent

    def _is_of_others(self, claim: ResourceClaim) -> bool:
        """True if it is not for us to allocate a claim that has no allocation."""
        return is_pending(claim) and self.context.claims.standing(claim) is not Standing.GATED

    # --- gangs: all their pods at once

    def _advance_gang_safely(self, gang: GangKey) -> None:
        """Take a gang one step further; after a defect of ours its first pod backs off, and with it the gang."""
        pods = [gated for key in self.gangs.members(gang) if (gated := self._pods.get(key)) is not None]
        if pods:
            self._safely(lambda _: self._advance_gang(gang), pods[0])

    def _find_ready(self, status: GangStatus) -> list[GatedPod]:
        """Return the gated pods of a gang that are decided together; once it is begun those without another gate."""
        pods = [gated for each in status.gated if (gated := self._pods.get(each.key)) is not None]
        return [gated for gated in pods if gated.pod.is_last_gate] if status.is_begun else pods

    def _advance_gang(self, gang: GangKey) -> None:
        """Take the gated pods of a gang one step further together, if that needs no decision."""
        if (status := self.gangs.status(gang)) is None:
            return
        pods = self._find_ready(status)
        for gated in pods:
            if gated.waits_for_earlier_writes:
                gated.waits_for_earlier_writes = False
                self.on_changed(gated.pod.key)
        self._observe_incomplete(status)
        claims = {gated.pod.key: self._claims(gated.pod) for gated in pods}
        if any(gated.pod.key in self._sent for gated in pods) or any(
            map(self._is_any_changing, claims.values())
        ):
            return
        if status.waits_for or not all(gated.pod.is_last_gate for gated in pods):
            self._rest(pods, keeps=status.is_begun or not status.is_known)
            return
        if not status.is_begun and any(self.queue.is_held(gated.pod) for gated in pods):
            if any(gated.trouble is not None and self.queue.is_held(gated.pod) for gated in pods):
                self._rest(pods)
            return
        self._hand_over_gang(status, pods, claims)

    def _hand_over_gang(
        self, status: GangStatus, pods: list[GatedPod], claims: Mapping[Key, list[ResourceClaim]]
    ) -> None:
        """Do the next step for those of a gang that were decided, and have the others decided."""
        for gated in pods:
            of_pod = claims[gated.pod.key]
            if status.is_begun and of_pod and (why := find_release(gated.pod, of_pod)):
                self._drop_decision(gated)
                self._write(open_gate(gated.pod), messages.gate_removed(why))
            elif gated.node and not (len(of_pod) == len(gated.pod.claims) and all(map(_is_usable, of_pod))):
                self._drop_decision(gated)
        decided = [gated for gated in pods if gated.node and not self.queue.is_held(gated.pod)]
        if not status.is_begun and len(decided) < len(pods):
            for gated in decided:
                self._drop_decision(gated)
            decided = []
        steps = [self.plans.plan_hand_over(each.pod, each.node, claims[each.pod.key]) for each in decided]
        for gated, step in zip(decided, plan_gang(steps, is_begun=status.is_begun), strict=True):
            self._carry_out(gated, step)
        waiting = [gated.pod.key for gated in pods if not gated.node and gated.pod.key not in self._sent]
        self.queue.activate(waiting)

    def _rest(self, pods: list[GatedPod], *, keeps: bool = False) -> None:
        """Have nothing held for the pods of a gang that are not decided now; `keeps`: but what is stored."""
        nominated = keeps
        for gated in pods:
            self._drop_decision(gated)
            self.queue.set_unschedulable(gated.pod.key)
            nominated |= not keeps and self._clear_nomination(gated.pod)
        if not nominated:
            for gated in pods:
                self._take_back(gated)

    def _observe_incomplete(self, status: GangStatus) -> None:
        """Take in whether a gang waits for pods, or for its PodGroup."""
        name, now = ("gang", *status.key), self.context.clock()
        if not status.is_incomplete:
            if self._incomplete.pop(status.key, None) is not None:
                self.context.timers.set(name, None)
        elif status.key not in self._incomplete:
            self._incomplete[status.key] = now
            self.context.timers.set(name, now + INCOMPLETE_SECONDS)

    def _tell_incomplete(self) -> None:
        """Have it told once of gangs that have been incomplete for long."""
        now, timers = self.context.clock(), self.context.timers
        for key, since in tuple(self._incomplete.items()):
            status = self.gangs.status(key)
            if status is None or not status.is_incomplete:
                del self._incomplete[key]
                timers.set(("gang", *key), None)
            elif _TOLD < since <= now - INCOMPLETE_SECONDS:
                self._incomplete[key] = _TOLD
                timers.set(("gang", *key), None)
                for each in status.gated:
                    self.on_changed(each.key)

    def _decide_gang(self, status: GangStatus) -> None:
        """Decide the gated pods of a gang all at once; once one of its pods was let go, one by one."""
        self._tried.add(status.key)
        for each in status.gated:
            # All of them have had their turn.
            self.queue.active.start(each.key)
        pods = self._find_ready(status)
        claims = [claim for gated in pods for claim in self._claims(gated.pod)]
        if any(gated.pod.key in self._sent for gated in pods) or self._is_any_changing(claims):
            return
        if status.waits_for or not all(gated.pod.is_last_gate for gated in pods):
            for gated in pods:
                self.queue.set_unschedulable(gated.pod.key)
                self.on_changed(gated.pod.key)
            return
        undecided = [gated for gated in pods if not gated.node and not self.queue.is_held(gated.pod)]
        if status.is_begun:
            for gated in undecided:
                self._assign(status, [gated])
        elif len(undecided) == len(pods):
            self._assign(status, pods)
        if any(gated.node for gated in pods):
            # Where everything is stored already, no answer comes that would have them go on.
            self._advance_gang_safely(status.key)

    def _assign(self, status: GangStatus, pods: list[GatedPod]) -> None:
        """Have some pods of a gang decided together, beside those that were let go."""
        keys = {gated.pod.key for gated in pods}
        unallocated = [
            claim for gated in pods for claim in self._claims(gated.pod) if claim.status.allocation is None
        ]
        if any(map(self.context.queue.backoff.holds_claim, unallocated)):
            self._rest(pods)
            return
        self._withdraw_assumed(unallocated)
        is_ready = not any(map(self._is_of_others, unallocated))
        gang = self.gangs.build(status, [each for each in status.gated if each.key in keys])
        found = self.gangs.assigner.assign(gang) if is_ready and isinstance(gang, Gang) else None
        if isinstance(found, Assignment):
            left = dict(found.results)
            for gated, node in zip(pods, found.nodes[-len(pods) :], strict=True):
                own = [key for key in left if key[0] == gated.pod.namespace and key[1] in gated.pod.claims]
                decision = PodDecision(node, {key[1]: left.pop(key) for key in own})
                self._accept(gated, decision, self._claims(gated.pod))
            return
        if isinstance(found, NoDecision):
            for gated in pods:
                self.queue.backoff.add(gated.pod.key, gated.pod.uid, *ABORTED)
        self._rest(pods)
        for gated in pods:
            self._forget_troubles(gated)
            self.on_changed(gated.pod.key)

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
        let_go = self._let_go.get(pod.key)
        if let_go is None and node:
            let_go = self._let_go[pod.key] = LetGoPod(pod, node)
        if let_go is not None:
            let_go.observe(pod)
        if not node or (let_go is not None and let_go.is_handed_back):
            self._drop_decision(gated)

    def _find_stored_node(self, pod: SchedulingPod) -> str:
        """Return the node that an operator let a pod go for, nominated it to, or stored the claims made for it on.

        Empty if none did.
        """
        if pod.let_go is not None:
            return pod.let_go.node
        if pod.is_nominated_by_operator:
            return pod.nominated_node
        for claim in self._claims(pod):
            allocation = claim.status.allocation
            owners = claim.metadata.owner_references
            if not any(owner.controller and owner.uid == pod.uid for owner in owners):
                continue
            if allocation is not None and not claim.status.reserved_for and self.context.is_ours(claim):
                return pinned_to(allocation.node_selector) or pod.nominated_node
        return ""

    # --- what others ask

    def trouble(self, key: Key) -> PendingReason | None:
        """Return what is against the writes that a pod waits for, or keeps its claims from being ours.

        Of one without our gate, whether it was handed back.
        """
        gated = self._pods.get(key)
        if gated is None:
            return None
        if not gated.pod.is_gated:
            let_go = self._let_go.get(key)
            return None if let_go is None else let_go.trouble
        if gated.trouble is not None:
            return gated.trouble
        if key in self._sent and self._sent[key][1]:
            # It is let go without a decision.
            return None
        for claim in self._claims(gated.pod):
            if (found := self._claim_troubles.get(claim_key(claim))) is not None:
                return found
            if claim.status.allocation is None and self._is_of_others(claim):
                others = sorted(self.context.claims.users(claim_key(claim)) - {key[1]})
                return PendingReason(messages.EVENT_CLAIM_NOT_GATED, not_gated(claim, others))
        if gated.waits_for_earlier_writes:
            return PendingReason(messages.EVENT_EARLIER_WRITES, messages.earlier_writes(DOUBT_SECONDS))
        return self._gang_trouble(key)

    def _gang_trouble(self, key: Key) -> PendingReason | None:
        """Return why the gang of a gated pod is not decided, where that is to be told."""
        status = self.gangs.find(key)
        if status is None or not status.waits_for:
            return None
        if status.problem and status.is_known:
            return PendingReason(messages.EVENT_INVALID, status.problem)
        since = self._incomplete.get(status.key)
        if since is None or self.context.clock() < since + INCOMPLETE_SECONDS:
            return None
        return PendingReason(messages.EVENT_GANG_INCOMPLETE, status.waits_for)

    def trouble_of_gang(self, key: Key) -> PendingReason | None:
        """Return what is against one of the pods that a gated pod is decided with."""
        status = self.gangs.find(key)
        for each in () if status is None else status.gated:
            if status is not None and (found := self.trouble(each.key)) is not None:
                text = f'pod "{each.key[1]}" of {status.title}: {found.message}'
                return PendingReason(found.reason, text)
        return None

    def has_lost_devices(self, key: Key) -> bool:
        """True if a pod was let go, and a claim of it has no allocation any more."""
        gated = self._pods.get(key)
        if gated is None or gated.pod.is_gated or not (key in self._let_go or gated.pod.let_go):
            return False
        return self._handback.has_lost_devices(gated.pod)

    def is_waiting(self, key: Key) -> bool:
        """True if there was no room for a pod, or something is against what is to be written for it."""
        return self.queue.is_unschedulable(key) or self.trouble(key) is not None

    def counts(self) -> Mapping[GatedState, int]:
        """Return how many pods are how far."""
        states = [gated.state(self._let_go.get(key)) for key, gated in self._pods.items()]
        counts = Counter(dict.fromkeys(GatedState, 0))
        counts.update([state for state in states if state is not None])
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

    def _claims(self, pod: SchedulingPod) -> list[ResourceClaim]:
        """Return those of the claims of a pod that are there, by name."""
        return self.context.claims.find_all(pod.namespace, pod.claims)

    def _is_any_changing(self, claims: Iterable[ResourceClaim]) -> bool:
        """True if a write is under way by which one of some claims gets an allocation or loses it."""
        return any(self.context.in_flight.is_changing_allocation(claim_key(claim)) for claim in claims)

    def _safely(self, work: Callable[[GatedPod], None], gated: GatedPod) -> None:
        """Do some work on a pod. After a defect of ours the pod backs off; the others go on."""
        try:
            work(gated)
        except Exception as error:
            pod = gated.pod
            self.context.metrics.defect_logger.exception(Defect.DECISION, pod=text(pod.key))
            self._drop_decision(gated)
            self.queue.backoff.add(pod.key, pod.uid, *DEFECT)
            self._set_trouble(gated, messages.EVENT_INTERNAL, messages.defect(error))


def _is_usable(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None and claim.metadata.deletion_timestamp is None
