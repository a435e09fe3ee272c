"""The quick search: one claim with one request, answered by counting.

What it finds is what the plain search finds. Without errors that one returns the first complete sequence of
(alternative, device, device, ...) in lexicographic order, where the devices of a request go upwards:

- Without a constraint any `n` candidates are a solution, so the first sequence is the lowest `n` of them. A candidate
  is a device that the key admits, that is free, that has room for the amounts and whose counters fit; for one device
  at most, what others of the same attempt take does not matter, so these are asked of each device alone.
- With matchAttribute constraints only, a solution lies within one group of devices with equal values. Of the groups
  with `n` candidates or more the one with the lowest candidate gives the lowest first device, and within it the lowest
  `n` are the lowest sequence. One device alone agrees with itself, and differs: it has to have the attribute.
- Alternatives are asked in order and the first with an answer wins, as nothing follows that could fail.

Where the plain search could meet an error this one says that it is unsure: a free device that ends the attempt, a list
as a value, node operations, compatibility groups, shares that pay counters. Several devices that draw on counters, and
distinct values for several devices, are left to the others as well.
Source: docs/engine sections 6, 8 and 9.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import Candidates
from dra_operator.allocator.capacity import Consumed, has_room
from dra_operator.allocator.found import UNSURE, Answer, Found, Given, Unsure
from dra_operator.allocator.groups import groups_of
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.inventory import NodeView, PoolView
from dra_operator.ledger import Availability


@dataclass(frozen=True, slots=True)
class QuickSearch:
    """The quick search over an availability, in any node."""

    availability: Availability
    candidates: Candidates

    def search(self, plan: ClaimPlan, view: NodeView, budget: Budget) -> Answer:
        """Return the devices for a claim with one countable request, None if there are none, or that it is unsure.

        Raises AbortedError.
        """
        if view.error is not None or view.skips_operations:
            return UNSURE
        for alternative in plan.requests[0].alternatives:
            found = self._alternative(plan, alternative, view, budget)
            if found is UNSURE:
                return UNSURE
            if found is not None:
                given = tuple(self._given(alternative, pool, position) for pool, position in found)
                return Found((given,), ((alternative,),))
        return None

    def _alternative(
        self, plan: ClaimPlan, alternative: Alternative, view: NodeView, budget: Budget
    ) -> list[tuple[PoolView, int]] | Unsure | None:
        count = alternative.count
        assert count is not None
        attributes: tuple[str, ...] = ()
        if alternative.constraints:
            constraints = [plan.constraints[number] for number in alternative.constraints]
            if count > 1 and not all(item.matching for item in constraints):
                return UNSURE
            attributes = tuple(item.attribute for item in constraints)
        if attributes and count > 1:
            return self._matching(alternative, count, attributes, view, budget)
        found: list[tuple[PoolView, int]] = []
        for number, pool in enumerate(view.pools):
            wanted = self._wanted(alternative, count, pool, budget)
            if wanted is UNSURE:
                return UNSURE
            if wanted and attributes:
                groups = groups_of(view, attributes)
                start = view.starts[number]
                if groups.odd >> start & wanted:
                    return UNSURE
                wanted &= groups.members >> start
            for position in self._usable(alternative, pool, wanted):
                found.append((pool, position))
                if len(found) == count:
                    return found
        return None

    def _matching(
        self,
        alternative: Alternative,
        count: int,
        attributes: tuple[str, ...],
        view: NodeView,
        budget: Budget,
    ) -> list[tuple[PoolView, int]] | Unsure | None:
        wanted = 0
        for start, pool in zip(view.starts, view.pools, strict=True):
            candidates = self._wanted(alternative, count, pool, budget)
            if candidates is UNSURE:
                return UNSURE
            if candidates & pool.charged:
                candidates = sum(1 << position for position in self._usable(alternative, pool, candidates))
            wanted |= candidates << start
        if wanted.bit_count() < count:
            return None
        groups = groups_of(view, attributes)
        if groups.odd & wanted:
            return UNSURE
        best = lowest = 0
        for group in groups.groups:
            fitting = group & wanted
            if fitting.bit_count() >= count and (not best or fitting & -fitting < lowest):
                best, lowest = fitting, fitting & -fitting
        if not best:
            return None
        return [view.locate(position) for position in _lowest(best, count)]

    def _wanted(self, alternative: Alternative, count: int, pool: PoolView, budget: Budget) -> int | Unsure:
        """Return the candidates of a pool as far as keys and exclusive use go."""
        free = pool.free
        if not free:
            return 0
        answers = alternative.key.answers.get(pool.serial)
        if answers is None:
            answers = self.candidates.ask(alternative.key, pool, budget)
        if answers.errors & free:
            return UNSURE
        wanted = answers.mask & free
        if wanted & pool.counted:
            layout = pool.counters
            if layout is None or count > 1 or layout.has_groups or wanted & pool.counted & pool.shareable:
                return UNSURE
        return wanted

    def _usable(self, alternative: Alternative, pool: PoolView, wanted: int) -> Iterator[int]:
        """Yield those of the candidates that have room for the amounts, and whose counters fit, lowest first."""
        asked = wanted & (pool.charged | pool.counted)
        while wanted:
            bit = wanted & -wanted
            wanted ^= bit
            position = bit.bit_length() - 1
            if not asked & bit or self._fits(alternative, pool, position, bit):
                yield position

    def _fits(self, alternative: Alternative, pool: PoolView, position: int, bit: int) -> bool:
        content, index = pool.locate(position)
        if bit & pool.charged:
            consumed = self.candidates.consumed(alternative.key, content, index)
            assert isinstance(consumed, Consumed)
            used = self.availability.ledger.consumed(pool.key, content.names[index])
            if not has_room(consumed, used, {}):
                return False
        if bit & pool.counted:
            assert pool.counters is not None
            state = self.availability.counters(pool.counters)
            if state.overdrawn:
                return False
            left = state.left
            for place, amount in pool.counters.draw(content, index).amounts:
                if left[place] < amount:
                    return False
        return True

    def _given(self, alternative: Alternative, pool: PoolView, position: int) -> Given:
        content, index = pool.locate(position)
        if not (content.shareable >> index & 1 and self.candidates.features.consumable_capacity):
            return Given(alternative, content, index, None)
        consumed = self.candidates.consumed(alternative.key, content, index)
        assert isinstance(consumed, Consumed)
        return Given(alternative, content, index, consumed)


def is_quick(plan: ClaimPlan) -> bool:
    """True if the quick search can be asked about a claim."""
    return plan.countable and len(plan.requests) == 1


def _lowest(wanted: int, count: int) -> Iterator[int]:
    for _ in range(count):
        bit = wanted & -wanted
        yield bit.bit_length() - 1
        wanted ^= bit
