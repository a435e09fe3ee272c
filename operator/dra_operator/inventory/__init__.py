"""What exists: pools, slices, classes, nodes and taint rules, kept incrementally.

- `inventory` takes objects in; a `change_set` collects what is new for a subscriber; `object_faults` is what is wrong.
- A slice: `slices`, with its columns, its effective `taints`, the `rule_selectors` of taint rules (class and CEL), and
  `ownership`, the taints of devices that are not ours.
- A pool: `pool` judges it, and lays its counters out.
- Who sees what: `nodes` (which can be used, and which selectors concern them), `views` (what a node sees, in search
  order), as sets of `bits`.
"""

from dra_operator.api.versions import Features
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.inventory import Inventory
from dra_operator.inventory.pool import Verdict
from dra_operator.inventory.slices import PoolKey, Slice
from dra_operator.inventory.views import NodeView, PoolView, ViewChanges, Views

__all__ = [
    "ChangeSet",
    "Features",
    "Inventory",
    "NodeView",
    "PoolKey",
    "PoolView",
    "Slice",
    "Verdict",
    "ViewChanges",
    "Views",
]
