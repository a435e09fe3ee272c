"""`simulate` where some devices are the operator's: who is given what, and what is said."""

import factories
from simulation import CLASS, claim, devices, node, states, table

OWN = factories.taint_rule(
    "own-a", {"driver": "gpu.example.com", "pool": "node-1", "device": "a"}, key="dra-operator.io/owned"
)


def pod(name, uses):
    """A pod that uses a claim."""
    return factories.pod(name, {"name": "gpu", "resourceClaimName": uses}, namespace="default")


def test_the_operator_gets_what_it_owns_and_kube_scheduler_the_rest(simulate):
    """A standalone claim has the owned device, a pod's claim the other; a note says by which rule that is so."""
    result = simulate(
        CLASS, node("node-1"), devices("a", "b"), OWN, claim("of-pod"), pod("pod", "of-pod"), claim("alone")
    )

    assert {row[0]: row[3].rpartition("/")[2] for row in table(result)} == {
        "default/of-pod": "b",
        "default/alone": "a",
    }
    assert "owns (by DeviceTaintRule own-a), to claims that no pod uses" in result.stderr


def test_what_is_left_is_not_for_the_other(simulate):
    """Where all owned devices are in use a standalone claim waits, and where all others are, a pod's."""
    result = simulate(
        CLASS,
        node("node-1"),
        devices("a", "b"),
        OWN,
        *(claim(f"alone-{number}") for number in (1, 2)),
        *(claim(f"pods-{number}") for number in (1, 2)),
        *(pod(f"pod-{number}", f"pods-{number}") for number in (1, 2)),
    )

    assert states(result) == {
        "default/alone-1": "allocated",
        "default/alone-2": "pending",
        "default/pods-1": "allocated",
        "default/pods-2": "pending",
    }
    texts = {row[0]: row[3] for row in table(result)}
    assert "1 not owned by this operator" in texts["default/alone-2"]
    assert (
        "1 tainted (dra-operator.io/owned:NoSchedule on 1; set by DeviceTaintRule own-a)"
        in texts["default/pods-2"]
    )


def test_pod_that_must_run_elsewhere_is_explained_although_no_claim_is_standalone(simulate):
    """Nothing was asked of the operator before, and its nodes are known all the same."""
    bound = pod("pod", "of-pod")
    bound["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
    nodes = [
        factories.manifest("Node", name, labels={"kubernetes.io/hostname": name})
        for name in ("node-1", "node-2")
    ]

    result = simulate(CLASS, *nodes, devices("a"), devices("b", on="node-2"), OWN, claim("of-pod"), bound)

    assert states(result) == {"default/of-pod": "pending"}
    assert "DeviceTainted: request gpu: 1 device published" in result.stdout
    assert "counted on node-1, to which its nodeSelector keeps the pod" in result.stdout
