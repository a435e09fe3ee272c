"""Devices that two claims hold, broken allocations, and selectors that fail elsewhere."""

import pytest
from cycle_bench import event_reasons, said_by, writes
from table import said

from cluster import CLASS, FINALIZER, allocation, claim, node, resource_slice
from dra_operator.allocator.decision import Allocated
from dra_operator.api.names import BROKEN_ANNOTATION
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stored
from dra_operator.controller.claims import PodUse
from dra_operator.controller.facts import EventRequest
from dra_operator.questions import fault_texts

RESERVATION = {
    "apiGroup": "dra-operator.io", "resource": "devicereservations", "name": "training", "uid": "dr",
}  # fmt: skip
USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
GOING = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [FINALIZER]}


def holder(bench, name, used=None, device="gpu-0", share=None, **metadata):
    """A claim that has a device, or a share of it."""
    allocated = allocation(device)
    if share:
        allocated["devices"]["results"][0]["shareID"] = share
    return bench.delta(claim(name, **metadata), allocation=allocated, reservedFor=used)


def cleared(effects):
    """The claims that are let go."""
    return [write.key[1] for write in writes(effects, "deallocate")]


@pytest.mark.parametrize("used", [None, USER], ids=["unused", "used by a pod"])
def test_both_claims_are_told_and_neither_is_written_to(bench, used):
    """Who uses a device only a person can tell; kube-scheduler would forget the device with either of them."""
    bench.run(holder(bench, "a"))
    effects = bench.run(holder(bench, "b", used=used))

    assert len(effects) == 2
    assert said(effects) == {
        name: f"device gpu.example.com/pool-1/gpu-0 is allocated to default/{name} and to default/{other}; two "
        "allocators serve this driver; nothing is taken back: let no new pod start there, end what uses any of these "
        "claims, and then restart kube-scheduler (docs/operator.md, Two holders)"
        for name, other in (("a", "b"), ("b", "a"))
    }
    assert bench.metric("device_collisions") == 1


def test_a_deleted_claim_is_not_cleared_beside_another_holder(bench):
    """It says so, and is cleared once it is the only one."""
    bench.run(holder(bench, "ours"), holder(bench, "theirs", used=USER))
    effects = bench.run(holder(bench, "ours", **GOING))
    assert (cleared(effects), list(said(effects))) == ([], ["ours"])
    assert "keeps its allocation until no other claim has the device" in said(effects)["ours"]

    assert cleared(bench.run()) == []
    assert cleared(bench.run(Delta("ResourceClaim", "default", "theirs", None))) == ["ours"]


def test_a_deleted_claim_is_cleared_beside_one_that_shares_with_it(bench):
    """A share is a thing of its own for kube-scheduler."""
    effects = bench.run(holder(bench, "a", share="s", **GOING), holder(bench, "b", share="t"))

    assert cleared(effects) == ["a"]


def test_what_is_decided_and_not_stored_is_no_collision_yet(bench):
    """The API server may still refuse one of the two; what others have twice is told meanwhile."""
    result = DeviceRequestAllocationResult(
        request="gpu", driver="gpu.example.com", pool="pool-1", device="gpu-0"
    )
    decision = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    bench.allocator.answers["ours"] = Allocated("node-1", (decision,))
    (write,) = writes(bench.run(bench.delta(claim("ours"))))
    before = bench.run(
        holder(bench, "theirs", used=USER),
        *(holder(bench, name, used=USER, device="gpu-1") for name in ("a", "b")),
    )
    stored = bench.delta(claim("ours"), allocation=dict(write.allocation))
    after = bench.run(stored, Stored(write, {}))

    assert {effect.subject.name for effect in before} == {"a", "b"}
    assert event_reasons(after) == ["Allocated", *["DeviceAllocatedTwice"] * 2]


def test_devices_that_claims_have_twice_are_counted(bench):
    """And readyz names them, until one of the claims has it alone."""
    claims = [
        holder(bench, f"{name}-{device}", used=USER, device=device) for name in "ab" for device in ("x", "y")
    ]
    bench.run(*claims)
    assert bench.metric("device_collisions") == 2
    (note,) = bench.cycle.notes()
    assert note.startswith(
        "more than one claim holds gpu.example.com/pool-1/x, gpu.example.com/pool-1/y: the Events"
    )

    bench.run(*[Delta("ResourceClaim", "default", f"b-{device}", None) for device in ("x", "y")])
    assert bench.metric("device_collisions") == 0
    assert bench.cycle.notes() == []


USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
ADVICE = "; end what uses this claim, and delete it: a new claim gets other devices"
MISSING = (
    "device gpu.example.com/pool-1/gpu-0 is not in generation 2 of its pool, which is complete; "
    f"nothing evicts its pods{ADVICE}"
)
NODE_GONE = f"node node-1 is gone; kube-controller-manager deletes its pods that were on the node{ADVICE}"
EVICTING = {"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def put(kind, body):
    """The difference that brings an object of the cluster."""
    return Delta(kind, "", body["metadata"]["name"], body)


def gone(kind, name):
    """The difference that takes it away."""
    return Delta(kind, "", name, None)


def annotations(effects):
    """What annotations are to say, by claim."""
    found = writes(effects, "annotate")
    return {write.key[1]: said_by(write) for write in found if BROKEN_ANNOTATION in write.annotations}


@pytest.fixture
def held(bench):
    """A claim of somebody's that has device gpu-0 of a node with two, and is in use."""
    bench.run(
        put("Node", node()),
        put("ResourceSlice", resource_slice("gpu-0", "gpu-1")),
        bench.delta(claim("theirs"), allocation=allocation(), reservedFor=USER),
    )
    return bench


def test_a_device_that_is_missing_for_a_minute_is_told(held, clock):
    """By Event, annotation and metric, and once."""
    assert held.run(put("ResourceSlice", resource_slice("gpu-1", generation=2))) == []
    clock.now = held.wake_at
    effects = held.run()

    assert clock.now == 1060
    assert said(effects) == {"theirs": MISSING}
    assert event_reasons(effects) == ["AllocationBroken"]
    assert annotations(effects) == {"theirs": MISSING}
    assert held.metric("broken_allocations", cause="device-missing") == 1
    assert held.run() == []


def annotated(bench, effects, name="theirs"):
    """Let an annotation be written, and take that in."""
    (write,) = writes(effects, "annotate")
    told = {} if said_by(write) is None else {BROKEN_ANNOTATION: said_by(write)}
    newer = bench.delta(claim(name, annotations=told), allocation=allocation(), reservedFor=USER)
    return bench.run(newer, Stored(write, {}))


def test_what_is_mended_is_told_no_more(held):
    """The annotation is taken off, and the same again is news."""
    assert annotated(held, held.run(gone("Node", "node-1"))) == []
    effects = held.run(put("Node", node()))
    assert annotations(effects) == {"theirs": None}
    assert held.metric("broken_allocations", cause="node-gone") == 0

    assert annotated(held, effects) == []
    assert event_reasons(held.run(gone("Node", "node-1"))) == ["AllocationBroken"]


def test_what_an_earlier_operator_told_is_not_told_again(bench, clock):
    """Nor taken off until it is known to be over; a missing device need not be missing for another minute."""
    told = claim("theirs", annotations={BROKEN_ANNOTATION: MISSING})
    bench.heard -= {"ResourceSlice"}
    held = bench.delta(told, allocation=allocation(), reservedFor=USER)
    effects = bench.run(
        put("Node", node()), put("ResourceSlice", resource_slice("gpu-1", generation=2)), held
    )
    bench.heard |= {"ResourceSlice"}
    clock.now += 5

    assert effects + bench.run() == []
    assert bench.metric("broken_allocations", cause="device-missing") == 1


@pytest.mark.parametrize(
    ("change", "fate"),
    [
        (gone("Node", "node-1"), "node node-1 is gone; kube-controller-manager deletes this pod"),
        (
            put("ResourceSlice", resource_slice("gpu-0", taints=[EVICTING], generation=2)),
            (
                "device gpu.example.com/pool-1/gpu-0 has the taint broken:NoExecute, which is not tolerated; "
                "kube-controller-manager evicts this pod"
            ),
        ),
    ],
    ids=["node gone", "tainted"],
)
def test_it_is_told_on_pods_as_well(held, change, fate):
    """With what becomes of each: a pod that came later, and has no node, nobody evicts."""
    first = PodUse("default", USER[0]["name"], frozenset({"theirs"}), uid=USER[0]["uid"])
    effects = held.run(first, change)
    effects += held.run(PodUse("default", "later", frozenset({"theirs"}), uid="later"))

    found = {event.subject.name: event.message for event in effects if isinstance(event, EventRequest)}
    assert found[first.name] == f'claim "theirs": {fate}'
    assert "nothing evicts a pod without a node" in found["later"]


@pytest.mark.parametrize(
    ("users", "fate"),
    [
        ([], ADVICE),
        ([RESERVATION], "; kept or replaced as spec.ifLost of DeviceReservation training says"),
        ([RESERVATION, *USER], f"; kube-controller-manager deletes its pods that were on the node{ADVICE}"),
    ],
    ids=["nobody", "a reservation", "a reservation and a pod"],
)
def test_nothing_is_taken_back_by_itself(bench, clock, users, fate):
    """A claim of ours that is broken says what to do, and keeps its allocation."""
    held = bench.delta(claim("ours", finalizers=[FINALIZER]), allocation=allocation(), reservedFor=users)
    bench.run(put("Node", node()), put("ResourceSlice", resource_slice("gpu-0")), held)

    effects = bench.run(gone("Node", "node-1"))
    clock.now += 3600
    effects += bench.run()

    assert said(effects) == {"ours": f"node node-1 is gone{fate}"}
    assert writes(effects, "withdraw") == []


async def test_a_broken_claim_is_told_on_the_api_server(cluster, operator):
    """It says so until its node is there again; whoever made the allocation."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"))
    cluster.put(claim("theirs") | {"status": {"allocation": allocation(), "reservedFor": USER}})
    await operator.settled()
    cluster.server.remove("Node", "node-1")

    def told():
        return (cluster.claim("theirs")["metadata"].get("annotations") or {}).get(BROKEN_ANNOTATION)

    await cluster.until(told, "the annotation")
    assert told() == NODE_GONE
    await cluster.until(lambda: "AllocationBroken" in cluster.reasons("theirs"), "the Event")
    assert b'dra_operator_broken_allocations{cause="node-gone"} 1.0' in operator.manager.metrics.text()
    cluster.put(node())
    await cluster.until(lambda: told() is None, "the end of the annotation")


READY = "device.attributes['gpu.example.com'].ready"


async def test_an_event_says_on_how_many_devices_the_selector_fails(cluster, operator):
    """Beside that of the allocation, once the claim is allocated."""
    slices = [resource_slice("gpu-0", name=f"slice-{n}", on=f"node-{n}", pool=f"pool-{n}") for n in (1, 2, 3)]
    slices[0]["spec"]["devices"][0]["attributes"] = {"ready": {"bool": True}}
    cluster.put(*(node(f"node-{n}") for n in (1, 2, 3)), CLASS, *slices)
    cluster.put(claim(request={"selectors": [{"cel": {"expression": READY}}]}))

    assert await cluster.allocated() == ["gpu-0"]
    await cluster.until(lambda: "SelectorFailed" in cluster.reasons("claim"), "the warning")
    (event,) = [event for event in cluster.events("claim") if event["reason"] == "SelectorFailed"]
    assert event["type"] == "Warning"
    assert event["message"] == (
        "request gpu: selector #0 fails on 2 of 3 devices: gpu.example.com/pool-2/gpu-0: no such key: ready; "
        "this device has no attributes; guard what not every device has by has(), or by .? and orValue(); "
        f"{fault_texts.NOT_REACHED}"
    )
    assert cluster.annotation() is None
