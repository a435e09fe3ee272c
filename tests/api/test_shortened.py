"""Long lists in one line."""

import pytest

from dra_operator.api.shortened import shortened


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["a", "b", "c"], ["a", "b", "c"], id="few"),
        pytest.param(["a", "b", "c", "d", "e"], ["a", "b", "c", "2 more"], id="many"),
    ],
)
def test_three_are_told_and_how_many_more(texts: list[str], told: list[str]) -> None:
    """None is left out without a word."""
    assert shortened(texts) == told
