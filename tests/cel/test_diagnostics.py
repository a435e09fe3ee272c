"""Diagnostics: errors with their place and with advice."""

import pytest

from dra_operator.cel import CelError, compile_selector
from dra_operator.cel.diagnostics import ADVICE, advice, caret, describe


def error_of(text, device=None) -> CelError:
    """Return the error of an expression, or of its evaluation on a device."""
    try:
        answer = compile_selector(text).match(device)
    except CelError as error:
        return error
    return pytest.fail(f"{text} gives {answer}")


def test_a_caret_stands_under_the_place():
    """Line and column are those of characters, whatever bytes stand before them."""
    text = "'é' == device.driver &&\n  device.nope == 1"

    assert caret(text, error_of(text)) == "2:9: undefined field 'nope'\n |   device.nope == 1\n | ........^"


def test_the_position_counts_bytes():
    """An error's position is an offset into the encoded text."""
    text = "'é' == device.drivr"

    assert error_of(text).position == len("'é' == device".encode())


def test_a_failed_evaluation_has_a_place(device):
    """The step that failed says where it stands."""
    text = "device.driver == 'x' || device.attributes['dra.example.com'].modle == 'h100'"

    assert error_of(text, device).position == text.index(".modle")


def test_the_attribute_that_was_meant_is_named(device):
    """A missing key is answered with the names there are, the closest one first."""
    error = error_of("device.attributes['dra.example.com'].modle == 'h100'", device)

    names = "model, node, index, memory, links, healthy, version"
    assert advice(error, device) == f"this device has {names}; {ADVICE}"


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("attributes['other.example.com'].model", 'attributes["dra.example.com"].model'),
        ("capacity['dra.example.com'].model", 'attributes["dra.example.com"].model'),
    ],
    ids=["under another domain", "in the other table"],
)
def test_a_name_that_stands_elsewhere_is_shown_where_it_stands(device, path, there):
    """The name may be right where its domain or its table is wrong."""
    error = error_of(f"device.{path} == device.{path}", device)

    assert advice(error, device) == f"this device has {there}; {ADVICE}"


def test_without_a_close_name_those_there_are_named(device):
    """Where nothing is close, the names of the device are listed."""
    error = error_of("device.attributes['dra.example.com'].zzz == 'h100'", device)

    assert advice(error, device).startswith(
        "this device has healthy, index, links, memory, model, node, version;"
    )


@pytest.mark.parametrize(
    ("text", "meant"), [("sise([1]) == 1", "size"), ("device.drivr == ''", "driver"), ("qqqqqq(1)", None)]
)
def test_the_function_or_field_that_was_meant_is_named(text, meant):
    """A name that is close to a known one is suggested."""
    assert advice(error_of(text)) == (f'did you mean "{meant}"?' if meant else "")


def test_an_error_is_described_in_one_line(device):
    """A clause about the selector: what is wrong, where, and what to do."""
    texts = ["device.driver.matchs('x')", "device.driver ==\n  'x' and true"]

    assert [describe(text, error_of(text)) for text in texts] == [
        'does not compile at column 21: no such function "matchs"; did you mean "matches"?',
        'does not compile at line 2, column 7: "and" is not expected here; write &&',
    ]
