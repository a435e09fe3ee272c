"""Beside kube-scheduler and kube-controller-manager: who allocates what, and what becomes of it."""

import pytest
import yaml

from controlplane.scene import EXAMPLES, devices, node

SETUP = ("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
JOB = "walkthrough/6-job-that-fits.yaml"


@pytest.fixture
def cluster(full_scene, full_operator):
    """Return a full cluster with the class and the slices of the walkthrough, on which the operator runs."""
    full_scene.apply(*SETUP)
    return full_scene


@pytest.fixture
def job(cluster):
    """Return the cluster with the Job that shares a claim of ours, its pod bound.

    The claim comes first and is allocated before the Job is there. At once with it, kube-scheduler could choose the
    same device for the pod's own claim as the operator for this one, and neither would know in time (docs/operator.md,
    "Limits"). So it has seen our allocation when it chooses: the pod's claim, which it waits for, is newer.
    """
    shared, *_ = yaml.safe_load_all((EXAMPLES / JOB).read_text(encoding="utf-8"))
    cluster.client.create(cluster.claims, shared)
    cluster.wait_allocated("shared-gpu")
    cluster.apply(JOB)
    wait_pods(cluster, "job-that-fits", lambda pod: pod["spec"].get("nodeName"), "pods bound")
    return cluster


def pods(scene, job):
    """Return the path of the pods of a Job."""
    return f"/api/v1/namespaces/{scene.namespace}/pods?labelSelector=job-name%3D{job}"


def wait_pods(scene, job, condition, what):
    """Wait until a condition is true of all pods of a Job, which has some, and return them."""
    listed = scene.client.wait_for(
        pods(scene, job),
        lambda found: found["items"] and all(condition(pod) for pod in found["items"]),
        what=what,
    )
    return listed["items"]


def claims_of_pods(scene):
    """Return the claims that the controller manager made of templates."""
    return [claim for claim in scene.all_claims() if "ownerReferences" in claim["metadata"]]


@pytest.fixture
def pod(cluster):
    """Return the path of a pod that names a claim of ours and is bound to its node."""
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
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/user"
    cluster.client.wait_for(path, lambda pod: pod["spec"].get("nodeName"))
    return path


def test_pod_follows_the_claim(cluster, pod):
    """A pod that names a claim of ours is bound to the node of the claim, and the claim is reserved for it."""
    claim = cluster.claim("example-resource-claim")
    assert cluster.client.get(pod)["spec"]["nodeName"] == node(claim) == "node-1"
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["user"]


def test_job_gets_both_claims(job):
    """A Job's pod runs with a claim of ours that it shares and one of its own from kube-scheduler, on one node."""
    (pod,) = job.client.get(pods(job, "job-that-fits"))["items"]

    (own,) = claims_of_pods(job)
    shared = job.claim("shared-gpu")
    assert pod["spec"]["nodeName"] == node(shared) == node(own)
    assert set(devices(shared)).isdisjoint(devices(own))


def test_released_claim_is_allocated_again(job, full_operator):
    """When the last pod ends, the controller manager clears a claim of ours, and it is allocated again."""

    def allocations():
        claim = f"{job.namespace}/shared-gpu"
        return [
            line for line in full_operator.lines() if line["event"] == "allocated" and line["claim"] == claim
        ]

    before = len(allocations())

    job.client.delete(
        f"/apis/batch/v1/namespaces/{job.namespace}/jobs/job-that-fits?propagationPolicy=Background"
    )
    job.client.delete(f"/api/v1/namespaces/{job.namespace}/pods?gracePeriodSeconds=0")

    full_operator.wait_until(lambda: len(allocations()) > before)
    assert "reservedFor" not in job.wait_allocated("shared-gpu")["status"]
