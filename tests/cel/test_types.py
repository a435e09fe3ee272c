"""Types: reading, writing and assigning them."""

import pytest

from dra_operator.cel.types import (
    ANY,
    BOOL,
    DYN,
    INT,
    STRING,
    is_assignable,
    is_equivalent,
    list_of,
    map_of,
    parameter,
    read_type,
)
from dra_operator.cel.unify import assign, settled, substituted


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
    assert str(read_type(text)) == text


def test_everything_may_stand_for_dyn():
    """Dyn and any take every type; int takes only int."""
    assert is_assignable(DYN, INT)
    assert is_assignable(ANY, list_of(INT))
    assert not is_assignable(INT, STRING)


def test_parameters_are_equivalent_whatever_their_names():
    """Names of type parameters do not tell types apart."""
    assert is_equivalent(list_of(parameter("A")), list_of(parameter("B")))


def test_a_parameter_stands_for_one_type():
    """Once a parameter is bound, another type does not fit."""
    mapping = assign({}, [INT], [parameter("A")])

    assert mapping is not None
    assert substituted(mapping, list_of(parameter("A"))) == list_of(INT)
    assert assign(mapping, [STRING], [parameter("A")]) is None


def test_a_parameter_cannot_contain_itself():
    """`A = list(A)` has no solution."""
    assert assign({}, [list_of(parameter("A"))], [parameter("A")]) is None


def test_a_failed_assignment_leaves_no_trace():
    """Trying a type that does not fit binds nothing."""
    mapping: dict = {}

    assert assign(mapping, [map_of(parameter("K"), INT)], [map_of(STRING, BOOL)]) is None
    assert mapping == {}


def test_open_parameters_settle_as_dyn():
    """What nothing was learned about is dyn."""
    assert settled({}, list_of(parameter("A"))) == list_of(DYN)
