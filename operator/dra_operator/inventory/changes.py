"""Changes: what a follower of the inventory has not seen yet, told as narrowly as it can be."""

from dataclasses import dataclass, field

from dra_operator.inventory.slices import PoolKey


@dataclass(slots=True, eq=False, weakref_slot=True)
class Changes:
    """What changed since its owner looked: pools with the nodes concerned (None: all), nodes, and class names."""

    pools: dict[PoolKey, set[str] | None] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
