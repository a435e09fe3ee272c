"""What the kinds know of a cluster."""

from dra_operator.allocator.allocator import Allocator
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.kinds.world import State
from dra_operator.ledger import Ledger


def build_state(inventory=None, ledger=None, **known):
    """The state of an inventory and a ledger, and what else is known."""
    inventory, ledger = inventory or Inventory(), ledger or Ledger()
    allocator = Allocator(inventory, ledger, clock=lambda: 0.0, share_ids=lambda: "id")
    return State(inventory, ledger, Explainer(allocator), **known)
