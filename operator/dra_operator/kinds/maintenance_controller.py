"""The controller of DeviceMaintenance: reads what its plan needs, writes what it returns, and evicts pods."""

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle, islice
from typing import Final

from dra_operator.api.names import MAINTENANCE_POLICY, OWNED_POLICY
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.cluster.ownership_policy import read_maintenance_fence, refuses
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.kinds.changes import Body, Plan, find_current, read_all
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
    build_result,
    name_rule,
    plan,
    read_rule,
)
from dra_operator.kinds.maintenance_trial import find_misfit, make_claim, preview
from dra_operator.kinds.selector import DeviceKey
from dra_operator.kinds.world import World, path

_ASKED: Final = 8
"""By so many waiting claims at most the API server is asked: each may be refused for a reason of its own."""
_REFUSED_BY: Final = re.compile("ValidatingAdmissionPolicy '([^']*)'")
_TRIED_AFTER: Final = timedelta(seconds=30)
"""So soon at the earliest it is tried again what did not fit."""
_LONGER: Final = 100
"""So many times as long as a trial took, the next one is waited for: decisions stand still meanwhile."""


@dataclass(frozen=True, slots=True)
class _Fence:
    """Since when a rule is known to be enforced, by a policy of which `policy` tells whether it is the same still."""

    since: datetime
    policy: str


@dataclass(frozen=True, slots=True)
class _Misfit:
    """What did not fit, asked for devices and templates; from when on that is tried again."""

    due: datetime
    question: tuple[object, ...]
    text: str


@dataclass(frozen=True, slots=True)
class MaintenanceController:
    """Reconciles maintenances, one at a time."""

    world: World
    quiet: timedelta
    quiet_fenced: timedelta
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _fences: dict[str, _Fence] = field(default_factory=dict)
    _misfits: dict[str, _Misfit] = field(default_factory=dict)
    _refused_by_others: set[str] = field(default_factory=set)
    """Rules, by uid, about which no dry run says anything: another policy refuses it first."""

    async def reconcile(self, body: Body) -> Plan:
        """Do what a maintenance lacks; return what came of it. Raises ApiError, ApiUnreachable, ValidationError."""
        async with self._turn:
            return await self._reconcile(body)

    async def _reconcile(self, body: Body) -> Plan:
        served = self.world.served("DeviceTaintRule")
        bodies = await self.world.list(path(PLURAL))
        uid = body["metadata"]["uid"]
        own = read_maintenance(find_current(body, bodies))
        listed = await self.world.list(served.path())
        rules = [rule for each in listed if (rule := read_rule(each, uid)) is not None]
        uids = {each["metadata"]["uid"] for each in listed}
        for forgotten in self._fences.keys() - uids:
            del self._fences[forgotten]
        self._refused_by_others.intersection_update(uids)
        for ended in self._misfits.keys() - {each["metadata"]["uid"] for each in bodies}:
            del self._misfits[ended]
        cards, claims = await self.world.ask(lambda state: find_cards(own, state))
        if own.preview is None and cards:
            own = replace(own, preview=await self.world.ask(lambda state: preview(state, cards, uid)))
        now = datetime.now(UTC).replace(microsecond=0)
        make_plan = partial(
            plan,
            own,
            [each for each in read_all(read_maintenance, bodies) if each.uid != uid],
            cards,
            rules=rules,
            holders={name: await self._read_holder(claim) for name, claim in claims.items()},
            now=now,
            quiet=Quiet(self.quiet, self.quiet_fenced, await self._find_fences(own, rules, now)),
            api_version=served.api_version,
        )
        found = make_plan()
        if (
            found.beginning
            and own.spec.must_still_fit
            and (misfit := await self._recall_misfit(found, listed, now))
        ):
            found = make_plan(misfit=misfit)
        return await self._carry_out(found)

    async def _recall_misfit(self, found: MaintenancePlan, listed: Iterable[Body], now: datetime) -> str:
        """Return what would not fit, as of a while ago if nothing else is to begin: a trial holds up decisions."""
        own = found.own
        question = (*found.begun,), own.spec.must_still_fit
        known = self._misfits.get(own.uid)
        if known is not None and known.question == question and now < known.due:
            return known.text
        began = time.monotonic()
        text = await self._find_misfit(found, listed)
        wait = max(_TRIED_AFTER, timedelta(seconds=_LONGER * (time.monotonic() - began)))
        self._misfits.pop(own.uid, None)
        if text:
            self._misfits[own.uid] = _Misfit(now + wait, question, text)
        return text

    async def _find_misfit(self, found: MaintenancePlan, listed: Iterable[Body]) -> str:
        """Return what of `spec.mustStillFit` would not fit once the cards are out of service that are begun."""
        demands: dict[str, list[ResourceClaim]] = {}
        for each in found.own.spec.must_still_fit:
            name = f"{each.namespace}/{each.resource_claim_template_name}"
            body = await self.world.find_template(each.namespace, each.resource_claim_template_name)
            if body is None:
                return f"there is no ResourceClaimTemplate {name}"
            template, made = read_template(body), demands.setdefault(name, [])
            for number in range(len(made) + 1, len(made) + each.copies + 1):
                made.append(make_claim(template, each.namespace, each.resource_claim_template_name, number))
        # What another maintenance began a moment ago, no watch may have brought.
        devices = _read_devices(listed) | {name_rule(found.own.uid, key): key for key in found.begun}
        return await self.world.ask(lambda state: find_misfit(state, devices, demands))

    async def _find_fences(
        self, own: Maintenance, rules: Sequence[MaintenanceRule], now: datetime
    ) -> Mapping[str, datetime]:
        """Return since when the API server is known to refuse allocations of the devices of rules, by their uids."""
        waiting = {rule.uid: rule for rule in rules if rule.device is not None and not _is_safe(own, rule)}
        # Where the policy is gone, edited or made anew, a card that is not safe yet waits for another proof.
        policy = await read_maintenance_fence(self.world.session) if waiting else ""
        for uid in waiting.keys() & self._fences.keys():
            if self._fences[uid].policy != policy:
                del self._fences[uid]
        asked = [rule for uid, rule in waiting.items() if self._is_to_be_asked(own, rule, now)]
        if policy and asked:
            await self._ask(asked, policy)
        return {uid: fence.since for uid, fence in self._fences.items()}

    def _is_to_be_asked(self, own: Maintenance, rule: MaintenanceRule, now: datetime) -> bool:
        """Return whether a dry run is of use: the card may be safe by it before it is so without."""
        if rule.uid in self._fences or rule.uid in self._refused_by_others:
            return False
        is_drained = any(each.phase == "Drained" and rule.device in each.keys for each in own.entries)
        return is_drained or now < rule.created + self.quiet

    async def _ask(self, asked: Sequence[MaintenanceRule], policy: str) -> None:
        """Find out by dry runs which rules the policy knows."""
        claims, known = await self.world.ask(
            lambda state: (
                [*islice(filter(_has_request, state.find_pending()), _ASKED)],
                {*state.inventory.rules},
            )
        )
        served = self.world.served("ResourceClaim")
        for rule, claim in zip(asked, cycle(claims), strict=False):
            if rule.device is None:
                continue
            await self.world.may_write()
            try:
                is_refused = await refuses(
                    self.world.session, served, claim, rule.device, policy=MAINTENANCE_POLICY
                )
            except ApiError as error:
                # An owned device is allocated by nobody else, and by the operator no more once that knows the rule.
                policies = _REFUSED_BY.findall(error.message)
                is_refused = policies == [OWNED_POLICY] and rule.name in known
                if policies and policies != [OWNED_POLICY]:
                    self._refused_by_others.add(rule.uid)
            except ApiUnreachable:
                continue
            if is_refused:
                self._fences[rule.uid] = _Fence(datetime.now(UTC), policy)

    async def _read_holder(self, claim: ResourceClaim) -> Holder:
        name = find_pod(claim)
        if name is None:
            return read_holder(claim, None)
        where = self.world.served("Pod").path(claim.metadata.namespace, name)
        return read_holder(claim, await self.world.find(where))

    async def _carry_out(self, found: MaintenancePlan) -> Plan:
        refused = []
        for change in found.changes:
            try:
                await self.world.write(change)
            except ApiError as error:
                # What is refused keeps neither the other devices from their taint, nor the status from saying so.
                refused.append(str(error))
        evictions = {each: await self._evict(each) for each in found.evicted.values()}
        concluded = build_result(found, evictions, refused)
        own = Subject(KIND, "", found.own.name, found.own.uid)
        self.world.record_events(own, concluded.events)
        for event in concluded.events:
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


def _is_safe(own: Maintenance, rule: MaintenanceRule) -> bool:
    phases = [each.phase for each in own.entries if rule.device in each.keys]
    return bool(phases) and all(each == "Safe" for each in phases)


def _read_devices(bodies: Iterable[Body]) -> dict[str, DeviceKey]:
    """Return the devices of the rules of all maintenances, by the names of these."""
    found = {}
    for body in bodies:
        for owner in body["metadata"].get("ownerReferences") or ():
            rule = read_rule(body, owner["uid"])
            if rule is not None and rule.device is not None:
                found[rule.name] = rule.device
    return found


def _has_request(claim: ResourceClaim) -> bool:
    return bool(claim.spec.devices.requests)
