"""Consumable capacity: what a device, or a share of it, consumes for a request.

Each capacity of a device counts, requested or not. The policy rounds an amount up. An amount that the policy does not
permit makes the device unfit. An amount that is negative or cannot be represented is an error that ends the attempt, as
no driver could make sense of it.
Source: docs/dra-semantics 4.4; ResourceSlice v1, `devices[].capacity[].requestPolicy`.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from dra_operator.allocator.matching.equivalence import CacheLimit, drop_older_half
from dra_operator.api.attributes import by_short_name
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import (
    MAX_INT64,
    NANO,
    Family,
    Quantity,
    Representation,
    family,
    format_amount,
    is_ordinary,
    passed_through,
    representation,
)
from dra_operator.api.types import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dra_operator.api.versions import RELEASED, RULES, Rules
from dra_operator.inventory import Slice, bits

_MILLI = NANO // 1000
_MOST_MILLI = MAX_INT64 * _MILLI
_LEAST_MILLI = -_MOST_MILLI - _MILLI
"""The amounts, in nano-units, that an int64 can hold in thousandths."""
_LEAST_NANO = -MAX_INT64 - 1


class CapacityError(Exception):
    """An amount that cannot be consumed by anybody: negative, or beyond what can be represented."""


@fast_dataclass
class Consumption:
    """What a use of a device consumes of each of its capacities, and what the device has of it, in nano-units.

    `written` says how to write them: those that are copied like what they are copied from, computed ones in a family.
    """

    amounts: tuple[tuple[str, int, int], ...]
    written: tuple[Quantity | Family, ...]

    def quantities(self) -> dict[str, Quantity]:
        """Return what is consumed by name of the capacity, as results have it."""
        return {
            name: Quantity(amount, format_amount(amount, like))
            if isinstance(like, Family)
            else passed_through(like.text)
            for (name, amount, _), like in zip(self.amounts, self.written, strict=True)
        }


NOTHING: Final = Consumption((), ())


class _AsWritten(Enum):
    """An amount that is held as one that is read from its text, which is seldom asked: any, or that of the slice."""

    AS_WRITTEN = "as written"
    UNASKED = "unasked"


_AS_WRITTEN: Final = _AsWritten.AS_WRITTEN


class _Amount(NamedTuple):
    """What is consumed of a capacity, and how upstream holds it, by which it tells a default from other amounts.

    Some are made for each claim with amounts of its own, and a tuple is made without a call.
    """

    quantity: Quantity
    held: Representation | _AsWritten | None


def consume(
    requests: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
    *,
    fractional: bool,
    rules: Rules = RULES[RELEASED],
) -> Consumption | None:
    """Return what a request consumes of a device that nobody uses yet, or None if the device is unfit.

    `fractional` is the feature FractionalCapacityRange. Raises CapacityError.
    """
    if any(name not in capacity for name in requests):
        return None
    consumed: tuple[tuple[str, int, int], ...] = ()
    written: tuple[Quantity | Family, ...] = ()
    fit = True
    for name in sorted(capacity):
        of = capacity[name]
        amount = _possible(name, requests, capacity, fractional=fractional)
        quantity = amount.quantity
        # The others are computed all the same: an impossible one is an error although another is unfit. The policy is
        # asked before what the device has, as upstream asks: conformance lets it crash where upstream's crashes.
        fit = (
            fit
            and _is_permitted(amount, of.request_policy, rules, fractional=fractional)
            and quantity.nano <= of.value.nano
        )
        consumed += ((name, quantity.nano, of.value.nano),)
        written += (amount.held.family if isinstance(amount.held, Representation) else quantity,)
    return Consumption(consumed, written) if fit else None


def refusal(
    requests: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
    *,
    fractional: bool,
    rules: Rules = RULES[RELEASED],
) -> str:
    """Return why `consume` finds a device unfit: a capacity that it lacks, or else the first one, with its amounts.

    Requested ones come first. The same parameters as there; empty if the device is fit. Raises CapacityError.
    """
    # Where one is missing `consume` looks at no amount, and none is impossible.
    if (missing := min(requests.keys() - capacity.keys(), default=None)) is not None:
        only = f", only {' and '.join(sorted(capacity)[:3])}" if capacity else ""
        return f"no capacity {missing}{only}"
    for name in (*sorted(requests), *sorted(capacity.keys() - requests.keys())):
        of, request = capacity[name], requests.get(name)
        amount = _possible(name, requests, capacity, fractional=fractional)
        shown = f"{amount.quantity}{origin(request, of, amount.quantity)}"
        if amount.quantity > of.value:
            return f"{name} {of.value} < {shown}"
        if of.request_policy and not _is_permitted(amount, of.request_policy, rules, fractional=fractional):
            return f"{name} {shown} {_objection(amount.quantity, of.request_policy)}"
    return ""


def origin(request: Quantity | None, capacity: DeviceCapacity, amount: Quantity) -> str:
    """Return where an amount comes from, if it is not the one that is requested: whoever asked has not written it."""
    if request is None:
        policy = capacity.request_policy
        all_of_it = policy is None or policy.default is None
        return f" ({'all of it' if all_of_it else 'the default'}, as none is requested)"
    return "" if amount == request else f" ({request} rounded up)"


def has_room(consumed: Consumption, used: Mapping[str, int], in_flight: Mapping[str, int]) -> bool:
    """True if the device has this much left beside what is used, in nano-units by capacity name.

    Repeated, faster, by `Problem.has_room`.
    """
    for name, amount, value in consumed.amounts:  # noqa: SIM110 - asked for each device, and a generator takes longer
        if used.get(name, 0) + in_flight.get(name, 0) + amount > value:
            return False
    return True


def _possible(
    name: str,
    requests: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
    *,
    fractional: bool,
) -> _Amount:
    try:
        amount = _amount(requests.get(name), capacity[name], fractional=fractional)
    except CapacityError as error:
        raise CapacityError(f'capacity "{name}": {error}') from None
    if amount.quantity.nano < 0:
        raise CapacityError(f'capacity "{name}": {amount.quantity.text} is negative')
    return amount


def _amount(request: Quantity | None, capacity: DeviceCapacity, *, fractional: bool) -> _Amount:
    if request is None:
        return _Amount(unasked(capacity), _AsWritten.UNASKED)
    policy = capacity.request_policy
    if policy is None:
        return _copied(request)
    if (span := policy.valid_range) is not None and span.min is not None:
        return _in_range(request, span.min, span, fractional=fractional)
    # Without a value that is large enough the request stands as it is, to be refused when it is judged.
    enough = next((value for value in policy.valid_values if value.nano >= request.nano), None)
    return _compared(request, policy.valid_values) if enough is None else _copied(enough)


def unasked(capacity: DeviceCapacity) -> Quantity:
    """Return the amount that a request is taken to ask for which names none: the policy's default, or all there is."""
    policy = capacity.request_policy
    return capacity.value if policy is None or policy.default is None else policy.default


def _copied(amount: Quantity) -> _Amount:
    return _Amount(amount, _AS_WRITTEN)


def _compared(request: Quantity, bounds: Iterable[Quantity]) -> _Amount:
    """Return a request that upstream has compared with bounds: a large or odd bound changes how it is held."""
    changed = any(representation(bound.text) is None for bound in bounds)
    return _Amount(request, None) if changed else _copied(request)


def _in_range(
    request: Quantity, least: Quantity, span: CapacityRequestPolicyRange, *, fractional: bool
) -> _Amount:
    if request.nano < least.nano:
        return _copied(least)
    if span.step is None:
        return _compared(request, (least,))
    if is_in_milli(span, fractional=fractional):
        return _round_up_in_milli(request, least, span.step)
    return _round_up_in_whole(request, least, span.step)


def is_in_milli(span: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    """True if upstream computes this range in milli-units: it does so for whole numbers as well."""
    least, most, step = span.min, span.max, span.step
    if not fractional or (step is not None and (step.nano <= 0 or not _is_whole_milli(step))):
        return False
    return (least is None or _is_whole_milli(least)) and (most is None or _is_whole_milli(most))


def _is_whole_milli(amount: Quantity) -> bool:
    nano = amount.nano
    if nano % _MILLI or not _LEAST_MILLI <= nano <= _MOST_MILLI:
        return False
    # Of a large or odd amount upstream has nano-units, and the low bits of these alone where it is that far below zero.
    return nano >= _LEAST_NANO or representation(amount.text) is not None


def _round_up_in_milli(request: Quantity, least: Quantity, step: Quantity) -> _Amount:
    if not _is_whole_milli(request):
        raise CapacityError(f"{request.text} cannot be computed in thousandths, as its range requires")
    steps = -(-(request.nano - least.nano) // step.nano)
    result = least.nano + steps * step.nano
    # Upstream's own test for this overflows where the range starts below zero, and then always fails.
    if least.nano < 0 or result // _MILLI > MAX_INT64:
        raise CapacityError(f"{request.text} rounded up to its range exceeds what can be represented")
    whole = result % NANO == 0
    return _computed(result // (NANO if whole else _MILLI), 0 if whole else -3, step)


def _round_up_in_whole(request: Quantity, least: Quantity, step: Quantity) -> _Amount:
    wanted, start, width = _whole(request), _whole(least), _whole(step)
    if request.nano > MAX_INT64 * NANO:
        raise CapacityError(f"{request.text} exceeds what can be represented")
    if width <= 0:
        # Nothing can be computed with such a step: upstream crashes, or counts down. It is refused when it is judged.
        return _copied(request)
    result = start + -(-(wanted - start) // width) * width
    if start >= 0 and result > MAX_INT64:
        raise CapacityError(f"{request.text} rounded up to its range exceeds what can be represented")
    return _computed(result, 0, step)


def _computed(digits: int, scale: int, step: Quantity) -> _Amount:
    """Return an amount of `digits` times ten to the power of `scale`, in the family of the step."""
    nano, written = digits * NANO // 10**-scale, family(step)
    return _Amount(Quantity(nano, format_amount(nano, written)), Representation(digits, scale, written))


def _whole(amount: Quantity) -> int:
    """Return an amount in whole units; a part of one counts as one, away from zero."""
    return -(-amount.nano // NANO) if amount.nano > 0 else amount.nano // NANO


def _is_permitted(
    amount: _Amount, policy: CapacityRequestPolicy | None, rules: Rules, *, fractional: bool
) -> bool:
    if policy is None or _is_default(amount, policy.default, rules):
        return True
    if (span := policy.valid_range) is not None:
        return _is_in_range(amount.quantity, span, fractional=fractional)
    nano = amount.quantity.nano
    return not policy.valid_values or nano in [value.nano for value in policy.valid_values]


def _is_default(amount: _Amount, default: Quantity | None, rules: Rules) -> bool:
    """True if an amount is the default of its policy, which then permits it whatever else it says.

    Upstream compares how the two are held. An API server admits no default that this is needed for.
    """
    if default is None or default.nano != amount.quantity.nano:
        return False
    held = amount.held
    if rules.default_is_itself:
        if isinstance(held, Representation):
            return False
        if held is _AsWritten.UNASKED:
            return True
        # To compare amounts no longer changes how they are held.
        held = _AS_WRITTEN
    if isinstance(held, _AsWritten):
        held = representation(amount.quantity.text)
    return held is not None and held == representation(default.text)


def _is_in_range(amount: Quantity, span: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    if span.max is not None and amount.nano > span.max.nano:
        return False
    if span.step is None:
        return True
    if span.min is None or span.step.nano <= 0:
        return False
    if is_in_milli(span, fractional=fractional):
        return _is_whole_milli(amount) and (amount.nano - span.min.nano) % span.step.nano == 0
    return (_whole(amount) - _whole(span.min)) % _whole(span.step) == 0


def _objection(amount: Quantity, policy: CapacityRequestPolicy) -> str:
    """Return what a policy has against an amount."""
    span = policy.valid_range
    if span is None:
        return f"is none of the policy's values {', '.join(map(str, policy.valid_values))}"
    if span.max is not None and amount > span.max:
        return f"> the policy's maximum {span.max}"
    if span.min is None:
        return f"cannot be judged by the policy's step {span.step} without a minimum"
    return f"is not on the policy's steps of {span.step} from {span.min}"


AskedAmount: TypeAlias = tuple[str, int, str]
"""An amount of a capacity: its name, nano-units, and how it was written."""

_MAX_SIZE = 524_288
"""Of all amounts together: enough for 131,072 small slices whose devices are equal and have one capacity."""
_MAX_ASKED = 4096


@fast_dataclass
class SliceConsumption:
    """What a request consumes of each device of a slice, the devices that have it, and those where it is an error."""

    each: Sequence[Consumption | CapacityError | None]
    fit: int
    impossible: int


@dataclass(slots=True, eq=False)
class Amounts:
    """Amounts that requests ask for, whether all are ordinary, and what is known about them by the make of a slice."""

    asked: tuple[AskedAmount, ...]
    requests: Mapping[str, Quantity]
    are_ordinary: bool
    by_shape: dict[object, SliceConsumption] = field(default_factory=dict)


@dataclass(slots=True)
class AmountsCache:
    """What is known about amounts, by what is asked for. `fractional` is the feature FractionalCapacityRange."""

    fractional: bool
    rules: Rules
    _known: dict[tuple[AskedAmount, ...], Amounts] = field(default_factory=dict)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_SIZE))

    def known(self, asked: tuple[AskedAmount, ...]) -> Amounts:
        """Return what is known of what is asked for: the same for all that ask for it, whatever they select."""
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= _MAX_ASKED:
                for old in drop_older_half(self._known):
                    self._room.release(old.by_shape)
            requests = {name: Quantity(nano, text) for name, nano, text in asked}
            ordinary = all(map(is_ordinary, requests.values()))
            found = self._known[asked] = Amounts(asked, requests, ordinary)
        return found

    def find(self, known: Amounts, slice_: Slice) -> SliceConsumption:
        """Find the amounts of the devices of a slice, where they are not known; most of a slice have equal capacity."""
        each: list[Consumption | CapacityError | None] = []
        fit = impossible = 0
        kinds_that_fit = 0
        requests = requested(known.requests, slice_.driver, self.rules)
        needed, wrong = self._wrong_requests(known.requests, requests)
        for those in _alike(slice_):
            capacity = slice_.capacity_of(bits.lowest(those))
            is_wrong = wrong and needed <= capacity.keys()
            found = CapacityError(wrong) if is_wrong else self._consume(requests, capacity)
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
        amounts = known.by_shape[slice_.capacity_shape] = SliceConsumption(each, fit, impossible)
        return amounts

    def _wrong_requests(
        self, written: Mapping[str, Quantity], requests: Mapping[str, Quantity]
    ) -> tuple[AbstractSet[str], str]:
        """Return why no device with some capacities can be asked for such amounts, or nothing.

        A device that lacks one that is asked for is passed over first, but for one that is asked for twice, where
        upstream does either.
        """
        if len(requests) < len(written):
            name = next(name for name in requests if name in written and requests[name] is not written[name])
            return {name}, f'capacity "{name}" is requested twice, with the driver\'s domain and without'
        if self.rules.negative_amounts_fail:
            for name, amount in requests.items():
                if amount.nano < 0:
                    return requests.keys(), f'capacity "{name}": {amount.text} is negative'
        return frozenset(), ""

    def _consume(
        self, requests: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity]
    ) -> Consumption | CapacityError | None:
        try:
            return consume(requests, capacity, fractional=self.fractional, rules=self.rules)
        except CapacityError as error:
            # Another one, as it is kept: without the frames it came through.
            return CapacityError(str(error))


def requested(requests: Mapping[str, Quantity], driver: str, rules: Rules) -> Mapping[str, Quantity]:
    """Return what is requested by the names that devices of a driver have: fewer if one is requested twice."""
    return by_short_name(requests, driver) if rules.full_names else requests


def _alike(slice_: Slice) -> Sequence[int]:
    """Return the devices of a slice as sets, each of those with equal capacity."""
    keys = [column.keys for column in slice_.capacity.values() if len(column.sets) > 1]
    if not keys:
        return [slice_.every]
    found: dict[object, int] = {}
    for index, key in enumerate(zip(*keys, strict=True)):
        found[key] = found.get(key, 0) | 1 << index
    return list(found.values())
