"""Pods that their own nodeSelector or affinity keeps to a few nodes: these are judged, whatever else there is."""

import pytest

from small_cluster import cluster, devices, holding, node, waiting_pod

X = "x-1"
HOST = {"kubernetes.io/hostname": X}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [X]}]}
            ]
        }
    }
}
PINNED = {"selector": {"nodeSelector": HOST}, "affinity": {"affinity": AFFINITY}}


def others(count):
    """Nodes that would do, with devices that are free."""
    names = [f"n{number:03}" for number in range(10, 10 + count)]
    return [body for name in names for body in (node(name), devices(name, "gpu-0"))]


def explain(*bodies, count=2, pinned="selector", cpu="1", **fields):
    """What a pod is told that may go to one node, of the two devices of which some are held."""
    asked = waiting_pod(**PINNED[pinned])
    asked[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    state = cluster(*others(count), node(X, **fields), devices(X, "gpu-0", "gpu-1"), *asked, *bodies)
    return state.explain("pod/team/train")


HELD = holding("held", X, "gpu-0", "gpu-1")


@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize("pinned", PINNED)
def test_cordon_of_the_only_node_is_the_reason(count, pinned):
    """Its devices are free: the pod is told of the cordon there, and what would help."""
    answer = explain(count=count, pinned=pinned, unschedulable=True)

    assert (answer.state, answer.reason) == ("waits", "NodeUnsuitable")
    assert f"{X}: unschedulable" in answer.message
    assert "the nodes were not cordoned" in [each.text for each in answer.changes]


@pytest.mark.parametrize("count", [2, 300])
def test_all_that_is_in_the_way_there_is_told(count):
    """Two obstacles of the node, and devices that are in use: none of them hides another."""
    answer = explain(HELD, count=count, cpu="12", unschedulable=True)

    assert (answer.state, answer.reason) == ("waits", "DeviceInUse")
    assert f"{X}: unschedulable, cpu (8 left of 8, 12 requested)" in answer.message
    assert "2 in use by 1 claim (held)" in answer.message


@pytest.mark.parametrize("count", [2, 300])
def test_only_devices_that_the_pod_can_reach_are_counted(count):
    """Those of other nodes are none for it."""
    answer = explain(HELD, count=count)

    (funnel,) = answer.requests
    assert [(step.name, step.left) for step in funnel.steps] == [
        ("published", 2),
        ("class", 2),
        ("DeviceInUse", 0),
    ]
    assert f"on {X}, to which its nodeSelector keeps the pod" in answer.message


def test_shortage_of_the_only_node_is_named_before_the_selector():
    """Cpu there, and not that other nodes are not selected."""
    answer = explain(count=300, cpu="12")

    assert answer.reason == "NodeUnsuitable"
    assert f"{X}: cpu (8 left of 8, 12 requested)" in answer.message
    assert answer.changes[0].text == "the nodes had enough cpu, or the pod requested less"


def test_pod_that_many_nodes_admit_is_told_of_counts():
    """Of more than three nodes not all obstacles are listed."""
    asked = waiting_pod(nodeSelector={"zone": "a"})
    zone = [
        {**body, "metadata": {**body["metadata"], "labels": {"zone": "a"}}}
        if body["kind"] == "Node"
        else body
        for body in others(4)
    ]
    for body in zone:
        if body["kind"] == "Node":
            body["spec"] = {"unschedulable": True}

    answer = cluster(*zone, *asked).explain("pod/team/train")

    assert answer.reason == "NodeUnsuitable"
    assert "4 unschedulable (" in answer.message


def test_node_that_nothing_admits_is_said_by_the_selector():
    """There is no node of this name."""
    answer = cluster(*waiting_pod(nodeSelector=HOST)).explain("pod/team/train")

    assert answer.reason == "NodeUnsuitable"
    assert f"nodeSelector kubernetes.io/hostname={X}" in answer.message
