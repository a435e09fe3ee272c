"""A device of ours that somebody else allocated all the same: it is told, and nothing is taken from anybody."""

import os
import time

import pytest

from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT, install_fence
from controlplane.scene import FINALIZER, RESOURCE, allocation, devices

SETUP = ("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
CLASS, DRIVER = "example-device-class", "driver.example.com"
RULES = f"{RESOURCE}/devicetaintrules"
REASON = "DeviceAllocatedTwice"
QUIET_SECONDS = float(os.environ.get("QUIET_SECONDS", "5"))
"""For how long nobody may write to the claims. With 60 in the environment the test is the long one of the docs."""


@pytest.fixture
def owned(full_access, full_scene, run_full_operator):
    """Return a cluster whose four devices are the operator's, behind the fence, and the operator that uses them."""
    install_fence(full_access)
    full_scene.apply(*SETUP)
    taint = {"key": "dra-operator.io/owned", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": DRIVER}, "taint": taint}
    full_scene.client.create(RULES, {"metadata": {"name": "ours"}, "spec": spec})
    return full_scene, run_full_operator(
        "--devices=owned", "--ownership-settle-seconds=1", "--ownership-quiet-seconds=4"
    )


@pytest.fixture
def broken(owned):
    """Return the same after somebody has given a device of ours to the claim of a pod.

    In the name of the operator, which the policy lets pass: it stays as it is, since kube-apiserver does not follow the
    rules for a policy that is deleted and comes again.
    """
    scene, operator = owned
    scene.create_claim("ours", CLASS)
    held = allocation(scene.wait_allocated("ours"))
    scene.create_claim("theirs", CLASS, labels={"dra-operator.io/allocate": "false"})
    scene.client.patch(f"{scene.claims}/theirs", {"metadata": {"finalizers": [FINALIZER]}})
    passed = scene.plane.client_for(SERVICE_ACCOUNT, NAMESPACE)
    passed.patch(f"{scene.claims}/theirs/status", {"status": {"allocation": held}})
    scene.create_user("theirs")
    pod = f"/api/v1/namespaces/{scene.namespace}/pods/user"
    scene.client.wait_for(pod, lambda found: found["spec"].get("nodeName"), what="a node")
    return scene, operator


def writes_to(scene, *names):
    """Return what the operator has sent to change claims, by the audit log."""
    return [
        (request["verb"], request["objectRef"]["name"])
        for request in scene.plane.requests_of(SERVICE_ACCOUNT, NAMESPACE)
        if request.get("objectRef", {}).get("resource") == "resourceclaims"
        and request["objectRef"].get("name") in names
        and request["objectRef"].get("namespace") == scene.namespace
        and request["verb"] not in {"get", "list", "watch"}
    ]


def collisions(operator):
    """Return the metric of devices that two claims hold."""
    lines = operator.http("/metrics")[1].splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith("dra_operator_device_collisions ")]
    return float(value)


def test_two_holders_are_told_and_left_alone(broken):
    """Both claims get their Event, the metric counts one device, the operator stays ready and writes to neither."""
    scene, operator = broken
    assert devices(scene.claim("ours")) == devices(scene.claim("theirs"))

    for name in ("ours", "theirs"):
        event = scene.wait_event(name, REASON)
        assert event["type"] == "Warning"
        assert event["source"]["component"] == "dra-operator"
    operator.wait_until(lambda: collisions(operator) == 1)

    names = ("ours", "theirs")
    before = [scene.claim(name)["metadata"]["resourceVersion"] for name in names]
    sent = writes_to(scene, *names)
    time.sleep(QUIET_SECONDS)
    assert [scene.claim(name)["metadata"]["resourceVersion"] for name in names] == before
    assert writes_to(scene, *names) == sent
    assert collisions(operator) == 1
    assert operator.http("/readyz")[0] == 200


def test_other_claims_wait_until_nobody_else_has_allocated_for_a_while(broken):
    """A third claim gets another device then; meanwhile the operator says why it waits."""
    scene, operator = broken
    scene.create_claim("third", CLASS)
    operator.wait_until(lambda: "somebody else has allocated" in operator.http("/readyz")[1])
    assert "status" not in scene.claim("third") or "allocation" not in scene.claim("third")["status"]

    third = scene.wait_allocated("third")
    assert set(devices(third)).isdisjoint(devices(scene.claim("ours")))
