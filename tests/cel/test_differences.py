"""Where CEL differs from upstream on purpose: one test a name of docs/differences.md."""

import re
from pathlib import Path

import pytest

from conformance.cases import outcome
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program, compile_selector

LIMIT = "operation cancelled: actual cost limit exceeded"
DOUBLED_TEXT = "cel.bind(a, 'abcdefghij', " + "cel.bind(a, a + a, " * 15 + "a.size()" + ")" * 16
DOUBLED_LIST = "cel.bind(a, [1], " + "cel.bind(a, a + a, " * 16 + "a.size()" + ")" * 17
DOUBLED_TYPE = "cel.bind(a, 1, " + "cel.bind(a, {a: a}, " * 9 + "a == a" + ")" * 10

TOLD = {
    "quantity-exponent": ("quantity('1e100001')", "error", LIMIT),
    "quantity-suffix": ("quantity('1000E')", "value", "kubernetes.Quantity:1e21"),
    "version-length": (f"isSemver('1.0.0-{'a' * 1100}')", "value", False),
    "regex-class-name": (r"'a'.matches(r'\ps')", "compileError", "invalid matches argument"),
    "regex-group-name": ("'a'.matches('(?P<é>a)')", "value", True),
    "regex-work": (f"('a' + '{'a' * 9000}').matches('({'b?' * 700})c')", "error", LIMIT),
    "regex-size": (r"'a'.matches('\\PL{50}')", "compileError", "invalid matches argument"),
    "message-names": (
        "google.protobuf.Empty{}",
        "compileError",
        "undeclared reference to 'google.protobuf.Empty' (in container '')",
    ),
    "object-keys": ("{dyn(quantity('1')): 1} == {dyn(quantity('1')): 1}", "value", True),
    "map-order": ("{'b': 1, 'a': 2}.transformList(k, v, k) == ['b', 'a']", "value", True),
    "sort-ties": ("lists.range(20).sortBy(x, x % 2)[1]", "value", "2"),
    "long-lists": (DOUBLED_LIST, "error", LIMIT),
    "long-texts": (DOUBLED_TEXT, "error", LIMIT),
    "deep-types": (DOUBLED_TYPE, "compileError", "expression has a type that nests too deep"),
    "deep-nesting": ("1" + " + 1" * 260, "value", "261"),
    "compiler-crash": ("[?dyn(1)] == [1] || true", "value", True),
    "cost-below-zero": ("has((dyn(1) ? {} : {'b': 2}).a) || true", "value", True),
    "too-long": (
        "cel.bind(l, lists.range(49000), lists.range(30000).all(x, (l + [x] + [x] + [x]).size() > 0))",
        "error",
        LIMIT,
    ),
}
TESTED_ELSEWHERE = {
    "attribute-twice",
    "worst-case",
    "quantity-digits",
    "nan-order",
    "quote-tables",
    "half-characters",
}


@pytest.mark.parametrize(("expression", "field", "answer"), TOLD.values(), ids=TOLD)
def test_the_answer_is_the_one_we_chose(expression, field, answer):
    """Each listed difference is as the list says."""
    assert outcome({"expression": expression}).get(field) == answer


def test_a_quantity_of_many_digits_is_like_one_with_a_large_exponent():
    """As many zeros as an exponent would stand for are no less work."""
    assert outcome({"expression": f"quantity('1{'0' * 4000}')"})["error"] == LIMIT
    assert "value" in outcome({"expression": f"quantity('1{'0' * 3999}')"})


def test_what_has_no_order_is_sorted_as_python_sorts_it():
    """NaN is less than nothing and nothing is less than NaN, so Python 3.11 and 3.13 end elsewhere."""
    sorted_here = [f"d:{number:g}" for number in sorted([2.0, -1.0, float("nan"), 0.0])]

    assert outcome({"expression": "[2.0, -1.0, 0.0 / 0.0, 0.0].sort()"})["value"] == [
        number.replace("nan", "NaN") for number in sorted_here
    ]


@pytest.mark.parametrize("names", [("model", "dra.example.com/model"), ("dra.example.com/model", "model")])
def test_of_two_attributes_with_one_full_name_the_one_with_the_domain_counts(make_device, names):
    """A bare name and the same one with the driver's domain are one attribute; 1.37 takes either."""
    device = make_device(attributes={name: {"int": name.count("/")} for name in names})

    assert compile_selector("device.attributes['dra.example.com'].model == 1").match(device)


def test_half_a_character_is_the_sign_for_none():
    """A lone surrogate in an expression counts as U+FFFD, as for Go's decoder."""
    assert outcome({"expression": "'\ud800' == '\\uFFFD'"})["value"] is True


def test_the_list_names_what_is_tested_and_nothing_else(repository: Path):
    """docs/differences.md has a row for each test of CEL, and a test for each row."""
    section = (repository / "docs/differences.md").read_text().split("## CEL", 1)[1]
    named = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))

    assert named == TOLD.keys() | TESTED_ELSEWHERE


def test_a_refusal_is_a_cel_error():
    """What is refused for its size is refused as everything else."""
    with pytest.raises(CelError):
        compile_program(DOUBLED_TYPE)
