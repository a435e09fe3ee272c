"""Gated pods, with the API server in memory: their claims are allocated together, and then the pod is let go."""

import asyncio

import pytest

from cluster import CLASS, Operator, allocation, claim, resource_slice
from cluster import node as bare_node
from factories import manifest

from .conftest import defects

GATE = "dra-operator.io/allocation"


def pod(name="pod", *claims, gates=(GATE,), **spec):
    """A gated pod that names some claims."""
    return manifest(
        "Pod",
        name,
        {
            "containers": [{"name": "main", "image": "none"}],
            "schedulingGates": [{"name": gate} for gate in gates],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            **spec,
        },
        status={"phase": "Pending"},
        namespace="default",
    )


def node(name="node-1", **spec):
    """A node that is ready and has room for pods."""
    body = bare_node(name, **spec)
    body["status"]["allocatable"] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return body


def leave_our_gate(body):
    """Take all gates but ours off a pod."""
    body["spec"]["schedulingGates"] = [{"name": GATE}]


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
async def start_gated(cluster, pods):
    """Start operators that take gated pods; all are stopped at the end, without a defect."""
    started = []

    async def begin(**settings):
        found = await Operator(cluster.server.url, **{"claims": "gated", **settings}).start()
        started.append(found)
        return await found.ready()

    yield begin
    for found in started:
        await found.manager.close()
        assert not found.crashed
        assert defects(found.manager.metrics) == 0


@pytest.fixture
async def operator(start_gated):
    """An operator that takes gated pods."""
    return await start_gated()


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch):
    """It is told at once why a pod waits, and what follows is not paced."""
    monkeypatch.setattr("dra_operator.controller.waiting_pods.YOUNG_SECONDS", -1.0)
    monkeypatch.setattr("dra_operator.controller.waiting_pods.AGAIN_SECONDS", 0.05)


async def test_pod_is_let_go_when_all_its_claims_are_stored_on_one_node(cluster, pods, operator):
    """A gated pod gets the devices of both its claims on one node, is nominated to it, and loses its gate."""
    cluster.put(claim("a"), claim("b"), pod("pod", "a", "b"))

    await pods.let_go()

    assert sorted(cluster.devices("a") + cluster.devices("b")) == ["gpu-0", "gpu-1"]
    assert pods.nominated() == "node-1"


async def test_node_is_held_while_the_claims_are_being_stored(cluster, pods, operator):
    """The nomination does not wait for the allocations: until then another pod could take the node's cpu."""
    cluster.server.faults.delay(3600, verb="patch", kind="ResourceClaim")
    cluster.put(claim("a"), pod("pod", "a"))

    await cluster.until(pods.nominated, "the nomination")

    assert (pods.nominated(), pods.gates()) == ("node-1", [GATE])
    assert "allocation" not in cluster.claim("a").get("status", {})


@pytest.mark.parametrize("name", ["big", "absent"], ids=["no room", "claim absent"])
async def test_nomination_that_somebody_else_set_stays(cluster, pods, operator, name):
    """An autoscaler may make room on that node; what the operator did not set is not for it to clear."""
    cluster.put(claim("big", request={"allocationMode": "ExactCount", "count": 3}))
    cluster.put(pod("pod", name, gates=(GATE, "example.com/other")))
    await cluster.nominate("node-2", manager="autoscaler")

    cluster.change("Pod", "pod", leave_our_gate, "default")

    await cluster.until(lambda: cluster.reasons("pod", "Pod"), "the Event")
    await cluster.stays(lambda: pods.nominated() == "node-2")


async def test_pod_with_another_gate_waits_for_that(cluster, pods, operator):
    """Who holds the other gate may still change where the pod can run: its claims get nothing before."""
    cluster.put(claim("a"), pod("pod", "a", gates=(GATE, "kueue.x-k8s.io/admission")))
    await cluster.stays(lambda: not cluster.devices("a") and not cluster.reasons("pod", "Pod"))

    cluster.change(
        "Pod",
        "pod",
        lambda body: body["spec"].update(
            schedulingGates=[{"name": GATE}], nodeSelector={"kubernetes.io/hostname": "node-2"}
        ),
        "default",
    )
    cluster.change(
        "Node", "node-2", lambda body: body["metadata"].update(labels={"kubernetes.io/hostname": "node-2"})
    )

    await pods.let_go()
    assert pods.nominated() == "node-2"


@pytest.mark.parametrize(
    ("claims", "why"),
    [((), "the pod names no claim"), (("a",), 'claim "a" has the label dra-operator.io/allocate: "false"')],
    ids=["no claim", "opted out"],
)
async def test_pod_that_is_not_for_us_is_let_go_at_once(cluster, pods, operator, claims, why):
    """Nothing is decided about a pod without claims, or with one that opted out; its Event says so."""
    cluster.put(claim("a", labels={"dra-operator.io/allocate": "false"}), pod("pod", *claims))

    await pods.let_go()

    await cluster.until(lambda: cluster.events("pod", "Pod"), "the Event")
    (event,) = cluster.events("pod", "Pod")
    assert event["reason"] == "GateRemoved"
    assert why in event["message"]
    assert pods.nominated() is None
    assert not cluster.devices("a")


async def test_claim_that_an_ungated_pod_names_is_not_ours(cluster, pods, operator):
    """The pod waits and says so; once kube-scheduler has allocated the claim, it goes where the claim is."""
    cluster.put(claim("a"), claim("b"), pod("other", "a", gates=()), pod("pod", "a", "b"))

    await cluster.until(lambda: "ClaimNotGated" in cluster.reasons("pod", "Pod"), "the Event")
    assert not cluster.devices("a")
    assert not cluster.devices("b")
    found = allocation("gpu-0", "pool-2")
    found["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] = ["node-2"]
    cluster.change("ResourceClaim", "a", lambda body: body.update(status={"allocation": found}), "default")

    await pods.let_go()
    assert pods.nominated() == "node-2"


async def test_pod_that_does_not_fit_says_why_until_it_does(cluster, pods, operator):
    """The pod and its claim say the same; nothing is stored before all claims fit, and then the text goes."""
    cluster.put(*[claim(f"c{number}") for number in range(3)], pod("pod", "c0", "c1", "c2"))
    await cluster.until(lambda: cluster.events("pod", "Pod"), "the Event")
    (event,) = cluster.events("pod", "Pod")
    assert event["reason"] == "ClaimsDoNotFitTogether"
    assert not any(cluster.devices(f"c{number}") for number in range(3))
    await cluster.waits("c0")

    cluster.put(resource_slice("gpu-0", "gpu-1", "gpu-2"))

    await pods.let_go()
    assert all(cluster.devices(f"c{number}") for number in range(3))
    await cluster.until(lambda: not cluster.annotation("c0"), "the end of the text")


async def test_pod_of_the_highest_priority_goes_first(cluster, pods, start_gated):
    """Of pods that want the last devices the one with the highest priority gets them, though it is the youngest."""
    cluster.put(*[claim(name) for name in ("low", "high")])
    for name, priority in (("low", 0), ("high", 7)):
        request = {"allocationMode": "All"}
        cluster.put(claim(name, request=request), pod(name, name, priority=priority))
    cluster.change("Node", "node-2", lambda body: body["spec"].update(unschedulable=True))

    await start_gated()

    await pods.let_go("high")
    assert not cluster.devices("low")
    assert pods.gates("low") == [GATE]


@pytest.mark.parametrize("subresource", ["", "status"], ids=["gate", "nomination"])
async def test_missing_right_is_named_and_holds_up_nobody_else(cluster, pods, operator, subresource):
    """The pod stays gated and says which right is missing; others go on; with the right it goes on as well."""
    resource = "/".join(filter(None, ("pods", subresource)))
    message = f'pods "pod" is forbidden: User "x" cannot patch resource "{resource}"'
    fault = cluster.server.faults.answer(
        403, verb="patch", kind="Pod", name="pod", times=None, message=message
    )
    fault.subresource = subresource
    cluster.put(claim("a"), pod("pod", "a"), claim("b"), pod("other", "b"))

    await pods.let_go("other")
    await cluster.until(lambda: "Forbidden" in cluster.reasons("pod", "Pod"), "the Event")
    assert pods.gates() == [GATE]
    # What is written to the other pod meanwhile shows the right for a moment.
    await cluster.until(
        lambda: any(f"patch {resource}" in reason for reason in operator.manager.unready()), "what is missing"
    )
    fault.times = 0

    await pods.let_go()
    await cluster.until(lambda: not operator.manager.unready(), "readiness")


async def test_gate_that_cannot_be_taken_off_is_reported(cluster, pods, operator):
    """Where a policy keeps the gate, the pod says so, with its words."""
    fault = cluster.server.faults.answer(
        422, verb="patch", kind="Pod", name="pod", times=None, message="keep the gate"
    )
    fault.subresource = ""
    cluster.put(claim("a"), pod("pod", "a"))

    await cluster.until(lambda: "AllocationRefused" in cluster.reasons("pod", "Pod"), "the Event")

    (event,) = [event for event in cluster.events("pod", "Pod") if event["reason"] == "AllocationRefused"]
    assert "refuses the removal of the scheduling gate" in event["message"]
    assert "keep the gate" in event["message"]


async def test_claim_that_is_refused_again_is_told_once(cluster, pods, operator):
    """A write that is tried anew, and refused as before, makes no second Event."""
    fault = cluster.server.faults.answer(422, verb="patch", kind="ResourceClaim", name="a", times=4)
    fault.subresource = "status"
    cluster.put(claim("a"), pod("pod", "a"))

    await pods.let_go()

    (event,) = [event for event in cluster.events("pod", "Pod") if event["reason"] == "AllocationRefused"]
    assert (fault.met, event.get("count", 1)) == (4, 1)


async def test_pod_whose_devices_must_get_ready_first_is_not_nominated(cluster, pods, operator):
    """With binding conditions the gate comes off as soon as all is stored: the time that they have runs already."""
    slow = resource_slice("slow-0", name="slice-1")
    slow["spec"]["devices"][0] |= {
        "bindsToNode": True,
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
    }
    cluster.put(slow, claim("a"), pod("pod", "a", nodeSelector={"pick": "me"}))
    cluster.change("Node", "node-1", lambda body: body["metadata"].update(labels={"pick": "me"}))

    await pods.let_go()

    assert cluster.devices("a") == ["slow-0"]
    assert pods.nominated() is None


async def test_claim_that_is_deleted_while_its_pod_is_gated_is_named(cluster, pods, operator):
    """The pod says that its claim is missing, and goes on with the next one of that name."""
    cluster.put(claim("a"), pod("pod", "a", "b"))
    await cluster.until(lambda: "ClaimNotFound" in cluster.reasons("pod", "Pod"), "the Event")
    assert not cluster.devices("a")

    cluster.put(claim("b"))

    await pods.let_go()


async def test_successor_goes_on_where_an_operator_was_killed(cluster, pods, start_gated):
    """Claims are stored and the gate is on: the next operator nominates the pod to their node and lets it go at once.

    It has given the claims another version: nothing that the last operator sent can take them back any more.
    """
    fault = cluster.server.faults.answer(503, verb="patch", kind="Pod", times=None)
    cluster.put(claim("a"), claim("b"), pod("pod", "a", "b"))
    first = await start_gated()
    await cluster.allocated("a")
    await cluster.allocated("b")
    await first.kill()
    before = [cluster.claim(name) for name in ("a", "b")]
    fault.times = 0

    await start_gated()

    await pods.let_go()
    await cluster.until(lambda: not any(map(cluster.annotation, ("a", "b"))), "the end of the annotations")
    for old, new in zip(before, [cluster.claim(name) for name in ("a", "b")], strict=True):
        assert new["status"]["allocation"] == old["status"]["allocation"]
        assert new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]


async def test_what_was_stored_is_taken_back_if_the_node_does_not_suit_any_more(cluster, pods, start_gated):
    """A successor finds the node cordoned: it takes the devices back, and decides the pod anew on another node.

    The pod has another version than the last operator saw: nothing of that one can let it go any more.
    """
    fault = cluster.server.faults.answer(503, verb="patch", kind="Pod", times=None)
    cluster.put(claim("a"), pod("pod", "a"))
    first = await start_gated()
    await cluster.allocated("a")
    await first.kill()
    cluster.change("Node", "node-1", lambda body: body["spec"].update(unschedulable=True))
    fault.times = 0
    await start_gated()
    await cluster.stays(lambda: cluster.devices("a") and pods.gates() == [GATE])

    cluster.change("Pod", "pod", lambda body: body["metadata"].update(labels={"a": "b"}), "default")

    await pods.let_go()
    assert pods.nominated() == "node-2"


async def test_without_the_lease_the_gate_stays_on(cluster, pods, start_gated):
    """Where the Lease is not renewed between claims and gate, the pod is let go only when it is again."""
    operator = await start_gated()
    fault = cluster.server.faults.answer(503, verb="patch", kind="Pod", times=None)
    cluster.put(claim("a"), pod("pod", "a"))
    await cluster.allocated("a")
    lapse = cluster.server.faults.answer(503, kind="Lease", times=None)
    await cluster.until(operator.manager.unready, "the end of its time")
    fault.times = 0
    await cluster.stays(lambda: pods.gates() == [GATE])

    lapse.times = 0

    await pods.let_go()


@pytest.mark.parametrize(
    ("scope", "ours"),
    [("standalone", {"alone"}), ("gated", {"held"}), ("all", {"alone", "held"})],
)
async def test_setting_says_whose_claims_are_ours(cluster, pods, start_gated, scope, ours):
    """Standalone claims, those that only gated pods name, or both; never those of other pods."""
    await start_gated(claims=scope)
    cluster.put(claim("alone"), claim("held"), claim("used"))
    cluster.put(pod("pod", "held"), pod("other", "used", gates=()))

    for name in ours:
        await cluster.allocated(name)
    await cluster.stays(lambda: not any(cluster.devices(name) for name in {"alone", "held", "used"} - ours))


async def test_pod_does_not_go_with_a_claim_that_is_being_deleted(cluster, pods, start_gated):
    """Its claim is deleted after it was stored: the gate stays on."""
    await start_gated(claims="all")
    fault = cluster.server.faults.answer(503, verb="patch", kind="Pod", times=None)
    cluster.put(claim("a"), pod("pod", "a"))
    await cluster.allocated("a")
    refused = cluster.server.faults.answer(422, verb="patch", kind="ResourceClaim", times=None, message="no")
    await cluster.delete("a")
    await cluster.until(lambda: refused.met, "the refusal")
    fault.times = 0

    await cluster.until(lambda: "ClaimNotFound" in cluster.reasons("pod", "Pod"), "the Event")
    await cluster.stays(lambda: pods.gates() == [GATE])


def on_node_2(device="gpu-0"):
    """An allocation on node-2, as another allocator would write it."""
    found = allocation(device, "pool-2")
    found["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] = ["node-2"]
    return found


async def test_pod_is_not_let_go_with_claims_on_two_nodes(cluster, pods, start_gated):
    """kube-scheduler allocates one claim elsewhere before our write arrives: the other one follows it."""
    await start_gated(claims="all")
    late = cluster.server.faults.delay(1, verb="patch", kind="ResourceClaim", name="b")
    cluster.put(claim("a"), claim("b"), pod("pod", "a", "b"))
    await cluster.allocated("a")
    cluster.put(pod("other", "b", gates=()))
    uid = cluster.server.get("Pod", "other", "default")["metadata"]["uid"]
    stored = {
        "allocation": on_node_2(),
        "reservedFor": [{"resource": "pods", "name": "other", "uid": uid}],
    }
    cluster.change("ResourceClaim", "b", lambda body: body.update(status=stored), "default")
    late.times = 0

    await pods.let_go()

    assert pods.nominated() == "node-2"
    assert cluster.claim("a")["status"]["allocation"]["devices"]["results"][0]["pool"] == "pool-2"


@pytest.mark.parametrize("is_gone", [False, True], ids=["cordoned", "pod gone"])
async def test_allocation_stays_while_another_claim_holds_its_device(cluster, pods, start_gated, is_gone):
    """kube-scheduler would take the device for free; once the other claim is gone it is taken back."""
    await start_gated()
    fault = cluster.server.faults.answer(503, verb="patch", kind="Pod", times=None)
    cluster.put(claim("a"), pod("pod", "a"))
    (device,) = await cluster.allocated("a")
    cluster.put({**claim("x"), "status": {"allocation": allocation(device)}}, pod("runs", "x", gates=()))
    await asyncio.sleep(0.2)

    if is_gone:
        await cluster.session.request("DELETE", "/api/v1/namespaces/default/pods/pod")
    else:
        cluster.change("Node", "node-1", lambda body: body["spec"].update(unschedulable=True))
    fault.times = 0

    await cluster.stays(lambda: cluster.devices("a"))
    await cluster.delete("x")
    if is_gone:
        await cluster.until(lambda: not cluster.devices("a"), "the end of the allocation")
    else:
        await pods.let_go()
        assert pods.nominated() == "node-2"
