"""The controller of AllocationPolicy: reads what its plan needs, and writes what the plan returns."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from dra_operator.api.read import read_object
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import ApiUnreachable
from dra_operator.kinds.allocation_policy import (
    PLURAL,
    ClaimName,
    Plan,
    Policy,
    Rule,
    find_kept,
    find_selectors,
    plan,
    read_policy,
    read_rule,
)
from dra_operator.kinds.changes import Body
from dra_operator.kinds.selector import DeviceKey, Selector
from dra_operator.kinds.world import World, path
from dra_operator.ledger import Ledger


@dataclass(frozen=True, slots=True)
class PolicyController:
    """Reconciles policies, one at a time."""

    world: World

    async def reconcile(self, body: Body) -> Plan:
        """Write what a policy lacks; return the plan. Raises ApiError, ApiUnreachable, ValidationError."""
        served = self.world.find_served("DeviceTaintRule")
        if served is None:
            raise ApiUnreachable("the API server does not serve DeviceTaintRule, by which devices are owned")
        others = await self._read_policies()
        policy = read_policy(body)
        # What Kopf has of it may be older than what was just read.
        policy = next((each for each in others if each.uid == policy.uid), replace(policy, selectors=()))
        rules = await self._read_rules(served)
        asked = {selector: find_kept(selector, policy, rules) for selector in find_selectors(policy, rules)}
        holders = await self.world.ask(lambda state: find_holders(asked, state.ledger))
        found = plan(policy, others, rules, lambda selector: holders[selector], served.api_version)
        for change in found.changes:
            await self.world.write(change)
        return found

    async def _read_policies(self) -> list[Policy]:
        found = []
        for body in await self.world.list(path(PLURAL)):
            # One that an older schema let pass says so itself, and keeps nothing from the others.
            with contextlib.suppress(ValidationError):
                found.append(read_policy(body))
        return found

    async def _read_rules(self, served: Served) -> list[Rule]:
        found = []
        for item in await self.world.list(served.path()):
            body = {"apiVersion": served.api_version, "kind": served.kind.kind, **item}
            rule = read_object(body)
            if isinstance(rule, DeviceTaintRule) and (read := read_rule(rule, body)) is not None:
                found.append(read)
        return found


def find_holders(
    asked: Mapping[Selector, Sequence[Selector]], ledger: Ledger
) -> dict[Selector, Sequence[ClaimName]]:
    """Return the claims that hold devices of each selector, or shares of them, sorted.

    Devices that other selectors, those beside it, name as well do not count.
    """
    found: dict[Selector, Sequence[ClaimName]] = {}
    for selector, kept in asked.items():
        claims: set[ClaimName] = set()
        for driver, pool in ledger.pools():
            devices = {*ledger.held((driver, pool)), *ledger.shared((driver, pool))}
            keys = [DeviceKey(driver, pool, name) for name in devices]
            names = [
                key.name
                for key in keys
                if selector.matches(key) and not any(each.matches(key) for each in kept)
            ]
            claims |= ledger.holders((driver, pool), names)
        found[selector] = sorted(claims)
    return found
