"""Gated pods whose gate somebody keeps on, with the real control plane: in the end they are bound, by what is there."""

import pytest

from controlplane import install_access, install_component
from controlplane.fencing import ADMISSION, install
from controlplane.scene import RESOURCE, allocation, devices
from dra_operator.api.names import GATE

from .test_gated_pods import FLAGS, GPU, create_class, publish

POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "puts-back"},
    "spec": {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"hold": "true"}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
            ],
        },
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": "Object{spec: Object.spec{schedulingGates: ["
                    f'Object.spec.schedulingGates{{name: "{GATE}"}}]}}}}'
                },
            }
        ],
    },
}
"""A policy that does on each update what such a webhook does."""
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "puts-back"},
    "spec": {"policyName": "puts-back"},
}
LABEL = {"disk": "fast"}


class Namespace:
    """A namespace of a cluster with two nodes, and the pods in it."""

    def __init__(self, scene):
        self.scene, self.client = scene, scene.client
        self.pods = f"/api/v1/namespaces/{scene.namespace}/pods"

    def create_pod(self, name, **labels):
        """Create a gated pod with a claim of a template."""
        spec = {
            "containers": [{"name": "main", "image": "none"}],
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "nodeSelector": LABEL,
        }
        self.client.create(self.pods, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def wait(self, name, condition, what):
        """Wait until a condition is true of a pod, and return it."""
        return self.client.wait_for(f"{self.pods}/{name}", condition, what=f"{what} of {name}")

    def wait_bound(self, name):
        """Wait until a pod has a node, and return that."""
        return self.wait(name, lambda pod: pod["spec"].get("nodeName"), "the node")["spec"]["nodeName"]

    def claim_of(self, name):
        """Return the name of the claim that was made for a pod."""
        status = self.client.get(f"{self.pods}/{name}")["status"]
        (made,) = status["resourceClaimStatuses"]
        return made["resourceClaimName"]

    def wait_refused(self, name):
        """Wait until a pod says that a write is refused, and return the text."""

        def texts(events):
            return [
                event["message"]
                for event in events["items"]
                if (event["involvedObject"]["name"], event["reason"]) == (name, "AllocationRefused")
            ]

        path = f"/api/v1/namespaces/{self.scene.namespace}/events"
        return texts(self.client.wait_for(path, texts, what=f"the Event of {name}"))[0]

    def add_label(self, node):
        """Have gated pods go to a node."""
        self.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": LABEL}})

    def put_back_gates(self):
        """Have the gate put back with each update of a pod that has the label."""
        install(self.scene, [POLICY, BINDING])
        self.create_pod("probe", hold="true")
        path = f"{self.pods}/probe"
        body = {"spec": {"schedulingGates": []}}

        def is_put_back(_):
            answer = self.client.request(
                "PATCH", f"{path}?dryRun=All", body, content_type="application/merge-patch+json"
            )
            return not answer.ok or answer.body["spec"].get("schedulingGates")

        self.client.wait_for(path, is_put_back, what="the policy")
        self.client.delete(f"{path}?gracePeriodSeconds=0")

    def leave_gates(self):
        """End the policy."""
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            self.client.delete(f"{ADMISSION}/{kind}/puts-back")


@pytest.fixture
def cluster(full_control_plane, full_scene):
    """Two nodes with two GPUs each, which are ours; gates are put back."""
    install_access(full_control_plane)
    install_component(full_control_plane, "gates")
    full_scene.apply("nodes.yaml")
    create_class(full_scene, GPU)
    for name in ("node-1", "node-2"):
        publish(full_scene, GPU, name, ("gpu-0", "gpu-1"), nodeName=name)
    request = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}
    full_scene.client.create(
        f"{RESOURCE}/namespaces/{full_scene.namespace}/resourceclaimtemplates",
        {"metadata": {"name": "one"}, "spec": {"spec": {"devices": request}}},
    )
    found = Namespace(full_scene)
    found.add_label("node-1")
    found.put_back_gates()
    yield found
    found.leave_gates()


def test_pod_whose_gate_is_put_back_says_so_and_goes_on_without_the_policy(cluster, start_full_operator):
    """The API server accepts the patch and leaves the pod as it was; the pod says that, and no other pod waits."""
    start_full_operator(*FLAGS).wait_ready()
    cluster.create_pod("held", hold="true")
    cluster.create_pod("free")

    cluster.wait_bound("free")
    text = cluster.wait_refused("held")

    assert text == (
        f"the API server refuses the removal of the scheduling gate {GATE}: the patch of pods was accepted, "
        "but spec.schedulingGates is not as sent: a mutating webhook or admission policy changes it"
    )
    held = cluster.client.get(f"{cluster.pods}/held")
    assert [gate["name"] for gate in held["spec"]["schedulingGates"]] == [GATE]
    cluster.leave_gates()
    cluster.wait_bound("held")


def test_claim_of_a_template_is_made_anew_for_a_gated_pod(cluster, start_full_operator):
    """It is deleted after it got its device; the pod is bound with the next one, which has another name."""
    start_full_operator(*FLAGS).wait_ready()
    cluster.create_pod("held", hold="true")
    cluster.wait_refused("held")
    before = cluster.claim_of("held")

    cluster.scene.delete_claim(before)

    cluster.wait("held", lambda _pod: cluster.claim_of("held") != before, "the next claim")
    cluster.leave_gates()
    cluster.wait_bound("held")
    (claim,) = cluster.scene.all_claims()
    assert claim["metadata"]["name"] == cluster.claim_of("held")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["held"]


def test_pod_goes_to_the_node_that_takes_the_place_of_the_one_that_it_is_nominated_to(
    cluster, start_full_operator
):
    """The node comes back under another name, with its devices: what was allocated on the old one is taken back."""
    start_full_operator(*FLAGS).wait_ready()
    cluster.create_pod("held", hold="true")
    cluster.wait_refused("held")
    node = cluster.client.get("/api/v1/nodes/node-1")
    assert cluster.client.get(f"{cluster.pods}/held")["status"]["nominatedNodeName"] == "node-1"

    cluster.client.delete("/api/v1/nodes/node-1")
    cluster.client.delete(f"{RESOURCE}/resourceslices/{GPU}-node-1")
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": "renamed"}
    cluster.client.create("/api/v1/nodes", {"metadata": {"name": "renamed", "labels": labels}})
    cluster.client.patch("/api/v1/nodes/renamed/status", {"status": node["status"]})
    publish(cluster.scene, GPU, "renamed", ("gpu-0", "gpu-1"), nodeName="renamed")
    cluster.leave_gates()

    assert cluster.wait_bound("held") == "renamed"
    (claim,) = cluster.scene.all_claims()
    assert allocation(claim) is not None
    assert [each.partition("/")[0] for each in devices(claim)] == ["renamed"]
