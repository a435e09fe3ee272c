"""The controller of AllocationPolicy: reads what its plan needs, and writes what the plan returns."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from dra_operator.api.names import POLICY_FINALIZER
from dra_operator.api.read import read_object
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.events import Subject
from dra_operator.inventory import PoolKey, Slice, bits
from dra_operator.kinds.allocation_policy import (
    KIND,
    PLURAL,
    ClaimName,
    Hits,
    Policy,
    Rule,
    find_kept,
    find_selectors,
    plan,
    plan_sweep,
    read_policy,
    read_rule,
)
from dra_operator.kinds.changes import Body, Plan, find_current, read_all
from dra_operator.kinds.selector import DeviceKey, Selector
from dra_operator.kinds.world import State, World, path


@dataclass(frozen=True, slots=True)
class PolicyController:
    """Reconciles policies, one at a time."""

    world: World

    async def reconcile(self, body: Body) -> Plan:
        """Write what a policy lacks; return the plan. Raises ApiError, ApiUnreachable, ValidationError."""
        served = self.world.served("DeviceTaintRule")
        listed = await self.world.list(path(PLURAL))
        policy, others = read_policy(find_current(body, listed)), read_all(read_policy, listed)
        rules = await self._read_rules(served)
        rules, hits = await self.world.ask(lambda state: _look_up(state, policy, rules))
        found = plan(policy, others, rules, hits.__getitem__, served.api_version)
        for change in found.changes:
            await self.world.write(change)
        self.world.record_events(Subject(KIND, "", policy.name, policy.uid), found.events)
        return found

    async def sweep(self) -> None:
        """Take our finalizer off rules that no policy owns any more. Raises ApiError, ApiUnreachable."""
        if (served := self.world.find_served("DeviceTaintRule")) is None:
            return
        rules = await self._read_rules(served)
        left = [rule for rule in rules if POLICY_FINALIZER in rule.finalizers]
        # Read afterwards, and as they are: one that cannot be understood keeps its rules.
        alive = {str(each["metadata"]["uid"]) for each in await self.world.list(path(PLURAL))}
        if all(rule.owners & alive for rule in left):
            return
        hits = await self.world.ask(
            lambda state: {each.selector: find_hits(state, each.selector) for each in left}
        )
        for change in plan_sweep(left, alive, hits.__getitem__):
            await self.world.write(change)

    async def _read_rules(self, served: Served) -> list[Rule]:
        found = []
        for item in await self.world.list(served.path()):
            body = {"apiVersion": served.api_version, "kind": served.kind.kind, **item}
            rule = read_object(body)
            if isinstance(rule, DeviceTaintRule) and (read := read_rule(rule, body)) is not None:
                found.append(read)
        return found


def _look_up(state: State, policy: Policy, rules: Sequence[Rule]) -> tuple[list[Rule], dict[Selector, Hits]]:
    """Return the rules with what the operator knows of them, and what a policy asks of selectors."""
    known = [replace(rule, status=state.find_rule(rule.name, rule.uid)) for rule in rules]
    asked = find_selectors(policy, known)
    return known, {each: find_hits(state, each, find_kept(each, policy, known)) for each in asked}


def find_hits(state: State, selector: Selector, kept: Sequence[Selector] = ()) -> Hits:
    """Return what a selector selects; devices that others beside it keep count as held by nobody."""
    devices, half_owned = 0, list[str]()
    for driver, pool in _pools(selector, state.inventory.pools):
        for slice_ in state.inventory.pools[driver, pool].newest():
            chosen = slice_.every if selector.device is None else _bit(slice_, selector.device)
            devices += chosen.bit_count()
            half_owned += [f"{pool}/{slice_.names[index]}" for index in bits.each(chosen & slice_.half_owned)]
    used, claims = 0, set[ClaimName]()
    for driver, pool in _pools(selector, state.ledger.pools()):
        held = {*state.ledger.held((driver, pool)), *state.ledger.shared((driver, pool))}
        names = [
            name
            for name in (held if selector.device is None else held & {selector.device})
            if not any(each.matches(DeviceKey(driver, pool, name)) for each in kept)
        ]
        used += len(names)
        claims |= state.ledger.holders((driver, pool), names)
    return Hits(devices, used, sorted(claims), half_owned)


def _pools(selector: Selector, pools: Collection[PoolKey]) -> Iterator[PoolKey]:
    """Yield those of some pools of which a selector may select devices."""
    if selector.pool is None:
        yield from (key for key in pools if key[0] == selector.driver)
    elif (key := (selector.driver, selector.pool)) in pools:
        yield key


def _bit(slice_: Slice, device: str) -> int:
    index = slice_.indexes.get(device)
    return 0 if index is None else 1 << index
