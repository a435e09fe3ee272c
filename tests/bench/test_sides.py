"""The two sides of the benchmark of the allocator: each is given the same before its first claim."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from versus import sides
from versus.rows import compared

from dra_operator.allocator.self_check import SCENARIO, TIMES

PROGRAM = Path(__file__).parents[2] / "bench" / "allocator.py"


@pytest.fixture(scope="module")
def bench():
    """Return bench/allocator.py as a module."""
    before = sys.path[:]
    spec = importlib.util.spec_from_file_location("bench_allocator", PROGRAM)
    module = sys.modules["bench_allocator"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["bench_allocator"]
        sys.path[:] = before


@pytest.fixture
def commands(bench, monkeypatch, tmp_path):
    """Let both sides play a round and return their commands; Go's rehearsal is read while it is there."""
    seen = []
    answer = {"claims": [{"milliseconds": 1.0}], "compileMilliseconds": 1.0}
    answer |= dict.fromkeys(("mean_ms", "p50_ms", "p99_ms", "compile_ms"), 1.0)

    def note(command, _, variables):
        seen.append(SimpleNamespace(words=command, variables=variables))
        return json.dumps(answer), 1.0

    monkeypatch.setattr(sides, "_run", note)
    monkeypatch.setattr(bench, "find_or_build", lambda **_: Path("upstream"))
    file = tmp_path / "workload.jsonl"
    file.touch()

    def play(*, cold=False, python=sys.executable):
        arguments = SimpleNamespace(
            cold=cold, search=None, ours_only=False, against=None, python=python, kubernetes=["1.37"]
        )
        sides.play_ours(file, bench._options(arguments), python=python)
        bench._other(arguments, "1.37", tmp_path)(file)
        return seen

    return play


def test_both_rehearse(commands):
    """Go is given the cluster of ours, as often as ours decides it."""
    ours, upstream = commands(cold=False)

    assert "--cold" not in ours.words
    lines = Path(upstream.words[upstream.words.index("-rehearsal") + 1]).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [SCENARIO] * TIMES


def _answers(*nodes):
    """Return a side that has answered with these nodes; None stands for an attempt that was given up."""
    given_up = {"node": None, "result": None, "error": "aborted", "errorKind": "aborted"}
    answers = [
        {"claim": str(number), **({"node": node, "result": {"on": node}} if node else given_up)}
        for number, node in enumerate(nodes)
    ]
    return SimpleNamespace(rounds=[sides.Round(1, 1, 1, 1, 1, answers)])


@pytest.mark.parametrize(
    ("ours", "theirs", "parted", "different"),
    [
        ("abc", "abd", None, 1),
        (("a", "b", "c"), ("a", None, "d"), 1, 0),
        (("a", None, "c"), ("a", None, "d"), None, 1),
        (("a", "b"), ("a", None), None, 0),
    ],
)
def test_answers_are_compared_until_only_one_side_gives_up(ours, theirs, parted, different):
    """What that side would have taken is free for the claims that follow, so that they have another cluster."""
    row = compared("name", 10, _answers(*ours), _answers(*theirs))

    assert (row.parted, len(row.different)) == (parted, different)
