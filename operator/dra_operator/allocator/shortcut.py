"""Shortcuts: ways to leave nodes out that some claims do not fit on, without a search.

Most nodes of a nearly full cluster have too little for a claim, and to find that out takes less than to search them. A
shortcut may leave a node out only if the plain search finds nothing there and comes to no device that ends the attempt
with an error. So they are only for claims that no node with too few devices can serve or end with an error.
Source: docs/engine section 5.
"""

from collections.abc import Sequence

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.inventory import NodeView


class Shortcut:
    """A way to leave nodes out in one walk. What it does not know of a node is left to others, and to a search."""

    __slots__ = ()

    def closed(self, nodes: int) -> int:
        """Return those of some nodes that are left out without a look at them."""
        del nodes
        return 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """True if the nodes of a view have too little, false if a search is worth while; None if it cannot tell.

        Raises AbortedError.
        """

    def note(self, view: NodeView, budget: Budget) -> None:
        """Take note of what the nodes of a view have, on which there was too little. Raises AbortedError."""


def can_be_left_out(plans: Sequence[ClaimPlan], fast: Sequence[object]) -> bool:
    """True if claims about which these fast searches can be asked fit on no node with too few devices for a request.

    Nor do they end there with an error.
    """
    return bool(fast) and bool(plans) and all(plan.needs_free and not plan.derives for plan in plans)
