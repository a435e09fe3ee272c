"""Encoding: values as JSON with their types."""

import pytest

from dra_operator.cel.encoding import encoded


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("true", True),
        ("1", "1"),
        ("1u", "1u"),
        ("1.5", "d:1.5"),
        ("'a'", "s:a"),
        ("b'\\xff'", "b:ff"),
        ("null", "null"),
        ("[1, 2]", ["1", "2"]),
        ("{'a': true}", {"s:a": True}),
        ("{true: 1}", {"true": "1"}),
        ("{[true, false]: 1}", {"[true false]": "1"}),
        ("{{'b': [1], 'a': [2]}: 1}", {"map[s:a:[2] s:b:[1]]": "1"}),
        ("type(1)", "type:int"),
        ("optional.none()", {"optional": "none"}),
        ("optional.of(1)", {"optional": "1"}),
        ("duration('90m')", "google.protobuf.Duration:1h30m0s"),
        (
            "timestamp('2020-01-01T00:00:00+01:00')",
            "google.protobuf.Timestamp:2020-01-01 00:00:00 +0100 +0100",
        ),
        ("quantity('1.5G')", "kubernetes.Quantity:1500M"),
        ("ip('::1')", "net.IP:::1"),
    ],
)
def test_a_value_is_written_with_its_type(evaluate, text, json):
    """Each type has a form of its own."""
    assert encoded(evaluate(text)) == json
