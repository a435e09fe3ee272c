"""Wording: what is wrong with an expression, in its own words."""

import pytest

from dra_operator.cel import STORED_137, CelError, compile_selector
from dra_operator.cel.errors import compile_error
from dra_operator.cel.wording import compile_text

Q = "device.capacity['d'].memory"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.driver.matchs('x')", 'no such function "matchs"; did you mean "matches"?'),
        ("[1].exist(1)", 'no such function "exist"; did you mean "exists"?'),
        ("devices.driver == 'x'", 'no such name "devices"; did you mean "device"?'),
        ("driver == 'x'", 'no such name "driver"; did you mean device.driver?'),
        ("xyz == 'x'", 'no such name "xyz"; the only variable is device'),
        ("device.drivr == 'x'", 'device has no field "drivr"; did you mean "driver"?'),
        (
            "device.zzz == 'x'",
            'device has no field "zzz"; it has driver, attributes, capacity, allowMultipleAllocations',
        ),
        ("device.driver == 1", "== cannot be applied to string and int"),
        ("!device.driver", "! cannot be applied to string"),
        ("1 in 2", "in cannot be applied to int and int"),
        (
            f"{Q} >= {Q}",
            ">= cannot be applied to Quantity and Quantity; compare quantities by a.compareTo(b) >= 0",
        ),
        (f"{Q} == '1'", '== cannot be applied to Quantity and string; write a quantity as quantity("10Gi")'),
        (
            f"{Q}.isGreaterThan('1')",
            "isGreaterThan() of Quantity does not take string; wrap the text in quantity(...)",
        ),
        ("isQuantity()", "isQuantity() does not take no arguments"),
        ("1 + 1", "must be a bool, not int"),
        ("true &&", "the expression ends too early"),
        ("device.driver = 'x'", '"=" is not expected here; compare with =='),
        ("true;", '";" is not expected here; a selector is one expression, without a semicolon'),
        ("true is true", '"is" is not expected here'),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_expression(expression, text):
    """With what was probably meant, or what to write instead."""
    with pytest.raises(CelError) as caught:
        compile_selector(expression)

    assert compile_text(caught.value, expression, STORED_137) == text


def test_what_has_no_other_words_is_left_as_it_is():
    """Upstream's text is better than none."""
    assert compile_text(compile_error("something new"), "x", STORED_137) == "something new"
