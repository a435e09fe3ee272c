"""Counter sets of a pool: what they hold in all, and what each device takes from them.

The devices of a partitionable pool overlap: a GPU and its parts draw on the same counters. All counters of a pool
lie side by side: what is left is a list of ints, and what a device draws a few positions with amounts, in nano-units.
Source: ResourceSlice v1, `sharedCounters` and `devices[].consumesCounters`; docs/dra-semantics 4.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra_operator.inventory import bits
from dra_operator.inventory.slices import CounterUse, Slice


class CounterError(Exception):
    """A pool whose counters contradict each other; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a device takes: (position, nano-units) of counters, and (set, groups it can live with) a set."""

    amounts: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, frozenset[str]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CounterLayout:
    """The counters of a complete pool.

    `totals` holds the amounts by position; `names` the set and counter of each position; `draws` what the devices of
    that name take, in the order of their slices (a name can occur twice where slices concern different nodes);
    `sets` is the number of counter sets; `has_groups` says whether any device names compatibility groups; `joining`
    holds, if so, the slice (by serial number), the name and the draw of each device, in the same order; `is_plain`
    says that none does and that no device takes a negative amount, so that taking a device never helps another.
    """

    totals: tuple[int, ...]
    names: tuple[tuple[str, str], ...]
    draws: Mapping[str, tuple[Draw, ...]]
    joining: tuple[tuple[int, str, Draw], ...]
    sets: int
    has_groups: bool
    is_plain: bool
    _of_device: Mapping[tuple[str, int], Draw]

    @classmethod
    def build(cls, slices: Sequence[Slice]) -> "CounterLayout":
        """Return the layout of a pool with these slices.

        Raises CounterError if a counter set is published twice or a device refers to one that is not there.
        """
        slices = sorted(slices, key=lambda item: item.name)
        names: list[tuple[str, str]] = []
        totals: list[int] = []
        sets: dict[str, int] = {}
        for counter_set in (item for slice_ in slices for item in slice_.counter_sets):
            if counter_set.name in sets:
                raise CounterError(f"duplicate counter set name {counter_set.name}")
            sets[counter_set.name] = len(sets)
            for name in sorted(counter_set.counters):
                names.append((counter_set.name, name))
                totals.append(counter_set.counters[name].value.nano)
        positions = {name: position for position, name in enumerate(names)}
        draws: dict[str, tuple[Draw, ...]] = {}
        joining: list[tuple[int, str, Draw]] = []
        of_device: dict[tuple[str, int], Draw] = {}
        for slice_ in slices:
            for index in bits.each(slice_.counted):
                device = slice_.names[index]
                draw = _draw(device, slice_.device_fields[index].consumes, sets, positions)
                of_device[slice_.name, index] = draw
                draws[device] = (*draws.get(device, ()), draw)
                joining.append((slice_.serial, device, draw))
        has_groups = any(slice_.has_groups for slice_ in slices)
        gives = any(amount < 0 for draw in of_device.values() for _, amount in draw.amounts)
        return cls(
            totals=tuple(totals),
            names=tuple(names),
            draws=draws,
            joining=tuple(joining) if has_groups else (),
            sets=len(sets),
            has_groups=has_groups,
            is_plain=not has_groups and not gives,
            _of_device=of_device,
        )

    def draw(self, slice_: Slice, index: int) -> Draw:
        """Return what a device of one of the pool's slices takes; it must be one that consumes counters."""
        return self._of_device[slice_.name, index]


def _draw(
    device: str,
    consumes: tuple[CounterUse, ...],
    sets: Mapping[str, int],
    positions: Mapping[tuple[str, str], int],
) -> Draw:
    # A set named twice, which no API server admits, counts twice.
    amounts: dict[int, int] = {}
    for use in consumes:
        if use.counter_set not in sets:
            raise CounterError(
                f"device {device} uses counter set {use.counter_set}, which the pool does not have"
            )
        for name, nano in use.counters:
            position = positions.get((use.counter_set, name))
            if position is None:
                raise CounterError(
                    f"device {device} uses counter {name}, which counter set {use.counter_set} does not have"
                )
            amounts[position] = amounts.get(position, 0) + nano
    return Draw(tuple(amounts.items()), tuple((sets[use.counter_set], use.groups) for use in consumes))
