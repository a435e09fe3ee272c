"""Change sets: what a subscriber of the inventory has not seen yet.

Change notification by polling: a subscriber owns a set that fills up, and empties it when it catches up.
"""

from dataclasses import dataclass, field

from dra_operator.inventory.slices import PoolKey


@dataclass(slots=True, eq=False, weakref_slot=True)
class ChangeSet:
    """What changed since its owner emptied it: pools, nodes, and class names."""

    pools: dict[PoolKey, None] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
