"""Timestamps and durations."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.cases import duration_text
from dra_operator.cel.library import times
from dra_operator.cel.values import Duration, Timestamp

S = 10**9
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CODES = {row.split(":")[0].split()[1]: code for row, code in times.FUNCTIONS.items()}
moments = st.integers(times.MIN_SECONDS * S, times.MAX_SECONDS * S + S - 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1",
        "1d",
        "s",
        ".s",
        "1 s",
        "9223372036854775808ns",
        "-9223372036854775809ns",
        "10000000h",
        "1h-1m",
        "\u0661s",
        "9" * 9999 + "h",
    ],
)
def test_other_text_is_no_duration(error, text):
    """A number without a unit, an unknown unit, or more than 64 bits is refused."""
    assert (
        error("string_to_duration", text)
        == "type conversion error from 'string' to 'google.protobuf.Duration'"
    )


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_that_go_prints_reads_as_itself(nanos):
    """Go's own form keeps every nanosecond."""
    assert times.parse_duration(duration_text(Duration(nanos))).nanos == nanos


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01",
        "2020-01-01 00:00:00Z",
        "2020-01-01t00:00:00Z",
        "2020-01-01T00:00:00",
        "2020-13-01T00:00:00Z",
        "2021-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T00:00:60Z",
        "2020-01-01T00:00:00.Z",
        "2020-01-01T00:00:00+0100",
        "2020-01-01T00:00:00+25:00",
        "2020-01-01T00:00:00ZZ",
        "\u0662020-01-01T00:00:00Z",
        "20200-01-01T00:00:00Z",
        "",
    ],
)
def test_other_text_is_no_timestamp(error, text):
    """A date that does not exist, or another form, is refused."""
    assert (
        error("string_to_timestamp", text)
        == "type conversion error from 'string' to 'google.protobuf.Timestamp'"
    )


@given(moments, st.sampled_from([0, 3600, -5400, 86340]))
def test_a_printed_timestamp_reads_as_itself(nanos, offset):
    """Neither nanoseconds nor the offset are lost, as long as the year has four digits."""
    text = times.timestamp_to_string(Timestamp(nanos, offset))

    if text[0] != "-" and len(text.partition("-")[0]) == 4 and not text.startswith("0000"):
        again = times.parse_timestamp(text)
        assert (again.nanos, again.offset) == (nanos, offset)


@given(moments)
def test_the_parts_of_a_moment_are_those_of_the_calendar(nanos):
    """In UTC each part is what Python's calendar says, counted from 0 where CEL does."""
    moment = Timestamp(nanos)
    expected = EPOCH + timedelta(seconds=nanos // S)
    parts = {
        "timestamp_to_year": expected.year,
        "timestamp_to_month": expected.month - 1,
        "timestamp_to_day_of_month": expected.day - 1,
        "timestamp_to_day_of_month_1_based": expected.day,
        "timestamp_to_day_of_year": expected.timetuple().tm_yday - 1,
        "timestamp_to_day_of_week": expected.isoweekday() % 7,
        "timestamp_to_hours": expected.hour,
        "timestamp_to_minutes": expected.minute,
        "timestamp_to_seconds": expected.second,
        "timestamp_to_milliseconds": nanos % S // 10**6,
    }

    assert {name: CODES[name](moment) for name in parts} == parts


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Nowhere/City", "unknown time zone Nowhere/City"),
        ("America", "unknown time zone America"),
        ("../UTC", "time: invalid location name"),
        ("/etc/localtime", "time: invalid location name"),
        ("a:b", 'strconv.Atoi: parsing "a": invalid syntax'),
        ("1:", 'strconv.Atoi: parsing "": invalid syntax'),
        (f"{2**63}:0", f'strconv.Atoi: parsing "{2**63}": value out of range'),
    ],
)
def test_another_zone_is_an_error(error, zone, message):
    """A zone that is not in the database is named, and no path leads out of it."""
    assert error("timestamp_to_hours_with_tz", Timestamp(0), zone) == message
