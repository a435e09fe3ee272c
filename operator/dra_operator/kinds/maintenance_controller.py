"""The controller of DeviceMaintenance: reads what its plan needs, writes what it returns, and evicts pods."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import ValidationError

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.events import Subject
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.kinds.changes import Body
from dra_operator.kinds.device_maintenance import KIND, PLURAL, Maintenance, read_maintenance
from dra_operator.kinds.maintenance_cards import Holder, find_cards, find_pod, read_holder
from dra_operator.kinds.maintenance_plan import BROKEN, SAFE, Eviction, MaintenancePlan, plan, read_rule
from dra_operator.kinds.maintenance_status import MaintenanceResult, build_result
from dra_operator.kinds.world import World, path

_GONE: Final = 404


@dataclass(frozen=True, slots=True)
class MaintenanceController:
    """Reconciles maintenances, one at a time."""

    world: World
    quiet: timedelta
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reconcile(self, body: Body) -> MaintenanceResult:
        """Do what a maintenance lacks; return what came of it. Raises ApiError, ApiUnreachable, ValidationError."""
        async with self._turn:
            return await self._reconcile(body)

    async def _reconcile(self, body: Body) -> MaintenanceResult:
        served = self._served("DeviceTaintRule")
        bodies = await self.world.list(path(PLURAL))
        uid = body["metadata"]["uid"]
        # What Kopf has of it may be older. One that is gone by now is as one that is being deleted.
        gone = {"metadata": {**body["metadata"], "deletionTimestamp": "now"}}
        own = read_maintenance(next((each for each in bodies if each["metadata"]["uid"] == uid), gone))
        rules = [read_rule(each, uid) for each in await self.world.list(served.path())]
        cards, claims = await self.world.ask(lambda state: find_cards(own, state))
        found = plan(
            own,
            _read_others(bodies, uid),
            cards,
            rules=[each for each in rules if each is not None],
            holders={name: await self._read_holder(claim) for name, claim in claims.items()},
            now=datetime.now(UTC).replace(microsecond=0),
            quiet=self.quiet,
            api_version=served.api_version,
        )
        return await self._carry_out(found)

    async def _read_holder(self, claim: ResourceClaim) -> Holder:
        pod, name = None, find_pod(claim)
        if name is not None:
            try:
                where = self._served("Pod").path(claim.metadata.namespace, name)
                pod = await self.world.session.request("GET", where)
            except ApiError as error:
                if error.status != _GONE:
                    raise
        return read_holder(claim, pod)

    def _served(self, kind: str) -> Served:
        served = self.world.find_served(kind)
        if served is None:
            raise ApiUnreachable(f"the API server does not serve {kind}")
        return served

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
        where = self._served("Pod").path(pod.namespace, pod.name, "eviction")
        try:
            await self.world.session.request("POST", where, body=body)
        except ApiError as error:
            return error.message
        except ApiUnreachable as error:
            return str(error)
        return ""


def _read_others(bodies: Iterable[Body], uid: str) -> list[Maintenance]:
    found = []
    for body in bodies:
        # One that an older schema let pass says so itself, and keeps nothing from the others.
        with contextlib.suppress(ValidationError):
            found.append(read_maintenance(body))
    return [each for each in found if each.uid != uid]
