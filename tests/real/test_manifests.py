"""What `kubectl apply -k manifests/` makes of a cluster."""

import os

import pytest
import yaml

from controlplane import install_access
from controlplane.manifests import MANIFESTS, NAMESPACE, SERVICE_ACCOUNT, rendered
from dra_operator.api.names import LEASE_NAME
from dra_operator.controller.settings import load

DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/dra-operator"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def applied(control_plane):
    """Apply all manifests as an administrator would; a warning of the API server counts as an error."""
    control_plane.kubectl("apply", "-k", str(MANIFESTS), "--warnings-as-errors")
    yield control_plane
    control_plane.client.delete(DEPLOYMENT)
    install_access(control_plane)


@pytest.fixture
def pod(applied):
    """Return the pod that the Deployment would make."""
    deployment = applied.client.get(DEPLOYMENT)
    template = deployment["spec"]["template"]
    template["metadata"]["generateName"] = "dra-operator-"
    return {"apiVersion": "v1", "kind": "Pod", **template}


def test_second_apply_changes_nothing(applied):
    """The API server stores the manifests as they are written: a second apply finds nothing to change."""
    lines = applied.kubectl("apply", "-k", str(MANIFESTS), "--warnings-as-errors").splitlines()

    assert len(lines) == 9
    assert [line for line in lines if not line.endswith(" unchanged")] == []


def test_namespace_takes_the_pod(applied, pod):
    """A pod of the template is admitted in the namespace, which enforces pod security `restricted`."""
    made = applied.client.request("POST", PODS, pod)
    applied.client.delete(f"{PODS}?gracePeriodSeconds=0")

    assert made.status == 201, made.body


@pytest.mark.parametrize(
    "change",
    [
        {"seccompProfile": {"type": "Unconfined"}},
        {"allowPrivilegeEscalation": True},
        {"runAsUser": 0},
        {"capabilities": None},
    ],
    ids=["any system call", "may gain privileges", "root", "with capabilities"],
)
def test_namespace_refuses_a_weaker_pod(applied, pod, change):
    """The namespace does enforce `restricted`: each weakening of the same pod is refused."""
    security = pod["spec"]["containers"][0]["securityContext"]
    security.update(change)

    refused = applied.client.request("POST", PODS, pod)

    assert refused.status == 403
    assert 'violates PodSecurity "restricted' in refused.body["message"]


def test_new_operator_stands_by_before_the_old_one_goes(applied):
    """An image that cannot be had, or does not start, leaves the old operator in place."""
    spec = applied.client.get(DEPLOYMENT)["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_replicas_of_an_update_are_on_different_nodes(full_scene):
    """The last pod of the old version does not count, or both new ones would be on the node that has more room."""
    full_scene.apply("nodes.yaml")
    namespace = f"/api/v1/namespaces/{full_scene.namespace}"
    full_scene.client.wait_for(f"{namespace}/serviceaccounts/default", bool)
    (deployment,) = [found for found in rendered(full_scene.plane) if found["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    labels, spreading = template["metadata"]["labels"], template["spec"]["topologySpreadConstraints"]

    def start(name, version, node=None, cpu="100m"):
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "topologySpreadConstraints": spreading, "nodeName": node}
        metadata = {"name": name, "labels": {**labels, "pod-template-hash": version}}
        full_scene.client.create(f"{namespace}/pods", {"metadata": metadata, "spec": spec})

    start("old", "1", node="node-2", cpu="6")
    start("new", "2", node="node-1")

    start("newest", "2")

    path = f"{namespace}/pods/newest"
    pod = full_scene.client.wait_for(path, lambda found: found["spec"].get("nodeName"))
    assert pod["spec"]["nodeName"] == "node-2"


def test_lease_that_may_be_updated_is_the_operator_s(control_plane):
    """Kustomize leaves the name in the Role as it is, although it gives the ConfigMap another."""
    (role,) = [found for found in rendered(control_plane) if found["kind"] == "Role"]

    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, [LEASE_NAME]]


def test_container_keeps_its_identity_when_it_is_started_anew(applied):
    """The Lease names the pod by name and UID, so that a container that was killed takes it at once."""
    (container,) = applied.client.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    environment = {item["name"]: item for item in container["env"]}

    fields = {name: item["valueFrom"]["fieldRef"]["fieldPath"] for name, item in environment.items()}
    assert fields == {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}


def test_overlay_may_choose_another_namespace(control_plane, tmp_path):
    """The service account goes there, and both bindings follow it; else it would have no rights."""
    base = os.path.relpath(MANIFESTS / "base", tmp_path.resolve())
    overlay = {"namespace": "elsewhere", "resources": [base]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    found = list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(tmp_path))))

    accounts = [each["metadata"] for each in found if each["kind"] == "ServiceAccount"]
    subjects = [subject for each in found for subject in each.get("subjects", ())]
    assert [each["namespace"] for each in (*accounts, *subjects)] == ["elsewhere"] * 3


def test_configuration_is_understood(control_plane, tmp_path):
    """The configuration file of the ConfigMap is one that the operator takes."""
    (config_map,) = [found for found in rendered(control_plane) if found["kind"] == "ConfigMap"]
    file = tmp_path / "config.yaml"
    file.write_text(config_map["data"]["config.yaml"])

    loaded = load({}, str(file))

    assert set(loaded.origins) == set(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("GET", "/api/v1/namespaces/default/configmaps"),
        ("DELETE", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/any"),
        ("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"),
        ("DELETE", "/apis/resource.k8s.io/v1/resourceslices/any"),
        ("PATCH", "/api/v1/nodes/any"),
        ("PATCH", "/api/v1/namespaces/default/pods/any"),
        ("DELETE", "/api/v1/namespaces/default/events/any"),
    ],
    ids=lambda value: value.rpartition("/")[2] if "/" in value else value.lower(),
)
def test_service_account_may_not(applied, verb, path):
    """The operator's service account may not do what the operator does not do."""
    answer = applied.client_for(SERVICE_ACCOUNT, NAMESPACE).request(
        verb, path, {} if verb in {"POST", "PATCH"} else None, content_type="application/merge-patch+json"
    )

    assert answer.status == 403
