"""Back-off: pauses that grow, are spread, and end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cluster.backoff import Backoff, doubled

BACKOFF = Backoff(base=0.5, cap=4.0)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 4.0), (10**6, 4.0)]
)
def test_pauses_double_up_to_the_cap(failures, seconds):
    """Each failure doubles the pause until the cap, however many there are."""
    assert BACKOFF.delay(failures, lambda: 1.0) == seconds


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_pauses_are_spread_over_their_upper_half(failures, chance):
    """A pause is between half of its length and all of it."""
    longest = BACKOFF.delay(failures, lambda: 1.0)

    assert longest / 2 <= BACKOFF.delay(failures, lambda: chance) <= longest
    assert BACKOFF.delay(failures, lambda: 0.0) == longest / 2


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(None, 0.5), (0.3, 0.5), (17.0, 17.0), (86400.0, 60.0)],
    ids=["no", "less", "more", "a day"],
)
def test_server_is_obeyed_within_reason(asked, seconds):
    """What the server asks for counts if it is longer, up to a minute."""
    assert BACKOFF.delay(1, lambda: 1.0, asked) == seconds


def test_doubling_ends_at_the_longest_however_often():
    """Also where the power itself would be no number any more."""
    assert [doubled(3.0, 30.0, times) for times in (0, 1, 3, 4, 2000)] == [3, 6, 24, 30, 30]
