"""Code: plans as Python functions, and what is left to the interpreter."""

import pytest

from dra_operator.cel.compiler.codegen import generate
from dra_operator.cel.environment import STORED
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.regex import Pattern
from dra_operator.cel.planner import plan
from dra_operator.cel.types import BOOL


class _HandedError(Exception):
    """The function has asked for another opinion."""


def _otherwise(_device):
    raise _HandedError


@pytest.fixture
def function(check):
    """Return a function that makes a selector's code, which raises where it knows no answer."""

    def made(text):
        checked = check(text)
        return generate(plan(checked, STORED), checked.types, _otherwise, answer=BOOL)

    return made


@pytest.mark.parametrize(
    "text",
    [
        "device.driver == 'dra.example.com'",
        "device.attributes['dra.example.com'].model == 'h100'",
        "device.attributes['dra.example.com'].index in [1, 2, 3]",
        "device.attributes['dra.example.com'].links.exists(link, link == 'b')",
        "device.capacity['dra.example.com'].memory.compareTo(quantity('40Gi')) > 0",
        "device.capacity['dra.example.com'].memory.isGreaterThan(quantity('40Gi'))",
        "device.attributes['dra.example.com'].version.isLessThan(semver('1.10.0'))",
        "device.attributes['dra.example.com'].links.flatten() == ['a', 'b']",
        "device.attributes['dra.example.com'].?model.orValue('') == 'h100'",
        "device.attributes[?'no.such'][?'model'].orValue('none') == 'none'",
        "device.attributes['dra.example.com'].model.matches('^h1')",
        "device.attributes['dra.example.com'].model.startsWith('h1')",
        "device.attributes['dra.example.com'].model.upperAscii().endsWith('00')",
        "'the h100'.contains(device.attributes['dra.example.com'].model)",
        "cel.bind(dra, device.attributes['dra.example.com'], dra.healthy && dra.index == 3)",
        "device.attributes['no.such'] == {}",
        "['a', 'b', 'c'].all(part, part in device.attributes['dra.example.com'].links || part == 'c')",
        "device.allowMultipleAllocations ? false : true",
    ],
)
def test_the_code_answers_by_itself(function, device, text):
    """What selectors are made of needs no interpreter."""
    assert function(text)(device) is True


@pytest.mark.parametrize(
    "text",
    [
        "device.attributes['dra.example.com'].modle == 'h100'",
        "device.attributes['dra.example.com'].links[2] == 'c'",
        "device.attributes['dra.example.com'].index / 0 == 1",
        "device.attributes['dra.example.com'].modle == 'h100' || device.driver == 'dra.example.com'",
    ],
)
def test_what_fails_is_handed_on(function, device, text):
    """The code does not say what an error is, nor whether it is absorbed."""
    with pytest.raises(_HandedError):
        function(text)(device)


@pytest.mark.parametrize("call", ["contains('3')", "startsWith('3')", "matches('3')", "substring(0) == '3'"])
def test_what_is_no_text_has_no_functions_of_texts(function, device, call):
    """A look at the value tells so, where the attribute may be of any type."""
    with pytest.raises(_HandedError):
        function(f"device.attributes['dra.example.com'].index.{call}")(device)


def test_one_is_not_true(function, device):
    """Python's equality between numbers and bools does not get into an answer."""
    assert function("dyn(device.attributes['dra.example.com'].index - 2) == true")(device) is False


def test_a_value_that_is_no_bool_is_handed_on(function, device):
    """A selector of unknown type may give anything; only a bool is an answer."""
    with pytest.raises(_HandedError):
        function("device.attributes['dra.example.com'].model")(device)


def test_a_broken_device_ends_it_at_once(function, make_device):
    """A device that could not be prepared is an error for every expression, without asking again."""
    broken = make_device(attributes={"a": {}})

    with pytest.raises(CelError):
        function("true")(broken)


@pytest.mark.parametrize(
    "text", ['"""\'); raise SystemExit #""" == device.driver', "'\\n\\\\' == device.driver"]
)
def test_what_a_user_wrote_is_a_constant(function, device, text):
    """Text of an expression never becomes code."""
    assert function(text)(device) is False


def test_messages_are_left_to_the_interpreter(function):
    """What selectors hardly ever have gives no code at all."""
    assert function("google.protobuf.Int64Value{value: 1} == 1") is None


def test_a_long_conjunction_nests_no_deeper_than_python_can(function, device):
    """Hundreds of terms are answered, by code or by the interpreter."""
    code = function(" && ".join(["device.driver == 'dra.example.com'"] * 150))

    assert code(device) is True


@pytest.mark.parametrize(("pattern", "kept"), [("^dra[.]", 1), ("^dra[.]|\\\\PL+x", 0)])
def test_code_keeps_small_patterns_alone(function, device, pattern, kept):
    """Thousands of selectors are kept, and a large pattern takes half a megabyte."""
    made = function(f"device.driver.matches('{pattern}')")

    owners = [getattr(each, "__self__", None) for each in made.__globals__.values()]

    assert made(device) is True
    assert sum(isinstance(owner, Pattern) for owner in owners) == kept
