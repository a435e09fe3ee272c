"""What CEL of Kubernetes 1.38 answers otherwise than that of 1.37: a row has been put to both oracles."""

import pytest

from conformance.cases import outcome

DEVICE = {
    "driver": "d",
    "attributes": {
        "known": {"string": "a"},
        "odd": {"float": 1},
        "bad": {"version": "1.x"},
        "none": {"ints": []},
    },
    "capacity": {"d/memory": {"value": "1Gi"}},
}
ATTRIBUTES = "device.attributes['d']"
LEAST = "quantity('10Gi').sub(-9223372036854775808).isGreaterThan(quantity('0'))"
FAILS = "error"
"""The texts of errors are not compared."""


def answer(expression, version, **case):
    """Return match, value, or that it does not compile or fails."""
    found = outcome({"expression": expression, "kubernetes": version, **case})
    return next((found[name] for name in ("match", "value") if name in found), FAILS)


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        pytest.param(f"{ATTRIBUTES}.known == 'a'", FAILS, True, id="unread"),
        pytest.param(f"{ATTRIBUTES}.known == 'a' || {ATTRIBUTES}.odd == 'a'", FAILS, True, id="unread in or"),
        pytest.param(f"{ATTRIBUTES}.odd == 'a'", FAILS, FAILS, id="read"),
        pytest.param(f"has({ATTRIBUTES}.bad)", FAILS, FAILS, id="asked for"),
        pytest.param(f"'bad' in {ATTRIBUTES}", FAILS, False, id="looked for"),
        pytest.param(f"{ATTRIBUTES}.?none.hasValue()", FAILS, FAILS, id="empty list"),
        pytest.param(f"{ATTRIBUTES}.size() == 4", FAILS, True, id="counted"),
        pytest.param(f"{ATTRIBUTES}.exists(k, v, v == 'a')", FAILS, True, id="error absorbed"),
        pytest.param(f"{ATTRIBUTES}.all(k, v, v == 'a')", FAILS, FAILS, id="error among values"),
        pytest.param(f"{ATTRIBUTES} == {{'a': 1, 'b': 1, 'c': 1, 'd': 1}}", FAILS, False, id="other keys"),
        pytest.param("device.attributes[dyn(1)].size() == 0", FAILS, True, id="a number as key"),
        pytest.param("dyn(b'd') in device.capacity", FAILS, True, id="bytes as key"),
    ],
)  # fmt: skip
def test_values_are_looked_up_where_they_are_read(expression, before, since):
    """An attribute that nobody knows harms who reads it alone, and keys become text."""
    assert [answer(expression, version, device=DEVICE) for version in ("1.37", "1.38")] == [before, since]


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        pytest.param("dyn('').all(x, false)", FAILS, True, id="an empty string is a range"),
        pytest.param("dyn('a').all(x, false)", FAILS, FAILS, id="another is none"),
        pytest.param("cidr('10.0.0.0/8').isMask()", FAILS, True, id="mask"),
        pytest.param("cidr('10.0.0.1/8').isMask()", FAILS, False, id="no mask"),
        pytest.param(LEAST, False, True, id="the least int"),
    ],
)
def test_functions_answer_otherwise(expression, before, since):
    """Each of these differences is a rule of its own."""
    assert [answer(expression, version) for version in ("1.37", "1.38")] == [before, since]


def test_new_expressions_have_what_the_version_before_has():
    """The API server admits what it can still read after going back by one version."""
    expressions = ("[1].includes(1)", "cidr('10.0.0.0/8').isMask()")
    gates = {"env": "new", "features": {"ListTypeAttributes": False}}

    assert [[answer(text, version, **gates) for text in expressions] for version in ("1.37", "1.38")] == [
        [FAILS, FAILS],
        [True, FAILS],
    ]


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        pytest.param("[1 / 0, [1, 2].size()].size()", 12, 1, id="what is behind the first failure"),
        pytest.param("(1 / 0) + ['a', 'b'].map(x, x).size()", 30, 1, id="the other side"),
        pytest.param("(1 / 0) == 1", 2, 2, id="comparisons are charged for"),
        pytest.param("[1].slice(3, 4)", 12, 11, id="no list is made"),
    ],
)
def test_what_fails_is_charged_for_otherwise(expression, before, since):
    """A call that ends at its first argument costs nothing, and what nobody evaluates neither."""
    costs = [
        outcome({"expression": expression, "kubernetes": version})["actualCost"]
        for version in ("1.37", "1.38")
    ]

    assert costs == [before, since]


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        pytest.param("isIP(url('https://a').getHost())", 1844674407370955266, 3, id="a part of a URL"),
        pytest.param(
            "isIP(url('https://a').getEscapedPath())", 1844674407370955266, 5, id="three times as long"
        ),
        pytest.param("string(1.0).contains('10Gi')", 1844674407370955265, 2**64 - 1, id="unbounded stays so"),
        pytest.param("dyn(type(dyn(1))).matches('^i')", 1844674407370955267, 4, id="a type"),
        pytest.param("device.attributes['d'].s == has(device.attributes['d'].s)", 8, 14, id="a test"),
    ],
)
def test_worst_cases_are_estimated_otherwise(expression, before, since):
    """What follows from what is asked about is no longer unbounded."""
    found = [
        outcome({"expression": expression, "kubernetes": version, "device": DEVICE, "maxCost": 0})["maxCost"]
        for version in ("1.37", "1.38")
    ]

    assert found == [before, since]


@pytest.mark.parametrize("version", ["1.37", "1.38"])
def test_long_quantities_are_those_of_1_37(version):
    """19 digits are no int, and no digit is lost (`quantity-digits` in docs/differences.md)."""
    expressions = (
        "quantity('1000000000000000000').isInteger()",
        "quantity('1e30').add(1) == quantity('1e30')",
    )

    assert [answer(expression, version) for expression in expressions] == [False, False]


@pytest.mark.parametrize("version", ["1.37", "1.38"])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_comparisons_with_nan_are_those_of_1_37(version, operator):
    """They fail (`nan-order` in docs/differences.md)."""
    found = outcome({"expression": f"1 {operator} 0.0 / 0.0", "kubernetes": version})

    assert found["error"] == "NaN values cannot be ordered"
