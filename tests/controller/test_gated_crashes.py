"""Gated pods under random interleavings: late and lost writes, watches that lag, operators that are killed."""

import pytest

from gatefuzz import run_case

CASES = 120
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_no_interleaving_gives_a_device_twice_or_lets_a_pod_go_too_soon(part):
    """No device has two holders, no gate is off before all that its gang needs is stored, nothing is left behind."""
    for number in range(part, CASES, PARTS):
        run_case(f"suite {number}", has_gangs=number % (2 * PARTS) < PARTS)
