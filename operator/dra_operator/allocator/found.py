"""What a search has found: devices for requests, and the alternatives they were chosen by.

All searches answer in these words, so that a result does not depend on which of them was asked. A fast search may also
answer that it cannot tell; the next one is asked then, and the plain one always can.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias

from dra_operator.allocator.plan import Alternative
from dra_operator.inventory import PoolView

Served: TypeAlias = tuple[Alternative, Sequence[tuple[PoolView, int]]]
"""A request that got what it asks for: the alternative chosen, and its devices in order, by pool and position."""
Found: TypeAlias = Sequence[Sequence[Served]]
"""By claim, its requests in order."""


class Unsure(Enum):
    """A fast search cannot tell: the plain one has to."""

    UNSURE = "unsure"


UNSURE: Literal[Unsure.UNSURE] = Unsure.UNSURE

Answer: TypeAlias = Found | Literal[Unsure.UNSURE] | None
"""Devices, a proven no, or neither."""
