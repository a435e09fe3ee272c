"""Long lists in one line: the first few, and how many there are besides.

What is told stands in an Event, which has an end, and nobody reads the fortieth value.
"""

from collections.abc import Sequence

_MOST = 3


def shortened(texts: Sequence[str]) -> list[str]:
    """Return the first of some texts, and behind them how many more there are, if there are more."""
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]
