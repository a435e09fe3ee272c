"""Quantities: exact decimal amounts with the text they were written in.

Everything is held as a whole number of nano-units, the finest a quantity can have, so that adding and comparing are
those of Python's ints: exact and of any size. The text is kept because results copy amounts as they were written.
Source: k8s.io/apimachinery/pkg/api/resource, `ParseQuantity`.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

NANO = 10**9
_MAX_EXPONENT = 400  # beyond it the number alone could fill memory; far above what any amount needs
_PATTERN = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_CAP = (2**63 - 1) * NANO


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount: `nano` is its value in nano-units; `text` is how it was written and takes no part in comparison."""

    nano: int
    text: str = field(compare=False, default="")

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=16384)
def parse_quantity(text: str) -> Quantity:
    """Return the quantity that `text` stands for.

    Digits finer than nano are rounded away from zero; binary amounts are capped at 2**63-1, as upstream does.
    Raises ValueError if the text is not a quantity.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a quantity such as 16Gi or 500m")
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4) or ""
    digits = int((whole + fraction) or "0")
    exponent = -len(fraction) + 9
    factor = 1
    if suffix in _BINARY:
        factor = 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        exponent += _DECIMAL[suffix]
    else:
        exponent += int(suffix[1:])
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"{text!r} has an exponent beyond what can be represented")
    nano = digits * factor
    nano = nano * 10**exponent if exponent >= 0 else -(-nano // 10**-exponent)
    if suffix in _BINARY:
        nano = min(nano, _BINARY_CAP)
    return Quantity(-nano if sign == "-" else nano, text)


def read_quantity(wire: Any) -> Quantity:
    """Return the quantity of a wire value: text, or a JSON number.

    Raises ValueError for anything else.
    """
    if isinstance(wire, Quantity):
        return wire
    if isinstance(wire, bool) or not isinstance(wire, str | int | float):
        raise ValueError(f"{wire!r} is not a quantity such as 16Gi or 500m")
    return parse_quantity(str(wire))
