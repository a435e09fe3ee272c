"""`dra-operator replay --sequential`, as docs/cli.md lays it down."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dra_operator.allocator import self_check
from dra_operator.cli.replay import app
from dra_operator.cli.sequential import percentile

REQUEST = {"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}


def claim(name: str, **more: Any) -> dict[str, Any]:
    """Return a claim for one device."""
    request = {"name": "r", "exactly": {**REQUEST["exactly"], **more}}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": [request]}},
    }


def scenario(*claims: dict[str, Any], devices: int = 2) -> dict[str, Any]:
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


def run(folder: Path, *rows: dict[str, Any], options: tuple[str, ...] = ()) -> Result:
    """Replay these rows one claim after the other."""
    file = folder / "scenarios.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CliRunner().invoke(app, [str(file), "--sequential", *options])


def answers(folder: Path, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of `--out`."""
    out = folder / "out.jsonl"
    result = run(folder, row, options=("--out", str(out)))
    assert result.exit_code == 0, result.output
    return [json.loads(text) for text in out.read_text().splitlines()]


def test_a_scenario_is_one_line(tmp_path: Path) -> None:
    """It has these fields and no other."""
    result = run(tmp_path, scenario(claim("a"), claim("b"), claim("c")))
    (line,) = map(json.loads, result.stdout.splitlines())

    assert list(line) == ["name", "claims", "allocated", "mean_ms", "p50_ms", "p99_ms", "compile_ms"]
    assert (line["name"], line["claims"], line["allocated"]) == ("one", 3, 2)
    assert 0 < line["p50_ms"] <= line["p99_ms"]


def test_a_scenario_without_claims_is_a_line_too(tmp_path: Path) -> None:
    """All its times are 0."""
    (line,) = map(json.loads, run(tmp_path, scenario()).stdout.splitlines())

    assert (line["claims"], line["mean_ms"], line["p99_ms"]) == (0, 0, 0)


def test_the_state_is_carried_on(tmp_path: Path) -> None:
    """What one claim gets, the next does not; who gets nothing has neither node nor result."""
    first, second, third = answers(tmp_path, scenario(claim("a"), claim("b"), claim("c")))

    assert [line["result"]["devices"]["results"][0]["device"] for line in (first, second)] == ["d0", "d1"]
    assert (first["name"], first["claim"], first["node"]) == ("one", "a", "n1")
    assert third == {"name": "one", "claim": "c", "node": None, "result": None}


def test_claims_of_a_pod_fit_together_or_not_at_all(tmp_path: Path) -> None:
    """The second pod needs two devices of one node, of which the first has left one; the third needs one."""
    claims = [claim(name) for name in "abcd"]
    for item, pod in zip(claims, ("one", "two", "two", "three"), strict=True):
        item["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": pod, "uid": pod}]
    lines = answers(tmp_path, scenario(*claims))

    assert [line["node"] for line in lines] == ["n1", None, None, "n1"]
    assert [line["claim"] for line in lines] == ["a", "b", "c", "d"]


def test_claims_of_one_name_each_keep_what_they_got(tmp_path: Path) -> None:
    """Recorded claims need not be named apart."""
    lines = answers(tmp_path, scenario(claim("a"), claim("a"), claim("a")))

    assert [line["node"] for line in lines] == ["n1", "n1", None]


@pytest.mark.parametrize(
    "expression", [pytest.param("nonsense", id="compile time"), pytest.param("[true][1]", id="run time")]
)
def test_an_error_is_an_answer_and_the_next_claim_follows(tmp_path: Path, expression: str) -> None:
    """It counts as not allocated."""
    wrong = claim("a", selectors=[{"cel": {"expression": expression}}])
    first, second = answers(tmp_path, scenario(wrong, claim("b")))

    assert (first["node"], first["result"], first["errorKind"]) == (None, None, "fatal")
    assert "selector #0" in first["error"]
    assert second["node"] == "n1"


def test_a_summary_goes_to_stdout_beside_a_file(tmp_path: Path) -> None:
    """The file holds the claims, the line is about all of them."""
    result = run(tmp_path, scenario(claim("a")), options=("--out", str(tmp_path / "out.jsonl")))

    assert json.loads(result.stdout)["allocated"] == 1


def test_the_heap_is_not_left_frozen(tmp_path: Path) -> None:
    """Whoever calls the command in its own process gets its garbage collector back."""
    run(tmp_path, scenario(claim("a")))

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
    result = run(tmp_path, scenario(claim("a")), scenario(claim("b")), options=options)

    assert result.exit_code == 0
    assert len(rehearsals) == times


def test_cold_alone_is_refused(tmp_path: Path) -> None:
    """There is no rehearsal to leave out where nothing is timed."""
    file = tmp_path / "scenarios.jsonl"
    file.write_text(json.dumps(scenario(claim("a"))))

    result = CliRunner().invoke(app, [str(file), "--cold"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--cold goes with --sequential" in result.stderr


def test_a_rehearsal_that_goes_wrong_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is timed that does not decide as it should: exit 1, and what was wrong."""
    monkeypatch.setattr(self_check, "SCENARIO", {})
    result = run(tmp_path, scenario(claim("a")))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: the self-check ended with KeyError: 'nodes'; " in result.stderr


@pytest.mark.parametrize(
    ("count", "percent", "value"),
    [(100, 50, 50), (100, 99, 99), (1, 99, 1), (2, 50, 1), (300, 99, 297), (0, 50, 0)],
)
def test_percentiles_are_values_that_occurred(count: int, percent: int, value: int) -> None:
    """The smallest one that so many of 100 do not exceed."""
    assert percentile([float(number) for number in range(count, 0, -1)], percent) == value
