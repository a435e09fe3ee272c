"""SARIF of `lint` and `audit`, and the action and the hook that run `lint` on the files of a repository."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SCHEMA = json.loads((ROOT / "tests/schemas/sarif/sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
SELECTOR = """\
# Of two documents.
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel:
      expression: device.driver == "gpu.example.com"
  - cel:
      expression: device.driver.matchs("gpu")
---
# A claim that is right.
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: right, namespace: team-a}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu}}
"""
FIELD = """\
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: wrong, namespace: team-a}
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu
          cuont: 3
"""
SYNTAX = "apiVersion: v1\nkind: [\n"
FOUND = [
    ("manifests/a%20class.yaml", 10, 'no such function "matchs"; did you mean "matches"?'),
    ("manifests/field.yaml", 13, 'cuont: unknown field; did you mean "count"?'),
    ("manifests/syntax.yaml", 3, "no YAML"),
]


@pytest.fixture
def repository(tmp_path):
    """Return a folder with three manifests that are broken."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    for name, text in (("a class", SELECTOR), ("field", FIELD), ("syntax", SYNTAX)):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def run(command, folder, **environment):
    """Run a command with the programs of the environment, in a folder."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "PATH": f"{BIN}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def results(text):
    """Return the results of a log that follows the schema: file, line and text of each."""
    log = json.loads(text)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    found = []
    for result in log["runs"][0]["results"]:
        place = result["locations"][0]["physicalLocation"]
        line = place["region"]["startLine"]
        found.append((place["artifactLocation"]["uri"], line, result["message"]["text"]))
    return sorted(found)


def assert_found(found):
    """Hold results against what is broken."""
    assert [each[:2] for each in found] == [each[:2] for each in FOUND]
    assert [text for (*_, said), (*_, text) in zip(found, FOUND, strict=True) if text not in said] == []


def test_action_tells_file_line_and_what_to_do(repository):
    """The step of `action.yml` writes SARIF, prints the findings, and fails."""
    (step,) = [
        each for each in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if "env" in each
    ]

    done = run(["bash", "-e", "-c", step["run"]], repository, MANIFESTS="manifests", SARIF="found.sarif")

    assert done.returncode == 1
    assert_found(results((repository / "found.sarif").read_text()))
    assert [text for *_, text in FOUND if text not in done.stdout] == []


def test_hook_tells_what_to_do(repository):
    """The entry of `.pre-commit-hooks.yaml`, with the arguments of its user, fails, and says why."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    done = run([*hook["entry"].split(), "-f", "manifests/"], repository)

    assert done.returncode == 1
    assert [text for *_, text in FOUND if text not in done.stdout] == []


def test_path_that_is_not_there_is_no_finding(repository):
    """A slip on the command line has no log, and the exit code of wrong usage."""
    done = run(["kubectl-dra", "lint", "--offline", "-f", "manifest", "-o", "sarif"], repository)

    assert (done.returncode, done.stdout) == (2, "")
    assert "manifest: No such file or directory" in done.stderr


def test_files_lie_over_a_snapshot(repository):
    """Without `--offline`, too, what cannot be read is a finding, and the rest is linted."""
    snapshot = ROOT / "examples" / "questions" / "cluster.yaml"

    done = run(["kubectl-dra", "lint", "--snapshot", snapshot, "-f", "manifests", "-o", "sarif"], repository)

    # The claim's request has none of the snapshot's devices, either.
    found = results(done.stdout)
    assert_found([each for each in found if "no published device" not in each[2]])
    assert (done.returncode, len(found)) == (1, 4)


def test_object_that_is_written_twice_is_told(tmp_path):
    """Of two files with one object the last is linted, and the other is not passed over in silence."""
    for name, text in (("dev", SELECTOR), ("prod", SELECTOR.replace("matchs", "matches"))):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")

    done = run(["kubectl-dra", "lint", "--offline", "-f", ".", "-o", "sarif"], tmp_path)

    assert done.returncode == 1
    found = [each for each in results(done.stdout) if "was not checked" in each[2]]
    assert [each[:2] for each in found] == [("dev.yaml", 2), ("dev.yaml", 13)]


def test_audit_names_the_object_and_its_line(tmp_path):
    """A finding of a snapshot has the line at which its object begins."""
    snapshot = ROOT / "examples" / "questions" / "cluster.yaml"

    done = run(["kubectl-dra", "audit", "--snapshot", snapshot, "-o", "sarif"], tmp_path)

    lines = snapshot.read_text(encoding="utf-8").splitlines()
    found = results(done.stdout)
    assert len(found) == 3
    for uri, line, text in found:
        name = text.partition(":")[0].rpartition("/")[2]
        assert uri == snapshot.as_uri()
        assert f"name: {name}" in "\n".join(lines[line - 1 : line + 20])


def test_nothing_found_is_a_log_too(tmp_path):
    """What is right has no results."""
    (tmp_path / "right.yaml").write_text(SELECTOR.replace("matchs", "matches"), encoding="utf-8")

    done = run(["kubectl-dra", "lint", "--offline", "-f", "right.yaml", "-o", "sarif"], tmp_path)

    log = json.loads(done.stdout)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    assert {each["level"] for each in log["runs"][0]["results"]} <= {"note", "warning"}
