"""What exists: pools, slices, classes, nodes and taint rules, kept incrementally.

- `inventory` takes objects in; `changes` tells those who follow it what is new; `problems` what is wrong with objects.
- A slice: `slices`, its `columns`, the `taints` of rules merged into it, what these select by class and CEL
  (`rule_selectors`), the `barriers` that all taints are, and by `ownership` those before devices that are not ours.
- A pool: `pool` judges it, `counters` lays its counters out.
- Who sees what: `nodes` (which can be used), `reach` (which nodes a slice can concern), `sight` (which it does), and
  `views`, what a node sees in search order, as sets of `bits`.
- `features`: the feature gates.
"""

from dra_operator.inventory.changes import Changes
from dra_operator.inventory.features import Features
from dra_operator.inventory.inventory import Inventory
from dra_operator.inventory.pool import Verdict
from dra_operator.inventory.slices import PoolKey, Slice
from dra_operator.inventory.views import NodeView, PoolView, Renumbering, ViewChanges, Views

__all__ = [
    "Changes",
    "Features",
    "Inventory",
    "NodeView",
    "PoolKey",
    "PoolView",
    "Renumbering",
    "Slice",
    "Verdict",
    "ViewChanges",
    "Views",
]
