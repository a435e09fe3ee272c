"""Pods that wait, beside kube-scheduler and kube-controller-manager: what kubectl says, and which rights that needs."""

import time
from contextlib import suppress

import pytest
import yaml

from controlplane import install_component
from controlplane.manifests import MANIFESTS, NAMESPACE, SERVICE_ACCOUNT
from controlplane.plane import KubectlError
from controlplane.scene import allocation, annotations

COMPONENT = MANIFESTS / "components" / "explain-pods" / "access.yaml"
GATES = MANIFESTS / "components" / "gates" / "access.yaml"
"""It has the same rights, and more; tests that ran before may have left it."""
SETUP = ("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
TEMPLATE = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"


@pytest.fixture
def explaining(full_access, full_scene, run_full_operator):
    """Return the walkthrough's cluster; an operator with the rights of the component explains all pods."""
    install_component(full_access, "explain-pods")
    run_full_operator("--explain=all")
    full_scene.apply(*SETUP)
    return full_scene


def create_template(scene, name="one-gpu", device_class="example-device-class"):
    """Create a template for one device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    body = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    scene.client.create(TEMPLATE.format(scene.namespace), body)


def create_pod(scene, name, template="one-gpu", **spec):
    """Create a pod with a claim of a template."""
    scene.client.create(
        f"/api/v1/namespaces/{scene.namespace}/pods",
        {
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
                **spec,
            },
        },
    )


def wait_refused(plane, *resources):
    """Wait until the operator may not list some resources: a watch that began before the right went would go on."""

    def may_list(resource):
        ask = (
            "auth",
            "can-i",
            "list",
            resource,
            "--all-namespaces",
            f"--as=system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}",
        )
        with suppress(KubectlError):
            return plane.kubectl(*ask).strip() == "yes"
        return False

    until = time.monotonic() + 60
    while any(map(may_list, resources)):
        assert time.monotonic() < until, resources
        time.sleep(0.2)


def wait_told(scene, name, kind="Pod", seconds=60):
    """Wait until an object has a warning of the operator, and return the Event."""

    def found():
        return [
            event
            for event in scene.client.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"]
            if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
            and event["source"].get("component") == "dra-operator"
        ]

    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until, f"{kind} {name} has no Event"
        time.sleep(0.2)
    return found()[-1]


def describe(scene, name):
    """Return what `kubectl describe pod` shows."""
    return " ".join(scene.plane.kubectl("describe", "pod", name, f"--namespace={scene.namespace}").split())


def test_pod_too_many_is_told_why_until_kube_scheduler_places_it(explaining):
    """Four devices and five pods: kubectl describes the fifth with the reason, and its claim with the same.

    It is placed when a device is free, and nothing of ours stays on its claim.
    """
    create_template(explaining)
    for number in range(5):
        create_pod(explaining, f"p{number}")
    path = f"/api/v1/namespaces/{explaining.namespace}/pods"
    listed = explaining.client.wait_for(
        path,
        lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods["items"]) == 4,
        what="four pods bound",
    )
    bound = next(pod["metadata"]["name"] for pod in listed["items"] if pod["spec"].get("nodeName"))
    (waiting,) = [pod["metadata"]["name"] for pod in listed["items"] if not pod["spec"].get("nodeName")]

    event = wait_told(explaining, waiting)

    assert event["reason"] == "DeviceInUse"
    assert event["message"].startswith("request gpu: 4 devices published, 4 in class example-device-class")
    text = describe(explaining, waiting)
    assert "Warning DeviceInUse" in text
    (claim,) = [
        claim
        for claim in explaining.all_claims()
        if claim["metadata"]["ownerReferences"][0]["name"] == waiting
    ]
    told = explaining.wait_pending(claim["metadata"]["name"], "in use")
    assert told == event["message"]

    explaining.client.delete(f"{path}/{bound}?gracePeriodSeconds=0")

    explaining.client.wait_for(f"{path}/{waiting}", lambda pod: pod["spec"].get("nodeName"))
    explaining.client.wait_for(
        explaining.claims,
        lambda claims: not any("dra-operator.io/pending" in annotations(claim) for claim in claims["items"]),
        what="claims without our annotation",
    )


def test_missing_right_to_volumes_or_templates_is_named_and_the_rest_goes_on(full_scene, start_full_operator):
    """Without the component's role, /readyz is ready and names the rights, and pods are told of all the same."""
    full_scene.apply(*SETUP)
    for path in (COMPONENT, GATES):
        full_scene.plane.kubectl("delete", f"--filename={path}", "--ignore-not-found")
    wait_refused(full_scene.plane, "persistentvolumes", "resourceclaimtemplates")
    operator = start_full_operator("--explain=all")
    operator.wait_ready()
    operator.wait_until(lambda: "persistentvolumes" in operator.http("/readyz")[1])
    create_template(full_scene)
    create_pod(full_scene, "picky", nodeSelector={"disk": "ssd"})

    assert wait_told(full_scene, "picky")["reason"] == "NodeUnsuitable"
    assert operator.http("/readyz")[0] == 200


def test_rights_of_the_component_are_all_used_and_permit_no_write(explaining):
    """By the audit log each verb on each resource is asked for, and granted; none but list and watch is there."""
    role = next(yaml.safe_load_all(COMPONENT.read_text()))
    granted = {
        (verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }

    def used():
        return {
            (event["verb"], event["objectRef"]["resource"])
            for event in explaining.plane.requests_of(SERVICE_ACCOUNT, NAMESPACE)
            if event["responseStatus"]["code"] < 400 and "resource" in event.get("objectRef", {})
        }

    until = time.monotonic() + 30
    while not granted <= used():
        assert time.monotonic() < until, granted - used()
        time.sleep(0.5)
    assert {verb for verb, _ in granted} == {"list", "watch"}


ACCOUNT = "explain-only"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def explaining_only(full_access, full_scene, start_full_operator):
    """Return the walkthrough's cluster; an operator with the rights of manifests/explain-only runs."""
    install_component(full_access, "explain-pods")
    client = full_scene.client
    role = yaml.safe_load((MANIFESTS / "explain-only" / "access.yaml").read_text())
    metadata = {"metadata": {"name": ACCOUNT}}
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    bindings = f"{RBAC}/clusterrolebindings"
    leases = f"{RBAC}/namespaces/{NAMESPACE}/rolebindings"
    client.create(accounts, metadata)
    client.create(f"{RBAC}/clusterroles", metadata | {"rules": role["rules"]})
    made = [f"{accounts}/{ACCOUNT}", f"{RBAC}/clusterroles/{ACCOUNT}"]
    for kind, name, path in (
        ("ClusterRole", ACCOUNT, bindings),
        ("ClusterRole", "dra-operator-explain-pods", bindings),
        ("Role", "dra-operator", leases),
    ):
        binding = f"{ACCOUNT}-{name}"
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        client.create(path, {"metadata": {"name": binding}, "roleRef": ref, "subjects": subjects})
        made.append(f"{path}/{binding}")
    kubeconfig = full_access.kubeconfig_for(ACCOUNT, NAMESPACE)
    # Without the devices that tests of an operator that allocates take for granted.
    start_full_operator(
        "--claims=none", "--explain=all", "--devices=owned", kubeconfig=kubeconfig
    ).wait_ready()
    full_scene.apply(*SETUP)
    yield full_scene
    for path in made:
        client.delete(path)


def test_operator_that_only_explains_allocates_nothing_and_needs_no_more_rights(explaining_only):
    """A waiting pod has its reason; a claim that no pod uses gets no device, and one that is deleted is left alone.

    Nothing that it asks for is refused.
    """
    scene = explaining_only
    results = [{"request": "devices", "driver": "driver.example.com", "pool": "node-1", "device": "gpu-0"}]
    scene.create_claim("standalone", "example-device-class")
    scene.create_claim("ending", "example-device-class", labels={"dra-operator.io/allocate": "true"})
    scene.client.patch(f"{scene.claims}/ending", {"metadata": {"finalizers": ["example.com/test"]}})
    scene.client.patch(
        f"{scene.claims}/ending/status", {"status": {"allocation": {"devices": {"results": results}}}}
    )
    scene.delete_claim("ending")
    create_template(scene, device_class="no-such-class")
    create_pod(scene, "waits")

    assert wait_told(scene, "waits")["reason"] == "ClassNotFound"
    assert scene.claim("standalone").get("status", {}) == {}
    assert "finalizers" not in scene.claim("standalone")["metadata"]
    assert allocation(scene.claim("ending"))
    requests = scene.plane.requests_of(ACCOUNT, NAMESPACE)
    assert requests
    assert [event["objectRef"] for event in requests if event["responseStatus"]["code"] == 403] == []
    scene.client.patch(f"{scene.claims}/ending", {"metadata": {"finalizers": None}})
