"""Settlement: since when an owned taint is in force, and from when its devices may be used.

With the policy, `settle` seconds after the rule came or was changed: until then an API server may not know the rule.
Without it, when nobody else has stored an allocation in the pool for `quiet` seconds: likely the last one, not surely.
Source: docs/operator.md, section "Devices that are ours".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.api.names import OWNED_FINALIZER, SETTLED_ANNOTATION
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cluster.ownership_policy import PoolsFence, RulesFence
from dra_operator.inventory.ownership import owns, settled_mark
from dra_operator.inventory.slices import PoolKey
from dra_operator.inventory.taints import touches


@dataclass(frozen=True, slots=True)
class PolicyState:
    """Which policy refuses allocations of owned devices by others; without one `why` says why it is not there."""

    fence: RulesFence | PoolsFence | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class SettlementState:
    """The rules and pools whose devices may be used; `unfenced` are pools that no policy protects.

    `marked` are the rules of which all that they own may be used. `due` is when time alone changes this, by the clock,
    or None.
    """

    rules: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()
    pools: frozenset[PoolKey] = frozenset()
    unfenced: frozenset[PoolKey] = frozenset()
    due: float | None = None


@dataclass(slots=True)
class SettlementTimer:
    """Remembers when taints, allocations of others and the policy were first seen. Times are of one monotonic clock.

    `holds_rules`: a rule counts only with our finalizer, without which it could go while allocations are being written.
    """

    settle: float
    quiet: float
    holds_rules: bool = True
    policy: PolicyState | None = None
    """None until it has been looked for."""
    _policy_since: float = math.inf
    _rules: dict[str, tuple[object, float]] = field(default_factory=dict)
    """By name: uid and generation of a rule, and when it was first seen so."""
    _published: dict[PoolKey, float] = field(default_factory=dict)
    _stored: dict[PoolKey, float] = field(default_factory=dict)

    def observe_policy(self, state: PolicyState, now: float) -> None:
        """Take in the policy that is installed now."""
        if self.policy is None or self.policy.fence != state.fence:
            self._policy_since = now
        self.policy = state

    def observe_rules(self, rules: Mapping[str, DeviceTaintRule], now: float) -> None:
        """Take in the rules that own devices: one that came or was changed is seen from now on."""
        known, self._rules = self._rules, {}
        for name, rule in rules.items():
            if owns(rule) and not rule.metadata.deletion_timestamp:
                identity = (rule.metadata.uid, rule.metadata.generation)
                before = known.get(name)
                self._rules[name] = before if before and before[0] == identity else (identity, now)

    def observe_published(self, key: PoolKey, now: float, *, owned: bool) -> None:
        """Take in whether slices of a pool publish devices with the owned taint."""
        if owned:
            self._published.setdefault(key, now)
        else:
            self._published.pop(key, None)

    def observe_allocation(self, key: PoolKey, now: float) -> None:
        """Take in that somebody else has stored an allocation in a pool."""
        self._stored[key] = now

    @property
    def owns_any(self) -> bool:
        """True if any taint in force owns devices."""
        return bool(self._rules or self._published)

    def settled(
        self, rules: Mapping[str, DeviceTaintRule], pools: Iterable[PoolKey], now: float
    ) -> SettlementState:
        """Return what may be used by now; nothing until the policy has been looked for."""
        if self.policy is None:
            return SettlementState()
        # Nodes come and go, and most pools with them.
        self._stored = {key: at for key, at in self._stored.items() if at + self.quiet > now}
        fence, owning = self.policy.fence, [rules[name] for name in self._rules]
        ends: list[float] = []
        fenced = set[str]()
        if isinstance(fence, RulesFence):
            for rule in owning:
                ends.append(end := self._fenced_end(rule))
                if end <= now:
                    fenced.add(rule.metadata.name)
        used, unfenced, waiting = set[PoolKey](), set[PoolKey](), set[str]()
        for key in self._published if isinstance(fence, RulesFence) else pools:
            here = [rule for rule in owning if touches(rule, *key)]
            if not here and key not in self._published:
                continue
            if isinstance(fence, PoolsFence) and fence.covers(*key):
                end = max([self._fenced_end(rule) for rule in here] + self._published_end(key))
            else:
                unfenced.add(key)
                end = self._quiet_end(key, here)
            ends.append(end)
            if end <= now:
                used.add(key)
            else:
                waiting.update(rule.metadata.name for rule in here)
        marked = fenced if isinstance(fence, RulesFence) else self._rules.keys() - waiting
        due = min((end for end in ends if now < end < math.inf), default=None)
        return SettlementState(
            frozenset(fenced), frozenset(marked), frozenset(used), frozenset(unfenced), due
        )

    def _is_held(self, rule: DeviceTaintRule) -> bool:
        return not self.holds_rules or OWNED_FINALIZER in rule.metadata.finalizers

    def _fenced_end(self, rule: DeviceTaintRule) -> float:
        """Return from when the devices of a rule may be used that a policy protects: what has settled stays so."""
        if not self._is_held(rule):
            return math.inf
        if rule.metadata.annotations.get(SETTLED_ANNOTATION) == settled_mark(rule.metadata):
            return -math.inf
        return max(self._rules[rule.metadata.name][1], self._policy_since) + self.settle

    def _published_end(self, key: PoolKey) -> list[float]:
        """Return from when devices may be used that their slices own and a policy protects, if there are any."""
        begun = self._published.get(key)
        return [] if begun is None else [max(begun, self._policy_since) + self.settle]

    def _quiet_end(self, key: PoolKey, rules: Sequence[DeviceTaintRule]) -> float:
        """Return from when the owned devices of a pool may be used that no policy protects.

        Nobody knows what was stored before this operator began, so the time starts anew with it.
        """
        if not all(map(self._is_held, rules)):
            return math.inf
        begun = [self._rules[rule.metadata.name][1] for rule in rules]
        begun.append(self._stored.get(key, -math.inf))
        begun.append(self._published.get(key, -math.inf))
        return max(begun) + self.quiet
