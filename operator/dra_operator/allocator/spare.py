"""Spare: what shares have left of the capacities of a slice's devices.

A claim that asks for an amount of its own would have to look at every device that is shared, and a pool that all nodes
see may have thousands. What is left does not depend on who asks. So it is kept in order, and how many devices have
enough is one search for a place, for each capacity of a slice. Who is shared anew is read anew, and its slice ordered
again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dra_operator.allocator.capacity import Consumed
from dra_operator.inventory import PoolView, Slice, bits
from dra_operator.ledger import Shares


class _Levels(NamedTuple):
    """Amounts in order; `devices[i]` are those that have `amounts[i]` or more."""

    amounts: Sequence[int]
    devices: Sequence[int]


class Spare:
    """What is left of the capacities of the devices of a slice, in nano-units."""

    __slots__ = ("_left", "_levels")

    def __init__(self, content: Slice, shared: Mapping[str, Shares]) -> None:
        self._left: dict[str, dict[int, int]] = {name: {} for name in content.capacity}
        self.update(content, shared, content.every)

    def update(self, content: Slice, shared: Mapping[str, Shares], devices: int) -> None:
        """Take in what is used of some devices."""
        used = [(index, shared.get(content.names[index])) for index in bits.each(devices)]
        for name, left in self._left.items():
            values = content.capacity[name].values
            for index, shares in used:
                if (value := values[index]) is not None:
                    left[index] = value.value.nano - (shares.amounts.get(name, 0) if shares else 0)
        self._levels = {name: _levels(left.items()) for name, left in self._left.items()}

    def suffices(self, kinds: Iterable[tuple[int, Consumed]]) -> int:
        """Return the devices that have enough for what a share would consume, which is told for sets of them."""
        found = 0
        for devices, consumed in kinds:
            enough = devices
            for name, amount, _ in consumed.amounts:
                levels = self._levels[name]
                place = bisect_left(levels.amounts, amount)
                enough &= levels.devices[place] if place < len(levels.devices) else 0
            found |= enough
        return found


def spare_of(pool: PoolView, offset: int, content: Slice, shared: Mapping[str, Shares]) -> Spare:
    """Return what is left of the devices of a slice of a pool view, as of now."""
    spare = pool.spare.get(offset)
    if spare is None:
        spare = pool.spare[offset] = Spare(content, shared)
    elif stale := pool.reshared >> offset & content.every:
        assert isinstance(spare, Spare)
        spare.update(content, shared, stale)
    pool.reshared &= ~(content.every << offset)
    assert isinstance(spare, Spare)
    return spare


def _levels(left: Iterable[tuple[int, int]]) -> _Levels:
    devices_by_amount: dict[int, int] = {}
    for index, amount in left:
        devices_by_amount[amount] = devices_by_amount.get(amount, 0) | 1 << index
    amounts = sorted(devices_by_amount)
    devices: list[int] = []
    above = 0
    for amount in reversed(amounts):
        above |= devices_by_amount[amount]
        devices.append(above)
    return _Levels(amounts, devices[::-1])
