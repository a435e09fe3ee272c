"""Timestamps and durations: parsing, printing, and the parts they are made of.

Both are whole nanoseconds. Texts are scanned once; what counts as a duration or a time is exactly what Go's parsers
take. A zone by name comes from the time zone database of the system (or of the package tzdata).
Source: cel-go `common/types/duration.go`, `timestamp.go`; Go `time`.
"""

import math
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from dra_operator.api.text import quote
from dra_operator.cel.cost.prices import Row
from dra_operator.cel.errors import conversion_error, runtime_error
from dra_operator.cel.values import Duration, Timestamp, format_double_positional, parse_integer

_DURATION: Final = "google.protobuf.Duration"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
NANOS: Final = 10**9
MIN_SECONDS: Final = -62135596800
"""0001-01-01T00:00:00Z."""
MAX_SECONDS: Final = 253402300799
"""9999-12-31T23:59:59Z."""
_DAY: Final = 86400
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,
    "\u03bcs": 1000,
    "ms": 10**6,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
}
_LIMIT: Final = 2**63
_DIGITS: Final = "0123456789"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


# --- durations


def parse_duration(text: str) -> Duration:
    """Return the duration that `text` stands for, e.g. `1h1m1.5s`. Raises CelError if it is none."""
    nanos = scan_duration(text)
    if nanos is None:
        raise conversion_error("google.protobuf.Duration")
    return Duration(nanos)


def scan_duration(text: str) -> int | None:
    """Return the nanoseconds of a duration, or None. Source: Go `time.ParseDuration`."""
    negative = text[:1] == "-"
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest:
        return None
    total = 0
    position = 0
    while position < len(rest):
        part, position = _scan_part(rest, position)
        if part is None:
            return None
        total += part
        if total > _LIMIT:
            return None
    if negative:
        return -total
    return total if total < _LIMIT else None


def _scan_part(text: str, start: int) -> tuple[int | None, int]:
    """Return the nanoseconds of one number with its unit, and where the next one starts."""
    point = _skip(text, start, _DIGITS)
    end = _skip(text, point + 1, _DIGITS) if text[point : point + 1] == "." else point
    whole, fraction = text[start:point], text[point + 1 : end]
    unit_end = end
    while unit_end < len(text) and text[unit_end] not in "." + _DIGITS:
        unit_end += 1
    unit = _UNITS.get(text[end:unit_end])
    # 9,223,372,036,854,775,808 has 19 digits: what is longer without its leading zeros is beyond the limit.
    if not (whole or fraction) or unit is None or len(whole.lstrip("0")) > 19:
        return None, unit_end
    nanos = int(whole or "0") * unit
    if fraction:
        value, scale = _scan_fraction(fraction)
        nanos += int(float(value) * (float(unit) / scale))
    return (nanos if nanos <= _LIMIT else None), unit_end


def _scan_fraction(digits: str) -> tuple[int, float]:
    """Return digits behind the point and their scale; Go drops those that leave 63 bits."""
    value, scale = 0, 1.0
    for digit in digits[:20]:
        if value > (_LIMIT - 1) // 10 or value * 10 + int(digit) > _LIMIT:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return value, scale


def _skip(text: str, start: int, characters: str) -> int:
    while start < len(text) and text[start] in characters:
        start += 1
    return start


def duration_to_string(duration: Duration) -> str:
    """Return the seconds of a duration, e.g. `3661.5s`."""
    return format_double_positional(_in_units(duration.nanos, NANOS, NANOS)) + "s"


def _in_units(nanos: int, unit: int, divisor: float) -> float:
    """Return the duration in units, with the rounding of Go's `Hours`, `Minutes` and `Seconds`."""
    whole = int(math.copysign(abs(nanos) // unit, nanos)) if abs(nanos) < 2**53 else _truncated(nanos, unit)
    return float(whole) + float(nanos - whole * unit) / divisor


def _truncated(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


# --- timestamps


def parse_timestamp(text: str) -> Timestamp:
    """Return the moment that `text` names in the form of RFC 3339. Raises CelError if it names none."""
    scanned = scan_timestamp(text)
    if scanned is None:
        raise conversion_error("google.protobuf.Timestamp")
    seconds, nanos, offset = scanned
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise runtime_error("timestamp overflow")
    return Timestamp(seconds * NANOS + nanos, offset)


def scan_timestamp(text: str) -> tuple[int, int, int] | None:
    """Return seconds since 1970, nanoseconds and the offset in seconds, or None. Source: Go `time.Parse`.

    An hour of one digit and a comma before the fraction are taken, as Go does.
    """
    if len(text) < 19 or text[4] != "-" or text[7] != "-" or text[10] != "T":
        return None
    colon = 12 if text[12:13] == ":" else 13
    clock = text[11:colon], text[colon + 1 : colon + 3], text[colon + 4 : colon + 6]
    if text[colon : colon + 1] != ":" or text[colon + 3 : colon + 4] != ":":
        return None
    numbers = (text[:4], text[5:7], text[8:10], *clock)
    if (
        not all(part.isascii() and part.isdigit() for part in numbers)
        or not len(clock[1]) == len(clock[2]) == 2
    ):
        return None
    year, month, day, hour, minute, second = map(int, numbers)
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    nanos, position = _scan_nanos(text, colon + 6)
    offset = _scan_offset(text[position:])
    if offset is None:
        return None
    days = days_from_civil(year, month, day)
    return days * _DAY + hour * 3600 + minute * 60 + second - offset, nanos, offset


def _scan_nanos(text: str, start: int) -> tuple[int, int]:
    if text[start : start + 1] not in (".", ",") or text[start + 1 : start + 2] not in tuple(_DIGITS):
        return 0, start
    end = _skip(text, start + 1, _DIGITS)
    return int(text[start + 1 : min(end, start + 10)].ljust(9, "0")), end


def _scan_offset(text: str) -> int | None:
    if text == "Z":
        return 0
    hours, minutes = text[1:3], text[4:6]
    if len(text) != 6 or text[0] not in "+-" or text[3] != ":":
        return None
    if not (hours + minutes).isascii() or not (hours.isdigit() and minutes.isdigit()):
        return None
    # 24 hours and 60 minutes are taken: some people do write them, says Go.
    if int(hours) > 24 or int(minutes) > 60:
        return None
    offset = (int(hours) * 60 + int(minutes)) * 60
    return -offset if text[0] == "-" else offset


def int_to_timestamp(seconds: int) -> Timestamp:
    """Return the moment so many seconds after 1970."""
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise runtime_error("timestamp overflow")
    return Timestamp(seconds * NANOS)


def timestamp_to_string(timestamp: Timestamp) -> str:
    """Return the moment in RFC 3339, in the zone it was written in, with as many digits as it needs."""
    date, time, zone = written_parts(timestamp)
    return f"{date}T{time}{zone if timestamp.offset else 'Z'}"


def written_parts(timestamp: Timestamp) -> tuple[str, str, str]:
    """Return date, time and zone of a moment in the zone it was written in: `2020-01-01`, `12:30:00.5`, `+01:00`."""
    seconds, nanos = divmod(timestamp.nanos, NANOS)
    days, clock = divmod(seconds + timestamp.offset, _DAY)
    year, month, day = civil_from_days(days)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    sign, minutes = "-" if timestamp.offset < 0 else "+", abs(timestamp.offset) // 60
    return (
        f"{year:04d}-{month:02d}-{day:02d}",
        f"{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}{fraction}",
        f"{sign}{minutes // 60:02d}:{minutes % 60:02d}",
    )


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date of the Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the date so many days after 1970-01-01."""
    era, of_era = divmod(days + 719468, 146097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


# --- zones


def _zone_offset(name: str, seconds: int) -> int:
    """Return how many seconds the zone `name` is east of UTC at a moment. Raises CelError if there is no such zone.

    Hours and minutes are any whole numbers; what leaves 64 bits wraps around. The sign before the hours is that of
    the minutes, too. Source: cel-go `common/stdlib/standard.go`, `inTimeZone`.
    """
    hours, colon, minutes = name.partition(":")
    if not colon:
        return _named_offset(name, seconds)
    hour, minute = _whole_number(hours), _whole_number(minutes)
    offset = hour * 60 - minute if name.startswith("-") else hour * 60 + minute
    nanos = _wrapped(offset * _UNITS["m"])
    return int(_in_units(nanos, NANOS, NANOS))


def _wrapped(number: int) -> int:
    """Return what is left of a whole number in 64 bits."""
    return (number + _LIMIT) % (2 * _LIMIT) - _LIMIT


def _whole_number(text: str) -> int:
    value = parse_integer(text)
    if value is None:
        raise runtime_error(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if not -_LIMIT <= value < _LIMIT:
        raise runtime_error(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return value


def _named_offset(name: str, seconds: int) -> int:
    if name in ("", "UTC", "Local"):
        return 0
    zone = _zone(name)
    if zone is None:
        raise runtime_error(f"unknown time zone {name}")
    # Python's calendar ends where the offset of a zone would lead out of it; a day inside, rules are the
    # same.
    inside = min(max(seconds, MIN_SECONDS + 2 * _DAY), MAX_SECONDS - 2 * _DAY)
    offset = (_EPOCH + timedelta(seconds=inside)).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    if ".." in name or name[0] in "/\\" or "\\" in name:
        raise runtime_error("time: invalid location name")
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


# --- parts


def _of_timestamp(part: Callable[[int, int], int]) -> Callable[..., int]:
    """Return the function that gives a part of a moment, in UTC or in the zone that it is given."""

    def accessor(timestamp: Timestamp, zone: str = "UTC") -> int:
        seconds, nanos = divmod(timestamp.nanos, NANOS)
        if zone != "UTC":
            seconds += _zone_offset(zone, seconds)
        return part(seconds, nanos)

    return accessor


def _year(seconds: int, _nanos: int) -> int:
    return civil_from_days(seconds // _DAY)[0]


def _date(seconds: int, _nanos: int) -> int:
    return civil_from_days(seconds // _DAY)[2]


def _day_of_year(seconds: int, nanos: int) -> int:
    return seconds // _DAY - days_from_civil(_year(seconds, nanos), 1, 1)


def _of_duration(unit: int) -> Callable[[Duration], int]:
    return lambda duration: int(_in_units(duration.nanos, unit, unit))


_PARTS: Final[tuple[tuple[str, str, Callable[[int, int], int]], ...]] = (
    ("getFullYear", "year", _year),
    ("getMonth", "month", lambda seconds, _: civil_from_days(seconds // _DAY)[1] - 1),
    ("getDayOfYear", "day_of_year", _day_of_year),
    ("getDayOfMonth", "day_of_month", lambda seconds, _: _date(seconds, _) - 1),
    ("getDate", "day_of_month_1_based", _date),
    ("getDayOfWeek", "day_of_week", lambda seconds, _: (seconds // _DAY + 4) % 7),
    ("getHours", "hours", lambda seconds, _: seconds % _DAY // 3600),
    ("getMinutes", "minutes", lambda seconds, _: seconds % 3600 // 60),
    ("getSeconds", "seconds", lambda seconds, _: seconds % 60),
    ("getMilliseconds", "milliseconds", lambda _, nanos: nanos // 10**6),
)
"""The parts of a moment in seconds and nanoseconds: the function, what overloads call the part, and the part."""


def _accessors() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, part, function in _PARTS:
        code = _of_timestamp(function)
        zone = "tz" if part == "seconds" else "with_tz"
        yield f"{name} timestamp_to_{part}: {_TIMESTAMP}.() -> int", code
        yield f"{name} timestamp_to_{part}_{zone}: {_TIMESTAMP}.(string) -> int", code


FUNCTIONS: Final[dict[str, Row]] = {
    **dict(_accessors()),
    f"getHours duration_to_hours: {_DURATION}.() -> int": _of_duration(3600 * NANOS),
    f"getMinutes duration_to_minutes: {_DURATION}.() -> int": _of_duration(60 * NANOS),
    f"getSeconds duration_to_seconds: {_DURATION}.() -> int": _of_duration(NANOS),
    f"getMilliseconds duration_to_milliseconds: {_DURATION}.() -> int": lambda duration: _truncated(
        duration.nanos, 10**6
    ),
}
