"""Surplus: pools with more slices than they announce, and what is told of them.

To the allocator such a pool is as incomplete as one that is being updated, but waiting does not help. Two publishers
use one pool name, most often the drivers of two nodes, or somebody has left slices behind.
"""

from collections.abc import Collection

from dra_operator.api.text import listed
from dra_operator.inventory import Inventory
from dra_operator.inventory.pool import SURPLUS


def tells_surplus(text: str) -> bool:
    """True if a text says of a pool that it has too many slices."""
    return SURPLUS in text


def in_pools(details: Collection[str]) -> str:
    """Return in which pools devices are, by what is told to be wrong with each of these that are not complete."""
    surplus = sum(map(tells_surplus, details))
    if surplus == len(details):
        return "in pools with too many slices"
    return "in pools with slices missing or too many" if surplus else "in incomplete pools"


def advise_first(details: Collection[str], inventory: Inventory) -> str:
    """Return what to do about the first of some pools, told as `driver/pool: reason`, that has too many slices."""
    paths = [text.partition(": ")[0] for text in sorted(details) if tells_surplus(text)]
    return advise(paths[0], inventory) if paths else ""


def advise(path: str, inventory: Inventory) -> str:
    """Return what to do about a pool, given as `driver/pool`, that has too many slices."""
    driver, _, name = path.partition("/")
    pool = inventory.pools.get((driver, name))
    if pool is None:
        return ""
    nodes = pool.newest_nodes()
    # A pool may be meant for several nodes, as many as it announces slices.
    if len(nodes) > pool.newest()[0].slice_count:
        return f"; nodes {listed(nodes)} use one pool name: the driver must give each its own"
    return "; two publishers use one pool name, or slices were left behind: delete those that nobody updates"
