"""`python -m conformance cel`: what it prints and returns."""

import gzip
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


def test_cases_answers_line_by_line(run, tmp_path):
    """One outcome a row, in order, with its name or number; nothing differs, so the exit is 0."""
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(map(json.dumps, CASES)))

    result = run(file)

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert lines[0] == {"name": "match", "match": True}
    assert lines[1] == {"name": 2, "outputType": "int", "valueType": "int", "value": "2", "actualCost": 1}
    assert list(lines[2]) == ["name", "compileError"]
    assert result.stderr == "1 answered, 2 equal\n"


def test_cases_reads_and_writes_compressed_files_and_tables(run, tmp_path):
    """A `.gz` is compressed on both sides, and an object with `cases` is read as their list."""
    source, target = tmp_path / "table.json.gz", tmp_path / "out.jsonl.gz"
    source.write_bytes(gzip.compress(json.dumps({"cases": CASES[:1]}).encode()))

    result = run(source, "--out", target)

    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(gzip.decompress(target.read_bytes())) == {"name": "match", "match": True}


def test_cases_returns_1_for_a_difference(run, tmp_path):
    """An answer that is not ours is named, and the exit is 1."""
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({**CASES[0], "expected": {"match": False}}))

    result = run(file)

    assert result.exit_code == 1
    assert "match: match differ: device.driver == 'd'" in result.stderr


def test_cases_goes_on_after_a_bad_line(run, tmp_path):
    """A line that is no case answers with an error of the input, and the next follows; the exit is 2."""
    file = tmp_path / "cases.jsonl"
    file.write_text("{\n" + json.dumps(CASES[0]))

    result = run(file)

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 2
    assert (lines[0]["name"], lines[0]["errorKind"]) == (1, "input")
    assert lines[1] == {"name": "match", "match": True}


def test_cases_needs_a_file(run, tmp_path):
    """A file that is not there is wrong usage."""
    assert run(tmp_path / "nope").exit_code == 2


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"{}" * 999)[:30], b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff", b"{}"],
    ids=["cut off", "broken", "not compressed"],
)
def test_cases_says_which_file_cannot_be_unpacked(run, tmp_path, content):
    """A download that was cut off is unreadable input, with the file's name."""
    file = tmp_path / "cases.jsonl.gz"
    file.write_bytes(content)
    result = run(file)

    assert result.exit_code == 2
    assert "cases.jsonl.gz: " in result.stderr


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"expression": "true", "features": 5}, '"features" is an object of names with true or false'),
        (
            {"expression": "true", "features": {"ConsumableCapacities": True}},
            "unknown feature 'ConsumableCapacities'; known are ConsumableCapacity, ListTypeAttributes",
        ),
        ({"expression": "true", "expected": 5}, '"expected" is an object'),
        ({"expression": "true", "name": ["x"]}, '"name" is a text or a number'),
        ([1], "a case is an object"),
        (
            {
                "expression": f"cel.bind(a, dyn({'[' * 20}{']' * 20}), "
                + f"cel.bind(a, dyn({'[' * 20}a{']' * 20}), " * 13
                + "a"
                + ")" * 14
            },
            "the value nests too deep to be written",
        ),
    ],
    ids=["features", "unknown feature", "expected", "name", "list", "deep"],
)
def test_a_row_that_cannot_be_read_or_written_says_why(run, row, error):
    """With the number of its line, as an error of the input."""
    result = run("-", input=json.dumps(row))

    assert result.exit_code == 2
    assert json.loads(result.stdout) == {"name": 1, "error": error, "errorKind": "input"}


def test_cases_passes_over_a_mark_of_the_encoding(run):
    """Some editors put one first."""
    assert run("-", input=b"\xef\xbb\xbf" + json.dumps(CASES[0]).encode()).exit_code == 0


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
