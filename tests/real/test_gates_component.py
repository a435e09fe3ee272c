"""The component `gates` beside kube-scheduler and kube-controller-manager: a Job as it is, and the rights for that."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from controlplane import install_component
from controlplane.fencing import install, remove
from controlplane.manifests import MANIFESTS, NAMESPACE, SERVICE_ACCOUNT
from controlplane.scene import RESOURCE, allocation
from dra_operator.api.names import CLAIMS_LABEL, GATE, OWNED_KEY

GATES = MANIFESTS / "components" / "gates"
FILES = (GATES / "access.yaml", GATES / "policy.yaml", GATES / "managed-namespaces" / "policy.yaml")
SETUP = ("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
FLAGS = ("--claims=all", "--devices=owned", "--ownership-quiet-seconds=0", "--handback-seconds=2")
HOLDS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "holds"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"hold": "true"}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
            ],
        },
        "validations": [{"expression": "false", "message": "not yet", "reason": "Invalid"}],
    },
}
"""A policy that keeps the gate on pods with a label; its answer may also be that of a pod that has changed."""
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "holds"},
    "spec": {"policyName": "holds", "validationActions": ["Deny"]},
}


@pytest.fixture
def managed(full_access, full_scene):
    """Return a managed namespace of a cluster with devices, after the component was applied."""
    files = [f"--filename={file}" for file in FILES]
    full_access.kubectl("apply", *files, "--warnings-as-errors")
    full_scene.apply(*SETUP)
    own_devices(full_scene.client)
    request = {"name": "gpu", "exactly": {"deviceClassName": "example-device-class"}}
    full_scene.client.create(
        f"{RESOURCE}/namespaces/{full_scene.namespace}/resourceclaimtemplates",
        {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}},
    )
    label = {"metadata": {"labels": {CLAIMS_LABEL: "managed"}}}
    full_scene.client.patch(f"/api/v1/namespaces/{full_scene.namespace}", label)
    dry = f"{pods_of(full_scene)}?dryRun=All"
    full_scene.client.wait_for(
        "/healthz",
        lambda _: full_scene.client.create(dry, pod("probe"))["spec"].get("schedulingGates"),
        what="the policy that gates pods",
    )
    yield full_scene
    full_access.kubectl("delete", *files)


def own_devices(client):
    """Make all devices ours."""
    slices = f"{RESOURCE}/resourceslices"
    taint = {"key": OWNED_KEY, "effect": "NoSchedule"}
    for body in client.get(slices)["items"]:
        owned = [{**device, "taints": [taint]} for device in body["spec"]["devices"]]
        client.patch(f"{slices}/{body['metadata']['name']}", {"spec": {"devices": owned}})


def pods_of(scene):
    """Return the path of the pods of a namespace."""
    return f"/api/v1/namespaces/{scene.namespace}/pods"


def template(**spec):
    """Return the spec of a pod with a claim for a device."""
    return {
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        **spec,
    }


def pod(name, labels=None, **spec):
    """Return such a pod."""
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": template(**spec)}


def wait_bound(scene, *names):
    """Wait until pods have a node."""
    for name in names:
        scene.client.wait_for(
            f"{pods_of(scene)}/{name}",
            lambda found: found["spec"].get("nodeName"),
            what=f"{name} bound",
        )


def wait_event(scene, name, reason):
    """Wait until a pod has an Event of the operator, and return it."""

    def found(events):
        return [
            event
            for event in events["items"]
            if (event["involvedObject"]["name"], event["reason"]) == (name, reason)
        ]

    path = f"/api/v1/namespaces/{scene.namespace}/events"
    return found(scene.client.wait_for(path, found, what=f"{reason} of {name}"))[0]


def test_job_runs_without_any_change_and_with_no_other_rights(
    managed, full_control_plane, start_full_operator
):
    """A policy that refuses one write is named on its pod, delays no other, and has the pod read back."""
    full_control_plane.audit_log.write_bytes(b"")
    install(managed, [HOLDS, BINDING])
    start_full_operator(*FLAGS).wait_ready()
    try:
        managed.client.create(pods_of(managed), pod("held", {"hold": "true"}))
        job = {"metadata": {"name": "job"}, "spec": {"completions": 2, "parallelism": 2}}
        job["spec"]["template"] = {"spec": template(restartPolicy="Never")}
        managed.client.create(f"/apis/batch/v1/namespaces/{managed.namespace}/jobs", job)
        bound = managed.client.wait_for(
            pods_of(managed),
            lambda found: sum(bool(pod["spec"].get("nodeName")) for pod in found["items"]) == 2,
            what="the pods of the Job bound",
        )
        assert [pod["metadata"]["name"] for pod in bound["items"] if not pod["spec"].get("nodeName")] == [
            "held"
        ]
        assert "not yet" in wait_event(managed, "held", "AllocationRefused")["message"]
        held = managed.client.get(f"{pods_of(managed)}/held")
        assert [gate["name"] for gate in held["spec"]["schedulingGates"]] == [GATE]
    finally:
        remove(managed.client, "holds")
    wait_bound(managed, "held")
    assert all(map(allocation, managed.all_claims()))

    requests = full_control_plane.requests_of(SERVICE_ACCOUNT, NAMESPACE)
    assert [each for each in requests if each["responseStatus"]["code"] in {401, 403}] == []
    assert granted() <= {used(each["objectRef"]) | {each["verb"]} for each in requests if "objectRef" in each}


def granted():
    """Return verb and resource of what the component grants, each as a set of two."""
    role = next(yaml.safe_load_all((GATES / "access.yaml").read_text()))
    return {
        frozenset((verb, resource))
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(reference):
    """Return the resource of an audit event as a rule of RBAC writes it, as a set of one."""
    tail = f"/{reference['subresource']}" if "subresource" in reference else ""
    return frozenset((reference["resource"] + tail,))


def test_pod_that_cannot_be_placed_gives_its_devices_back(managed, full_access, start_full_operator):
    """Pod affinity is not looked at when the devices are decided; kube-scheduler's own words are the evidence.

    That it was handed back stays its reason, though nobody but the operator may allocate the devices that are free.
    """
    install_component(full_access, "explain-pods")
    start_full_operator(*FLAGS, "--explain=all").wait_ready()
    term = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    managed.client.create(pods_of(managed), pod("lonely", affinity=affinity))

    event = wait_event(managed, "lonely", "HandedBack")

    assert event["message"].startswith("handed back: 0/")
    assert event["message"].endswith("; delete the pod to try again")
    (claim,) = managed.all_claims()
    assert allocation(claim) is None
    found = managed.client.wait_for(
        f"{pods_of(managed)}/lonely",
        lambda pod: not pod["status"].get("nominatedNodeName"),
        what="no nomination",
    )
    assert "schedulingGates" not in found["spec"]
    say_handed_back(managed, full_access, event["message"])
    # What became free is there for the next pod, and stays with it.
    managed.client.create(pods_of(managed), pod("next"))
    wait_bound(managed, "next")
    # Longer than a reason stands before it is found out again.
    time.sleep(12)
    assert sum(bool(allocation(claim)) for claim in managed.all_claims()) == 1
    say_handed_back(managed, full_access, event["message"])


def say_handed_back(scene, plane, text):
    """Hold Events, annotation and answers to saying of the pod that it was handed back, and nothing else."""
    events = scene.client.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"]
    told = {event["reason"] for event in events if event["involvedObject"]["name"] == "lonely"}
    assert told - {"FailedScheduling"} == {"HandedBack"}
    names = [claim["metadata"]["name"] for claim in scene.all_claims()]
    (name,) = [name for name in names if name.startswith("lonely-")]
    assert scene.wait_pending(name, "handed back") == text
    for words in (
        ["explain", "pod/lonely"],
        ["explain", f"claim/{name}"],
        ["waiting", "-o", "wide"],
        ["status"],
    ):
        done = kubectl_dra(plane, *words, "-n", scene.namespace)
        assert done.returncode == 1, done
        assert "HandedBack" in done.stdout or "handed back" in done.stdout, done
        assert "delete" in done.stdout, done
        assert "DeviceTainted" not in done.stdout, done


def kubectl_dra(plane, *words):
    """Run `kubectl dra` as an administrator."""
    environment = {
        "PATH": f"{plane.programs.kubectl.parent}:/usr/bin:/bin",
        "KUBECONFIG": str(plane.admin_kubeconfig),
    }
    program = Path(sys.executable).with_name("kubectl-dra")
    return subprocess.run(
        [program, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
