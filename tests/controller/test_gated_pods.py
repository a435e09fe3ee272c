"""Gated pods, with the API server in memory: their claims are allocated together, and then the pod is let go."""

import pytest

from cluster import CLASS, Operator, claim, resource_slice
from cluster import node as bare_node

GATE = "dra-operator.io/allocation"


def pod(name="pod", *claims, gates=(GATE,), **spec):
    """A gated pod that names some claims."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "schedulingGates": [{"name": gate} for gate in gates],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def node(name="node-1", **spec):
    """A node that is ready and has room for pods."""
    body = bare_node(name, **spec)
    body["status"]["allocatable"] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return body


class Pods:
    """What tests ask of the pods of a cluster."""

    def __init__(self, cluster):
        self.cluster = cluster

    def gates(self, name="pod"):
        """The gates that a pod has."""
        body = self.cluster.server.get("Pod", name, "default")
        return [gate["name"] for gate in body["spec"].get("schedulingGates", ())]

    def nominated(self, name="pod"):
        """The node that a pod is nominated to."""
        return self.cluster.server.get("Pod", name, "default")["status"].get("nominatedNodeName")

    async def let_go(self, name="pod"):
        """Wait until the gate of a pod is off."""
        await self.cluster.until(lambda: not self.gates(name), f"the hand-over of {name}")


@pytest.fixture
def pods(cluster):
    """A cluster of two nodes with two devices each."""
    cluster.put(
        node("node-1"),
        node("node-2"),
        CLASS,
        resource_slice("gpu-0", "gpu-1"),
        resource_slice("gpu-0", "gpu-1", name="slice-2", on="node-2", pool="pool-2"),
    )
    return Pods(cluster)


@pytest.fixture
async def operator(cluster, pods):
    """An operator that takes gated pods."""
    found = await Operator(cluster.server.url, claims="gated").start()
    await found.ready()
    yield found
    await found.manager.close()
    assert not found.crashed


async def test_pod_is_let_go_when_all_its_claims_are_stored_on_one_node(cluster, pods, operator):
    """A gated pod gets the devices of both its claims on one node, is nominated to it, and loses its gate."""
    cluster.put(claim("a"), claim("b"), pod("pod", "a", "b"))

    await pods.let_go()

    assert sorted(cluster.devices("a") + cluster.devices("b")) == ["gpu-0", "gpu-1"]
    assert pods.nominated() == "node-1"
