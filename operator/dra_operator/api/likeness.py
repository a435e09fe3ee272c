"""Likeness: what was probably meant by a name that nothing has."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Final

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
