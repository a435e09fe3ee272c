"""Usage: how many devices there are, and how many are used, free, tainted or blocked, by node, pool, class or namespace.

Each published device counts once in a row: `total` is the sum of the five states. Of each pool the newest generation
counts. Classes may overlap, so rows by class do not add up.
"""

from dataclasses import dataclass
from enum import StrEnum


class Grouping(StrEnum):
    """What a row stands for."""

    NODE = "node"
    POOL = "pool"
    CLASS = "class"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class LargestDevice:
    """The device that has most left of a capacity, and how much that is."""

    capacity: str
    amount: str
    device: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One node (empty: devices that are on no single node), pool (`driver/pool`), class or namespace.

    `used` are held by claims and have no room; `shared` are held by shares and have room; `tainted` are held by nobody
    and have a taint that keeps claims away; `blocked` are held by nobody and cannot be given to anybody, since their
    counters are used up, their pool is not complete or their node cannot be used; `free` are the others. Of a
    namespace only `used` and `shared` are known. `idle` are devices whose holders all have no running consumer.
    `owned` are those that the operator owns, whatever their state.
    """

    name: str
    total: int | None
    used: int
    shared: int
    free: int | None
    tainted: int | None
    blocked: int | None
    idle: int | None
    claims: int
    owned: int = 0
    largest: LargestDevice | None = None
    condition: str = ""
    """What is wrong with the node or pool: `cordoned`, `incomplete`."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows sorted by name. `is_at_most`: claims were not all read, so that less may be free."""

    grouping: Grouping
    rows: tuple[UsageRow, ...]
    is_at_most: bool = False
    unread: tuple[str, ...] = ()
