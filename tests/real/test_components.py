"""What `manifests/components/` adds, as an administrator turns it on: by taking the `#` away in the kustomization."""

import os
import re
import shutil

import pytest
import yaml

from controlplane import install_access
from controlplane.manifests import MANIFESTS, NAMESPACE
from dra_operator.api.names import OWNED_POLICY
from dra_operator.cluster.ownership_policy import OPERATOR, RulesFence, fenced, policy_for_rules

COMPONENTS = sorted(folder.name for folder in (MANIFESTS / "components").iterdir())
FOREIGN = "monitoring.coreos.com/v1"
"""What the Prometheus Operator brings, which is not on this API server."""


@pytest.fixture(scope="module")
def turned_on(control_plane, tmp_path_factory):
    """Return the objects that there are with every component."""
    folder = tmp_path_factory.mktemp("components") / "manifests"
    shutil.copytree(MANIFESTS, folder)
    shutil.copytree(MANIFESTS.parent / "crds", folder.parent / "crds")
    file = folder / "kustomization.yaml"
    file.write_text(re.sub(r"^#- ", "- ", file.read_text(), flags=re.MULTILINE))
    assert (
        sorted({each.split("/")[1] for each in yaml.safe_load(file.read_text())["components"]}) == COMPONENTS
    )
    return list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(folder))))


@pytest.fixture(scope="module")
def text(turned_on):
    """Return those that every API server knows, as text to apply."""
    return yaml.safe_dump_all([found for found in turned_on if found["apiVersion"] != FOREIGN])


@pytest.fixture(scope="module")
def applied(control_plane, text):
    """Apply them; a warning of the API server counts as an error."""
    control_plane.kubectl("apply", "-f", "-", "--warnings-as-errors", input=text)
    yield control_plane
    # With the policies: they would change what tests of operators without them see (tests with them have a plane
    # of their own).
    ours = [each for each in yaml.safe_load_all(text) if each["kind"] != "Namespace"]
    control_plane.kubectl("delete", "--wait=false", "-f", "-", input=yaml.safe_dump_all(ours))
    for each in ours:
        if each["kind"] == "CustomResourceDefinition":
            # The API server waits longer and longer while it makes their storage anew.
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}"
            control_plane.client.wait_for(path, lambda found: found is None, seconds=240, what="its end")
    install_access(control_plane)


@pytest.fixture
def one(turned_on):
    """Return a function that returns the one object of a kind."""

    def find(kind, **labels):
        (found,) = [
            each
            for each in turned_on
            if each["kind"] == kind and labels.items() <= each["metadata"].get("labels", {}).items()
        ]
        return found

    return find


@pytest.fixture
def pod_labels(one):
    """Return the labels of the operator's pods."""
    return one("Deployment")["spec"]["template"]["metadata"]["labels"]


def test_second_apply_changes_nothing(applied, text):
    """The API server stores them as they are written, apart from the one that kubectl always writes anew."""
    lines = applied.kubectl("apply", "-f", "-", "--warnings-as-errors", input=text).splitlines()

    changed = [line for line in lines if not line.endswith(" unchanged")]
    assert changed == ["poddisruptionbudget.policy/dra-operator configured"]
    path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/dra-operator"
    assert applied.client.get(path)["metadata"]["generation"] == 1


def test_policy_for_owned_devices_is_the_one_that_the_operator_knows(turned_on):
    """No component changes its expressions and messages, and its user is the one that the Deployment runs as."""
    found = [
        each
        for each in turned_on
        if each["apiVersion"].startswith("admissionregistration.k8s.io/")
        and "owned" in each["metadata"]["name"]
    ]

    expected = policy_for_rules(OPERATOR)
    # Of all components that are turned on, `warn-tolerations` changes this.
    expected[-1]["spec"]["validationActions"] = ["Warn"]

    assert sorted(found, key=name_and_kind) == sorted(expected, key=name_and_kind)


@pytest.mark.parametrize("listed", [True, False], ids=["with-the-component", "without"])
def test_user_of_the_policy_follows_the_namespace_of_an_overlay(control_plane, tmp_path, listed):
    """By a transformer of the component, which does nothing where the component is not listed."""
    root = os.path.relpath(MANIFESTS, tmp_path.resolve())
    overlay = {
        "namespace": "elsewhere",
        "resources": [f"{root}/base"],
        "components": [f"{root}/components/ownership"] if listed else [],
        "transformers": [f"{root}/components/ownership/namespace"],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    found = list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(tmp_path))))
    parts = [each for each in found if each["metadata"]["name"] == OWNED_POLICY]

    if listed:
        policy, binding = sorted(parts, key=lambda each: each["kind"])
        assert fenced(policy, binding) == RulesFence("system:serviceaccount:elsewhere:dra-operator", "v1")
        text = yaml.safe_dump_all(each for each in found if "admission" in each["apiVersion"])
        control_plane.kubectl("apply", "-f", "-", "--dry-run=server", "--warnings-as-errors", input=text)
    else:
        assert parts == []


@pytest.mark.parametrize("listed", [True, False], ids=["with-the-component", "without"])
@pytest.mark.parametrize(("name", "count"), [("gates", 1), ("confinement", 2)])
def test_user_of_other_policies_follows_the_namespace_of_an_overlay(
    control_plane, tmp_path, name, count, listed
):
    """Else the policy would confine nobody."""
    root = os.path.relpath(MANIFESTS, tmp_path.resolve())
    overlay = {
        "namespace": "elsewhere",
        "resources": [f"{root}/base"],
        "components": [f"{root}/components/{name}"] if listed else [],
        "transformers": [f"{root}/components/{name}/namespace"],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    found = list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(tmp_path))))
    users = [
        condition["expression"]
        for each in found
        if each["kind"] == "ValidatingAdmissionPolicy"
        for condition in each["spec"]["matchConditions"]
    ]

    user = '"system:serviceaccount:elsewhere:dra-operator"'
    assert users == ([f"request.userInfo.username == {user}"] * count if listed else [])


def test_gates_are_switched_on_with_their_rights(one):
    """The component sets the setting that needs them."""
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]

    assert {"name": "DRA_OPERATOR_CLAIMS", "value": "all"} in container["env"]


def name_and_kind(body):
    """Return what an object is sorted by."""
    return body["metadata"]["name"], body["kind"]


def test_what_a_monitor_scrapes_is_scraped_by_nobody_else(one):
    """Of two that scrape one operator, sums would show twice what there is."""
    assert one("ServiceMonitor")["spec"]["endpoints"]
    assert "annotations" not in one("Service")["metadata"]


def test_everything_is_in_the_operator_s_namespace_and_says_whose_it_is(turned_on):
    """So that `kubectl get all,... -l app.kubernetes.io/name=dra-operator` finds it, and none is left elsewhere."""
    strange = [
        (found["kind"], found["metadata"]["name"])
        for found in turned_on
        if found["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "dra-operator"
        or found["metadata"].get("namespace", NAMESPACE) != NAMESPACE
    ]

    assert strange == []


def test_other_pods_give_way_to_the_operator_s(applied, one):
    """Its pods have the priority of what a cluster cannot do without, and the quota names the class they have it by."""
    template = one("Deployment")["spec"]["template"]
    template["metadata"]["generateName"] = "dra-operator-"
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    made = applied.client.request("POST", pods, {"apiVersion": "v1", "kind": "Pod", **template})
    applied.client.delete(f"{pods}?gracePeriodSeconds=0")

    assert made.status == 201, made.body
    assert made.body["spec"]["priority"] == 2_000_000_000
    (scope,) = one("ResourceQuota")["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [made.body["spec"]["priorityClassName"]]


def test_one_of_two_may_be_evicted_and_one_alone_too(one):
    """The budget never stops a drain for ever, which it would with one replica and a least number of pods."""
    spec = one("PodDisruptionBudget")["spec"]

    assert spec["maxUnavailable"] == 1
    assert "minAvailable" not in spec
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(
    ("kind", "path"), [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]
)
def test_pods_of_the_operator_are_meant(one, pod_labels, kind, path):
    """A selector that fits no pod would be admitted, and do nothing."""
    assert one(kind)["spec"][path]["matchLabels"].items() <= pod_labels.items()


def test_policy_lets_a_scraper_in_by_the_port_that_it_uses(one):
    """And nobody by any other."""
    (rule,) = one("NetworkPolicy")["spec"]["ingress"]
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]

    assert [port["port"] for port in rule["ports"]] == [port["name"] for port in container["ports"]]


def test_monitor_finds_the_service_and_its_port(one):
    """By the labels of the Service, in its namespace, by the name of its port."""
    monitor, service = one("ServiceMonitor"), one("Service")

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
        port["name"] for port in service["spec"]["ports"]
    }


def test_dashboard_keeps_its_name_when_it_changes(one):
    """Grafana finds it by the label, and would show the old one beside the new one."""
    assert one("ConfigMap", grafana_dashboard="1")["metadata"]["name"] == "dra-operator-dashboard"
