"""Times of objects: what cannot be read is not known, and what is to come is not past."""

import pytest

from dra_operator.api.text import age_of, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_time_is_read_in_any_zone(text, seconds):
    """A text that is no time is none, as files may have anything."""
    assert seconds_of(text) == seconds


def test_age_is_never_negative():
    """Clocks of an API server and of a user differ."""
    assert [age_of("1970-01-01T00:01:00Z", now) for now in (90.5, 60, 30)] == [30, 0, 0]
    assert age_of(None, 0) is None
