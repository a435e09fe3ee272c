"""Plan: attributes that grow, and the parts that steps are made of."""

from typing import get_args

import pytest

from dra_operator.cel.interpretable import (
    Attribute,
    Choice,
    Const,
    Equality,
    Fold,
    Invoke,
    Logic,
    MakeList,
    MakeMap,
    MakeMessage,
    Members,
    Operand,
    Otherwise,
    Qualifier,
    Step,
    Variable,
    parts_of,
)

A, B, C, D, E = (Const(number, number) for number in range(5))
DEVICE = Variable(9, "device", 0)
STEPS = [
    (A, []),
    (Attribute(DEVICE, [Qualifier(10, "driver"), Qualifier(11, step=A)]), [A]),
    (Attribute(Operand(10, A), [Qualifier(11, step=B)]), [B, A]),
    (Logic(10, False, (A, B)), [A, B]),
    (Equality(10, False, (A, B)), [A, B]),
    (Invoke(10, None, "", (A, B, C)), [A, B, C]),
    (Members(10, A, frozenset()), [A]),
    (Otherwise(10, False, A, B), [A, B]),
    (MakeList(10, (A, B), frozenset()), [A, B]),
    (MakeMap(10, ((A, B, False), (C, D, True))), [A, B, C, D]),
    (MakeMessage(10, "m", (("a", A, False), ("b", B, True))), [A, B]),
    (Fold(10, A, 1, 2, None, B, C, D, E), [A, B, C, D, E]),
]


@pytest.mark.parametrize(("step", "parts"), STEPS, ids=[type(step).__name__ for step, _ in STEPS])
def test_the_parts_of_a_step_are_the_steps_in_it(step, parts):
    """All of them, and nothing else."""
    assert list(parts_of(step)) == parts


def test_no_kind_of_step_is_left_out():
    """Each kind of step is in the list above."""
    assert {type(step) for step, _ in STEPS} == set(get_args(Step))


def test_a_choice_is_made_of_its_condition_and_both_attributes():
    """Either may be what is evaluated."""
    chosen, other = Attribute(Variable(1, "a", 1)), Attribute(Variable(2, "b", 2))

    assert list(parts_of(Attribute(Choice(3, A, chosen, other)))) == [A, chosen, other]


def test_a_step_along_a_choice_is_one_along_both():
    """`(a ? b : c).d` is `a ? b.d : c.d`."""
    chosen, other = Attribute(Variable(1, "a", 1)), Attribute(Variable(2, "b", 2))
    step = Qualifier(4, "d")
    Attribute(Choice(3, A, chosen, other)).qualify(step)

    assert chosen.qualifiers == other.qualifiers == [step]


def test_the_id_of_an_attribute_is_that_of_its_last_step():
    """Where the root is all there is, it is the root's; a presence test has its own."""
    attribute = Attribute(DEVICE)
    assert attribute.id == DEVICE.id

    attribute.qualify(Qualifier(12, "driver"))
    assert attribute.id == 12

    attribute.test_id = 13
    assert (attribute.id, attribute.inner_id) == (13, 12)
