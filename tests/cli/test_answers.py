"""What people asked and were answered wrongly, or could not ask: what an answer has to say, and what it must not.

Each file of `answers` is a kind of situation, from a public thread or from a trial; the comment on top says which,
and what is right. Its cases have objects, or those of another case with merge patches, and commands.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.api.kinds import KINDS
from dra_operator.cli.commands import app as offline
from dra_operator.cli.kubectl.commands import app as kubectl
from dra_operator.pods.workloads import KNOWN_WORKLOADS

FOLDER = Path(__file__).parent / "answers"
HEADER = "# dra-operator snapshot\n# taken: 2026-09-05T12:00:00Z\n"
AMOUNTS = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
READY = {"allocatable": AMOUNTS, "capacity": AMOUNTS, "conditions": [{"type": "Ready", "status": "True"}]}
WORKLOADS = {
    known.kind: f"{known.group}/{known.versions[0]}"
    for known in reversed(KNOWN_WORKLOADS.values())
    if known.group
}


def patched(value, patch):
    """Return a value after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, each in patch.items():
        found[name] = patched(found.get(name), each)
        if each is None:
            del found[name]
    return found


def whole(body):
    """Return an object of a file with what files leave out: its version, what nodes have, images."""
    kind = body["kind"]
    versions = {name: known.api_version(known.versions[0]) for name, known in KINDS.items()} | WORKLOADS
    found = body if "apiVersion" in body else {"apiVersion": versions[kind], **body}
    if kind == "Node":
        found["status"] = {**READY, **found.get("status", {})}
    if kind == "Pod":
        for container in (*found["spec"].get("initContainers", ()), *found["spec"]["containers"]):
            container.setdefault("image", "registry.test/app:1")
    return found


def objects_of(cases, case):
    """Return the objects of a case."""
    base = cases[case["from"]] if "from" in case else case
    found = {f"{body['kind']}/{body['metadata']['name']}": body for body in base["objects"]}
    found |= {name: patched(found.get(name), patch) for name, patch in case.get("changes", {}).items()}
    return [whole(json.loads(json.dumps(body))) for body in found.values() if body]


def text_of(bodies, form):
    """Return a file with some objects: a snapshot, one that was cut, manifests, or a list as kubectl prints it."""
    if form == "list":
        items = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
        return items.replace("<half>", "\\ud800")
    documents = yaml.safe_dump_all(bodies, sort_keys=False)
    if form == "cut":
        return HEADER + documents
    return documents if form else f"{HEADER}{documents}...\n"


def asks():
    """Return all commands, each with its case and what holds of its answer."""
    for path in sorted(FOLDER.iterdir()):
        cases = yaml.safe_load(path.read_text(encoding="utf-8"))["cases"]
        for name, case in cases.items():
            form = case.get("plain", cases[case["from"]].get("plain") if "from" in case else None)
            for ask in case["asks"]:
                bodies = objects_of(cases, case)
                yield pytest.param(text_of(bodies, form), ask, id=f"{path.stem}: {name}: {ask['ask']}")


@pytest.mark.parametrize(("text", "ask"), [*asks()])
def test_answer_says_what_is_right(text, ask, tmp_path, monkeypatch):
    """All that is to be said is, what is wrong is not, and the exit code is right."""
    monkeypatch.chdir(tmp_path)
    Path("input.yaml").write_text(text, encoding="utf-8")
    for name, body in ask.get("files", {}).items():
        Path(name).write_text(yaml.safe_dump(body), encoding="utf-8")
    name, *words = shlex.split(ask["ask"])
    app = offline if name == "dra-operator" else kubectl

    result = CliRunner().invoke(app, words if name == "dra-operator" else words[1:], prog_name=name)

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    missing = [each for each in ask.get("says", ()) if not re.search(each, result.output)]
    wrong = [each for each in ask.get("lacks", ()) if re.search(each, result.output)]
    assert (missing, wrong, ask.get("code", result.exit_code)) == ([], [], result.exit_code), result.output
