"""The controller of DeviceReservation: reads what its plan needs, and writes what the plan returns.

What the operator knows of claims may be older than what was just written: each write names the version that it is
about, and a reservation that is deleted goes only when the API server lists no claim of it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import GROUP, MAINTENANCE_KEY, RESERVATION_KIND
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.cluster.session import ApiError
from dra_operator.inventory import Inventory
from dra_operator.kinds.changes import Body, Create, Patch, Plan, find_current
from dra_operator.kinds.device_reservation import (
    CLAIM,
    ENDED,
    MOST_COPIES,
    PHASES,
    PLURAL,
    Copy,
    Reservation,
    Template,
    plan,
    plan_sweep,
    read_reservation,
    read_template,
)
from dra_operator.kinds.world import State, World, path
from dra_operator.ledger import Breakage
from dra_operator.questions.fault_texts import describe_breakages

_NO_EVENTS: Final = frozenset(("None", "Creating", "Pending", "Reserving"))
"""Reasons that are over in a moment, or say nothing."""
_REFUSED: Final = frozenset((400, 403, 422))
"""What a claim is answered that the API server, a quota or a policy does not accept."""
_IN_MAINTENANCE: Final = "in-maintenance"
"""Why a copy gets other devices, beside the causes of broken allocations."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class ReservationController:
    """Reconciles reservations, each by one at a time."""

    world: World
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _phases: dict[str, str] = field(default_factory=dict)

    async def reconcile(self, body: Body) -> Plan:
        """Write what a reservation lacks; return the plan. Raises ApiError, ApiUnreachable, ValidationError."""
        uid = body["metadata"]["uid"]
        async with self._locks.setdefault(uid, asyncio.Lock()):
            current = await self.world.find(
                path(PLURAL, body["metadata"]["namespace"], body["metadata"]["name"])
            )
            # Nothing is to be made for one that is being deleted.
            body = find_current(body, [] if current is None else [current])
            own = read_reservation(body)
            found = await self._reconcile(own)
        if body is current:
            self._record_events(own, body.get("status") or {}, found.status)
        if found.is_released and own.is_deleted:
            self._phases.pop(uid, None)
            self._locks.pop(uid, None)
        else:
            self._phases[uid] = found.status["phase"]
        counts = Counter(self._phases.values())
        for phase in PHASES:
            self.world.metrics.reservations.labels(phase).set(counts[phase])
        return found

    def _record_events(self, own: Reservation, before: Body, status: Body) -> None:
        """Record what was not so before: that all copies can be used, why not, and that a device is lost."""
        known = {each["type"]: (each["status"], each["reason"]) for each in before.get("conditions") or ()}
        for each in status["conditions"]:
            is_good = (each["type"], each["status"]) in (("Ready", "True"), ("Lost", "False"))
            if known.get(each["type"]) == (each["status"], each["reason"]) or each["reason"] in _NO_EVENTS:
                continue
            if each["type"] in ("Ready", "Lost"):
                subject = Subject(RESERVATION_KIND, own.namespace, own.name, own.uid)
                kind = "Normal" if is_good or each["reason"] in ENDED else "Warning"
                self.world.record(subject, kind, each["reason"], each["message"])

    async def _reconcile(self, own: Reservation) -> Plan:
        template = None
        if not own.is_over(self.now()):
            listed = await self.world.find_template(own.namespace, own.template)
            template = None if listed is None else read_template(listed)
        copies = await self.world.ask(lambda state: find_copies(state, own))
        found = self._plan(own, template, copies)
        if found.is_released and own.is_deleted:
            found = self._plan(own, None, await self._list_copies(own))
        refused, causes = {}, {each.name: each.causes for each in copies}
        # Claims that are let go may be what a quota refuses new ones for.
        for change in sorted(found.changes, key=lambda each: isinstance(each, Create)):
            try:
                is_stored = await self.world.write(change)
            except ApiError as error:
                if not isinstance(change, Create) or error.status not in _REFUSED:
                    raise
                refused[change.body["metadata"]["name"]] = str(error)
                continue
            if is_stored and isinstance(change, Patch) and "allocation" in change.body["status"]:
                for cause in causes[change.name]:
                    self.world.metrics.reallocations.labels(cause).inc()
        return self._plan(own, template, copies, refused) if refused else found

    async def sweep(self) -> None:
        """Take the entries of reservations that are gone off claims. Raises ApiError, ApiUnreachable."""
        held = await self.world.ask(
            lambda state: [claim for claim in state.find_allocated() if _has_entry(claim)]
        )
        if held:
            # Read afterwards, so that one which was made meanwhile is there.
            alive = {str(each["metadata"]["uid"]) for each in await self.world.list(path(PLURAL))}
            for change in plan_sweep(held, alive):
                await self.world.write(change)

    def _plan(
        self,
        own: Reservation,
        template: Template | None,
        copies: list[Copy],
        refused: Mapping[str, str] = _NONE,
    ) -> Plan:
        return plan(own, template, copies, self.now(), self.world.served(CLAIM).api_version, refused=refused)

    async def _list_copies(self, own: Reservation) -> list[Copy]:
        """Return the claims that have the name of a copy, as the API server has them now."""
        served, names, found = self.world.served(CLAIM), set(_names(own)), []
        for item in await self.world.list(served.path(own.namespace)):
            if item["metadata"]["name"] in names:
                # What cannot be read of it does not matter here.
                body = {"apiVersion": served.api_version, "kind": CLAIM, "metadata": item["metadata"]}
                body["status"] = {"reservedFor": (item.get("status") or {}).get("reservedFor") or []}
                found.append(Copy(read_object(body)))
        return found


def _has_entry(claim: ResourceClaim) -> bool:
    return any(each.api_group == GROUP for each in claim.status.reserved_for)


def _names(own: Reservation) -> Iterator[str]:
    return map(own.name_copy, range(MOST_COPIES))


def find_copies(state: State, own: Reservation) -> list[Copy]:
    """Return the claims that have the name of a copy, with what the operator knows of them."""
    broken = state.find_broken()
    found = []
    for name in _names(own):
        claim = state.find_claim((own.namespace, name))
        if claim is None:
            continue
        key = claim_key(claim)
        reason, text = state.find_reason(key) if claim.status.allocation is None else ("", "")
        in_maintenance = _find_maintenance(claim, state.inventory) if own.replaces_lost else ""
        breakages = [each for each in broken.get(key, ()) if _is_about(each, claim)]
        found.append(
            Copy(
                claim,
                reason,
                text,
                describe_breakages(breakages) if breakages else in_maintenance,
                frozenset([each.cause.value for each in breakages] or [_IN_MAINTENANCE]),
                is_foreign=state.is_foreign(claim),
                may_end=not state.ledger.shares_a_device(key),
            )
        )
    return found


def _is_about(breakage: Breakage, claim: ResourceClaim) -> bool:
    """Return whether a claim has what is broken: that may have been found of what it had before."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    if breakage.device is None:
        return breakage.node == pinned_to(allocation.node_selector)
    return breakage.device in {(each.driver, each.pool, each.device) for each in allocation.devices.results}


def _find_maintenance(claim: ResourceClaim, inventory: Inventory) -> str:
    """Return which device of a claim is in maintenance, or nothing."""
    rules = [each for each in inventory.rules.values() if each.spec.taint.key == MAINTENANCE_KEY]
    for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
        key = result.driver, result.pool, result.device
        for slice_, index in inventory.find_device(*key):
            if any(inventory.tainted_by(rule, slice_) >> index & 1 for rule in rules):
                return f"device {'/'.join(key)} is in maintenance"
    return ""
