"""`python -m conformance replay`, as tests/recorded/README.md lays it down."""

import gc
import gzip
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from conformance.replay import app, percentile
from conformance.scenarios import difference, is_equal
from dra_operator.allocator import self_check
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch

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


@pytest.mark.parametrize(("search", "asked"), [("plain", 1), ("counting", 0)])
def test_the_search_can_be_named(tmp_path: Path, search: str, asked: int) -> None:
    """The plain search is asked where it is named, and not where counting decides."""
    with patch.object(ExhaustiveSearch, "run", autospec=True, side_effect=ExhaustiveSearch.run) as run_plain:
        result = run(tmp_path, scenario(expected=ANSWER), options=("--search", search))

    assert result.exit_code == 0
    assert run_plain.call_count == asked


def test_an_equal_answer_ends_with_0(tmp_path: Path) -> None:
    """And is printed."""
    result = run(tmp_path, scenario(expected=ANSWER))

    assert result.exit_code == 0, result.output
    assert lines(result) == [{"name": "one", **ANSWER}]
    assert "1 equal" in result.stderr


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_to_compare_ends_with_0(tmp_path: Path, count: int) -> None:
    """Whatever the answer is."""
    assert run(tmp_path, scenario(count=count)).exit_code == 0


def test_another_answer_ends_with_1(tmp_path: Path) -> None:
    """The expected answer goes to stderr."""
    result = run(tmp_path, scenario(expected={"unsatisfiable": True}))

    assert result.exit_code == 1
    assert 'one: expected {"unsatisfiable":true}' in result.stderr


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (scenario(count=2), {"unsatisfiable": True}),
        (
            scenario(deviceClasses=[]),
            {"error": "request r: device class c does not exist", "errorKind": "fatal"},
        ),
    ],
)
def test_other_outcomes(tmp_path: Path, row: Any, outcome: dict[str, Any]) -> None:
    """No node fits, or something is wrong."""
    assert lines(run(tmp_path, row)) == [{"name": "one", **outcome}]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "the line is not JSON: "),
        ("[1]", "the line: [1] is not an object"),
        ('{"kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": {}}', "the line is no scenario: "),
        ('{"name": "x", "nodes": [{"metadata": 3}]}', "Node: metadata: 3 is not an object"),
        ('{"features": {"No": true}}', "unknown feature 'No'"),
        ('{"features": ["No"]}', 'features: ["No"] is not an object'),
        ('{"nodes": 5}', "nodes: 5 is not a list"),
        ('{"claims": {"a": 1}}', 'claims: {"a": 1} is not a list'),
        ('{"claims": ' + 300 * "[" + 300 * "]" + "}", "the document is nested too deeply"),
        ('{"features": {"AdminAccess": "no"}}', 'features.AdminAccess: "no" is not true or false'),
        ('{"claims": [], "noDefaults": 1}', "noDefaults: 1 is not true or false"),
        ('{"claims": [], "expected": ["a"]}', 'expected: ["a"] is not an object'),
        (
            '{"allocatedState": {"device": []}}',
            "allocatedState: device: none of devices, sharedDevices, consumedCapacity",
        ),
        (
            '{"allocatedState": {"devices": [{"driver": [], "pool": "p", "device": "a"}]}}',
            "allocatedState.devices: driver is required, as text",
        ),
        ('{"allocatedState": {"devices": [1]}}', "allocatedState.devices: 1 is not an object"),
        (
            '{"allocatedState": {"devices": [{"driver": "d", "device": "a"}]}}',
            "allocatedState.devices: pool is required",
        ),
    ],
)
def test_a_bad_line_is_answered_and_the_next_one_follows(tmp_path: Path, bad: str, message: str) -> None:
    """It has its number for a name if it has no other, says what is wrong, and the end is 2."""
    result = run(tmp_path, bad, scenario())
    first, second = lines(result)

    assert result.exit_code == 2
    assert first["errorKind"] == "input"
    assert first["error"].startswith(message)
    assert first["name"] in {"1", "x"}
    assert second["node"] == "n1"


@pytest.mark.parametrize(
    "expected",
    [
        {"results": 5, "unsatisfiable": False},
        {"results": [5], "unsatisfiable": False},
        {"results": [{"order": "any"}], "unsatisfiable": False},
        {"results": [{"order": "any", "result": {"devices": {"results": 5}}}], "unsatisfiable": False},
        {"errorContains": 5},
        {"results": None},
    ],
    ids=json.dumps,
)
def test_an_expected_answer_that_no_allocator_gives_is_different(tmp_path: Path, expected: Any) -> None:
    """Whatever it is made of; the slices of the scenario are those that count for a cause, not what is left out."""
    row = scenario(expected=expected)
    row["resourceSlices"].append({"metadata": {"name": "t"}})

    result = run(tmp_path, row)

    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "1 different")


def test_a_file_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    """With its name."""
    result = CliRunner().invoke(app, [str(tmp_path / "none.jsonl")])

    assert result.exit_code == 2
    assert "none.jsonl" in result.stderr


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"{}" * 999)[:30], b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff", b"{}"],
    ids=["cut off", "broken", "not compressed"],
)
def test_a_file_that_cannot_be_unpacked_ends_with_2(tmp_path: Path, content: bytes) -> None:
    """With its name, and what is wrong with it."""
    file = tmp_path / "broken.jsonl.gz"
    file.write_bytes(content)

    result = CliRunner().invoke(app, [str(file)])

    assert result.exit_code == 2
    assert "broken.jsonl.gz: " in result.stderr


def test_output_can_go_to_a_compressed_file(tmp_path: Path) -> None:
    """Nothing is printed then."""
    out = tmp_path / "out.jsonl.gz"
    result = run(tmp_path, scenario(), options=("--out", str(out)))

    assert result.stdout == ""
    with gzip.open(out) as file:
        assert json.loads(file.read())["node"] == "n1"


def test_the_seed_decides_the_share_ids(tmp_path: Path) -> None:
    """The same seed gives the same ids, another one others."""
    row = scenario()
    row["resourceSlices"][0]["spec"]["devices"][0]["allowMultipleAllocations"] = True
    outputs = [run(tmp_path, row, options=("--seed", seed)).stdout for seed in ("1", "1", "2")]

    assert outputs[0] == outputs[1] != outputs[2]


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


REQUEST = {"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}


def claim(name: str, **more: Any) -> dict[str, Any]:
    """Return a claim for one device."""
    request = {"name": "r", "exactly": {**REQUEST["exactly"], **more}}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": [request]}},
    }


def timed_scenario(*claims: dict[str, Any], devices: int = 2) -> dict[str, Any]:
    """Return a scenario with one node, some devices and these claims."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    names = [{"name": f"d{number}"} for number in range(devices)]
    spec = {"driver": "d", "pool": pool, "nodeName": "n1", "devices": names}
    return {
        "name": "one",
        "nodes": [{"metadata": {"name": "n1"}}],
        "deviceClasses": [{"metadata": {"name": "c"}, "spec": {}}],
        "resourceSlices": [{"metadata": {"name": "s"}, "spec": spec}],
        "claims": list(claims),
    }


def run_sequential(folder: Path, *rows: dict[str, Any], options: tuple[str, ...] = ()) -> Result:
    """Replay these rows one claim after the other."""
    file = folder / "scenarios.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CliRunner().invoke(app, [str(file), "--sequential", *options])


def answers(folder: Path, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of `--out`."""
    out = folder / "out.jsonl"
    result = run_sequential(folder, row, options=("--out", str(out)))
    assert result.exit_code == 0, result.output
    return [json.loads(text) for text in out.read_text().splitlines()]


def test_a_scenario_is_one_line(tmp_path: Path) -> None:
    """It has these fields and no other."""
    result = run_sequential(tmp_path, timed_scenario(claim("a"), claim("b"), claim("c")))
    (line,) = map(json.loads, result.stdout.splitlines())

    assert list(line) == ["name", "claims", "allocated", "mean_ms", "p50_ms", "p99_ms", "compile_ms"]
    assert (line["name"], line["claims"], line["allocated"]) == ("one", 3, 2)
    assert 0 < line["p50_ms"] <= line["p99_ms"]


def test_a_scenario_without_claims_is_a_line_too(tmp_path: Path) -> None:
    """All its times are 0."""
    (line,) = map(json.loads, run_sequential(tmp_path, timed_scenario()).stdout.splitlines())

    assert (line["claims"], line["mean_ms"], line["p99_ms"]) == (0, 0, 0)


def test_the_state_is_carried_on(tmp_path: Path) -> None:
    """What one claim gets, the next does not; who gets nothing has neither node nor result."""
    first, second, third = answers(tmp_path, timed_scenario(claim("a"), claim("b"), claim("c")))

    assert [line["result"]["devices"]["results"][0]["device"] for line in (first, second)] == ["d0", "d1"]
    assert (first["name"], first["claim"], first["node"]) == ("one", "a", "n1")
    assert third == {"name": "one", "claim": "c", "node": None, "result": None}


def test_claims_of_a_pod_fit_together_or_not_at_all(tmp_path: Path) -> None:
    """The second pod needs two devices of one node, of which the first has left one; the third needs one."""
    claims = [claim(name) for name in "abcd"]
    for item, pod in zip(claims, ("one", "two", "two", "three"), strict=True):
        item["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": pod, "uid": pod}]
    lines = answers(tmp_path, timed_scenario(*claims))

    assert [line["node"] for line in lines] == ["n1", None, None, "n1"]
    assert [line["claim"] for line in lines] == ["a", "b", "c", "d"]


def test_claims_of_one_name_each_keep_what_they_got(tmp_path: Path) -> None:
    """Recorded claims need not be named apart."""
    lines = answers(tmp_path, timed_scenario(claim("a"), claim("a"), claim("a")))

    assert [line["node"] for line in lines] == ["n1", "n1", None]


@pytest.mark.parametrize(
    "expression", [pytest.param("nonsense", id="compile time"), pytest.param("[true][1]", id="run time")]
)
def test_an_error_is_an_answer_and_the_next_claim_follows(tmp_path: Path, expression: str) -> None:
    """It counts as not allocated."""
    wrong = claim("a", selectors=[{"cel": {"expression": expression}}])
    first, second = answers(tmp_path, timed_scenario(wrong, claim("b")))

    assert (first["node"], first["result"], first["errorKind"]) == (None, None, "fatal")
    assert "selector #0" in first["error"]
    assert second["node"] == "n1"


def test_a_summary_goes_to_stdout_beside_a_file(tmp_path: Path) -> None:
    """The file holds the claims, the line is about all of them."""
    result = run_sequential(
        tmp_path, timed_scenario(claim("a")), options=("--out", str(tmp_path / "out.jsonl"))
    )

    assert json.loads(result.stdout)["allocated"] == 1


def test_the_heap_is_not_left_frozen(tmp_path: Path) -> None:
    """Whoever calls the command in its own process gets its garbage collector back."""
    run_sequential(tmp_path, timed_scenario(claim("a")))

    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    ("options", "times"),
    [pytest.param((), 3, id="warm"), pytest.param(("--cold",), 0, id="cold")],
)
def test_a_rehearsal_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], times: int
) -> None:
    """One is at the start and one right before the claims of each scenario; --cold does without."""
    rehearsals: list[str] = []
    monkeypatch.setattr(self_check, "run_self_check", lambda: rehearsals.append("rehearsal"))
    result = run_sequential(tmp_path, timed_scenario(claim("a")), timed_scenario(claim("b")), options=options)

    assert result.exit_code == 0
    assert len(rehearsals) == times


def test_cold_alone_is_refused(tmp_path: Path) -> None:
    """There is no rehearsal to leave out where nothing is timed."""
    file = tmp_path / "scenarios.jsonl"
    file.write_text(json.dumps(timed_scenario(claim("a"))))

    result = CliRunner().invoke(app, [str(file), "--cold"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--cold goes with --sequential" in result.stderr


def test_a_rehearsal_that_goes_wrong_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is timed that does not decide as it should: exit 1, and what was wrong."""
    monkeypatch.setattr(self_check, "SCENARIO", {})
    result = run_sequential(tmp_path, timed_scenario(claim("a")))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: the self-check ended with KeyError: 'nodes'; " in result.stderr


@pytest.mark.parametrize(
    ("count", "percent", "value"),
    [(100, 50, 50), (100, 99, 99), (1, 99, 1), (2, 50, 1), (300, 99, 297), (0, 50, 0)],
)
def test_percentiles_are_values_that_occurred(count: int, percent: int, value: int) -> None:
    """The smallest one that so many of 100 do not exceed."""
    assert percentile([float(number) for number in range(count, 0, -1)], percent) == value
