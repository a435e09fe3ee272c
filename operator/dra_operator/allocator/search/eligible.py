"""Eligibility: which devices of a pool a request may take, if each is judged by itself.

Who counts devices needs to know beforehand which ones the exhaustive search would accept. For
admin access, devices in use are as good as free ones. Nothing can be counted if that search could meet an error, or a
rule that is not about one device alone.
Source: docs/engine section 9; docs/dra-semantics 3.4, 3.5 and 4.
"""

from collections.abc import Collection
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import CandidateKey, Candidates
from dra_operator.allocator.matching.capacity import Consumption, has_room
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.search.result_types import UNDECIDED, Undecided
from dra_operator.inventory import PoolView, bits
from dra_operator.ledger import Availability, PoolState

_MAX_KEYS = 8
"""Of whose shared devices with room are remembered for a pool."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Judges devices by what is committed."""

    availability: Availability
    candidates: Candidates

    def candidates_of(self, asked: Alternative, pool: PoolView, budget: Budget) -> int | Undecided:
        """Return the devices that the key admits and whose use permits it, or UNDECIDED if only another can tell.

        It has to if a device that it would look at is an error, and if what devices draw on counters depends on more
        than what is left and who has paid. Raises AbortedError.
        """
        usable = -1 if asked.admin_access else self.availability.states[pool.serial].free
        if not usable:
            return 0
        ask = asked.key.ask
        answers = ask.answers.get(pool.serial)
        if answers is None or usable & answers.unknown:
            answers = self.candidates.find(ask, pool, budget, usable)
        if answers.errors & usable:
            return UNDECIDED
        usable &= answers.selectable
        if not usable:
            return 0
        fit, impossible = self.candidates.fit(asked.key, pool, usable)
        if impossible:
            return UNDECIDED
        wanted = answers.mask & fit
        if wanted & pool.counted:
            layout = pool.counters
            if layout is None or not layout.is_plain:
                return UNDECIDED
        return wanted

    def judge(self, key: CandidateKey, pool: PoolView, wanted: int) -> int:
        """Return which of the candidates have room and counters that fit, each judged by itself."""
        if drawing := wanted & pool.counted:
            wanted ^= drawing ^ self._affordable(pool, drawing)
        state = self.availability.states[pool.serial]
        if asked := wanted & state.charged:
            wanted ^= asked ^ self._with_room(key, state, asked)
        return wanted

    def paid(self, pool: PoolView, devices: int) -> int:
        """Return which of the devices have shares: the first share of each has paid its counters."""
        found = 0
        if shared := self._paying(pool):
            for offset, slice_ in pool.placed:
                for index in bits.each(devices >> offset & slice_.counted & slice_.shareable):
                    if slice_.names[index] in shared:
                        found |= 1 << offset + index
        return found

    def _paying(self, pool: PoolView) -> Collection[str]:
        """Return the names of devices with shares; none if the feature is off, whatever claims say."""
        return (
            self.availability.ledger.shared(pool.key) if self.candidates.features.consumable_capacity else ()
        )

    def _affordable(self, pool: PoolView, asked: int) -> int:
        """Return which of the devices have counters that fit or are paid; remembered until the counters change."""
        layout = pool.counters
        assert layout is not None
        state, counters = self.availability.states[pool.serial], self.availability.counters(layout)
        version, known, affordable = state.affordable
        if version is not counters.version:
            known = affordable = 0
        if unknown := asked & ~known:
            if unknown & pool.shareable:
                affordable |= self.paid(pool, unknown)
            if not counters.overdrawn:
                left = counters.left
                for offset, slice_ in pool.placed:
                    for index in bits.each((unknown & ~affordable) >> offset & slice_.counted):
                        for place, amount in layout.draw(slice_, index).amounts:
                            if left[place] < amount:
                                break
                        else:
                            affordable |= 1 << offset + index
            state.affordable = (counters.version, known | unknown, affordable)
        return affordable & asked

    def _with_room(self, key: CandidateKey, state: PoolState, asked: int) -> int:
        """Return which of the shared devices have room; of each remembered until its own use changes."""
        known, found = state.with_room.get(key.serial, (0, 0))
        if unknown := asked & ~known:
            found |= self._find_with_room(key, state, unknown)
            if key.serial not in state.with_room and len(state.with_room) >= _MAX_KEYS:
                state.with_room.clear()
            state.with_room[key.serial] = (known | unknown, found)
        return found & asked

    def _find_with_room(self, key: CandidateKey, state: PoolState, asked: int) -> int:
        pool = state.view
        shared = self.availability.ledger.shared(pool.key)
        found = 0
        for offset, slice_ in pool.placed:
            here = asked >> offset & slice_.every
            if not here:
                continue
            each = self.candidates.consumed_each(key, slice_)
            for index in bits.each(here):
                consumed = each[index]
                assert isinstance(consumed, Consumption)
                shares = shared.get(slice_.names[index])
                if shares is None or has_room(consumed, shares.amounts, {}):
                    found |= 1 << offset + index
        return found
