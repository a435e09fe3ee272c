"""Obstacles: what keeps devices that are selected from a request, in the order in which the allocator meets them.

Each refusal says why, of which devices, and whose uses are the cause: of a device in use those who hold it; of counters
that are used up those who hold the devices that draw on them.
Source: docs/dra-semantics 3 and 4.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dra_operator.allocator.explanation.pool_records import PoolRecord, SliceRecord
from dra_operator.allocator.explanation.text import taint_text
from dra_operator.allocator.matching.candidates import Candidates, untolerated
from dra_operator.allocator.matching.capacity import CapacityError, Consumption, has_room, origin, refusal
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.quantity import Quantity, family, format_amount, format_beside
from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice, Verdict, bits
from dra_operator.inventory.counters import CounterLayout, Draw
from dra_operator.inventory.taints import FENCED, UNOWNED
from dra_operator.ledger import Availability
from dra_operator.ledger.counters import CounterState

USES = frozenset(
    (
        Reason.DEVICE_IN_USE,
        Reason.CAPACITY_EXHAUSTED,
        Reason.COUNTERS_EXHAUSTED,
        Reason.GROUP_INCOMPATIBLE,
    )
)
"""The obstacles that would not be there if no device were in use."""
PASSING = USES | {Reason.DEVICE_TAINTED}
"""The obstacles that whoever waits waits for: uses end, and taints may."""
TITLES = {
    Reason.POOL_INCOMPLETE: "in incomplete pools",
    Reason.POOL_INVALID: "in invalid pools",
    Reason.CAPACITY_REQUEST_INVALID: "on which the capacity request is impossible",
    Reason.CAPACITY_TOO_SMALL: "whose capacity does not fit",
    Reason.DEVICE_NOT_OWNED: "not owned by this operator",
    Reason.DEVICE_TAINTED: "tainted",
    Reason.NODE_UNUSABLE: "on nodes that cannot be used",
    Reason.NODE_OPERATIONS_UNSUPPORTED: "on nodes that lack a feature",
    Reason.DEVICE_IN_USE: "in use",
    Reason.GROUP_INCOMPATIBLE: "incompatible with devices in use",
    Reason.COUNTERS_EXHAUSTED: "without enough left of their counters",
    Reason.CAPACITY_EXHAUSTED: "without enough capacity left",
}
"""How each obstacle is told, in the order in which they are met."""
_Users = tuple[int, ...] | None
_NumbersOf = Callable[[Draw], Iterable[int]]


class Refusal(NamedTuple):
    """A reason, the devices it refuses, and a detail.

    `users` holds the devices in use that it is due to, a set for each slice of the pool; None where it is uses of those
    that it refuses, or no use at all.
    """

    reason: Reason
    devices: int
    detail: str = ""
    users: _Users = None


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Finds what keeps devices of a pool from an alternative, by what is committed."""

    availability: Availability
    candidates: Candidates
    alternative: Alternative
    pool: PoolRecord

    def each(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        """Yield what keeps some devices of a slice away; no device is refused twice."""
        steps = (self._pool, self._amounts, self._taints, self._nodes, self._operations, self._uses)
        for step in (*steps, self._counters, self._shares):
            if not devices:
                break
            for found in step(record, devices):
                devices &= ~found.devices
                yield found

    def _pool(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        judgement = self.pool.judgement
        if judgement.verdict is not Verdict.COMPLETE and not record.old:
            incomplete = judgement.verdict is Verdict.INCOMPLETE
            reason = Reason.POOL_INCOMPLETE if incomplete else Reason.POOL_INVALID
            # What a node reaches is in a pool that is complete as far as that node can see.
            if refused := devices & ~record.reachable:
                yield Refusal(reason, refused, f"{'/'.join(self.pool.pool.key)}: {judgement.reason}")

    def _amounts(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        if not self.alternative.key.requests and not record.slice_.capacity:
            return
        for index in bits.each(devices):
            consumed = self.candidates.consumed(self.alternative.key, record.slice_, index)
            if isinstance(consumed, CapacityError):
                yield Refusal(Reason.CAPACITY_REQUEST_INVALID, 1 << index, str(consumed))
            elif consumed is None:
                text = self._refusal(record.slice_, index)
                yield Refusal(Reason.CAPACITY_TOO_SMALL, 1 << index, text)

    def _refusal(self, slice_: Slice, index: int) -> str:
        fractional = self.candidates.features.fractional_capacity_range
        return refusal(self.alternative.key.requests, slice_.capacity_of(index), fractional=fractional)

    def _taints(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        refused = devices & ~self.candidates.tolerated(self.alternative.key, record.slice_, devices)
        for taints, tainted in record.slice_.tainted_groups if refused else ():
            if here := refused & tainted:
                taint = untolerated(taints, self.alternative.key.content.all_tolerations())
                assert taint is not None
                if taint.effect == UNOWNED:
                    yield Refusal(Reason.DEVICE_NOT_OWNED, here, taint.value)
                else:
                    # What is fenced is tainted as well, and only the fence keeps it from who tolerates that taint.
                    shown = taint._replace(effect="NoSchedule") if taint.effect == FENCED else taint
                    yield Refusal(Reason.DEVICE_TAINTED, here, taint_text(shown))

    def _nodes(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        for index in bits.each(devices & ~record.reachable):
            yield Refusal(Reason.NODE_UNUSABLE, 1 << index, record.unreachable[index])

    def _operations(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        if refused := devices & ~record.operations:
            text = "their nodes cannot skip node operations"
            yield Refusal(Reason.NODE_OPERATIONS_UNSUPPORTED, refused, text)

    def _uses(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        if not self.alternative.admin_access and (taken := devices & record.taken):
            yield Refusal(Reason.DEVICE_IN_USE, taken)

    def _counters(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        state = self.availability.find_counters(record.counters)
        if state is None:
            return
        layout, slice_ = state.layout, record.slice_
        users: dict[tuple[Reason, int], _Users] = {}
        paid = slice_.shareable & record.sharing if self.candidates.features.consumable_capacity else 0
        for index in bits.each(devices & slice_.counted & ~paid):
            lack = _lack_of(state, layout.draw(slice_, index))
            if lack is None:
                continue
            reason, text, number = lack
            if number is None:
                due_to: _Users = (0,) * len(self.pool.slices)
            elif (due_to := users.get((reason, number))) is None:
                numbers_of = _sets_of if reason is Reason.GROUP_INCOMPATIBLE else _counters_of
                due_to = users[reason, number] = _using(self.pool, layout, number, numbers_of)
            yield Refusal(reason, 1 << index, text, due_to)

    def _shares(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        for index in bits.each(devices & record.sharing):
            amounts = record.shared[index]
            consumed = self.candidates.consumed(self.alternative.key, record.slice_, index)
            if amounts and isinstance(consumed, Consumption) and not has_room(consumed, amounts, {}):
                capacity = record.slice_.capacity_of(index)
                text = _exhausted(consumed, amounts, self.alternative.key.requests, capacity)
                yield Refusal(Reason.CAPACITY_EXHAUSTED, 1 << index, text)


def _lack_of(state: CounterState, draw: Draw) -> tuple[Reason, str, int | None] | None:
    """Return why a device does not fit what is left of its pool's counters, in words too; None if it does.

    The number is that of the counter, or for groups that of the counter set, whose users keep it away; None if none do.
    """
    placed, layout = state.placed(), state.layout
    for number, groups in draw.groups:
        if (there := placed[number]) and not there.admits(groups):
            return Reason.GROUP_INCOMPATIBLE, f"{_groups(groups)} beside {_groups(there.shared)}", number
    for number, amount in draw.amounts:
        left, total, name = state.left[number], layout.totals[number], layout.names[number]
        if left < amount:
            if total < amount:
                return Reason.COUNTERS_EXHAUSTED, _compared(name, total, "in all", amount), None
            return Reason.COUNTERS_EXHAUSTED, _compared(name, left, "left", amount), number
    if not state.overdrawn:
        return None
    number = next(at for at, left in enumerate(state.left) if left < 0)
    text = f"counter {'/'.join(layout.names[number])} of the pool is overdrawn"
    return Reason.COUNTERS_EXHAUSTED, text, number


def _using(pool: PoolRecord, layout: CounterLayout, number: int, numbers_of: _NumbersOf) -> tuple[int, ...]:
    """Return the devices in use that draw on a counter, or on a counter set, by slice."""
    return tuple(
        [
            bits.from_positions(
                index
                for index in bits.each(record.slice_.counted & (record.taken | record.sharing))
                if record.counters is layout and number in numbers_of(layout.draw(record.slice_, index))
            )
            for record in pool.slices
        ]
    )


def _counters_of(draw: Draw) -> Iterable[int]:
    return [number for number, amount in draw.amounts if amount]


def _sets_of(draw: Draw) -> Iterable[int]:
    return [number for number, _ in draw.groups]


def _groups(names: frozenset[str]) -> str:
    """Return the compatibility groups of a device, or those that the devices in use share."""
    return f"group{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}" if names else "no group"


def _compared(counter: tuple[str, str], there: int, how: str, wanted: int) -> str:
    """Return what is there of a counter and what a device takes, in nano-units: memory shows by its round numbers."""
    have, takes = format_beside(there, wanted)
    return f"{'/'.join(counter)} {have} {how} < {takes}"


def _exhausted(
    consumed: Consumption,
    used: Mapping[str, int],
    requests: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
) -> str:
    quantities = consumed.quantities()
    for name, wanted, value in consumed.amounts:
        left = value - used.get(name, 0)
        if left < wanted:
            amount = quantities[name]
            shown = f"{amount.text}{origin(requests.get(name), capacity[name], amount)}"
            return f"{name} {format_amount(left, family(amount))} left < {shown}"
    return ""
