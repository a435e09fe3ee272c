"""What a search has found: devices for requests, and the alternatives they were chosen by.

All searches answer in these types, so a result does not depend on which search was asked. A fast search may also
answer that it cannot tell; then the next search is asked. The plain search can always tell.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias

from dra_operator.allocator.plan import Alternative
from dra_operator.inventory import PoolView

Served: TypeAlias = tuple[Alternative, Sequence[tuple[PoolView, int]]]
"""A request that is served: the chosen alternative, and its devices in order, by pool and position."""
Found: TypeAlias = Sequence[Sequence[Served]]
"""By claim, its requests in order."""


class Unsure(Enum):
    """A fast search cannot tell; another search has to."""

    UNSURE = "unsure"


UNSURE: Literal[Unsure.UNSURE] = Unsure.UNSURE

Answer: TypeAlias = Found | Literal[Unsure.UNSURE] | None
"""Devices, a proven no, or neither."""
