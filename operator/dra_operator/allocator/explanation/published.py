"""Published: the slices whose devices explanations count.

Those of the newest generation of each pool count, whichever nodes they are for and whether or not the pool is complete.
A driver that moves a pool, or dies halfway, can leave slices of an older generation behind: a node that no newer one
concerns goes on seeing those, and gives their devices away. So they count as well, as long as such a node can be used.
Source: docs/dra-semantics 2.3.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.inventory import Inventory, Slice, Views
from dra_operator.inventory.counters import CounterLayout
from dra_operator.inventory.pool import Pool


@dataclass(frozen=True, slots=True)
class Published:
    """The slices that count, of all pools; views must be up to date."""

    inventory: Inventory
    views: Views

    def slices(self) -> Iterator[Slice]:
        """Yield the slices of each pool, those of its newest generation first."""
        for pool in self.inventory.pools.values():
            yield from pool.newest()
            yield from old_slices(pool, self.views)


def old_slices(pool: Pool, views: Views) -> dict[Slice, CounterLayout | None]:
    """Return the slices of older generations that nodes still see which can be used, sorted by name.

    Each with the counters that its devices draw on there.
    """
    generations = pool.generations()
    if len(generations) == 1:
        return {}
    newest = max(generations)
    found = {
        content: view.counters
        for view in views.of_pool.get(pool.key, {}).values()
        if view.nodes & views.usable
        for content in view.slices
        if content.generation != newest
    }
    return {content: found[content] for content in sorted(found, key=lambda content: content.name)}
