"""Cramped worlds: whatever is kept is forgotten all the time, as where there is more of everything than is kept."""

from typing import Any

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.matching import candidates, capacity, derived, equivalence, groups, selectors
from dra_operator.ledger import availability

CRAMPED: tuple[tuple[Any, str, int], ...] = (
    (capacity, "_MAX_ASKED", 3),
    (capacity, "_MAX_SIZE", 40),
    (availability, "_LOG_LENGTH", 4),
    (candidates, "_MAX_EFFECTIVE_TAINTS", 2),
    (derived, "_MAX_EXPRESSIONS", 2),
    (derived, "_MAX_SLICES", 6),
    (groups, "_MOST_KEPT", 10_000),
    (equivalence, "_MAX_LOOKS", 4),
    (equivalence, "_MAX_SCHEMAS", 2),
    (selectors, "_MAX_DRIVERS", 1),
)
"""How much is kept of what has the same maximum for all."""


def cramp(whole: Allocator) -> None:
    """Let an allocator keep hardly anything of what has a maximum of its own."""
    cache = whole.candidates.selectors
    whole._nodes._memory.maximum = 2
    whole.candidates.maximum = 4
    cache.maximum = 4
    cache.kinds.maximum = 40
    for room in (whole.candidates._room, cache._room):
        room.maximum = 12
