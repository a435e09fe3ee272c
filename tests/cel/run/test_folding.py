"""Folding: what constants become before there is a device."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.library.times import parse_duration
from dra_operator.cel.run.planner import plan
from dra_operator.cel.run.steps import Const, Invoke, MakeMap, Members
from dra_operator.cel.types.environment import STORED


@pytest.mark.parametrize(
    ("text", "value"),
    [("int('7')", 7), ("string(7)", "7"), ("double('0.5')", 0.5), ("bytes('a')", b"a"), ("dyn(1)", 1)],
)
def test_conversions_of_constants_are_carried_out(step, text, value):
    """A conversion of a constant is a constant."""
    made = step(text)

    assert isinstance(made, Const)
    assert (type(made.value), made.value) == (type(value), value)


def test_a_conversion_that_fails_does_so_before_there_is_a_device(check):
    """Also in a branch that no device would take."""
    with pytest.raises(CelError) as caught:
        plan(check("device.driver == 'a' || int('x') == 1"), STORED)

    assert caught.value.kind == "compile"
    assert caught.value.position == len("device.driver == 'a' || int")


def test_other_calls_of_constants_wait_for_the_evaluation(step):
    """Upstream folds conversions only."""
    assert isinstance(step("'a'.startsWith('a')"), Invoke)
    assert isinstance(step("1 + 1"), Invoke)


def test_membership_of_constants_is_a_set(step):
    """`in` over a list of primitive constants looks its left side up."""
    assert isinstance(step("device.driver in ['a', 'b']"), Members)


def test_membership_of_nothing_is_false_without_looking(step):
    """With an empty list the left side is not evaluated."""
    made = step("device.driver in []")

    assert isinstance(made, Const)
    assert made.value is False


def test_membership_of_lists_is_compared_one_by_one(step):
    """Elements that are no primitive values are not looked up."""
    assert isinstance(step("[device.driver] in [['a']]"), Invoke)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("dyn(device.attributes['dra.example.com'].index) in [dyn(3u)]", True),
        ("dyn(device.attributes['dra.example.com'].index) in [dyn(3.0)]", True),
        ("dyn(device.attributes['dra.example.com'].index) in [dyn(3.5), dyn('3')]", False),
        ("dyn(9223372036854775807) in [dyn(9223372036854775808u)]", False),
    ],
)
def test_numbers_of_other_types_are_found_if_they_are_the_same(evaluate, text, answer):
    """A set knows a number under each type that holds it without loss."""
    assert evaluate(text) is answer


def test_a_pattern_is_read_before_there_is_a_device(check):
    """A regular expression that does not parse is refused when it is constant."""
    with pytest.raises(CelError) as caught:
        plan(check("device.driver.matches('(')"), STORED)

    assert caught.value.kind == "compile"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("device.driver.matches('a')", True),
        ("'a'.findAll('a', 1)", True),
        ("'a'.find(device.driver)", False),
        ("device.driver.matches('a' + 'b')", False),
        ("'a'.matches(dyn(1))", False),
    ],
)
def test_a_pattern_is_known_if_it_is_written_as_one(step, text, known):
    """What is computed, or no text at all, shows at run time."""
    assert step(text).known_pattern is known


def test_a_map_that_fails_does_so_in_each_evaluation(step, evaluate):
    """A key that Go cannot hash ends the evaluation, and not the compilation."""
    assert isinstance(step("{dyn(b'a'): 1}"), MakeMap)
    with pytest.raises(CelError, match="hash of unhashable type"):
        evaluate("{dyn(b'a'): 1} == {}")


def test_a_duration_is_a_constant(step):
    """Times are conversions, too."""
    assert step("duration('90s')").value == parse_duration("90s")
