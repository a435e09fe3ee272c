"""The judge of hand-overs: what it finds by the watches of claims and pods."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from coexistence.observer import Observer
from coexistence.reader import Reader, published
from handover.fleet import DRIVER, NAMESPACE, SLICES, Fleet, pod
from handover.judge import Judge

FLEET = Fleet(2)


class Scene:
    """Events of the watches, each in a version of its own."""

    def __init__(self):
        stock = published(FLEET.objects()[SLICES])
        self.observer = Observer(None, Reader(stock, set()))
        self.judge = Judge(FLEET, self.observer)
        self.version = 0

    def put(self, objects, body, kind="MODIFIED"):
        """Bring one event."""
        self.version += 1
        body["metadata"] |= {
            "namespace": NAMESPACE,
            "uid": body["metadata"]["name"],
            "resourceVersion": str(self.version),
        }
        objects.apply(kind, body)

    def claim(self, name, node="", device="gpu-0", **status):
        """Bring a claim, with a device of a node if one is given."""
        result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
        if node:
            status["allocation"] = {"devices": {"results": [result]}}
        self.put(self.observer.claims, {"metadata": {"name": name}, "status": status})

    def pod(self, *claims, is_gated=True, node=""):
        """Bring the pod with the claims that were made for it."""
        body = pod("gated-0", claims=len(claims), is_gated=is_gated)
        statuses = [{"name": name, "resourceClaimName": name} for name in claims]
        body["status"] = {"resourceClaimStatuses": statuses}
        if node:
            body["spec"]["nodeName"] = node
        self.put(self.observer.pods, body)


@pytest.fixture
def scene():
    """A gated pod with two claims without devices."""
    found = Scene()
    for name in ("a", "b"):
        found.claim(name)
    found.pod("a", "b")
    return found


def test_hand_over_in_order_is_no_fault(scene):
    """Both claims are allocated on a node, the gate comes off, and the pod is bound there."""
    scene.claim("a", "node-001", "gpu-0")
    scene.claim("b", "node-001", "gpu-1")
    scene.pod("a", "b", is_gated=False)
    scene.pod("a", "b", is_gated=False, node="node-001")

    assert list(scene.judge.faults()) == []
    assert scene.judge.let_go == 1


def test_gate_that_comes_off_too_early_is_a_fault(scene):
    """Even if the claim is allocated a moment later."""
    scene.claim("a", "node-001")
    scene.pod("a", "b", is_gated=False)
    scene.claim("b", "node-001", "gpu-1")

    (fault,) = scene.judge.faults()
    assert fault.endswith("without b")


def test_device_that_no_pod_has_is_found(scene):
    """A claim that is reserved is in use."""
    scene.claim("a", "node-001")
    scene.claim("b", "node-001", "gpu-1", reservedFor=[{"resource": "pods", "name": "gated-0", "uid": "1"}])

    assert list(scene.judge.held_by_nobody()) == [f"{NAMESPACE}/a"]
    assert scene.judge.free() == {"node-000": (4, 4), "node-001": (2, 4)}
