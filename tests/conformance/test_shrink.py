"""Shrinking: parts are left out as long as what is looked for stays."""

from conformance.shrink import shrink


def test_only_what_is_needed_stays():
    """Of nested objects and lists, those parts stay without which the difference is gone."""
    question = {
        "name": "q",
        "nodes": [{"a": 1}, {"a": 2}],
        "claims": [{"x": [1, 2, 3], "y": 0}, {"x": [4, 7, 5]}],
    }

    small = shrink(question, lambda one: any(7 in claim.get("x", ()) for claim in one.get("claims", ())))

    assert small == {"name": "q", "claims": [{"x": [7]}]}


def test_expressions_get_shorter():
    """An expression loses what is not needed, with its device."""
    question = {
        "name": "q",
        "expression": "(1 + 2) == size('needle') || true",
        "device": {"attributes": {"a": {}}},
    }

    small = shrink(question, lambda one: "needle" in one["expression"])

    assert small == {"name": "q", "expression": "needle", "device": {}}
