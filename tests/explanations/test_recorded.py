"""Explanations of recorded failing claims are what they were."""

from itertools import islice

import pytest

from explanations.__main__ import differences
from explanations.answers import answers_today
from recordings import recorded

WORLDS = 200


def test_what_is_said_of_failing_claims_is_what_was_said():
    """Reason, request and numbers of the first failing claims of the record; `python -m explanations` compares all."""
    found = {}
    for number, row in enumerate(islice(recorded("explanations"), WORLDS)):
        now = answers_today(row["world"])
        for place, (before, after) in enumerate(zip(row["answers"], now, strict=True)):
            if classes := differences(before, after):
                found[number, place] = classes

    assert found == {}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({"reason": "A", "request": "r", "counts": {"r": {"left": 1}}}, []),
        ({"reason": "B", "request": "r", "counts": {"r": {"left": 1}}}, ["reason A -> B"]),
        ({"reason": "A", "counts": {"r": {"left": 1}}}, ["request of A"]),
        ({"reason": "A", "request": "r", "counts": {"r": {"left": 2}}}, ["numbers: left"]),
    ],
)
def test_what_differs_is_told(now, found):
    """A reason, a request and a number that differ are each a class of difference."""
    before = {"reason": "A", "request": "r", "counts": {"r": {"left": 1}}}

    assert differences(before, now) == found
