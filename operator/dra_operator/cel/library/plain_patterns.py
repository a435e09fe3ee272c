"""Plain patterns: those that Python's `re` reads exactly as RE2 does, and matches in a tenth of the time.

A call into RE2 takes microseconds whatever the pattern is. Most patterns of selectors are an anchor, some letters,
a class, a choice: where the two cannot differ and going back cannot take long (few choices, one repetition without end
at most, none of a group), `re` answers. Everything else, and long texts, is RE2's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

LONGEST: Final = 256
"""Characters of a text; longer ones are RE2's, whose time does not depend on going back."""
_LONGEST_PATTERN: Final = 200
_MOST_WAYS: Final = 512
"""In how many ways a plain pattern may match at one place; an eighth of that if one part repeats without end."""

Search: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain pattern: what searches for it, in how many ways it may match at one place, whether a part has no end."""

    search: Search
    ways: int
    endless: bool

    def work(self, length: int) -> int:
        """Return how many nanoseconds a text of this length takes at most."""
        tried = length * self.ways
        return 300 + tried * 10 + (tried * length * 2 if self.endless else 0)


_ATOM: Final = (
    r"(?:[A-Za-z0-9 _\-:/,;=<>@%&~'\"!]"  # itself
    r"|\\[.\-/+*?()\[\]{}|^$]"  # a sign, quoted
    r"|\\[dDw]"  # ASCII in both
    r"|\."
    r"|\[\^?(?:[A-Za-z0-9 _:/,;=@%.+]|[A-Za-z0-9]-[A-Za-z0-9]|\\d)+-?\])"
)
_TOKEN: Final = re.compile(
    rf"(?P<atom>{_ATOM})(?P<repeat>[*+?]|\{{(?P<least>\d)(?:,(?P<most>\d))?\}})?"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))(?P<maybe>\?)?|(?P<bar>\|)|\^|(?P<end>\$)"
)


def plain_pattern(pattern: str) -> Plain | None:
    """Return `pattern` for texts of at most `LONGEST` characters, or None if it is not plain."""
    if len(pattern) > _LONGEST_PATTERN or not pattern.isascii():
        return None
    position, endless, ways = 0, 0, 1
    alternatives = [1]
    parts: list[str] = []
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return None
        position = token.end()
        endless += token["repeat"] in ("*", "+")
        if token["open"]:
            alternatives.append(1)
        elif token["bar"]:
            alternatives[-1] += 1
        elif token["close"]:
            ways *= alternatives.pop()
        if token["repeat"] == "?" or token["maybe"]:
            ways *= 2
        elif token["most"]:
            ways *= max(1, int(token["most"]) - int(token["least"]) + 1)
        if not alternatives:
            return None
        # Python's `$` also matches before a newline at the end.
        parts.append(r"\Z" if token["end"] else token[0])
    if len(alternatives) > 1 or endless > 1 or ways * alternatives[0] > (_MOST_WAYS >> 3 * endless):
        return None
    try:
        # RE2 knows ASCII alone in \d and \w unless it is told otherwise.
        compiled = re.compile("".join(parts), re.ASCII)
    except re.error:
        return None
    search = compiled.match if pattern.startswith("^") and alternatives == [1] else compiled.search
    return Plain(search, ways * alternatives[0], endless > 0)
