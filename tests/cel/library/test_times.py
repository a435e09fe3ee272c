"""Timestamps and durations."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.cases import duration_text
from dra_operator.cel.library import times
from dra_operator.cel.values.values import Duration, Timestamp

S = 10**9
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CODES = {row.split(":")[0].split()[1]: code for row, code in times.FUNCTIONS.items()}
moments = st.integers(times.MIN_SECONDS * S, times.MAX_SECONDS * S + S - 1)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("-0", 0),
        ("1h1m1.5s", 3661 * S + S // 2),
        ("-1m", -60 * S),
        ("+5ns", 5),
        (".5us", 500),
        ("1\u00b5s", 1000),
        ("1\u03bcs", 1000),
        ("1.0000000001s", S),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("1h1h", 7200 * S),
    ],
)
def test_a_duration_is_a_sum_of_numbers_with_units(text, nanos):
    """Each number has a unit; fractions finer than a nanosecond are cut off."""
    assert times.parse_duration(text).nanos == nanos


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
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2009-02-13T23:31:30Z", 1234567890 * S),
        ("2009-02-13T23:31:30.123456789Z", 1234567890 * S + 123456789),
        ("2009-02-13T23:31:30.1234567891234Z", 1234567890 * S + 123456789),
        ("2009-02-13T23:31:30,5Z", 1234567890 * S + S // 2),
        ("2009-02-14T00:31:30+01:00", 1234567890 * S),
        ("2009-02-13T9:31:30Z", 1234517490 * S),
        ("2020-02-29T00:00:00Z", 1582934400 * S),
    ],
)
def test_a_timestamp_is_written_in_rfc_3339_as_go_takes_it(text, nanos):
    """Fractions, a comma before them, an hour of one digit and an offset are read."""
    assert times.parse_timestamp(text).nanos == nanos


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


def test_time_ends_with_the_years_1_and_9999(error):
    """What lies beyond overflows."""
    assert error("string_to_timestamp", "0000-12-31T23:59:59Z") == "timestamp overflow"
    assert error("string_to_timestamp", "0001-01-01T00:00:00+01:00") == "timestamp overflow"
    assert error("int64_to_timestamp", times.MAX_SECONDS + 1) == "timestamp overflow"


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
    ("zone", "hours"),
    [
        ("UTC", 7),
        ("", 7),
        ("+02:30", 9),
        ("-07:30", 23),
        ("02:00", 9),
        ("America/New_York", 3),
        ("Asia/Kathmandu", 12),
    ],
)
def test_a_zone_is_an_offset_or_a_name(call, zone, hours):
    """The parts of a moment are those in the zone, summer time included."""
    moment = times.parse_timestamp("2020-05-06T07:08:09Z")

    assert call("timestamp_to_hours_with_tz", moment, zone) == hours


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


@pytest.mark.parametrize(
    ("zone", "hours", "minutes"),
    [
        ("+01:60", 9, 8),
        ("01:99", 9, 47),
        ("+01:-5", 8, 3),
        ("+99:99", 11, 47),
        ("-12:-34", 19, 42),
        (f"{2**63 - 1}:0", 6, 8),
    ],
)
def test_an_offset_is_hours_and_minutes_of_any_size(call, zone, hours, minutes):
    """Nothing bounds the numbers of an offset; what leaves 64 bits wraps around, as in Go."""
    moment = times.parse_timestamp("2020-05-06T07:08:09Z")

    assert call("timestamp_to_hours_with_tz", moment, zone) == hours
    assert call("timestamp_to_minutes_with_tz", moment, zone) == minutes


def test_a_zone_works_at_both_ends_of_time(call):
    """The calendar of Python ends there; that of an expression goes on."""
    first, last = Timestamp(times.MIN_SECONDS * S), Timestamp(times.MAX_SECONDS * S)

    assert call("timestamp_to_year_with_tz", first, "-01:00") == 0
    assert call("timestamp_to_year_with_tz", last, "Asia/Tokyo") == 10000


@pytest.mark.parametrize(
    ("overload", "nanos", "expected"),
    [
        ("duration_to_hours", 10000 * S, 2),
        ("duration_to_minutes", -90 * S, -1),
        ("duration_to_seconds", 3730 * S, 3730),
        ("duration_to_milliseconds", -1_500_000, -1),
        ("duration_to_int64", 5, 5),
        ("duration_to_string", 3661 * S + S // 2, "3661.5s"),
        ("duration_to_string", -1, "-0.000000001s"),
    ],
)
def test_a_duration_is_told_in_whole_units(call, overload, nanos, expected):
    """The parts of a duration are totals, cut off towards zero."""
    assert call(overload, Duration(nanos)) == expected
