"""Meter: upstream's stack of observed values, the limits of cost and time, and what each step is charged."""

import time
from contextlib import suppress

import pytest

from dra_operator.cel.cost.prices import LIST_COST
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program
from dra_operator.cel.run import steps as ir
from dra_operator.cel.run.meter import Meter


@pytest.fixture
def meter():
    """Return a meter with the limits of a selector."""
    return Meter()


def observed(meter, *values):
    """Observe constants with the ids 1, 2, ... and return their steps."""
    steps = tuple(ir.Const(number, value) for number, value in enumerate(values, 1))
    for step in steps:
        meter.observe(step, step.value)
    return steps


def test_the_cost_ends_an_evaluation():
    """One unit above the limit is too much."""
    meter = Meter(limit=LIST_COST - 1)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        meter.observe(ir.MakeList(9, (), frozenset()), ())


def test_the_clock_ends_an_evaluation_that_costs_nothing():
    """It is looked at every hundred steps."""
    meter = Meter(seconds=0)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        observed(meter, *range(200))
    assert meter.cost == 0


TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested(depth: int, inner: str) -> str:
    """Return loops over ten elements, one in the other."""
    for level in range(depth):
        inner = f"{TEN}.all(x{level}, {inner})"
    return inner


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        (nested(5, "x0 + x1 > 0 && x2 < 20"), 944_441),
        ("lists.range(50000).all(x, x >= 0)", 300_012),
        ("lists.range(10000).map(x, x + 1).filter(x, x % 2 == 0).size() == 5000", 245_015),
    ],
    ids=("nested", "long", "made"),
)
def test_what_costs_just_less_than_the_limit_is_answered(device, text, cost):
    """The time does for an expression that works on small values; more here, since machines differ."""
    meter = Meter(seconds=10)

    assert compile_program(text).evaluate(device, meter) is True
    assert meter.cost == cost


DOUBLED = "".join(f"cel.bind(v{index + 1}, [v{index}, v{index}], " for index in range(14))
CLASSES = r"\\PL" * 6
LONG = {
    "added": "cel.bind(l, lists.range(40000), lists.range(30000).all(x, (l + [x]).size() > 0))",
    "flattened": f"cel.bind(v0, [1], {DOUBLED}lists.range(500).all(x, v14.flatten(20).size() > 0){')' * 15}",
    "patterns": f"lists.range(500).all(x, 'a'.matches('{CLASSES}' + string(x)) || true)",
    "amounts": "lists.range(2000).all(i, quantity('1e99999').add(quantity('1n')).isInteger() || true)",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_no_evaluation_is_much_longer_than_the_clock_allows(device, text):
    """However long a step takes, a hundred of them take less than a second; more here, since machines differ."""
    start = time.thread_time()

    with suppress(CelError):
        compile_program(text).evaluate(device, Meter(seconds=0.1))

    assert time.thread_time() - start < 5
