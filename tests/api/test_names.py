"""Ids of shares."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.names import share_id


@given(st.integers(0, 2**128 - 1))
def test_a_share_id_is_a_random_uuid_in_lower_case(random: int) -> None:
    """The same that the standard library makes of these bits, version and variant included."""
    assert share_id({128: random}.__getitem__) == str(UUID(int=random, version=4))
