"""Claims and templates that tolerate the taint of owned devices, on the real API server: who is refused, and how."""

import json

import pytest

from controlplane import Scene, fresh_namespace
from controlplane.fencing import ADMISSION
from controlplane.plane import KubectlError
from controlplane.scene import RESOURCE
from dra_operator.api.names import OWNED_KEY as KEY
from dra_operator.api.names import OWNED_TOLERATIONS_POLICY
from factories import manifest

ANY = {"operator": "Exists"}
VERSIONS = ("v1", "v1beta2", "v1beta1")
SAID = (
    f"tolerates the taint {KEY}, whose devices dra-operator alone allocates, so the toleration gets no device, and "
    f"delays all pods: tolerate other taints by their keys, and not {KEY}"
)


@pytest.fixture
def scene(fenced_plane):
    """Return a namespace beside the policies, in which admin access is permitted."""
    with fresh_namespace(fenced_plane) as name:
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        fenced_plane.client.patch(f"/api/v1/namespaces/{name}", label)
        yield Scene(fenced_plane, name)


def exactly(*tolerations, version="v1", name="one", **fields):
    """Return a request for one class, as a version has it."""
    content = {"deviceClassName": "any", "tolerations": [*tolerations], **fields}
    return {"name": name, **content} if version == "v1beta1" else {"name": name, "exactly": content}


def alternatives(*tolerations):
    """Return a request with two alternatives, the second of which has the tolerations."""
    second = {"name": "b", "deviceClassName": "any", "tolerations": [*tolerations]}
    return {"name": "some", "firstAvailable": [{"name": "a", "deviceClassName": "any"}, second]}


def create(scene, *requests, version="v1", kind="resourceclaims", name="new"):
    """Create a claim or template, as a dry run; return the answer."""
    path = f"{RESOURCE}/namespaces/{scene.namespace}/{kind}?dryRun=All".replace("/v1/", f"/{version}/", 1)
    spec = {"devices": {"requests": [*requests]}}
    spec = {"spec": spec} if kind == "resourceclaimtemplates" else spec
    return scene.client.request("POST", path, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "field"),
    [("resourceclaims", "spec.devices"), ("resourceclaimtemplates", "spec.spec.devices")],
)
def test_tolerant_object_is_refused_in_every_version(scene, version, kind, field):
    """Object, field and request are named, also of an alternative, and what to do."""
    plain = exactly(version=version, name="plain")
    for request, name in (
        (exactly(ANY, version=version), "one"),
        (alternatives({"key": KEY, "operator": "Exists", "effect": "NoSchedule"}), "some"),
    ):
        answer = create(scene, plain, request, version=version, kind=kind)

        assert answer.status == 403, answer.body
        assert f'{kind}.resource.k8s.io "new" is forbidden' in answer.body["message"]
        assert f"{field}.requests: request {name} {SAID}" in answer.body["message"]


@pytest.mark.parametrize(
    ("toleration", "is_refused"),
    [
        ({"key": KEY}, True),
        ({"key": KEY, "operator": "Equal", "value": ""}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": KEY, "value": "team-a"}, False),
        ({"key": KEY, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "example.com/broken", "operator": "Exists"}, False),
    ],
)
def test_only_a_toleration_of_the_owned_taint_is_refused(scene, toleration, is_refused):
    """As kube-scheduler matches it: by key, operator, value and effect."""
    assert create(scene, exactly(toleration)).status == (403 if is_refused else 201)
    assert create(scene, alternatives(toleration)).status == (403 if is_refused else 201)


@pytest.mark.parametrize("version", VERSIONS)
def test_admin_access_may_tolerate_it(scene, version):
    """It holds nothing, and needs the toleration."""
    admin = exactly(ANY, version=version, adminAccess=True)

    assert create(scene, admin, version=version).status == 201
    assert create(scene, admin, exactly(ANY, version=version, name="two"), version=version).status == 403


def test_the_largest_claim_costs_no_more_than_is_allowed(scene):
    """Of 32 requests with 8 alternatives of 16 tolerations the last one is found."""
    harmless = [{"key": f"example.com/{number}", "operator": "Exists"} for number in range(16)]
    requests = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                {"name": f"a{each}", "deviceClassName": "any", "tolerations": harmless} for each in range(8)
            ],
        }
        for number in range(32)
    ]
    assert create(scene, *requests).status == 201

    requests[31]["firstAvailable"][7]["tolerations"] = [*harmless[:15], ANY]

    assert "request r31 tolerates" in create(scene, *requests).body["message"]


def test_with_the_parameter_off_who_creates_is_warned(scene):
    """The binding warns instead of refusing, as components/ownership/warn-tolerations makes it."""
    path = f"{ADMISSION}/validatingadmissionpolicybindings/{OWNED_TOLERATIONS_POLICY}"
    body = manifest(
        "ResourceClaim", "new", {"devices": {"requests": [exactly(ANY)]}}, namespace=scene.namespace
    )
    scene.client.patch(path, {"spec": {"validationActions": ["Warn"]}})
    try:
        scene.client.wait_for("/healthz", lambda _: create(scene, exactly(ANY)).status == 201)
        arguments = ("create", "-f", "-", "--dry-run=server", "--warnings-as-errors")
        with pytest.raises(KubectlError, match=r"Warning: .* request one tolerates the taint"):
            scene.plane.kubectl(*arguments, input=json.dumps(body))
    finally:
        scene.client.patch(path, {"spec": {"validationActions": ["Deny"]}})
        scene.client.wait_for("/healthz", lambda _: create(scene, exactly(ANY)).status == 403)
