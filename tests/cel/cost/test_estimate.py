"""Costs: the most that an expression can cost, and what it has cost."""

import pytest

from dra_operator.cel import CelError, compile_program, compile_selector
from dra_operator.cel.cost.sizes import UNBOUNDED, Range
from dra_operator.cel.run.meter import Meter


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("device.driver == 'dra.example.com'", 4),
        ("device.attributes['d'].a == 'x'", 5),
        ("device.attributes.exists_one(x, x == 'dra.example.com')", 164),
        ("'a' in device.attributes['d']", 4),
        ("device.attributes['d'].a.includes('x')", 68),
        ("has(device.attributes['d'].a)", 3),
        ("device.attributes['d'].all(k, k.startsWith(k))", 292),
        ("device.attributes['d'].all(k, v, k.startsWith(k))", 388),
        ("device.capacity['d'].exists(k, v, k.startsWith(k))", 196),
        ("device.attributes.all(k, v, k.startsWith(k))", 387),
        ("device.attributes.all(d, m, m.exists(k, m.s == k))", 14_499),
        ("device.attributes.all(d, m, m.exists(k, k == m.s))", 11_427),
        (
            "device.attributes.all(d, m, m.exists(k, ((m.t != d) && (device.attributes['a.b'].s != k))))",
            26_787,
        ),
        ("lists.range(10).all(i, i < 10)", 72),
        ("device.attributes['d'].a.exists(x, x.matches('a+'))", UNBOUNDED),
    ],
)
def test_the_worst_case_is_that_of_upstream(text, most):
    """Sizes of device parts flow into loops and calls."""
    assert compile_program(text).estimate().high == most


@pytest.mark.parametrize(
    ("text", "cost_of_it"),
    [
        ("1", 0),
        ("1 + 1", 1),
        ("[1, 2, 3].all(i, i > 0)", 16),
        ("device.driver == 'dra.example.com'", 4),
        ("has(device.attributes['d'].a)", 3),
        ("true ? device.driver : 'a'", 1),
        ("2 in [1, 2]", 0),
        ("[1, 2].sum()", 2),
    ],
)
def test_the_cost_of_an_evaluation_is_counted_as_upstream_does(cost, text, cost_of_it):
    """Attributes, calls and folds are charged, constants are not."""
    assert cost(text) == cost_of_it


def test_an_evaluation_ends_at_its_limit(device):
    """Once more was spent than allowed, the evaluation is over, and nothing absorbs that."""
    program = compile_program("lists.range(1000).all(i, i < 1000) || true")

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        program.evaluate(device, Meter(500))


def test_an_expensive_selector_is_metered(device):
    """A selector whose worst case is near the limit is stopped there."""
    text = "lists.range(300).all(i, lists.range(300).all(j, lists.range(300).all(k, k < 300)))"
    selector = compile_selector(text)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        selector.match(device)


def test_ranges_stay_unbounded():
    """Sums and products never exceed the largest number there is."""
    unknown = Range(0, UNBOUNDED)

    assert unknown.plus(Range(1, 1)) == Range(1, UNBOUNDED)
    assert unknown.times(Range(2, 2)) == Range(0, UNBOUNDED)
    assert unknown.scaled(0.1).high == 1844674407370955264
