"""Quantities and versions in expressions.

Kubernetes keeps a quantity either as a 64-bit number with a power of ten, or, if it does not fit there as it is
written, as a decimal of any size, and some functions can tell the two apart: `isInteger` is false for 1000m and for
1Ei. So a quantity carries, beside its exact value, which of the two it would be.
Source: k8s.io/apiserver/pkg/cel/library/quantity.go, semverlib.go, k8s.io/apimachinery/pkg/api/resource.
"""

from functools import lru_cache
from typing import Any, ClassVar, Final

from dra_operator.api.quantity import (
    Family,
    NumberMissingError,
    WrittenQuantity,
    format_amount,
    representation,
    split_quantity,
)
from dra_operator.api.semver import Semver
from dra_operator.api.semver import parse_semver as parse_version
from dra_operator.api.semver import parse_semver_normalizing as parse_version_normalizing
from dra_operator.cel.cost.prices import READING, Implementation, Row
from dra_operator.cel.errors import cost_exceeded, runtime_error, succeeds
from dra_operator.cel.values import INT_MAX, INT_MIN, Opaque


def parse_semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - the function of CEL has it
    """Return the version that `text` stands for. Raises CelError if it is none."""
    try:
        return parse_version_normalizing(text) if normalize else parse_version(text)
    except ValueError as error:
        raise runtime_error(str(error)) from None


def _signed(number: int) -> int:
    # Upstream turns the unsigned number into an int without a look at its size.
    return number if number <= INT_MAX else number - 2**64


def _compare_versions(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


def _is_greater_version(left: Semver, right: Semver) -> bool:
    return left.key > right.key


def _is_less_version(left: Semver, right: Semver) -> bool:
    return left.key < right.key


_SEMVERS: Final[dict[str, Row]] = {
    "semver string_to_semver: (string) -> kubernetes.Semver": Implementation(parse_semver, READING),
    "semver string_bool_to_semver: (string, bool) -> kubernetes.Semver": Implementation(
        parse_semver, READING
    ),
    "isSemver is_semver_string: (string) -> bool": Implementation(succeeds(parse_semver), READING),
    "isSemver is_semver_string_bool: (string, bool) -> bool": Implementation(succeeds(parse_semver), READING),
    "compareTo semver_compare_to: kubernetes.Semver.(kubernetes.Semver) -> int": _compare_versions,
    "isGreaterThan semver_is_greater_than: kubernetes.Semver.(kubernetes.Semver) -> bool": _is_greater_version,
    "isLessThan semver_is_less_than: kubernetes.Semver.(kubernetes.Semver) -> bool": _is_less_version,
    "major semver_major: kubernetes.Semver.() -> int": lambda version: _signed(version.major),
    "minor semver_minor: kubernetes.Semver.() -> int": lambda version: _signed(version.minor),
    "patch semver_patch: kubernetes.Semver.() -> int": lambda version: _signed(version.patch),
}


_SUFFIX_ERROR: Final = "unable to parse quantity's suffix"
_FORMAT_ERROR: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
# Upstream accepts exponents up to 2**31 and then computes for minutes. Up to here a power of ten takes a
# millisecond.
LARGEST_EXPONENT: Final = 100_000
_MOST_PARSED: Final = 2048
_MOST_DIGITS: Final = 4000
_NANO_EXPONENT: Final = -9
_FINEST_ZERO: Final = -100
_MOST_INT64_DIGITS: Final = 18
_BINARY_PRECISION: Final = 15


@lru_cache(maxsize=128)
def _ten_to(exponent: int) -> int:
    """Return a power of ten; a large one takes milliseconds to compute."""
    return 10**exponent  # type: ignore[no-any-return]


class Quantity_(Opaque):  # noqa: N801 - `Quantity` is the API's; this one knows how Go would hold it
    """A quantity: `nano` is its value in nano-units, `coefficient * 10**exponent` the form that Go holds.

    `decimal` is true if that form is a decimal of any size, `computed` if the value came out of `add` or
    `sub`. `text` is what it was read from, if Go keeps that.
    """

    __slots__ = ("coefficient", "computed", "decimal", "exponent", "family", "nano", "text")
    type_name: ClassVar[str] = "kubernetes.Quantity"

    def __init__(
        self,
        coefficient: int,
        exponent: int,
        *,
        family: Family,
        decimal: bool = False,
        computed: bool = False,
        text: str = "",
    ) -> None:
        if exponent > LARGEST_EXPONENT and coefficient:
            raise cost_exceeded()
        self.coefficient = coefficient
        self.exponent = exponent
        self.family = family
        self.decimal = decimal
        self.computed = computed
        self.text = text
        # Finer than nano is zero alone, and what zero was added to: dividing leaves no rest.
        shift = exponent - _NANO_EXPONENT
        self.nano: int = coefficient * _ten_to(shift) if shift >= 0 else coefficient // _ten_to(-shift)

    def equals(self, other: Any) -> bool:
        """Return whether the amounts are equal. The outcome of `add` on the right is refused, as upstream has it."""
        if type(other) is not Quantity_ or other.computed:
            raise runtime_error("no such overload")
        return self.nano == other.nano

    def __eq__(self, other: object) -> bool:
        return type(other) is Quantity_ and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"kubernetes.Quantity:{self}"

    def __str__(self) -> str:
        return self.text or _canonical(self)


@lru_cache(maxsize=_MOST_PARSED)
def parse_quantity(text: str) -> Quantity_:
    """Return the quantity that `text` stands for. Raises CelError if it is none."""
    try:
        parts = split_quantity(text)
    except NumberMissingError:
        raise runtime_error("unable to parse numeric part of quantity") from None
    except ValueError:
        raise runtime_error(_parse_error(text)) from None
    if len(parts.whole) + len(parts.fraction) > _MOST_DIGITS or parts.exponent > LARGEST_EXPONENT:
        raise cost_exceeded()
    digits = int(parts.whole + parts.fraction)
    exponent = -len(parts.fraction)
    if parts.base == 2:
        digits <<= parts.exponent
    else:
        exponent += parts.exponent
    if _fits_int64(parts, exponent):
        held = representation(text)
        kept = "" if held is None else held.text
        return Quantity_(-digits if parts.negative else digits, exponent, family=parts.family, text=kept)
    return _decimal(parts, digits, exponent)


def _parse_error(text: str) -> str:
    """Return which of upstream's two complaints fits: about the form as a whole, or about the suffix alone."""
    rest = text.lstrip("+-") if text[:1] in ("+", "-") and text[1:2] not in ("+", "-") else text
    rest = rest.lstrip("0123456789")
    if rest.startswith("."):
        rest = rest[1:].lstrip("0123456789")
    suffix = rest.lstrip("eEinumkKMGTP")
    if suffix[:1] in ("+", "-"):
        suffix = suffix[1:]
    return _FORMAT_ERROR if suffix.strip("0123456789") or not text else _SUFFIX_ERROR


def _fits_int64(parts: WrittenQuantity, exponent: int) -> bool:
    """Return whether Go takes its fast path; the bounds are those of `ParseQuantity`, not those of the value."""
    digits = len(parts.whole) + len(parts.fraction)
    if parts.base == 10:
        return digits <= _MOST_INT64_DIGITS and exponent >= _NANO_EXPONENT
    if parts.fraction:
        return False
    return len(parts.whole) + parts.exponent * 3 // 10 + 1 <= _BINARY_PRECISION


def _decimal(parts: WrittenQuantity, digits: int, exponent: int) -> Quantity_:
    family = parts.family
    if not digits:
        # Zero keeps its scale, which shows in the rounding of what it is added to; a hostile one is cut.
        exponent = max(exponent, _FINEST_ZERO)
    else:
        if exponent < _NANO_EXPONENT:
            # Finer than nano rounds up; a power that dwarfs the digits need not be built to know the outcome.
            surplus = min(_NANO_EXPONENT - exponent, _MOST_DIGITS + 100)
            digits = -(-digits // _ten_to(surplus))
        else:
            digits *= _ten_to(exponent - _NANO_EXPONENT)
        exponent = _NANO_EXPONENT
    if family is Family.BINARY:
        if digits > INT_MAX * 10**9:
            digits, exponent = INT_MAX, 0
        elif 0 < digits < 10**9:
            family = Family.DECIMAL
    return Quantity_(-digits if parts.negative else digits, exponent, family=family, decimal=True)


def is_integer(quantity: Quantity_) -> bool:
    """Return whether Go can give the amount as a 64-bit integer without a further look at its digits."""
    return (
        not quantity.decimal
        and quantity.exponent >= 0
        and INT_MIN * 10**9 <= quantity.nano <= INT_MAX * 10**9
    )


def as_integer(quantity: Quantity_) -> int:
    """Return the amount as an int; raises CelError where `is_integer` is false."""
    if not is_integer(quantity):
        raise runtime_error("cannot convert value to integer")
    return quantity.nano // 10**9


def as_approximate_float(quantity: Quantity_) -> float:
    """Return the amount as a double, with Go's rounding: that of the coefficient times that of the power."""
    try:
        base = float(quantity.coefficient)
    except OverflowError:
        base = float("inf") if quantity.coefficient > 0 else float("-inf")
    return base if quantity.exponent == 0 else base * _power_of_ten(quantity.exponent)


def _power_of_ten(exponent: int) -> float:
    """Return what `math.Pow10` does: a product or quotient of two entries of its tables."""
    if exponent < -323:
        return 0.0
    if exponent > 308:
        return float("inf")
    high, low = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{32 * high}") * float(f"1e{low}")
    return float(f"1e-{32 * high}") / float(f"1e{low}")


def add(left: Quantity_, right: Quantity_) -> Quantity_:
    """Return the sum."""
    return _sum(left, right, 1)


def sub(left: Quantity_, right: Quantity_) -> Quantity_:
    """Return the difference."""
    found = _sum(left, right, -1)
    if right.coefficient == INT_MIN and not right.decimal:
        # Its opposite is no int of 64 bits, so Go goes on with decimals.
        return Quantity_(found.coefficient, found.exponent, family=found.family, decimal=True, computed=True)
    return found


def add_int(left: Quantity_, right: int) -> Quantity_:
    """Return the sum with a whole number."""
    return _sum(left, Quantity_(right, 0, family=Family.EXPONENT), 1)


def sub_int(left: Quantity_, right: int) -> Quantity_:
    """Return the difference to a whole number."""
    return sub(left, Quantity_(right, 0, family=Family.EXPONENT))


def _sub_wrapping_int(left: Quantity_, right: int) -> Quantity_:
    """Return the difference to a whole number, computed as Go did up to 1.37."""
    return _sub_wrapping(left, Quantity_(right, 0, family=Family.EXPONENT))


def _sub_wrapping(left: Quantity_, right: Quantity_) -> Quantity_:
    """Return the difference, computed as Go did up to 1.37."""
    if right.coefficient == INT_MIN and not right.decimal:
        # Go subtracted by adding the opposite, and that of the smallest int is itself.
        wrapped = _sum(left, right, 1)
        if not wrapped.decimal:
            return wrapped
    return sub(left, right)


def _sum(left: Quantity_, right: Quantity_, sign: int) -> Quantity_:
    family = left.family if left.coefficient else right.family
    exponent = min(left.exponent, right.exponent)
    aligned = [each.coefficient * _ten_to(each.exponent - exponent) for each in (left, right)]
    total = aligned[0] + sign * aligned[1]
    decimal = left.decimal or right.decimal
    if not decimal:
        # Zero takes part without its power of ten, and what leaves 64 bits on the way becomes a decimal for
        # good.
        if right.coefficient == 0:
            total, exponent, aligned = left.coefficient, left.exponent, [left.coefficient]
        elif left.coefficient == 0:
            total, exponent = sign * right.coefficient, right.exponent
            aligned = [total]
        decimal = not all(INT_MIN <= each <= INT_MAX for each in (total, *aligned))
    return Quantity_(total, exponent, family=family, decimal=decimal, computed=True)


def _canonical(quantity: Quantity_) -> str:
    """Return the canonical text, worked out from the coefficient: `1e100000` must not be written out to get there."""
    if abs(quantity.exponent) <= 18 and abs(quantity.coefficient) < 10**400:
        return format_amount(quantity.nano, quantity.family)
    coefficient, zeros = _without_zeros(quantity.coefficient)
    exponent = quantity.exponent + zeros
    surplus = exponent % 3
    return f"{coefficient * 10**surplus}e{exponent - surplus}" if coefficient else "0"


def _without_zeros(number: int) -> tuple[int, int]:
    """Return a number without the zeros at its end, and how many there were."""
    zeros = 0
    step = 1 << max(number.bit_length() // 4, 1).bit_length()
    while number and step:
        rest = number % _ten_to(step)
        if not rest:
            number //= _ten_to(step)
            zeros += step
        else:
            step >>= 1
    return number, zeros


def _compare(left: Quantity_, right: Quantity_) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


def _is_greater(left: Quantity_, right: Quantity_) -> bool:
    return left.nano > right.nano


def _is_less(left: Quantity_, right: Quantity_) -> bool:
    return left.nano < right.nano


FUNCTIONS: Final[dict[str, Row]] = {
    "quantity string_to_quantity: (string) -> kubernetes.Quantity": Implementation(parse_quantity, READING),
    "isQuantity is_quantity_string: (string) -> bool": Implementation(succeeds(parse_quantity), READING),
    "sign quantity_sign: (kubernetes.Quantity) -> int": lambda quantity: (
        (quantity.nano > 0) - (quantity.nano < 0)
    ),
    "compareTo quantity_compare_to: kubernetes.Quantity.(kubernetes.Quantity) -> int": _compare,
    "isGreaterThan quantity_is_greater_than: kubernetes.Quantity.(kubernetes.Quantity) -> bool": _is_greater,
    "isLessThan quantity_is_less_than: kubernetes.Quantity.(kubernetes.Quantity) -> bool": _is_less,
    "asApproximateFloat quantity_get_float: kubernetes.Quantity.() -> double": as_approximate_float,
    "asInteger quantity_get_int: kubernetes.Quantity.() -> int": as_integer,
    "isInteger quantity_is_integer: kubernetes.Quantity.() -> bool": is_integer,
    "add quantity_add: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity": add,
    "add quantity_add_int: kubernetes.Quantity.(int) -> kubernetes.Quantity": add_int,
    "sub quantity_sub: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity": sub,
    "sub quantity_sub_int: kubernetes.Quantity.(int) -> kubernetes.Quantity": sub_int,
    **_SEMVERS,
}
OLDER: Final[dict[str, dict[str, Row]]] = {
    "least_int_is_subtracted": {
        "sub quantity_sub: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity": _sub_wrapping,
        "sub quantity_sub_int: kubernetes.Quantity.(int) -> kubernetes.Quantity": _sub_wrapping_int,
    },
}
"""What stands in the place of the overloads with these arguments, by the rule that must not hold."""
