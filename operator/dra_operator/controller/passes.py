"""The pass: take in what arrived, decide the claims that wait, say what came of it.

One pass runs at a time, in a thread of its own. Nothing else touches the inventory, the ledger and the claim book, so
the operator's view of the cluster changes only between decisions, and nothing needs a lock. Writes and Events are for
the event loop. A pass hands them over as it goes (`emit`), so that the first decisions are being written while the last
are being made.

A decision counts from the moment it is made: it is assumed in the ledger, and its claim is not decided again until the
answer to its write has been taken in. If the process dies in between, nothing is lost: to the next process the claim is
still pending.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from dra_operator.allocator import Allocated, Allocator, Decision, Failed
from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.api.write import allocation_to_wire
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.rule_writer import RuleOutcome
from dra_operator.cluster.writes import AllocateWrite, WriteOutcome
from dra_operator.controller import messages
from dra_operator.controller.asides import SideTask
from dra_operator.controller.breakages import Breakages
from dra_operator.controller.claims import ClaimBook, Key, PodUse, annotation, order, version_of
from dra_operator.controller.collisions import Collisions
from dra_operator.controller.desk import Desk, Effect, text
from dra_operator.controller.fence import Fence
from dra_operator.controller.flights import Flights
from dra_operator.controller.intake import Changes, Intake, named
from dra_operator.controller.landing import Landing
from dra_operator.controller.logs import get_logger
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.ownership import OwnedDevices
from dra_operator.controller.problems import Problems
from dra_operator.controller.putoff import PutOffs
from dra_operator.controller.reports import Notice, Reports, Subject
from dra_operator.controller.selector_warnings import SelectorWarnings
from dra_operator.controller.settlement import FenceState, SettlementTimer
from dra_operator.controller.taken import Taken
from dra_operator.controller.telling import Telling, Waiting, one_line, subject_of
from dra_operator.controller.tidying import keep_annotation, tidy
from dra_operator.controller.turns import Turns
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

BUDGET = 1.0
"""Seconds for which a pass decides, however long it took in; the next one takes in what arrived, and continues."""
EXPLAINING = 0.2
"""Seconds for which a pass explains, whatever the rest of it took: claims that arrive meanwhile wait for its end."""
FLUSH = 0.01
"""Seconds after which decisions made so far are handed over."""
UNHEARD = (1.0, 30.0)
"""First and longest wait, in seconds, of a claim that may have been allocated, while nothing is heard of claims."""
ABORTED = (30.0, 600.0)
"""First and longest wait, in seconds, of a claim whose attempt used up its deadline or its steps."""
BROKEN = (5.0, 600.0)
"""First and longest wait, in seconds, of a claim that met a defect of ours."""


class Tick:
    """Says that all pending claims are to be tried again, whatever has changed."""


Item: TypeAlias = Delta | PodUse | WriteOutcome | RuleOutcome | FenceState | Tick
"""What a pass takes in."""
Emit: TypeAlias = Callable[[list[Effect]], None]

_OPERATOR = Subject("Namespace", "", "dra-operator")

log = get_logger()


def _now() -> datetime:
    return datetime.now(UTC)


class Passes:
    """Runs the passes and keeps their state; used by one thread at a time.

    `settlement` tells when owned devices may be used, which matters only if the inventory asks for ownership;
    `operator` is what stands for this operator in Events.
    `clock` is monotonic, in seconds; `hears` says whether what is known of a kind is up to date.
    """

    def __init__(
        self,
        inventory: Inventory,
        ledger: Ledger,
        allocator: Allocator,
        *,
        metrics: Metrics,
        event_refresh: float,
        clock: Callable[[], float],
        settlement: SettlementTimer | None = None,
        operator: Subject = _OPERATOR,
        hears: Callable[[str], bool] = lambda _kind: True,
    ) -> None:
        book, reports = ClaimBook(), Reports(event_refresh)
        self.desk = Desk(
            ledger=ledger,
            book=book,
            flights=Flights(),
            putoffs=PutOffs(clock),
            reports=reports,
            telling=Telling(reports, clock),
            metrics=metrics,
            clock=clock,
            wall=_now,
        )
        self.fence = Fence(clock)
        self._allocator = allocator
        self._intake = Intake(inventory, ledger, book)
        self._landing = Landing(self.desk)
        self._problems = Problems(self.desk, inventory, self._intake)
        timer = settlement or SettlementTimer(settle=0.0, quiet=0.0)
        self.owned = OwnedDevices(self.desk, inventory, self._intake, timer, operator)
        self._collisions = Collisions(self.desk, inventory, self._intake, partial(hears, "ResourceSlice"))
        self._breakages = Breakages(self.desk, inventory, lambda: hears("ResourceSlice") and hears("Node"))
        self._selector_warnings = SelectorWarnings(self.desk, allocator, clock)
        self._hears_claims = partial(hears, "ResourceClaim")
        logger = metrics.defect_logger
        self._asides = {
            name: SideTask(name, clock, logger)
            for name in ("inventory", "collisions", "breakages", "rules", "selectors", "views", "metrics")
        }
        self._untidy: set[Key] = set()
        """The claims that met a defect when they were tidied, and were told so."""
        self._turns = Turns()
        self._taken = Taken(ledger, book, clock)
        self._touched: set[Key] = set()
        self._unexplained: dict[Key, tuple[str, Decision]] = {}
        """The uid of each claim that waits and has not been told why, and what was decided about it."""
        self._reasons: set[str] = set()
        self.progressed_at = clock()
        """When the pass thread last finished a step, by the clock."""

    def learn(self, items: Iterable[Item]) -> None:
        """Take in what arrived and decide nothing, since not everything has been listed yet."""
        self._take_in(items)

    def run(self, items: Iterable[Item], emit: Emit, stopping: Callable[[], bool]) -> float | None:
        """Take in what arrived and decide; return the time by which the next pass is needed, if it is.

        `emit` is called several times with what is to be done; `stopping` says that no more decisions are wanted.
        """
        desk, started = self.desk, self.desk.clock()
        desk.number += 1
        # What is heard of again only while items are taken in has not told all that was missed.
        heard = self._hears_claims()
        wide = self._take_in(items)
        wide |= self.owned.refresh()
        over = desk.putoffs.over()
        wide |= self._end_unknown(over, heard=heard)
        if wide:
            self._taken.asked_all()
            self._turns.want(desk.book.waiting())
        self._turns.want(over | self._taken.due())
        self._touched |= over | desk.lingering.over() | desk.uncleared
        self._tidy_all()
        self._asides["inventory"].do(self._problems.report_inventory)
        fenced = self.fence.stands(desk)
        if not fenced:
            self._asides["rules"].do(self.owned.write_rules)
        self._flush(emit)
        finished = fenced or self._decide_all(emit, stopping)
        # What is on its way goes first: to say why a claim waits can take longer than to allocate a hundred others.
        self._flush(emit)
        finished &= self._explain_all(stopping)
        for notice in desk.telling.late():
            self._tell_pending(notice)
        for key in desk.telling.unsettled():
            self._keep_annotation(key)
        self._taken.look()
        self._asides["collisions"].do(self._collisions.report)
        self._asides["breakages"].do(self._breakages.report)
        desk.pile.extend(desk.reports.due(desk.clock()))
        self._flush(emit)
        self._asides["selectors"].do(self._selector_warnings.report)
        self._flush(emit)
        # Where no claim waits for weeks, nobody else takes in what has changed, and it would heap up.
        self._asides["views"].do(self._allocator.refresh)
        self._asides["metrics"].do(partial(self._measure, started))
        return self._wake_at() if finished else started

    # --- taking in

    def _take_in(self, items: Iterable[Item]) -> bool:
        """Take in the items, each by itself; return whether every pending claim may be decided differently now."""
        desk, changes, wide = self.desk, Changes(), False
        for item in items:
            try:
                match item:
                    case Delta():
                        self.fence.note(item)
                        self._intake.take(item, changes)
                    case PodUse():
                        self._intake.take_pod(item, changes)
                    case FenceState():
                        self.owned.observe_fence(item)
                    case RuleOutcome():
                        self.owned.observe_outcome(item)
                    case Tick():
                        wide = True
                    case _:
                        self._landing.take(item, changes)
            except Exception:
                # A defect of ours must cost one object, not all of them.
                desk.metrics.defect_logger.exception(Defect.INTAKE, item=named(item))
            self.progressed_at = desk.clock()
        for key in changes.gone:
            # One that was made anew at once begins to wait now. An answer that is still to come tells its own time.
            if key not in desk.flights:
                desk.since.pop(key, None)
        for key in changes.seen:
            if desk.book.is_waiting(key):
                desk.since.setdefault(key, desk.clock())
                if key in desk.putoffs:
                    changes.dirty.add(key)
        self._turns.want(changes.dirty)
        self._touched |= changes.seen
        self._problems.note(changes)
        self._breakages.observe(changes.seen)
        if desk.number > 1:
            # Before, everything is new that was listed.
            self.owned.observe_changes(changes)
        return wide or changes.wide

    def _end_unknown(self, over: set[Key], *, heard: bool) -> bool:
        """Withdraw what is assumed for claims whose answer has not come in time; return whether that freed any.

        While nothing is heard of claims it stands, as it may be stored.
        """
        desk, used = self.desk, self.desk.ledger.version
        for key in over:
            if desk.flights.allocating(key):
                continue
            if heard:
                desk.ledger.withdraw(*key)
            elif (claim := desk.book.get(key)) and not claim.status.allocation and desk.ledger.results(key):
                desk.putoffs.for_time(key, claim.metadata.uid, *UNHEARD)
        return desk.ledger.version != used

    # --- tidying up

    def _tidy_all(self) -> None:
        """Tidy each claim that was touched, each by itself."""
        touched, self._touched = self._touched, set()
        for key in touched:
            try:
                self._tidy(key)
            except Exception as error:
                self.desk.metrics.defect_logger.exception(Defect.TIDYING, claim=text(key))
                self._leave_untidy(key, error)
            self.progressed_at = self.desk.clock()

    def _tidy(self, key: Key) -> None:
        desk = self.desk
        tidy(desk, key)
        if not desk.book.is_waiting(key):
            self._problems.excuse(key)
            self._taken.forget(key)
        if key in self._untidy and not self._is_left(key):
            self._untidy.discard(key)
            desk.putoffs.forget(key)
            desk.reports.clear(("untidy", key))

    def _is_left(self, key: Key) -> bool:
        """Return whether a claim that does not wait is put off, so that tidying did nothing for it."""
        claim = self.desk.book.get(key)
        return claim is not None and not self.desk.book.is_waiting(key) and self.desk.is_put_off(claim)

    def _leave_untidy(self, key: Key, error: Exception) -> None:
        """Tell of a defect of ours that tidying met. The claim is put off; the others go on."""
        desk, claim = self.desk, self.desk.book.get(key)
        if claim is not None:
            self._untidy.add(key)
            desk.putoffs.for_time(key, claim.metadata.uid, *BROKEN)
            why = one_line(messages.defect(error))
            notice = Notice(subject_of(claim), "Warning", messages.EVENT_INTERNAL, why)
            desk.say(desk.reports.state(("untidy", key), notice, type(error).__name__, desk.clock()))

    def _keep_annotation(self, key: Key) -> None:
        """Bring the annotation of a claim up to date; after a defect of ours it stays until the next change."""
        try:
            keep_annotation(self.desk, key)
        except Exception:
            self.desk.metrics.defect_logger.exception(Defect.TIDYING, claim=text(key))
            self.desk.telling.give_up(key)

    # --- deciding

    def _decide_all(self, emit: Emit, stopping: Callable[[], bool]) -> bool:
        """Decide the claims that are due, the oldest first, each alone; return whether all are done.

        Where they take longer than a pass, `turns` says who comes first from then on.
        """
        desk, turns = self.desk, self._turns
        claims = []
        for key in turns.due():
            claim = desk.book.get(key)
            if (
                claim is None
                or not desk.book.is_waiting(key)
                or desk.flights.allocating(key)
                or desk.is_put_off(claim)
            ):
                turns.skip(key)
            else:
                claims.append(claim)
        flushed = desk.clock()
        until = flushed + BUDGET
        go_on, last = turns.go_on, ""
        for claim in sorted(claims, key=self._place if go_on else order):
            now = desk.clock()
            if stopping() or now >= until:
                return False
            if go_on and claim.metadata.namespace != last:
                # This one may take as long as those before it of its namespace.
                self._flush(emit)
                last = claim.metadata.namespace
            turns.take(claim_key(claim))
            self._safely(self._decide, claim)
            self.progressed_at = desk.clock()
            turns.took(claim_key(claim), self.progressed_at - now)
            desk.metrics.decision_seconds.observe(self.progressed_at - now)
            if self.progressed_at - flushed >= FLUSH:
                self._flush(emit)
                flushed = self.progressed_at
        return turns.end()

    def _place(self, claim: ResourceClaim) -> tuple[tuple[bool, float, bool], tuple[str, str, str]]:
        key = claim_key(claim)
        return self._turns.place(key, is_new=not self._says_why(key)), order(claim)

    def _explain_all(self, stopping: Callable[[], bool]) -> bool:
        """Say why claims wait, first those of which nothing was said yet; return whether all are done.

        Else they are in the order in which they came to need it. Each pass explains at least one; the rest is left to
        the next pass, after its decisions.
        """
        desk = self.desk
        until = desk.clock() + EXPLAINING
        for key in sorted(self._unexplained, key=self._says_why):
            uid, decision = self._unexplained.pop(key)
            claim = desk.book.get(key)
            if claim is None or claim.metadata.uid != uid or not desk.book.is_waiting(key):
                continue
            self._safely(partial(self._explain, decision), claim)
            self.progressed_at = desk.clock()
            if self._unexplained and (stopping() or self.progressed_at >= until):
                return False
        return True

    def _says_why(self, key: Key) -> bool:
        """Return whether it was said why a claim waits, if only on the claim, by an operator before this one."""
        claim = self.desk.book.get(key)
        return self.desk.telling.reason(key) is not None or (
            claim is not None and annotation(claim) is not None
        )

    def _safely(self, work: Callable[[Key, ResourceClaim], None], claim: ResourceClaim) -> None:
        """Do some work on a claim. After a defect of ours the claim is put off; the others go on."""
        desk, key = self.desk, claim_key(claim)
        try:
            work(key, claim)
        except Exception as error:
            desk.ledger.withdraw(*key)
            self._unexplained.pop(key, None)
            self._problems.excuse(key)
            desk.putoffs.for_time(key, claim.metadata.uid, *BROKEN)
            desk.metrics.defect_logger.exception(Defect.DECISION, claim=text(key), uid=claim.metadata.uid)
            self._waits(key, claim, Waiting(messages.EVENT_INTERNAL, None, messages.defect(error)))

    def _decide(self, key: Key, claim: ResourceClaim) -> None:
        # If an answer never came, the claim's own earlier decision may still be assumed. It must not block the claim.
        used = self.desk.ledger.version
        self.desk.ledger.withdraw(*key)
        if self.desk.ledger.version != used:
            # If the claim does not take these devices again, others may get them in the next pass.
            self._turns.want(self.desk.book.waiting())
        decision = self._allocator.allocate((claim,))
        self.desk.metrics.decisions.labels(type(decision).__name__.lower()).inc()
        self._taken.decided(key, decision)
        if isinstance(decision, Allocated):
            self._unexplained.pop(key, None)
            self._problems.excuse(key)
            self._allocate(key, claim, decision)
            return
        if isinstance(decision, Failed):
            self._problems.blame(key, decision)
            if decision.kind == "aborted":
                self.desk.putoffs.for_time(key, claim.metadata.uid, *ABORTED)
        else:
            self._problems.excuse(key)
        # One that has been decided before keeps its place among them: else the last would never come to be the first.
        self._unexplained[key] = claim.metadata.uid, decision

    def _allocate(self, key: Key, claim: ResourceClaim, decision: Allocated) -> None:
        """Enter a decision in the ledger, and have it written."""
        desk = self.desk
        # kube-scheduler cannot use a claim whose allocation has no timestamp (docs/dra-semantics, 14).
        timestamp = desk.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        allocation = replace(decision.results[0], allocation_timestamp=timestamp)
        write = AllocateWrite(
            *version_of(claim),
            finalizers=claim.metadata.finalizers,
            drop_annotation=annotation(claim) is not None,
            allocation=allocation_to_wire(allocation),
        )
        desk.ledger.assume(*key, allocation)
        desk.nodes[key] = decision.node
        desk.telling.under_way(key, claim.metadata.uid)
        desk.launch(write)

    def _explain(self, decision: Decision, key: Key, claim: ResourceClaim) -> None:
        explanation = self._allocator.explain((claim,), decision)[0]
        self._waits(key, claim, Waiting(explanation.reason.value, explanation.request, explanation.message))

    def _waits(self, key: Key, claim: ResourceClaim, waiting: Waiting) -> None:
        desk = self.desk
        if desk.rights.forget_allocation(key):
            desk.reports.clear((messages.EVENT_FORBIDDEN, key))
        if notice := desk.telling.waits(claim, waiting):
            self._tell_pending(notice)

    def _tell_pending(self, notice: Notice) -> None:
        """Tell by an Event and a line of the log why a claim waits."""
        self.desk.say(notice)
        log.info(
            messages.PENDING,
            claim=text((notice.subject.namespace, notice.subject.name)),
            uid=notice.subject.uid,
            reason=notice.reason,
            why=notice.message,
            **{"pass": self.desk.number},
        )

    # --- the way out

    def _flush(self, emit: Emit) -> None:
        if self.desk.pile:
            pile, self.desk.pile = self.desk.pile, []
            emit(pile)

    def _wake_at(self) -> float | None:
        """Return when time alone makes a pass necessary: a wait ends, an annotation or an Event is due."""
        desk = self.desk
        times = (
            desk.putoffs.next_end(),
            desk.lingering.next_end(),
            desk.telling.next_due(),
            desk.reports.next_due(),
            self._taken.next_due(),
            self.fence.next_due(),
            self._asides["inventory"].next_due(self._problems.next_due()),
            self._asides["collisions"].next_due(self._collisions.next_due()),
            self._asides["breakages"].next_due(self._breakages.next_due()),
            self._asides["rules"].next_due(self.owned.next_due()),
            self._asides["selectors"].next_due(self._selector_warnings.next_due()),
            self._asides["views"].next_due(),
            self._asides["metrics"].next_due(),
        )
        return min((time for time in times if time is not None), default=None)

    def _measure(self, started: float) -> None:
        self._problems.measure()
        desk, metrics = self.desk, self.desk.metrics
        metrics.pass_seconds.observe(desk.clock() - started)
        metrics.writes_in_flight.set(len(desk.flights))
        for standing, count in desk.book.standings().items():
            metrics.claims.labels(standing.value).set(count)
        self._measure_waiting()

    def _measure_waiting(self) -> None:
        """Count the claims that wait, by reason, and tell since when the one does that has waited longest."""
        desk, metrics, now = self.desk, self.desk.metrics, self.desk.clock()
        count, since = desk.telling.reasons(), dict[str, float]()
        for key, begun in desk.since.items():
            if len(since) == len(count):
                break
            if (why := desk.telling.reason(key)) is not None:
                # They are in the order in which they began to wait.
                since.setdefault(why, begun)
        for reason in self._reasons - set(count):
            metrics.pending_claims.remove(reason)
            metrics.pending_since_timestamp_seconds.remove(reason)
        time = desk.wall().timestamp()
        for reason, number in count.items():
            metrics.pending_claims.labels(reason).set(number)
            metrics.pending_since_timestamp_seconds.labels(reason).set(time - (now - since.get(reason, now)))
        self._reasons = set(count)
