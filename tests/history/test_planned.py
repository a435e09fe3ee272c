"""A table of jobs: it runs on a cluster of files, and each cell that is wrong is named, with what to do."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app
from factories import device_class, pod, resource_slice

from .histories import node

ROOT = Path(__file__).parents[2]


def run(*arguments):
    """Run the verb."""
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def rows(answer):
    """Return the rows of all jobs, by source."""
    return {row["source"]: row for row in json.loads(answer.stdout)["items"] if "namespace" not in row}


@pytest.fixture
def ask(tmp_path):
    """Return a function that runs lines of a table on a node with a card of 80Gi for shares, and a plain one."""
    shared = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    bodies = [node("node-1"), device_class(), resource_slice("slice-1", [shared, {"name": "gpu-1"}])]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all([*bodies, pod("other"), device_class("none", "false")]))

    def ask(*lines):
        table = tmp_path / "jobs.csv"
        table.write_text("\n".join(lines))
        return run("--from", table, "-f", cluster, "-o", "json")

    return ask


def test_the_example_of_the_page_runs(monkeypatch):
    """The command of docs/history.md says what one more node does for the jobs of examples/replay."""
    monkeypatch.chdir(ROOT)
    (line,) = [
        line
        for line in Path("docs/history.md").read_text().splitlines()
        if line.startswith("kubectl dra replay --from")
    ]

    found = rows(run(*shlex.split(line)[3:], "-o", "json"))

    # The third train and the one of two cards wait for the first two; the third node lets the train begin at once.
    assert {name: (row["waits"], row["unserved"]) for name, row in found.items()} == {
        "replay": (6, 0),
        "changed": (6, 0),
    }
    assert found["replay"]["mean"] == 2000
    assert found["changed"]["mean"] == 500


def test_jobs_share_and_stay_and_wait(ask):
    """An amount is of the class's first capacity; who stays keeps it, and who waits to the end is unserved."""
    found = ask(
        "name,arrival,duration,class,amount,cpu",
        "a,1970-01-01T00:00:00Z,,gpu,50Gi,",
        "b,10,100,gpu,30Gi,1",
        "c,20,5,gpu,30Gi,1",
        "d,30,,gpu,60Gi,",
        "e,40,5,gpu,,9",
    )

    row = rows(found)["replay"]
    # c waits for b, the amount of d is never left, and no node has nine CPUs.
    assert (row["waits"], row["unserved"]) == (5, 2)
    assert row["held"] == pytest.approx((115 * 50 + 100 * 30 + 5 * 30) / 80 / 3600, abs=1e-5)
    assert {each["first"]: each["reason"] for each in json.loads(found.stdout)["unserved"]} == {
        "default/d": "CapacityExhausted",
        "default/e": "NodeUnsuitable",
    }
    assert "left out of the files, as only jobs of" in found.stderr
    assert "1 Pod" in found.stderr


def test_selectors_and_numbers_of_devices_count(ask):
    """Two devices are those of both cards, and a selector takes one of them."""
    found = rows(
        ask(
            "name,arrival,duration,class,devices,selector",
            "a,0,100,gpu,2,",
            'b,10,10,gpu,1,"device.allowMultipleAllocations != true"',
        )
    )

    assert found["replay"]["p90"] == 90


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("name", "", "name is empty: fill it in"),
        ("arrival", "soon", 'arrival "soon": is no time: write seconds'),
        ("arrival", "-1", 'arrival "-1": is no time'),
        ("duration", "1h", 'duration "1h": is no number of seconds: write 3600'),
        ("duration", "nan", 'duration "nan": is no number of seconds'),
        ("cpu", "many", '"many" is not a quantity'),
        ("memory", "-1Gi", "is less than nothing: write an amount"),
        ("class", "gpus", 'there is no such DeviceClass: did you mean "gpu"?'),
        ("class", "x", "give its manifest with -f"),
        ("devices", "33", "write one from 1 to 32"),
        ("selector", "device.drivr == 1", 'did you mean "driver"?'),
    ],
)
def test_a_cell_that_is_wrong_is_named(ask, column, value, why):
    """File, line, column and value are named, and what to do; the other lines are right."""
    cells = {"name": "b", "arrival": "1", "class": "gpu"} | {column: value}

    found = ask(
        ",".join(cells),
        ",".join({"name": "a", "arrival": "0", "class": "gpu"}.get(each, "") for each in cells),
        ",".join(cells.values()),
    )

    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()[-1:]
    assert "jobs.csv, line 3: " in line
    assert why in line


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["name,class"], 'line 1: no column "arrival": add it'),
        (["name,arrival,class,size"], 'line 1: column "size": choose from name, arrival'),
        (["name,arrival,class"], "has no job: write one a line"),
        (["name,arrival,class", "a,0,gpu,1"], "line 2: has more cells than columns: put double quotes"),
        (
            ["name,arrival,class,amount", "a,0,none,1"],
            "no device of the class has a capacity: leave it empty",
        ),
    ],
)
def test_a_table_that_is_wrong_is_refused(ask, lines, why):
    """Columns that are missing, unknown or too many are named."""
    found = ask(*lines)

    assert found.exit_code == 2
    assert why in found.stderr


def test_leaving_out_what_is_not_there_is_refused():
    """With a name that is alike, as a typing error would read as no difference."""
    example = ROOT / "examples" / "replay"
    found = run("--from", example / "jobs.csv", "-f", example / "cluster.yaml", "--without", "node/node-l")

    assert found.exit_code == 2
    assert '--without: there was no Node "node-l"; did you mean "node-1"?' in found.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "--history, or a table of jobs with --from"),
        (("--from", "x", "--history", "y"), "not both"),
        (("--from", "x", "-f", "y", "--since", "1d"), "--since and --until are of a record"),
        (("--from", "x", "-f", "y", "--until", "1d"), "--since and --until are of a record"),
        (("--from", "x"), "name both"),
        (("--history", "x", "-f", "y"), "name both"),
        (("--from", "x", "-f", "y", "--check"), "leave out --with, --without and --from"),
        (("--from", "none.csv", "-f", ROOT / "examples" / "nodes.yaml"), "none.csv: No such file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, why):
    """A table needs a cluster, and no record."""
    found = run(*arguments)

    assert found.exit_code == 2
    assert why in found.output
