"""The interpreter of the operator's process: its threads take short turns, and it looks at what is known no more.

Passes run in one thread, and the event loop, which carries their writes, in another. A thread that wants its turn gets
it after five milliseconds; in that time the API server answers, and nobody sends it the next write.

The collector walks through all that lives whenever enough is new, and in a large cluster that is most of a second for
each walk, in the middle of a pass. But what has been listed stays, and is let go by counting references alone. So
collections are rare, and what lives once everything is known is left out of them for good.
"""

import gc
import sys
from typing import Final

THRESHOLDS: Final = (20_000, 20, 20)
"""How many objects more than before start a collection, and how many of those one of the older generations."""
TURN_SECONDS: Final = 0.0005
"""How long a thread may go on while another one waits for its turn."""


def take_turns() -> None:
    """Let threads take short turns from now on."""
    sys.setswitchinterval(TURN_SECONDS)


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
