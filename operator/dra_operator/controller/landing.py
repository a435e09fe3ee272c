"""Landing: what the answer to a write means.

The writer resolves what it can (it retries, and reads back what it does not know); what reaches this page is
final. A write that succeeded brought the claim's new state, which was taken in just before. One that did not
gives back what was decided, and says when the claim may be tried again: as soon as the version that won is
here, later, or much later. Source: docs/kopf.md, 2.2.
"""

from collections.abc import Mapping
from dataclasses import replace

from dra_operator.api.names import PENDING_ANNOTATION
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
    Unaccepted,
    Unanswered,
    Unknown,
    Unsent,
    Write,
    WriteOutcome,
    Written,
)
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, annotation
from dra_operator.controller.desk import Desk, text
from dra_operator.controller.intake import Changes
from dra_operator.controller.logs import get_logger
from dra_operator.controller.reports import Notice
from dra_operator.controller.telling import Waiting, one_line, subject_of

CONFLICT = (0.05, 30.0)
"""First and longest wait, in seconds; a conflict waits for the newer version at most."""
REFUSAL = (10.0, 600.0)
UNKNOWN = (DOUBT_SECONDS, 600.0)
"""The assumption stands as long as the write may land."""
FORBIDDEN = (1.0, 120.0)
"""An API server that was just started permits nobody anything for a moment, until it has read its roles."""

_PURPOSES: Mapping[type[Write], str] = {
    AllocateWrite: "the allocation",
    # To say so on the claim gives it another version as well.
    FenceWrite: "the removal of a finalizer without an allocation",
    DeallocateWrite: "the removal of allocation and finalizer of this claim, which is being deleted",
}
"""What a write is for, in the words of an Event."""

log = get_logger()


class Landing:
    """Takes in the answers to writes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def take(self, outcome: WriteOutcome, changes: Changes) -> None:
        """Take in one answer and note in `changes` what it changed."""
        desk, write = self._desk, outcome.write
        if isinstance(outcome, Unanswered):
            desk.metrics.writes.labels(write.kind, outcome.result).inc()
            self._tell_in_vain(
                write, f"gives no clear answer to {_PURPOSES.get(type(write))}: {outcome.message}"
            )
            return
        expected, held = desk.flights.finish(write)
        if not expected:
            return
        desk.metrics.writes.labels(write.kind, outcome.result).inc()
        key = (write.namespace, write.name)
        # Whatever the answer, look at the claim again: what is to be done next may have changed meanwhile.
        changes.seen.add(key)
        if isinstance(outcome, Written):
            for (verb, resource), denied in desk.rights.grant(write).items():
                log.info(messages.PERMITTED, verb=verb, resource=resource)
                # They are older than many that come now, and must not lose their devices to these.
                desk.putoffs.end(denied)
                desk.lingering.end(denied)
            self._written(key, write, changes)
            if held is not None:
                self._launch_held(key, held, changes)
        else:
            # Of an answer that never came nobody knows; the assumption stands until the claim is decided again. What
            # is held was never sent.
            unknown = isinstance(outcome, Unknown) or (isinstance(outcome, Forbidden) and outcome.may_be_done)
            if held is not None or (isinstance(write, AllocateWrite) and not unknown):
                self._withdraw(key, changes)
            self._not_written(key, outcome)

    def _written(self, key: Key, write: Write, changes: Changes) -> None:
        desk = self._desk
        permitted = desk.reports.clear((messages.EVENT_FORBIDDEN, key))
        if isinstance(write, AnnotateWrite):
            if permitted:
                # The last Event is not what the claim waits for.
                desk.say(desk.telling.once_more(key))
            if write.annotation == PENDING_ANNOTATION:
                desk.telling.accepted(key)
            desk.lingering.forget(key)
        else:
            # An annotation says only that the claim waits, perhaps because it was put off.
            desk.putoffs.accepted(key)
        if isinstance(write, DeallocateWrite):
            desk.metrics.deallocations.inc()
            log.info(messages.DEALLOCATED, claim=text(key), uid=write.uid)
        elif isinstance(write, AllocateWrite):
            # The new state took the place of the assumption when it was taken in. If the allocation has been
            # cleared again since, or the claim made anew, the assumption must not outlive it, and the claim is
            # to be decided again.
            self._withdraw(key, changes)
            desk.telling.waits_no_more(key)
            self._announce(key, write)

    def _announce(self, key: Key, write: AllocateWrite) -> None:
        desk = self._desk
        waited = desk.clock() - desk.since.pop(key, desk.clock())
        node = desk.nodes.pop(key, "")
        desk.metrics.allocations.inc()
        desk.metrics.allocation_seconds.observe(waited)
        log.info(
            messages.ALLOCATED,
            claim=text(key),
            uid=write.uid,
            # Where every node can use it, none is meant.
            node=node if "nodeSelector" in write.allocation else "",
            devices=len(write.allocation["devices"].get("results", ())),
            waited_ms=round(waited * 1000),
            **{"pass": desk.number},
        )
        claim = desk.book.get(key)
        if claim is None or claim.metadata.uid != write.uid or claim.status.allocation is None:
            return
        sentence = one_line(messages.allocated(claim.status.allocation, node))
        desk.say(Notice(subject_of(claim), "Normal", messages.EVENT_ALLOCATED, sentence))
        desk.stored.append((key, write.uid))

    def _launch_held(self, key: Key, held: AllocateWrite, changes: Changes) -> None:
        book = self._desk.book
        claim = book.get(key)
        if claim is None or claim.metadata.uid != held.uid or not book.is_waiting(key):
            # Allocated by another, being deleted, recreated, a pod's by now.
            self._withdraw(key, changes)
            return
        self._desk.launch(
            replace(
                held,
                resource_version=claim.metadata.resource_version,
                finalizers=claim.metadata.finalizers,
                drop_annotation=annotation(claim) is not None,
            )
        )

    def _withdraw(self, key: Key, changes: Changes) -> None:
        """Give back what was decided for a claim and will not be written."""
        ledger = self._desk.ledger
        used = ledger.version
        ledger.withdraw(*key)
        changes.wide |= ledger.version != used
        changes.dirty.add(key)

    def _not_written(self, key: Key, outcome: WriteOutcome) -> None:
        desk, write = self._desk, outcome.write
        match outcome:
            case Unaccepted(message=why):
                # Soon, as that may be over; not for a version: the patch before it made another one, and so does what
                # is told on the claim.
                does = f"does not accept {_PURPOSES.get(type(write))}: {why}"
                if _is_told(self._in_vain(key, write, does, CONFLICT)):
                    log.warning(
                        messages.WRITE_UNACCEPTED, claim=text(key), uid=write.uid, write=write.kind, why=why
                    )
            case Conflict() | Gone():
                # The newer version, or the deletion, is on its way to us. Until it is here, the same would
                # happen.
                desk.putoffs.for_version(key, write.uid, write.resource_version, *CONFLICT)
                why = outcome.message if isinstance(outcome, Conflict) else "the claim is gone"
                # kube-controller-manager clears deleted claims as well, and is often faster.
                facts = {"claim": text(key), "uid": write.uid, "write": write.kind, "why": why}
                if isinstance(write, DeallocateWrite):
                    log.debug(messages.WRITE_CONFLICT, **facts)
                else:
                    log.info(messages.WRITE_CONFLICT, **facts)
            case Unknown():
                desk.putoffs.for_time(key, write.uid, *UNKNOWN)
            case Unsent():
                pass
            case Refused(message=why):
                does = f"refuses {_PURPOSES.get(type(write))}: {why}"
                if _is_told(self._in_vain(key, write, does, REFUSAL)):
                    log.warning(
                        messages.WRITE_REFUSED, claim=text(key), uid=write.uid, write=write.kind, why=why
                    )
            case Forbidden():
                self._forbidden(key, write, outcome.error)

    def _forbidden(self, key: Key, write: Write, error: ApiError) -> None:
        """Say which right is missing, and put the claim off until somebody may have given it to us."""
        desk = self._desk
        self._put_off(key, write, *FORBIDDEN)
        why = messages.forbidden(error)
        if desk.rights.deny(error.verb, error.resource, key, why):
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
        claim = desk.book.get(key)
        if claim is None:
            return
        if isinstance(write, AllocateWrite | FenceWrite):
            # There are devices for it now, or will be; what it waits for is the right.
            right = f"{error.verb} {error.resource}"
            desk.say(desk.telling.waits(claim, Waiting(messages.EVENT_FORBIDDEN, right, why)))
            return
        notice = Notice(subject_of(claim), "Warning", messages.EVENT_FORBIDDEN, one_line(why))
        sameness = (error.verb, error.resource)
        desk.say(desk.reports.state((messages.EVENT_FORBIDDEN, key), notice, sameness, desk.clock()))

    def _in_vain(self, key: Key, write: Write, does: str, waits: tuple[float, float]) -> int:
        """Put a claim off whose write the API server does not take, and say so; `does` follows "the API server".

        That is said by an Event, and where the claim waits for the write, by its annotation. Return how often it was
        in vain by now.
        """
        desk = self._desk
        self._put_off(key, write, *waits)
        if isinstance(write, AnnotateWrite):
            told = desk.telling.refused(key) if write.annotation == PENDING_ANNOTATION else 0
            return told or desk.lingering.refused(key)
        self._tell_in_vain(write, does)
        return desk.putoffs.refused(key)

    def _tell_in_vain(self, write: Write, does: str) -> None:
        desk, why = self._desk, f"the API server {does}"
        claim = desk.book.get((write.namespace, write.name))
        if claim is None or isinstance(write, AnnotateWrite):
            return
        if isinstance(write, DeallocateWrite):
            desk.say(Notice(subject_of(claim), "Warning", messages.EVENT_REFUSED, one_line(why)))
        else:
            desk.say(desk.telling.waits(claim, Waiting(messages.EVENT_REFUSED, None, why)))

    def _put_off(self, key: Key, write: Write, first: float, longest: float) -> None:
        """Put a claim off, unless only an annotation could not be written, or taken off.

        That must not keep the claim from being allocated or let go, and has a pause of its own.
        """
        if not isinstance(write, AnnotateWrite):
            self._desk.putoffs.for_time(key, write.uid, first, longest)
        elif write.text is None or write.annotation != PENDING_ANNOTATION:
            self._desk.lingering.for_time(key, write.uid, first, longest)


def _is_told(times: int) -> bool:
    """Return whether the log has what was in vain so often: a webhook may be away all night, for a thousand claims."""
    return times in (1, 2, 4, 8) or times % 16 == 0
