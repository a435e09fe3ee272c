"""Settlement: since when an owned taint is in force, and from when its devices may be used.

With the policy, `settle` seconds after the rule came or was changed: until then an API server may not know the rule.
Without it, when nobody else has stored an allocation in the pool for `quiet` seconds: likely the last one, not surely.
Source: docs/operator.md, section "Devices that are ours".
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dra_operator.api.names import SETTLED_ANNOTATION
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cluster.ownership_policy import PoolsFence, RulesFence
from dra_operator.inventory.ownership import owns
from dra_operator.inventory.slices import PoolKey
from dra_operator.inventory.taints import touches


@dataclass(frozen=True, slots=True)
class FenceState:
    """Which policy refuses allocations of owned devices by others; without one `why` says why it is not there."""

    fence: RulesFence | PoolsFence | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """The rules and pools whose devices may be used; `unfenced` are pools that no policy protects.

    `due` is when time alone changes this, by the clock, or None.
    """

    rules: frozenset[str] = frozenset()
    pools: frozenset[PoolKey] = frozenset()
    unfenced: frozenset[PoolKey] = frozenset()
    due: float | None = None


@dataclass(slots=True)
class SettlementTimer:
    """Remembers when taints, allocations of others and the policy were first seen. Times are of one monotonic clock."""

    settle: float
    quiet: float
    fence: FenceState | None = None
    """None until it has been looked for."""
    _fence_since: float = math.inf
    _rules: dict[str, tuple[object, float]] = field(default_factory=dict)
    """By name: uid and generation of a rule, and when it was first seen so."""
    _published: dict[PoolKey, float] = field(default_factory=dict)
    _stored: dict[PoolKey, float] = field(default_factory=dict)

    def observe_fence(self, state: FenceState, now: float) -> None:
        """Take note of the policy that is installed now."""
        if self.fence is None or self.fence.fence != state.fence:
            self._fence_since = now
        self.fence = state

    def observe_rules(self, rules: Mapping[str, DeviceTaintRule], now: float) -> None:
        """Take note of the rules that own devices: one that came or was changed is seen from now on."""
        known, self._rules = self._rules, {}
        for name, rule in rules.items():
            if owns(rule) and not rule.metadata.deletion_timestamp:
                identity = (rule.metadata.uid, rule.metadata.generation)
                before = known.get(name)
                self._rules[name] = before if before and before[0] == identity else (identity, now)

    def observe_published(self, key: PoolKey, now: float, *, owned: bool) -> None:
        """Take note of whether slices of a pool publish devices with the owned taint."""
        if owned:
            self._published.setdefault(key, now)
        else:
            self._published.pop(key, None)

    def observe_allocation(self, key: PoolKey, now: float) -> None:
        """Take note that somebody else has stored an allocation in a pool."""
        self._stored[key] = now

    @property
    def owns_any(self) -> bool:
        """True if any taint in force owns devices."""
        return bool(self._rules or self._published)

    def settled(self, rules: Mapping[str, DeviceTaintRule], pools: Iterable[PoolKey], now: float) -> Settled:
        """Return what may be used by now; nothing until the policy has been looked for."""
        if self.fence is None:
            return Settled()
        # Nodes come and go, and most pools with them.
        self._stored = {key: at for key, at in self._stored.items() if at + self.quiet > now}
        due: list[float] = []
        since = {name: self._since(rules[name]) for name in self._rules}
        fenced = frozenset[str]()
        fence = self.fence.fence
        if isinstance(fence, RulesFence):
            ends = {name: self._fenced_from(begun) for name, begun in since.items()}
            fenced = frozenset(name for name, end in ends.items() if end <= now)
            due = [end for end in ends.values() if end > now]
        quiet, unfenced = set[PoolKey](), set[PoolKey]()
        for key in self._published if isinstance(fence, RulesFence) else pools:
            begun = [since[name] for name in since if touches(rules[name], *key)]
            begun += [self._published[key]] if key in self._published else []
            if not begun:
                continue
            if isinstance(fence, PoolsFence) and fence.covers(*key):
                end = self._fenced_from(max(begun))
            else:
                unfenced.add(key)
                end = max(*begun, self._stored.get(key, -math.inf)) + self.quiet
            if end <= now:
                quiet.add(key)
            else:
                due.append(end)
        return Settled(fenced, frozenset(quiet), frozenset(unfenced), min(due, default=None))

    def _since(self, rule: DeviceTaintRule) -> float:
        if rule.metadata.annotations.get(SETTLED_ANNOTATION) == str(rule.metadata.generation):
            return -math.inf
        return self._rules[rule.metadata.name][1]

    def _fenced_from(self, begun: float) -> float:
        """Return from when devices may be used that a policy protects: a rule that has settled stays so."""
        return begun if begun == -math.inf else max(begun, self._fence_since) + self.settle
