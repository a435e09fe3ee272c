"""Literals: numbers within 64 bits, strings with the escapes of the language."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax import parser
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.environment import STORED


@pytest.mark.parametrize(
    "text", ["18446744073709551616u", "1e999", "-9223372036854775809", "0xffffffffffffffff"]
)
def test_numbers_out_of_range_are_refused(text):
    """A number that 64 bits cannot hold is an error of the expression."""
    with pytest.raises(CelError, match="invalid"):
        parse(text, STORED)


def test_a_very_long_number_is_refused_quickly():
    """Digits by the thousand never become a number of Python."""
    with pytest.raises(CelError, match="invalid int literal"):
        parser.integer("9" * 9000, 0)
