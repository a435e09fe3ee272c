"""Dispatch: which implementation gets the values of a call."""

import pytest

from dra_operator.cel import CelError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("device.attributes['dra.example.com'].links.flatten()", ("a", "b")),
        ("[dyn(1)].flatten()", (1,)),
        ("dyn([1]).flatten()", (1,)),
        ("[dyn(1), dyn([2])].flatten()", (1, 2)),
        ("[dyn({1: 2})].flatten().size()", 1),
        ("[dyn(quantity('1'))].flatten().size()", 1),
    ],
)
def test_a_list_that_is_flat_already_can_be_flattened(evaluate, text, expected):
    """What a list holds is not looked at before flatten: upstream disables the guards of its types."""
    assert evaluate(text) == expected


@pytest.mark.parametrize("text", ["dyn(1).flatten()", "dyn({1: [2]}).flatten()", "dyn('a').flatten(1)"])
def test_what_is_no_list_is_refused(evaluate, text):
    """No implementation gets a value of another type than it takes."""
    with pytest.raises(CelError, match="no such overload"):
        evaluate(text)


def test_other_functions_look_at_the_first_element(evaluate):
    """A list of ints has an int first, where a function takes lists of ints only."""
    with pytest.raises(CelError, match="no such overload"):
        evaluate("dyn([[1]]).sum() == 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dyn(type(1)).matches('int')", True),
        ("dyn(type([1])).find('.*')", "list"),
        ("dyn(type(1)).findAll('[a-z]', 2)", ("i", "n")),
        ("dyn(optional.of('abc')).matches('b')", True),
        ("dyn(optional.of(optional.of(type(1)))).find('i.')", "in"),
        ("dyn('abab').findAll('b', dyn(optional.of(1)))", ("b",)),
        ("[dyn(device.attributes['dra.example.com'].?model)].all(x, x.matches('.'))", True),
    ],
)
def test_a_known_pattern_is_looked_for_in_what_go_holds_a_value_as(evaluate, text, expected):
    """Upstream's call with a pattern written in the expression takes types and optional values, too."""
    assert evaluate(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "dyn(1).matches('1')",
        "dyn(optional.of(1)).matches('1')",
        "dyn(optional.none()).find('a')",
        "dyn('a').findAll('a', dyn(1u))",
        "dyn('a').findAll('a', dyn(int))",
        "dyn(type(1)).matches('in' + 't')",
        "dyn(optional.of('abc')).find('' + 'b')",
    ],
)
def test_what_go_holds_as_no_text_is_refused(evaluate, text):
    """Neither other values nor, with a pattern that is computed, anything but a text are searched."""
    with pytest.raises(CelError, match="no such overload"):
        evaluate(text)
