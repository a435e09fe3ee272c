"""Meter: upstream's stack of observed values, the two limits, and what each step is charged."""

import pytest

from dra_operator.cel import CelError
from dra_operator.cel import interpretable as ir
from dra_operator.cel.costs.call_costs import LIST_COST
from dra_operator.cel.costs.meter import Meter


@pytest.fixture
def meter():
    """Return a meter with the limits of a selector."""
    return Meter()


def observed(meter, *values):
    """Observe constants with the ids 1, 2, ... and return their steps."""
    steps = tuple(ir.Const(number, value) for number, value in enumerate(values, 1))
    for step in steps:
        meter.observe(step, step.value)
    return steps


def test_constants_cost_nothing(meter):
    """What is known before the evaluation is free."""
    observed(meter, 1, "a", (1, 2))

    assert meter.cost == 0


def test_a_list_is_charged_once_its_elements_are_there(meter):
    """Ten for the list, whatever is in it."""
    elements = observed(meter, 1, 2)
    meter.observe(ir.MakeList(9, elements, frozenset()), (1, 2))

    assert meter.cost == LIST_COST


def test_a_call_is_charged_if_all_its_arguments_are_on_the_stack(meter):
    """One that was not evaluated leaves the call without a charge."""
    left, right = observed(meter, 1, 2)
    meter.observe(ir.Equality(8, False, (left, ir.Const(7, 3))), False)
    assert meter.cost == 0

    meter.observe(ir.Equality(9, False, (left, right)), False)
    assert meter.cost == 1


def test_each_step_along_an_attribute_costs_one_and_so_does_the_attribute(meter):
    """`device.driver` is two."""
    driver = ir.Qualifier(2, "driver")
    meter.observe_qualifier(driver, "a")
    meter.observe(ir.Attribute(ir.Variable(1, "device", 0), [driver]), "a")

    assert meter.cost == 2


def test_the_cost_ends_an_evaluation():
    """One unit above the limit is too much."""
    meter = Meter(limit=LIST_COST - 1)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        meter.observe(ir.MakeList(9, (), frozenset()), ())
    assert meter.steps <= meter.most_steps


def test_steps_end_an_evaluation_that_costs_nothing():
    """The interpreter takes so many steps and no more."""
    meter = Meter(most_steps=2)
    observed(meter, 1, 2)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        meter.observe(ir.Const(3, 3), 3)
    assert meter.cost == 0


def test_what_is_going_to_take_long_is_not_begun():
    """The steps of a call count before it is made."""
    meter = Meter(most_steps=100)
    meter.count(100)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        meter.count(1)
