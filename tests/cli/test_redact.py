"""Redaction: nothing of tenants is left, and everything still fits together."""

import copy
import json

import pytest

from dra_operator.api.names import LET_GO_ANNOTATION
from dra_operator.cli.snapshot import redact
from factories import manifest, request, result

SECRET = "secret"
V1 = "resource.k8s.io/v1"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


def claim(name, namespace="secret-team", **metadata):
    """A claim, with secrets wherever there can be any."""
    opaque = {"driver": "gpu.example.com", "parameters": {"token": "secret-token"}}
    config = [{"opaque": opaque}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "secret-pod", "uid": "secret-uid-of-pod"}
    return manifest(
        "ResourceClaim",
        name,
        {"devices": {"requests": [request()], "config": config}},
        status={
            "allocation": {"devices": {"results": [result(pool="pool")], "config": config}},
            "reservedFor": [{"resource": "pods", "name": "secret-pod", "uid": "secret-uid-of-pod"}],
            "devices": [{"driver": "gpu.example.com", "data": {"ip": "secret-ip"}}],
        },
        namespace=namespace,
        uid=f"secret-uid-of-{name}",
        creationTimestamp="2026-01-01T00:00:00Z",
        labels={"secret-key": "secret-value"},
        annotations={"secret-note": "secret-text", POD_CLAIM_NAME: "secret-entry"},
        finalizers=["secret.example.com/hold", "resource.kubernetes.io/delete-protection"],
        **{"ownerReferences": [owner], **metadata},
    )


POD = manifest(
    "Pod",
    "secret-pod",
    {
        "nodeName": "node-1",
        "containers": [{"name": "secret-container", "resources": {"limits": {"example.com/gpu": "1"}}}],
        "resourceClaims": [
            {"name": "secret-entry", "resourceClaimTemplateName": "secret-template"},
            {"name": "secret-other", "resourceClaimName": "secret-b"},
        ],
    },
    status={"resourceClaimStatuses": [{"name": "secret-entry", "resourceClaimName": "secret-a"}]},
    namespace="secret-team",
    uid="secret-uid-of-pod",
    annotations={LET_GO_ANNOTATION: "2026-01-01T00:00:00Z node-1 secret-uid-of-pod"},
)
TEMPLATE = manifest(
    "ResourceClaimTemplate",
    "secret-template",
    {"metadata": {"labels": {"secret-key": "secret-value"}}, "spec": {"devices": {"requests": []}}},
    namespace="secret-team",
)
NAMESPACE = manifest(
    "Namespace",
    "secret-team",
    labels={"kubernetes.io/metadata.name": "secret-team", "resource.kubernetes.io/admin-access": "true"},
)


@pytest.fixture
def shown():
    """The objects above, redacted."""
    return redact([NAMESPACE, TEMPLATE, POD, claim("secret-b"), claim("secret-a")])


def test_no_secret_is_left(shown):
    """Names, namespaces, labels, annotations, uids and parameters are all other ones, or gone."""
    assert SECRET not in json.dumps(shown)


def test_fields_of_a_newer_api_are_dropped():
    """What nobody here can read may be anything, so it does not go out; the rest does."""
    newer = claim("secret-a")
    newer["spec"]["note"] = SECRET
    newer["spec"]["devices"]["requests"][0]["exactly"]["reason"] = [SECRET]
    newer["status"]["reservedFor"][0]["group"] = SECRET
    template, pod = copy.deepcopy([TEMPLATE, POD])
    template["spec"]["spec"]["note"] = SECRET
    pod["spec"]["resourceClaims"][0]["group"] = SECRET

    shown = redact([template, pod, newer])

    assert SECRET not in json.dumps(shown)
    assert shown == redact([TEMPLATE, POD, claim("secret-a")])


def test_references_still_fit(shown):
    """The pod names its claims, the claims their pod, by name and uid."""
    _, template, pod, second, first = shown

    entry, other = pod["spec"]["resourceClaims"]
    assert other["resourceClaimName"] == second["metadata"]["name"]
    assert entry["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert pod["status"]["resourceClaimStatuses"] == [
        {"name": entry["name"], "resourceClaimName": first["metadata"]["name"]}
    ]
    assert first["metadata"]["annotations"][POD_CLAIM_NAME] == entry["name"]
    for body in (first, second):
        (owner,), (consumer,) = body["metadata"]["ownerReferences"], body["status"]["reservedFor"]
        assert owner["name"] == consumer["name"] == pod["metadata"]["name"]
        assert owner["uid"] == consumer["uid"] == pod["metadata"]["uid"]
        assert body["metadata"]["namespace"] == pod["metadata"]["namespace"]
    mark = pod["metadata"]["annotations"][LET_GO_ANNOTATION]
    assert mark == f"2026-01-01T00:00:00Z node-1 {pod['metadata']['uid']}"


def test_groups_are_shown_under_other_names():
    """Pods, claims and reservations name them alike."""
    owner = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "name": "secret-group",
        "uid": "secret-u",
    }
    held = claim("secret-a", ownerReferences=[owner])
    held["status"]["reservedFor"] = [{"resource": "podgroups", "name": "secret-group", "uid": "secret-u"}]
    pod = copy.deepcopy(POD)
    pod["spec"]["schedulingGroup"] = {"podGroupName": "secret-group"}
    spec = {"resourceClaims": POD["spec"]["resourceClaims"]}
    metadata = {"name": "secret-group", "namespace": "secret-team", "uid": "secret-u"}
    group = {"apiVersion": owner["apiVersion"], "kind": "PodGroup", "metadata": metadata, "spec": spec}

    group, pod, held = shown = redact([group, pod, held])

    assert SECRET not in json.dumps(shown)
    assert {
        group["metadata"]["name"],
        pod["spec"]["schedulingGroup"]["podGroupName"],
        held["metadata"]["ownerReferences"][0]["name"],
        held["status"]["reservedFor"][0]["name"],
    } == {"group-1"}
    assert group["spec"]["resourceClaims"] == pod["spec"]["resourceClaims"]


def test_what_decides_stays(shown):
    """Requests, devices, age, the finalizer, and the label that permits admin access."""
    namespace, *_, first = shown

    assert namespace["metadata"]["labels"] == {"resource.kubernetes.io/admin-access": "true"}
    assert first["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert first["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert first["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "gpu"}
    assert first["spec"]["devices"]["config"] == [{"opaque": {"driver": "gpu.example.com"}}]
    assert first["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
