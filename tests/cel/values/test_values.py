"""Values: types, keys, equality and order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.semver import parse_semver
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.network import parse_cidr, parse_ip
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values import values

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(values.Uint),
    st.floats(allow_nan=False),
    st.integers(-3, 3),
    st.integers(0, 3).map(values.Uint),
    st.integers(-3, 3).map(float),
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (1, "int"),
        (values.Uint(1), "uint"),
        (1.0, "double"),
        (None, "null_type"),
        ((), "list"),
        (values.CelMap(), "map"),
        (values.NONE, "optional_type"),
        (parse_quantity("1"), "kubernetes.Quantity"),
        (parse_semver("1.0.0"), "kubernetes.Semver"),
        (parse_ip("::1"), "net.IP"),
        (values.TypeValue("int"), "type"),
    ],
)
def test_a_value_knows_its_type(value, name):
    """A truth value is no int, and a uint is none either."""
    assert values.type_name(value) == name


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (1, values.Uint(1), True),
        (1, True, False),
        (1, "1", False),
        (2**53 + 1, 2.0**53, True),
        (float("nan"), float("nan"), False),
        ((1, 2), (1.0, values.Uint(2)), True),
        ((1,), (1, 2), False),
        (None, None, True),
        (None, 0, False),
        (b"a", "a", False),
        (values.Duration(1), values.Duration(1), True),
        (values.Timestamp(1, 0), values.Timestamp(1, 3600), True),
        (values.NONE, values.Optional_(1), False),
        (values.Optional_(1), values.Optional_(1.0), True),
        (values.TypeValue("int"), values.TypeValue("int"), True),
        (parse_quantity("1Ki"), parse_quantity("1024"), True),
        (parse_semver("1.0.0+a"), parse_semver("1.0.0"), True),
        (1, parse_quantity("1"), False),
        ((parse_semver("1.0.0"),), (True,), True),
    ],
)
def test_equality_crosses_numeric_types_alone(left, right, expected):
    """Numbers are equal across types, doubles as doubles; what cannot be compared inside a list does not count."""
    assert values.cel_equal(left, right) is expected


@pytest.mark.parametrize(
    "custom", [parse_quantity("1"), parse_semver("1.0.0"), parse_ip("::1"), parse_cidr("::/0")]
)
def test_a_kubernetes_type_on_the_left_refuses_others(custom):
    """The comparison is an error; with the sides swapped it is false."""
    with pytest.raises(CelError, match="no such overload"):
        values.cel_equal(custom, 1)
    assert values.cel_equal(1, custom) is False


@given(numbers, numbers)
def test_the_order_of_numbers_goes_with_equality(left, right):
    """Two numbers compare as 0 exactly if they are equal, and swapping them turns the sign."""
    assert (values.cel_compare(left, right) == 0) is values.cel_equal(left, right)
    assert values.cel_compare(left, right) == -values.cel_compare(right, left)


@pytest.mark.parametrize(
    ("left", "right"), [(1, "a"), (None, None), ((), ()), (True, 1), (parse_quantity("1"),) * 2]
)
def test_what_has_no_order_cannot_be_compared(left, right):
    """Only numbers, texts, bytes, truth values and times have an order."""
    with pytest.raises(CelError, match="no such overload"):
        values.cel_compare(left, right)


def test_nan_has_no_order():
    """Comparing with NaN says so."""
    with pytest.raises(CelError, match="NaN values cannot be ordered"):
        values.cel_compare(1.0, float("nan"))


def test_a_map_finds_equal_numbers_and_nothing_else():
    """A number of another type finds the entry, if there is none of its own; True does not find 1."""
    found = values.CelMap([(1, "int"), (True, "bool"), (None, "null")])

    assert [found.find(key) for key in (1, values.Uint(1), 1.0, True, None)] == [
        "int",
        "int",
        "int",
        "bool",
        "null",
    ]
    assert [found.find(key) for key in (0, 1.5, False, "1", float("nan"))] == [values.MISSING] * 5
    assert list(found) == [1, True, None]


def test_a_later_entry_replaces_an_earlier_one():
    """A map made of entries with one key twice has the last value."""
    assert dict(values.CelMap([("a", 1), ("b", 2), ("a", 3)]).items()) == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("a", "a"),
        (values.TypeValue("int"), "int"),
        (values.Optional_("a"), "a"),
        (values.Optional_(values.Optional_(values.TypeValue("int"))), "int"),
        (values.NONE, values.NONE),
        (values.Optional_(values.NONE), values.NONE),
        ((1,), (1,)),
    ],
)
def test_go_holds_a_type_as_its_name_and_an_optional_value_as_what_is_in_it(value, content):
    """Everything else is held as itself, and nothing as nothing."""
    assert values.held(value) == content


def test_a_type_is_one_key_wherever_it_is_asked_for():
    """There is each type once, as in Go."""
    found = values.CelMap([(values.TypeValue("int"), 1), (values.TypeValue("string"), 2)])

    assert found.find(values.TypeValue("int")) == 1
    assert found.find(values.TypeValue("bool")) is values.MISSING
