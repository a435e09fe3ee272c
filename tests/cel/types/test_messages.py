"""Messages: the well-known protobuf types become plain values."""

import pytest

from dra_operator.cel.errors import CelError


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
