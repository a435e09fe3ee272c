"""`kubectl dra`, as three users run it, on the real API server; docs/kubectl.md holds what it prints.

UPDATE_DOCS=1 writes what is printed into the page instead of comparing it.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import kubectl_scene
from controlplane import install_component, running_control_plane
from kubectl_scene import READER, VIEWER
from mcp_client import connected

PAGE = Path(__file__).parents[2] / "docs" / "kubectl.md"
QUOTA = "count/resourceclaims.resource.k8s.io"
BLOCK = re.compile(r"^```text\n(\$ kubectl dra .*?\n)(.*?)^```$", re.DOTALL | re.MULTILINE)
AGE = re.compile(r"\b\d+ ?(?:y|d|h|min|m|s)(?:\d+(?:d|h|m|s))?\b *")


@pytest.fixture(scope="module")
def plane(programs, tmp_path_factory):
    """Run a control plane with the scene."""
    with running_control_plane(programs, tmp_path_factory.mktemp("plane")) as found:
        install_component(found, "reader")
        kubectl_scene.build(found.client)
        yield found


@pytest.fixture(scope="module")
def dra(plane, tmp_path_factory):
    """Return a function that runs `kubectl dra` as an administrator, or as somebody else: the finished process."""
    folder = tmp_path_factory.mktemp("files")

    def run(line, user=""):
        arguments = [*shlex.split(line), *([f"--as={user}"] if user else [])]
        environment = {
            "PATH": f"{plane.programs.kubectl.parent}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(plane.admin_kubeconfig),
        }
        return subprocess.run(
            [plane.programs.kubectl, "dra", *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def without_ages(text):
    """Return what is printed without ages, and blanks that depend on them."""
    return [re.sub(r"\s+", " ", AGE.sub("", line)).strip() for line in text.splitlines()]


def test_page_shows_what_is_printed(dra):
    """Every command of docs/kubectl.md prints what the page says, ages aside."""
    text = PAGE.read_text(encoding="utf-8")
    different = []

    def replace(found):
        done = dra(found[1].strip().removeprefix("$ kubectl dra "))
        # At a terminal both are seen, in this order.
        printed = f"{done.stdout}{done.stderr}"
        if without_ages(printed) != without_ages(found[2]):
            different.append((found[1], printed))
        return f"```text\n{found[1]}{printed}```"

    written = BLOCK.sub(replace, text)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(written, encoding="utf-8")
        return
    assert different == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("claims -n team-a", 0),
        ("explain claim/train-1 -n team-a", 2),
        ("top", 2),
        ("devices", 2),
        ("fit class/gpu", 2),
        ("headroom class/gpu", 2),
        ("lint", 2),
        ("impact node/node-1", 2),
        ("who", 2),
        ("audit -n team-a", 2),
    ],
)
def test_viewer_of_a_namespace(dra, line, code):
    """Claims and what the operator wrote on them; for everything else one line that names the missing right."""
    done = dra(line, VIEWER)

    assert done.returncode == code, done.stderr
    if code == 0:
        assert "8 in class large-gpu, 4 in use by claim train-0" in done.stdout
    else:
        (error,) = done.stderr.splitlines()
        assert "not permitted to list resourceslices.resource.k8s.io" in error


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("top -n team-a", 0, "FREE is at most"),
        ("claims -n team-a", 0, "train-1"),
        ("devices --node node-2 -n team-a", 0, "free is at most"),
        ("fit class/gpu -c 3 -n team-a", 2, "as far as can be said"),
        ("fit class/gpu -c 20 -n team-a", 2, "of 20 copies"),
        ("headroom class/gpu -n team-a", 2, "it may be fewer"),
        ("explain claim/train-1 -n team-a", 2, "train-0"),
        ("who node/node-1 -n team-a", 2, "train-0"),
        ("who node/node-2 -n team-a", 2, "no claim that can be read"),
        ("lint -n team-a", 1, "modle"),
        ("impact node/node-1 -n team-a", 2, "train-0"),
        ("audit -n team-a", 2, "not checked"),
    ],
)
def test_reader_of_what_is_published(dra, line, code, words):
    """Answers say that they are about what can be read, and a yes is none without that."""
    done = dra(line, READER)

    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
    assert 'only those of "team-a" are known' in done.stderr or line.startswith(("lint", "claims"))


@pytest.fixture(scope="module")
def workloads(plane):
    """Put a Deployment, a Job and a quota of one claim into a namespace of their own; no controller makes pods."""
    client, space = plane.client, "/namespaces/team-w"
    client.create("/api/v1/namespaces", {"metadata": {"name": "team-w"}})
    template = {"metadata": {"name": "one"}, "spec": {"spec": kubectl_scene.claim_spec(1, "gpu")}}
    client.create(f"{kubectl_scene.RESOURCE}{space}/resourceclaimtemplates", template)
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    entries = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    pods = {"containers": [container], "resourceClaims": entries}
    labels = {"app": "serve"}
    body = {"metadata": {"labels": labels}, "spec": pods}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": body}
    client.create(f"/apis/apps/v1{space}/deployments", {"metadata": {"name": "serve"}, "spec": spec})
    job = {**body, "spec": {**pods, "restartPolicy": "Never"}}
    job_spec = {"parallelism": 3, "completions": 3, "template": job}
    client.create(f"/apis/batch/v1{space}/jobs", {"metadata": {"name": "train"}, "spec": job_spec})
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {QUOTA: "1"}}}
    client.create(f"/api/v1{space}/resourcequotas", quota)
    status = {"hard": {QUOTA: "1"}, "used": {QUOTA: "0"}}
    client.patch(f"/api/v1{space}/resourcequotas/few/status", {"status": status})


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("explain job/train", 1, ["Job", "1 to be made", "2 to be made", "ClaimNotCreated", "ResourceQuota"]),
        ("explain deploy/serve", 0, ['Deployment "team-w/serve"', "1 to be made", "would fit"]),
        ("explain job/nobody", 2, ['there is no Job "team-w/nobody"']),
        ("explain jobset/nobody", 2, ['there is no JobSet "team-w/nobody"']),
        ("fit template/one -c 2", 1, ["1 of 2 copies", 'ResourceQuota "team-w/few"']),
        ("top --missing", 0, ["no node lacks devices"]),
    ],
)
def test_workloads_and_quotas_of_the_cluster(dra, workloads, line, code, words):
    """They are read by their names, with what stands between them and their pods; a CRD may not be there."""
    done = dra(line if line.startswith("top") else f"{line} -n team-w")

    assert done.returncode == code, done.stdout + done.stderr
    assert [word for word in words if word not in done.stdout + done.stderr] == []


def test_names_are_completed(plane, dra):
    """Completion asks `kubectl_complete-dra`, which knows the objects of the cluster."""
    environment = {
        "PATH": f"{plane.programs.kubectl.parent}:/usr/bin:/bin",
        "KUBECONFIG": str(plane.admin_kubeconfig),
        "HOME": "/",
    }
    command = Path(sys.executable).parent / "kubectl_complete-dra"

    def complete(*words):
        done = subprocess.run([command, *words], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("cl")[0] == "claims"
    assert complete("who", "node/node-") == ["node/node-1", "node/node-2", "node/node-3", ":4"]
    assert complete("claims", "-n", "team-a") == ["team-a", ":4"]
    assert len(complete("claims", "--context", "")) == 2
    assert complete("explain", "-n", "team-a", "claim/") == ["claim/train-0", "claim/train-1", ":4"]


def test_plugin_logs_the_user_in_once_alone(plane, dra, tmp_path):
    """A kubeconfig with `exec`: it has the terminal at first, and its token serves all requests."""
    config = yaml.safe_load(plane.admin_kubeconfig.read_text())
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": plane.tokens["admin"]},
    }
    script = tmp_path / "log-in"
    script.write_text(f"#!/bin/sh\necho 'logging in' >&2\necho '{json.dumps(credential)}'\n")
    script.chmod(0o700)
    plugin = {
        "apiVersion": credential["apiVersion"],
        "command": str(script),
        "interactiveMode": "IfAvailable",
    }
    config["users"] = [{**each, "user": {"exec": plugin}} for each in config["users"]]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))

    done = dra(f"top --kubeconfig {file}")

    assert (done.returncode, "node-1" in done.stdout) == (0, True), done.stderr
    assert done.stderr.splitlines().count("logging in") == 1


ON_CALL = {
    "waiting -A": (1, ["NotEnoughDevices large-gpu 1", "pod/train-1 -n team-a"]),
    "status": (1, ["operator does not decide", "no operator decides: it was never installed"]),
    "audit -A": (1, ["NodeGone (1)", "end what uses this claim, and delete it"]),
    "explain pod/train-1 -n team-a": (
        1,
        ["waits: NotEnoughDevices", "it would fit if", "claim train-0 ended"],
    ),
    "explain pod/train-0 -n team-a": (
        0,
        ["node-1/gpu-0", "allocated", "for Pod train-0", "as things are it could be on 1 of 4 nodes: node-1"],
    ),
    "who --value GPU-13": (0, ["team-a/train-0 node-1/gpu-3", "train-0 running"]),
    "who pod/train-0 -n team-a": (0, ["team-a/train-0", "4 of 12 devices held by pod/train-0, by 1 claim"]),
    "who --idle": (0, ["team-b/notebook node-2/gpu-0", "idle"]),
    "top --missing": (0, ["node-9 gpu.example.com"]),
    "impact node/node-1": (1, ["team-a/train-0 evicted", "would not fit elsewhere"]),
}
"""What answers the questions of the page's table, by command: exit code and words."""


def test_each_question_on_call_has_one_command():
    """Those of the page are those that are asked here."""
    page = PAGE.read_text(encoding="utf-8").partition("## On call")[2].partition("\n## ")[0]

    assert re.findall(r"\| `kubectl dra (.*?)` \|", page) == [*ON_CALL]


@pytest.fixture
def node_without_devices(plane):
    """A node whose driver has found nothing."""
    node, found = kubectl_scene.node(9), kubectl_scene.resource_slice(9)
    found["spec"]["devices"] = []
    plane.client.create("/api/v1/nodes", node)
    plane.client.create(f"{kubectl_scene.RESOURCE}/resourceslices", found)
    yield
    plane.client.delete(f"{kubectl_scene.RESOURCE}/resourceslices/{found['metadata']['name']}")
    plane.client.delete("/api/v1/nodes/node-9")


@pytest.mark.parametrize("line", ON_CALL)
@pytest.mark.usefixtures("node_without_devices")
def test_question_on_call_is_answered(dra, line):
    """The command alone answers it."""
    code, words = ON_CALL[line]

    done = dra(line)

    printed = " ".join(f"{done.stdout} {done.stderr}".split())
    assert (done.returncode, [each for each in words if each not in printed]) == (code, []), printed


KINDS = (
    *("nodes", "namespaces", "pods", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
    *("deviceclasses", "devicetaintrules"),
)


@pytest.fixture(scope="module", params=["snapshot", "yaml", "json"])
def filed(plane, tmp_path_factory, request):
    """Write what is in the cluster into a folder, and return the options that ask it."""
    form, folder = request.param, tmp_path_factory.mktemp("state")
    if form == "snapshot":
        command = [sys.executable, "-m", "dra_operator", "snapshot", "--out", str(folder / "state.yaml")]
        subprocess.run([*command, f"--kubeconfig={plane.admin_kubeconfig}"], check=True, capture_output=True)
        return f"--snapshot {folder}/state.yaml"
    for kind in KINDS:
        command = [plane.programs.kubectl, f"--kubeconfig={plane.admin_kubeconfig}", "get", kind]
        done = subprocess.run([*command, "-A", "-o", form], check=True, capture_output=True)
        (folder / f"{kind}.{form}").write_bytes(done.stdout)
    return f"--offline -f {folder}"


@pytest.mark.parametrize(
    "line", ["waiting -A", "who", "top", "claims -A", "explain pod/train-1 -n team-a", "audit -A"]
)
def test_files_answer_as_the_cluster(dra, filed, line):
    """A snapshot, and what `kubectl get` printed, say of everything what the cluster says, with the same exit code."""
    live, told = dra(line), dra(f"{line} {filed}")

    assert told.returncode == live.returncode, told.stderr
    assert without_ages(told.stdout) == without_ages(live.stdout)


UNDER_THE_CURSOR = {
    "pods": ("team-a", "train-1"),
    "resourceclaims": ("team-a", "train-1"),
    "resourceclaimtemplates": ("team-w", "one"),
    "deployments": ("team-w", "serve"),
    "jobs": ("team-w", "train"),
    "nodes": ("", "node-1"),
    "namespaces": ("", "team-a"),
    "deviceclasses": ("", "gpu"),
}


def test_plugins_of_k9s_run(plane, workloads, tmp_path):
    """Each command of docs/k9s, as k9s fills it in for an object of each of its scopes, has an answer."""
    plugins = yaml.safe_load((PAGE.parent / "k9s" / "plugins.yaml").read_text())["plugins"]
    path = f"{plane.programs.kubectl.parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(plane.admin_kubeconfig)}
    context = plane.kubectl("config", "current-context").strip()

    def fill_in(text, scope):
        # There is no object of some scopes: that this is said is an answer, too.
        space, name = UNDER_THE_CURSOR.get(scope, ("team-w", "nobody"))
        # k9s has - for the namespace of what is in none.
        given = {"RESOURCE_NAME": scope, "NAME": name, "NAMESPACE": space or "-", "CONTEXT": context}
        return name, re.sub(r"\$([A-Z_]+)", lambda found: given[found[1]], text)

    failed = []
    for name, plugin in plugins.items():
        assert plugin.keys() == {"shortCut", "description", "scopes", "command", "background", "args"}
        for scope in plugin["scopes"]:
            target, script = fill_in(plugin["args"][1], scope)
            command = [plugin["command"], plugin["args"][0], script]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if target not in done.stdout or "Usage" in done.stdout or "Traceback" in done.stdout:
                failed.append((name, scope, done.stdout, done.stderr))
    assert failed == []


TOOLS = {
    **{name: {} for name in ("top", "claims", "waiting", "devices", "who", "lint", "status", "audit")},
    **{name: {"subject": "class/gpu"} for name in ("fit", "headroom")},
    "explain": {"subject": "pod/train-1", "namespace": "team-a"},
    "impact": {"subject": "node/node-1"},
}


async def test_assistant_asks_and_writes_nothing(plane, tmp_path):
    """Each tool answers from the API server with the rights of the kubeconfig; the audit log has reads alone."""
    account = {"kind": "ServiceAccount", "name": "assistant", "namespace": "team-a"}
    plane.client.create("/api/v1/namespaces/team-a/serviceaccounts", {"metadata": {"name": "assistant"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "assistant"}, "subjects": [account], "roleRef": role}
    plane.client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    environment = {"PATH": f"{plane.programs.kubectl.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    program = Path(sys.executable).parent / "kubectl-dra"
    options = ("mcp", f"--kubeconfig={plane.kubeconfig_for('assistant', 'team-a')}")
    async with connected(program, *options, environment=environment) as session:
        answers = {name: await session.call_tool(name, arguments) for name, arguments in TOOLS.items()}
    async with connected(program, *options, f"--as={VIEWER}", environment=environment) as session:
        refused = await session.call_tool("top", {})

    assert [name for name, answer in answers.items() if not answer.structured_content] == []
    assert refused.is_error
    assert "not permitted to list resourceslices.resource.k8s.io" in refused.content[0].text
    assert {event["verb"] for event in plane.requests_of("assistant", "team-a")} == {"get", "list"}
