"""Whether an operator decides in a cluster, and what for."""

import pytest

from dra_operator.api.names import GATE, SETTLED_ANNOTATION
from dra_operator.questions.status import find_status
from factories import taint_rule
from small_cluster import cluster, pod

NOW = 1767225600.0
OWNED = {"key": "dra-operator.io/owned", "effect": "NoSchedule"}
ALL = ("Lease", "Pod", "Node")


def lease(holder="operator-0", seconds=1):
    """The Lease, renewed so many seconds before now."""
    spec = {
        "holderIdentity": holder,
        "renewTime": f"2025-12-31T23:59:{60 - seconds:02}.000000Z",
        "leaseDurationSeconds": 15,
    }
    metadata = {"name": "dra-operator", "namespace": "system"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def policy(name, sort="Validating", *, bound=True):
    """A policy that the project ships, and its binding."""
    kinds = [f"{sort}AdmissionPolicy", *([f"{sort}AdmissionPolicyBinding"] if bound else [])]
    version = "admissionregistration.k8s.io/v1"
    return [{"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {}} for kind in kinds]


def operator_pod(*, ready):
    """A pod of the operator's Deployment."""
    body = pod("operator-0", entries=[], uid="operator-0", nodeName="n1")
    body["metadata"]["labels"] = {"app.kubernetes.io/name": "dra-operator"}
    body["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return body


def rule(*, settled=False):
    """A rule that owns the devices of the small cluster."""
    body = taint_rule("owned", {"driver": "gpu.example.com"}, **OWNED)
    body["metadata"] |= {"uid": "u", "generation": 1}
    if settled:
        body["metadata"]["annotations"] = {SETTLED_ANNOTATION: "u/1/policy-uid"}
    return body


def gated(name, *, gate=True):
    """A pod with the gate."""
    body = pod(name, entries=[], uid=name, schedulingGates=[{"name": GATE}] if gate else [])
    body["metadata"]["creationTimestamp"] = "2025-12-31T23:00:00Z"
    body["status"] = {"phase": "Pending"}
    return body


SITUATIONS = {
    "never installed": ([], False, "it was never installed, or is uninstalled"),
    "uninstalled with rules left": (
        [rule(settled=True)],
        False,
        "devices are owned by DeviceTaintRule owned",
    ),
    "operator killed": (
        [lease(seconds=50), gated("train")],
        False,
        "no operator decides, though pods have its gate (1): see why its Deployment has no ready pod",
    ),
    "standby only": (
        [lease(holder=""), operator_pod(ready=True)],
        False,
        "pods of the operator are ready (1) and none decides",
    ),
    "policy gone": (
        [lease(), operator_pod(ready=True), rule(settled=True)],
        True,
        "policy dra-operator-owned is not installed",
    ),
    "policy without binding": (
        [lease(), operator_pod(ready=True), *policy("dra-operator-gates", bound=False)],
        True,
        "ValidatingAdmissionPolicy dra-operator-gates has no binding",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_is_told_from_the_others(name):
    """The one fault names what is wrong; the answer is no."""
    bodies, decides, said = SITUATIONS[name]
    report = find_status(cluster(*bodies, now=NOW, listed=ALL))

    assert report.decides is decides
    (fault,) = report.faults
    assert said in fault
    assert report.conclusion == "no"


def test_an_operator_that_decides_has_no_faults():
    """Policies, owned devices, and how far pods are, are told beside it."""
    bodies = [lease(), operator_pod(ready=True), rule(settled=True), gated("train")]
    found = cluster(*bodies, *policy("dra-operator-owned"), now=NOW, listed=ALL)
    report = find_status(found)

    assert (report.decides, report.faults, report.conclusion) == (True, (), "yes")
    assert (report.owned_devices, report.settled, report.ready) == (4, 1, 1)
    assert [(each.state, each.count) for each in report.gated] == [("waiting", 1)]
    assert [each.name for each in report.policies if each.is_installed] == ["dra-operator-owned"]


@pytest.mark.parametrize("others", [[], [rule()]], ids=["alone", "beside one that owns"])
def test_rule_without_a_driver_owns_nothing(others):
    """Its taint is on all devices, which are not owned for that: the count and the owners say the same."""
    report = find_status(cluster(lease(), taint_rule("all", {}, **OWNED), *others, now=NOW, listed=ALL))

    assert report.owners == tuple(f"DeviceTaintRule {each['metadata']['name']}" for each in others)
    assert report.owned_devices == (4 if others else 0)


@pytest.mark.parametrize("mark", ["u/2/policy-uid", "v/1", ""])
def test_mark_of_another_rule_does_not_count(mark):
    """A rule that was changed or made anew has not settled."""
    body = rule()
    body["metadata"]["annotations"] = {SETTLED_ANNOTATION: mark}

    assert find_status(cluster(lease(), body, now=NOW, listed=ALL)).settled == 0


def test_what_cannot_be_read_is_not_said():
    """Without the Lease nobody knows who decides; policies that may not be read are not called missing."""
    unread = {"Lease": "forbidden", "ValidatingAdmissionPolicy": "forbidden"}
    report = find_status(cluster(rule(), now=NOW, listed=ALL, unread=unread))

    assert report.decides is None
    assert "Lease cannot be read: forbidden" in report.partial
    assert not any("is not installed" in fault for fault in report.faults)
    assert report.conclusion == "cannot say"
