"""The measurement of the operator in a large cluster, in a small one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import scale
from scaling.server import Judge

SIZES = {"nodes": 6, "claims": 24, "allocated": 18, "idle": 2, "events": 60}
CYCLES = {"cycles": 60, "at-once": 4, "rate": 1000}
REPLACED = {"replaced": 5, "hopeless": 3}
SMALL = [text for name, value in (SIZES | CYCLES | REPLACED).items() for text in (f"--{name}", str(value))]


def test_a_small_run_counts_right(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator decides every claim that waits, comes or goes, and the exit code says so."""
    code = scale.main(SMALL)
    told = capsys.readouterr().out

    assert code == 0, told
    assert "6 claims were waiting: 6 allocated" in told
    assert "60 claims, 55 allocated and 5 told why not" in told
    assert "5 nodes beside 3 claims that wait" in told


def test_a_device_held_twice_is_wrong() -> None:
    """It is told with both of its claims, and not again once one has given it back."""
    judge = Judge()
    device = ("driver", "pool", "gpu-0")
    judge.take("a", (device,))
    judge.take("b", (device,))
    assert judge.wrong == ["driver/pool/gpu-0 is held by a and b"]

    judge.give_back((device,))
    judge.take("c", (device,))
    assert len(judge.wrong) == 1


def test_a_wrong_count_is_told() -> None:
    """A figure that is not what it has to be is one of what was wrong."""
    measurement = scale.Measurement.__new__(scale.Measurement)
    measurement.wrong = []
    measurement.equal("claims gone", 3, 3)
    measurement.equal("claims gone", 2, 3)

    assert measurement.wrong == ["claims gone: 2, and not 3"]
