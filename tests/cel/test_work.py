"""Work: what takes long counts, by the sizes of what it is given, before it is begun."""

import pytest

from dra_operator.cel import STORED, CelError, compile_program, compile_selector
from dra_operator.cel.costs.meter import COST_LIMIT, Meter
from dra_operator.cel.planner import plan
from dra_operator.cel.program import checked
from dra_operator.cel.values import CelMap, Optional_
from dra_operator.cel.work import WORK_LIMIT, builds, calling, comparing, passing


@pytest.mark.parametrize("value", [1, 1.5, "a" * 1000, None, b"a", True])
def test_nothing_is_passed_over_in_a_plain_value(value):
    """Only lists, maps and optional values hold others."""
    assert passing(value) == 0


def test_a_longer_list_takes_longer():
    """Each element counts, and those of several types more than those of one."""
    assert 0 < passing((1,) * 10) < passing((1,) * 100) < passing((1, "a") * 50)


def test_what_stands_in_a_value_many_times_is_passed_over_once():
    """A list that holds itself twice, thirty levels deep, is thirty lists and not a thousand million."""
    once = value = (1,)
    for _ in range(30):
        value = (value, value)

    assert passing(value) < 100 * passing((once, once))


def test_maps_and_optional_values_are_passed_over_too():
    """Keys and values of a map count, and what an optional value holds."""
    assert passing(CelMap([("a", (1, 2))])) > passing((1, 2))
    assert passing(Optional_((1, 2))) > passing((1, 2))


def test_lists_of_different_lengths_are_not_compared():
    """They differ without a look at their elements."""
    assert comparing((1,) * 1000, (1,) * 999) == 0
    assert comparing((1,) * 1000, (1,) * 1000) > 0


@pytest.mark.parametrize(
    ("name", "short", "long"),
    [
        ("_+_", ((1,), (2,)), ((1,) * 1000, (2,) * 1000)),
        ("@in", (1, (1,)), (1, (1,) * 1000)),
        ("isURL", ("a",), ("a" * 1000,)),
        ("lastIndexOf", ("a", "b"), ("a" * 1000, "b")),
        ("sets.contains", ((1,), (1,)), ((1,) * 1000, (1,) * 1000)),
        ("distinct", (((1,), (2,)),), (((1,), (2,)) * 100,)),
        ("matches", ("a", "^(a|b)*$"), ("a" * 1000, "^(a|b)*$")),
        ("findAll", ("a", "a*"), ("a" * 1000, "a*")),
        ("upperAscii", ("a",), ("a" * 1000,)),
        ("sum", ((1,),), ((1,) * 1000,)),
    ],
)
def test_a_call_with_larger_arguments_takes_longer(name, short, long):
    """What is given counts, and not the call alone."""
    assert calling(name, short) < calling(name, long)


@pytest.mark.parametrize("name", ["matches known", "find known", "findAll known"])
def test_searching_an_optional_text_takes_as_long_as_searching_the_text(name):
    """A known pattern is looked for in what an optional value holds, which costs upstream next to nothing."""
    text = "a" * 1000

    assert calling(name, (Optional_(text), "(a|b)*$")) == calling(name, (text, "(a|b)*$")) > 0


def test_an_error_among_the_arguments_takes_nothing():
    """A call that is not made since an argument failed is no work."""
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
        assert calling(name, (failed, failed)) < WORK_LIMIT // 1000


def test_what_takes_too_long_ends_below_the_limit_of_the_cost():
    """Adding lists costs 1 each time; the evaluation ends all the same, and the meter says why."""
    text = "cel.bind(l, lists.range(40000), lists.range(3000).all(x, (l + [x]).size() > 0))"
    meter = Meter()

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        compile_program(text).counted()(None, meter)

    assert meter.cost < COST_LIMIT
    assert meter.spent > WORK_LIMIT * 9 // 10


@pytest.mark.parametrize(
    ("text", "large"),
    [
        ("device.driver == 'a' && device.attributes['a'].b.matches('^a')", False),
        ("['a', 'b'].exists(x, x == device.driver)", False),
        ("['a', 'b'].map(x, x == device.driver).size() == 1", False),
        ("[1, 2].filter(x, x + 1 > 2).size() == 1", False),
        ("[[1]].flatten().size() == 1", True),
        ("cel.bind(v, [1], v + v) == [1, 1]", True),
        ("device.driver + 'a' == 'ba'", True),
        ("dyn(1) + dyn(1) == 2", True),
        ("[1].all(x, true ? ['a'].join('b') == 'a' : false)", True),
        ("{'a': '%d'.format([1])}['a'] == '1'", True),
        ("device.attributes['a'][device.driver.replace('a', 'b')] == 1", True),
        ("optional.none().orValue(lists.range(3)) == [0]", True),
        ("device.driver.matches('a')", False),
        ("'a'.matches(device.driver)", True),
        ("quantity('1Gi').isInteger()", False),
        ("quantity('1e99999').isInteger()", True),
        ("quantity(device.driver).isInteger()", False),
        ("['1'].all(x, quantity(x).isInteger())", True),
    ],
)
def test_what_makes_large_values_is_told_from_what_does_not(text, large):
    """Wherever in the plan it stands; what a macro appends to its own list is none of it."""
    assert builds(plan(checked(text, STORED), STORED)) is large


DOUBLED = "".join(f"cel.bind(v{index + 1}, [v{index}, v{index}], " for index in range(14))
CLASSES = r"\\PL" * 6
TWENTY = ", ".join(map(str, range(20)))


def test_large_values_are_counted_however_little_they_cost(device):
    """Lists in lists are 16,384 elements after fourteen names, and the estimate knows nothing of it."""
    selector = compile_selector(
        f"cel.bind(v0, [1], {DOUBLED}[{TWENTY}, {TWENTY}].all(x, v14.flatten(20).size() > 0){')' * 15}"
    )

    assert selector.program.estimate().high < COST_LIMIT // 200
    with pytest.raises(CelError, match="actual cost limit exceeded"):
        selector.match(device)


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(100).all(i, quantity('1e99999').add(quantity('1n')).isInteger() || true)",
        " || ".join(f"quantity('9e{99999 - index}').isInteger()" for index in range(100)),
        f"[{TWENTY}].all(i, quantity('1e099999').sub(i).isInteger() || true)",
        f"{[str(index) for index in range(40)]}.all(x, 'a'.matches('{CLASSES}' + x) || true)",
    ],
    ids=("sums", "texts", "differences", "patterns"),
)
def test_amounts_of_many_digits_and_patterns_made_on_the_way_are_counted(device, text):
    """They cost as much as small ones, and take thousands of times as long."""
    selector = compile_selector(text)

    assert selector.program.estimate().high < COST_LIMIT // 200
    with pytest.raises(CelError, match="actual cost limit exceeded"):
        selector.match(device)


def test_a_pattern_that_is_known_is_not_compiled_again(device):
    """Its time is that of the compilation, before there is a device."""
    text = " || ".join(rf"device.driver.matches('\\PL\\PL\\PL{index}')" for index in range(30))

    assert compile_selector(text).match(device) is False
