"""DeviceTaintRules of Kubernetes 1.33 and 1.34, which also select by class and CEL, as the operator applies them."""

from cluster import CLASS, TAINT, claim, node, resource_slice
from factories import manifest

GPU = "device.attributes['gpu.example.com'].model == 't4'"


def put_rule(cluster, **selector):
    """Store a rule as servers of these versions do; the one in memory drops what later ones do not have."""
    body = manifest("DeviceTaintRule", "repair", {"taint": TAINT})
    cluster.put(body)
    cluster.server.touch(
        "DeviceTaintRule",
        "repair",
        "",
        lambda stored: {**stored, "spec": {**stored["spec"], "deviceSelector": selector}},
    )


def t4(*expressions):
    """The class that the rule names."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {**CLASS, "metadata": {"name": "t4"}, "spec": {"selectors": selectors}}


async def test_a_class_that_is_mended_lets_its_rule_taint_and_its_problem_go(cluster, operator):
    """Until then the rule taints nothing, has its Event, and nobody waits for it."""
    put_rule(cluster, deviceClassName="t4")
    cluster.put(node(), CLASS, t4("device.drivr == ''"), resource_slice("gpu-0", "gpu-1"))
    await cluster.until(lambda: cluster.events("repair", "DeviceTaintRule"), "the Event")
    cluster.put(claim("before"))
    assert await cluster.allocated("before") == ["gpu-0"]

    cluster.put(t4("device.driver == 'gpu.example.com'"))
    await operator.settled()
    cluster.put(claim("after"))

    assert "repair" in await cluster.waits("after")
    (event,) = cluster.events("repair", "DeviceTaintRule")
    assert event["reason"] == "InvalidObject"
    assert event["message"].startswith(
        "spec.deviceSelector.deviceClassName: class t4: selector #0 does not compile"
    )


async def test_a_claim_gets_a_device_once_the_class_of_a_rule_leaves_it_out(cluster, operator):
    """The claim waits for nothing else."""
    put_rule(cluster, deviceClassName="t4")
    cluster.put(node(), CLASS, t4("true"), resource_slice("gpu-0"), claim())
    await cluster.waits()

    cluster.put(t4("false"))

    assert await cluster.allocated() == ["gpu-0"]


async def test_devices_on_which_a_rule_fails_have_one_event_however_many_they_become(cluster, operator):
    """The first failure is told, and stands."""
    put_rule(cluster, selectors=[{"cel": {"expression": GPU}}])
    cluster.put(node(), CLASS, resource_slice("gpu-0"))
    await cluster.until(lambda: cluster.events("repair", "DeviceTaintRule"), "the Event")
    cluster.put(resource_slice("gpu-0", "gpu-1"))
    await operator.settled()

    (event,) = cluster.events("repair", "DeviceTaintRule")
    assert event["message"].startswith(
        "spec.deviceSelector.selectors[0] fails on devices, which are not tainted: gpu.example.com/pool-1/gpu-0: "
    )
