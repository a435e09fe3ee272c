"""What is left of counters, and compatibility groups."""

import pytest

from dra_operator.ledger.availability import SetOccupancy, join

A, B, AB, NONE = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset[str]()


@pytest.mark.parametrize(
    ("placed", "groups", "admitted"),
    [
        pytest.param([AB], A, True, id="a group in common"),
        pytest.param([A], B, False, id="no group in common"),
        pytest.param([A], NONE, False, id="without groups beside one with"),
        pytest.param([NONE], A, False, id="with groups beside one without"),
        pytest.param([NONE, NONE], NONE, True, id="nobody has groups"),
        pytest.param([frozenset("mv"), frozenset("vx")], frozenset("mx"), False, id="all must share one"),
        pytest.param([A, B], A, False, id="contradicting devices admit nobody with groups"),
        pytest.param([A, B], NONE, False, id="contradicting devices admit nobody without"),
        pytest.param([NONE, A], NONE, True, id="the first one decides: without groups"),
        pytest.param([A, NONE], A, True, id="the first one decides: with groups"),
    ],
)
def test_a_device_joins_what_is_placed(
    placed: list[frozenset[str]], groups: frozenset[str], *, admitted: bool
) -> None:
    """SetOccupancy devices are folded in order; a candidate must share a group with all, or nobody has any."""
    state: SetOccupancy | None = None
    for item in placed:
        state = join(state, item)

    assert state is not None
    assert state.admits(groups) is admitted
