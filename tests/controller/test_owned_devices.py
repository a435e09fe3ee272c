"""Devices that are ours: what the operator allocates, what it writes on rules, and what it tells of them."""

import pytest

from cluster import CLASS, FINALIZER, Operator, allocation, claim, node, resource_slice
from dra_operator.api.names import OWNED_KEY, SETTLED_ANNOTATION
from factories import manifest

OWNED = {"key": OWNED_KEY, "effect": "NoSchedule"}
DRIVER = "gpu.example.com"
DENIED = 'User "operator" cannot patch resource "devicetaintrules"'


def rule(name="own", taint=OWNED, **selector):
    """A rule that owns devices of the driver."""
    return manifest(
        "DeviceTaintRule",
        name,
        {"taint": taint, "deviceSelector": {"driver": DRIVER, **selector}},
        generation=1,
    )


@pytest.fixture
async def operator(cluster):
    """An operator that allocates owned devices only, beside a node with two devices."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"))
    operator = await (await Operator(cluster.server.url, devices="owned").start()).ready()
    yield operator
    await operator.manager.close()


def rule_metadata(cluster, name="own"):
    """The metadata of a rule; empty if it is gone."""
    return (cluster.server.get("DeviceTaintRule", name) or {}).get("metadata", {})


async def rule_held(cluster, name="own"):
    """Wait until the operator has its finalizer on a rule and has noted that it is settled."""
    await cluster.until(
        lambda: SETTLED_ANNOTATION in rule_metadata(cluster, name).get("annotations", {}), "the annotation"
    )
    assert rule_metadata(cluster, name)["finalizers"] == [OWNED_KEY]


async def delete_rule(cluster, name="own"):
    """Delete a rule as kubectl does."""
    await cluster.session.request("DELETE", f"/apis/resource.k8s.io/v1/devicetaintrules/{name}")


async def test_only_owned_devices_are_allocated(cluster, operator):
    """Of two devices the claims get the one that a rule owns; the next claim is told why it gets none."""
    cluster.put(rule(device="gpu-1"))
    cluster.put(claim("first"))
    assert await cluster.allocated("first") == ["gpu-1"]

    cluster.put(claim("second"))

    text = await cluster.waits("second")
    assert "1 not owned by this operator (without the taint dra-operator.io/owned:NoSchedule on 1" in text
    assert "1 in use" in text


async def test_all_fails_on_a_node_of_which_one_device_is_not_owned(cluster, operator):
    """A request for all devices gets none where one that matches is not ours."""
    cluster.put(rule(device="gpu-0"))
    await rule_held(cluster)
    cluster.put(claim(request={"allocationMode": "All"}))

    assert "1 not owned by this operator" in await cluster.waits()


async def test_admin_access_is_granted_on_all_devices(cluster, operator):
    """Admin access holds nothing, so it is given on devices that are not owned as well."""
    cluster.put(manifest("Namespace", "admin", labels={"resource.kubernetes.io/admin-access": "true"}))
    cluster.put(claim(namespace="admin", request={"allocationMode": "All", "adminAccess": True}))

    assert await cluster.allocated(namespace="admin") == ["gpu-0", "gpu-1"]


async def test_without_a_policy_ownership_is_called_not_guaranteed(cluster, operator):
    """A line of readyz names the pools that no policy protects, and why."""
    cluster.put(rule())

    await cluster.until(
        lambda: any("not guaranteed" in note for note in operator.manager.notes()), "the note"
    )

    (note,) = operator.manager.notes()
    assert f"{DRIVER}/pool-1" in note
    assert "the policy dra-operator-owned is not installed" in note


async def test_a_rule_that_is_deleted_is_let_go(cluster, operator):
    """The finalizer keeps a rule in force until the operator decides nothing more there, and then goes."""
    cluster.put(rule())
    await rule_held(cluster)

    await delete_rule(cluster)

    await cluster.until(lambda: not rule_metadata(cluster), "the end of the rule")
    cluster.put(claim())
    assert "not owned" in await cluster.waits()


async def test_a_rule_is_held_while_an_allocation_is_being_written(cluster, proxy):
    """As long as an allocation of ours may still be stored, the taint must keep others away."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"), rule())
    operator = await (await Operator(proxy.url, devices="owned").start()).ready()
    try:
        await rule_held(cluster)
        proxy.holds = lambda request: request.method == "PATCH" and request.path.endswith("/status")
        cluster.put(claim())
        await cluster.until(lambda: proxy.held, "the write")
        await delete_rule(cluster)
        await cluster.stays(lambda: rule_metadata(cluster).get("finalizers") == [OWNED_KEY])

        proxy.holds = lambda _: False
        await proxy.let_through()

        assert await cluster.allocated() == ["gpu-0"]
        await cluster.until(lambda: not rule_metadata(cluster), "the end of the rule")
    finally:
        await operator.manager.close()


async def test_claims_that_hold_devices_keep_them_when_the_rule_goes(cluster, operator):
    """What is allocated stays so: kube-scheduler knows of it."""
    cluster.put(rule(), claim())
    await cluster.allocated()
    await rule_held(cluster)

    await delete_rule(cluster)

    await cluster.until(lambda: not rule_metadata(cluster), "the end of the rule")
    assert cluster.devices() == ["gpu-0"]


async def test_with_all_devices_a_rule_is_only_let_go(cluster):
    """An operator for all devices takes no rule, but the finalizer of one before it off where a rule is deleted."""
    held = rule("held")
    held["metadata"] |= {"finalizers": [OWNED_KEY], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    cluster.put(node(), CLASS, resource_slice("gpu-0"), rule("free"), held, claim())
    operator = await (await Operator(cluster.server.url, devices="all").start()).ready()
    try:
        assert await cluster.allocated() == ["gpu-0"]
        await cluster.until(lambda: not rule_metadata(cluster, "held"), "the end of the rule")
        assert "finalizers" not in rule_metadata(cluster, "free")
        assert operator.manager.notes() == []
    finally:
        await operator.manager.close()


async def test_an_allocation_of_an_owned_device_by_somebody_else_is_told_on_the_rule(cluster, operator):
    """Even if nobody else has the device, who allocates what is ours is a fault: Warning, metric, and it goes on."""
    cluster.put(rule())
    await rule_held(cluster)

    cluster.put({**claim(finalizers=[FINALIZER]), "status": {"allocation": allocation("gpu-1")}})

    await cluster.until(
        lambda: "OwnedDeviceAllocated" in cluster.reasons("own", "DeviceTaintRule"), "the Event"
    )
    (event,) = cluster.events("own", "DeviceTaintRule")
    assert (
        f"device {DRIVER}/pool-1/gpu-1 was allocated to claim default/claim by somebody else"
        in event["message"]
    )
    assert operator.manager.metrics.registry.get_sample_value("dra_operator_foreign_allocations_total") == 1
    assert not operator.manager.unready()


async def test_a_rule_with_a_value_owns_nothing_and_is_told_so(cluster, operator):
    """Who writes the taint otherwise learns on the rule what to write; no finalizer is put on it."""
    cluster.put(rule(taint={**OWNED, "value": "yes"}))

    await cluster.until(lambda: cluster.reasons("own", "DeviceTaintRule") == ["InvalidObject"], "the Event")
    assert "leave the value out" in cluster.events("own", "DeviceTaintRule")[0]["message"]
    assert "finalizers" not in rule_metadata(cluster)


async def test_a_right_to_write_rules_that_is_missing_is_named(cluster, operator):
    """Without the right to patch rules no rule can be held, so none is used, and readyz names the right."""
    cluster.server.faults.answer(403, times=None, verb="patch", kind="DeviceTaintRule", message=DENIED)
    cluster.put(rule(), claim())

    assert "not settled yet" in await cluster.waits()
    await cluster.until(
        lambda: any("patch devicetaintrules" in note for note in operator.manager.notes()), "the note"
    )
