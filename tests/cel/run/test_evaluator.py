"""Evaluator: values, absorbed errors, what is counted on the way, and what is answered without counting."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program
from dra_operator.cel.run.meter import Meter


@pytest.fixture
def failing(device):
    """Return a function that evaluates an expression and returns its error and the cost until then."""

    def error(text):
        meter = Meter()
        with pytest.raises(CelError) as caught:
            compile_program(text).evaluate(device, meter)
        return caught.value, meter.cost

    return error


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("1 / 0 == 1 && true", "division by zero", "/"),
        ("1 / 0 == 1 || 1 % 0 == 1", "division by zero", "/"),
        ("device.attributes['dra.example.com'].modle", "no such key: modle", ".modle"),
        ("[1, 2][2]", "index out of bounds: 2", "[2]"),
        ("dyn('a') + dyn(1)", "no such overload", "+"),
    ],
)
def test_an_error_has_its_place(failing, text, message, marked):
    """The first error that counts is reported, where it came to be."""
    error, _ = failing(text)

    assert (error.message, error.position) == (message, text.index(marked))


def test_a_limit_on_the_cost_ends_it(device):
    """The meter's limit is an error that nothing absorbs."""
    meter = Meter(limit=100)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        compile_program("lists.range(1000).all(i, i >= 0) || true").evaluate(device, meter)

    assert meter.cost > 100


DRA = "device.attributes['dra.example.com']"


@pytest.mark.parametrize(
    "text",
    [
        "device.driver == 'dra.example.com'",
        f"{DRA}.model == 'h100'",
        f"{DRA}.index in [1, 2, 3]",
        f"{DRA}.links.exists(link, link == 'b')",
        "device.capacity['dra.example.com'].memory.compareTo(quantity('40Gi')) > 0",
        f"{DRA}.version.isLessThan(semver('1.10.0'))",
        f"{DRA}.?model.orValue('') == 'h100'",
        "device.attributes[?'no.such'][?'model'].orValue('none') == 'none'",
        f"{DRA}.model.matches('^h1')",
        f"cel.bind(dra, {DRA}, dra.healthy && dra.index == 3)",
        "device.attributes['no.such'] == {}",
        f"['a', 'b', 'c'].all(part, part in {DRA}.links || part == 'c')",
        "device.allowMultipleAllocations ? false : true",
        f"{DRA}.modle == 'h100' || device.driver == 'dra.example.com'",
        "dyn(1) != true",
        f"has({DRA}.model) && !has({DRA}.modle)",
        " && ".join(["device.driver == 'dra.example.com'"] * 150),
    ],
)
def test_what_selectors_are_made_of_is_answered_plainly(device, text):
    """It cannot cost much, and the answer needs no meter."""
    assert compile_program(text).plain()(device, None) is True


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(1000000).size() > 0",
        "device.attributes.all(d, device.attributes[d].all(n, n == 'a'))",
        "'a'.matches(device.driver)",
    ],
)
def test_what_may_cost_much_is_always_metered(text):
    """So is a regular expression that is compiled in each evaluation."""
    assert compile_program(text).plain() is None
