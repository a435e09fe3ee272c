"""Diagnostics: errors with their place and with advice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.advice import ADVICE, caret, columns, describe, place_of, printable
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector


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
    position = error_of(text).position

    assert caret(text, position, "wrong") == "2:9: wrong\n |   device.nope == 1\n | ........^"


@pytest.mark.parametrize("text", ['"\udcff" + 1', "'\ud800' == device.drivr", "\udcff"])
def test_what_is_no_unicode_has_a_place_too(text):
    """An argument that is not UTF-8 comes as halves of surrogate pairs, which no stream takes."""
    error = error_of(text)
    shown = caret(text, error.position, error.message)

    assert all(line.isprintable() for line in shown.split("\n"))
    assert describe(text, error).encode()


@given(st.text(max_size=400), st.integers(0, 1600), st.integers(20, 120))
def test_a_place_fits_into_its_width(text, position, width):
    """The line is cut around the place, whatever it holds, and the caret stands below what it showed before it."""
    at = place_of(text, min(position, len(text.encode(errors="surrogatepass"))), width)

    assert columns(at.line) <= width
    assert at.line.startswith(at.before)
    assert at.line == printable(at.line)


def test_a_failed_evaluation_has_a_place(device):
    """The step that failed says where it stands."""
    text = "device.driver == 'x' || device.attributes['dra.example.com'].modle == 'h100'"

    assert error_of(text, device).position == text.index(".modle")


def test_the_attribute_that_was_meant_is_named(device):
    """A missing key is answered with the names there are, the closest one first."""
    text = "device.attributes['dra.example.com'].modle == 'h100'"

    names = "model, node, index, memory (capacity), links, healthy, version"
    assert describe(text, error_of(text, device), device) == (
        f"no such key: modle; this device has {names}; {ADVICE}"
    )


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("capacity['dra.example.com'].model", 'attributes["dra.example.com"].model'),
        ("attributes['dra.example.com'].Model", 'attributes["dra.example.com"].model'),
    ],
    ids=["in the other table", "in other letters"],
)
def test_a_name_that_stands_elsewhere_is_shown_where_it_stands(device, path, there):
    """The name may be right where its table or its large letters are wrong: a guard would mend nothing."""
    text = f"device.{path} == device.{path}"

    assert describe(text, error_of(text, device), device).endswith(f"; this device has {there}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("device.attributes['other.example.com'].model == 'h100'", 'but attributes["dra.example.com"].model'),
        ('device.attributes["other.example.com"] ["numa"] == 0', "only in dra.example.com, numa.example.com"),
        (
            "device.capacity['other.example.com'].size.isInteger()",
            "only in dra.example.com, numa.example.com",
        ),
    ],
    ids=["the name is there", "in brackets", "a capacity"],
)
def test_a_domain_that_the_device_has_not_is_named(device, text, told):
    """It is written wrong, or that of another driver: the device's own names are then of no use."""
    name = error_of(text, device).message

    assert describe(text, error_of(text, device), device) == (
        f"{name}; this device has nothing in domain other.example.com, {told}; "
        "correct the domain, or guard it by has()"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "device.capacity['dra.example.com'].memory.isLessThan(quantity('40GB'))",
            'quantity(\'40GB\') is no quantity; write one as quantity("10G") or quantity("10Gi")',
        ),
        (
            'semver("1.0.0") == device.attributes["dra.example.com"].version || semver("v9").major() > 1',
            (
                'semver("v9") is no version (No Major.Minor.Patch elements found); '
                'write one as semver("1.2.3"), or as semver("1.2", true)'
            ),
        ),
        ("semver(device.driver).major() > 1", "Invalid character"),
    ],
    ids=["a quantity", "a version", "a text that is not written there"],
)
def test_a_text_that_is_no_quantity_or_version_is_named(device, text, told):
    """With how to write one; the error has a pattern, or only what is missing."""
    assert describe(text, error_of(text, device), device).startswith(told)


@pytest.mark.parametrize("domain", ["model", "dra.example.com/model"])
def test_a_name_where_the_domain_should_stand_is_written_right(device, domain):
    """A name alone reads an empty domain, and so does one with its domain in one: no guard would mend that."""
    text = f"device.attributes['{domain}'].string == 'h100'"

    assert describe(text, error_of(text, device), device) == (
        'no such key: string; this device has attributes["dra.example.com"].model'
    )


def test_an_expression_that_does_not_compile_gets_no_advice_of_a_device(device):
    """What to do about it stands with its words (`advise`)."""
    text = "sise([1]) == 1"
    error = error_of(text)

    assert describe(text, error, device) == describe(text, error)


def test_an_error_is_described_in_one_line():
    """A clause about the selector: what is wrong, where, and what to do."""
    texts = ["device.driver.matchs('x')", "device.driver ==\n  'x' and true"]

    assert [describe(text, error_of(text)) for text in texts] == [
        'does not compile at column 21: no such function "matchs"; did you mean "matches"?',
        'does not compile at line 2, column 7: "and" is not expected here; write &&',
    ]
