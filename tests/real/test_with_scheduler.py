"""Beside kube-scheduler and kube-controller-manager: who allocates what, and what becomes of it."""

import pytest

from controlplane.scene import FINALIZER, allocation, annotations, devices, node

SETUP = ("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")


@pytest.fixture
def cluster(full_scene, full_operator):
    """Return a full cluster with the class and the slices of the walkthrough, on which the operator runs."""
    full_scene.apply(*SETUP)
    return full_scene


def pods(scene, job):
    """Return the path of the pods of a Job."""
    return f"/api/v1/namespaces/{scene.namespace}/pods?labelSelector=job-name%3D{job}"


def wait_pods(scene, job, condition, what):
    """Wait until a condition is true of all pods of a Job, which has some, and return them."""
    listed = scene.client.wait_for(
        pods(scene, job),
        lambda found: found["items"] and all(condition(pod) for pod in found["items"]),
        seconds=60,
        what=what,
    )
    return listed["items"]


def claims_of_pods(scene):
    """Return the claims that the controller manager made of templates."""
    return [claim for claim in scene.all_claims() if "ownerReferences" in claim["metadata"]]


def test_pod_follows_the_claim(cluster):
    """A pod that names a claim of ours is bound to the node of the claim, and the claim is reserved for it."""
    cluster.apply("walkthrough/3-claim.yaml")
    cluster.wait_allocated("example-resource-claim")
    cluster.client.create(
        f"/api/v1/namespaces/{cluster.namespace}/pods",
        {
            "metadata": {"name": "user"},
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "example-resource-claim"}],
            },
        },
    )

    bound = cluster.client.wait_for(
        f"/api/v1/namespaces/{cluster.namespace}/pods/user",
        lambda pod: pod["spec"].get("nodeName"),
        seconds=30,
    )

    claim = cluster.claim("example-resource-claim")
    assert bound["spec"]["nodeName"] == node(claim) == "node-1"
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["user"]


def test_job_gets_both_claims(cluster):
    """A Job's pod runs with a claim of ours that it shares and one of its own from kube-scheduler, on one node."""
    cluster.apply("walkthrough/6-job-that-fits.yaml")

    (pod,) = wait_pods(cluster, "job-that-fits", lambda pod: pod["spec"].get("nodeName"), "pods bound")

    (own,) = claims_of_pods(cluster)
    shared = cluster.claim("shared-gpu")
    assert pod["spec"]["nodeName"] == node(shared) == node(own)
    assert set(devices(shared)).isdisjoint(devices(own))


def test_claims_of_templates_are_left_alone(cluster):
    """The claims of the documentation's Job are kube-scheduler's: without finalizer and annotation of ours."""
    cluster.apply("walkthrough/3-claim.yaml")
    cluster.wait_allocated("example-resource-claim")
    cluster.apply("walkthrough/4-template.yaml", "walkthrough/5-job.yaml")

    wait_pods(
        cluster,
        "example-dra-job",
        lambda pod: "cannot allocate all claims" in str(pod["status"].get("conditions")),
        "kube-scheduler finds that they ask twice for all GPUs of a node",
    )

    claims = claims_of_pods(cluster)
    assert len(claims) == 2
    for claim in claims:
        assert FINALIZER not in claim["metadata"].get("finalizers", [])
        assert annotations(claim) == {"resource.kubernetes.io/pod-claim-name": "separate-gpu-claim"}
        assert allocation(claim) is None


def test_released_claim_is_allocated_again(cluster, full_operator):
    """When the last pod ends, the controller manager clears a claim of ours, and it is allocated again."""

    def allocations():
        claim = f"{cluster.namespace}/shared-gpu"
        return [
            line for line in full_operator.lines() if line["event"] == "allocated" and line["claim"] == claim
        ]

    cluster.apply("walkthrough/6-job-that-fits.yaml")
    wait_pods(cluster, "job-that-fits", lambda pod: pod["spec"].get("nodeName"), "pods bound")
    before = len(allocations())

    cluster.client.delete(
        f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/job-that-fits?propagationPolicy=Background"
    )
    cluster.client.delete(f"/api/v1/namespaces/{cluster.namespace}/pods?gracePeriodSeconds=0")

    full_operator.wait_until(lambda: len(allocations()) > before, seconds=30)
    assert "reservedFor" not in cluster.wait_allocated("shared-gpu")["status"]


def test_devices_of_the_scheduler_are_in_use(cluster):
    """Devices that kube-scheduler gave to pods are not given to claims of ours."""
    cluster.apply("walkthrough/6-job-that-fits.yaml")
    wait_pods(cluster, "job-that-fits", lambda pod: pod["spec"].get("nodeName"), "pods bound")
    (own,) = claims_of_pods(cluster)
    taken = {*devices(own), *devices(cluster.claim("shared-gpu"))}

    for name in ("first", "second"):
        cluster.create_claim(name, "example-device-class")

    given = {*devices(cluster.wait_allocated("first")), *devices(cluster.wait_allocated("second"))}
    assert given == {"node-1/gpu-0", "node-1/gpu-1", "node-2/gpu-0", "node-2/gpu-1"} - taken
    cluster.create_claim("third", "example-device-class")
    assert "in use" in cluster.wait_pending("third")


def test_deleted_claim_goes(cluster):
    """Beside the claim controller, which cleans up too, a deleted claim of ours goes without a complaint."""
    cluster.apply("walkthrough/3-claim.yaml")
    cluster.wait_allocated("example-resource-claim")

    cluster.delete_claim("example-resource-claim")

    cluster.wait_gone("example-resource-claim")
