"""Planner: the steps that an expression becomes."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.run import steps as ir
from dra_operator.cel.run.planner import plan
from dra_operator.cel.types.environment import STORED
from dra_operator.cel.values.values import TypeValue


@pytest.fixture
def slots(check):
    """Return a function that says how many variables the plan of an expression has."""
    return lambda text: plan(check(text), STORED).slots


def test_a_chain_is_one_attribute(step):
    """Fields and indexes in a row are qualifiers of one root."""
    made = step("device.attributes['d'].model")

    assert isinstance(made, ir.Attribute)
    assert isinstance(made.root, ir.Variable)
    assert [qualifier.key for qualifier in made.qualifiers] == ["attributes", "d", "model"]


def test_presence_is_asked_of_the_last_qualifier(step):
    """`has` marks the last qualifier, and the attribute has the id of the test."""
    made = step("has(device.attributes['d'].model)")

    assert [qualifier.test_only for qualifier in made.qualifiers] == [False, False, True]
    assert made.test_id == made.qualifiers[-1].id


def test_what_follows_a_presence_test_has_a_root_of_its_own(step):
    """What is computed from a test does not go on along its path."""
    made = step("[has(device.attributes['d'].model)][0]")

    assert isinstance(made.root, ir.Operand)


def test_a_computed_index_is_a_step(step):
    """An index that is no constant is evaluated with the device."""
    made = step("device.attributes[device.driver]")

    assert isinstance(made.qualifiers[-1].step, ir.Attribute)
    assert not made.qualifiers[-1].fresh


def test_a_choice_is_an_attribute_of_two(step):
    """`?:` can be qualified further, so its branches are attributes."""
    made = step("device.driver == 'a' ? 1 : 2")

    assert isinstance(made.root, ir.Choice)
    assert (made.root.chosen.root.step.value, made.root.other.root.step.value) == (1, 2)


@pytest.mark.parametrize(("operator", "absorbing"), [("&&", False), ("||", True)])
def test_logic_knows_which_value_ends_it(step, operator, absorbing):
    """And is ended by false, or by true."""
    made = step(f"device.driver == 'a' {operator} device.driver == 'b'")

    assert isinstance(made, ir.Logic)
    assert made.absorbing is absorbing


def test_each_fold_has_variables_of_its_own(slots):
    """Before them are the device and the meter; a loop adds its accumulator and one or two more."""
    assert slots("1") == 2
    assert slots("[1].all(i, i == 1)") == 4
    assert slots("[1].all(i, v, i == v)") == 5
    assert slots("[1].all(i, [2].all(j, i == j))") == 6


def test_a_variable_hides_the_one_outside(step):
    """The innermost fold with that name is meant, and another name goes further out."""
    made = step("[1].all(i, [2].all(i, i == 2))")
    inner = next(part for part in made.step.terms if isinstance(part, ir.Fold))
    asked = next(part for part in inner.step.terms if not isinstance(part, ir.Attribute))

    assert asked.arguments[0].root.slot == inner.first != made.first


def test_a_call_knows_its_overload_if_there_is_one(step):
    """With types that are known one overload is left; with dyn several are."""
    assert step("device.driver.startsWith('a')").overload == "starts_with_string"
    assert step("dyn(device.driver) + dyn(device.driver)").overload == ""


def test_a_list_of_what_is_not_constant_is_made_each_time(step):
    """Only a list of constants is a constant."""
    assert isinstance(step("[device.driver]"), ir.MakeList)
    assert isinstance(step("['a']"), ir.Const)


@pytest.mark.parametrize(
    ("index", "named"),
    [("b'a'", "types.Bytes"), ("dyn([1])", "*types.baseList"), ("dyn(duration('1s'))", "types.Duration")],
)
def test_an_index_that_no_map_can_have_is_refused(check, index, named):
    """A constant that is no key is refused before there is a device, at its place."""
    with pytest.raises(CelError) as caught:
        plan(check(f"dyn(device)[{index}]"), STORED)

    assert caught.value.message == f"invalid qualifier type: {named}"
    assert caught.value.position == len("dyn(device)")


def test_a_plain_call_keeps_its_arguments(step):
    """What is no operator is an invocation with its target first."""
    made = step("device.driver.replace('a', 'b')")

    assert isinstance(made, ir.Invoke)
    assert [type(argument) for argument in made.arguments] == [ir.Attribute, ir.Const, ir.Const]


@pytest.mark.parametrize("name", ["int", "type", "map", "net.IP", "google.protobuf.Duration"])
def test_the_name_of_a_type_is_a_constant(step, name):
    """Its value is the type of that name."""
    assert step(name).value == TypeValue(name)


@pytest.mark.parametrize(
    "name", ["google.protobuf.Int64Value", "google.protobuf.Any", "kubernetes.DRADevice"]
)
@pytest.mark.parametrize("dot", ["", "."])
def test_a_type_that_no_value_has_is_undefined(check, name, dot):
    """The checker knows the device and the messages that become something else; the evaluation does not."""
    with pytest.raises(CelError, match=f"reference to undefined type: {name}") as caught:
        plan(check(dot + name), STORED)

    assert caught.value.kind == "compile"
