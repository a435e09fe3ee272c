"""Either: a request with alternatives of which some bring amounts, and some do not.

Of those with amounts `scales` tell on which nodes there is too little, of the others what nodes have said to other
claims (`common`). A node has nothing for the request where it has nothing for either.

Only for claims with one request: nobody looks at another one before it, or comes to one behind it.
Source: docs/engine section 5.
"""

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.common import Common, Commons
from dra_operator.allocator.plan import ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.scales import Scales, ScalesMaker
from dra_operator.allocator.searches import FastSearchesFor
from dra_operator.allocator.shortcut import Shortcut
from dra_operator.api.sealed import sealed
from dra_operator.inventory import NodeView


@sealed
class Either(Shortcut):
    """Leaves out nodes with too little for the alternatives with amounts that have nothing for the others either."""

    scales: Scales
    common: Common

    def closed(self, nodes: int) -> int:
        """Return those of some nodes of which both is known."""
        nodes = self.common.closed(nodes)
        return self.scales.closed(nodes) if nodes else 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """True if the nodes of a view have nothing for any alternative; else false or None. Raises AbortedError."""
        lack = self.scales.finds_lack(view, budget)
        return self.common.finds_lack(view, budget) if lack else lack

    def note(self, view: NodeView, budget: Budget) -> None:
        """Take note of what the nodes of a view have for the alternatives without amounts. Raises AbortedError."""
        self.common.note(view, budget)


def of(plan: ClaimPlan, scales: ScalesMaker, commons: Commons, fast_for: FastSearchesFor) -> Either | None:
    """Return the shortcut for a claim with a new amount in some of its alternatives, or None if it is none of that."""
    if len(plan.requests) != 1:
        return None
    (request,) = plan.requests
    with_amounts = tuple([item for item in request.alternatives if item.key.requests])
    if not with_amounts or len(with_amounts) == len(request.alternatives):
        return None
    others = tuple([item for item in request.alternatives if not item.key.requests])
    heavy, light = (
        with_requests(plan, (RequestPlan(request.name, request.prioritized, items),), plan.constraints)
        for items in (with_amounts, others)
    )
    weighed, common = scales.of_new((heavy,)), commons.of_all((light,), fast_for)
    return None if weighed is None or common is None else Either(weighed, common)
