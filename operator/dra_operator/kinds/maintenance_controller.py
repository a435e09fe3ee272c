"""The controller of DeviceMaintenance: reads what its plan needs, writes what it returns, and evicts pods."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle, islice
from typing import Final

from pydantic import ValidationError

from dra_operator.api.names import MAINTENANCE_POLICY
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.cluster.ownership_policy import is_maintenance_fenced, refuses
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.kinds.changes import Body
from dra_operator.kinds.device_maintenance import KIND, PLURAL, Maintenance, read_maintenance
from dra_operator.kinds.device_reservation import read_template
from dra_operator.kinds.maintenance_cards import Holder, find_cards, find_pod, read_holder
from dra_operator.kinds.maintenance_plan import (
    BROKEN,
    SAFE,
    Eviction,
    MaintenancePlan,
    MaintenanceRule,
    Quiet,
    plan,
    read_rule,
)
from dra_operator.kinds.maintenance_status import MaintenanceResult, build_result
from dra_operator.kinds.maintenance_trial import Demand, find_misfit, make_claim, preview
from dra_operator.kinds.world import World, path

_ASKED: Final = 8
"""By so many waiting claims at most the API server is asked: each may be refused for a reason of its own."""


@dataclass(frozen=True, slots=True)
class MaintenanceController:
    """Reconciles maintenances, one at a time."""

    world: World
    quiet: timedelta
    quiet_fenced: timedelta
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _fences: dict[str, datetime] = field(default_factory=dict)

    async def reconcile(self, body: Body) -> MaintenanceResult:
        """Do what a maintenance lacks; return what came of it. Raises ApiError, ApiUnreachable, ValidationError."""
        async with self._turn:
            return await self._reconcile(body)

    async def _reconcile(self, body: Body) -> MaintenanceResult:
        served = self.world.served("DeviceTaintRule")
        bodies = await self.world.list(path(PLURAL))
        uid = body["metadata"]["uid"]
        # What Kopf has of it may be older. One that is gone by now is as one that is being deleted.
        gone = {"metadata": {**body["metadata"], "deletionTimestamp": "now"}}
        own = read_maintenance(next((each for each in bodies if each["metadata"]["uid"] == uid), gone))
        listed = await self.world.list(served.path())
        rules = [rule for each in listed if (rule := read_rule(each, uid)) is not None]
        for forgotten in self._fences.keys() - {each["metadata"]["uid"] for each in listed}:
            del self._fences[forgotten]
        cards, claims = await self.world.ask(lambda state: find_cards(own, state))
        if own.preview is None and cards:
            own = replace(own, preview=await self.world.ask(lambda state: preview(state, cards)))
        make_plan = partial(
            plan,
            own,
            _read_others(bodies, uid),
            cards,
            rules=rules,
            holders={name: await self._read_holder(claim) for name, claim in claims.items()},
            now=datetime.now(UTC).replace(microsecond=0),
            quiet=Quiet(self.quiet, self.quiet_fenced, await self._find_fences(rules)),
            api_version=served.api_version,
        )
        found = make_plan()
        if found.beginning and own.spec.must_still_fit and (misfit := await self._find_misfit(found)):
            found = make_plan(misfit=misfit)
        return await self._carry_out(found)

    async def _find_misfit(self, found: MaintenancePlan) -> str:
        """Return what of `spec.mustStillFit` would not fit once the cards are out of service that are begun."""
        demands = []
        for each in found.maintenance.spec.must_still_fit:
            name = f"{each.namespace}/{each.resource_claim_template_name}"
            body = await self.world.find_template(each.namespace, each.resource_claim_template_name)
            if body is None:
                return f"there is no ResourceClaimTemplate {name}"
            made = [make_claim(read_template(body), each.namespace, index) for index in range(each.copies)]
            demands.append(Demand(name, tuple(made)))
        return await self.world.ask(lambda state: find_misfit(state, found.begun, demands))

    async def _find_fences(self, rules: Sequence[MaintenanceRule]) -> Mapping[str, datetime]:
        """Return since when the API server is known to refuse allocations of the devices of rules, by their uids."""
        asked = [
            (rule.uid, rule.device)
            for rule in rules
            if rule.device is not None and rule.uid not in self._fences
        ]
        if not asked or not await is_maintenance_fenced(self.world.session):
            return self._fences
        claims = await self.world.ask(
            lambda state: [*islice(filter(_has_request, state.find_pending()), _ASKED)]
        )
        for (uid, device), claim in zip(asked, cycle(claims), strict=False):
            await self.world.may_write()
            with contextlib.suppress(ApiError, ApiUnreachable):
                served = self.world.served("ResourceClaim")
                if await refuses(self.world.session, served, claim, device, policy=MAINTENANCE_POLICY):
                    self._fences[uid] = datetime.now(UTC)
        return self._fences

    async def _read_holder(self, claim: ResourceClaim) -> Holder:
        name = find_pod(claim)
        if name is None:
            return read_holder(claim, None)
        where = self.world.served("Pod").path(claim.metadata.namespace, name)
        return read_holder(claim, await self.world.find(where))

    async def _carry_out(self, found: MaintenancePlan) -> MaintenanceResult:
        refused = []
        for change in found.changes:
            try:
                await self.world.write(change)
            except ApiError as error:
                # What is refused keeps neither the other devices from their taint, nor the status from saying so.
                refused.append(str(error))
        evictions = {each: await self._evict(each) for each in found.evictions}
        concluded = build_result(found, evictions, refused)
        own = Subject(KIND, "", found.maintenance.name, found.maintenance.uid)
        for event in concluded.events:
            kind = "Warning" if event.is_warning else "Normal"
            self.world.record(own, kind, event.reason, event.message)
            if event.reason == SAFE:
                self.world.metrics.maintenance_safe_seconds.observe(event.seconds)
            elif event.reason == BROKEN:
                self.world.metrics.maintenance_broken.inc()
        return concluded

    async def _evict(self, eviction: Eviction) -> str:
        """Ask for the eviction of a pod; return why it is refused, empty if it is granted."""
        pod = eviction.pod
        await self.world.may_write()
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        where = self.world.served("Pod").path(pod.namespace, pod.name, "eviction")
        try:
            await self.world.session.request("POST", where, body=body)
        except ApiError as error:
            return error.message
        except ApiUnreachable as error:
            return str(error)
        return ""


def _has_request(claim: ResourceClaim) -> bool:
    return bool(claim.spec.devices.requests)


def _read_others(bodies: Iterable[Body], uid: str) -> list[Maintenance]:
    found = []
    for body in bodies:
        # One that an older schema let pass says so itself, and keeps nothing from the others.
        with contextlib.suppress(ValidationError):
            found.append(read_maintenance(body))
    return [each for each in found if each.uid != uid]
