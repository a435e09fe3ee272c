"""Claims of PodGroups: `simulate` makes those that the claim controller makes."""

import json
import subprocess
import sys

import yaml

ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
TEMPLATE = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def manifest(api_version, kind, name, spec):
    """An object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def template(name):
    """A template of claims."""
    return manifest("resource.k8s.io/v1", "ResourceClaimTemplate", name, {"spec": TEMPLATE})


def pod(name, entry=ENTRY, group="train"):
    """A pod of a group."""
    spec = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": [entry]}
    return manifest("v1", "Pod", name, {**spec, "schedulingGroup": {"podGroupName": group}})


MANIFESTS = [
    template("one-gpu"),
    template("other-gpu"),
    manifest(
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        "train",
        {"schedulingPolicy": {"basic": {}}, "resourceClaims": [ENTRY, {**ENTRY, "name": "nobody"}]},
    ),
    pod("shares-0"),
    pod("shares-1"),
    pod("other-name", {**ENTRY, "name": "own"}),
    pod("other-template", {**ENTRY, "resourceClaimTemplateName": "other-gpu"}),
    pod("no-group", group="absent"),
]
PATHS = {
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups",
    "Pod": "/api/v1/namespaces/{}/pods",
}


def made_for(claims):
    """Return what claims are named after, and the entries they were made for."""
    metadata = [claim["metadata"] for claim in claims]
    return sorted((item["generateName"], *item["annotations"].values()) for item in metadata)


def run(*arguments):
    """Run the command and return its result."""
    command = [sys.executable, "-m", "dra_operator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def simulated(file):
    """Return the claims that are in a file, or made of it."""
    result = run("simulate", "-o", "json", "-f", str(file))
    assert result.stderr.count("there is no PodGroup") == 1
    claims = json.loads(result.stdout)["items"]
    for claim in claims:
        del claim["metadata"]["annotations"]["dra-operator.io/pending"]
    return claims


def test_simulate_makes_the_claims_of_the_claim_controller(full_scene, full_control_plane, tmp_path):
    """One for each entry of a group, whoever uses it, and one for each pod that asks for something else.

    In a snapshot none is missing.
    """
    file, state = tmp_path / "group.yaml", tmp_path / "state.yaml"
    file.write_text(yaml.safe_dump_all(MANIFESTS))
    expected = made_for(simulated(file))
    for body in MANIFESTS:
        full_scene.client.create(PATHS[body["kind"]].format(full_scene.namespace), body)

    found = full_scene.client.wait_for(
        full_scene.claims,
        lambda listed: len(listed["items"]) >= len(expected),
        what="claims made of templates",
    )
    run("snapshot", "--kubeconfig", str(full_control_plane.admin_kubeconfig), "--out", str(state))

    assert made_for(found["items"]) == made_for(simulated(state)) == expected
