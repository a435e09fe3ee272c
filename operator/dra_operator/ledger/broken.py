"""Broken allocations: a device is gone from its pool, the node is gone, or a NoExecute taint is not tolerated.

Incremental: only the claims of pools, nodes and allocations that changed are judged again. What cannot be known, as the
slices of a pool are away or not complete, is neither broken nor sound.
Source: claimEvictionTime of kube-controller-manager's device taint eviction controller, 1.37.2 and 1.38.0-beta.0.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from dra_operator.api.node_selector import named_nodes
from dra_operator.api.text import seconds_of
from dra_operator.api.types import (
    AllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
)
from dra_operator.api.versions import RELEASED, RULES, Rules
from dra_operator.inventory import Features, Inventory, PoolKey, Verdict
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.slices import Slice
from dra_operator.inventory.taints import tolerates
from dra_operator.ledger.allocated_state import ClaimKey, DeviceKey

_FEATURES = Features.all_on()
_NO_EXECUTE = "NoExecute"
MISSING_SECONDS = 60.0
"""How long a device must be missing from a complete pool, in seconds: a driver may publish it in a moment."""


class Cause(Enum):
    """Why an allocation is broken; the value is what metrics call it."""

    DEVICE_MISSING = "device-missing"
    NODE_GONE = "node-gone"
    TAINTED = "tainted"


@dataclass(frozen=True, slots=True)
class Breakage:
    """One thing that is wrong with an allocation.

    `device` is driver, pool and name, with `generation` of the pool that lacks it; or `taint` and the `rule` that sets
    it, empty if the slice does. Without a device `node` is the node that is gone.
    """

    cause: Cause
    device: DeviceKey | None = None
    generation: int = 0
    node: str = ""
    taint: DeviceTaint | None = None
    rule: str = ""


@dataclass(slots=True)
class BrokenAllocations:
    """Follows an inventory and the allocations it is told of, and knows which are broken.

    `missing_seconds` is how long a device has to be missing; by `rules` a toleration covers NoExecute. Times are in
    seconds: `now` by a monotonic clock, `wall` since 1970.
    """

    inventory: Inventory
    missing_seconds: float = MISSING_SECONDS
    rules: Rules = RULES[RELEASED]
    found: dict[ClaimKey, tuple[Breakage, ...]] = field(default_factory=dict)
    """What is wrong with each allocation that is broken."""
    judged: dict[ClaimKey, bool] = field(default_factory=dict)
    """The claims that were judged, and whether that could be done, until somebody takes them out."""
    _changes: ChangeSet = field(init=False)
    _held: dict[ClaimKey, AllocationResult] = field(default_factory=dict)
    _of_pool: dict[PoolKey, dict[str, tuple[ClaimKey, ...]]] = field(default_factory=dict)
    """The claims of each device."""
    _of_node: dict[str, dict[ClaimKey, None]] = field(default_factory=dict)
    _since: dict[DeviceKey, float] = field(default_factory=dict)
    """Since when a device is missing, by the clock; for ever if that has lasted."""
    _due: dict[ClaimKey, float] = field(default_factory=dict)
    """When time alone may break an allocation, by the clock."""
    _dirty: dict[ClaimKey, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._changes = self.inventory.subscribe()

    def put(self, claim: ClaimKey, allocation: AllocationResult | None, *, was_broken: bool = False) -> bool:
        """Take in what a claim holds now; return whether that has to be judged.

        `was_broken` says that it was found broken before all this was known.
        """
        before = self._held.get(claim)
        if before is not None and allocation is not None and _is_alike(before, allocation):
            return False
        if before is not None:
            self._forget(claim, before)
        if allocation is None:
            return False
        self._held[claim] = allocation
        self._dirty[claim] = None
        for pool, device in _devices(allocation):
            devices = self._of_pool.setdefault(pool, {})
            devices[device] = (*devices.get(device, ()), claim)
            if was_broken:
                self._since.setdefault((*pool, device), -math.inf)
        for node in _bound_to(allocation):
            self._of_node.setdefault(node, {})[claim] = None
        return True

    def decide_by(self, rules: Rules) -> None:
        """Judge by the rules of a version of Kubernetes from now on, and what is known anew if they are others."""
        if rules != self.rules:
            self.rules = rules
            self._dirty.update(dict.fromkeys(self._held))

    def follow(self) -> None:
        """Take in what has changed in the inventory, and judge nothing yet."""
        for pool in self._changes.pools:
            for claims in self._of_pool.get(pool, {}).values():
                self._dirty.update(dict.fromkeys(claims))
        for node in self._changes.nodes:
            self._dirty.update(self._of_node.get(node, ()))
        self._changes.pools, self._changes.nodes = {}, set()
        self._changes.classes.clear()

    def refresh(self, now: float, wall: float) -> None:
        """Judge what has changed."""
        self.follow()
        self._dirty.update((claim, None) for claim, due in self._due.items() if due <= now)
        while self._dirty:
            claim = next(iter(self._dirty))
            # After a defect the others go on.
            del self._dirty[claim]
            if claim in self._held:
                self.judged[claim] = self._judge(claim, now, wall)

    def restart(self, now: float) -> None:
        """Count the time anew for which devices are missing: what was published meanwhile is not known."""
        self._since = {device: since if since == -math.inf else now for device, since in self._since.items()}
        self._dirty.update(dict.fromkeys(self._due))

    @property
    def is_pending(self) -> bool:
        """True if something is to be judged, now or later."""
        return bool(self._dirty or self._due)

    def next_due(self) -> float | None:
        """Return when time alone may break the next allocation, by the clock, or None."""
        return min(self._due.values(), default=None)

    def _forget(self, claim: ClaimKey, allocation: AllocationResult) -> None:
        del self._held[claim]
        self.found.pop(claim, None)
        self.judged.pop(claim, None)
        self._due.pop(claim, None)
        for pool, device in _devices(allocation):
            devices = self._of_pool.get(pool, {})
            if claims := tuple(other for other in devices.pop(device, ()) if other != claim):
                devices[device] = claims
            else:
                self._since.pop((*pool, device), None)
            if not devices:
                self._of_pool.pop(pool, None)
        for node in _bound_to(allocation):
            bound = self._of_node[node]
            del bound[claim]
            if not bound:
                del self._of_node[node]

    def _find(self, result: DeviceRequestAllocationResult) -> tuple[Slice, int] | None:
        """Return the slice of the newest generation that has a device, and its index there."""
        pool = self.inventory.pools.get((result.driver, result.pool))
        for slice_ in () if pool is None else pool.newest():
            if (index := slice_.indexes.get(result.device)) is not None:
                return slice_, index
        return None

    def _judge(self, claim: ClaimKey, now: float, wall: float) -> bool:
        """Find what is wrong with an allocation; return whether that is known."""
        allocation, breakages, is_known = self._held[claim], list[Breakage](), True
        self._due.pop(claim, None)
        if (nodes := _bound_to(allocation)) and nodes.isdisjoint(self.inventory.nodes):
            breakages += [Breakage(Cause.NODE_GONE, node=node) for node in sorted(nodes)]
        for result in allocation.devices.results:
            pool = (result.driver, result.pool)
            found = self._find(result)
            if found is None:
                if (missing := self._missing(claim, result, now)) is not None:
                    breakages.append(missing)
                else:
                    is_known = False
                continue
            self._since.pop((*pool, result.device), None)
            breakages += self._tainted(claim, result, *found, now=now, wall=wall)
        if breakages:
            self.found[claim] = tuple(dict.fromkeys(breakages))
            return True
        if is_known:
            self.found.pop(claim, None)
        return is_known

    def _missing(self, claim: ClaimKey, result: DeviceRequestAllocationResult, now: float) -> Breakage | None:
        """Return that a device is missing, if its pool is complete and it has been missing for long."""
        device = (result.driver, result.pool, result.device)
        pool = self.inventory.pools.get((result.driver, result.pool))
        if pool is None or pool.judge_all(_FEATURES).verdict is not Verdict.COMPLETE:
            return None
        due = self._since.setdefault(device, now) + self.missing_seconds
        if now < due:
            self._wait(claim, due)
            return None
        self._since[device] = -math.inf
        return Breakage(Cause.DEVICE_MISSING, device, pool.newest()[0].generation)

    def _tainted(
        self,
        claim: ClaimKey,
        result: DeviceRequestAllocationResult,
        slice_: Slice,
        index: int,
        *,
        now: float,
        wall: float,
    ) -> Iterator[Breakage]:
        """Yield the NoExecute taints of a device that its allocation does not tolerate, or no longer."""
        if not slice_.tainted >> index & 1:
            return
        for taint, rule in self._taints(slice_, index):
            ends = tolerated_until(taint, result.tolerations, self.rules)
            if ends <= wall:
                yield Breakage(
                    Cause.TAINTED, (result.driver, result.pool, result.device), taint=taint, rule=rule
                )
            elif ends < math.inf:
                self._wait(claim, now + ends - wall)

    def _taints(self, slice_: Slice, index: int) -> Iterator[tuple[DeviceTaint, str]]:
        """Yield the NoExecute taints of a device, each with the name of the rule that sets it."""
        for taint in slice_.device_fields[index].taints:
            if taint.effect == _NO_EXECUTE:
                yield taint, ""
        for rule_name, rule in sorted(self.inventory.rules.items()):
            taint = rule.spec.taint
            if taint.effect == _NO_EXECUTE and self.inventory.tainted_by(rule, slice_) >> index & 1:
                yield taint, rule_name

    def _wait(self, claim: ClaimKey, due: float) -> None:
        self._due[claim] = min(due, self._due.get(claim, due))


def _is_alike(one: AllocationResult, other: AllocationResult) -> bool:
    return one.devices.results == other.devices.results and one.node_selector == other.node_selector


def _devices(allocation: AllocationResult) -> set[tuple[PoolKey, str]]:
    return {((result.driver, result.pool), result.device) for result in allocation.devices.results}


def _bound_to(allocation: AllocationResult) -> frozenset[str]:
    """Return the nodes that the node selector of an allocation names, if each of its terms names some; else none."""
    return (allocation.node_selector and named_nodes(allocation.node_selector)) or frozenset()


def tolerated_until(
    taint: DeviceTaint,
    tolerations: Iterable[DeviceToleration],
    rules: Rules = RULES[RELEASED],
    since: float = -math.inf,
) -> float:
    """Return until when an allocation tolerates a NoExecute taint, in seconds since 1970; infinity if for ever.

    Of several tolerations the shortest counts, unless one is for ever. `since` is for a taint that has no time.
    """
    seconds, effects = list[int](), ("", _NO_EXECUTE) if rules.any_effect_keeps else (_NO_EXECUTE,)
    for toleration in tolerations:
        if toleration.effect in effects and tolerates(toleration, taint):
            if toleration.toleration_seconds is None:
                return math.inf
            seconds.append(max(toleration.toleration_seconds, 0))
    added = seconds_of(taint.time_added)
    return (since if added is None else added) + min(seconds, default=0)
