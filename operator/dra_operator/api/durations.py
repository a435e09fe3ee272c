"""Durations for people, as kubectl writes ages.

Source: k8s.io/apimachinery/pkg/util/duration, `HumanDuration`.
"""

from datetime import UTC, datetime


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
