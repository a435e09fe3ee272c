"""Gangs in the operator: what is told of all their pods, and that no gate comes off before all may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_waiting_pods import PodBench, made

from dra_operator.cluster.writes import nominate, open_gate
from dra_operator.controller.plan_pods import Step, plan_gang
from dra_operator.pods.gate import read_scheduling_pod
from pod_world import NAMESPACE, device_class, node, pod, resource_slice

POD = read_scheduling_pod(
    {
        "metadata": {"name": "p", "namespace": NAMESPACE, "uid": "p", "resourceVersion": "1"},
        "spec": {"schedulingGates": [{"name": "dra-operator.io/allocation"}]},
    }
)
STEPS = [
    Step(to_pod=open_gate(POD)),
    Step(to_pod=nominate(POD, "n1")),
    Step("watch"),
    Step("earlier writes"),
    Step("decision"),
    Step(),
]


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), st.booleans())
def test_no_gate_comes_off_before_all_may(steps, is_begun):
    """Unless one is off: all gates come off at once, and nothing is written where the gang is decided again."""
    planned = plan_gang(steps, is_begun=is_begun)

    assert len(planned) == len(steps)
    opened = [step.opens_gate for step in planned]
    assert is_begun or all(opened) or not any(opened)
    assert all(opened) or not all(step.opens_gate for step in steps)
    if not is_begun and STEPS[4] in steps:
        assert all(step.waits_for == "decision" and step.to_pod is None for step in planned)


@pytest.fixture
def bench(clock):
    """Cycles of an operator that explains, with a class and a node of three devices."""
    found = PodBench(clock)
    found.put(device_class(), node("n1", cpu="3"), resource_slice("n1", "gpu-0", "gpu-1", "gpu-2"))
    return found


def members(count, cpu="1"):
    """Pods of a PodGroup, which need a device each, and their claims."""
    for number in range(count):
        body, of_pod = made(f"p-{number}")
        asked = pod(f"p-{number}", cpu=cpu)["spec"]["containers"]
        group = {"schedulingGroup": {"podGroupName": "train"}}
        yield {**body, "spec": {**body["spec"], **group, "containers": asked}}
        yield of_pod


def group(at_least):
    """The PodGroup."""
    spec = {"schedulingPolicy": {"gang": {"minCount": at_least}}}
    return {"kind": "PodGroup", "metadata": {"name": "train", "namespace": NAMESPACE}, "spec": spec}


def test_each_pod_of_a_gang_is_told_how_many_fit(bench):
    """Of four pods three fit; all four, and their claims, say so, and what the next one lacks."""
    bench.put(group(4), *members(4))
    bench.after(10)

    assert [name for name, _, _ in bench.told] == ["p-0", "p-1", "p-2", "p-3"]
    (message,) = {message for _, _, message in bench.told}
    assert message.startswith(
        f'3 of 4 pods of PodGroup "{NAMESPACE}/train" fit together; the next, p-3, does not: '
    )
    assert {reason for _, reason, _ in bench.told} == {"DeviceInUse"}
    assert bench.annotation("p-2-gpu") == message


def test_a_gang_without_all_its_pods_is_told_how_many_are_missing(bench):
    """kube-scheduler waits for them, whatever is free."""
    bench.put(group(3), *members(2))
    bench.after(10)

    assert {message for _, _, message in bench.told} == {
        f'PodGroup "{NAMESPACE}/train" has 2 of 3 pods, and 1 is missing'
    }


def test_a_gang_that_fits_is_told_of_after_forty_seconds(bench):
    """kube-scheduler may be about to place it."""
    bench.put(group(3), *members(3))
    bench.after(40)
    assert bench.told == []

    bench.after(14)
    assert {message.partition(", and")[0] for _, _, message in bench.told} == {
        f'all 3 pods of PodGroup "{NAMESPACE}/train" fit together on node n1'
    }


def test_room_for_pods_counts_for_all_of_them(bench):
    """Three devices are free, and the node has cpu for one pod of two."""
    bench.put(group(2), *members(2, cpu="2"))
    bench.after(10)

    (message,) = {message for _, _, message in bench.told}
    assert message.endswith("p-1, does not: it fits by itself, but not together with the others")
