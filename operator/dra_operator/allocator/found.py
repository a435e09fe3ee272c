"""What a search has found: devices for requests, and the alternatives they were chosen by.

All searches answer in these words, so that a result does not depend on which of them was asked. A fast search may also
answer that it cannot tell; the next one is asked then, and the plain one always can.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias

from dra_operator.allocator.capacity import Consumed
from dra_operator.allocator.plan import Alternative
from dra_operator.api.sealed import sealed
from dra_operator.inventory import Slice


@sealed
class Given:
    """A device given to a request; `consumed` is None unless it is a share."""

    alternative: Alternative
    content: Slice
    index: int
    consumed: Consumed | None


@sealed
class Found:
    """By claim, the devices in the order in which they were picked, and the alternative of each request."""

    picks: Sequence[Sequence[Given]]
    chosen: Sequence[Sequence[Alternative]]


class Unsure(Enum):
    """A fast search cannot tell: the plain one has to."""

    UNSURE = "unsure"


UNSURE: Literal[Unsure.UNSURE] = Unsure.UNSURE

Answer: TypeAlias = Found | Literal[Unsure.UNSURE] | None
"""Devices, a proven no, or neither."""
