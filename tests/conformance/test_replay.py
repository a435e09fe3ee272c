"""`python -m conformance replay`, as tests/recorded/README.md lays it down."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conformance.replay import app
from conformance.scenarios import difference, is_equal

ALLOCATED = {"request": "r", "driver": "d", "pool": "n1", "device": "a"}
SELECTOR = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
}
ANSWER = {"node": "n1", "results": [{"devices": {"results": [ALLOCATED]}, "nodeSelector": SELECTOR}]}


def scenario(name: str = "one", count: int = 1, **more: Any) -> dict[str, Any]:
    """Return a scenario with one node, one device and one claim."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    return {
        "name": name,
        "nodes": [{"metadata": {"name": "n1"}}],
        "deviceClasses": [{"metadata": {"name": "c"}, "spec": {}}],
        "resourceSlices": [
            {
                "metadata": {"name": "s"},
                "spec": {"driver": "d", "pool": pool, "nodeName": "n1", "devices": [{"name": "a"}]},
            }
        ],
        "claims": [
            {
                "metadata": {"name": "claim", "namespace": "ns"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": count}}]
                    }
                },
            }
        ],
        **more,
    }


def run(tmp_path: Path, *rows: Any, options: tuple[str, ...] = ()) -> Result:
    """Replay these rows."""
    file = tmp_path / "scenarios.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return CliRunner().invoke(app, [str(file), *options])


def lines(result: Result) -> list[Any]:
    """Return the JSON lines of the output."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_an_equal_answer_ends_with_0(tmp_path: Path) -> None:
    """And is printed."""
    result = run(tmp_path, scenario(expected=ANSWER))

    assert result.exit_code == 0, result.output
    assert lines(result) == [{"name": "one", **ANSWER}]
    assert "1 equal" in result.stderr


def test_another_answer_ends_with_1(tmp_path: Path) -> None:
    """The expected answer goes to stderr."""
    result = run(tmp_path, scenario(expected={"unsatisfiable": True}))

    assert result.exit_code == 1
    assert 'one: expected {"unsatisfiable":true}' in result.stderr


@pytest.mark.parametrize(
    ("used", "fits"),
    [
        pytest.param({"allocatedState": {"devices": [ALLOCATED]}}, False, id="a device"),
        pytest.param({"allocatedState": {"sharedDevices": [ALLOCATED]}}, True, id="a share"),
        pytest.param({"allocatedState": {"consumedCapacity": [ALLOCATED]}}, True, id="an amount"),
        pytest.param(
            {
                "allocated": [
                    {
                        "metadata": {"name": "old", "namespace": "ns"},
                        "spec": {},
                        "status": {"allocation": {"devices": {"results": [{**ALLOCATED, "shareID": "1"}]}}},
                    }
                ]
            },
            False,
            id="a share of a claim",
        ),
    ],
)
def test_without_consumable_capacity_only_claims_turn_shares_into_devices(
    tmp_path: Path, used: dict[str, Any], *, fits: bool
) -> None:
    """State that is given raw is taken as it is, as upstream takes it."""
    result = run(tmp_path, scenario(features={"ConsumableCapacity": False}, **used))

    assert ("results" in lines(result)[0]) is fits


def test_share_ids_are_not_compared() -> None:
    """They are random in upstream."""
    answers = [
        {"node": "n", "results": [{"devices": {"results": [{"shareID": text}]}}]} for text in ("a", "*")
    ]

    assert is_equal(*answers)


@pytest.mark.parametrize(
    ("generations", "policy", "name"),
    [
        pytest.param((1, 1), {}, None, id="nothing special"),
        pytest.param((1, 2), {}, "counters-by-generation", id="two generations with counters"),
        pytest.param(
            (1, 1), {"validRange": {"min": "1", "step": "0"}}, "capacity-step", id="a step of nothing"
        ),
        pytest.param((1, 1), {"validRange": {"step": "1"}}, "capacity-step", id="a step without a start"),
        pytest.param((1, 1), {"validRange": {"min": "1", "step": "10"}}, None, id="a sensible step"),
        pytest.param(
            (1, 1),
            {"validRange": {"min": "1", "step": "12E"}},
            "policy-beyond-int64",
            id="a step beyond int64",
        ),
        pytest.param((1, 1), {"default": "12E"}, None, id="a large default"),
        pytest.param(
            (1, 1), {"validRange": {"min": "-1", "step": "1"}}, "policy-below-zero", id="a range below zero"
        ),
    ],
)
def test_a_difference_is_named_only_where_its_cause_is(
    generations: tuple[int, int], policy: dict[str, Any], name: str | None
) -> None:
    """A wrong answer to any other scenario is a mistake of ours."""
    device = {"name": "a", "capacity": {"memory": {"value": "9", "requestPolicy": policy}}}
    counters = [{"name": "s", "counters": {}}]
    row = {
        "resourceSlices": [
            {
                "spec": {
                    "driver": "d",
                    "pool": {"name": "p", "generation": generation},
                    "devices": [device],
                    "sharedCounters": counters,
                }
            }
            for generation in generations
        ]
    }

    assert difference(row) == name


@pytest.mark.parametrize(("shareable", "name"), [(False, "exclusive-over-share"), (True, None)])
def test_a_share_of_what_is_not_shareable_is_the_cause_of_a_difference(
    name: str | None, *, shareable: bool
) -> None:
    """Wherever a scenario says what is in use; admin access uses nothing."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "a", "allowMultipleAllocations": shareable}]
    row = {"resourceSlices": [{"spec": {"driver": "d", "pool": pool, "devices": devices}}]}
    used = {"driver": "d", "pool": "p", "device": "a", "shareID": "s"}

    def holding(result: dict[str, Any]) -> dict[str, Any]:
        return {**row, "allocated": [{"status": {"allocation": {"devices": {"results": [result]}}}}]}

    assert difference(holding(used)) == name
    assert difference({**row, "allocatedState": {"sharedDevices": [used]}}) == name
    assert difference(holding({**used, "adminAccess": True})) is None


@pytest.mark.parametrize(("amount", "name"), [("-1", "use-below-zero"), ("1", None)])
def test_a_use_below_zero_is_the_cause_of_a_difference(amount: str, name: str | None) -> None:
    """Wherever a scenario says what is in use."""
    result = {"driver": "d", "pool": "p", "device": "a", "consumedCapacity": {"memory": amount}}
    used = {"driver": "d", "pool": "p", "device": "a", "capacity": {"memory": amount}}

    assert difference({"allocated": [{"status": {"allocation": {"devices": {"results": [result]}}}}]}) == name
    assert difference({"allocatedState": {"consumedCapacity": [used]}}) == name
