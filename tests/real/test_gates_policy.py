"""The component `gates` on the real API server: what the operator may do to pods, and which pods get the gate."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from controlplane import Scene
from controlplane.client import MERGE_PATCH
from controlplane.fencing import ADMISSION, install, remove
from controlplane.manifests import MANIFESTS, NAMESPACE, SERVICE_ACCOUNT
from dra_operator.api.names import CLAIMS_LABEL, GATE, LET_GO_ANNOTATION

GATES = MANIFESTS / "components" / "gates"
FILES = (GATES / "access.yaml", GATES / "policy.yaml", GATES / "managed-namespaces" / "policy.yaml")
OTHER = "example.com/other"


@pytest.fixture(scope="module")
def gated_plane(access):
    """Apply the component to the shared control plane, and wait until its policies are in force."""
    files = [f"--filename={file}" for file in FILES]
    access.kubectl("apply", *files, "--warnings-as-errors")
    yield access
    access.kubectl("delete", *files)


@pytest.fixture
def gated(gated_plane, namespace):
    """Return a managed namespace of it, in which both policies are in force."""
    scene = Scene(gated_plane, namespace)
    label = {"metadata": {"labels": {CLAIMS_LABEL: "managed"}}}
    scene.client.patch(f"/api/v1/namespaces/{namespace}", label)
    scene.client.wait_for(
        "/healthz",
        lambda _: gates(create(scene, query="?dryRun=All")) == [GATE],
        what="the policy that gates pods",
    )
    create(scene, "probe", gates=[GATE])
    scene.client.wait_for(
        "/healthz",
        lambda _: patch(scene, {"metadata": {"labels": {"a": "b"}}}, "probe", "?dryRun=All").status == 403,
        what="the policy that confines the operator",
    )
    return scene


def pods(scene):
    """Return the path of the pods."""
    return f"/api/v1/namespaces/{scene.namespace}/pods"


def create(scene, name="pod", *, claims=True, gates=(), query="", **spec):
    """Create a pod and return it as stored."""
    body = {
        "metadata": {"name": name, "annotations": {"kept": "text"}},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "schedulingGates": [{"name": gate} for gate in gates],
            **({"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]} if claims else {}),
            **spec,
        },
    }
    return scene.client.create(pods(scene) + query, body)


def gates(pod):
    """Return the gates of a pod, by name."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def patch(scene, body, name="pod", tail=""):
    """Patch a pod as the operator; `tail` is a subresource, or a query."""
    client = scene.plane.client_for(SERVICE_ACCOUNT, NAMESPACE)
    return client.request("PATCH", f"{pods(scene)}/{name}{tail}", body, content_type=MERGE_PATCH)


NO_GATE = {"spec": {"schedulingGates": [{"name": OTHER}]}}
MARK = {"metadata": {"annotations": {LET_GO_ANNOTATION: "2026-01-01T00:00:00Z node-1 uid"}}}


def test_gate_off_and_nomination_are_allowed(gated):
    """Both writes of the operator pass, and change what they say; the gate goes with the annotation that says so."""
    create(gated, gates=[GATE, OTHER])

    nominated = patch(gated, {"status": {"nominatedNodeName": "node-1"}}, tail="/status")
    assert (nominated.status, nominated.body["status"]["nominatedNodeName"]) == (200, "node-1")
    taken_off = patch(gated, MARK | NO_GATE)
    assert (taken_off.status, gates(taken_off.body)) == (200, [OTHER])
    assert LET_GO_ANNOTATION in taken_off.body["metadata"]["annotations"]
    cleared = patch(gated, {"status": {"nominatedNodeName": None}}, tail="/status")
    assert cleared.status == 200
    assert "nominatedNodeName" not in cleared.body["status"]


@pytest.mark.parametrize(
    ("tail", "body", "said"),
    [
        ("", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels: "),
        ("", {"metadata": {"annotations": {"a": "b"}}}, "metadata.annotations.a: "),
        ("", MARK, "metadata.annotations.dra-operator.io/let-go: "),
        ("/status", MARK, "metadata.annotations.dra-operator.io/let-go: "),
        ("", {"metadata": {"annotations": {"kept": None}}, **NO_GATE}, "metadata.annotations.kept: "),
        ("", {"metadata": {"finalizers": ["example.com/own"]}}, "metadata.finalizers: "),
        ("", {"spec": {"nodeSelector": {"disk": "ssd"}}}, "spec.nodeSelector: "),
        ("", {"spec": {"activeDeadlineSeconds": 1}}, "spec.activeDeadlineSeconds: "),
        (
            "",
            {"spec": {"schedulingGates": [{"name": GATE}]}},
            "spec.schedulingGates: dra-operator takes off its own gate",
        ),
        ("", {"spec": {"schedulingGates": []}}, "spec.schedulingGates: dra-operator takes off its own gate"),
        ("/status", {"status": {"phase": "Succeeded"}}, "status.phase: "),
        ("/status", {"status": {"conditions": []}}, "status.conditions: "),
        ("/status", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels: "),
        ("", {"metadata": {"labels": {"a": "b"}}, **NO_GATE}, "metadata.labels: "),
        (
            "/status",
            {"status": {"nominatedNodeName": "node-1", "message": "text", "reason": "Text"}},
            ["status.message", "status.reason", ": dra-operator takes its scheduling gate off pods"],
        ),
    ],
    ids=[
        "label",
        "annotation",
        "mark without the gate",
        "mark by way of the status",
        "annotation of another with the gate",
        "finalizer",
        "nodeSelector",
        "other field of spec",
        "gate of another",
        "all gates",
        "phase",
        "conditions",
        "label by way of the status",
        "label with the gate",
        "further fields with the nomination",
    ],
)
def test_everything_else_is_refused_to_the_operator(gated, tail, body, said):
    """The fields are named, and what it may do."""
    create(gated, gates=[GATE, OTHER])

    answer = patch(gated, body, tail=tail)

    assert answer.status == 403, answer.body
    # The API server names several fields in no fixed order.
    for part in [said] if isinstance(said, str) else said:
        assert part in answer.body["message"]


def test_others_change_pods_as_before(gated):
    """The policy concerns the operator's account alone."""
    create(gated, gates=[GATE, OTHER])

    gated.client.patch(
        f"{pods(gated)}/pod", {"metadata": {"labels": {"a": "b"}}, "spec": {"schedulingGates": []}}
    )
    gated.client.patch(f"{pods(gated)}/pod/status", {"status": {"message": "text"}})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, [GATE]),
        ({"gates": [OTHER]}, [OTHER, GATE]),
        ({"gates": [GATE]}, [GATE]),
        ({"claims": False}, []),
        ({"nodeName": "node-1"}, []),
        ({"schedulerName": "other"}, []),
    ],
    ids=[
        "with claims",
        "gate of another",
        "gated already",
        "without claims",
        "with a node",
        "other scheduler",
    ],
)
def test_pod_gets_the_gate_if_it_has_claims_and_is_kube_scheduler_s(gated, spec, expected):
    """In a managed namespace; gates of others stay."""
    assert sorted(gates(create(gated, **spec))) == sorted(expected)


def test_the_commands_of_the_page_take_off_the_nomination_and_then_the_gate(gated):
    """Of each pod that has the gate, gates of others stay; a pod that has been let go is not touched."""
    create(gated, "gated", gates=["example.com/other", GATE])
    create(gated, "let-go", claims=False)
    nomination = {"status": {"nominatedNodeName": "node-1"}}
    for name in ("gated", "let-go"):
        assert patch(gated, nomination, name, "/status?fieldManager=dra-operator").ok
    page = (Path(__file__).parents[2] / "docs" / "tasks" / "gate-pods.md").read_text(encoding="utf-8")
    script = page.partition("## Take the gate off")[2].partition("```sh\n")[2].partition("```")[0]

    folder = Path(gated.plane.programs.kubectl).parent
    environment = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(gated.plane.admin_kubeconfig),
        "HOME": str(gated.plane.directory),
    }
    own = script.replace("--all-namespaces", f"--namespace={gated.namespace}")
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", own], env=environment, capture_output=True, text=True, check=True
    )

    assert (
        result.stdout == "pod/gated patched\n" * 2 + "pod/probe patched (no change)\n" + "pod/probe patched\n"
    )
    found = {pod["metadata"]["name"]: pod for pod in gated.client.get(pods(gated))["items"]}
    assert gates(found["gated"]) == ["example.com/other"]
    assert gates(found["probe"]) == []
    assert "nominatedNodeName" not in found["gated"]["status"]
    assert found["let-go"]["status"]["nominatedNodeName"] == "node-1"


def test_api_server_finds_no_fault_with_the_expressions(full_scene):
    """Its controller checks their types against the API's schema."""
    policy, _ = yaml.safe_load_all((GATES / "policy.yaml").read_text())
    policy["metadata"]["name"] += "-checked"
    install(full_scene, [policy])
    try:
        found = full_scene.client.wait_for(
            f"{ADMISSION}/validatingadmissionpolicies/{policy['metadata']['name']}",
            lambda policy: (policy.get("status") or {}).get("observedGeneration"),
        )
        assert (found["status"].get("typeChecking") or {}).get("expressionWarnings", []) == []
    finally:
        remove(full_scene.client, policy["metadata"]["name"])
