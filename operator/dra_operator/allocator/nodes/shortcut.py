"""Shortcuts: ways to leave nodes out without a search.

Most nodes of a nearly full cluster have too little for a claim, and finding that out is cheaper than a search. A
shortcut may leave a node out only if the plain search would find nothing there and would meet no error. So shortcuts
are only used for claims that a node with too few devices can neither serve nor end with an error.
Source: docs/engine section 5.
"""

from collections.abc import Sequence

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.inventory import NodeView


class Shortcut:
    """A way to leave nodes out in one walk. Nodes that it knows nothing of are left to other shortcuts or a search."""

    __slots__ = ()

    def closed(self, nodes: int) -> int:
        """Return which of the nodes to leave out without looking at them."""
        del nodes
        return 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view have too little; false if not, or if that is not known. Raises AbortedError."""
        del view, budget
        return False

    def note(self, view: NodeView, budget: Budget) -> None:
        """Take note of nodes of a view that had too little. Raises AbortedError."""


def can_be_left_out(plans: Sequence[ClaimPlan], fast: Sequence[object]) -> bool:
    """True if nodes with too few devices for a request can be left out: the claims neither fit nor fail there.

    `fast` are the fast searches for these claims.
    """
    return bool(fast) and bool(plans) and all(plan.needs_free and not plan.derives for plan in plans)
