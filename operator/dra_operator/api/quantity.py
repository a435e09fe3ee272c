"""Quantities: exact decimal amounts with the text they were written in.

Everything is held as a whole number of nano-units, the finest a quantity can have, so that adding and
comparing are those of Python's ints: exact and of any size. The text is kept because the family it is written in
is that of the text in which Kubernetes writes the amount again.
Source: k8s.io/apimachinery/pkg/api/resource, `ParseQuantity` and `CanonicalizeBytes`.
"""

import json
import math
import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.text import shown

NANO = 10**9
_MEBI = 2**20 * NANO
MAX_INT64 = 2**63 - 1
_MILLI = NANO // 1000
_MOST_ORDINARY = 2**61 * _MILLI

# Upstream builds the number of any exponent and burns the processor on 1e100000000. No amount comes near this
# bound.
_MAX_EXPONENT = 400
_MAX_DIGITS = 4000  # Python refuses to read more than 4300
# [0-9], not \d: the digits of other scripts are no digits here.
_PATTERN = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,18})?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)


class NumberMissingError(ValueError):
    """A text with the suffix of a quantity, and no number where one is needed."""


class Family(Enum):
    """The three ways to write a quantity: 2Gi, 3k, 3e3."""

    BINARY = "BinarySI"
    DECIMAL = "DecimalSI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount: `nano` is its value in nano-units; `text` is how it was written and is never compared."""

    nano: int
    text: str = field(compare=False, default="")

    def __str__(self) -> str:
        return self.text or format_amount(self.nano, Family.DECIMAL)


@dataclass(frozen=True, slots=True)
class WrittenQuantity:
    """The parts of a quantity's text; `whole` has no leading zeros, `exponent` is that of `base`."""

    negative: bool
    whole: str
    fraction: str
    base: int
    exponent: int
    family: Family


def split_quantity(text: str) -> WrittenQuantity:
    """Return the parts of `text`. As upstream has it, no number is 0: `.`, `-` and `Ki` are quantities.

    Raises ValueError if the text is not a quantity.
    """
    match = _PATTERN.fullmatch(text) if text else None
    if match is None:
        raise ValueError(f"{shown(text)} is not a quantity such as 16Gi or 500m")
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4) or ""
    parts = _parts(sign == "-", whole.lstrip("0") or "0", fraction, suffix)
    # Upstream's quick way takes no number for 0, its thorough way, for extreme suffixes, insists on one.
    if not whole and not fraction and (suffix in ("Pi", "Ei") or parts.exponent < -9):
        raise NumberMissingError(f"{json.dumps(text)} is not a quantity: it has no number")
    return parts


def _parts(negative: bool, whole: str, fraction: str, suffix: str) -> WrittenQuantity:  # noqa: FBT001
    if suffix in _BINARY:
        return WrittenQuantity(negative, whole, fraction, 2, _BINARY[suffix], Family.BINARY)
    if suffix in _DECIMAL:
        return WrittenQuantity(negative, whole, fraction, 10, _DECIMAL[suffix], Family.DECIMAL)
    return WrittenQuantity(negative, whole, fraction, 10, int(suffix[1:]), Family.EXPONENT)


@lru_cache(maxsize=16384)
def parse_quantity(text: str) -> Quantity:
    """Return the quantity that `text` stands for.

    Digits finer than nano are rounded away from zero; binary amounts are capped at 2**63-1, as upstream does.
    Raises ValueError if the text is not a quantity, or one beyond 1e400.
    """
    parts = split_quantity(text)
    if len(parts.whole) + len(parts.fraction) > _MAX_DIGITS:
        raise ValueError(f"a quantity of {len(text)} characters is too long")
    digits = int(parts.whole + parts.fraction)
    exponent = 9 - len(parts.fraction)
    if parts.base == 2:
        digits <<= parts.exponent
    else:
        exponent += parts.exponent
    nano = _scaled(digits, exponent, text)
    if parts.base == 2:
        nano = min(nano, MAX_INT64 * NANO)
    return Quantity(-nano if parts.negative else nano, text)


def _scaled(digits: int, exponent: int, text: str) -> int:
    """Return digits * 10**exponent, rounded up."""
    if not digits:
        return 0
    if exponent > _MAX_EXPONENT + 9:
        raise ValueError(f"{json.dumps(text)} is too large: exponents end at {_MAX_EXPONENT}")
    if exponent >= 0:
        return int(digits * 10**exponent)
    # Below one nano every amount is one nano; the power itself need not be built.
    if -exponent > _MAX_DIGITS + 20:
        return 1
    return int(-(-digits // 10**-exponent))


def read_quantity(wire: Any) -> Quantity:
    """Return the quantity of a wire value: text, or a JSON number.

    Raises ValueError for anything else.
    """
    if isinstance(wire, str):
        return parse_quantity(wire)
    if isinstance(wire, bool) or not isinstance(wire, int | float) or not math.isfinite(wire):
        raise ValueError(f"{shown(wire)} is not a quantity such as 16Gi or 500m")
    return parse_quantity(str(wire))


def family(quantity: Quantity) -> Family:
    """Return the family that a quantity was written in; a quantity without text is decimal.

    A binary amount between -1 and 1 counts as decimal, as upstream has it: writing it in binary would round.
    """
    if not quantity.text:
        return Family.DECIMAL
    written = split_quantity(quantity.text).family
    if written is Family.BINARY and 0 < abs(quantity.nano) < NANO:
        return Family.DECIMAL
    return written


def is_ordinary(quantity: Quantity) -> bool:
    """True for whole thousandths, not below zero, and so few that an int64 holds them and as many again."""
    return 0 <= quantity.nano <= _MOST_ORDINARY and quantity.nano % _MILLI == 0


def format_amount(nano: int, family: Family) -> str:
    """Return the canonical text of an amount in nano-units, in a family: `2Gi`, `3k`, `3e3`, `1500m`.

    Binary gives way to decimal between -1024 and 1024 and where the amount is not whole.
    Source: `Quantity.CanonicalizeBytes`.
    """
    if nano == 0:
        return "0"
    if family is Family.BINARY and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        return _binary_text(nano // NANO)
    return _decimal_text(nano, family)


def format_beside(nano: int, other: int) -> tuple[str, str]:
    """Return the texts of two amounts of the same thing, in nano-units: both binary if both are whole mebis."""
    written = Family.BINARY if nano % _MEBI == other % _MEBI == 0 else Family.DECIMAL
    return format_amount(nano, written), format_amount(other, written)


def _binary_text(amount: int) -> str:
    step = 0
    while amount % 1024 == 0 and step < len(_BINARY_SUFFIX) - 1:
        amount //= 1024
        step += 1
    return f"{amount}{_BINARY_SUFFIX[step]}"


def _decimal_text(nano: int, family: Family) -> str:
    exponent = -9
    while nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    if exponent == 0:
        return str(nano)
    # No suffix goes beyond exa (upstream prints none there, and so another amount); an exponent always does.
    if family is Family.EXPONENT or exponent not in _DECIMAL_SUFFIX:
        return f"{nano}e{exponent}"
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


# An amount with more decimal digits may not fit into an int64. Go counts three for each factor of 1024.
_DECIMAL_DIGITS = 18
_BINARY_DIGITS = 14
_FINEST = -9


@fast_dataclass
class Representation:
    """An amount as Go holds it: `digits` times ten to the power of `scale`, in a family.

    `text` is what it was read from, if that is how it would be written again; a computed amount has none.
    """

    digits: int
    scale: int
    family: Family
    text: str = ""


@lru_cache(maxsize=4096)
def representation(text: str) -> Representation | None:
    """Return how Go holds the quantity that it reads from `text`; None if it is large or odd.

    Those are held in another form, in which an amount is held like nothing else, not even like its own copy.
    Raises ValueError if the text is not a quantity.
    """
    if text == "0":
        return Representation(0, 0, Family.DECIMAL, text)
    parts = split_quantity(text)
    written = parts.whole + parts.fraction
    digits = -int(written) if parts.negative else int(written)
    if parts.family is Family.BINARY:
        if parts.fraction or len(written) + parts.exponent * 3 // 10 > _BINARY_DIGITS:
            return None
        return Representation(digits << parts.exponent, 0, Family.BINARY, text if digits % 8 else "")
    scale = parts.exponent - len(parts.fraction)
    if len(written) > _DECIMAL_DIGITS or scale < _FINEST:
        return None
    as_written = scale % 3 == 0 and not written.endswith("000") and not written.startswith("0")
    return Representation(digits, scale, parts.family, text if as_written else "")


@lru_cache(maxsize=4096)
def passed_through(text: str) -> Quantity:
    """Return a quantity with the text that it has once Kubernetes has read and written it.

    Raises ValueError if the text is not a quantity.
    """
    quantity, held = parse_quantity(text), representation(text)
    if held is not None and held.text:
        return quantity
    return Quantity(quantity.nano, format_amount(quantity.nano, family(quantity)))
