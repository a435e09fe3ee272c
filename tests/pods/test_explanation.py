"""Why pods wait: each reason of docs/reasons.md about pods, with its example, and whose objects a message names."""

import re
from pathlib import Path
from typing import Any

import pytest

from dra_operator.allocator.reasons import Reason
from pod_world import (
    PodWorld,
    allocation,
    claim,
    device_class,
    named,
    node,
    pod,
    resource_slice,
    templated,
)

NIC = "nic.example.com"
MADE = {"name": "gpu", "resourceClaimName": "train-0-gpu-x7k2p"}
BUSY = pod("busy", cpu="3", nodeName="n1")
BASE = (device_class(), device_class(NIC), node("n1"), node("n2"))
GPUS = (resource_slice("n1", "gpu-0"), resource_slice("n2", "gpu-0"))
ML = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
CONSUMERS = [{"resource": "pods", "name": f"p{number}", "uid": str(number)} for number in range(256)]

SCENES: dict[str, list[dict[str, Any]]] = {
    "ClaimNotFound": [*GPUS, pod("train-0", named("gpu", "gpu-0"))],
    "ClaimNotCreated": [
        *GPUS,
        {"kind": "ResourceClaimTemplate", "metadata": {"namespace": "team", "name": "gpu"}},
        pod("train-0", templated("gpu")),
    ],
    "ClaimNotForPod": [
        *GPUS,
        claim("train-0-gpu-x7k2p", owner="another"),
        pod("train-0", templated("gpu"), made=[MADE]),
    ],
    "ClaimReservedTooOften": [
        *GPUS,
        claim("shared", status={"allocation": allocation("n1", "gpu-0"), "reservedFor": CONSUMERS}),
        pod("train-0", named("gpu", "shared")),
    ],
    "TemplateNotFound": [*GPUS, pod("train-0", templated("gpu"))],
    "NodeUnsuitable": [
        *GPUS,
        node("n2", taints=ML),
        BUSY,
        claim("c"),
        pod("train-0", named("gpu", "c"), cpu="2"),
    ],
    "AllocatedNodeUnsuitable": [
        *GPUS,
        BUSY,
        claim("c", status={"allocation": allocation("n1", "gpu-0")}),
        pod("train-0", named("gpu", "c"), cpu="2"),
    ],
    "ClaimsDoNotFitTogether": [
        resource_slice("n1", "gpu-0"),
        resource_slice("n2", "nic-0", driver=NIC),
        claim("c"),
        claim("d", of=NIC),
        pod("train-0", named("gpu", "c"), named("nic", "d")),
    ],
}
"""For each reason objects in which the pod train-0 has it. What is told after a while is in tests of the controller."""


def examples() -> dict[str, str]:
    """Return the examples of docs/reasons.md, by reason."""
    page = (Path(__file__).parents[2] / "docs" / "reasons.md").read_text(encoding="utf-8")
    section = page.partition("## The pod's claims, or its nodes, are in the way")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \|[^|]*\| `([^`]*)` \|", section, re.MULTILINE))


@pytest.mark.parametrize("reason", SCENES)
def test_example_of_a_reason_is_what_is_told(reason: str) -> None:
    """Whoever compares an Event with the page finds the same words; an ellipsis stands for what was left out."""
    told = PodWorld(*BASE, *SCENES[reason]).message("train-0")
    assert told.startswith(f"{reason}: {examples()[reason].rstrip('… ')}")


def test_on_the_few_nodes_that_suit_it_is_said_what_is_missing() -> None:
    """A pod that is kept to a node, as one of a DaemonSet, waits for what that node lacks."""
    world = PodWorld(
        *BASE,
        resource_slice("n1", "gpu-0"),
        resource_slice("n2", "gpu-0"),
        claim("held", status={"allocation": allocation("n1", "gpu-0")}),
        claim("c"),
        pod("train-0", named("gpu", "c"), nodeSelector={"kubernetes.io/hostname": "n1"}),
    )

    assert world.message("train-0") == (
        "DeviceInUse: request gpu: 1 device published, 1 in class gpu.example.com, 1 in use by 1 claim (held); "
        "counted on n1, to which its nodeSelector keeps the pod"
    )


def test_each_reason_about_pods_has_its_scene() -> None:
    """A reason whose example nobody compares would be forgotten."""
    assert examples().keys() - {"NotScheduled"} == SCENES.keys()


def test_claim_that_fits_nowhere_has_its_own_reason_and_the_others_wait_for_it() -> None:
    """The pod has the reason of the claim, by the name of its entry; a claim that fits waits for that one."""
    world = PodWorld(
        *BASE, *GPUS, claim("c"), claim("d", of=NIC), pod("train-0", named("gpu", "c"), named("nic", "d"))
    )
    found = world.explain("train-0")
    assert found is not None
    assert found.reason is Reason.CLASS_MATCHES_NO_DEVICE
    assert found.message.startswith(
        'claim "nic": request gpu: 2 devices published, 0 in class nic.example.com'
    )
    assert found.claims["gpu"].message == 'claim "nic" of the same pod waits'
    assert found.claims["nic"].message.startswith("request gpu: 2 devices published")


def test_other_namespaces_are_not_named() -> None:
    """Of claims of other namespaces a message has the number alone."""
    other = claim("secret", status={"allocation": allocation("n1", "gpu-0")})
    other["metadata"]["namespace"] = "secret-team"
    world = PodWorld(*BASE, GPUS[0], other, claim("c"), pod("train-0", named("gpu", "c")))
    told = world.message("train-0")
    assert "secret" not in told
    assert "1 claim of another namespace" in told or "1 claims of other namespaces" in told


def test_devices_of_a_large_cluster_are_counted_on_all_nodes() -> None:
    """Nothing is copied there; the message says what was counted, and what the pod can use."""
    nodes = [node(f"m{number:03}", taints=ML) for number in range(260)]
    slices = [resource_slice(f"m{number:03}", "gpu-0") for number in range(260)]
    other = claim("other", status={"allocation": allocation("n1", "gpu-0")})
    world = PodWorld(*BASE, *nodes, GPUS[0], *slices, other, claim("c", 2), pod("p", named("gpu", "c")))
    assert world.message("p").startswith("NotEnoughDevices: request gpu: 261 devices published")
    assert world.message("p").endswith("; counted on all 262 nodes, of which the pod can use 2")

    world.put(claim("d"), pod("q", named("gpu", "d")))
    assert "its claim fits on 100 or more nodes, where the pod cannot run" in world.message("q")
