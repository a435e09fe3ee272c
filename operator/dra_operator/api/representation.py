"""Representations: how Go holds a quantity, which is not only how much it is.

Kubernetes' allocator takes an amount for the default of its policy when both are held alike, not when they are equal:
8000M is held otherwise than 8G. Where a policy would refuse the amount, that decides. And where the text is held, too,
it is what will be written again: 1E3 stays 1E3, 2048Mi becomes 2Gi.
Source: k8s.io/apimachinery/pkg/api/resource, `Quantity` and `ParseQuantity`.
"""

from functools import lru_cache

from dra_operator.api.quantity import Family, Quantity, family, format_amount, parse_quantity, split_quantity
from dra_operator.api.sealed import sealed

# An amount with more decimal digits may not fit into an int64. Go counts three for each factor of 1024.
_DECIMAL_DIGITS = 18
_BINARY_DIGITS = 14
_FINEST = -9


@sealed
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
