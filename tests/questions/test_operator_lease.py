"""Whether anybody decides: what the Lease of the operator says of pods with its gate."""

import pytest

from factories import claim, request
from small_cluster import cluster, devices, pod

NOW = 1767225600.0
OWNED = [{"key": "dra-operator.io/owned", "effect": "NoSchedule"}]


def lease(holder="operator-0", seconds=1):
    """The Lease, renewed so many seconds before now."""
    renewed = f"2025-12-31T23:59:{60 - seconds:02}.000000Z"
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    metadata = {"name": "dra-operator", "namespace": "system"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def explain(*bodies, listed=(), unread=None):
    """What a gated pod is told that fits."""
    asked = claim("waits", request("gpu"), namespace="team", uid="waits")
    gates = [{"name": "dra-operator.io/allocation"}]
    gated = pod(
        "train", uid="train", entries=[{"name": "gpu", "resourceClaimName": "waits"}], schedulingGates=gates
    )
    state = cluster(
        devices("n1", "gpu-0", taints=OWNED),
        asked,
        gated,
        *bodies,
        now=NOW,
        listed=listed,
        unread=unread or {},
    )
    return state.explain("pod/team/train")


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        ([lease()], "operator-0 renewed its Lease 1s ago (system/dra-operator)"),
        ([lease(seconds=37)], "operator-0 has not renewed its Lease for 37s"),
        ([lease(holder="")], "nobody holds its Lease system/dra-operator"),
        ([], "there is no Lease dra-operator"),
    ],
    ids=["alive", "killed", "stopped", "uninstalled"],
)
def test_gated_pod_that_fits_waits_for_whoever_takes_its_gate_off(bodies, said):
    """It is told where it fits, which gate it has, and whether an operator is there to take it off."""
    answer = explain(*bodies, listed=("Lease",))

    assert (answer.state, answer.node, answer.conclusion.value) == ("waits", "n1", "no")
    assert "its scheduling gate dra-operator.io/allocation" in answer.message
    assert said in answer.message


def test_nothing_is_said_of_a_lease_that_cannot_be_read():
    """Files have none, and not everybody may list them."""
    for answer in (explain(), explain(listed=("Lease",), unread={"Lease": "not permitted"})):
        assert answer.message.endswith("off")


def test_lease_of_somebody_else_is_none_of_the_operator():
    """Each node has one."""
    other = lease()
    other["metadata"] = {"name": "node-1", "namespace": "kube-node-lease"}

    assert "there is no Lease dra-operator" in explain(other, listed=("Lease",)).message
