"""Consumption: what a request consumes of each device of a slice, found once for all slices with equal capacity.

Amounts and policies are nearly always ordinary: nothing is negative or too large, and upstream computes in thousandths.
Then a policy is compiled to a rule, a few operations on ints; for anything else `capacity` is asked.
Source: docs/dra-semantics 4.4; docs/engine section 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from dra_operator.allocator.matching.capacity import CapacityError, Consumption, consume, is_in_milli, unasked
from dra_operator.allocator.matching.equivalence import CacheLimit, drop_older_half
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import Family, Quantity, family, is_ordinary
from dra_operator.api.types import CapacityRequestPolicy, DeviceCapacity
from dra_operator.inventory import Slice, bits


@fast_dataclass
class CapacityRule:
    """What a share consumes of one capacity, of which the device has `value`; all numbers are in nano-units.

    `unasked` is what a request consumes that names no amount, or None if the device is unfit for it. An amount becomes
    at least `least`, if there is one, and then a number of steps more, `written` in a family; or the first of `values`
    that is large enough, if there are any. It may be `most`.
    """

    name: str
    value: int
    unasked: Quantity | None
    least: Quantity | None
    step: int
    written: Family
    values: tuple[Quantity, ...]
    most: int


def build_rules(
    capacity: Mapping[str, DeviceCapacity], *, fractional: bool
) -> tuple[CapacityRule, ...] | None:
    """Return the rules of a device's capacities, or None if one of them is out of the ordinary.

    `fractional` is the feature FractionalCapacityRange.
    """
    rules: tuple[CapacityRule, ...] = ()
    for name in sorted(capacity):
        rule = _rule(name, capacity[name], fractional=fractional)
        if rule is None:
            return None
        rules += (rule,)
    return rules


def consume_by(rules: Iterable[CapacityRule], requests: Mapping[str, Quantity]) -> Consumption | None:
    """Return what a request for ordinary amounts consumes of a device that nobody uses yet, or None if it is unfit."""
    amounts: tuple[tuple[str, int, int], ...] = ()
    written: tuple[Quantity | Family, ...] = ()
    missing = len(requests)
    for rule in rules:
        text: Quantity | Family
        request = requests.get(rule.name)
        if request is None:
            if rule.unasked is None:
                return None
            text = rule.unasked
            amount = text.nano
        else:
            missing -= 1
            text, amount = request, request.nano
            least = rule.least
            if least is not None:
                if amount < least.nano:
                    text, amount = least, least.nano
                elif rule.step:
                    text, amount = rule.written, amount + (least.nano - amount) % rule.step
            elif rule.values:
                for value in rule.values:
                    if value.nano >= amount:
                        text, amount = value, value.nano
                        break
                else:
                    return None
            if amount > rule.most:
                return None
        amounts += ((rule.name, amount, rule.value),)
        written += (text,)
    # Otherwise one is asked for that the device lacks.
    return None if missing else Consumption(amounts, written)


def _rule(name: str, capacity: DeviceCapacity, *, fractional: bool) -> CapacityRule | None:
    policy, value = capacity.request_policy, capacity.value.nano
    try:
        fits = consume({}, {name: capacity}, fractional=fractional) is not None
    except CapacityError:
        return None
    quantity = unasked(capacity) if fits else None
    if policy is None:
        return CapacityRule(name, value, quantity, None, 0, Family.DECIMAL, (), value)
    span = policy.valid_range
    if span is None:
        values: Sequence[Quantity] = policy.valid_values
        if values and _is_default_beyond(policy, max(values)):
            return None
        return CapacityRule(name, value, quantity, None, 0, Family.DECIMAL, policy.valid_values, value)
    least, most, step = span.min, span.max, span.step
    if least is None or least.nano < 0 or (most is not None and _is_default_beyond(policy, most)):
        return None
    if step is not None and not (is_ordinary(step) and is_in_milli(span, fractional=fractional)):
        return None
    return CapacityRule(
        name,
        value,
        quantity,
        least,
        0 if step is None else step.nano,
        Family.DECIMAL if step is None else family(step),
        (),
        value if most is None else min(value, most.nano),
    )


def _is_default_beyond(policy: CapacityRequestPolicy, most: Quantity) -> bool:
    """True if a policy permits an amount that is too large by its other words, as it is the default."""
    return policy.default is not None and policy.default > most


AskedAmount: TypeAlias = tuple[str, int, str]
"""An amount of a capacity: its name, nano-units, and how it was written."""

_MAX_SIZE = 524_288
"""Of all amounts together: enough for 131,072 small slices whose devices are equal and have one capacity."""
_MAX_ASKED = 4096
_MAX_KINDS = 16_384
_PAIRS_A_DEVICE = 8
"""Where devices differ so much, to look at each takes no longer than to look at the sets in which they are equal."""


@fast_dataclass
class SliceConsumption:
    """What a request consumes of each device of a slice, the devices that have it, and those where it is an error.

    `size` is the room that all of this takes: about that of so many amounts of one capacity.
    """

    each: Sequence[Consumption | CapacityError | None]
    fit: int
    impossible: int
    size: int


@dataclass(slots=True, eq=False)
class RequestedAmounts:
    """Amounts that requests ask for, whether all are ordinary, and what is known about them by the make of a slice."""

    requests: Mapping[str, Quantity]
    are_ordinary: bool
    by_shape: dict[object, SliceConsumption] = field(default_factory=dict)


@fast_dataclass
class _Alike:
    """The devices of a slice that have a capacity, and the rules of it, or none if it is out of the ordinary."""

    devices: int
    capacity: Mapping[str, DeviceCapacity]
    rules: tuple[CapacityRule, ...] | None


@dataclass(slots=True)
class ConsumptionCache:
    """What is known about amounts, by what is asked for. `fractional` is the feature FractionalCapacityRange."""

    fractional: bool
    _known: dict[tuple[AskedAmount, ...], RequestedAmounts] = field(default_factory=dict)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_SIZE, size_of=attrgetter("size")))
    _kinds: dict[object, Sequence[_Alike]] = field(default_factory=dict)
    _number_of_kinds: int = 0

    def known(self, asked: tuple[AskedAmount, ...], requests: Mapping[str, Quantity]) -> RequestedAmounts:
        """Return what is known of what is asked for: the same for all keys that ask for it, whatever they select.

        `requests` are the same amounts as quantities.
        """
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= _MAX_ASKED:
                for old in drop_older_half(self._known):
                    self._room.release(old.by_shape)
            ordinary = all(map(is_ordinary, requests.values()))
            found = self._known[asked] = RequestedAmounts(requests, ordinary)
        return found

    def find(self, known: RequestedAmounts, slice_: Slice) -> SliceConsumption:
        """Find the amounts of the devices of a slice, where they are not known; most of a slice have equal capacity."""
        kinds = self._kinds.get(slice_.capacity_shape) or self._find_kinds(slice_)
        each: list[Consumption | CapacityError | None] = []
        fit = impossible = 0
        kinds_that_fit = 0
        for kind in kinds:
            found, those = self._consume(known, kind), kind.devices
            if not each:
                each = [found] * len(slice_.names)
            else:
                for index in bits.each(those):
                    each[index] = found
            if isinstance(found, Consumption):
                fit |= those
                kinds_that_fit += 1
            elif found is not None:
                impossible |= those
        size = 2 + len(each) // 16 + kinds_that_fit * (1 + len(slice_.capacity))
        self._room.reserve(known.by_shape, size)
        amounts = known.by_shape[slice_.capacity_shape] = SliceConsumption(each, fit, impossible, size)
        return amounts

    def has_rules(self, slice_: Slice) -> bool:
        """True if all capacities of a slice are ordinary: then no device is fit for more that is unfit for less."""
        kinds = self._kinds.get(slice_.capacity_shape) or self._find_kinds(slice_)
        return all(kind.rules is not None for kind in kinds)

    def _find_kinds(self, slice_: Slice) -> Sequence[_Alike]:
        kinds: list[_Alike] = []
        for devices in _alike(slice_):
            capacity = slice_.capacity_of(bits.lowest(devices))
            kinds.append(_Alike(devices, capacity, build_rules(capacity, fractional=self.fractional)))
        if self._number_of_kinds > _MAX_KINDS:
            self._kinds.clear()
            self._number_of_kinds = 0
        self._kinds[slice_.capacity_shape] = kinds
        self._number_of_kinds += len(kinds)
        return kinds

    def _consume(self, known: RequestedAmounts, kind: _Alike) -> Consumption | CapacityError | None:
        if kind.rules is not None and known.are_ordinary:
            return consume_by(kind.rules, known.requests)
        try:
            return consume(known.requests, kind.capacity, fractional=self.fractional)
        except CapacityError as error:
            # Another one, as it is kept: without the frames it came through.
            return CapacityError(str(error))


def _alike(slice_: Slice) -> Sequence[int]:
    """Return the devices of a slice as sets, each of those with equal capacity."""
    columns = [column for column in slice_.capacity.values() if len(column.sets) > 1]
    kinds = [slice_.every]
    for column in columns:
        if len(kinds) * len(column.sets) > _PAIRS_A_DEVICE * len(slice_.names):
            found: dict[object, int] = {}
            for index, key in enumerate(zip(*[column.keys for column in columns], strict=True)):
                found[key] = found.get(key, 0) | 1 << index
            return list(found.values())
        kinds = [both for those in kinds for equal in column.sets if (both := those & equal)]
    return kinds
