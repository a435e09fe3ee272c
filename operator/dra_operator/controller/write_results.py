"""What the answer to a write means for its claim, and the writes of claims that need no decision.

The writer resolves what it can (it retries, and reads back what it does not know); what is handled here is final. A
write that succeeded brought the claim's new state, which was taken in just before. One that did not gives back what was
assumed, and says when the claim may be tried again. Source: docs/kopf.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import GATE
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster import writes
from dra_operator.cluster.delivery import UNCHANGED_SECONDS
from dra_operator.cluster.writes import Denied, Stale, Stored, Unclear, Write, WriteKind, WriteOutcome
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, Standing, is_released, text
from dra_operator.controller.context import Context
from dra_operator.controller.facts import (
    EventRequest,
    PendingReason,
    PendingStatus,
    one_line,
    subject_of,
    warning,
)
from dra_operator.controller.health import WriteAccess
from dra_operator.controller.ingest import DeltaEffects
from dra_operator.controller.logs import get_logger
from dra_operator.controller.queue import Assumed, Backoff

STALE = (0.05, 30.0)
"""First and longest wait, in seconds, for the newer version of an object."""
DENIED = (1.0, 120.0)
"""The same after a refusal. An API server that was just started permits nobody anything until it has read its roles."""
UNCLEAR = (UNCHANGED_SECONDS, 600.0)
"""How long the assumption stands where nobody knows whether it is stored."""

_PURPOSES: Mapping[WriteKind, str] = {
    "allocate": "the allocation",
    # To say so on the claim gives it another version as well.
    "fence": "the removal of a finalizer without an allocation",
    "reserve": "the reservation for a gated pod",
    "deallocate": "the removal of allocation and finalizer of this claim, which is being deleted",
    "withdraw": "the removal of allocation and finalizer of this claim, which no pod uses",
    "annotate": "the annotation",
    "gate": f"the removal of the scheduling gate {GATE}",
    "nominate": "status.nominatedNodeName",
}
"""What a write is for, in the words of an Event."""

log = get_logger()


def back_off(
    outcome: Stale | Denied | Unclear, backoff: Backoff, access: WriteAccess
) -> PendingReason | None:
    """Have an object back off to which a write was not stored, and log why; return what is to be said of it."""
    write, key = outcome.write, outcome.write.key
    facts = {"pod" if write.resource == "pods" else "claim": text(key), "uid": write.uid, "write": write.kind}
    if isinstance(outcome, Stale):
        # The newer version, or the deletion, is on its way to us. Until it is here, the same would happen.
        backoff.add(key, write.uid, *STALE, version=write.version)
        # kube-controller-manager clears deleted claims as well, and is often faster.
        tell = log.info if write.resource != "pods" and write.kind != "deallocate" else log.debug
        tell(messages.WRITE_CONFLICT, **facts, why=outcome.message)
        return None
    backoff.add(key, write.uid, *(DENIED if isinstance(outcome, Denied) else UNCLEAR))
    if (error := outcome.missing) is not None:
        why = messages.forbidden(error)
        if access.deny(error.verb, error.resource, key, why):
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
        return PendingReason(messages.EVENT_FORBIDDEN, why, f"{error.verb} {error.resource}")
    if isinstance(outcome, Unclear):
        return None
    times = backoff.count_refusal(key)
    if times in (1, 2, 4, 8) or times % 16 == 0:
        # A webhook may be away all night, for a thousand claims.
        log.warning(messages.WRITE_REFUSED, **facts, why=outcome.message)
    said = f"the API server refuses {_PURPOSES[write.kind]}: {outcome.message}"
    return PendingReason(messages.EVENT_REFUSED, said)


def take_in_rights(write: Write, access: WriteAccess, *backoffs: Backoff) -> None:
    """Take in that a write was stored, so that its rights are there: what was denied them is tried again."""
    for (verb, resource), denied in access.grant(write).items():
        log.info(messages.PERMITTED, verb=verb, resource=resource)
        # They are older than many that come now, and must not lose their devices to these.
        for backoff in backoffs:
            backoff.expire(denied)


@dataclass(slots=True)
class ClaimWrites:
    """Takes in the answers to writes, and does for claims what needs no decision.

    A deleted claim of ours is deallocated and its finalizer removed, so that it can go: nobody else does so where
    kube-controller-manager does not run its claim controller. So is one that opted out, perhaps after we had allocated
    it. An allocation that is reserved is never cleared. And our annotation is taken off every claim that has its
    devices or is no longer ours. `on_allocated` gets key and uid of each claim whose allocation is stored.
    """

    context: Context
    pending: PendingStatus
    access: WriteAccess
    on_allocated: Callable[[Key, str], None]
    report_for_pods: Callable[[Key, PendingReason | None], None] | None = None
    """Is told what keeps the claim of gated pods from being written, since it is the pods of which that is said; None
    once it is written."""
    explains_pods: bool = False
    """Whether claims of pods that wait have our annotation, too."""
    retained: set[Key] = field(default_factory=set)
    """The claims whose deletion waits, since another claim holds a device of theirs."""

    def handle(self, outcome: WriteOutcome, effects: DeltaEffects, cycle: int) -> None:
        """Take in one answer and add to `effects` what it changed; `cycle` is the number of this one."""
        write = outcome.write
        key = write.key
        if not self.context.in_flight.finish(write):
            return
        self.context.metrics.writes.labels(write.kind, outcome.result).inc()
        # Whatever the answer, look at the claim again: what is to be done next may have changed meanwhile.
        effects.seen.add(key)
        if isinstance(outcome, Stored) and write.kind == "annotate":
            self._handle_annotated(write)
            self._continue(key, effects)
            return
        assumed = self.context.in_flight.pop_assumed(key)
        if assumed is not None and not (isinstance(outcome, Unclear) and write.kind == "allocate"):
            # What was stored took the place of the assumption when it was taken in. If it has been cleared again since,
            # or the claim made anew, the assumption must not outlive it, and the claim is to be decided again.
            self._withdraw(key, effects)
        if isinstance(outcome, Stored):
            self._handle_written(write, assumed, cycle)
        else:
            self._handle_not_written(outcome)

    def _continue(self, key: Key, effects: DeltaEffects) -> None:
        """Send the allocation that was decided while the annotation was being written."""
        claim, assumed = self.context.claims.get(key), self.context.in_flight.assumed(key)
        if assumed is None:
            return
        if (
            claim is not None
            and claim.metadata.uid == assumed.uid
            and self.context.claims.is_allocatable(key)
        ):
            self.context.in_flight.allocate(claim, assumed)
        else:
            # Allocated by another, being deleted, recreated, a pod's by now.
            self.context.in_flight.pop_assumed(key)
            self._withdraw(key, effects)

    def _withdraw(self, key: Key, effects: DeltaEffects) -> None:
        """Give back what was decided for a claim and will not be written."""
        used = self.context.ledger.version
        self.context.ledger.withdraw(*key)
        effects.requeue_all |= self.context.ledger.version != used
        effects.requeue.add(key)

    # --- what is stored

    def _handle_annotated(self, write: Write) -> None:
        self._take_in_rights(write)
        self.context.queue.annotation_backoff.remove(write.key)

    def _handle_written(self, write: Write, assumed: Assumed | None, cycle: int) -> None:
        key = write.key
        self._take_in_rights(write)
        # An annotation says only that the claim waits, perhaps because it backs off.
        self.context.queue.backoff.remove(key)
        if self.report_for_pods is not None:
            self.report_for_pods(key, None)
        match write.kind:
            case "deallocate":
                self.context.metrics.deallocations.inc()
                log.info(messages.DEALLOCATED, claim=text(key), uid=write.uid)
            case "withdraw":
                log.info(messages.WITHDRAWN, claim=text(key), uid=write.uid)
            case "reserve":
                log.debug(messages.RESERVED, claim=text(key), uid=write.uid)
            case "allocate" if assumed is not None:
                self.pending.clear(key)
                self._report_allocated(write, assumed, cycle)

    def _report_allocated(self, write: Write, assumed: Assumed, cycle: int) -> None:
        key, waited = write.key, self.pending.end(write.key)
        self.context.metrics.allocations.inc()
        self.context.metrics.allocation_seconds.observe(waited)
        log.info(
            messages.ALLOCATED,
            claim=text(key),
            uid=write.uid,
            # Where every node can use it, none is meant.
            node="" if assumed.allocation.node_selector is None else assumed.node,
            devices=len(assumed.allocation.devices.results),
            waited_ms=round(waited * 1000),
            **{"pass": cycle},
        )
        claim = self.context.claims.get(key)
        if claim is None or claim.metadata.uid != write.uid or claim.status.allocation is None:
            return
        sentence = one_line(messages.allocated(claim.status.allocation, assumed.node))
        self.context.events.record(
            EventRequest(subject_of(claim), "Normal", messages.EVENT_ALLOCATED, sentence)
        )
        self.on_allocated(key, write.uid)

    def _take_in_rights(self, write: Write) -> None:
        queue = self.context.queue
        take_in_rights(write, self.access, queue.backoff, queue.annotation_backoff)
        self.context.events.clear((messages.EVENT_FORBIDDEN, write.key))

    # --- what is not

    def _handle_not_written(self, outcome: Stale | Denied | Unclear) -> None:
        write, key, queue = outcome.write, outcome.write.key, self.context.queue
        # That an annotation cannot be written must not keep its claim from being allocated or released.
        backoff = queue.annotation_backoff if write.kind == "annotate" else queue.backoff
        why, claim = back_off(outcome, backoff, self.access), self.context.claims.get(key)
        if why is None or claim is None:
            return
        if write.kind in ("allocate", "fence", "reserve"):
            # There are devices for it now, or will be; what it waits for is this.
            self._set_pending(claim, why)
            return
        event = warning(subject_of(claim), why.reason, why.message)
        if why.reason == messages.EVENT_FORBIDDEN:
            self.context.events.report((why.reason, key), event, why.about)
        elif write.kind != "annotate":
            self.context.events.record(event)

    def _set_pending(self, claim: ResourceClaim, why: PendingReason) -> None:
        is_allocated = claim.status.allocation is not None
        if self.report_for_pods is not None and (
            is_allocated or self.context.claims.standing(claim) is Standing.GATED
        ):
            # One that is allocated waits for nothing itself.
            self.report_for_pods(claim_key(claim), why)
        else:
            self.pending.set(claim, why, is_urgent=True)

    # --- what needs no decision

    def release_unmanaged(self, key: Key) -> None:
        """Do for one claim what needs no decision."""
        claim = self.context.claims.get(key)
        if claim is None:
            self._forget(key)
            return
        if self.context.claims.is_allocatable(key):
            self.pending.annotations.observe(key)
            return
        if not is_released(claim):
            self._excuse(key)
        self.pending.clear(key)
        if not self.context.in_flight.is_allocating(key):
            self.pending.end(key)
        self.retained.discard(key)
        if self.explains_pods and self.context.claims.is_pending_for_pod(claim):
            self.pending.annotations.observe(key)
        else:
            self.pending.annotations.take_off(claim)
        if self.context.queue.backoff.holds_claim(claim):
            return
        if is_released(claim) and self.context.claims.is_for_us_to_release(claim):
            if self._shares_a_device(key):
                self.retained.add(key)
            else:
                self.context.in_flight.submit(writes.deallocate(claim))

    def _shares_a_device(self, key: Key) -> bool:
        """Return whether another claim holds a device of this one, and may still be used.

        kube-scheduler keeps the devices in use as a set, and forgets one when any claim that holds it is cleared.
        """
        others = [self.context.claims.get(other) for other in self.context.ledger.other_holders(key)]
        return any(
            other is None or not other.metadata.deletion_timestamp or other.status.reserved_for
            for other in others
        )

    def _excuse(self, key: Key) -> None:
        """Forget that a write to the claim was not permitted: none is wanted that could not wait."""
        self.access.forget(key)
        self.context.events.clear((messages.EVENT_FORBIDDEN, key))

    def _forget(self, key: Key) -> None:
        self._excuse(key)
        self.retained.discard(key)
        self.pending.clear(key)
        self.pending.annotations.forget(key)
        self.context.queue.backoff.remove(key)
        self.context.queue.annotation_backoff.remove(key)
        if key not in self.context.in_flight:
            self.pending.end(key)
