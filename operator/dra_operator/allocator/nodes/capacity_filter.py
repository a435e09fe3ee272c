"""Capacity filter: the amounts of a claim, compared with the most that the devices of a node have left.

Nodes are indexed by what they have left (`ledger.capacity_index`); if searches are in vain where enough is left, then
by what the selected devices have left. Amounts and policies must be ordinary: then what a policy makes of an amount is
no error, and never less than the amount. Source: docs/engine section 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import CandidateKey, Candidates
from dra_operator.allocator.matching.consumption import AskedAmount
from dra_operator.allocator.nodes.error_check import ErrorFreeNodes
from dra_operator.allocator.nodes.filters import FilterContext, NodeFilter
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.inventory import NodeView, PoolView
from dra_operator.ledger import Availability
from dra_operator.ledger.capacity_index import EVERY, NodeCapacityIndex

_MOST_DEVICES = 128
"""Of a pool with more, what is left is not looked at again after each share that is taken."""
_MOST_LOOKS = 2
"""If a closer look has told nothing on so many nodes, it probably tells nothing on the next ones."""

_Demand = tuple[int, CandidateKey, tuple[AskedAmount, ...]]
"""The number of a request, and the key and the amounts of one of its alternatives."""


def build_for_new_amounts(context: FilterContext, plans: Sequence[ClaimPlan]) -> "CapacityFilter | None":
    """Return the filter for some claims, or None if all of their amounts were asked for before."""
    for plan in plans:
        for request in plan.requests:
            for item in request.alternatives:
                if item.key.requests and not item.key.answers:
                    return build_capacity_filter(context, plans)
    return None


def build_capacity_filter(context: FilterContext, plans: Sequence[ClaimPlan]) -> "CapacityFilter | None":
    """Return the filter for some claims, or None if they have no amounts, or odd ones."""
    demands: list[_Demand] = []
    keys: list[CandidateKey] = []
    number = 0
    for plan in plans:
        for request in plan.requests:
            brought: list[_Demand] = []
            for item in request.alternatives:
                key = item.key
                if not key.known.are_ordinary:
                    return None
                keys.append(key)
                if key.requests:
                    brought.append((number, key, key.content.amounts))
            # A request that could be served without an amount is not compared.
            if len(brought) == len(request.alternatives):
                demands += brought
                number += 1
    if not demands:
        return None
    for _, key, _ in demands:
        # This fills in `key.refused`, the drivers that the key refuses.
        context.candidates.selection(key)
    return CapacityFilter(
        context.availability, context.candidates, ErrorFreeNodes.build(context, keys), number, demands
    )


@dataclass(slots=True)
class CapacityFilter(NodeFilter):
    """Leaves out nodes with too little left for one of the requests with amounts.

    `number` counts these requests. `error_free` is about the selectors of all requests. With `selected`, only devices
    that the selectors select are compared.
    """

    availability: Availability
    candidates: Candidates
    error_free: ErrorFreeNodes
    number: int
    demands: Sequence[_Demand]
    selected: bool = False
    _had_enough: bool = False
    _patience: int = _MOST_LOOKS

    def exclude(self, nodes: int) -> int:
        """Return which of the nodes are known to have too little left on each device for a request."""
        index = self.availability.node_capacity
        # Whoever is known by what is selected there is known by everything as well.
        nodes = self.error_free.among(nodes & index.every.known)
        if not nodes:
            return 0
        found = nodes & ~self._with_room(index.every)
        if index.selected:
            found |= self._excluded_by_selected(nodes & ~found)
        return found

    def rejects(self, view: NodeView, budget: Budget) -> bool:
        """True if a request finds too little on each free device; false if not, or if that is not known.

        Raises AbortedError.
        """
        missing, states = (1 << self.number) - 1, self.availability.states
        for pool in view.pools:
            if pool.size > _MOST_DEVICES:
                return False
            state = states[pool.serial]
            if not state.free:
                continue
            if (most := state.most_left.get(EVERY)) is None:
                most = self.availability.find_most_left(pool, EVERY, state.free)
            for request, key, asked in self.demands:
                if (
                    missing >> request & 1
                    and pool.driver not in key.refused
                    and _has(most, asked)
                    and (not self.selected or _has(self._most_selected(pool, key, budget), asked))
                ):
                    missing ^= 1 << request
            if not missing:
                self._had_enough = True
                return False
        if self._record_lack(view, budget):
            return True
        # Where a selector may fail, a search has to find out; to find out twice what it selects would take longer.
        self.selected = False
        return False

    def learn(self, view: NodeView, budget: Budget) -> None:
        """If the search was in vain although enough is left, look closer. Raises AbortedError."""
        if self._had_enough and self._patience and not self.selected:
            self._had_enough = False
            self._patience -= 1
            self.narrow_to_selected(view, budget)

    def narrow_to_selected(self, view: NodeView, budget: Budget) -> bool:
        """Compare only what is selected, if that tells that the nodes of a view have too little. Raises AbortedError.

        It never does if the selectors refuse no device. It does not pay if no other claim has them, as nodes are known
        by them for the claims that follow.
        """
        selections = [key.selection for _, key, _ in self.demands]
        if any(item is not None and item.keeps and item.is_selective for item in selections):
            self.selected = True
            self.selected = self.rejects(view, budget)
        return self.selected

    def _with_room(self, every: NodeCapacityIndex) -> int:
        """Return which of the known nodes may have a device with enough left for each request."""
        open_to = [0] * self.number
        for driver, left in every.by_driver.items():
            for request, key, asked in self.demands:
                if driver not in key.refused:
                    open_to[request] |= left.with_room(asked)
        with_room = -1
        for those in open_to:
            with_room &= those
        return with_room

    def _excluded_by_selected(self, nodes: int) -> int:
        """Return which of the nodes have too little left on each device that is selected."""
        lacking = [nodes] * self.number
        for request, key, asked in self.demands:
            known = self.availability.node_capacity.selected.get(_selectors(key))
            if known is None:
                lacking[request] = 0
            elif lacking[request]:
                with_room = 0
                for left in known.by_driver.values():
                    with_room |= left.with_room(asked)
                lacking[request] &= known.known & ~with_room
        found = 0
        for those in lacking:
            found |= those
        return found

    def _record_lack(self, view: NodeView, budget: Budget) -> bool:
        """Remember nodes with too little, and return true; false if one of their devices might be an error."""
        if not self.error_free.verify(view, budget):
            return False
        nodes = view.nodes
        if nodes & nodes - 1 or any(pool.nodes != nodes for pool in view.pools):
            return True
        index = self.availability.node_capacity.every
        if not nodes & index.known:
            index.enter(nodes, [(pool.key[0], self._most_left(pool)) for pool in view.pools])
        if self.selected:
            self._enter_selected(view, budget)
        return True

    def _enter_selected(self, view: NodeView, budget: Budget) -> None:
        for _, key, _ in self.demands:
            index = self.availability.node_capacity.get_selected(_selectors(key))
            if not view.nodes & index.known:
                pools = [pool for pool in view.pools if pool.driver not in key.refused]
                left = [(pool.key[0], self._most_selected(pool, key, budget)) for pool in pools]
                index.enter(view.nodes, left)

    def _most_left(self, pool: PoolView) -> Mapping[str, int]:
        state = self.availability.states[pool.serial]
        found = state.most_left.get(EVERY)
        return self.availability.find_most_left(pool, EVERY, state.free) if found is None else found

    def _most_selected(self, pool: PoolView, key: CandidateKey, budget: Budget) -> Mapping[str, int]:
        """Return the most that any free device has left which the selectors select. Raises AbortedError."""
        selectors, state = _selectors(key), self.availability.states[pool.serial]
        most = state.most_left.get(selectors)
        if most is None:
            selected = self.candidates.selected(key, pool, state.free, budget)
            most = self.availability.find_most_left(pool, selectors, selected)
        return most


def _selectors(key: CandidateKey) -> object:
    """Return the selectors by which devices are selected, as the index knows them."""
    return key.content[:2]


def _has(most: Mapping[str, int], amounts: Iterable[tuple[str, int, object]]) -> bool:
    for name, amount, _ in amounts:  # noqa: SIM110 - some thousand times for a claim, and half as fast with `all`
        if amount > most.get(name, -1):
            return False
    return True
