"""Allocations that are broken are told on their claims, whoever made them, until they are sound again."""

from datetime import UTC, datetime

import pytest
from cycle_bench import event_reasons, writes
from table import said

from cluster import CLASS, FINALIZER, allocation, claim, node, resource_slice
from dra_operator.api.names import BROKEN_ANNOTATION, PENDING_ANNOTATION
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import AnnotateWrite, Conflict, Refused, Written

USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
ADVICE = "; end what uses this claim, and delete it: a new claim gets other devices"
MISSING = "device gpu.example.com/pool-1/gpu-0 is not in generation 2 of its pool, which is complete" + ADVICE
EVICTING = {"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def put(kind, body):
    """The difference that brings an object of the cluster."""
    return Delta(kind, "", body["metadata"]["name"], body)


def gone(kind, name):
    """The difference that takes it away."""
    return Delta(kind, "", name, None)


def annotations(effects):
    """What annotations are to say, by claim."""
    found = writes(effects, AnnotateWrite)
    return {write.name: write.text for write in found if write.annotation == BROKEN_ANNOTATION}


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


def test_a_kubelet_that_restarts_is_not_told(held, clock):
    """Its slices are away for 20 s, and come back one generation later."""
    effects = held.run(gone("ResourceSlice", "slice-1"))
    clock.now += 20
    effects += held.run()
    effects += held.run(put("ResourceSlice", resource_slice("gpu-0", "gpu-1", generation=2)))
    clock.now += 100

    assert effects + held.run() == []


def test_a_pool_without_slices_is_not_told(held, clock):
    """Its driver may be updated; nobody knows that its devices are gone."""
    held.run(gone("ResourceSlice", "slice-1"))
    clock.now += 7200

    assert held.run() == []


def test_a_node_that_is_gone_is_told_at_once(held):
    """Nobody makes a node anew with the same devices in their places."""
    effects = held.run(gone("Node", "node-1"))

    assert said(effects) == {"theirs": f"node node-1 is gone{ADVICE}"}
    assert held.metric("broken_allocations", cause="node-gone") == 1


@pytest.mark.parametrize("source", ["slice", "rule"])
def test_a_taint_that_is_not_tolerated_is_told(held, source):
    """With the rule that sets it."""
    if source == "slice":
        delta, by = put("ResourceSlice", resource_slice("gpu-0", taints=[EVICTING], generation=2)), ""
    else:
        rule = {"metadata": {"name": "drain"}, "spec": {"deviceSelector": {}, "taint": EVICTING}}
        delta, by = put("DeviceTaintRule", rule), " of DeviceTaintRule drain"
    effects = held.run(delta)

    device = "device gpu.example.com/pool-1/gpu-0"
    assert said(effects) == {
        "theirs": f"{device} has the taint broken:NoExecute{by}, which is not tolerated{ADVICE}"
    }
    assert held.metric("broken_allocations", cause="tainted") == 1


def test_a_taint_that_is_tolerated_for_a_time_is_told_after_it(bench, clock):
    """Counted from when it was added, by the time of day."""
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + 10
    bench.wall = lambda: datetime.fromtimestamp(start + clock.now - 1000, UTC)
    has = allocation()
    tolerates = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    has["devices"]["results"][0]["tolerations"] = [tolerates]
    assert (
        bench.run(
            put("Node", node()),
            put("ResourceSlice", resource_slice("gpu-0", taints=[EVICTING])),
            bench.delta(claim("theirs"), allocation=has, reservedFor=USER),
        )
        == []
    )
    clock.now = bench.wake_at

    assert clock.now == 1020
    assert event_reasons(bench.run()) == ["AllocationBroken"]


def annotated(bench, effects, name="theirs"):
    """Let an annotation be written, and take that in."""
    (write,) = writes(effects, AnnotateWrite)
    told = {} if write.text is None else {BROKEN_ANNOTATION: write.text}
    newer = bench.delta(claim(name, annotations=told), allocation=allocation(), reservedFor=USER)
    return bench.run(newer, Written(write, {}))


def test_what_is_mended_is_told_no_more(held):
    """The annotation is taken off, and the same again is news."""
    assert annotated(held, held.run(gone("Node", "node-1"))) == []
    effects = held.run(put("Node", node()))
    assert annotations(effects) == {"theirs": None}
    assert held.metric("broken_allocations", cause="node-gone") == 0

    assert annotated(held, effects) == []
    assert event_reasons(held.run(gone("Node", "node-1"))) == ["AllocationBroken"]


def test_what_was_told_stays_while_slices_are_away(held, clock):
    """That nothing is known mends nothing."""
    held.run(put("ResourceSlice", resource_slice("gpu-1", generation=2)))
    clock.now += 60
    annotated(held, held.run())

    assert held.run(gone("ResourceSlice", "slice-1")) == []
    assert held.metric("broken_allocations", cause="device-missing") == 1


def test_an_allocation_that_has_ended_is_broken_no_more(held):
    """Its claim waits; that comes first, as one write is on its way at a time."""
    annotated(held, held.run(gone("Node", "node-1")))
    told = claim("theirs", annotations={BROKEN_ANNOTATION: "node node-1 is gone"})
    (write,) = writes(held.run(held.delta(told)), AnnotateWrite)

    assert write.annotation == PENDING_ANNOTATION
    assert held.metric("broken_allocations", cause="node-gone") == 0
    assert annotations(held.run(Written(write, {}))) == {"theirs": None}


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


def test_no_time_counts_in_which_nothing_is_heard_of_slices(held, clock):
    """The driver may have published the device again meanwhile."""
    held.run(put("ResourceSlice", resource_slice("gpu-1", generation=2)))
    held.heard -= {"ResourceSlice"}
    clock.now += 3600
    assert held.run() == []
    held.heard |= {"ResourceSlice"}
    assert held.run() == []
    clock.now += 60

    assert event_reasons(held.run()) == ["AllocationBroken"]


def test_annotations_are_written_ten_a_second(bench, clock):
    """A node that is gone may have taken the devices of hundreds of claims; Events have a limit of their own."""
    names = [f"gpu-{number}" for number in range(25)]
    bench.run(put("Node", node()), put("ResourceSlice", resource_slice(*names)))
    bench.run(*[bench.delta(claim(name), allocation=allocation(name), reservedFor=USER) for name in names])
    effects = bench.run(gone("Node", "node-1"))
    counts = [len(annotations(effects))]
    for _ in range(3):
        clock.now = bench.wake_at
        counts.append(len(annotations(bench.run())))

    assert event_reasons(effects) == ["AllocationBroken"] * 25
    assert counts == [10, 10, 5, 0]
    assert clock.now >= 1002


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"dra-operator.io/allocate": "false"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]},
    ],
    ids=["opted out", "being deleted"],
)
def test_a_claim_that_is_left_alone_has_only_its_event(bench, metadata):
    """Nothing is written to it."""
    bench.run(
        put("ResourceSlice", resource_slice("gpu-0")),
        bench.delta(claim("theirs", **metadata), allocation=allocation(), reservedFor=USER),
    )
    effects = bench.run(gone("Node", "node-1"))

    assert annotations(effects) == {}


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [(lambda write: Refused(write, "no"), 10), (lambda write: Conflict(write, None, "changed"), 1)],
    ids=["refused", "in conflict"],
)
def test_an_annotation_that_could_not_be_written_is_tried_again(held, clock, answer, seconds):
    """That holds nothing else of the claim up."""
    (write,) = writes(held.run(gone("Node", "node-1")), AnnotateWrite)
    effects = held.run(answer(write))
    clock.now += seconds

    assert len(writes(effects + held.run(), AnnotateWrite)) == 1


def test_another_annotation_says_why_a_claim_waits(held):
    """Each is written by its own name."""
    (write,) = writes(held.run(held.delta(claim("ours"))), AnnotateWrite)

    assert write.annotation == PENDING_ANNOTATION


async def test_a_broken_claim_is_told_on_the_api_server(cluster, operator):
    """It says so until its node is there again; whoever made the allocation."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"))
    cluster.put(claim("theirs") | {"status": {"allocation": allocation(), "reservedFor": USER}})
    await operator.settled()
    cluster.server.remove("Node", "node-1")

    def told():
        return (cluster.claim("theirs")["metadata"].get("annotations") or {}).get(BROKEN_ANNOTATION)

    await cluster.until(told, "the annotation")
    assert told() == f"node node-1 is gone{ADVICE}"
    await cluster.until(lambda: "AllocationBroken" in cluster.reasons("theirs"), "the Event")
    assert b'dra_operator_broken_allocations{cause="node-gone"} 1.0' in operator.manager.metrics.text()
    cluster.put(node())
    await cluster.until(lambda: told() is None, "the end of the annotation")
