"""Steps: what takes long counts, by the sizes of what it is given, before it is begun."""

import time
from contextlib import suppress

import pytest

from dra_operator.cel import CelError, compile_program
from dra_operator.cel.costs.meter import COST_LIMIT, STEP_LIMIT, Meter
from dra_operator.cel.costs.steps import size, steps_of_call, steps_of_comparison, steps_of_result
from dra_operator.cel.dispatch import Function
from dra_operator.cel.interpretable import Invoke
from dra_operator.cel.values import CelMap, Optional_

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested(depth: int, inner: str) -> str:
    """Return loops over ten elements, one in the other."""
    for level in range(depth):
        inner = f"{TEN}.all(x{level}, {inner})"
    return inner


def call_of(name, *, known_pattern=False):
    """Return a call of a function of this name."""
    return Invoke(1, Function(name, len, eager=True), "", (), known_pattern)


@pytest.mark.parametrize("value", [1, 1.5, None, True, "a"])
def test_nothing_is_passed_over_in_a_plain_value(value):
    """Only texts, lists, maps and optional values have a size."""
    assert size(value) == 0


def test_a_longer_value_takes_longer():
    """Each character, each element and each entry counts, and what an optional value holds."""
    assert 0 < size("a" * 100) < size("a" * 1000)
    assert 0 < size((1,) * 100) < size((1,) * 1000)
    assert size(Optional_((1,) * 100)) >= size((1,) * 100) > 0
    assert size(CelMap((number, 1) for number in range(100))) > 0


def test_what_stands_in_a_value_many_times_is_passed_over_once():
    """A list that holds itself twice, thirty levels deep, is thirty lists and not a thousand million."""
    value = (1,)
    for _ in range(30):
        value = (value, value)

    assert size(value) < 1000


def test_lists_of_different_lengths_are_not_compared():
    """They differ without a look at their elements."""
    assert steps_of_comparison((1,) * 1000, (1,) * 999) == 0
    assert steps_of_comparison((1,) * 1000, (1,) * 1000) > 0


@pytest.mark.parametrize(
    ("name", "short", "long"),
    [
        ("_+_", ((1,), (2,)), ((1,) * 1000, (2,) * 1000)),
        ("@in", (1, (1,)), (1, (1,) * 1000)),
        ("isURL", ("a",), ("a" * 1000,)),
        ("lastIndexOf", ("a", "b"), ("a" * 1000, "b")),
        ("sets.contains", (((1,),), ((1,),)), (((1,),) * 100, ((1,),) * 100)),
        ("distinct", (((1,), (2,)),), (((1,), (2,)) * 100,)),
        ("flatten", ((),), (((),) * 100,)),
        ("matches", ("a", "^(a|b)*$"), ("a" * 1000, "^(a|b)*$")),
        ("findAll", ("a", "a*"), ("a" * 1000, "a*")),
        ("getHours", (1,), (1, "Europe/Berlin")),
    ],
)
def test_a_call_with_larger_arguments_takes_longer(name, short, long):
    """What is given counts, and not the call alone."""
    call = call_of(name)

    assert steps_of_call(call, short) < steps_of_call(call, long)


def test_a_pattern_that_is_known_is_not_compiled_again():
    """Its time is that of the compilation, before there is a device."""
    made, known = (
        steps_of_call(call_of("matches", known_pattern=known), ("a", r"\PL{5}")) for known in (False, True)
    )

    assert known < made


def test_a_list_that_was_made_counts():
    """A number says nothing of the list that is made of it."""
    call = call_of("lists.range")

    assert steps_of_result(call, tuple(range(1000))) > 100
    assert steps_of_result(call, 1000) == 0


def test_an_error_among_the_arguments_takes_nothing():
    """A call that is not made since an argument failed is not counted by size."""
    failed = CelError("runtime", "no such key: a")

    for name in (
        "_+_",
        "@in",
        "isURL",
        "matches",
        "findAll",
        "sets.contains",
        "string",
        "getHours",
        "format",
    ):
        assert steps_of_call(call_of(name), (failed, failed)) < 100


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
    """The steps do for an expression that works on small values."""
    meter = Meter()

    assert compile_program(text).evaluate(device, meter) is True
    assert meter.cost == cost


DOUBLED = "".join(f"cel.bind(v{index + 1}, [v{index}, v{index}], " for index in range(14))
TWENTY = ", ".join(map(str, range(20)))
CLASSES = r"\\PL" * 6
LONG = {
    "added": "cel.bind(l, lists.range(40000), lists.range(30000).all(x, (l + [x]).size() > 0))",
    "flattened": f"cel.bind(v0, [1], {DOUBLED}lists.range(500).all(x, v14.flatten(20).size() > 0){')' * 15}",
    "patterns": f"lists.range(500).all(x, 'a'.matches('{CLASSES}' + string(x)) || true)",
    "amounts": "lists.range(2000).all(i, quantity('1e99999').add(quantity('1n')).isInteger() || true)",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_no_evaluation_is_long(device, text):
    """What costs little and takes long ends at the steps, in about two seconds; more here, since machines differ."""
    meter = Meter()
    start = time.thread_time()

    with suppress(CelError):
        compile_program(text).evaluate(device, meter)

    assert meter.steps > STEP_LIMIT >= meter.most_steps or meter.cost > COST_LIMIT
    assert time.thread_time() - start < 10
