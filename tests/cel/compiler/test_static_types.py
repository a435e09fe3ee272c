"""Certainty: what a type of the checker is worth at run time."""

import pytest

from dra_operator.cel import STORED
from dra_operator.cel.compiler.static_types import certain_type, type_of_elements
from dra_operator.cel.planner import plan
from dra_operator.cel.types import BOOL, DYN, INT, STRING


@pytest.fixture
def certain(check):
    """Return a function that says which type the value of an expression is certain to have."""

    def found(text):
        tree = check(text)
        return certain_type(plan(tree, STORED).step, tree.types, {}, {}, {})

    return found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", INT),
        ("'a'", STRING),
        ("1 + 2 * 3", INT),
        ("device.driver", STRING),
        ("device.driver == 'a'", BOOL),
        ("true && device.driver == 'a'", BOOL),
        ("has(device.driver)", BOOL),
        ("cel.bind(a, 1, a == 1)", BOOL),
        ("size(device.driver)", INT),
        ("[dyn(1), true].indexOf(true)", INT),
        ("sets.contains([dyn(1)], [true])", BOOL),
    ],
)
def test_what_no_value_can_change_is_certain(certain, text, kind):
    """Constants, answers of operators, fields of the device, and functions that give one type."""
    assert certain(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "dyn([3]).last().orValue(true)",
        "[1].first().value()",
        "[1, 2].max()",
        "optional.of(1)",
        "device.attributes['a'].b",
        "dyn([1])[0] + 1",
        "optional.of(1).orValue(2)",
        "device.driver == 'a' ? dyn([1])[0] : 2",
    ],
)
def test_what_dyn_can_stand_behind_is_not(certain, text):
    """The checker has a type for some of these, and the value may be of another."""
    assert certain(text) is DYN


def test_a_long_sum_is_looked_through_once(check):
    """A type is remembered for each sum in it: two hundred of them take no more than two hundred looks."""
    tree = check("+".join(["1"] * 200))
    known = {}
    whole = plan(tree, STORED).step

    assert certain_type(whole, tree.types, {}, {}, known) == INT
    assert len(known) <= 200
    assert certain_type(whole.arguments[0], tree.types, {}, {}, known) == INT
    assert len(known) <= 200


@pytest.mark.parametrize(
    ("elements", "kind"), [((1, 2), INT), (("a",), STRING), ((True, 1), DYN), ((1.0, 2.0), DYN), ((), DYN)]
)
def test_elements_are_certain_where_all_are_of_one_plain_type(elements, kind):
    """Python holds a bool for a number, so a list of both is not one of numbers."""
    assert type_of_elements(elements) == kind
