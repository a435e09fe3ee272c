"""Limits: whatever is written, the outcome is an answer or a CelError."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector

DEEP = [
    "!" * 5001 + "true",
    "-" * 5001 + "1 == 1",
    "(" * 249 + "true" + ")" * 249,
    "[" * 240 + "]" * 240 + " == []",
    " + ".join(["1"] * 2500) + " > 0",
    " && ".join(["true"] * 1500),
    "true" + " ? true" * 240 + " : false" * 240,
    "device" + ".a" * 2000,
    "device.attributes" + "['a']" * 1000 + " == 1",
    "[1].all(a, " * 200 + "true" + ")" * 200,
    "cel.bind(a, true, " * 200 + "a" + ")" * 200,
    "{'a': " * 200 + "1" + "}" * 200 + " == {}",
]


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_nesting_ends_in_an_answer_or_a_cel_error(device, text):
    """Depth is no way to another exception."""
    try:
        answer = compile_selector(text).match(device)
    except CelError:
        return
    assert answer in (True, False)


WORDS = st.sampled_from(
    [
        "device", ".", "driver", "attributes", "capacity", "[", "]", "(", ")", "{", "}", ",", ":", "?",
        "&&", "||", "!", "-", "+", "*", "/", "%", "<", "<=", "==", "!=", "in", "'a'", "'dra.example.com'",
        "1", "2u", "1.5", "null", "true", "false", "x", ".?", "[?", "has(", ".exists(x,", ".map(x,",
        ".all(i,", "x,", "cel.bind(x,", "optional.of(", ".orValue(", "size(", ".matches(", "dyn(",
        "quantity('1Gi')", "semver('1.0.0')", ".compareTo(", "type(", "int(", "string(", "model",
        ".sortBy(x,", ".format([", "ip('::1')", "b'a'", "`", "r'", "//", "\n",
    ]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(
    st.one_of(
        st.lists(WORDS, max_size=14).map(" ".join),
        st.lists(WORDS, max_size=14).map("".join),
        st.text(max_size=40),
    )
)
def test_any_text_ends_in_an_answer_or_a_cel_error(device, text):
    """Scraps of the language and random text raise nothing else."""
    try:
        answer = compile_selector(text).match(device)
    except CelError:
        return
    assert answer in (True, False)
