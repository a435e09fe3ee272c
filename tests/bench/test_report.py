"""The table of the end-to-end benchmark."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from live.deciders import Decider, Load
from live.report import Measured, Row, Verdict, ratios

BURST = (Decider.OPERATOR, Load.BURST)
STANDING = (Decider.OPERATOR, Load.STANDING)
BARE = (Decider.BARE, Load.STANDING)


def row(phase, *rates, latencies=(), left=None):
    """Return a row with one round for each rate."""
    right = Verdict(missing=0, doubled=0)
    return Row(phase, [Measured(rate, latencies, left, 1.0, 2.0, right) for rate in rates])


def test_a_row_is_the_median_of_its_rounds():
    """One slow round on a busy machine does not count."""
    assert row(BURST, 10.0, 200.0, 210.0).rate == 200.0


def test_the_operator_is_compared_with_what_was_measured():
    """Without kube-scheduler nothing is said about it; the rate under the same load is what counts."""
    rows = {BARE: row(BARE, 200.0), STANDING: row(STANDING, 150.0), BURST: row(BURST, 100.0, left=1.5)}

    assert [line.partition(" (")[0] for line in ratios(rows)] == [
        "operator / bare client, standing: 0.75",
        "operator, burst: the last allocation 1.50 s after the last claim",
    ]


@pytest.mark.parametrize(("missing", "doubled"), [(1, 0), (0, 1)])
def test_a_claim_without_or_with_a_shared_device_is_wrong(missing, doubled):
    """Either makes the benchmark fail."""
    assert not Verdict(missing, doubled).is_right
