"""Incomplete pools: what a claim waits for whose attempt has been ended by a pool that may be none of its business.

A request for all devices ends the whole attempt at the first node with a pool that is not complete. To mend that pool
helps only a claim that would then get devices. So the attempt is repeated without such pools: where the claim fits
then, the pool is to blame; where it does not, what keeps it from the devices that there are is told as for any other.
Source: docs/dra-semantics 2.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, Explanation, Failed, FatalError
from dra_operator.allocator.explanation.device_counts import DeviceCounter
from dra_operator.allocator.explanation.explain import Explainer, explain_failure
from dra_operator.allocator.explanation.idle_cluster import IdleAnswers, IdleCluster
from dra_operator.allocator.nodes.iteration import NodeIterator
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.chain import FastSearches, SearchChain
from dra_operator.allocator.search.result_types import Solution
from dra_operator.allocator.surplus import tells_surplus
from dra_operator.api.text import listed
from dra_operator.inventory import NodeView, PoolView, Verdict, bits

POOL_REASONS: Final = frozenset((Reason.POOL_INCOMPLETE, Reason.POOL_INVALID))
"""The reasons of an attempt that a pool has ended."""
_TOGETHER: Final = frozenset((Reason.REQUESTS_DO_NOT_FIT_TOGETHER, Reason.CONSTRAINT_UNSATISFIABLE))


class _CompletePoolsSearches(SearchChain):
    """The searches in a node of which only the complete pools are seen."""

    __slots__ = ()

    def search(
        self, plans: Sequence[ClaimPlan], fast: FastSearches, node: str, view: NodeView, budget: Budget
    ) -> Solution | None:
        """Return what some claims get on a node, or None. Raises FatalError and AbortedError."""
        return super().search(plans, fast, node, _complete(view), budget)


@dataclass(slots=True)
class IncompletePools:
    """Explains attempts that a pool has ended. Inventory, ledger and views must be up to date."""

    counter: DeviceCounter
    cluster: IdleCluster
    _searches: SearchChain = field(init=False)
    _explainer: Explainer = field(init=False)
    _iterator: NodeIterator = field(init=False)

    def __post_init__(self) -> None:
        availability, candidates = self.counter.availability, self.counter.candidates
        self._searches = _CompletePoolsSearches.counting(availability, candidates)
        idle = IdleAnswers(self.cluster, _CompletePoolsSearches.counting)
        self._explainer = Explainer(self.counter, self._fits, idle)
        self._iterator = NodeIterator(availability, candidates)

    def explain(self, failed: Failed, plans: Sequence[ClaimPlan], number: int, budget: Budget) -> Explanation:
        """Return why one of some claims is not allocated, of which an attempt has been ended by a pool."""
        own = explain_failure(failed, ())
        try:
            if (lasting := self._find_lasting(plans, budget)) is not None:
                return lasting
            if self._fits(plans, budget) is not None:
                return own
            found = self._explainer.explain(plans, number, budget)
            if found.reason in _TOGETHER:
                if self._in_pools(plans, budget):
                    return own
                found = replace(found, message=f"leaving aside pools that are not complete, {found.message}")
        except (FatalError, AbortedError):
            return own
        match found.reason:
            case Reason.SEARCH_ABORTED:
                return own
            case Reason.NO_DEVICES | Reason.CLASS_MATCHES_NO_DEVICE | Reason.SELECTOR_MATCHES_NO_DEVICE if (
                failed.reason is Reason.POOL_INCOMPLETE and not tells_surplus(failed.message)
            ):
                # There are no others to wait for: it is the pool that may still get some.
                return own
            case Reason.SELECTOR_FAILED | Reason.SELECTOR_INVALID:
                # The claim waits for its selector to be mended.
                return found
        return replace(found, message=found.message + self._incomplete_text(found.message))

    def _find_lasting(self, plans: Sequence[ClaimPlan], budget: Budget) -> Explanation | None:
        """Return the error of a node on which the attempt ended, or came to before, if it stays without the pool."""
        views = self.counter.availability.views
        ended = 0
        for seen in views.of_pool.values():
            for view in seen.values():
                if view.verdict is not Verdict.COMPLETE:
                    ended |= view.nodes
        reached = bits.first(bits.lowest(ended & views.usable) + 1)
        try:
            self._iterator.first_that_fits(plans, views.usable & reached, self._searches, budget)
        except FatalError as error:
            return explain_failure(error.failed(), self.counter.availability.views.inventory.classes)
        return None

    def _incomplete_text(self, text: str) -> str:
        """Return which pools may get devices that nobody knows yet, as slices of them are missing.

        Those that a text names already are left out.
        """
        views = self.counter.availability.views
        keys = [
            key
            for key, seen in views.of_pool.items()
            if any(_may_get_more(view) and view.nodes & views.usable for view in seen.values())
        ]
        pools = ["/".join(key) for key in sorted(keys)]
        pools = [pool for pool in pools if f"({pool}: " not in text and f", {pool}: " not in text]
        return f"; incomplete pools may still get some ({listed(pools)})" if pools else ""

    def _in_pools(self, plans: Sequence[ClaimPlan], budget: Budget) -> bool:
        """True if there are devices for some claims in pools that are not complete."""
        items = [item for plan in plans for request in plan.requests for item in request.alternatives]
        return any(not POOL_REASONS.isdisjoint(self.counter.count(item, budget).refusals) for item in items)

    def _fits(self, plans: Sequence[ClaimPlan], budget: Budget) -> str | None:
        """Return the first node on which some claims fit as if there were no pools but complete ones, or None."""
        usable = self.counter.availability.views.usable
        found = self._iterator.first_that_fits(plans, usable, self._searches, budget)
        return None if found is None else found[1]


def _may_get_more(view: PoolView) -> bool:
    """True if slices of a pool are missing."""
    return view.verdict is Verdict.INCOMPLETE and not tells_surplus(view.reason)


def _complete(view: NodeView) -> NodeView:
    """Return a view of the complete pools alone: the others have no devices in it."""
    row = tuple([pair for pair in view.row if pair[1].verdict is Verdict.COMPLETE])
    if len(row) == len(view.row):
        return view
    starts, pools = tuple([start for start, _ in row]), tuple([pool for _, pool in row])
    return replace(view, pools=pools, starts=starts, row=row)
