"""Ingest: what arrives from the API server, made into state, one object at a time, in the order of arrival.

An object that cannot be understood is reported and counts as absent. Most of what arrives helps nobody: a heartbeat of
a node, the answer to our own write. So it is also found here which claims are to be tried again: one that changed
itself, or all, as something changed that every one depends on (docs/dra-semantics, 8.14), or a device became free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.cluster.reflector import Delta
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, PodUse, Standing
from dra_operator.controller.facts import EventRequest, subject_of, warning
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger
from dra_operator.questions import fault_texts


@dataclass(slots=True)
class DeltaEffects:
    """What a batch of arrivals changed.

    `requeue_all`: something that every pending claim depends on. `requeue`: claims that may be decided differently by
    themselves. `seen`: claims that arrived at all. `gone`: those that ended, though one of the same name may have come
    since. `foreign`: those that somebody else has allocated. `unreadable`: what is told of each object that arrived and
    cannot be understood; None if it can be, or is gone. `bad_labels`: what is told of labels of our claims; None if
    that is mended, or the claim is gone or not ours.
    """

    requeue_all: bool = False
    requeue: set[Key] = field(default_factory=set)
    seen: set[Key] = field(default_factory=set)
    gone: set[Key] = field(default_factory=set)
    foreign: set[Key] = field(default_factory=set)
    unreadable: dict[tuple[str, str, str], EventRequest | None] = field(default_factory=dict)
    bad_labels: dict[Key, EventRequest | None] = field(default_factory=dict)


class Ingest:
    """Feeds inventory, ledger and claim store."""

    def __init__(self, inventory: Inventory, ledger: Ledger, claims: ClaimStore) -> None:
        self._inventory = inventory
        self._ledger = ledger
        self._claims = claims
        self._touched = ledger.subscribe()
        self._subjects: dict[tuple[str, str], Subject] = {}

    def subject(self, kind: str, name: str) -> Subject:
        """Return the object of that kind and name, as the subject of an Event."""
        return self._subjects.get((kind, name)) or Subject(kind, "", name)

    def apply(self, delta: Delta, effects: DeltaEffects) -> None:
        """Take in one difference and add to `effects` what it changed."""
        place = (delta.kind, delta.namespace, delta.name)
        try:
            obj = None if delta.body is None else read_object(delta.body, delta.kind)
            effects.unreadable[place] = None
        except ObjectError as error:
            effects.unreadable[place] = warning(_subject(delta), messages.EVENT_INVALID, str(error))
            obj = _holding_devices(delta)
        if delta.kind == "ResourceClaim":
            self._apply_claim((delta.namespace, delta.name), obj, effects)
        else:
            self._apply_other(delta, obj, effects)

    def apply_pod(self, use: PodUse, effects: DeltaEffects) -> None:
        """Take in what a pod uses."""
        touched = self._claims.put_pod(use)
        for key in touched:
            if (claim := self._claims.get(key)) is not None:
                # Whose claim it is may depend on the pod, and so whether the label matters.
                self._check_label(key, claim, claim, effects)
        effects.requeue |= touched
        effects.seen |= touched

    def _apply_claim(self, key: Key, claim: ResourceClaim | None, effects: DeltaEffects) -> None:
        effects.seen.add(key)
        before = self._claims.get(key)
        self._check_label(key, before, claim, effects)
        if claim is None:
            effects.gone.add(key)
            used = self._ledger.version
            self._claims.remove(key)
            self._ledger.remove(*key)
            # The version moves only if the claim held something, written or assumed.
            effects.requeue_all |= self._ledger.version != used
            return
        self._claims.put(claim)
        self._touched.by_pool.clear()
        if self._ledger.put(claim):
            effects.foreign.add(key)
        # A device came back: one the claim held, or one we had assumed for it and another writer did not take.
        # That somebody else took a device helps nobody.
        effects.requeue_all |= any(True in devices.values() for devices in self._touched.by_pool.values())
        if before is None or _decisive_fields(before) != _decisive_fields(claim):
            effects.requeue.add(key)

    def _check_label(
        self, key: Key, before: ResourceClaim | None, claim: ResourceClaim | None, effects: DeltaEffects
    ) -> None:
        problem = None if claim is None else fault_texts.odd_label(claim.metadata.labels)
        if claim is not None and problem and self._claims.standing(claim) in (Standing.OURS, Standing.GATED):
            effects.bad_labels[key] = warning(subject_of(claim), messages.EVENT_INVALID, problem)
        elif before is not None and fault_texts.odd_label(before.metadata.labels):
            effects.bad_labels[key] = None

    def _apply_other(self, delta: Delta, obj: Any, effects: DeltaEffects) -> None:
        place = (delta.kind, delta.name)
        before = self._inventory.version
        if obj is None:
            self._inventory.remove(delta.kind, delta.name)
        else:
            self._inventory.put(obj)
        # The version stays as it is when nothing has changed that could alter a decision: a heartbeat, our
        # own label.
        effects.requeue_all |= self._inventory.version != before
        if delta.body is None:
            self._subjects.pop(place, None)
        else:
            self._subjects[place] = _subject(delta)


def _decisive_fields(claim: ResourceClaim) -> tuple[Any, ...]:
    """Return what of a claim can change how it is decided: not its annotations, which we write ourselves."""
    metadata = claim.metadata
    return metadata.uid, metadata.deletion_timestamp, metadata.labels, metadata.owner_references, claim.status


def _subject(delta: Delta) -> Subject:
    metadata: Mapping[str, Any] = (delta.body or {}).get("metadata") or {}
    return Subject(
        delta.kind,
        delta.namespace,
        delta.name,
        str(metadata.get("uid", "")),
    )


def _holding_devices(delta: Delta) -> ResourceClaim | None:
    """Return the claim reduced to the devices it holds, or None if it holds none.

    A claim that cannot be understood gets no devices. Those it has must still not be given to anybody else.
    """
    body = delta.body or {}
    status = body.get("status") or {}
    allocation = status.get("allocation")
    if not allocation:
        return None
    for reduced in (allocation, _identities(allocation)):
        try:
            claim: ResourceClaim = read_object(
                {
                    "apiVersion": body.get("apiVersion"),
                    "metadata": body.get("metadata"),
                    "spec": {},
                    "status": {"allocation": reduced, "reservedFor": status.get("reservedFor")},
                },
                delta.kind,
            )
        except ObjectError:
            continue
        return claim
    return None


def _identities(allocation: Mapping[str, Any]) -> dict[str, Any]:
    """Return what says which devices an allocation holds, and nothing else of it."""
    kept = ("request", "driver", "pool", "device", "adminAccess", "shareID")
    results = (allocation.get("devices") or {}).get("results") or ()
    return {
        "devices": {
            "results": [{name: result[name] for name in kept if name in result} for result in results]
        }
    }


def name_of(item: object) -> str:
    """Return what an item that is taken in is about, for the log."""
    if isinstance(item, Delta):
        return f"{item.kind} {item.namespace}/{item.name}"
    return type(item).__name__
