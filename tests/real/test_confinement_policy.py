"""The component `confinement` on the real API server: what the operator's token is good for on claims and rules.

Each role of the operator is granted more than it has, so that the policies alone refuse.
"""

import pytest

from controlplane import Scene
from controlplane.client import MERGE_PATCH
from controlplane.fencing import RULES, rule
from controlplane.manifests import MANIFESTS, NAMESPACE, SERVICE_ACCOUNT
from controlplane.scene import FINALIZER
from dra_operator.api.names import OWNED_FINALIZER, OWNED_KEY, POLICY_FINALIZER

FILE = MANIFESTS / "components" / "confinement" / "policy.yaml"
RESULTS = [{"request": "devices", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}]
ALLOCATION = {"devices": {"results": RESULTS}}
POD = {"resource": "pods", "name": "pod", "uid": "1"}
RESERVATION = {
    "apiGroup": "dra-operator.io",
    "resource": "devicereservations",
    "name": "held",
    "uid": "2",
}
OWNER = {
    "apiVersion": "dra-operator.io/v1alpha1",
    "kind": "DeviceReservation",
    "name": "held",
    "uid": "2",
    "controller": True,
}
GRANT = {
    "rules": [
        {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["*"]},
    ]
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def confined_plane(access):
    """Apply the component to the shared control plane, and let the operator's account write all of resource.k8s.io."""
    metadata = {"metadata": {"name": "test-confinement"}}
    access.client.create(f"{RBAC}/clusterroles", metadata | GRANT)
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-confinement"}
    access.client.create(f"{RBAC}/clusterrolebindings", metadata | {"roleRef": role, "subjects": [subject]})
    access.kubectl("apply", f"--filename={FILE}", "--warnings-as-errors")
    yield access
    access.kubectl("delete", f"--filename={FILE}")
    access.kubectl("delete", "clusterrole,clusterrolebinding", "test-confinement")


@pytest.fixture
def confined(confined_plane, namespace):
    """Return a namespace with the claim `claim`, in which the policies are in force."""
    scene = Scene(confined_plane, namespace)
    scene.create_claim("claim", "any.example.com", labels={"dra-operator.io/allocate": "false"})
    label = {"metadata": {"labels": {"a": "b"}}}
    scene.client.wait_for(
        "/healthz",
        lambda _: (
            patch(scene, label, query="?dryRun=All").status == 403
            and as_operator(scene, "POST", f"{RULES}?dryRun=All", rule("probe", key="example.com/x")).status
            == 403
        ),
        what="the policies",
    )
    return scene


def as_operator(scene, verb, path, body=None):
    """Send a request with the operator's token."""
    client = scene.plane.client_for(SERVICE_ACCOUNT, NAMESPACE)
    kind = {"content_type": MERGE_PATCH} if verb == "PATCH" else {}
    return client.request(verb, path, body, **kind)


def patch(scene, body, tail="", query=""):
    """Patch the claim with the operator's token; `tail` is a subresource."""
    return as_operator(scene, "PATCH", f"{scene.claims}/claim{tail}{query}", body)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_life_of_an_allocation_is_allowed(confined, version):
    """All that the operator writes to a claim passes, in each version: from annotation to deallocation."""
    path = f"{confined.claims}/claim".replace("/v1/", f"/{version}/", 1)
    writes = [
        ("", {"metadata": {"annotations": {"dra-operator.io/pending": "text"}}}),
        ("", {"metadata": {"finalizers": [FINALIZER], "annotations": {"dra-operator.io/pending": None}}}),
        ("/status", {"status": {"allocation": ALLOCATION, "reservedFor": [POD]}}),
        ("/status", {"status": {"reservedFor": [POD, RESERVATION]}}),
        ("/status", {"status": {"reservedFor": [POD]}}),
        ("/status", {"status": {"allocation": None, "reservedFor": None}}),
        ("", {"metadata": {"finalizers": []}}),
    ]
    for tail, body in writes:
        answer = as_operator(confined, "PATCH", path + tail, body)
        assert answer.status == 200, (body, answer.body)


@pytest.mark.parametrize(
    ("tail", "body", "said"),
    [
        ("", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels: "),
        ("", {"metadata": {"annotations": {"a": "b"}}}, "metadata.annotations.a: "),
        ("", {"metadata": {"finalizers": ["example.com/own"]}}, "metadata.finalizers example.com/own: "),
        ("", {"metadata": {"ownerReferences": [OWNER]}}, "metadata.ownerReferences: "),
        ("/status", {"status": {"devices": [{**RESULTS[0], "request": None}]}}, "status.devices: "),
        ("/status", {"status": {"reservedFor": []}}, "takes back reservations only together"),
    ],
    ids=["label", "annotation", "finalizer", "owner", "devices", "reservation"],
)
def test_everything_else_of_a_claim_is_refused(confined, tail, body, said):
    """The fields are named, and what the operator may do."""
    confined.client.patch(f"{confined.claims}/claim", {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": ALLOCATION, "reservedFor": [POD]}
    confined.client.patch(f"{confined.claims}/claim/status", {"status": status})

    answer = patch(confined, body, tail)

    assert answer.status == 403, answer.body
    assert said in answer.body["message"]


def test_deallocation_takes_what_drivers_said_of_devices(confined):
    """The API server drops it with the allocation, which counts as no change of the operator's."""
    confined.client.patch(f"{confined.claims}/claim", {"metadata": {"finalizers": [FINALIZER]}})
    said = {key: value for key, value in RESULTS[0].items() if key != "request"}
    status = {"allocation": ALLOCATION, "devices": [{**said, "data": {"ip": "10.0.0.1"}}]}
    confined.client.patch(f"{confined.claims}/claim/status", {"status": status})

    answer = patch(confined, {"status": {"allocation": None, "reservedFor": None}}, "/status")

    assert answer.status == 200, answer.body
    assert "devices" not in answer.body.get("status", {})


def test_claim_of_a_reservation_without_its_owner_may_be_deleted(confined):
    """As after `--cascade=orphan`: the entry says whose it was."""
    confined.client.patch(f"{confined.claims}/claim", {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": ALLOCATION, "reservedFor": [RESERVATION]}
    confined.client.patch(f"{confined.claims}/claim/status", {"status": status})

    assert as_operator(confined, "DELETE", f"{confined.claims}/claim").status == 200


def test_rule_of_ours_that_was_edited_may_be_let_go(confined):
    """Its finalizer goes and it is deleted, although its taint is no longer the operator's."""
    body = rule("confined-edited", key="example.com/x", selector={"driver": "a"})
    body["metadata"]["finalizers"] = [POLICY_FINALIZER]
    confined.client.create(RULES, body)
    path = f"{RULES}/confined-edited"

    assert as_operator(confined, "DELETE", path).status == 200
    assert as_operator(confined, "PATCH", path, {"metadata": {"finalizers": []}}).status == 200


def test_claims_are_created_and_deleted_for_reservations_alone(confined):
    """Not those of people: a claim without such a controller is refused, created or deleted."""
    spec = {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}}
    plain = {"metadata": {"name": "plain"}} | spec
    held = {"metadata": {"name": "held-0", "ownerReferences": [OWNER]}} | spec

    assert as_operator(confined, "POST", f"{confined.claims}?dryRun=All", held).status == 201
    for answer in (
        as_operator(confined, "POST", confined.claims, plain),
        as_operator(confined, "DELETE", f"{confined.claims}/claim"),
    ):
        assert answer.status == 403
        assert "only claims of DeviceReservations" in answer.body["message"]


def test_rules_of_others_are_not_touched(confined):
    """Rules with another key are neither created, changed nor deleted; of its own the taint stays as it is."""
    confined.client.create(RULES, rule("confined-theirs", key="example.com/x", selector={"driver": "a"}))
    confined.client.create(RULES, rule("confined-ours", key=OWNED_KEY, selector={"driver": "a"}))
    theirs, ours = f"{RULES}/confined-theirs", f"{RULES}/confined-ours"
    note = {"metadata": {"annotations": {"dra-operator.io/settled": "x"}, "finalizers": [OWNED_FINALIZER]}}
    try:
        assert as_operator(confined, "PATCH", ours, note).status == 200
        refused = [
            as_operator(confined, "POST", RULES, rule("other", key="example.com/x")),
            as_operator(confined, "PATCH", theirs, note),
            as_operator(confined, "DELETE", theirs),
            as_operator(confined, "PATCH", ours, {"spec": {"taint": {"key": "example.com/x"}}}),
            as_operator(confined, "PATCH", ours, {"spec": {"deviceSelector": {"driver": "b"}}}),
            as_operator(confined, "PATCH", ours, {"metadata": {"labels": {"a": "b"}}}),
        ]
        assert [answer.status for answer in refused] == [403] * len(refused)
        assert as_operator(confined, "DELETE", ours).status == 200
    finally:
        confined.client.patch(ours, {"metadata": {"finalizers": []}})
        confined.client.delete(theirs)


def test_the_most_reservations_cost_no_more_than_is_allowed(confined):
    """The API server evaluates the policy on a claim of 256 pods, the most there can be."""
    pods = [{**POD, "name": f"pod-{i}", "uid": f"{i:036}"} for i in range(256)]
    confined.client.patch(f"{confined.claims}/claim", {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": ALLOCATION, "reservedFor": pods[:-1]}
    confined.client.patch(f"{confined.claims}/claim/status", {"status": status})

    answer = patch(confined, {"status": {"reservedFor": pods}}, "/status")

    assert answer.status == 200, answer.body


def test_others_write_as_before(confined):
    """The policies concern the operator's account alone."""
    confined.client.patch(f"{confined.claims}/claim", {"metadata": {"labels": {"a": "b"}}})
    confined.client.delete(f"{confined.claims}/claim")
