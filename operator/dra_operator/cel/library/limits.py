"""Limits: where a function of the library stops.

Kubernetes meters every evaluation and stops it at a cost of 1,000,000. Functions whose own work can be large
in relation to their arguments check here that it stays within what that limit allows, in far less than a
tenth of a second.
"""

from typing import Final

from dra_operator.cel.errors import Abort

LONGEST_TEXT: Final = 200_000
"""Characters a string may grow to; an expression of 10 KiB has to try hard to get there."""
MOST_COMPARISONS: Final = 150_000
"""Comparisons of elements that one call may make."""
MOST_ELEMENTS: Final = 50_000
"""Elements that a list may have."""


def cost_exceeded() -> Abort:
    """Return the error of an evaluation that costs too much."""
    return Abort("runtime", "operation cancelled: actual cost limit exceeded")


def check_length(length: int) -> None:
    """Refuse to make a text of `length` characters if that is too long. Raises CelError."""
    if length > LONGEST_TEXT:
        raise cost_exceeded()


def check_elements(count: int) -> None:
    """Refuse to make a list of `count` elements if those are too many. Raises CelError."""
    if count > MOST_ELEMENTS:
        raise cost_exceeded()


def check_comparisons(count: int) -> None:
    """Refuse to make `count` comparisons if those are too many. Raises CelError."""
    if count > MOST_COMPARISONS:
        raise cost_exceeded()
