"""Texts for people: quoted as Go quotes them, lists and values cut to what one line holds, what does not print escaped.

They stand in Events, which have an end, and at terminals, which obey some characters. Times of objects are texts too.
"""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final

ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
"""How characters are written in a literal, of Go and of CEL alike, that have an escape of their own."""


def quote(text: str) -> str:
    """Return `text` in double quotes, as `strconv.Quote` writes it."""
    return '"' + "".join(ESCAPES.get(each) or _escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    if character == " " or character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_MEANT = {int: re.compile(r"-?\d+"), bool: re.compile("true|false")}
"""What is meant by a text where there should be none."""


def about_quotes(expected: type | None, given: Any) -> str:
    """Return what to do about the quotes of a value that is not of the type expected; nothing if they are right."""
    # YAML reads y, n, yes, no, on and off as true and false, as kubectl does.
    if expected is str and isinstance(given, bool | int | float):
        return ": write it in quotes"
    pattern = _MEANT.get(expected) if expected is not None and isinstance(given, str) else None
    return ": write it without quotes" if pattern is not None and pattern.fullmatch(given) else ""


_MOST = 3
_LONGEST_VALUE = 80
_CUT = " ... "
_ITEMS = re.compile(r"[,;] ")
_WORDS = re.compile(r"\s")


def shortened(texts: Sequence[str]) -> list[str]:
    """Return the first of some texts, and behind them how many more there are, if there are more."""
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]


def listed(texts: Sequence[str]) -> str:
    """Return the first of some texts in one line, and behind them how many more there are, if there are more."""
    return ", ".join(shortened(texts))


def timestamp(moment: datetime) -> str:
    """Return a moment as objects have it. Source: k8s.io/apimachinery/pkg/apis/meta/v1, `Time`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cut(text: str, most: int) -> str:
    """Return a text cut to so many bytes of UTF-8, in the middle.

    How it begins says what it is about, and how it ends what follows from it. It is cut between items of a list, or at
    least between words; where a word is too long for that, between characters.
    """
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    half = (most - len(_CUT)) // 2
    return f"{_head(encoded[:half].decode(errors='ignore'))}{_CUT}{_tail(encoded[-half:].decode(errors='ignore'))}"


def _head(text: str) -> str:
    for separator in (_ITEMS, _WORDS):
        if ends := [found.start() for found in separator.finditer(text, len(text) * 3 // 4)]:
            return text[: ends[-1]]
    return text


def _tail(text: str) -> str:
    for separator in (_ITEMS, _WORDS):
        if found := separator.search(text, 0, len(text) // 4):
            return text[found.end() :]
    return text


def shown(value: Any) -> str:
    """Return a value as JSON, cut to 80 characters; halves of surrogate pairs, which no output can hold, as escapes."""
    text = json.dumps(value, default=repr, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def printable(text: str) -> str:
    """Return a text in which what does not print is written as in a literal: an end of line by its escape.

    Attributes of devices may hold any characters: ends of lines, orders to a terminal, blanks that nobody sees.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


# --- Durations for people, as kubectl writes ages.
# Source: k8s.io/apimachinery/pkg/util/duration, `HumanDuration`.


def age(timestamp: str | None, now: datetime) -> str:
    """Return how long ago an RFC 3339 timestamp was, `<unknown>` for none."""
    if not timestamp:
        return "<unknown>"
    then = datetime.fromisoformat(timestamp).astimezone(UTC)
    return human_duration(int((now - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """Return a duration in two units at most, the coarser the longer it is."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, small_unit: str) -> str:
    return f"{first}{unit}{second}{small_unit}" if second else f"{first}{unit}"


# --- Likeness: what was probably meant by a name that nothing has.

NEAR: Final = 0.7
"""How much of two names has to be alike, as difflib counts it."""
MOST_NAMES: Final = 256
"""Among more names nothing is near: they differ from device to device, and each takes 10 microseconds to compare."""


def near_name(attribute: str, names: set[str]) -> str:
    """Return the name that was probably meant: the same in another domain, or a similar one in the same; or nothing."""
    domain, _, identifier = attribute.rpartition("/")
    elsewhere = sorted(name for name in names if name.partition("/")[2] == identifier)
    if elsewhere:
        return elsewhere[0]
    # Domains are long, and would make any two names of one domain look alike.
    same = sorted(name.partition("/")[2] for name in names if name.partition("/")[0] == domain)
    close = get_close_matches(identifier, same, 1, cutoff=NEAR) if len(same) <= MOST_NAMES else ()
    return f"{domain}/{close[0]}" if close else ""


def near_object(name: str, names: Iterable[str]) -> str:
    """Return the object that was probably meant by one that does not exist, or nothing where none is close.

    A domain that both end in says nothing: typo.example.com is not like gpu.example.com.
    """
    alike = [(_likeness(name.lower(), each.lower()), each) for each in sorted(names)]
    likeness, near = max(alike, key=lambda found: found[0], default=(0.0, ""))
    return near if likeness >= NEAR else ""


def did_you_mean(near: str) -> str:
    """Return a clause that asks whether a name was meant, or nothing for none."""
    return f'; did you mean "{near}"?' if near else ""


def _likeness(one: str, other: str) -> float:
    mine, theirs = one.split("."), other.split(".")
    while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    matcher = SequenceMatcher(None, ".".join(mine), ".".join(theirs))
    # The bounds are quick, and there may be many classes.
    if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < NEAR:
        return 0.0
    return matcher.ratio()


def seconds_of(text: str | None) -> float | None:
    """Return a time of an object in seconds since 1970; None if it has none, or none that can be read."""
    try:
        return None if not text else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def age_of(text: str | None, now: float) -> int | None:
    """Return how many seconds ago a time of an object was; 0 if it is still to come, None if it is not known."""
    then = seconds_of(text)
    return None if then is None else max(int(now - then), 0)
