"""Values: types, keys, equality and order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.semver import parse_semver
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.network import parse_cidr, parse_ip
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values import (
    MISSING,
    NONE,
    CelMap,
    Duration,
    Optional_,
    Timestamp,
    TypeValue,
    Uint,
    cel_compare,
    cel_equal,
    held,
    type_name,
)

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(Uint),
    st.floats(allow_nan=False),
    st.integers(-3, 3),
    st.integers(0, 3).map(Uint),
    st.integers(-3, 3).map(float),
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (1, "int"),
        (Uint(1), "uint"),
        (1.0, "double"),
        (None, "null_type"),
        ((), "list"),
        (CelMap(), "map"),
        (NONE, "optional_type"),
        (parse_quantity("1"), "kubernetes.Quantity"),
        (parse_semver("1.0.0"), "kubernetes.Semver"),
        (parse_ip("::1"), "net.IP"),
        (TypeValue("int"), "type"),
    ],
)
def test_a_value_knows_its_type(value, name):
    """A truth value is no int, and a uint is none either."""
    assert type_name(value) == name


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (1, Uint(1), True),
        (1, True, False),
        (1, "1", False),
        (2**53 + 1, 2.0**53, True),
        (float("nan"), float("nan"), False),
        ((1, 2), (1.0, Uint(2)), True),
        ((1,), (1, 2), False),
        (None, None, True),
        (None, 0, False),
        (b"a", "a", False),
        (Duration(1), Duration(1), True),
        (Timestamp(1, 0), Timestamp(1, 3600), True),
        (NONE, Optional_(1), False),
        (Optional_(1), Optional_(1.0), True),
        (TypeValue("int"), TypeValue("int"), True),
        (parse_quantity("1Ki"), parse_quantity("1024"), True),
        (parse_semver("1.0.0+a"), parse_semver("1.0.0"), True),
        (1, parse_quantity("1"), False),
        ((parse_semver("1.0.0"),), (True,), True),
    ],
)
def test_equality_crosses_numeric_types_alone(left, right, expected):
    """Numbers are equal across types, doubles as doubles; what cannot be compared inside a list does not count."""
    assert cel_equal(left, right) is expected


@pytest.mark.parametrize(
    "custom", [parse_quantity("1"), parse_semver("1.0.0"), parse_ip("::1"), parse_cidr("::/0")]
)
def test_a_kubernetes_type_on_the_left_refuses_others(custom):
    """The comparison is an error; with the sides swapped it is false."""
    with pytest.raises(CelError, match="no such overload"):
        cel_equal(custom, 1)
    assert cel_equal(1, custom) is False


@given(numbers, numbers)
def test_the_order_of_numbers_goes_with_equality(left, right):
    """Two numbers compare as 0 exactly if they are equal, and swapping them turns the sign."""
    assert (cel_compare(left, right) == 0) is cel_equal(left, right)
    assert cel_compare(left, right) == -cel_compare(right, left)


@pytest.mark.parametrize(
    ("left", "right"), [(1, "a"), (None, None), ((), ()), (True, 1), (parse_quantity("1"),) * 2]
)
def test_what_has_no_order_cannot_be_compared(left, right):
    """Only numbers, texts, bytes, truth values and times have an order."""
    with pytest.raises(CelError, match="no such overload"):
        cel_compare(left, right)


def test_nan_has_no_order():
    """Comparing with NaN says so."""
    with pytest.raises(CelError, match="NaN values cannot be ordered"):
        cel_compare(1.0, float("nan"))


def test_a_map_finds_equal_numbers_and_nothing_else():
    """A number of another type finds the entry, if there is none of its own; True does not find 1."""
    found = CelMap([(1, "int"), (True, "bool"), (None, "null")])

    assert [found.find(key) for key in (1, Uint(1), 1.0, True, None)] == ["int", "int", "int", "bool", "null"]
    assert [found.find(key) for key in (0, 1.5, False, "1", float("nan"))] == [MISSING] * 5
    assert list(found) == [1, True, None]


def test_a_later_entry_replaces_an_earlier_one():
    """A map made of entries with one key twice has the last value."""
    assert dict(CelMap([("a", 1), ("b", 2), ("a", 3)]).items()) == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("a", "a"),
        (TypeValue("int"), "int"),
        (Optional_("a"), "a"),
        (Optional_(Optional_(TypeValue("int"))), "int"),
        (NONE, NONE),
        (Optional_(NONE), NONE),
        ((1,), (1,)),
    ],
)
def test_go_holds_a_type_as_its_name_and_an_optional_value_as_what_is_in_it(value, content):
    """Everything else is held as itself, and nothing as nothing."""
    assert held(value) == content


def test_a_type_is_one_key_wherever_it_is_asked_for():
    """There is each type once, as in Go."""
    found = CelMap([(TypeValue("int"), 1), (TypeValue("string"), 2)])

    assert found.find(TypeValue("int")) == 1
    assert found.find(TypeValue("bool")) is MISSING
