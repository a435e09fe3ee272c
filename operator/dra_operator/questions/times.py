"""Times of objects: RFC 3339 text as seconds since 1970, and how long ago that was."""

from datetime import datetime


def seconds_of(text: str | None) -> float | None:
    """Return a time of an object in seconds since 1970; None if it has none, or none that can be read."""
    try:
        return None if not text else datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def age_of(text: str | None, now: float) -> int | None:
    """Return how many seconds ago a time of an object was; 0 if it is still to come, None if it is not known."""
    then = seconds_of(text)
    return None if then is None else max(int(now - then), 0)
