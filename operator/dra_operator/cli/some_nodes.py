"""Some nodes: the cluster as it is for claims that can be used on some of its nodes only.

A pod that must run on a node waits for devices that this node sees, whatever others have. So pools that none of the
nodes sees are left out; of the others, slices that none of them sees count, but their devices do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dra_operator.api.core import Node
from dra_operator.api.types import ResourceSlice
from dra_operator.cli.gather import Gathered
from dra_operator.inventory import Inventory, PoolKey, PoolView, Verdict, Views
from dra_operator.inventory.ownership import Settlement

_WHEREVER = ("DeviceClass", "Namespace", "DeviceTaintRule")


@dataclass(slots=True)
class SomeNodes:
    """Makes inventories of some nodes, from objects and from what their nodes see of them."""

    gathered: Gathered
    nodes: Mapping[str, Node]
    views: Views
    _slices: dict[PoolKey, list[ResourceSlice]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for thing in self.gathered.of("ResourceSlice"):
            spec = thing.obj.spec
            self._slices.setdefault((spec.driver, spec.pool.name), []).append(thing.obj)

    def inventory(self, names: Sequence[str]) -> Inventory:
        """Return the inventory of some nodes; views must be up to date."""
        asked = self.views.inventory.settlement
        found = Inventory(settlement=None if asked is None else Settlement())
        for kind in _WHEREVER:
            for thing in self.gathered.of(kind):
                found.put(thing.obj)
        seen: dict[PoolKey, list[PoolView]] = {}
        for name in names:
            found.put(self.nodes[name])
            for view in self.views.of_node(name).pools:
                seen.setdefault(view.key, []).append(view)
        for key, views in seen.items():
            for item in self._slices[key]:
                found.put(_as_seen(item, views))
        if asked is not None:
            found.settle(found.rules.keys(), found.pools.keys())
        return found


def _as_seen(item: ResourceSlice, views: Sequence[PoolView]) -> ResourceSlice:
    """Return a slice, without devices if all of the views leave it out."""
    # What is wrong with a pool that is not complete follows from all of its slices.
    if any(
        view.verdict is not Verdict.COMPLETE
        or any(content.name == item.metadata.name for content in view.slices)
        for view in views
    ):
        return item
    return replace(item, spec=replace(item.spec, devices=()))
