"""Either: shortcuts for a request with alternatives of which some have amounts, and some do not.

For those with amounts, `scales` tell which nodes have too little capacity left; for the others, `common` tells which
nodes have said no before. A node that has nothing for either has nothing for the request.

This is only for claims with one request, so that there are no other requests whose errors would have to be met.
Source: docs/engine section 5.
"""

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.nodes.common import Common, Commons
from dra_operator.allocator.nodes.scales import Scales, ScalesMaker
from dra_operator.allocator.nodes.shortcut import Shortcut
from dra_operator.allocator.plan import ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.search.searches import FastSearchesFor
from dra_operator.api.sealed import sealed
from dra_operator.inventory import NodeView


@sealed
class Either(Shortcut):
    """Leaves out nodes that have nothing for any alternative, with amounts or without."""

    scales: Scales
    common: Common

    def closed(self, nodes: int) -> int:
        """Return which of the nodes are known to have nothing for either."""
        nodes = self.common.closed(nodes)
        return self.scales.closed(nodes) if nodes else 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view are known to have nothing for either. Raises AbortedError."""
        return self.scales.finds_lack(view, budget) and self.common.finds_lack(view, budget)

    def note(self, view: NodeView, budget: Budget) -> None:
        """Have `scales` look closer and `common` begin to ask, where they have not. Raises AbortedError."""
        self.scales.note(view, budget)
        self.common.note(view, budget)


def of(plan: ClaimPlan, scales: ScalesMaker, commons: Commons, fast_for: FastSearchesFor) -> Either | None:
    """Return the shortcut for a claim of one request with new amounts in some alternatives only, or None."""
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
