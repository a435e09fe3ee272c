"""The scheduling cycle (a *pass* in settings, metrics and logs): take in what arrived, decide, report what came of it.

One cycle runs at a time, in a thread of its own. Nothing else touches the inventory, the ledger and the claim store, so
nothing needs a lock. Writes and Events are for the event loop and handed over as the cycle goes (`emit`). A decision
counts from the moment it is made: it is assumed in the ledger, as by kube-scheduler, until the answer to its write.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Allocated, Decision, Failed, PreemptedError, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.names import BROKEN_ANNOTATION, PENDING_ANNOTATION
from dra_operator.api.text import timestamp
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.api.versions import Rules
from dra_operator.cluster.events import Subject
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.ownership_policy import RuleAnswer, RuleProbe
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Consumer, Write, WriteOutcome, consumer_of
from dra_operator.controller import messages
from dra_operator.controller.allocation_checks import (
    BrokenAllocationReporter,
    DoubleAllocationReporter,
    SelectorWarnings,
)
from dra_operator.controller.claims import (
    ClaimScope,
    ClaimStore,
    Key,
    PodUse,
    annotation,
    text,
)
from dra_operator.controller.context import Context
from dra_operator.controller.facts import Annotations, EventRequest, Facts, PendingReason, PendingStatus
from dra_operator.controller.fencing import WriteFence
from dra_operator.controller.gangs import GROUPS, Gangs
from dra_operator.controller.gated_pods import GatedPods
from dra_operator.controller.health import WriteAccess
from dra_operator.controller.ingest import DeltaEffects, Ingest, name_of
from dra_operator.controller.logs import get_logger
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.object_problems import KIND as KIND_OF_TEMPLATES
from dra_operator.controller.object_problems import ObjectProblems, TemplateChecks
from dra_operator.controller.owned_devices import OwnedDevices, PolicyState, SettlementTimer
from dra_operator.controller.queue import (
    ABORTED,
    BUDGET,
    DEFECT,
    FLUSH,
    Assumed,
    BestEffortTask,
    InFlightWrites,
    SchedulingQueue,
    Timers,
)
from dra_operator.controller.waiting_pods import KINDS as KINDS_OF_PODS
from dra_operator.controller.waiting_pods import PodReasons, WaitingPods
from dra_operator.controller.write_results import ClaimWrites
from dra_operator.explain import Explainer, explain_aborted
from dra_operator.inventory import Inventory
from dra_operator.kinds.world import Inquiry, State
from dra_operator.ledger import Ledger
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.explanation import PodExplainer
from dra_operator.pods.pod_decision import PodDecider

EXPLAINING = 0.2
"""Seconds for which a cycle explains, whatever the rest of it took: claims that arrive meanwhile wait for its end."""
TURN = 1.0
"""Seconds after which a decision or an explanation is cut off if something else waits; it goes on later."""
UNHEARD = (1.0, 30.0)
"""First and longest wait, in seconds, of a claim that may have been allocated, while nothing is heard of claims."""


class Tick:
    """Has all pending claims tried again, whatever has changed."""


Item: TypeAlias = Delta | PodUse | WriteOutcome | RuleAnswer | PolicyState | Inquiry | Tick
"""What a cycle takes in."""
Effect: TypeAlias = Write | RuleProbe | EventRequest
"""What a cycle wants done on the event loop."""
Emit: TypeAlias = Callable[[list[Effect]], None]

_TASKS = (
    "inventory", "collisions", "breakages", "rules", "selectors", "handback", "pods", "templates",
    "views", "metrics",
)  # fmt: skip
"""What a cycle does beside deciding."""
_OPERATOR = Subject("Namespace", "", "dra-operator")

log = get_logger()


@dataclass(slots=True)
class _Unexplained:
    """A claim that waits for an explanation of what was decided, in vain for the seconds `spent` on it so far."""

    uid: str
    decision: Decision
    spent: float = 0.0


@dataclass(eq=False)
class SchedulingCycle:
    """Runs the cycles and keeps their state; used by one thread at a time, but for `reasons` and `notes`.

    `settlement` tells when owned devices may be used, which matters only if the inventory asks for ownership;
    `operator` is what stands for this operator in Events. `clock` is monotonic, in seconds, `wall` the time of day in
    UTC; `hears` says whether what is known of a kind is up to date, `has_told` whether the watch of claims has brought
    a version, `has_arrivals` whether something waits for the next cycle. `scope` says which claims are ours.
    `explains_pods`: why pods wait, and what is wrong with templates, is told as well.
    """

    inventory: Inventory
    ledger: Ledger
    allocator: Allocator
    _: KW_ONLY
    explainer: Explainer
    metrics: Metrics
    event_refresh: float
    clock: Callable[[], float]
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    settlement: SettlementTimer = field(default_factory=lambda: SettlementTimer(settle=0.0, quiet=0.0))
    operator: Subject = _OPERATOR
    hears: Callable[[str], bool] = lambda _kind: True
    has_told: Callable[[str], bool] = lambda _version: True
    has_arrivals: Callable[[], bool] = lambda: False
    scope: ClaimScope = ClaimScope.STANDALONE
    handback_seconds: float = 60.0
    explains_pods: bool = False
    number: int = 0
    """The number of this cycle."""
    _effects: list[Effect] = field(default_factory=list)
    _touched: set[Key] = field(default_factory=set)
    _unexplained: dict[Key, _Unexplained] = field(default_factory=dict)
    _cut_off: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """The uid of each claim whose decision was cut off, and the seconds that it took so far."""
    _counted_reasons: set[str] = field(default_factory=set)
    _gated: GatedPods | None = None
    _gangs: Gangs | None = None
    _is_fenced: bool = True
    """Whether writes of an operator before this one may still be stored."""

    def __post_init__(self) -> None:
        self.progressed_at = self.clock()
        """When a step was finished last, by the clock."""
        metrics, clock = self.metrics, self.clock
        timers = self._timers = Timers()
        claims = self._claims = ClaimStore(self.scope)
        self._ingest = Ingest(self.inventory, self.ledger, claims)
        in_flight = self._in_flight = InFlightWrites(self._effects.append)
        self._queue = SchedulingQueue(claims, self.ledger, in_flight, clock, timers)
        events = self._events = Facts(self.event_refresh, clock, self._effects.append)
        annotated = partial(
            Annotations,
            claims=claims,
            in_flight=in_flight,
            backoff=self._queue.annotation_backoff,
            clock=clock,
            defect_logger=metrics.defect_logger,
        )
        self._annotations = annotated(PENDING_ANNOTATION)
        self._broken_annotations = annotated(BROKEN_ANNOTATION)
        self._pending = PendingStatus(events, self._annotations, clock, self._log_pending)
        self._access, self._pod_access = WriteAccess(), WriteAccess()
        context = self._context = self._build_context()
        self._fence = WriteFence(context)
        self._selector_warnings = SelectorWarnings(context)
        self._owned = OwnedDevices(context, self.settlement, self.operator)
        self._problems = ObjectProblems(context)
        self._templates = TemplateChecks(context)
        self._waiting_pods = self._build_pods()
        gated = self._gated
        self._claim_writes = ClaimWrites(
            context,
            self._pending,
            self._access,
            self._selector_warnings.add,
            None if gated is None else gated.report_claim,
            explains_pods=self._waiting_pods is not None,
        )
        self._double_allocations = DoubleAllocationReporter(context, self._claim_writes.retained)
        self._broken_allocations = BrokenAllocationReporter(context, self._broken_annotations)
        self._state = State(
            self.inventory,
            self.ledger,
            self.explainer,
            find_rule=self._owned.find_status,
            find_claim=claims.get,
            find_allocated=claims.allocated,
            find_pending=claims.pending,
            find_reason=self._pending.find_text,
            find_broken=self._broken_allocations.find_known,
            is_foreign=self._context.is_foreign,
        )
        self._tasks = {name: BestEffortTask(name, clock, timers, metrics.defect_logger) for name in _TASKS}

    def decide_by(self, rules: Rules) -> None:
        """Decide by the rules of a version of Kubernetes; nothing may have been taken in yet."""
        self.explainer.decide_by(rules)
        self._broken_allocations.allocations.decide_by(rules)

    def _build_context(self) -> Context:
        return Context(
            inventory=self.inventory,
            ledger=self.ledger,
            explainer=self.explainer,
            claims=self._claims,
            ingest=self._ingest,
            in_flight=self._in_flight,
            queue=self._queue,
            events=self._events,
            metrics=self.metrics,
            timers=self._timers,
            clock=self.clock,
            wall=self.wall,
            send=self._effects.append,
            hears=self.hears,
            has_told=self.has_told,
        )

    def _build_pods(self) -> WaitingPods | None:
        """Build what is done about pods; None if that is nothing."""
        if not (self.explains_pods or self.scope.has_gated):
            return None
        cluster, find_claim, has_template = ClusterPods(), self._claims.get, self._templates.has
        explainer = PodExplainer(self.explainer, cluster, find_claim, has_template)
        decider = PodDecider(self.explainer, cluster, find_claim, has_template)
        gangs = self._gangs = Gangs(cluster, self._claims, explainer, decider, self._context.clock)
        reasons = PodReasons(cluster, explainer, self.explains_pods, gangs)
        if self.scope.has_gated:
            self._gated = GatedPods(
                context=self._context,
                cluster=cluster,
                gangs=gangs,
                decider=decider,
                access=self._pod_access,
                assume=self._assume,
                on_changed=self._explain_pod_again,
                handback_seconds=self.handback_seconds,
            )
            reasons.gated, reasons.decider = self._gated, decider
        return WaitingPods(self._context, cluster, reasons, self._annotations, self._templates)

    def _explain_pod_again(self, key: Key) -> None:
        if self._waiting_pods is not None:
            self._waiting_pods.explain_again(key)

    # --- what others ask

    def reasons(self) -> tuple[str, ...]:
        """Return why claims cannot be allocated, for `/readyz`. May be called in any thread."""
        return (*self._fence.reasons(), *self._access.reasons(), *self._pod_access.reasons())

    def notes(self) -> list[str]:
        """Return what is not as it should be though decisions go on. May be called in any thread."""
        held_twice = self._double_allocations.held_twice
        return [*self._owned.notes(), *([messages.held_twice(held_twice)] if held_twice else ())]

    # --- the cycle

    def observe(self, items: Iterable[Item]) -> None:
        """Take in what arrived and decide nothing, since not everything has been listed yet."""
        self._ingest_all(_without_inquiries(items))

    def run(self, items: Iterable[Item], emit: Emit, stopping: Callable[[], bool]) -> float | None:
        """Take in what arrived and decide; return the time by which the next cycle is needed, if it is.

        `emit` is called several times with what is to be done; `stopping` says that no more decisions are wanted.
        """
        started = self.clock()
        self.number += 1
        # 1. Ingest, and 2. queue: take in what arrived, and activate what it may help.
        self._requeue(items)
        # 3. Plan: what is written without a decision.
        self._plan()
        self._flush(emit)
        # 4. Decide: claims, then pods that our gate holds.
        is_done = self._is_fenced or self._decide_all(emit, stopping)
        if self._gated is not None and not self._is_fenced:
            is_done &= self._gated.decide_all(partial(self._flush, emit), stopping)
        # What is on its way goes first: to say why a claim waits can take longer than to allocate a hundred others.
        self._flush(emit)
        # 5. Facts: why claims and pods wait, and what is wrong with objects.
        is_done &= self._explain_all(stopping, is_awaited=not is_done)
        self._report_all(emit, stopping)
        # Where no claim waits for weeks, nobody else takes in what has changed, and it would heap up.
        self._tasks["views"].run(self.explainer.refresh)
        self._tasks["metrics"].run(partial(self._measure, started))
        return self._timers.next_due() if is_done else started

    def _requeue(self, items: Iterable[Item]) -> None:
        """Take in what arrived, and activate the claims that it may help and those whose time has come."""
        # What is heard of again only while items are taken in has not brought all that was missed.
        is_heard = self.hears("ResourceClaim")
        requeue_all = self._ingest_all(items if is_heard else _without_inquiries(items))
        requeue_all |= self._owned.refresh()
        expired = self._queue.backoff.pop_expired()
        requeue_all |= self._withdraw_unknown(expired, is_heard=is_heard)
        if requeue_all:
            self._queue.activate_all()
        self._queue.active.add(expired)
        self._queue.activate_due()
        if self._waiting_pods is not None:
            self._waiting_pods.refresh()
        if self._gated is not None:
            self._gated.observe_claims(expired)
            self._gated.requeue(all_waiting=requeue_all)
        self._touched |= expired | self._queue.annotation_backoff.pop_expired() | self._claim_writes.retained

    def _plan(self) -> None:
        """Write what needs no decision: for claims that were touched, rules, and pods that our gate holds."""
        touched, self._touched = self._touched, set()
        for key in touched:
            self._release(key)
            self.progressed_at = self.clock()
        self._tasks["inventory"].run(self._problems.report_inventory)
        self._is_fenced = self._fence.is_pending()
        if self._is_fenced:
            return
        self._tasks["rules"].run(self._owned.write_rules)
        if self._gated is not None:
            self._gated.advance()
            self._tasks["handback"].run(self._gated.run_handback)

    def _report_all(self, emit: Emit, stopping: Callable[[], bool]) -> None:
        self._queue.observe_ledger()
        self._tasks["collisions"].run(self._double_allocations.report)
        self._tasks["breakages"].run(self._broken_allocations.report)
        self._report_facts()
        self._flush(emit)
        self._tasks["selectors"].run(self._selector_warnings.report)
        self._flush(emit)
        if self._waiting_pods is not None:
            self._tasks["pods"].run(partial(self._waiting_pods.run, stopping))
            self._tasks["templates"].run(partial(self._templates.run, stopping))
            self._report_facts()
            self._flush(emit)

    def _report_facts(self) -> None:
        self._timers.set("pending annotations", self._annotations.write())
        self._timers.set("broken annotations", self._broken_annotations.write())
        self._timers.set("events", self._events.record_due())

    # --- taking in

    def _ingest_all(self, items: Iterable[Item]) -> bool:
        """Take in the items, each by itself; return whether every pending claim may be decided differently now."""
        effects = DeltaEffects()
        for item in items:
            try:
                self._ingest_one(item, effects)
            except Exception:
                # A defect of ours must cost one object, not all of them.
                self.metrics.defect_logger.exception(Defect.INTAKE, item=name_of(item))
            self.progressed_at = self.clock()
        for key in effects.gone:
            self._pending.clear(key)
            # One that was made anew at once begins to wait now. An answer that is still to come ends its own wait.
            if key not in self._in_flight:
                self._pending.end(key)
        for key in effects.seen:
            if self._claims.is_allocatable(key):
                self._pending.begin(key)
                if key in self._queue.backoff:
                    effects.requeue.add(key)
        if self._gated is not None:
            self._gated.observe_claims(effects.seen)
        self._queue.active.add(effects.requeue)
        self._touched |= effects.seen
        self._problems.observe(effects)
        self._broken_allocations.observe(effects.seen)
        if self.number > 1:
            # Before, everything is new that was listed.
            self._owned.observe_claims(effects, is_certain=not self._is_fenced)
        return effects.requeue_all

    def _ingest_one(self, item: Item, effects: DeltaEffects) -> None:
        match item:
            case Delta():
                self._ingest_delta(item, effects)
            case PodUse():
                self._ingest.apply_pod(item, effects)
            case PolicyState():
                self._owned.observe_policy(item)
            case RuleAnswer():
                self._owned.observe_answer(item)
            case Inquiry():
                item.answer(self._state)
            case Tick():
                effects.requeue_all = True
            case _:
                self._observe_outcome(item, effects)

    def _observe_outcome(self, outcome: WriteOutcome, effects: DeltaEffects) -> None:
        if outcome.write.resource == "resourceclaims":
            self._claim_writes.handle(outcome, effects, self.number)
            return
        self.metrics.writes.labels(outcome.write.kind, outcome.result).inc()
        if outcome.write.resource == "devicetaintrules":
            self._owned.observe_outcome(outcome)
        elif self._gated is not None:
            self._gated.observe_outcome(outcome)

    def _ingest_delta(self, delta: Delta, effects: DeltaEffects) -> None:
        if delta.kind == KIND_OF_TEMPLATES:
            self._templates.apply(delta)
            return
        if self._gangs is not None and delta.kind in ("Pod", GROUPS):
            changed = self._gangs.observe(delta)
            if self._gated is not None:
                self._gated.touch(changed)
            for key in changed:
                self._explain_pod_again(key)
        if delta.kind == GROUPS:
            return
        if self._waiting_pods is not None and delta.kind in KINDS_OF_PODS:
            self._waiting_pods.apply(delta)
            if self._gated is not None and delta.kind == "Pod":
                self._gated.observe_pod(delta)
            if delta.kind not in ("Node", "DeviceClass"):
                return
        self._fence.observe(delta)
        self._ingest.apply(delta, effects)

    def _withdraw_unknown(self, expired: set[Key], *, is_heard: bool) -> bool:
        """Withdraw what is assumed for claims whose answer has not come in time; return whether that freed any.

        While nothing is heard of claims it stands, as it may be stored.
        """
        used = self.ledger.version
        for key in expired:
            if self._in_flight.is_allocating(key):
                continue
            if is_heard:
                self.ledger.withdraw(*key)
            elif (
                (claim := self._claims.get(key)) and not claim.status.allocation and self.ledger.results(key)
            ):
                self._queue.backoff.add(key, claim.metadata.uid, *UNHEARD)
        return self.ledger.version != used

    # --- what needs no decision

    def _release(self, key: Key) -> None:
        """Do for one claim what needs no decision. After a defect of ours it backs off; the others go on."""
        try:
            self._claim_writes.release_unmanaged(key)
            if not self._claims.is_waiting(key):
                self._problems.excuse(key)
        except Exception:
            self.metrics.defect_logger.exception(Defect.TIDYING, claim=text(key))
            if (claim := self._claims.get(key)) is not None:
                self._queue.backoff.add(key, claim.metadata.uid, *DEFECT)

    # --- deciding

    def _decide_all(self, emit: Emit, stopping: Callable[[], bool]) -> bool:
        """Decide the active claims, each alone; return whether all are done."""
        active = self._queue.active
        claims = self._queue.begin_cycle(self._is_reported)
        for key in [key for key in self._cut_off if self._claims.get(key) is None]:
            del self._cut_off[key]
        is_mid_round, last = active.is_mid_round, ""

        def is_preempted() -> bool:
            return self.clock() >= now + TURN and (
                claim is not claims[-1] or stopping() or self.has_arrivals()
            )

        now = flushed = self.clock()
        until = flushed + BUDGET
        for claim in claims:
            now, key = self.clock(), claim_key(claim)
            if stopping() or now >= until:
                return False
            if is_mid_round and claim.metadata.namespace != last:
                # This one may take as long as those before it of its namespace.
                self._flush(emit)
                last = claim.metadata.namespace
            active.start(key)
            self._safely(partial(self._decide, is_preempted), claim)
            self.progressed_at = self.clock()
            active.charge(key, self.progressed_at - now)
            self.metrics.decision_seconds.observe(self.progressed_at - now)
            if self.progressed_at - flushed >= FLUSH:
                self._flush(emit)
                flushed = self.progressed_at
        return active.end_cycle()

    def _explain_all(self, stopping: Callable[[], bool], *, is_awaited: bool) -> bool:
        """Say why claims wait, fair by namespace as decisions are; return whether all are done.

        Of one namespace those go first of which nothing was said yet, else they are in the order in which they came to
        need it. Each cycle explains one at least, or goes on with it; the rest is left to the next cycle, after its
        decisions. `is_awaited`: there are decisions to be made.
        """

        def priority(key: Key) -> tuple[bool, float, bool]:
            return active.priority(key, is_new=not self._is_reported(key))

        def is_preempted() -> bool:
            return self.clock() >= now + TURN and (is_awaited or stopping() or self.has_arrivals())

        active, now = self._queue.active, self.clock()
        until = now + EXPLAINING
        for key in sorted(self._unexplained, key=priority):
            waiting, claim = self._unexplained[key], self._claims.get(key)
            if claim is None or claim.metadata.uid != waiting.uid or not self._claims.is_waiting(key):
                del self._unexplained[key]
                continue
            self._safely(partial(self._explain, waiting, is_preempted), claim)
            self.progressed_at = self.clock()
            active.charge(key, self.progressed_at - now)
            self.metrics.decision_seconds.observe(self.progressed_at - now)
            now = self.progressed_at
            if self._unexplained and (stopping() or now >= until):
                return False
        return True

    def _is_reported(self, key: Key) -> bool:
        """Return whether it was said why a claim waits, if only on the claim, by an operator before this one."""
        claim = self._claims.get(key)
        return self._pending.reason(key) is not None or (claim is not None and annotation(claim) is not None)

    def _safely(self, work: Callable[[Key, ResourceClaim], None], claim: ResourceClaim) -> None:
        """Do some work on a claim. After a defect of ours the claim backs off; the others go on."""
        key = claim_key(claim)
        try:
            work(key, claim)
        except Exception as error:
            self.ledger.withdraw(*key)
            self._unexplained.pop(key, None)
            self._problems.excuse(key)
            self._queue.backoff.add(key, claim.metadata.uid, *DEFECT)
            self.metrics.defect_logger.exception(Defect.DECISION, claim=text(key), uid=claim.metadata.uid)
            self._set_pending(key, claim, PendingReason(messages.EVENT_INTERNAL, messages.defect(error)))

    def _decide(self, is_preempted: Callable[[], bool], key: Key, claim: ResourceClaim) -> None:
        # If an answer never came, the claim's own earlier decision may still be assumed. It must not block the claim.
        used = self.ledger.version
        self.ledger.withdraw(*key)
        if self.ledger.version != used:
            # If the claim does not take these devices again, others may get them in the next cycle.
            self._queue.active.add(self._claims.waiting())
        decision = self._attempt(is_preempted, key, claim)
        if decision is None:
            self._queue.active.put_back(key)
            return
        self.metrics.decisions.labels(type(decision).__name__.lower()).inc()
        if isinstance(decision, Allocated):
            self._unexplained.pop(key, None)
            self._problems.excuse(key)
            self._assume([(claim, decision.results[0], consumer_of(claim))], decision.node)
            return
        if isinstance(decision, Failed):
            self._problems.blame(key, decision)
            if decision.kind == "aborted":
                self._queue.backoff.add(key, claim.metadata.uid, *ABORTED)
        else:
            self._problems.excuse(key)
        # One that has been decided before keeps its place among them: else the last would never come to be the first.
        waiting = self._unexplained.get(key)
        if waiting is None or waiting.uid != claim.metadata.uid:
            self._unexplained[key] = _Unexplained(claim.metadata.uid, decision)
        else:
            waiting.decision = decision

    def _attempt(self, is_preempted: Callable[[], bool], key: Key, claim: ResourceClaim) -> Decision | None:
        """Decide a claim, or return None if that is cut off and goes on later."""
        began = self.clock()
        uid, spent = self._cut_off.pop(key, ("", 0.0))
        try:
            return self.allocator.allocate((claim,), is_preempted=is_preempted)
        except PreemptedError:
            spent = (spent if uid == claim.metadata.uid else 0.0) + self.clock() - began
        most = self.allocator.limits.seconds
        if most is not None and spent >= most:
            return Failed(
                "aborted", f"the search was given up after {most:g} s", Reason.SEARCH_ABORTED, claim=key
            )
        self._cut_off[key] = claim.metadata.uid, spent
        return None

    def _assume(
        self, decided: Iterable[tuple[ResourceClaim, AllocationResult, Consumer | None]], node: str
    ) -> None:
        """Enter a decision in the ledger, and have it written."""
        # kube-scheduler cannot use a claim whose allocation has no timestamp (docs/dra-semantics, 10).
        allocated_at = timestamp(self.wall())
        for claim, result, consumer in decided:
            key = claim_key(claim)
            allocation = replace(result, allocation_timestamp=allocated_at)
            self.ledger.assume(*key, allocation)
            self._in_flight.allocate(claim, Assumed(claim.metadata.uid, allocation, node, consumer))

    def _explain(
        self, waiting: _Unexplained, is_preempted: Callable[[], bool], key: Key, claim: ResourceClaim
    ) -> None:
        began = self.clock()
        try:
            explanation = self.explainer.explain((claim,), waiting.decision, is_preempted=is_preempted)[0]
        except PreemptedError:
            waiting.spent += self.clock() - began
            most = self.allocator.limits.seconds
            if most is None or waiting.spent < most:
                return
            explanation = explain_aborted(f"the search was given up after {most:g} s")
        del self._unexplained[key]
        why = PendingReason(explanation.reason.value, explanation.message, explanation.request)
        self._set_pending(key, claim, why)

    def _set_pending(self, key: Key, claim: ResourceClaim, why: PendingReason) -> None:
        if self._access.forget_allocation(key):
            self._events.clear((messages.EVENT_FORBIDDEN, key))
        self._pending.set(claim, why)

    def _log_pending(self, event: EventRequest) -> None:
        log.info(
            messages.PENDING,
            claim=text((event.subject.namespace, event.subject.name)),
            uid=event.subject.uid,
            reason=event.reason,
            why=event.message,
            **{"pass": self.number},
        )

    # --- the way out

    def _flush(self, emit: Emit) -> None:
        if self._effects:
            effects = self._effects[:]
            self._effects.clear()
            emit(effects)

    def _measure(self, started: float) -> None:
        self._problems.measure()
        metrics = self.metrics
        metrics.pass_seconds.observe(self.clock() - started)
        metrics.writes_in_flight.set(len(self._in_flight))
        for standing, count in self._claims.standings().items():
            metrics.claims.labels(standing.value).set(count)
        self._measure_waiting()

    def _measure_waiting(self) -> None:
        """Count the claims that wait, by reason, and say since when the one does that has waited longest."""
        metrics, counts, now = self.metrics, self._pending.counts(), self.clock()
        for reason in self._counted_reasons - counts.keys():
            metrics.pending_claims.remove(reason)
            metrics.pending_since_timestamp_seconds.remove(reason)
        time = self.wall().timestamp()
        for reason, (count, since) in counts.items():
            waited = 0.0 if since is None else now - since
            metrics.pending_claims.labels(reason).set(count)
            metrics.pending_since_timestamp_seconds.labels(reason).set(time - waited)
        self._counted_reasons = set(counts)
        if self._waiting_pods is not None:
            metrics.waiting_pods.clear()
            for reason, count in self._waiting_pods.counts().items():
                metrics.waiting_pods.labels(reason).set(count)
        if self._gated is not None:
            for state, number in self._gated.counts().items():
                metrics.gated_pods.labels(state).set(number)
            metrics.gated_since_timestamp_seconds.set(self._gated.gated_since())
            metrics.let_go_since_timestamp_seconds.set(self._gated.let_go_since())


def _without_inquiries(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the others, and refuse these: while nothing is heard of claims, a device may have holders unknown."""
    for item in items:
        if isinstance(item, Inquiry):
            item.refuse()
        else:
            yield item
