"""`dra-operator release` against the API server in memory."""

import pytest

from cluster import pod
from dra_operator.api.names import CLAIMS_LABEL, GATE
from dra_operator.cli.release import next_write
from dra_operator.cluster.pod_writes import GateWrite, NominateWrite

OTHER = "example.com/other"
OURS = {
    "manager": "dra-operator",
    "operation": "Update",
    "subresource": "status",
    "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}},
}


def gated(name="pod", gates=(GATE,), *, namespace="default", nominated=None, managers=(), **spec):
    """A pod with gates that waits."""
    body = pod(name, phase="Pending", namespace=namespace, **spec)
    body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    body["metadata"]["managedFields"] = list(managers)
    if nominated:
        body["status"]["nominatedNodeName"] = nominated
    return body


def state(cluster, name="pod", namespace="default"):
    """Return the gates of a pod and the node that it is nominated to."""
    found = cluster.server.get("Pod", name, namespace)
    gates = [gate["name"] for gate in found["spec"].get("schedulingGates") or ()]
    return gates, found["status"].get("nominatedNodeName")


async def test_gate_and_nomination_are_taken_off(cluster, run):
    """Gates of others stay; each pod has a line."""
    cluster.put(gated(gates=[OTHER, GATE]), gated("second"))
    await cluster.nominate("node-1")
    result = await run("release", "--all-namespaces")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "default/pod released\ndefault/second released\n"
    assert state(cluster) == ([OTHER], None)
    assert state(cluster, "second") == ([], None)


async def test_pod_of_another_namespace_keeps_its_gate(cluster, run):
    """Gates can be switched off for one namespace."""
    cluster.put(gated(), gated("other", namespace="team-b"))
    result = await run("release", "--namespace", "default")

    assert result.stdout == "default/pod released\n"
    assert state(cluster, "other", "team-b") == ([GATE], None)


async def test_dry_run_writes_nothing(cluster, run):
    """It says which pods it would release."""
    cluster.put(gated(nominated="node-1"))
    result = await run("release", "-A", "--dry-run=client")

    assert result.stdout == "default/pod released (dry run)\n"
    assert state(cluster) == ([GATE], "node-1")


async def test_nothing_to_release_is_said(cluster, run):
    """Pods without our gate are nobody's business."""
    cluster.put(gated(gates=[OTHER], nominated="node-1"))
    result = await run("release", "-A")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"note: no pod has the gate {GATE}\n"
    assert state(cluster) == ([OTHER], "node-1")


async def test_namespace_that_gates_new_pods_is_named(cluster, run):
    """With the command that ends that."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    namespace["metadata"]["labels"] = {CLAIMS_LABEL: "managed"}
    cluster.put(namespace)
    result = await run("release", "-A")

    assert "warning: namespace team-a has the label dra-operator.io/claims=managed" in result.stderr
    assert "kubectl label namespace team-a dra-operator.io/claims-" in result.stderr


async def test_namespaces_or_all_have_to_be_named(run):
    """Neither is the default: it would be the wrong one for somebody."""
    result = await run("release")

    assert result.exit_code == 2
    assert "--namespace" in result.stderr


async def test_pod_that_cannot_be_written_is_named_and_the_others_are_released(cluster, run):
    """The exit code says that not all is done."""
    cluster.put(gated(), gated("second"))
    cluster.server.faults.answer(
        403, message='User "a" cannot patch resource "pods"', verb="patch", kind="Pod", name="pod", times=None
    )
    result = await run("release", "-A")

    assert result.exit_code == 1
    assert result.stdout == "default/second released\n"
    assert "error: default/pod: patch pods: 403" in result.stderr


VERSION = ("default", "pod", "u", "5")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (gated(nominated="node-1", managers=[OURS]), NominateWrite(*VERSION, "node-1", None)),
        (gated(nominated="node-1"), GateWrite(*VERSION, (GATE,))),
        (gated(), GateWrite(*VERSION, (GATE,))),
        (gated(gates=[], nominated="node-1", managers=[OURS]), NominateWrite(*VERSION, "node-1", None)),
        (gated(gates=[], nominated="node-1"), None),
        (gated(gates=[], nominated="node-1", managers=[OURS], nodeName="node-1"), None),
        (gated(gates=[], managers=[OURS | {"fieldsV1": {"f:status": {}}}]), None),
        ({**gated(), "status": {"phase": "Failed"}}, None),
    ],
    ids=[
        "nomination first",
        "nomination of another stays",
        "then the gate",
        "our nomination without the gate",
        "nomination of another",
        "bound",
        "no nomination",
        "ended",
    ],
)
def test_what_is_written_next(body, expected):
    """Whose a nomination is the API server says."""
    body["metadata"].update(uid="u", resourceVersion="5")

    assert next_write(body) == expected
