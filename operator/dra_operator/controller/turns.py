"""Turns: which claims are to be decided, each once in a round.

A change that may help every claim that waits has all of them decided again, the oldest first. Where that takes longer
than a pass has time for, and changes keep coming, those in front would be decided again and again, and the youngest
never. So whoever has had a turn has the next one when all others of its namespace have had theirs.

Then the namespace that took least time lately goes first, so that nobody can keep others waiting by claims that take
long, however many. And claims of which nothing was said yet go before those that wait already, unless their namespace
takes long: most of these will wait on, and nobody who creates a claim should have to wait until that is known.
"""

from collections import defaultdict
from collections.abc import Set as AbstractSet

from dra_operator.controller.claims import Key

_FADING = 0.9
"""How much of the time that a namespace took counts one pass later."""
_LONG = 3.0
"""Where the claims of a namespace took more seconds than this, new ones do not go first."""
_NOTHING = 0.01


class Turns:
    """The claims that are due, and those that have had their turn in this round."""

    def __init__(self) -> None:
        self._due: set[Key] = set()
        self._had: set[Key] = set()
        self._again: set[Key] = set()
        """Those that have had their turn, and are to have one in the next round."""
        self._spent: defaultdict[str, float] = defaultdict(float)
        """The seconds that the claims of each namespace took lately."""

    @property
    def go_on(self) -> bool:
        """Whether somebody has had a turn in this round."""
        return bool(self._had)

    def want(self, keys: AbstractSet[Key]) -> None:
        """Have some claims decided: in this round, or in the next one if they have had their turn."""
        self._due |= keys - self._had
        self._again |= keys & self._had

    def due(self) -> tuple[Key, ...]:
        """Begin a pass: return the claims that are due, in any order."""
        if self._again:
            self._end_rounds()
        fading = {name: seconds * _FADING for name, seconds in self._spent.items() if seconds > _NOTHING}
        self._spent = defaultdict(float, fading)
        return tuple(self._due)

    def place(self, key: Key, *, is_new: bool) -> tuple[bool, float, bool]:
        """Return by what claims that are due are sorted where a round goes on, before their age."""
        spent = self._spent.get(key[0], 0.0)
        return not is_new or spent > _LONG, spent, not is_new

    def skip(self, key: Key) -> None:
        """Note that a claim is not to be decided now."""
        self._due.discard(key)

    def take(self, key: Key) -> None:
        """Note that a claim has its turn."""
        self._due.discard(key)
        self._had.add(key)

    def took(self, key: Key, seconds: float) -> None:
        """Note how long the turn of a claim took."""
        self._spent[key[0]] += seconds

    def end(self) -> bool:
        """End the round if everybody has had a turn; return whether nobody is due then."""
        if not self._due:
            self._had.clear()
            self._due, self._again = self._again, set()
        return not self._due

    def _end_rounds(self) -> None:
        """End the round of each namespace all of whose claims have had a turn."""
        over = {namespace for namespace, _ in self._again} - {namespace for namespace, _ in self._due}
        if over:
            self._had = {key for key in self._had if key[0] not in over}
            self._due |= {key for key in self._again if key[0] in over}
            self._again -= self._due
