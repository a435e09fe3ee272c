"""`python -m conformance cel`: what it prints and returns."""

import json

import pytest
from click.testing import CliRunner

from conformance.cel import app

CASES = [
    {
        "name": "match",
        "expression": "device.driver == 'd'",
        "device": {"driver": "d"},
        "expected": {"match": True},
    },
    {"expression": "1 + 1", "value": "2", "valueType": "int", "outputType": "int", "actualCost": 1},
    {"expression": "1 +"},
]


@pytest.fixture
def run():
    """Return a function that runs the command with arguments."""
    runner = CliRunner()
    return lambda *arguments, **more: runner.invoke(app, list(map(str, arguments)), **more)


def test_cases_returns_1_for_a_difference(run, tmp_path):
    """An answer that is not ours is named, and the exit is 1."""
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({**CASES[0], "expected": {"match": False}}))

    result = run(file)

    assert result.exit_code == 1
    assert "match: match differ: device.driver == 'd'" in result.stderr


def test_a_macro_that_builds_a_map_costs_what_kubernetes_says(run):
    """Recorded of Kubernetes: what nobody reads of the result is neither counted nor an error."""
    cost, outcome = (
        "[1,2,3,4].transformMap(k, v, 1/0)",
        "lists.range(30000).transformMap(k, v, device.attributes['a'].x)",
    )
    rows = [
        {"expression": f"{cost}.size() == 1 || true", "expected": {"value": True}, "actualCost": 10},
        {
            "expression": f"{outcome}.size() == 1 || true",
            "device": {"driver": "a"},
            "maxCost": 240044,
            "expected": {"match": True},
        },
    ]

    assert run("-", input="\n".join(map(json.dumps, rows))).stderr == "2 equal\n"
