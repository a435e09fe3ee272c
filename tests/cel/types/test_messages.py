"""Messages: the well-known protobuf types become plain values."""

import pytest

from dra_operator.cel import CelError


@pytest.mark.parametrize(
    "text",
    [
        "google.protobuf.Int64Value{value: 1} == 1",
        "google.protobuf.StringValue{} == ''",
        "google.protobuf.BoolValue{} != null",
        "google.protobuf.Value{number_value: 1.5} == 1.5",
        "dyn(google.protobuf.Value{}) == null",
        "google.protobuf.Struct{fields: {'a': 1.0}}.a == 1.0",
        "google.protobuf.ListValue{values: [1.0]}[0] == 1.0",
        "google.protobuf.FloatValue{value: 1.333} != 1.333",
        "google.protobuf.ListValue{values: [9223372036854775807]}[0] == '9223372036854775807'",
        "google.protobuf.Duration{seconds: 1} == duration('1s')",
    ],
)
def test_a_well_known_message_is_the_value_it_wraps(evaluate, text):
    """Making a wrapper gives what it wraps, absent fields at their zero."""
    assert evaluate(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "google.protobuf.Int32Value{value: 2147483648} == 1",
        "google.protobuf.Any{} == null",
        "kubernetes.DRADevice{} == device",
    ],
)
def test_a_message_that_cannot_be_made_fails(evaluate, text):
    """Values out of range, and messages that are none here, are errors of the evaluation."""
    with pytest.raises(CelError) as caught:
        evaluate(text)
    assert caught.value.kind == "runtime"
