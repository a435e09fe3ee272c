"""The examples: each says on top what to expect, and `simulate` must say the same."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import CliRunner as ClickRunner

from dra_operator.cli.kubectl.commands import app as kubectl
from dra_operator.cli.simulate import app

EXAMPLES = Path(__file__).parents[2] / "examples"
FEATURES = sorted([*EXAMPLES.glob("features/*.yaml"), *EXAMPLES.glob("1.37/*.yaml")])

STORIES = {
    "walkthrough": {
        "example-resource-claim": "-  ClaimsDoNotFitTogether",
        "shared-gpu": "node-1  gpu: driver.example.com/node-1/gpu-1",
    },
    "prioritized-list": {
        "train-0": "node-1  gpu/h100: gpu.example.com/node-1/gpu-0",
        "train-1": "node-2  gpu/a100: gpu.example.com/node-2/gpu-0, gpu.example.com/node-2/gpu-1",
        "train-2": "-  DeviceInUse",
    },
    "taints": {
        "plain": "-  DeviceTainted",
        "tolerates-broken": "node-1  nic: nic.example.com/node-1/nic-0",
        "tolerates-test": "node-1  nic: nic.example.com/node-1/nic-1",
    },
    "admin-access": {
        "monitor": "-  AdminAccessDenied",
        "work": "node-1  fpga: fpga.example.com/node-1/fpga-0",
    },
    "broken": {
        "does-not-compile": "-  SelectorInvalid",
        "incomplete-pool": "-  PoolIncomplete",
        "missing-attribute": "-  SelectorFailed",
        "unknown-class": "-  ClassNotFound",
        "works": "node-1  disk: disk.example.com/node-1/disk-0",
    },
}
"""The folders that tell a story in several files: of each claim its node and devices, or why it waits."""

_OF_A_JOB = re.compile(r"default/(example-dra-job|job-that-fits)-\d-")


def simulate(*paths, options=()):
    """Simulate some files; what could not be read fails the test."""
    result = CliRunner().invoke(app, ["-f", *map(str, paths), *options])
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def rows(text):
    """Return the rows of the table, columns two spaces apart."""
    return [re.sub(" {2,}", "  ", line) for line in text.splitlines()[1:]]


def expected(example, title):
    """Return the lines below a title in the comment on top of an example."""
    comment = re.match("(#.*\n)*", example.read_text(encoding="utf-8")).group()
    block = re.search(rf"^# {title}:\n((#   .*\n)*)", comment, re.MULTILINE)
    return [line.removeprefix("#   ") for line in block.group(1).splitlines()] if block else []


def named(path):
    """Return the name of an example as a test's id."""
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("example", FEATURES, ids=named)
def test_example_comes_out_as_it_says(example):
    """The table of `simulate` is the one in the comment on top of the file."""
    assert rows(simulate(example)) == expected(example, "Expected")


@pytest.mark.parametrize(
    "example", [path for path in FEATURES if expected(path, "Expected configuration")], ids=named
)
def test_example_gets_the_configuration_it_says(example):
    """Source, requests and parameters of the configuration are those in the comment on top of the file."""
    found = []
    for claim in json.loads(simulate(example, options=["-o", "json"]))["items"]:
        name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        for entry in claim["status"]["allocation"]["devices"]["config"]:
            requests = ",".join(entry.get("requests", [])) or "all requests"
            parameters = json.dumps(entry["opaque"]["parameters"], sort_keys=True)
            found.append(f"{name}  {entry['source']}  {requests}  {parameters}")

    assert found == expected(example, "Expected configuration")


@pytest.mark.parametrize("story", STORIES)
def test_story_comes_out_as_it_does_in_a_cluster(story):
    """Claims get the devices, or the reason, that they get from the operator on a real API server."""
    table = rows(simulate(EXAMPLES / "nodes.yaml", EXAMPLES / story))

    told = {row.split("  ")[0]: row.split("  ", 2)[2].split(": request")[0] for row in table}
    assert {
        name: re.split(": (claim|class|each claim)", told[f"default/{name}"])[0] for name in STORIES[story]
    } == (STORIES[story])
    # The others are those of the pods of Jobs, which the operator leaves to kube-scheduler.
    assert {name for name in told if not _OF_A_JOB.match(name)} == {
        f"default/{name}" for name in STORIES[story]
    }


def test_every_story_is_here():
    """A folder is a story above, has files of what to expect, or is asked by `kubectl dra`, as kinds or a replay."""
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}

    assert folders == {*STORIES, "features", "1.37", "questions", "kinds", "gangs", "replay"}


@pytest.mark.parametrize("name", ["job", "jobset", "leaderworkerset", "podgroup"])
def test_gang_is_explained_as_its_example_says(name):
    """Each file of `gangs` says on top how many of its pods fit together beside those of the cluster."""
    example = EXAMPLES / "gangs" / f"{name}.yaml"
    said = re.findall("^# explain: (.*)$", example.read_text(encoding="utf-8"), re.MULTILINE)
    words = ["explain", str(example), "--offline", "-f", str(EXAMPLES / "gangs" / "cluster.yaml")]
    result = ClickRunner().invoke(kubectl, words)

    assert said
    assert [line for line in result.output.splitlines() if "fit together" in line] == said
    assert result.exit_code == any("does not fit" in line for line in said)
