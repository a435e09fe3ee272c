"""Beside kube-scheduler and kube-controller-manager: who allocates what."""

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


def test_job_gets_both_claims(job):
    """A Job's pod runs with a claim of ours that it shares and one of its own from kube-scheduler, on one node."""
    (pod,) = job.client.get(pods(job, "job-that-fits"))["items"]

    (own,) = claims_of_pods(job)
    shared = job.claim("shared-gpu")
    assert pod["spec"]["nodeName"] == node(shared) == node(own)
    assert set(devices(shared)).isdisjoint(devices(own))
