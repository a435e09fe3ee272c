"""Turns: which claims are to be decided, each once in a round.

A change that may help every claim that waits has all of them decided again, the oldest first. Where that takes longer
than a pass has time for, and changes keep coming, those in front would be decided again and again, and the youngest
never. So whoever has had a turn has the next one when all others have had theirs.

And where a round takes longer than a pass, claims that have come or changed since go before those that wait already:
most of these will wait on, and nobody who creates a claim should have to wait until that is known of all of them.
"""

from collections.abc import Set as AbstractSet

from dra_operator.controller.claims import Key


class Turns:
    """The claims that are due, and those that have had their turn in this round."""

    def __init__(self) -> None:
        self._due: set[Key] = set()
        self._had: set[Key] = set()
        self._again: set[Key] = set()
        """Those that have had their turn, and are to have one in the next round."""
        self._arrived: set[Key] = set()
        """Those of the claims that are due that have come or changed."""

    def arrive(self, keys: AbstractSet[Key]) -> None:
        """Have some claims decided that have come or changed."""
        self._arrived |= keys
        self.want(keys)

    def want(self, keys: AbstractSet[Key]) -> None:
        """Have some claims decided: in this round, or in the next one if they have had their turn."""
        self._due |= keys - self._had
        self._again |= keys & self._had

    def due(self) -> tuple[Key, ...]:
        """Return the claims that are due, in any order."""
        return tuple(self._due)

    def goes_first(self, key: Key) -> bool:
        """True for a claim that has come or changed, where a round takes longer than a pass."""
        return bool(self._had) and key in self._arrived

    def skip(self, key: Key) -> None:
        """Note that a claim is not to be decided now."""
        self._due.discard(key)
        self._arrived.discard(key)

    def take(self, key: Key) -> None:
        """Note that a claim has its turn."""
        self.skip(key)
        self._had.add(key)

    def end(self) -> bool:
        """End the round if everybody has had a turn; return whether nobody is due then."""
        if not self._due:
            self._had.clear()
            self._due, self._again = self._again, set()
        return not self._due
