"""Quantities in expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import parse_quantity as parse_amount
from dra_operator.cel.errors import Abort
from dra_operator.cel.library.quantities import parse_quantity

texts = st.from_regex(
    r"[+-]?[0-9]{1,22}(\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?", fullmatch=True
)


@given(texts)
def test_both_readers_agree_on_the_amount(text):
    """An expression reads the amount that a slice publishes."""
    assert parse_quantity(text).nano == parse_amount(text).nano


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("200K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1i5", "unable to parse quantity's suffix"),
        ("10Mo", "quantities must match the regular expression"),
        ("", "quantities must match the regular expression"),
        (" 1", "quantities must match the regular expression"),
        ("1KI", "quantities must match the regular expression"),
        ("-Pi", "unable to parse numeric part of quantity"),
    ],
)
def test_the_error_says_whether_the_suffix_or_the_form_is_wrong(error, text, message):
    """There are two complaints about a text that is no quantity."""
    assert error("string_to_quantity", text).startswith(message)


def test_huge_exponents_are_bounded():
    """Up to 1e100000 amounts are exact; beyond, the evaluation ends instead of computing for minutes."""
    assert str(parse_quantity("1e100000")) == "10e99999"
    with pytest.raises(Abort):
        parse_quantity("1e100001")
