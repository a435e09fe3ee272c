"""Checker: types of expressions, and what has none."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.types.environment import Environment


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("1 + 'a'", "found no matching overload for '_+_' applied to '(int, string)'", 2),
        ("x == 1", "undeclared reference to 'x'", 0),
        ("device.name", "undefined field 'name'", 6),
        ("device['driver']", "found no matching overload for '_[_]'", 6),
        ("1 && true", "expected type 'bool' but found 'int'", 0),
        ("sise([1])", "undeclared reference to 'sise'", 4),
        ("1.exists(i, true)", "cannot be range of a comprehension", 0),
        ("true ? 1 : 'a'", "found no matching overload for '_?_:_'", 5),
        ("[1].a", "type 'list(int)' does not support field selection", 3),
        (
            "{1: 2}.startsWith('a')",
            "found no matching overload for 'startsWith' applied to 'map(int, int).(string)'",
            17,
        ),
        ("nope{a: 1}", "undeclared reference to 'nope'", 4),
        ("int{}", "'int' is not a message type", 3),
        ("[?1]", "expected type 'optional_type(int)' but found 'int'", 2),
        ("[1].exist(x, x == 1)", "undeclared reference to 'exist'", 9),
        ("cel.bind(x, 1)", "undeclared reference to 'cel'", 0),
        ("bind(x, 1, x)", "undeclared reference to 'bind'", 4),
        ("optional.of(1).optMap(x, 1, x)", "undeclared reference to 'optMap'", 21),
        ("foo(1) ? bar : 1 + 'a'", "undeclared reference to 'foo'", 3),
        ("[nope].all(x, x.y) && 1", "undeclared reference to 'nope'", 1),
        ("{'a': 1, 'b': 1 + 'a'}[nope{a: b}]", "found no matching overload for '_+_'", 16),
        ("1.exists(x, x.y == z)", "cannot be range of a comprehension", 0),
        ("google.protobuf.Int64Value{value: 'a', b: c}", "expected type of field 'value'", 32),
    ],
)
def test_what_has_no_type_is_refused_at_its_place(check, text, message, position):
    """The error names types and place as upstream does."""
    with pytest.raises(CelError) as caught:
        check(text)

    assert message in caught.value.message
    assert (caught.value.kind, caught.value.position) == ("compile", position)


@pytest.mark.parametrize(
    ("environment", "accepted"),
    [
        (Environment(), True),
        (Environment("1.37", "new", list_type_attributes=False), False),
        (Environment("1.36", list_type_attributes=False), False),
        (Environment("1.36", "new"), True),
    ],
)
def test_folding_over_an_attribute_needs_list_attributes(check, environment, accepted):
    """Where an attribute is `any`, it cannot be iterated over."""
    text = "device.attributes['d'].a.exists(x, true)"
    if accepted:
        assert check(text, environment)
    else:
        with pytest.raises(CelError, match="cannot be range"):
            check(text, environment)
