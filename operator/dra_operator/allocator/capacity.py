"""Consumable capacity: what a device, or a share of it, consumes for a request.

Each capacity of a device counts, requested or not. An amount the policy rounds up; one the policy has no room for makes
the device unfit; one that cannot be represented, or is negative, is an error that ends the attempt, because a driver
could not make sense of it either.
Source: docs/dra-semantics 4.4; ResourceSlice v1, `devices[].capacity[].requestPolicy`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.types import CapacityRequestPolicyRange, DeviceCapacity

_MILLI = NANO // 1000
_INT64 = 2**63 - 1
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


class CapacityError(Exception):
    """An amount that cannot be consumed by anybody: negative, or beyond what can be represented."""


class _UnfitError(Exception):
    """The policy has no room for the amount, or makes no sense."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a use of a device consumes of each of its capacities, and what the device has of it, in nano-units."""

    amounts: tuple[tuple[str, Quantity, int], ...]


def consume(
    requests: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], *, fractional: bool
) -> Consumed | None:
    """Return what a request consumes of a device that nobody uses yet, or None if the device is unfit.

    `fractional` is the feature FractionalCapacityRange. Raises CapacityError.
    """
    if any(name not in capacity for name in requests):
        return None
    amounts: list[tuple[str, Quantity, int]] = []
    unfit = False
    # All amounts are computed before the first is judged: an impossible one is an error although another is unfit.
    for name in sorted(capacity):
        try:
            amount = _amount(requests.get(name), capacity[name], fractional=fractional)
        except _UnfitError:
            unfit = True
            continue
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount.nano < 0:
            raise CapacityError(f'capacity "{name}": {amount.text} is negative')
        amounts.append((name, amount, capacity[name].value.nano))
    if unfit or any(amount.nano > value for _, amount, value in amounts):
        return None
    if not all(_is_permitted(amount, capacity[name], fractional=fractional) for name, amount, _ in amounts):
        return None
    return Consumed(tuple(amounts))


def has_room(consumed: Consumed, used: Mapping[str, int], in_flight: Mapping[str, int]) -> bool:
    """True if the device has this much left beside what is used, in nano-units by capacity name."""
    return all(
        used.get(name, 0) + in_flight.get(name, 0) + amount.nano <= value
        for name, amount, value in consumed.amounts
    )


def _amount(request: Quantity | None, capacity: DeviceCapacity, *, fractional: bool) -> Quantity:
    policy = capacity.request_policy
    if request is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return request
    if (span := policy.valid_range) is not None:
        return _in_range(request, span, fractional=fractional)
    # Without a value that is large enough the request stands as it is, to be refused when it is judged.
    return next((value for value in policy.valid_values if value >= request), request)


def _in_range(request: Quantity, span: CapacityRequestPolicyRange, *, fractional: bool) -> Quantity:
    if span.min is None:
        if span.step is not None:
            raise _UnfitError
        return request
    if request < span.min:
        return span.min
    if span.step is None:
        return request
    if span.step.nano <= 0:
        raise _UnfitError
    if _in_milli(span, fractional=fractional):
        return _round_up_in_milli(request, span.min, span.step)
    return _round_up_in_whole(request, span.min, span.step)


def _in_milli(span: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    """True if upstream computes this range in milli-units: it does so for whole numbers as well."""
    bounds = (span.min, span.step) if span.max is None else (span.min, span.step, span.max)
    return fractional and all(bound is not None and _is_whole_milli(bound) for bound in bounds)


def _is_whole_milli(amount: Quantity) -> bool:
    return amount.nano % _MILLI == 0 and abs(amount.nano) // _MILLI <= _INT64


def _round_up_in_milli(request: Quantity, least: Quantity, step: Quantity) -> Quantity:
    if not _is_whole_milli(request):
        raise CapacityError(f"{request.text} cannot be computed in thousandths, as its range requires")
    steps = -(-(request.nano - least.nano) // step.nano)
    result = least.nano + steps * step.nano
    # Upstream's own test for this overflows where the range starts below zero, and then always fails.
    if least.nano < 0 or result // _MILLI > _INT64:
        raise CapacityError(f"{request.text} rounded up to its range exceeds what can be represented")
    return Quantity(result, written(result, step))


def _round_up_in_whole(request: Quantity, least: Quantity, step: Quantity) -> Quantity:
    wanted, start, width = _ceil(request), _ceil(least), _ceil(step)
    if wanted > _INT64:
        raise CapacityError(f"{request.text} exceeds what can be represented")
    result = start + -(-(wanted - start) // width) * width
    if start >= 0 and result > _INT64:
        raise CapacityError(f"{request.text} rounded up to its range exceeds what can be represented")
    return Quantity(result * NANO, written(result * NANO, step))


def _is_permitted(amount: Quantity, capacity: DeviceCapacity, *, fractional: bool) -> bool:
    policy = capacity.request_policy
    if policy is None or amount is policy.default:
        return True
    if (span := policy.valid_range) is not None:
        return _is_in_range(amount, span, fractional=fractional)
    return not policy.valid_values or amount in policy.valid_values


def _is_in_range(amount: Quantity, span: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    if span.max is not None and amount > span.max:
        return False
    if span.step is None:
        return True
    if span.min is None or span.step.nano <= 0:
        return False
    if _in_milli(span, fractional=fractional):
        return _is_whole_milli(amount) and (amount.nano - span.min.nano) % span.step.nano == 0
    return (_ceil(amount) - _ceil(span.min)) % _ceil(span.step) == 0


def _ceil(amount: Quantity) -> int:
    return -(-amount.nano // NANO)


def written(nano: int, like: Quantity) -> str:
    """Return an amount of nano-units as text, in the family of another's: binary, decimal, or with an exponent."""
    whole, rest = divmod(nano, NANO)
    if rest:
        return f"{nano // _MILLI}m"
    suffix = like.text.lstrip("+-0123456789.")
    if suffix.endswith("i") and abs(whole) >= 1024:
        return _scaled(whole, 1024, _BINARY)
    if suffix[:1] in ("e", "E") and suffix != "E":
        digits, power = _stripped(whole, 1000, 6)
        return f"{digits}e{3 * power}" if power else str(digits)
    return _scaled(whole, 1000, _DECIMAL)


def _scaled(whole: int, base: int, suffixes: tuple[str, ...]) -> str:
    digits, power = _stripped(whole, base, len(suffixes) - 1)
    return f"{digits}{suffixes[power]}"


def _stripped(whole: int, base: int, most: int) -> tuple[int, int]:
    power = 0
    while whole and power < most and whole % base == 0:
        whole, power = whole // base, power + 1
    return whole, power
