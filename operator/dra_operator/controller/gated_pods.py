"""Gated pods: the devices of all their claims are decided together on one node, stored, and then the pod is let go.

Level-triggered: the next step follows from what is stored of a pod and its claims, so that a successor goes on where an
operator was killed. The steps: allocations are stored, and beside that the pod is nominated to the node, which holds
its cpu and memory; the watch has told of the allocations; our gate comes off. Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Protocol

from dra_operator.allocator import Failed
from dra_operator.allocator.extended import extended_resources
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.api.write import to_wire
from dra_operator.cluster.delivery import DOUBT_SECONDS
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.pod_writes import GateWrite, NominateWrite, PodWrite
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import (
    Conflict,
    Consumer,
    Forbidden,
    Gone,
    Refused,
    ReserveWrite,
    Unaccepted,
    Unanswered,
    Unknown,
    Unsent,
    WithdrawWrite,
    WriteOutcome,
    Written,
)
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, Standing, is_pending, text, version_of
from dra_operator.controller.event_dedup import EventRequest, Subject
from dra_operator.controller.handback import Handback
from dra_operator.controller.logs import get_logger
from dra_operator.controller.permissions import WriteAccess
from dra_operator.controller.pod_queue import PodQueue
from dra_operator.controller.queue import InFlightWrites, SchedulingQueue
from dra_operator.controller.timers import Timers
from dra_operator.ledger import Ledger
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.entries import resolve_entries
from dra_operator.pods.gate import SchedulingPod, find_release, not_gated, read_scheduling_pod
from dra_operator.pods.pod_decision import PodDecider, PodDecision

BUDGET: Final = 1.0
"""Seconds for which a cycle decides pods, beside what claims without pods take."""
FLUSH: Final = 0.01
"""Seconds after which decisions made so far are handed over."""
WATCH_SECONDS: Final = 0.01
"""How soon it is asked again whether the watch of claims has told of what was stored."""
CONFLICT: Final = (0.05, 30.0)
"""First and longest wait, in seconds; a conflict waits for the newer version at most."""
REFUSAL: Final = (10.0, 600.0)
FORBIDDEN: Final = (1.0, 120.0)
DEFECT: Final = (5.0, 600.0)
ABORTED: Final = (30.0, 600.0)
"""First and longest wait, in seconds, after a search that used up its time."""

log = get_logger()


class GatedState(Enum):
    """How far a pod is: what the metric of gated pods counts."""

    WAITING = "waiting"
    STORING = "storing"
    LET_GO = "let go"
    HANDED_BACK = "handed back"


class AllocationSink(Protocol):
    """Enters allocations in the ledger, and has them written: `controller.cycle`."""

    def __call__(
        self, decided: Iterable[tuple[ResourceClaim, AllocationResult, Consumer | None]], node: str
    ) -> None:
        """Enter the allocations of one decision in the ledger, and have them written, all with the same time.

        A claim is reserved for the consumer, if there is one.
        """


@dataclass(frozen=True, slots=True)
class WriteTrouble:
    """What the API server says against a write that a pod waits for: reason and text, as in Events."""

    reason: str
    message: str


@dataclass(slots=True)
class GatedPods:
    """Keeps the pods that have no node yet and name claims, and takes those that our gate holds through their steps.

    `send` gets the writes to pods; those to claims go by `in_flight` and `assume`. `has_told` says whether the watch of
    claims has brought a version: kube-scheduler, which watches as well, should have it before the gate comes off.
    `is_ours` says whether the allocation of a claim was made by an operator, `shares_a_device` whether another claim
    holds a device of one.
    """

    claims: ClaimStore
    cluster: ClusterPods
    decider: PodDecider
    ledger: Ledger
    in_flight: InFlightWrites
    claim_queue: SchedulingQueue
    access: WriteAccess
    clock: Callable[[], float]
    timers: Timers
    send: Callable[[PodWrite], None]
    assume: AllocationSink
    record: Callable[[EventRequest], None]
    defect_logger: DefectLogger
    has_told: Callable[[str], bool]
    is_ours: Callable[[ResourceClaim], bool]
    shares_a_device: Callable[[Key], bool]
    on_changed: Callable[[Key], None] = lambda _key: None
    """Is told of each pod of which something else is to be said now."""
    handback: Handback | None = None
    queue: PodQueue = field(init=False)
    _pods: dict[Key, SchedulingPod] = field(default_factory=dict)
    _touched: set[Key] = field(default_factory=set)
    _nodes: dict[Key, str] = field(default_factory=dict)
    """The node that each pod was decided for which is being stored or let go."""
    _writing: dict[Key, PodWrite] = field(default_factory=dict)
    _released: dict[Key, str] = field(default_factory=dict)
    """Why the gate of a pod comes off that was not decided."""
    _troubles: dict[Key, WriteTrouble] = field(default_factory=dict)
    _claim_troubles: dict[Key, WriteTrouble] = field(default_factory=dict)
    _let_go: set[Key] = field(default_factory=set)
    """The pods whose gate an operator took off after a decision, until they have a node."""
    _listed: dict[Key, str] | None = None
    """The version of each gated pod when decisions were first wanted; None before."""
    _listed_claims: dict[Key, str] = field(default_factory=dict)
    """The version of each claim then whose allocation an earlier operator may have taken back."""
    _doubt_until: float = 0.0
    _in_vain: set[object] = field(default_factory=set)
    """What pods have in common for which there was no room in this cycle."""
    _orphaned: set[Key] = field(default_factory=set)
    """Claims of pods that are gone, or that no pod names."""
    _in_doubt: set[Key] = field(default_factory=set)
    """The pods that get no further, or whose claims are taken back, only when that is over."""

    def __post_init__(self) -> None:
        self.queue = PodQueue(self.clock, self.timers)

    # --- taking in

    def observe_pod(self, delta: Delta) -> None:
        """Take in what has become of a pod."""
        key = delta.namespace, delta.name
        pod = None if delta.body is None else read_scheduling_pod(delta.body)
        before = self._pods.get(key)
        if before is not None and (pod is None or pod.uid != before.uid):
            self._forget(key)
        if pod is None or not pod.is_active or pod.node:
            self._forget(key)
            return
        self._pods[key] = pod
        self._touched.add(key)

    def observe_claims(self, keys: Iterable[Key]) -> None:
        """Take in that some claims have changed, or that an answer about them has come."""
        for namespace, name in keys:
            claim = self.claims.get((namespace, name))
            if claim is None:
                self._claim_troubles.pop((namespace, name), None)
            elif not (
                self.claims.scope.has_standalone
                or claim.status.allocation is None
                or self.claims.users((namespace, name))
            ):
                # Of a pod that went while no operator ran, perhaps.
                self._orphaned.add((namespace, name))
            self._touched.update([(namespace, pod) for pod in self.claims.users((namespace, name))])

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
        write = outcome.write
        key = write.namespace, write.name
        if self._writing.get(key) is not write:
            return
        facts = {"pod": text(key), "uid": write.uid, "write": write.kind}
        if isinstance(outcome, Unanswered):
            self._set_trouble(key, messages.EVENT_REFUSED, messages.pod_refused(write.kind, outcome.message))
            return
        del self._writing[key]
        self._touched.add(key)
        match outcome:
            case Written():
                self._handle_written(key, write)
            case Unaccepted(message=why) | Refused(message=why):
                log.warning(messages.WRITE_REFUSED, **facts, why=why)
                self.queue.backoff.add(key, write.uid, *REFUSAL)
                self._set_trouble(key, messages.EVENT_REFUSED, messages.pod_refused(write.kind, why))
            case Conflict() | Gone():
                self.queue.backoff.add(key, write.uid, *CONFLICT, version=write.resource_version)
            case Forbidden(error=error):
                why = messages.forbidden(error)
                self.queue.backoff.add(key, write.uid, *FORBIDDEN)
                if self.access.deny(error.verb, error.resource, key, why):
                    log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
                self._set_trouble(key, messages.EVENT_FORBIDDEN, why)
            case Unknown() | Unsent():
                self.queue.backoff.add(key, write.uid, *CONFLICT)
        self._released.pop(key, None)

    def _handle_written(self, key: Key, write: PodWrite) -> None:
        for (verb, resource), denied in self.access.grant(write).items():
            log.info(messages.PERMITTED, verb=verb, resource=resource)
            self.queue.backoff.expire(denied)
        self.queue.backoff.accept(key)
        if self._troubles.pop(key, None) is not None:
            self.on_changed(key)
        if not isinstance(write, GateWrite):
            return
        node, why = self._nodes.get(key, ""), self._released.get(key, "")
        log.info(messages.LET_GO, pod=text(key), uid=write.uid, node=node, why=why)
        if why:
            self.record(EventRequest(_subject(write), "Normal", messages.EVENT_GATE_REMOVED, why))

    def _set_trouble(self, key: Key, reason: str, message: str) -> None:
        self._troubles[key] = WriteTrouble(reason, message)
        self.on_changed(key)

    def _forget(self, key: Key) -> None:
        """Forget a pod that is gone, is over, or has a node."""
        if (pod := self._pods.pop(key, None)) is None:
            return
        if not self.claims.scope.has_standalone:
            self._orphaned.update([(pod.namespace, name) for name in pod.claims])
        self._undecide(key)
        self.queue.remove(key)
        self.access.forget(key)
        self._let_go.discard(key)
        if self.handback is not None:
            self.handback.forget(key)
        self._troubles.pop(key, None)
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
        if self._listed is None:
            self._begin()
        touched, self._touched = self._touched, set()
        if self._in_doubt and self.clock() >= self._doubt_until:
            touched |= self._in_doubt
            self._in_doubt.clear()
        for key in touched:
            self._safely(self._advance, key)
        for key in tuple(self._orphaned):
            claim = self.claims.get(key)
            if claim is None or claim.status.allocation is None or self._is_for_us_to_clear(claim):
                self._release_orphan(key)
            elif self.claims.users(key):
                self._orphaned.discard(key)
            # Else its devices may be ours once they have settled.

    def _begin(self) -> None:
        """Remember what an earlier operator may have seen: it may have sent a patch that is still under way."""
        gated = [pod for pod in self._pods.values() if pod.is_gated]
        self._listed = {pod.key: pod.resource_version for pod in gated}
        self._listed_claims = {
            _key(claim): claim.metadata.resource_version
            for claim in self.claims.allocated()
            if not claim.status.reserved_for or self.claims.standing(claim) is Standing.GATED
        }
        self._doubt_until = self.clock() + DOUBT_SECONDS

    def _advance(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None or key in self._writing:
            return
        if not pod.is_gated:
            self._follow(pod)
            return
        if self.queue.is_held(pod):
            return
        if why := self._find_release(pod):
            self._released[key] = why
            self._write(GateWrite(*_version_of(pod), gates=pod.gates))
            return
        self._released.pop(key, None)
        claims = list(self._claims_of(pod))
        if not pod.is_last_gate or self._is_any_changing(claims):
            return
        if key in self._nodes and not pod.missing and len(claims) == len(pod.claims):
            if all(claim.status.allocation and not claim.metadata.deletion_timestamp for claim in claims):
                self._hand_over(pod, claims, self._nodes[key])
                return
            # Not all of it could be stored.
            self._undecide(key)
        self.queue.activate((key,))

    def _find_release(self, pod: SchedulingPod) -> str:
        """Return why a pod is let go without a decision; empty if it is to be decided."""
        why = find_release(pod, self._claims_of(pod))
        return messages.gate_removed(why) if why else ""

    def _hand_over(self, pod: SchedulingPod, claims: list[ResourceClaim], node: str) -> None:
        """Do the next step for a pod all of whose claims are allocated, and which goes to `node`."""
        waiting = self.cluster.gated.get(pod.key)
        if waiting is None or node not in self.cluster.nodes:
            suits = False
        else:
            # Somebody else may have allocated one of them meanwhile, and elsewhere.
            suits = self.decider.can_use(claims, node) and (
                self.cluster.find_obstacle(waiting.requirements, node, pod.key) is None
            )
        # kube-scheduler counts the time that binding conditions may take from that of the allocation.
        is_urgent = any(map(_has_binding_conditions, claims))
        if not suits:
            self._undecide(pod.key)
            self.queue.activate((pod.key,))
        elif self._reserve(pod, claims):
            # What comes of it touches the pod again.
            pass
        elif not is_urgent and pod.nominated_node != node:
            self._nominate(pod, node)
        elif any(map(self._is_claim_in_doubt, claims)):
            self._wait_for_earlier_writes(pod.key)
        elif is_urgent or all(self.has_told(claim.metadata.resource_version) for claim in claims):
            self.timers.set(("watch", pod.key), None)
            self._write(GateWrite(*_version_of(pod), gates=pod.gates))
        else:
            self._touched.add(pod.key)
            self.timers.set(("watch", pod.key), self.clock() + WATCH_SECONDS)

    def _reserve(self, pod: SchedulingPod, claims: list[ResourceClaim]) -> bool:
        """Have each claim reserved for a pod that other pods name as well; return whether that is under way.

        Else kube-controller-manager clears it with the last pod that has run: at any moment, and for a pod that has
        run and is still there again and again. kube-scheduler does not reserve it once more. What somebody else
        allocated is left to them.
        """
        is_under_way = False
        for claim in claims:
            key = _key(claim)
            if not self.claims.is_shared(key) or _is_reserved_for(claim, pod) or not self.is_ours(claim):
                continue
            is_under_way = True
            if key not in self.in_flight and not self.claim_queue.backoff.holds_claim(claim):
                self.in_flight.submit(
                    ReserveWrite(*version_of(claim), _consumers(claim), consumer=_consumer(pod))
                )
        return is_under_way

    def _nominate(self, pod: SchedulingPod, node: str | None) -> None:
        self._write(NominateWrite(*_version_of(pod), current=pod.nominated_node or None, node=node))

    def _write(self, write: PodWrite) -> None:
        self._writing[write.namespace, write.name] = write
        self.send(write)

    # --- deciding

    def decide_all(self, flush: Callable[[], None], stopping: Callable[[], bool]) -> bool:
        """Decide the active pods, each alone; return whether all are done."""
        active, flushed = self.queue.active, self.clock()
        until = flushed + BUDGET
        # What is decided only takes something away.
        self._in_vain.clear()
        for pod in self.queue.begin_cycle(self._pods):
            now = self.clock()
            if stopping() or now >= until:
                return False
            active.start(pod.key)
            self._safely(self._decide, pod.key)
            after = self.clock()
            self.queue.charge(pod.key, after - now)
            if after - flushed >= FLUSH:
                flush()
                flushed = after
        return active.end_cycle()

    def _decide(self, key: Key) -> None:
        pod, waiting = self._pods[key], self.cluster.gated.get(key)
        if key in self._writing or key in self._nodes or not pod.is_last_gate or waiting is None:
            return
        claims = list(self._claims_of(pod))
        if self._is_any_changing(claims):
            return
        unallocated = {claim.metadata.name: claim for claim in claims if claim.status.allocation is None}
        if any(self.claim_queue.backoff.holds_claim(claim) for claim in unallocated.values()):
            if pod.nominated_node:
                # Of a pod of which nobody knows when it goes nothing of a node is held.
                self._nominate(pod, None)
            return
        used = self.ledger.version
        for claim in unallocated.values():
            # If an answer never came, the earlier decision may still be assumed; it must not block the pod.
            self.ledger.withdraw(*_key(claim))
        if self.ledger.version != used:
            self._in_vain.clear()
        entries = resolve_entries(waiting.pod, self.decider.find_claim, self.decider.has_template)
        is_ready = all(entry.problem is None for entry in entries)
        is_ready = is_ready and not any(map(self._is_of_others, unallocated.values()))
        decision = self._find_node_of(pod, waiting, claims) if is_ready else None
        if not isinstance(decision, PodDecision):
            self._set_unschedulable(pod, is_tried=is_ready and decision is None)
            return
        self.queue.accept(key)
        self._troubles.pop(key, None)
        self._nodes[key] = decision.node
        self.cluster.assume(key, decision.node)
        self.on_changed(key)
        consumers = {
            name: _consumer(pod) for name in unallocated if self.claims.is_shared((pod.namespace, name))
        }
        decided = [
            (unallocated[name], allocation, consumers.get(name))
            for name, allocation in decision.allocations.items()
        ]
        self.assume(decided, decision.node)
        if not decision.allocations:
            self._hand_over(pod, claims, decision.node)
        elif pod.nominated_node != decision.node and not any(
            map(_waits_for_binding, decision.allocations.values())
        ):
            # At once, beside the allocations: until then others may take what it needs of the node.
            self._nominate(pod, decision.node)

    def _find_node_of(
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

    def _set_unschedulable(self, pod: SchedulingPod, *, is_tried: bool) -> None:
        """Take in that a pod has no node. Where it was not tried with all its claims, they keep what they have."""
        self.queue.set_unschedulable(pod.key)
        # It waits for that now, and not for what was said against earlier writes.
        self._troubles.pop(pod.key, None)
        for claim in self._claims_of(pod):
            if not self.claim_queue.backoff.holds_claim(claim):
                self._claim_troubles.pop(_key(claim), None)
        if is_tried:
            self._take_back(pod)
        elif pod.nominated_node:
            # Of a pod of which nobody knows when it goes nothing of a node is held.
            self._nominate(pod, None)
        self.on_changed(pod.key)

    def _is_of_others(self, claim: ResourceClaim) -> bool:
        """True if it is not for us to allocate a claim that has no allocation."""
        return is_pending(claim) and self.claims.standing(claim) is not Standing.GATED

    def _undecide(self, key: Key) -> None:
        """Drop the node that a pod was decided for."""
        if self._nodes.pop(key, None) is not None:
            self.cluster.withdraw(key)
        self.timers.set(("watch", key), None)

    # --- pods that were let go

    def _follow(self, pod: SchedulingPod) -> None:
        """Take in what becomes of a pod without our gate, which is kube-scheduler's now.

        After a restart, whose gate was taken off is known by a nomination that an operator set, or by claims that were
        made for their pod: an operator allocates these only while the gate is on. One that the pod only names may have
        had its devices before.
        """
        key = pod.key
        self.queue.set_decided(key)
        node = self._nodes.get(key) or self._find_node(pod)
        if key in self._let_go or node:
            self._let_go.add(key)
            if self.handback is not None:
                self.handback.observe(pod, node)
        if self.handback is None or self.handback.is_handed_back(key) or not node:
            self._undecide(key)

    def _find_node(self, pod: SchedulingPod) -> str:
        """Return the node that an operator nominated a pod to, or for which it stored the claims made for it.

        Empty if none did.
        """
        if pod.is_nominated_by_operator:
            return pod.nominated_node
        for claim in self._claims_of(pod):
            allocation = claim.status.allocation
            if not any(
                owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references
            ):
                continue
            if allocation is not None and not claim.status.reserved_for and self.is_ours(claim):
                return pinned_to(allocation.node_selector) or pod.nominated_node
        return ""

    def hand_back(self) -> float | None:
        """Have the claims taken back of pods that cannot be placed; return when time alone makes more due."""
        return None if self.handback is None else self.handback.run()

    def write_to_pod(self, write: NominateWrite) -> None:
        """Have a pod written that was let go, unless a write to it is under way, or was not accepted just now."""
        key = write.namespace, write.name
        is_held = self.queue.backoff.holds(key, write.uid, write.resource_version)
        if key not in self._writing and not is_held:
            self._write(write)

    # --- taking back

    def _take_back(self, pod: SchedulingPod) -> None:
        """Have taken back what is stored for a pod that it cannot use, and nobody else does.

        Not while a patch of an earlier operator could still let one of its pods go.
        """
        keys = [_key(claim) for claim in self._claims_of(pod) if self._may_take_back(claim, pod.key)]
        users = {(key[0], name) for key in keys for name in self.claims.users(key)}
        others = [self._pods[user] for user in users if user in self._pods]
        if pod.nominated_node:
            # That makes another version of the pod, too.
            self._nominate(pod, None)
        elif any(map(self._is_in_doubt, others)):
            self._wait_for_earlier_writes(pod.key)
        else:
            for key in keys:
                self.in_flight.submit(_withdraw(self.claims.get(key)))

    def _release_orphan(self, key: Key) -> None:
        """Have taken back what was stored for a gated pod that is gone, if nobody names the claim any more.

        Where claims without pods are ours, such a claim keeps what it has.
        """
        claim = self.claims.get(key)
        if key in self.in_flight or (claim is not None and self.claim_queue.backoff.holds_claim(claim)):
            return
        if (
            claim is None
            or claim.status.allocation is None
            or claim.status.reserved_for
            or claim.metadata.deletion_timestamp
            or self.claims.standing(claim) is not Standing.STANDALONE
        ):
            self._orphaned.discard(key)
        elif not self.shares_a_device(key):
            self.in_flight.submit(_withdraw(claim))

    def _may_take_back(self, claim: ResourceClaim, pod: Key) -> bool:
        """True if a claim is allocated, only gated pods name it, and none of the others is being let go with it."""
        key = _key(claim)
        if (
            claim.status.allocation is None
            or key in self.in_flight
            or self.claim_queue.backoff.holds_claim(claim)
        ):
            return False
        # Then it is reserved for gated pods at most.
        if self.claims.standing(claim) is not Standing.GATED:
            return False
        if self.shares_a_device(key) or not self._is_for_us_to_clear(claim):
            # kube-scheduler keeps the devices in use as a set, and would forget one that another claim holds as well.
            return False
        namespace = claim.metadata.namespace
        users = [(namespace, name) for name in self.claims.users(_key(claim)) if (namespace, name) != pod]
        return not any(user in self._nodes or user in self._writing for user in users)

    def _is_for_us_to_clear(self, claim: ResourceClaim) -> bool:
        """True if an operator made the allocation of a claim, or its node is gone: then nobody can use it."""
        assert claim.status.allocation is not None
        node = pinned_to(claim.status.allocation.node_selector)
        return self.is_ours(claim) or (node is not None and node not in self.cluster.nodes)

    def _wait_for_earlier_writes(self, pod: Key) -> None:
        """Have a pod tried again when no write of an earlier operator can be stored any more."""
        self._in_doubt.add(pod)
        self.timers.set("earlier writes", self._doubt_until)

    def _is_claim_in_doubt(self, claim: ResourceClaim) -> bool:
        """True if an earlier operator may have sent that the allocation of a claim is to be taken back."""
        is_listed = self._listed_claims.get(_key(claim)) == claim.metadata.resource_version
        return is_listed and self.clock() < self._doubt_until

    def _is_in_doubt(self, pod: SchedulingPod) -> bool:
        """True if a patch that an earlier operator sent for the present version of a pod may still be stored."""
        listed = (self._listed or {}).get(pod.key)
        return listed == pod.resource_version and self.clock() < self._doubt_until

    # --- what others ask

    def trouble(self, key: Key) -> WriteTrouble | None:
        """Return what is against the writes that a pod waits for, or keeps its claims from being ours."""
        if (found := self._troubles.get(key)) is not None:
            return found
        if key in self._released:
            return None
        pod = self._pods.get(key)
        for claim in () if pod is None else self._claims_of(pod):
            if (found := self._claim_troubles.get(_key(claim))) is not None:
                return found
            if claim.status.allocation is None and self._is_of_others(claim):
                others = sorted(self.claims.users(_key(claim)) - {key[1]})
                return WriteTrouble(messages.EVENT_CLAIM_NOT_GATED, not_gated(claim, others))
        return None

    def is_waiting(self, key: Key) -> bool:
        """True if there was no room for a pod, or something is against what is to be written for it."""
        return self.queue.is_unschedulable(key) or self.trouble(key) is not None

    def counts(self) -> Mapping[GatedState, int]:
        """Return how many pods are how far."""
        counts = Counter(dict.fromkeys(GatedState, 0))
        for key, pod in self._pods.items():
            if pod.is_gated:
                counts[GatedState.STORING if key in self._nodes else GatedState.WAITING] += 1
        for key in self._let_go:
            is_back = self.handback is not None and self.handback.is_handed_back(key)
            counts[GatedState.HANDED_BACK if is_back else GatedState.LET_GO] += 1
        return counts

    def gated_since(self) -> float:
        """Return as Unix time when the pod was created that our gate has held longest; 0 if it holds none."""
        times = [pod.creation for pod in self._pods.values() if pod.is_gated and pod.creation]
        return datetime.fromisoformat(min(times)).timestamp() if times else 0.0

    def _claims_of(self, pod: SchedulingPod) -> Iterator[ResourceClaim]:
        """Yield the claims of a pod that are there, by name."""
        for name in sorted(pod.claims):
            if (claim := self.claims.get((pod.namespace, name))) is not None:
                yield claim

    def _is_any_changing(self, claims: Iterable[ResourceClaim]) -> bool:
        """True if a write is under way by which one of some claims gets an allocation or loses it."""
        return any(self.in_flight.is_changing_allocation(_key(claim)) for claim in claims)

    def _safely(self, work: Callable[[Key], None], key: Key) -> None:
        """Do some work on a pod. After a defect of ours the pod backs off; the others go on."""
        try:
            work(key)
        except Exception as error:
            self.defect_logger.exception(Defect.DECISION, pod=text(key))
            pod = self._pods.get(key)
            self._undecide(key)
            if pod is not None:
                self.queue.backoff.add(key, pod.uid, *DEFECT)
                self._set_trouble(key, messages.EVENT_INTERNAL, messages.defect(error))


def _key(claim: ResourceClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name


def _version_of(pod: SchedulingPod) -> tuple[str, str, str, str]:
    return pod.namespace, pod.name, pod.uid, pod.resource_version


def _subject(write: PodWrite) -> Subject:
    return Subject("Pod", write.namespace, write.name, write.uid)


def _has_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and _waits_for_binding(allocation)


def _waits_for_binding(allocation: AllocationResult) -> bool:
    return any(result.binding_conditions for result in allocation.devices.results)


def _withdraw(claim: ResourceClaim | None) -> WithdrawWrite:
    assert claim is not None
    return WithdrawWrite(
        *version_of(claim),
        finalizers=claim.metadata.finalizers,
        allocated=True,
        consumers=0,
        unreserves=bool(claim.status.reserved_for),
    )


def _consumer(pod: SchedulingPod) -> Consumer:
    return Consumer(pod.name, pod.uid)


def _consumers(claim: ResourceClaim) -> tuple[dict[str, str], ...]:
    """Return what a claim is reserved for, as on the wire."""
    return tuple([to_wire(each) for each in claim.status.reserved_for])


def _is_reserved_for(claim: ResourceClaim, pod: SchedulingPod) -> bool:
    return any(each.uid == pod.uid for each in claim.status.reserved_for)
