"""What the answer to a write means for its claim, and the writes of claims that need no decision.

The writer resolves what it can (it retries, and reads back what it does not know); what is handled here is final. A
write that succeeded brought the claim's new state, which was taken in just before. One that did not gives back what was
assumed, and says when the claim may be tried again. Source: docs/kopf.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.delivery import DOUBT_SECONDS
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import (
    AllocateWrite,
    AnnotateWrite,
    Conflict,
    DeallocateWrite,
    FenceWrite,
    Forbidden,
    Gone,
    Refused,
    ReserveWrite,
    Unaccepted,
    Unanswered,
    Unknown,
    Unsent,
    WithdrawWrite,
    Write,
    WriteOutcome,
    Written,
)
from dra_operator.controller import messages
from dra_operator.controller.claims import (
    ClaimStore,
    Key,
    Standing,
    annotation,
    is_released,
    text,
    version_of,
)
from dra_operator.controller.event_dedup import EventDeduplicator, EventRequest, one_line, subject_of, warning
from dra_operator.controller.ingest import DeltaEffects
from dra_operator.controller.logs import get_logger
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.pending_status import PendingReason, PendingStatus
from dra_operator.controller.permissions import WriteAccess
from dra_operator.controller.queue import InFlightWrites, SchedulingQueue
from dra_operator.ledger import Ledger

CONFLICT = (0.05, 30.0)
"""First and longest wait, in seconds; a conflict waits for the newer version at most."""
REFUSAL = (10.0, 600.0)
UNKNOWN = (DOUBT_SECONDS, 600.0)
"""The assumption stands as long as the write may be stored."""
FORBIDDEN = (1.0, 120.0)
"""An API server that was just started permits nobody anything for a moment, until it has read its roles."""

_PURPOSES: Mapping[type[Write], str] = {
    AllocateWrite: "the allocation",
    # To say so on the claim gives it another version as well.
    FenceWrite: "the removal of a finalizer without an allocation",
    ReserveWrite: "the reservation for a gated pod",
    DeallocateWrite: "the removal of allocation and finalizer of this claim, which is being deleted",
    WithdrawWrite: "the removal of allocation and finalizer of this claim, which no pod uses",
}
"""What a write is for, in the words of an Event."""

log = get_logger()


@dataclass(slots=True)
class WriteResultHandler:
    """Takes in the answers to writes. `on_allocated` gets key and uid of each claim whose allocation is stored."""

    claims: ClaimStore
    ledger: Ledger
    in_flight: InFlightWrites
    queue: SchedulingQueue
    events: EventDeduplicator
    pending: PendingStatus
    access: WriteAccess
    metrics: Metrics
    on_allocated: Callable[[Key, str], None]
    report_for_pods: Callable[[Key, PendingReason | None], None] | None = None
    """Is told what keeps the claim of gated pods from being written, since it is the pods of which that is said; None
    once it is written."""

    def handle(self, outcome: WriteOutcome, effects: DeltaEffects, cycle: int) -> None:
        """Take in one answer and add to `effects` what it changed; `cycle` is the number of this one."""
        write = outcome.write
        if isinstance(outcome, Unanswered):
            self.metrics.writes.labels(write.kind, outcome.result).inc()
            self._report_refusal(
                write, f"gives no clear answer to {_PURPOSES.get(type(write))}: {outcome.message}"
            )
            return
        is_expected, queued = self.in_flight.finish(write)
        if not is_expected:
            return
        self.metrics.writes.labels(write.kind, outcome.result).inc()
        key = (write.namespace, write.name)
        # Whatever the answer, look at the claim again: what is to be done next may have changed meanwhile.
        effects.seen.add(key)
        if isinstance(outcome, Written):
            self._handle_permitted(write)
            self._handle_written(key, write, effects, cycle)
            if queued is not None:
                self._submit_queued(key, queued, effects)
            return
        # Of an answer that never came nobody knows; the assumption stands until the claim is decided again. What is
        # queued was never sent.
        is_unknown = isinstance(outcome, Unknown) or (isinstance(outcome, Forbidden) and outcome.may_be_done)
        if queued is not None or (isinstance(write, AllocateWrite) and not is_unknown):
            self._withdraw(key, effects)
        self._handle_not_written(key, outcome)

    def _handle_permitted(self, write: Write) -> None:
        for (verb, resource), denied in self.access.grant(write).items():
            log.info(messages.PERMITTED, verb=verb, resource=resource)
            # They are older than many that come now, and must not lose their devices to these.
            self.queue.backoff.expire(denied)
            self.queue.annotation_backoff.expire(denied)

    def _handle_written(self, key: Key, write: Write, effects: DeltaEffects, cycle: int) -> None:
        was_forbidden = self.events.clear((messages.EVENT_FORBIDDEN, key))
        if isinstance(write, AnnotateWrite):
            if was_forbidden:
                # The last Event is not what the claim waits for.
                self.pending.repeat(key)
            if write.annotation == PENDING_ANNOTATION:
                self.pending.mark_accepted(key)
            self.queue.annotation_backoff.remove(key)
            return
        # An annotation says only that the claim waits, perhaps because it backs off.
        self.queue.backoff.accept(key)
        if self.report_for_pods is not None:
            self.report_for_pods(key, None)
        if isinstance(write, DeallocateWrite):
            self.metrics.deallocations.inc()
            log.info(messages.DEALLOCATED, claim=text(key), uid=write.uid)
        elif isinstance(write, WithdrawWrite):
            log.info(messages.WITHDRAWN, claim=text(key), uid=write.uid)
        elif isinstance(write, ReserveWrite):
            log.debug(messages.RESERVED, claim=text(key), uid=write.uid, pod=write.consumer.name)
        elif isinstance(write, AllocateWrite):
            # The new state took the place of the assumption when it was taken in. If the allocation has been
            # cleared again since, or the claim made anew, the assumption must not outlive it, and the claim is
            # to be decided again.
            self._withdraw(key, effects)
            self.pending.clear(key)
            self._report_allocated(key, write, cycle)

    def _report_allocated(self, key: Key, write: AllocateWrite, cycle: int) -> None:
        waited = self.pending.end(key)
        node = self.in_flight.nodes.pop(key, "")
        self.metrics.allocations.inc()
        self.metrics.allocation_seconds.observe(waited)
        log.info(
            messages.ALLOCATED,
            claim=text(key),
            uid=write.uid,
            # Where every node can use it, none is meant.
            node=node if "nodeSelector" in write.allocation else "",
            devices=len(write.allocation["devices"].get("results", ())),
            waited_ms=round(waited * 1000),
            **{"pass": cycle},
        )
        claim = self.claims.get(key)
        if claim is None or claim.metadata.uid != write.uid or claim.status.allocation is None:
            return
        sentence = one_line(messages.allocated(claim.status.allocation, node))
        self.events.record(EventRequest(subject_of(claim), "Normal", messages.EVENT_ALLOCATED, sentence))
        self.on_allocated(key, write.uid)

    def _submit_queued(self, key: Key, queued: AllocateWrite, effects: DeltaEffects) -> None:
        claim = self.claims.get(key)
        if claim is None or claim.metadata.uid != queued.uid or not self.claims.is_allocatable(key):
            # Allocated by another, being deleted, recreated, a pod's by now.
            self._withdraw(key, effects)
            return
        self.in_flight.submit(
            replace(
                queued,
                resource_version=claim.metadata.resource_version,
                finalizers=claim.metadata.finalizers,
                drop_annotation=annotation(claim) is not None,
            )
        )

    def _withdraw(self, key: Key, effects: DeltaEffects) -> None:
        """Give back what was decided for a claim and will not be written."""
        used = self.ledger.version
        self.ledger.withdraw(*key)
        effects.requeue_all |= self.ledger.version != used
        effects.requeue.add(key)

    def _handle_not_written(self, key: Key, outcome: WriteOutcome) -> None:
        write = outcome.write
        facts = {"claim": text(key), "uid": write.uid, "write": write.kind}
        match outcome:
            case Unaccepted(message=why):
                # Soon, as that may be over; not for a version: the patch before it made another one, and so does what
                # is said on the claim.
                does = f"does not accept {_PURPOSES.get(type(write))}: {why}"
                if _is_logged(self._handle_refusal(key, write, does, CONFLICT)):
                    log.warning(messages.WRITE_UNACCEPTED, **facts, why=why)
            case Conflict() | Gone():
                # The newer version, or the deletion, is on its way to us. Until it is here, the same would
                # happen.
                self.queue.backoff.add(key, write.uid, *CONFLICT, version=write.resource_version)
                why = outcome.message if isinstance(outcome, Conflict) else "the claim is gone"
                # kube-controller-manager clears deleted claims as well, and is often faster.
                if isinstance(write, DeallocateWrite):
                    log.debug(messages.WRITE_CONFLICT, **facts, why=why)
                else:
                    log.info(messages.WRITE_CONFLICT, **facts, why=why)
            case Unknown():
                self.queue.backoff.add(key, write.uid, *UNKNOWN)
            case Unsent():
                pass
            case Refused(message=why):
                does = f"refuses {_PURPOSES.get(type(write))}: {why}"
                if _is_logged(self._handle_refusal(key, write, does, REFUSAL)):
                    log.warning(messages.WRITE_REFUSED, **facts, why=why)
            case Forbidden():
                self._handle_forbidden(key, write, outcome.error)

    def _handle_forbidden(self, key: Key, write: Write, error: ApiError) -> None:
        """Say which right is missing, and back off until somebody may have given it to us."""
        self._back_off(key, write, *FORBIDDEN)
        why = messages.forbidden(error)
        if self.access.deny(error.verb, error.resource, key, why):
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
        claim = self.claims.get(key)
        if claim is None:
            return
        if isinstance(write, AllocateWrite | FenceWrite | ReserveWrite):
            # There are devices for it now, or will be; what it waits for is the right.
            right = f"{error.verb} {error.resource}"
            self._set_pending(claim, PendingReason(messages.EVENT_FORBIDDEN, right, why))
            return
        event = warning(subject_of(claim), messages.EVENT_FORBIDDEN, why)
        self.events.report((messages.EVENT_FORBIDDEN, key), event, (error.verb, error.resource))

    def _handle_refusal(self, key: Key, write: Write, does: str, waits: tuple[float, float]) -> int:
        """Back off from a write that the API server does not accept, and say so; `does` follows "the API server".

        That is said by an Event, and where the claim waits for the write, by its annotation. Return how often it was
        in vain by now.
        """
        self._back_off(key, write, *waits)
        if isinstance(write, AnnotateWrite):
            refusals = self.pending.mark_refused(key) if write.annotation == PENDING_ANNOTATION else 0
            return refusals or self.queue.annotation_backoff.count_refusal(key)
        self._report_refusal(write, does)
        return self.queue.backoff.count_refusal(key)

    def _report_refusal(self, write: Write, does: str) -> None:
        why = f"the API server {does}"
        claim = self.claims.get((write.namespace, write.name))
        if claim is None or isinstance(write, AnnotateWrite):
            return
        if isinstance(write, DeallocateWrite | WithdrawWrite):
            self.events.record(warning(subject_of(claim), messages.EVENT_REFUSED, why))
        else:
            self._set_pending(claim, PendingReason(messages.EVENT_REFUSED, None, why))

    def _set_pending(self, claim: ResourceClaim, why: PendingReason) -> None:
        is_allocated = claim.status.allocation is not None
        if self.report_for_pods is not None and (
            is_allocated or self.claims.standing(claim) is Standing.GATED
        ):
            # One that is allocated waits for nothing itself.
            self.report_for_pods(claim_key(claim), why)
        elif (event := self.pending.set(claim, why)) is not None:
            self.events.record(event)

    def _back_off(self, key: Key, write: Write, first: float, longest: float) -> None:
        """Have a claim back off, unless only an annotation could not be written, or taken off.

        That must not keep the claim from being allocated or released, and has a pause of its own.
        """
        if not isinstance(write, AnnotateWrite):
            self.queue.backoff.add(key, write.uid, first, longest)
        elif write.text is None or write.annotation != PENDING_ANNOTATION:
            self.queue.annotation_backoff.add(key, write.uid, first, longest)


def _is_logged(times: int) -> bool:
    """Return whether the log has what was in vain so often: a webhook may be away all night, for a thousand claims."""
    return times in (1, 2, 4, 8) or times % 16 == 0


@dataclass(slots=True)
class ClaimReleaser:
    """Does for claims what needs no decision.

    A deleted claim of ours is deallocated and its finalizer removed, so that it can go: nobody else does so where
    kube-controller-manager does not run its claim controller. So is one that opted out, perhaps after we had allocated
    it. An allocation that is reserved is never cleared. And our annotation is taken off every claim that has its
    devices or is no longer ours.
    """

    claims: ClaimStore
    ledger: Ledger
    in_flight: InFlightWrites
    queue: SchedulingQueue
    events: EventDeduplicator
    pending: PendingStatus
    access: WriteAccess
    release_of_pod: Callable[[Key], None] | None = None
    """Takes the annotation off the claim of a pod when it is its turn, if claims of pods have it, too."""
    retained: set[Key] = field(default_factory=set)
    """The claims whose deletion waits, since another claim holds a device of theirs."""

    def release_unmanaged(self, key: Key) -> None:
        """Do for one claim what needs no decision."""
        claim = self.claims.get(key)
        if claim is None:
            self._forget(key)
            return
        if self.claims.is_allocatable(key):
            self.pending.mark_changed(key)
            return
        if not is_released(claim):
            self._excuse(key)
        self.pending.clear(key)
        if not self.in_flight.is_allocating(key):
            self.pending.end(key)
        self.retained.discard(key)
        if self.queue.backoff.holds_claim(claim):
            return
        if is_released(claim) and self.claims.is_for_us_to_release(claim):
            if self._shares_a_device(key):
                self.retained.add(key)
            else:
                self.in_flight.submit(_deallocate(claim))
        elif (
            annotation(claim) is not None
            and claim.metadata.deletion_timestamp is None
            and not self.queue.annotation_backoff.holds_claim(claim)
        ):
            if self.release_of_pod is None or self.claims.is_free(claim):
                self.in_flight.submit(_annotate(claim, None))
            elif not self.claims.is_pending_for_pod(claim):
                self.release_of_pod(key)

    def write_annotation(self, key: Key) -> None:
        """Bring the annotation of a claim that waits up to date."""
        claim = self.claims.get(key)
        if claim is None or key in self.in_flight:
            return
        if (due := self.pending.due_annotation(claim)) is not None:
            self.pending.mark_written(key)
            self.in_flight.submit(_annotate(claim, due))

    def _shares_a_device(self, key: Key) -> bool:
        """Return whether another claim holds a device of this one, and may still be used.

        kube-scheduler keeps the devices in use as a set, and forgets one when any claim that holds it is cleared.
        """
        others = [self.claims.get(other) for other in self.ledger.other_holders(key)]
        return any(
            other is None or not other.metadata.deletion_timestamp or other.status.reserved_for
            for other in others
        )

    def _excuse(self, key: Key) -> None:
        """Forget that a write to the claim was not permitted: none is wanted that could not wait."""
        self.access.forget(key)
        self.events.clear((messages.EVENT_FORBIDDEN, key))

    def _forget(self, key: Key) -> None:
        self._excuse(key)
        self.retained.discard(key)
        self.pending.clear(key)
        self.queue.backoff.remove(key)
        self.queue.annotation_backoff.remove(key)
        if key not in self.in_flight:
            self.pending.end(key)
            self.in_flight.nodes.pop(key, None)


def _annotate(claim: ResourceClaim, text: str | None) -> AnnotateWrite:
    """Return the write that sets our annotation, or removes it."""
    return AnnotateWrite(
        *version_of(claim), annotation=PENDING_ANNOTATION, current=annotation(claim), text=text
    )


def _deallocate(claim: ResourceClaim) -> DeallocateWrite:
    return DeallocateWrite(
        *version_of(claim),
        finalizers=claim.metadata.finalizers,
        allocated=claim.status.allocation is not None,
        consumers=len(claim.status.reserved_for),
    )
