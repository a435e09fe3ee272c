"""Turns: which claims are to be decided, each once in a round.

A change that may help every claim that waits has all of them decided again, the oldest first. Where that takes longer
than a pass has time for, and changes keep coming, those in front would be decided again and again, and the youngest
never. So whoever has had a turn has the next one when all others have had theirs.
"""

from collections import defaultdict
from collections.abc import Set as AbstractSet

from dra_operator.controller.claims import Key


class Turns:
    """The claims that are due, and those that have had their turn in this round."""

    def __init__(self) -> None:
        self._due: set[Key] = set()
        self._had: set[Key] = set()
        self.spent: defaultdict[str, float] = defaultdict(float)
        """The seconds that the claims of each namespace have taken in this round."""
        self._again: set[Key] = set()
        """Those that have had their turn, and are to have one in the next round."""

    @property
    def go_on(self) -> bool:
        """Whether somebody has had a turn in this round."""
        return bool(self._had)

    def want(self, keys: AbstractSet[Key]) -> None:
        """Have some claims decided: in this round, or in the next one if they have had their turn."""
        self._due |= keys - self._had
        self._again |= keys & self._had

    def due(self) -> tuple[Key, ...]:
        """Return the claims that are due, in any order."""
        return tuple(self._due)

    def skip(self, key: Key) -> None:
        """Note that a claim is not to be decided now."""
        self._due.discard(key)

    def take(self, key: Key) -> None:
        """Note that a claim has its turn."""
        self._due.discard(key)
        self._had.add(key)

    def end(self) -> bool:
        """End the round if everybody has had a turn; return whether nobody is due then."""
        if not self._due:
            self._had.clear()
            self.spent.clear()
            self._due, self._again = self._again, set()
        return not self._due
