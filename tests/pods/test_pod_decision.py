"""Decisions about gated pods: the node, what each claim gets there, and why a pod waits."""

import pytest

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Failed
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.read import read_object
from dra_operator.pods.node_fit import read_requirements
from dra_operator.pods.pod_decision import PodDecision, PodExplanation
from dra_operator.pods.smallest_change import Effort
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
RESOURCE = "example.com/gpu"
OWNED = [{"key": "dra-operator.io/owned", "effect": "NoSchedule"}]
BASE = (device_class(), device_class(NIC), node("n1"), node("n2"))
GPUS = (resource_slice("n1", "gpu-0"), resource_slice("n2", "gpu-0", "gpu-1"))


def gated(*entries, **fields):
    """A gated pod with the name p."""
    return pod("p", *entries, schedulingGates=[{"name": "dra-operator.io/allocation"}], **fields)


def with_resource(body, count=1):
    """Let the container of a pod ask for devices as an extended resource."""
    amounts = {RESOURCE: str(count)}
    resources = body["spec"]["containers"][0]["resources"]
    resources["limits"], resources["requests"] = amounts, {**resources["requests"], **amounts}
    return body


def devices(found):
    """The node of a decision, and the devices of each claim."""
    assert isinstance(found, PodDecision)
    return found.node, {
        name: [result.device for result in each.devices.results] for name, each in found.allocations.items()
    }


def test_pod_with_all_it_asks_for_is_decided_without_devices():
    """A killed operator may have stored all claims of a pod before it let the pod go."""
    held = claim("c", status={"allocation": allocation("n2", "gpu-0")})
    world = PodWorld(*BASE, *GPUS, held, gated(named("a", "c")))

    assert devices(world.decide("p")) == ("n2", {})


@pytest.mark.parametrize("is_tolerated", [True, False])
def test_cordoned_node_is_for_pods_that_tolerate_it(is_tolerated):
    """The pods of a DaemonSet run on cordoned nodes; claims without a pod never go there."""
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}] * is_tolerated
    cordoned = node("n1", unschedulable=True)
    world = PodWorld(*BASE, cordoned, *GPUS, claim("c"), gated(named("a", "c"), tolerations=tolerations))

    assert devices(world.decide("p"))[0] == ("n1" if is_tolerated else "n2")


def test_node_that_is_not_ready_is_for_no_pod():
    """Its taint may still be missing; the message says what the node lacks."""
    silent = node("n1")
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    world = PodWorld(device_class(), silent, *GPUS[:1], claim("c"), gated(named("a", "c")))

    found = world.decide("p")

    assert isinstance(found, PodExplanation)
    assert (found.reason, found.message) == (
        "NodeUnsuitable",
        "its claims fit on node n1, which is not ready",
    )


def test_pod_waits_for_a_claim_that_is_not_there():
    """Nothing is decided before all claims of the pod exist."""
    template = {"kind": "ResourceClaimTemplate", "metadata": {"namespace": "team", "name": "gpu"}}
    world = PodWorld(*BASE, *GPUS, template, claim("c"), gated(named("a", "c"), templated("b")))

    found = world.decide("p")

    assert isinstance(found, PodExplanation)
    assert found.reason == "ClaimNotCreated"


class TestOwnership:
    """Where the operator owns devices."""

    def test_only_owned_devices_are_given(self):
        """The first node has a device that kube-scheduler may take."""
        free, ours = resource_slice("n1", "gpu-0"), resource_slice("n2", "gpu-0", taints=OWNED)
        world = PodWorld(*BASE, free, ours, claim("c"), gated(named("a", "c")), owns=True)

        assert devices(world.decide("p")) == ("n2", {"c": ["gpu-0"]})

    def test_pod_that_needs_devices_of_others_says_so(self):
        """The reason is that of claims without a pod."""
        world = PodWorld(*BASE, *GPUS, claim("c"), gated(named("a", "c")), owns=True)

        found = world.decide("p")

        assert isinstance(found, PodExplanation)
        assert found.reason == "DeviceNotOwned"
        assert "3 not owned by this operator" in found.message

    def test_extended_resource_is_served_by_a_device_that_is_not_owned(self):
        """Its claim is kube-scheduler's to make: the node has room for it, and nothing is allocated."""
        slices = [
            resource_slice("n1", "gpu-0", "gpu-1", taints=OWNED),
            resource_slice("n2", "gpu-0", taints=OWNED),
            resource_slice("n2", "nic-0", driver=NIC),
        ]
        of_nics = device_class(NIC)
        of_nics["spec"]["extendedResourceName"] = RESOURCE
        of_nics["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        world = PodWorld(
            *BASE, of_nics, *slices, claim("c"), with_resource(gated(named("a", "c"))), owns=True
        )

        assert devices(world.decide("p")) == ("n2", {"c": ["gpu-0"]})

    def test_message_tells_what_the_extended_resource_waits_for(self):
        """It is called by what it is, as nobody has named an entry for it."""
        served = device_class()
        served["spec"]["extendedResourceName"] = RESOURCE
        ours = resource_slice("n1", "gpu-0", "gpu-1", taints=OWNED)
        world = PodWorld(*BASE, served, ours, claim("c"), with_resource(gated(named("a", "c"))), owns=True)

        found = world.decide("p")

        assert isinstance(found, PodExplanation)
        assert found.message.startswith('claim "extended resources": request container-0-request-1: ')


def test_message_may_end_with_what_would_help():
    """The edit is decided as the pod is: on owned devices."""
    ours = resource_slice("n1", "gpu-0", taints=OWNED)
    world = PodWorld(*BASE, ours, GPUS[1], claim("c", 2), gated(named("a", "c")), owns=True)
    body = world.pods["p"]

    text = world.decider.advise(read_object(body, "Pod"), read_requirements(body), Effort())

    assert text == "; it would fit if request gpu asked for 1 device"


def test_search_that_is_given_up_is_no_answer():
    """25 shares of 3 of eight times 10 cannot be had; to prove that takes too long, device by device."""
    shareable = resource_slice("n1", *[f"gpu-{number}" for number in range(8)])
    for device in shareable["spec"]["devices"]:
        device |= {"allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}}
    wanted = claim("c")
    (request,) = wanted["spec"]["devices"]["requests"]
    request["exactly"]["capacity"] = {"requests": {"m": "3"}}
    wanted["spec"]["devices"]["requests"] = [{**request, "name": f"r{number}"} for number in range(25)]
    world = PodWorld(*BASE, shareable, wanted, gated(named("a", "c")))
    allocator = world.decider.allocator
    allocator.searching, allocator.limits = SearchMode.PLAIN, Limits(steps=1000, seconds=None)
    body = world.pods["p"]

    found = world.decider.find_node(read_object(body, "Pod"), read_requirements(body))

    assert isinstance(found, Failed)
    assert found.kind == "aborted"
