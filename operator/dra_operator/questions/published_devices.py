"""Published devices: the newest generation of each pool, where each device stands, and which ones a class selects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dra_operator.allocator.budget import unlimited
from dra_operator.api.node_selector import pinned_to
from dra_operator.inventory import Features, Inventory, PoolKey, Slice, bits
from dra_operator.inventory.pool import Judgement

if TYPE_CHECKING:
    from dra_operator.allocator import Allocator

_FEATURES = Features.all_on()


@dataclass(frozen=True, slots=True)
class NewestGeneration:
    """The newest generation of a pool, judged as a whole; `slices` are there even if it is not complete."""

    key: PoolKey
    judgement: Judgement
    slices: tuple[Slice, ...]

    @property
    def path(self) -> str:
        """The pool as texts have it."""
        return "/".join(self.key)


@dataclass(slots=True)
class PublishedDevices:
    """The pools of an inventory as it is now, by driver and name in order."""

    inventory: Inventory
    pools: dict[PoolKey, NewestGeneration] = field(init=False)
    _places: dict[PoolKey, dict[str, tuple[Slice, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pools = self.inventory.pools
        self.pools = {
            key: NewestGeneration(key, pools[key].judge_all(_FEATURES), pools[key].newest())
            for key in sorted(pools)
        }

    def find(self, driver: str, pool: str, device: str) -> tuple[Slice, int] | None:
        """Return the slice that publishes a device, and its index there; None if none does."""
        key = (driver, pool)
        places = self._places.get(key)
        if places is None:
            newest = self.pools.get(key)
            places = self._places[key] = {}
            for slice_ in reversed(newest.slices if newest is not None else ()):
                places.update((name, (slice_, index)) for name, index in slice_.indexes.items())
        return places.get(device)

    def slices(self) -> Iterator[tuple[NewestGeneration, Slice]]:
        """Yield each slice of a newest generation, with its pool."""
        for pool in self.pools.values():
            for slice_ in pool.slices:
                yield pool, slice_

    def nodes(self) -> set[str]:
        """Return the names of the nodes that devices are on."""
        return {name for _, slice_ in self.slices() for name in devices_by_node(slice_)} - {""}


def node_of_device(slice_: Slice, index: int) -> str:
    """Return the one node that a device is published for; nothing if it is for several, or for all."""
    nodes = slice_.effective_nodes(index)
    return nodes.node_name or (pinned_to(nodes.selector) if not nodes.all_nodes else None) or ""


def devices_by_node(slice_: Slice) -> Mapping[str, int]:
    """Return the devices of a slice, as sets of bits, by the one node that they are for; nothing stands for several."""
    if not slice_.every:
        return {}
    if not slice_.per_device_nodes:
        return {node_of_device(slice_, 0): slice_.every}
    found: dict[str, int] = {}
    for index in bits.each(slice_.every):
        name = node_of_device(slice_, index)
        found[name] = found.get(name, 0) | 1 << index
    return found


def devices_in_class(allocator: "Allocator", name: str, slice_: Slice) -> int:
    """Return the devices of a slice that the selectors of a class select; none if there is no such class.

    A device on which a selector fails is not selected.
    """
    from dra_operator.allocator.matching.candidates import AskContent  # noqa: PLC0415 - not every count needs it

    found = allocator.inventory.classes.get(name)
    if found is None:
        return 0
    selectors = tuple(item.cel.expression for item in found.spec.selectors if item.cel is not None)
    key = allocator.candidates.key(AskContent(selectors, (), ()), ())
    return allocator.candidates.select(key, slice_, unlimited())
