"""Settings of the interpreter for the operator's process: short turns of threads, rare garbage collection.

A pass runs in one thread, and the event loop, which carries its writes, in another, which would wait five milliseconds
for its turn. A collection walks through all that lives, most of a second in a large cluster; what was listed stays, and
is freed by reference counting, so it is frozen once everything is known.
"""

import gc
import sys
from typing import Final

THRESHOLDS: Final = (20_000, 20, 20)
"""How many objects more than before start a collection, and how many of those one of the older generations."""
TURN_SECONDS: Final = 0.0005
"""How long a thread may go on while another one waits for its turn."""


def shorten_turns() -> None:
    """Let threads take short turns from now on."""
    sys.setswitchinterval(TURN_SECONDS)


def collect_seldom() -> None:
    """Collect seldom from now on."""
    gc.set_threshold(*THRESHOLDS)


def freeze() -> None:
    """Collect once, and leave out of later collections what is left."""
    gc.collect()
    gc.freeze()
    # The oldest generation is collected when a quarter of what was left by its last collection has come in addition.
    # That was everything; now it is nothing.
    gc.collect()
