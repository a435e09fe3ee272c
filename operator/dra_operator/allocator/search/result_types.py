"""What a search answers: devices for requests and the alternatives they were chosen by, a no, or undecided.

All searches answer in these types, so a result does not depend on which of them was asked.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias

from dra_operator.allocator.plan import Alternative
from dra_operator.inventory import PoolView

RequestPicks: TypeAlias = tuple[Alternative, Sequence[tuple[PoolView, int]]]
"""A request that is served: the chosen alternative, and its devices in order, by pool and position."""
Solution: TypeAlias = Sequence[Sequence[RequestPicks]]
"""By claim, its requests in order."""


class Undecided(Enum):
    """Counting cannot tell; the exhaustive search has to."""

    UNDECIDED = "undecided"


UNDECIDED: Literal[Undecided.UNDECIDED] = Undecided.UNDECIDED

Answer: TypeAlias = Solution | Literal[Undecided.UNDECIDED] | None
"""Devices, a proven no, or neither."""
