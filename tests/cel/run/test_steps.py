"""Plan: attributes that grow, and the parts that steps are made of."""

from typing import get_args

import pytest

from dra_operator.cel.run import steps as ir

A, B, C, D, E = (ir.Const(number, number) for number in range(5))
DEVICE = ir.Variable(9, "device", 0)
STEPS = [
    (A, []),
    (ir.Attribute(DEVICE, [ir.Qualifier(10, "driver"), ir.Qualifier(11, step=A)]), [A]),
    (ir.Attribute(ir.Operand(10, A), [ir.Qualifier(11, step=B)]), [B, A]),
    (ir.Logic(10, False, (A, B)), [A, B]),
    (ir.Equality(10, False, (A, B)), [A, B]),
    (ir.Invoke(10, None, "", (A, B, C)), [A, B, C]),
    (ir.Members(10, A, frozenset()), [A]),
    (ir.Otherwise(10, False, A, B), [A, B]),
    (ir.MakeList(10, (A, B), frozenset()), [A, B]),
    (ir.MakeMap(10, ((A, B, False), (C, D, True))), [A, B, C, D]),
    (ir.MakeMessage(10, "m", (("a", A, False), ("b", B, True))), [A, B]),
    (ir.Fold(10, A, 1, 2, None, B, C, D, E), [A, B, C, D, E]),
]


@pytest.mark.parametrize(("step", "parts"), STEPS, ids=[type(step).__name__ for step, _ in STEPS])
def test_the_parts_of_a_step_are_the_steps_in_it(step, parts):
    """All of them, and nothing else."""
    assert list(ir.parts_of(step)) == parts


def test_no_kind_of_step_is_left_out():
    """Each kind of step is in the list above."""
    assert {type(step) for step, _ in STEPS} == set(get_args(ir.Step))


def test_a_choice_is_made_of_its_condition_and_both_attributes():
    """Either may be what is evaluated."""
    chosen, other = ir.Attribute(ir.Variable(1, "a", 1)), ir.Attribute(ir.Variable(2, "b", 2))

    assert list(ir.parts_of(ir.Attribute(ir.Choice(3, A, chosen, other)))) == [A, chosen, other]


def test_a_step_along_a_choice_is_one_along_both():
    """`(a ? b : c).d` is `a ? b.d : c.d`."""
    chosen, other = ir.Attribute(ir.Variable(1, "a", 1)), ir.Attribute(ir.Variable(2, "b", 2))
    step = ir.Qualifier(4, "d")
    ir.Attribute(ir.Choice(3, A, chosen, other)).qualify(step)

    assert chosen.qualifiers == other.qualifiers == [step]


def test_the_id_of_an_attribute_is_that_of_its_last_step():
    """Where the root is all there is, it is the root's; a presence test has its own."""
    attribute = ir.Attribute(DEVICE)
    assert attribute.id == DEVICE.id

    attribute.qualify(ir.Qualifier(12, "driver"))
    assert attribute.id == 12

    attribute.test_id = 13
    assert (attribute.id, attribute.inner_id) == (13, 12)
