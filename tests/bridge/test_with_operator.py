"""To the operator bridged devices are like any others: it explains them, decides about gated pods, and audits."""

from dra_bridge.devices import PluginDevice, device_class
from dra_bridge.resources import Resource
from dra_bridge.slices import plan_slices
from dra_operator.pods.pod_decision import PodDecision
from factories import claim, request
from pod_world import PodWorld, named, pod
from pod_world import claim as team_claim
from small_cluster import cluster, node

NAME, DRIVER = "vendor.com/foo", "foo.vendor.com"
CLASS = device_class(NAME)


def bridged(on, *, held=frozenset(), is_offered=False, healthy=("Dev-1", "Dev-2")):
    """Return the slice of a node as the bridge writes it, with Dev-1 and Dev-2."""
    listed = tuple(PluginDevice(each, each in healthy) for each in ("Dev-1", "Dev-2"))
    devices = Resource(NAME, DRIVER, listed, 0.0).slice_devices(held, 0.0, is_offered=is_offered)
    plan = plan_slices(node=node(on), resource=NAME, driver=DRIVER, devices=devices, present=[])
    return dict(plan.create[0])


def test_claim_is_told_what_keeps_bridged_devices_from_it():
    """By the taints one sees that a plugin finds a device unhealthy, and that a container has the other one."""
    asked = claim("waits", request("foo", DRIVER), namespace="team", uid="waits")
    slice_ = bridged("n1", held={"Dev-1"}, healthy=("Dev-1",))

    answer = cluster(CLASS, slice_, asked).explain("ResourceClaim/team/waits")

    assert (answer.state, answer.reason) == ("waits", "DeviceTainted")
    assert "bridge.dra-operator.io/device-manager=in-use" in answer.message
    assert "bridge.dra-operator.io/unhealthy=unhealthy" in answer.message


def test_gated_pod_gets_a_bridged_device():
    """Node and device are decided, by a selector on the plugin's own ID."""
    asked = team_claim("c", of=DRIVER)
    expression = f'device.attributes["{DRIVER}"].id == "Dev-2"'
    asked["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    gated = pod("p", named("a", "c"), schedulingGates=[{"name": "dra-operator.io/allocation"}])

    found = PodWorld(CLASS, node("n1"), bridged("n1"), asked, gated).decide("p")

    assert isinstance(found, PodDecision)
    (result,) = found.allocations["c"].devices.results
    assert (found.node, result.driver, result.device) == ("n1", DRIVER, PluginDevice("Dev-2", True).name)


def test_node_that_offers_bridged_devices_twice_is_found():
    """While a node's allocatable of a bridged resource is not 0, `audit` names the node."""
    offering = node("n3")
    offering["status"]["allocatable"][NAME] = "2"

    report = cluster(CLASS, offering, bridged("n3", is_offered=True), bridged("n1")).audit()

    (finding,) = [each for each in report.findings if each.sort == "ServedTwice"]
    assert (finding.kind, finding.name) == ("Node", "n3")
    assert f"offers 2 {NAME} by a device plugin, and publishes 2 devices" in finding.message
