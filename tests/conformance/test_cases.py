"""Cases: reading, answering and comparing them."""

import pytest

from conformance.cases import differences


@pytest.mark.parametrize(
    ("case", "ours", "different"),
    [
        ({"expected": {"match": True}}, {"match": True}, ()),
        ({"expected": {"match": True}}, {"match": False}, ("match",)),
        ({"expected": {"error": "x"}}, {"error": "y"}, ()),
        ({"expected": {"error": "x"}}, {"match": True}, ("error",)),
        ({"value": "1", "actualCost": 2}, {"value": "1", "actualCost": 3}, ("actualCost",)),
        ({"value": "1", "actualCost": 2, "costVaries": True}, {"value": "1", "actualCost": 3}, ()),
        ({"expected": {"match": True}, "maxCost": 1}, {"match": True, "maxCost": 2}, ("maxCost",)),
        ({}, {"match": True}, ()),
    ],
)
def test_answers_are_compared_without_their_texts(case, ours, different):
    """Class, value, type and costs count; words do not; a case without an answer has nothing to differ from."""
    assert differences(case, ours) == different
