"""Upstream's own arithmetic for ranges with steps, where it is wrong: its integers overflow, and it divides by zero.

We compute such ranges exactly, or refuse the device (docs/differences.md). A difference is put down to that only if
our allocator, with this arithmetic in the place of its own, gives upstream's answer.
Source: k8s.io/dynamic-resource-allocation, `roundUpRange` and `violateValidRange` in consumable_capacity.go;
k8s.io/apimachinery/pkg/api/resource, `Quantity.Value`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, member
from functools import partial
from unittest.mock import patch

from dra_operator.allocator.matching import capacity
from dra_operator.allocator.matching.capacity import CapacityError
from dra_operator.api.quantity import MAX_INT64, NANO, Family, Quantity, family, representation
from dra_operator.api.types import CapacityRequestPolicyRange as Span

DIVISION = "runtime error: integer divide by zero"
NOTHING = "runtime error: invalid memory address or nil pointer dereference"

_ours_in_range = capacity._in_range
_ours_is_in_range = capacity._is_in_range


class Order(Enum):
    """In which order the capacities of a device are judged; upstream's is random, and decides what it meets first."""

    # Python 3.14 takes a bare `partial` in a class for a method.
    BY_NAME = member(partial(sorted))
    BACKWARDS = member(partial(sorted, reverse=True))


@contextmanager
def upstreams_arithmetic(order: Order, *, saturating: bool = False) -> Iterator[None]:
    """Let our allocator compute as upstream does; where that crashes, an attempt ends with an error of that text.

    From 1.38 on values beyond an int64 are the largest or the smallest one.
    """
    held = _held_at_the_end if saturating else _held_by_low_bits
    with (
        patch.object(sys.modules[__name__], "value", held),
        patch.object(sys.modules[__name__], "_compared", _saturated if saturating else _compared),
        patch.object(capacity, "sorted", order.value, create=True),
        patch.object(capacity, "_in_range", _in_range),
        patch.object(capacity, "_is_in_range", _is_in_range),
    ):
        yield


def _in_range(request: Quantity, least: Quantity, span: Span, *, fractional: bool) -> object:
    if request < least or span.step is None or capacity.is_in_milli(span, fractional=fractional):
        return _ours_in_range(request, least, span, fractional=fractional)
    if request.nano > MAX_INT64 * NANO:
        raise CapacityError("exceeds MaxInt64")
    wanted, width, start = _compared(request, least), value(span.step), value(least)
    steps, rest = _divide(_wrapped(wanted - start), width)
    steps += rest != 0
    if start >= 0 and steps > _divide(MAX_INT64 - start, width)[0]:
        raise CapacityError("passes MaxInt64")
    return capacity._computed(_wrapped(start + _wrapped(width * steps)), 0, span.step)


def _is_in_range(amount: Quantity, span: Span, *, fractional: bool) -> bool:
    if span.step is None or (span.max is not None and amount > span.max):
        return _ours_is_in_range(amount, span, fractional=fractional)
    in_milli = capacity.is_in_milli(span, fractional=fractional)
    if in_milli and not capacity._is_whole_milli(amount):
        return False
    if span.min is None:
        raise CapacityError(NOTHING)
    if in_milli:
        return _ours_is_in_range(amount, span, fractional=fractional)
    wanted = value(amount) if span.max is None else _compared(amount, span.max)
    return _divide(_wrapped(wanted - value(span.min)), value(span.step))[1] == 0


def _held_at_the_end(amount: Quantity) -> int:
    """Return what Go's `Quantity.Value` returns from 1.38 on: whole units, as far as an int64 goes."""
    return max(-MAX_INT64 - 1, min(MAX_INT64, capacity._whole(amount)))


def _saturated(amount: Quantity, bound: Quantity) -> int:
    del bound
    return _held_at_the_end(amount)


def _held_by_low_bits(amount: Quantity) -> int:
    """Return what it returned before: whole units in an int64, or what is left of them."""
    held = representation(amount.text)
    if held is None:
        return _value_of_decimal(amount)
    if held.scale < 0:
        return capacity._whole(amount)
    whole = held.digits * 10**held.scale
    return whole if -MAX_INT64 <= whole <= MAX_INT64 else 0


value = _held_by_low_bits


def _compared(amount: Quantity, bound: Quantity) -> int:
    """Return the value of an amount that was compared with a bound, from which it takes the form for large ones."""
    return _value_of_decimal(amount) if representation(bound.text) is None else value(amount)


def _value_of_decimal(amount: Quantity) -> int:
    if family(amount) is Family.BINARY and abs(amount.nano) == MAX_INT64 * NANO:
        return amount.nano // NANO
    if amount.nano < MAX_INT64:
        whole, rest = _divide(_low_bits(amount.nano), NANO)
        return whole + (rest != 0)
    return _low_bits(-(-amount.nano // NANO))


def _divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Return quotient and remainder as Go does: towards zero."""
    if divisor == 0:
        raise CapacityError(DIVISION)
    quotient = abs(dividend) // abs(divisor)
    quotient = quotient if (dividend < 0) == (divisor < 0) else -quotient
    return quotient, dividend - quotient * divisor


def _wrapped(number: int) -> int:
    """Return what an int64 makes of a number."""
    return (number + 2**63) % 2**64 - 2**63


def _low_bits(number: int) -> int:
    """Return what `big.Int.Int64` makes of a number: the low bits of its size, with its sign."""
    size = _wrapped(abs(number) % 2**64)
    return _wrapped(-size) if number < 0 else size
