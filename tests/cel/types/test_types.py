"""Types: reading, writing and assigning them."""

import pytest

from dra_operator.cel.types import types
from dra_operator.cel.types.types import assign, settled, substituted


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "list(<A>)",
        "map(string, list(dyn))",
        "optional_type(map(<K>, <V>))",
        "kubernetes.Quantity",
        "type(int)",
        "net.IP",
    ],
)
def test_a_type_reads_as_it_is_written(text):
    """The text of a declaration is the text of the type."""
    assert str(types.read_type(text)) == text


def test_everything_may_stand_for_dyn():
    """Dyn and any take every type; int takes only int."""
    assert types.is_assignable(types.DYN, types.INT)
    assert types.is_assignable(types.ANY, types.list_of(types.INT))
    assert not types.is_assignable(types.INT, types.STRING)


def test_parameters_are_equivalent_whatever_their_names():
    """Names of type parameters do not tell types apart."""
    assert types.is_equivalent(types.list_of(types.parameter("A")), types.list_of(types.parameter("B")))


def test_a_parameter_stands_for_one_type():
    """Once a parameter is bound, another type does not fit."""
    mapping = assign({}, [types.INT], [types.parameter("A")])

    assert mapping is not None
    assert substituted(mapping, types.list_of(types.parameter("A"))) == types.list_of(types.INT)
    assert assign(mapping, [types.STRING], [types.parameter("A")]) is None


def test_a_parameter_cannot_contain_itself():
    """`A = list(A)` has no solution."""
    assert assign({}, [types.list_of(types.parameter("A"))], [types.parameter("A")]) is None


def test_a_failed_assignment_leaves_no_trace():
    """Trying a type that does not fit binds nothing."""
    mapping: dict = {}

    assert (
        assign(
            mapping, [types.map_of(types.parameter("K"), types.INT)], [types.map_of(types.STRING, types.BOOL)]
        )
        is None
    )
    assert mapping == {}


def test_open_parameters_settle_as_dyn():
    """What nothing was learned about is dyn."""
    assert settled({}, types.list_of(types.parameter("A"))) == types.list_of(types.DYN)
