"""The garbage collector of the operator's process: what is known after the start is not looked at again.

The collector walks through all that lives whenever enough is new, and in a large cluster that is most of a second for
each walk, in the middle of a pass. But what has been listed stays, and is let go by counting references alone. So
collections are rare, and what lives once everything is known is left out of them for good.
"""

import gc
from typing import Final

THRESHOLDS: Final = (20_000, 20, 20)
"""How many objects more than before start a collection, and how many of those one of the older generations."""


def collect_seldom() -> None:
    """Collect seldom from now on."""
    gc.set_threshold(*THRESHOLDS)


def settle() -> None:
    """Collect once, and leave out of later collections what is left."""
    gc.collect()
    gc.freeze()
    # The oldest generation is collected when a quarter of what was left by its last collection has come in addition.
    # That was everything; now it is nothing.
    gc.collect()
