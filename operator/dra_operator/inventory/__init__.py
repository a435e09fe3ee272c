"""What exists: pools, slices, classes, nodes and taint rules, kept incrementally."""

from dra_operator.inventory.changes import Changes
from dra_operator.inventory.features import Features
from dra_operator.inventory.inventory import Inventory
from dra_operator.inventory.pool import Verdict
from dra_operator.inventory.slices import PoolKey, Slice
from dra_operator.inventory.views import NodeView, PoolView, ViewChanges, Views

__all__ = [
    "Changes",
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
