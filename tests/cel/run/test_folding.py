"""Folding: what constants become before there is a device."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.run.planner import plan
from dra_operator.cel.types.environment import STORED


def test_a_conversion_that_fails_does_so_before_there_is_a_device(check):
    """Also in a branch that no device would take."""
    with pytest.raises(CelError) as caught:
        plan(check("device.driver == 'a' || int('x') == 1"), STORED)

    assert caught.value.kind == "compile"
    assert caught.value.position == len("device.driver == 'a' || int")


def test_a_pattern_is_read_before_there_is_a_device(check):
    """A regular expression that does not parse is refused when it is constant."""
    with pytest.raises(CelError) as caught:
        plan(check("device.driver.matches('(')"), STORED)

    assert caught.value.kind == "compile"
