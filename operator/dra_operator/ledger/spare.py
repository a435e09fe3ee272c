"""Spare: what shares have left of the capacities of a slice's devices.

A claim that asks for an amount of its own would have to look at every device that is shared, and a pool that all nodes
see may have thousands. What is left does not depend on who asks. So it is kept in order, and how many devices have
enough is one search for a place, for each capacity of a slice. Who is shared anew is read anew, and moves to its new
place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice, bits
from dra_operator.ledger.uses import Shares

FEW_DEVICES = 8
"""To look at so many shared devices takes no longer than to look up what is left of all."""


class _Ranked(NamedTuple):
    """Amounts in order; `devices[i]` are those that have `amounts[i]` or more."""

    amounts: list[int]
    devices: list[int]

    @classmethod
    def of(cls, left: Iterable[tuple[int, int]]) -> "_Ranked":
        """Return devices ranked by what is left of each."""
        devices_by_amount: dict[int, int] = {}
        for index, amount in left:
            devices_by_amount[amount] = devices_by_amount.get(amount, 0) | 1 << index
        amounts = sorted(devices_by_amount)
        devices: list[int] = []
        above = 0
        for amount in reversed(amounts):
            above |= devices_by_amount[amount]
            devices.append(above)
        return cls(amounts, devices[::-1])

    def enough(self, amount: int) -> int:
        """Return the devices that have an amount or more."""
        place = bisect_left(self.amounts, amount)
        return self.devices[place] if place < len(self.devices) else 0

    def most(self, devices: int) -> int | None:
        """Return the most that any of some devices has; None if none of them has the capacity."""
        for place in range(len(self.amounts) - 1, -1, -1):
            if self.devices[place] & devices:
                return self.amounts[place]
        return None

    def move(self, device: int, old: int, new: int) -> None:
        """Let a device, as a bit, have another amount than before."""
        amounts, devices = self
        less, more = (new, old) if new < old else (old, new)
        for place in range(bisect_right(amounts, less), bisect_right(amounts, more)):
            # It had all of these, or none.
            devices[place] ^= device
        place = bisect_left(amounts, new)
        if place == len(amounts) or amounts[place] != new:
            others = devices[place] if place < len(devices) else 0
            amounts.insert(place, new)
            devices.insert(place, others | device)
        place = bisect_left(amounts, old)
        if devices[place] == (devices[place + 1] if place + 1 < len(devices) else 0):
            del amounts[place], devices[place]


class Spare:
    """What is left of the capacities of the devices of a slice, in nano-units."""

    __slots__ = ("_left", "_ranked")

    def __init__(self, slice_: Slice, shared: Mapping[str, Shares]) -> None:
        self._left = {
            name: {
                index: _left(value, shared.get(device), name)
                for index, (device, value) in enumerate(zip(slice_.names, column.values, strict=True))
                if value is not None
            }
            for name, column in slice_.capacity.items()
        }
        self._ranked = {name: _Ranked.of(left.items()) for name, left in self._left.items()}

    def update(self, slice_: Slice, shared: Mapping[str, Shares], devices: int) -> None:
        """Take in what is used of some devices."""
        for index in bits.each(devices):
            shares = shared.get(slice_.names[index])
            for name, left in self._left.items():
                value = slice_.capacity[name].values[index]
                if value is not None and (now := _left(value, shares, name)) != left[index]:
                    self._ranked[name].move(1 << index, left[index], now)
                    left[index] = now

    def enough(self, devices: int, amounts: Iterable[tuple[str, int, int]]) -> int:
        """Return those of some devices that have enough of each of some capacities.

        The amounts are those that a share would consume; what the devices have of each in all does not matter.
        """
        for name, amount, _ in amounts:
            devices &= self._ranked[name].enough(amount)
        return devices

    def most(self, devices: int) -> Iterator[tuple[str, int]]:
        """Yield the most that any of some devices has left, for each capacity that one of them has."""
        for name, ranked in self._ranked.items():
            amount = ranked.most(devices)
            if amount is not None:
                yield name, amount


def _left(capacity: DeviceCapacity, shares: Shares | None, name: str) -> int:
    return capacity.value.nano - (shares.amounts.get(name, 0) if shares else 0)
