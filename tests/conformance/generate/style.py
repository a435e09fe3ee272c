"""Styles: how often each feature occurs in one scenario.

Were everything equally likely everywhere, no scenario would have two of a rare thing. So each scenario draws for each
feature whether it is absent, rare or common.
"""

from dataclasses import dataclass, fields

from conformance.generate.chance import Chance

_LEVELS = (0.0, 0.0, 0.08, 0.25, 0.5)
# What goes wrong only where these meet.
_THEMES = (
    ("counters", "shareable", "used"),
    ("counters", "groups", "used"),
    ("counters", "groups", "admin"),
    ("counters", "generations"),
    ("shareable", "policies", "capacity_requests"),
    ("all_mode", "shareable", "capacity_requests", "used", "constraints"),
    ("lists", "constraints"),
    ("derived", "constraints"),
    ("per_device", "misplaced"),
)
_THEMATIC = 0.3


@dataclass(frozen=True, slots=True)
class Style:
    """Probabilities, each between 0 and 1."""

    admin: float
    all_mode: float
    bad_pools: float
    binding: float
    broken: float
    capacity_requests: float
    config: float
    constraints: float
    counters: float
    derived: float
    gates: float
    generations: float
    groups: float
    huge: float
    lists: float
    misplaced: float
    node_operations: float
    per_device: float
    policies: float
    prioritized: float
    rules: float
    selectors: float
    shareable: float
    taints: float
    used: float

    @classmethod
    def drawn(cls, chance: Chance) -> "Style":
        """Return a random style."""
        levels = {item.name: chance.pick(*_LEVELS) for item in fields(cls)}
        if chance.maybe(_THEMATIC):
            levels |= dict.fromkeys(chance.pick(*_THEMES), _LEVELS[-1])
        # What ends an attempt at once would hide all the rest if it were common.
        levels["broken"] /= 30
        levels["bad_pools"] /= 5
        levels["huge"] /= 4
        levels["gates"] /= 8
        levels["misplaced"] /= 2
        levels["node_operations"] /= 2
        return cls(**levels)
