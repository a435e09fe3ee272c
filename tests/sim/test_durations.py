"""Ages in kubectl's words."""

from datetime import UTC, datetime

import pytest

from dra_operator.sim.tables import age, human_duration

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (740 * DAY, "2y10d"),
        (8 * 365 * DAY, "8y"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    """The longer, the coarser, with at most two units."""
    assert human_duration(seconds) == text


def test_an_unknown_age() -> None:
    """No timestamp, no age."""
    assert age(None, datetime.now(UTC)) == "<unknown>"


def test_an_age_is_counted_from_the_timestamp() -> None:
    """The clock is an argument."""
    assert age("2026-01-01T00:00:00Z", datetime(2026, 1, 1, 0, 0, 42, tzinfo=UTC)) == "42s"
