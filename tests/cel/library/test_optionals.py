"""Optional values."""

import pytest

from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values.values import NONE, CelMap, Duration, Optional_, Timestamp, Uint


@pytest.mark.parametrize(
    "zero",
    [None, False, 0, Uint(0), 0.0, "", b"", (), CelMap(), Duration(0), Timestamp(-62135596800 * 10**9)],
)
def test_the_zero_of_a_type_is_none(call, zero):
    """`optional.ofNonZeroValue` drops what is zero for Go."""
    assert call("optional_ofNonZeroValue", zero) is NONE


@pytest.mark.parametrize(
    "value", [True, 1, "a", (0,), CelMap([("a", 1)]), Timestamp(0), parse_quantity("0"), NONE]
)
def test_other_values_stay(call, value):
    """The first moment of 1970 is no zero of Go, and values of Kubernetes' types have none."""
    assert call("optional_ofNonZeroValue", value).value is value


def test_a_value_is_taken_out(call, error):
    """`value` and `hasValue` look whether there is one."""
    some = Optional_(1)

    assert call("optional_value", some) == 1
    assert call("optional_hasValue", some)
    assert not call("optional_hasValue", NONE)
    assert error("optional_value", NONE) == "optional.none() dereference"


def test_lists_give_their_ends_and_drop_what_is_none(call, error):
    """`first`, `last` and `unwrap`."""
    assert call("list_first", (1, 2)).value == 1
    assert call("list_last", (1, 2)).value == 2
    assert call("list_first", ()) is NONE
    assert call("optional_unwrapOpt", (Optional_(1), NONE, Optional_(None))) == (1, None)
    assert error("optional_unwrap", (1,)) == "value 1 is not optional"
