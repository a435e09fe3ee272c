"""Gated pods: the devices of all their claims are decided together on one node, stored, and then the pod is let go.

Level-triggered: the next step follows from what is stored of a pod and its claims (`plan_pods`), so that a successor
goes on where an operator was killed. The steps: allocations are stored, and beside that the pod is nominated to the
node, which holds its cpu and memory; the watch has told of the allocations; our gate comes off. Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

from dra_operator.allocator.decision import claim_key
from dra_operator.allocator.extended import extended_resources
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Consumer, Stored, Write, WriteOutcome, nominate, open_gate, withdraw
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, Standing, is_pending, text
from dra_operator.controller.context import Context
from dra_operator.controller.facts import EventRequest, PendingReason
from dra_operator.controller.fencing import DOUBT_SECONDS, EarlierWrites
from dra_operator.controller.gangs import GangKey, Gangs, GangStatus
from dra_operator.controller.health import WriteAccess
from dra_operator.controller.logs import get_logger
from dra_operator.controller.plan_pods import Handback, LetGoPod, PodPlans, Step, plan_gang, waits_for_binding
from dra_operator.controller.queue import ABORTED, BUDGET, DEFECT, FLUSH, PodQueue
from dra_operator.controller.write_results import back_off, take_in_rights
from dra_operator.pods.claims import resolve_entries
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.gang_assignment import Assignment, Gang, NoDecision
from dra_operator.pods.gate import SchedulingPod, find_release, not_gated, read_scheduling_pod
from dra_operator.pods.pod_decision import PodDecider, PodDecision

INCOMPLETE_SECONDS: Final = 30.0
"""How long a gang lacks pods before that is told."""
_TOLD: Final = float("-inf")
WATCH_SECONDS: Final = 0.01
"""How soon it is asked again whether the watch of claims has told of what was stored."""

log = get_logger()


GatedState: TypeAlias = Literal["waiting", "storing", "let go", "handed back"]
"""How far a pod is: what the metric of gated pods counts."""


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

    let_go: LetGoPod | None = None
    """Set once an operator took its gate off after a decision."""

    @property
    def state(self) -> GatedState | None:
        """How far it is; None for a pod that was never ours."""
        if self.pod.is_gated:
            return "storing" if self.node else "waiting"
        if self.let_go is None:
            return None
        return "handed back" if self.let_go.is_handed_back else "let go"


NotFound: TypeAlias = Literal["no room", "not tried"]
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
        if not isinstance(outcome, Stored):
            found = back_off(outcome, self.queue.backoff, self.access)
            if found is not None and gated is not None:
                self._set_trouble(gated, found)
            return
        take_in_rights(write, self.access, self.queue.backoff)
        self.queue.backoff.remove(key)
        if gated is not None and gated.trouble is not None:
            self._set_trouble(gated, None)
        if write.kind == "gate":
            node = "" if gated is None or why else gated.node
            log.info(messages.LET_GO, pod=text(key), uid=write.uid, node=node, why=why)
            if why:
                subject = Subject("Pod", *key, write.uid)
                self.context.events.record(EventRequest(subject, "Normal", messages.EVENT_GATE_REMOVED, why))

    def _set_trouble(self, gated: GatedPod, trouble: PendingReason | None) -> None:
        gated.trouble = trouble
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
        groups: dict[Key, Key] = {}
        for key in sorted(touched):
            status = self.gangs.find(key)
            groups.setdefault(key if status is None else status.key, key)
            gated = self._pods.get(key)
            if gated is not None and not gated.pod.is_gated and key not in self._sent:
                self._safely(gated, partial(self._follow, gated))
        for key in groups.values():
            status, pods = self._find_group(key)
            if pods:
                self._safely(pods[0], partial(self._advance, status, pods))
        self._tell_incomplete()
        for key in tuple(self._orphans):
            self._release_orphan(key)

    def run_handback(self) -> float | None:
        """Take back what is held for pods that cannot be placed; return when time alone makes more due."""
        return self._handback.run(
            {key: gated.let_go for key, gated in self._pods.items() if gated.let_go is not None}
        )

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

    def _find_group(self, key: Key) -> tuple[GangStatus | None, list[GatedPod]]:
        """Return the gated pods that are decided with a pod, and their gang; the pod alone if it has none."""
        status = self.gangs.find(key)
        keys = [key] if status is None else [each.key for each in status.gated]
        found = [self._pods.get(each) for each in keys]
        return status, [gated for gated in found if gated is not None and gated.pod.is_gated]

    def _advance(self, status: GangStatus | None, pods: list[GatedPod]) -> None:
        """Take gated pods that are decided together one step further, if that needs no decision.

        One alone, and those of a gang of which one was let go, go on each by itself.
        """
        if status is not None:
            self._observe_incomplete(status)
        for gated in pods:
            if gated.waits_for_earlier_writes:
                # If it still does, that is found out now.
                gated.waits_for_earlier_writes = False
                self.on_changed(gated.pod.key)
        claims = {gated.pod.key: self._claims(gated.pod) for gated in pods}
        if self._is_under_way(pods):
            return
        is_begun = status is None or status.is_begun
        if is_begun:
            for gated in pods:
                of_pod = claims[gated.pod.key]
                if self.queue.is_held(gated.pod) or not (status is None or of_pod):
                    continue
                if why := find_release(gated.pod, of_pod):
                    self._drop_decision(gated)
                    self._write(open_gate(gated.pod), messages.gate_removed(why))
            pods = [gated for gated in pods if gated.pod.is_last_gate and gated.pod.key not in self._sent]
        if status is not None and (status.waits_for or not all(gated.pod.is_last_gate for gated in pods)):
            self._rest(pods, keeps="all" if status.is_begun or not status.is_known else "nothing")
            return
        held = [gated for gated in pods if self.queue.is_held(gated.pod)]
        if held and not is_begun:
            if any(gated.trouble is not None for gated in held):
                self._rest(pods)
            return
        for gated in pods:
            if not _are_usable(gated.pod, claims[gated.pod.key]):
                # Not all of it could be stored, or a claim is gone.
                self._drop_decision(gated)
        decided = [gated for gated in pods if gated.node and not self.queue.is_held(gated.pod)]
        if not is_begun and len(decided) < len(pods):
            for gated in decided:
                self._drop_decision(gated)
            decided = []
        steps = [self.plans.plan_hand_over(each.pod, each.node, claims[each.pod.key]) for each in decided]
        for gated, step in zip(decided, plan_gang(steps, is_begun=is_begun), strict=True):
            self._carry_out(gated, step)
        self.queue.activate(
            [gated.pod.key for gated in pods if not gated.node and gated.pod.key not in self._sent]
        )

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
            self._safely(self._pods[pod.key], partial(self._decide, pod.key))
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

    def _decide(self, key: Key) -> None:
        """Decide a pod with those of its gang, all at once; once one of these was let go, one by one."""
        status, pods = self._find_group(key)
        if status is not None:
            self._tried.add(status.key)
            for member in status.gated:
                # All of them have had their turn.
                self.queue.active.start(member.key)
        ready = [each for each in pods if each.pod.is_last_gate]
        is_begun = status is None or status.is_begun
        if self._is_under_way(pods) or (status is not None and status.waits_for):
            return
        undecided = [each for each in ready if not each.node and not self.queue.is_held(each.pod)]
        if is_begun:
            for each in undecided:
                self._assign(status, [each])
        elif len(undecided) == len(pods):
            self._assign(status, pods)
        if any(each.node for each in ready):
            # Where everything is stored already, no answer comes that would have them go on.
            self._advance(status, pods)

    def _withdraw_assumed(self, claims: Iterable[ResourceClaim]) -> None:
        """Withdraw what is assumed for claims whose answer never came: it must not block their pod."""
        ledger = self.context.ledger
        used = ledger.version
        for claim in claims:
            ledger.withdraw(*claim_key(claim))
        if ledger.version != used:
            self._in_vain.clear()

    def _assign(self, status: GangStatus | None, pods: list[GatedPod]) -> None:
        """Have some pods decided together, beside those of their gang that were let go."""
        claims = [claim for gated in pods for claim in self._claims(gated.pod)]
        unallocated = [claim for claim in claims if claim.status.allocation is None]
        found: Sequence[PodDecision] | NotFound = "not tried"
        if not any(map(self.context.queue.backoff.holds_claim, unallocated)):
            self._withdraw_assumed(unallocated)
            if not any(map(self._is_of_others, unallocated)):
                found = self._find_node(pods[0]) if status is None else self._find_nodes(status, pods)
        if not isinstance(found, str):
            for gated, decision in zip(pods, found, strict=True):
                self._accept(gated, decision)
            return
        for claim in claims:
            # A pod waits for room now, not for what was said against earlier writes.
            if not self.context.queue.backoff.holds_claim(claim):
                self._claim_troubles.pop(claim_key(claim), None)
        # Of pods of which nobody knows when they go nothing of a node is held.
        self._rest(pods, keeps="claims" if status is None and found == "not tried" else "nothing")
        for gated in pods:
            self._set_trouble(gated, None)

    def _find_node(self, gated: GatedPod) -> Sequence[PodDecision] | NotFound:
        """Return the decision about a pod alone. Pods of one workload are tried once a cycle if there is no room."""
        pod, waiting = gated.pod, self.cluster.gated.get(gated.pod.key)
        if waiting is None:
            return "not tried"
        entries = resolve_entries(waiting.pod, self.decider.find_claim, self.decider.has_template)
        if any(entry.problem is not None for entry in entries):
            return "not tried"
        alike = None
        if not pod.nominated_node and not extended_resources(waiting.pod):
            # Claims of one template share their spec.
            parts = [(id(claim.spec), id(claim.status.allocation)) for claim in self._claims(pod)]
            alike = pod.namespace, waiting.requirements, tuple(parts)
        if alike in self._in_vain:
            return "no room"
        decision = self.decider.find_node(waiting.pod, waiting.requirements)
        if isinstance(decision, PodDecision):
            return (decision,)
        if decision is not None:
            self.queue.backoff.add(pod.key, pod.uid, *ABORTED)
            return "not tried"
        if alike is not None:
            self._in_vain.add(alike)
        return "no room"

    def _find_nodes(self, status: GangStatus, pods: list[GatedPod]) -> Sequence[PodDecision] | NotFound:
        """Return the decisions about pods of a gang."""
        keys = {gated.pod.key for gated in pods}
        gang = self.gangs.build(status, [each for each in status.gated if each.key in keys])
        found = self.gangs.assigner.assign(gang) if isinstance(gang, Gang) else None
        if isinstance(found, NoDecision):
            for gated in pods:
                self.queue.backoff.add(gated.pod.key, gated.pod.uid, *ABORTED)
        if not isinstance(found, Assignment):
            return "no room"
        left, decisions = dict(found.results), list[PodDecision]()
        for gated, node in zip(pods, found.nodes[-len(pods) :], strict=True):
            own = [key for key in left if key[0] == gated.pod.namespace and key[1] in gated.pod.claims]
            decisions.append(PodDecision(node, {key[1]: left.pop(key) for key in own}))
        return decisions

    def _accept(self, gated: GatedPod, decision: PodDecision) -> None:
        """Have the allocations of a pod stored on the node that was found, and the pod nominated to it."""
        pod = gated.pod
        self.queue.accept(pod.key)
        gated.node = decision.node
        self.cluster.assume(pod.key, decision.node)
        self._set_trouble(gated, None)
        by_name = {claim.metadata.name: claim for claim in self._claims(pod)}
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

    def _rest(self, pods: list[GatedPod], *, keeps: Literal["nothing", "claims", "all"] = "nothing") -> None:
        """Have nothing held for pods that are not decided now, but for what is kept of what is stored."""
        for gated in pods:
            self._drop_decision(gated)
            self.queue.set_unschedulable(gated.pod.key)
            if gated.pod.is_nominated_by_operator and keeps != "all":
                # What somebody else set stays.
                self._write(nominate(gated.pod, None))
        if keeps == "nothing" and not any(gated.pod.is_nominated_by_operator for gated in pods):
            # To clear it makes another version of the pod, too.
            for gated in pods:
                self._take_back(gated)

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

    # --- gangs that are not complete

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
        if gated.let_go is None and node:
            gated.let_go = LetGoPod(pod, node)
        if gated.let_go is not None:
            gated.let_go.observe(pod)
        if not node or (gated.let_go is not None and gated.let_go.is_handed_back):
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
            return None if gated.let_go is None else gated.let_go.trouble
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
        if (status := self.gangs.find(key)) is None:
            return None
        for each in status.gated:
            if (found := self.trouble(each.key)) is not None:
                text = f'pod "{each.key[1]}" of {status.title}: {found.message}'
                return PendingReason(found.reason, text)
        return None

    def has_lost_devices(self, key: Key) -> bool:
        """True if a pod was let go, and a claim of it has no allocation any more."""
        gated = self._pods.get(key)
        if gated is None or gated.pod.is_gated or not (gated.let_go or gated.pod.let_go):
            return False
        return self._handback.has_lost_devices(gated.pod)

    def is_waiting(self, key: Key) -> bool:
        """True if there was no room for a pod, or something is against what is to be written for it."""
        return self.queue.is_unschedulable(key) or self.trouble(key) is not None

    def counts(self) -> Mapping[GatedState, int]:
        """Return how many pods are how far."""
        counts = Counter([gated.state for gated in self._pods.values()])
        return {state: counts[state] for state in get_args(GatedState)}

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

    def _is_under_way(self, pods: Iterable[GatedPod]) -> bool:
        """True if one of some pods is being written, or a claim of theirs gets an allocation or loses it."""
        is_changing = self.context.in_flight.is_changing_allocation
        return any(
            gated.pod.key in self._sent
            or any(is_changing(claim_key(claim)) for claim in self._claims(gated.pod))
            for gated in pods
        )

    def _safely(self, gated: GatedPod, work: Callable[[], None]) -> None:
        """Do some work on a pod. After a defect of ours the pod backs off; the others go on."""
        try:
            work()
        except Exception as error:
            pod = gated.pod
            self.context.metrics.defect_logger.exception(Defect.DECISION, pod=text(pod.key))
            self._drop_decision(gated)
            self.queue.backoff.add(pod.key, pod.uid, *DEFECT)
            self._set_trouble(gated, PendingReason(messages.EVENT_INTERNAL, messages.defect(error)))


def _are_usable(pod: SchedulingPod, claims: Sequence[ResourceClaim]) -> bool:
    """Return whether all claims of a pod are there and allocated."""
    return (
        not pod.missing
        and len(claims) == len(pod.claims)
        and all(claim.status.allocation and not claim.metadata.deletion_timestamp for claim in claims)
    )
