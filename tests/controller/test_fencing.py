"""The fence: what a killed operator was still writing is stored by nobody once its successor decides."""

from dataclasses import replace

import pytest
from cycle_bench import Bench, writes
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cluster import FINALIZER, PENDING, Operator, claim, pod
from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.types import AllocationResult
from dra_operator.cluster.writes import allocate
from dra_operator.controller import fencing, write_results
from dra_operator.controller.cycle import Tick
from dra_operator.testing.patches import merge

NEW, OLD = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"


@pytest.fixture
async def start(cluster, proxy):
    """Start operators behind the proxy, one after the other; all are stopped at the end."""
    started = []

    async def begin():
        started.append(await Operator(proxy.url).start())
        return started[-1]

    yield begin
    proxy.holds = lambda _: False
    await proxy.let_through()
    for operator in started:
        await operator.manager.close()


def is_allocation(request):
    """Say whether a request allocates a claim."""
    return request.method == "PATCH" and request.path.endswith("/status")


def is_annotation(request):
    """Say whether a request tells on a claim why it waits."""
    return request.method == "PATCH" and b"annotations" in request.content


def is_release(request):
    """Say whether a request takes the finalizer off a claim."""
    return request.method == "PATCH" and b'"finalizers":[]' in request.content


@pytest.fixture
def die(cluster, proxy, start):
    """Let an operator live until its next allocation lies in the proxy, and return what lies there."""

    async def live_and_die():
        before = len(proxy.held)
        proxy.holds = is_allocation
        operator = await start()
        await cluster.until(lambda: len(proxy.held) > before, "the allocation")
        await operator.kill()
        proxy.holds = lambda _: False
        return proxy.held[-1]

    return live_and_die


@pytest.fixture
async def late(cluster, gpu, die):
    """What an operator sent before it was killed: the allocation of the first claim."""
    cluster.put(claim("first", creationTimestamp=NEW))
    return await die()


# --- what must not happen
# ---------------------------------------------------------------------------------------------------


def older(cluster):
    """Another claim comes first now."""
    cluster.put(claim("second", creationTimestamp=OLD))


def used(cluster):
    """The claim is a pod's by now, so that it is left to kube-scheduler."""
    cluster.put(pod(uses="first", phase="Pending"), claim("second", creationTimestamp=NEW))


def opted_out(cluster):
    """The claim must not be allocated any more."""
    label = {"dra-operator.io/allocate": "false"}
    cluster.change("ResourceClaim", "first", lambda body: body["metadata"].update(labels=label), "default")
    cluster.put(claim("second", creationTimestamp=NEW))


@pytest.mark.parametrize("change", [older, used, opted_out])
async def test_an_allocation_that_is_stored_late_gives_no_device_twice(cluster, proxy, late, start, change):
    """The successor gives the device to another claim, and what its predecessor sent is refused when it arrives."""
    change(cluster)
    # An annotation would give the claim another version as well.
    proxy.holds = is_annotation
    await start()
    assert await cluster.allocated("second") == ["gpu-0"]

    codes = await proxy.let_through(late)

    assert (codes, cluster.devices("first")) == ([409], [])


async def test_allocations_of_several_operators_are_fenced(cluster, proxy, die, gpu, start):
    """Of a claim that was made anew, too, and by an operator that was killed before it was ready itself."""
    cluster.put(claim("first", creationTimestamp=NEW))
    late = [await die()]
    cluster.server.remove("ResourceClaim", "first", "default")
    cluster.put(claim("first", creationTimestamp=NEW))
    late.append(await die())
    proxy.holds = is_release
    unready = await start()
    await cluster.until(lambda: len(proxy.held) == 3)
    await unready.kill()
    older(cluster)
    proxy.holds = is_annotation
    await start()
    assert await cluster.allocated("second") == ["gpu-0"]

    codes = await proxy.let_through(*late, proxy.held[2])

    assert [code in (409, 422) for code in codes] == [True, True, True]
    assert cluster.devices("first") == []


async def test_an_allocation_that_is_stored_before_the_fence_counts(cluster, proxy, late, start):
    """The fence itself is refused then, and the device is not given to another claim."""
    older(cluster)
    proxy.holds = is_release
    await start()
    await cluster.until(lambda: len(proxy.held) == 2)
    assert await proxy.let_through(late) == [200]

    assert await proxy.let_through() == [409]
    assert "in use" in await cluster.waits("second")
    assert cluster.devices("first") == ["gpu-0"]


async def test_a_claim_that_nobody_can_understand_is_fenced(cluster, proxy, late, start, monkeypatch):
    """It could be understood when its allocation was sent, by an operator of another version."""

    def read(body, kind):
        if body["metadata"]["name"] == "first":
            raise ObjectError("not to be understood")
        return read_object(body, kind)

    monkeypatch.setattr("dra_operator.controller.ingest.read_object", read)
    older(cluster)
    await start()
    assert await cluster.allocated("second") == ["gpu-0"]

    assert await proxy.let_through(late) == [409]


@settings(max_examples=30)
@given(
    finalizers=st.lists(st.sampled_from([FINALIZER, "example.com/mine"]), unique=True),
    annotations=st.dictionaries(st.sampled_from([PENDING, "other"]), st.text()),
    is_kept=st.booleans(),
)
def test_an_allocation_is_sent_on_versions_that_are_fenced_alone(finalizers, annotations, is_kept):
    """Whatever a claim looks like that is decided: by its last patch, the fence would know it."""
    delta = Bench(lambda: 0.0).delta(claim(finalizers=finalizers, annotations=annotations))
    write = allocate(read_object({**delta.body, "spec": {}}, "ResourceClaim"), AllocationResult())
    *before, last = write.patches
    body = delta.body
    for step in before:
        body = merge(body, step.body)
    if is_kept:
        # By a policy, which holds no allocation up.
        body["metadata"]["annotations"] = annotations
    assert last.subresource == "status"

    successor = Bench(lambda: 0.0)
    (found,) = writes(successor.run(replace(delta, body=body)), "fence")

    assert (found.uid, found.version) == (write.uid, "1")


# --- what it costs others
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"finalizers": ["example.com/mine"]}, {}),
        ({"labels": {"dra-operator.io/allocate": "false"}}, {}),
        ({"ownerReferences": [{"kind": "Pod", "name": "pod", "uid": "1", "controller": True}]}, {}),
        ({"deletionTimestamp": NEW}, {"reservedFor": [{"resource": "pods", "name": "pod", "uid": "1"}]}),
        ({}, {"reservedFor": [{"resource": "pods", "name": "pod", "uid": "1"}]}),
        ({}, {"allocation": {"devices": {}}}),
    ],
    ids=["unprotected", "opted out", "owned", "deleted", "reserved", "allocated"],
)
def test_claims_that_no_operator_was_allocating_are_left_alone(bench, metadata, status):
    """On a version in such a state no operator sends an allocation."""
    effects = bench.run(bench.delta(claim(**{"finalizers": [FINALIZER]} | metadata), **status))

    assert writes(effects, "fence") == []
    assert bench.cycle._fence.reasons() == ()


# --- when it is not possible
# ------------------------------------------------------------------------------------------------


async def test_decisions_wait_for_the_fence_and_say_so(cluster, proxy, late, start):
    """Readiness names the claim, and the device stays where it is until the answer is there."""
    older(cluster)
    proxy.holds = is_release
    operator = await start()
    await cluster.until(lambda: len(proxy.held) == 2)
    await cluster.stays(lambda: not cluster.devices("second"))
    (why,) = operator.manager.unready()
    assert why.startswith("an earlier operator may still be writing to default/first; no claim is allocated")

    await proxy.let_through(proxy.held[1])
    assert await cluster.allocated("second") == ["gpu-0"]
    await operator.ready()


async def test_a_fence_that_is_not_permitted_is_tried_again(cluster, proxy, late, start, monkeypatch):
    """The right is named, and decisions begin soon after it is there."""
    monkeypatch.setattr(fencing, "AGAIN", (0.05, 0.05))
    monkeypatch.setattr(write_results, "DENIED", (0.05, 0.05))
    message = 'forbidden: User "operator" cannot patch resource "resourceclaims"'
    fault = cluster.server.faults.answer(403, times=None, verb="patch", kind="ResourceClaim", message=message)
    older(cluster)
    operator = await start()
    await cluster.until(lambda: fault.met > 1)
    assert f"not permitted to patch resourceclaims: {message}" in operator.manager.unready()
    await cluster.until(lambda: "Forbidden" in cluster.reasons("first"))
    assert cluster.devices("second") == []

    fault.times = 0
    assert await cluster.allocated("second") == ["gpu-0"]
    await operator.ready()


async def test_a_fence_that_never_succeeds_is_given_up(cluster, late, start, monkeypatch):
    """When nothing that was sent can be stored any more, nobody has to wait any longer."""
    monkeypatch.setattr(fencing, "DOUBT_SECONDS", 1.0)
    cluster.server.faults.answer(403, times=None, verb="patch", name="first", message="denied by policy")
    older(cluster)
    operator = await start()
    await cluster.until(operator.manager._cycle._fence.reasons)
    assert cluster.devices("second") == []

    assert await cluster.allocated("second") == ["gpu-0"]
    await operator.ready()


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (lambda bench, _: bench.run(bench.delta(claim())), ("earlier writes fenced", 1)),
        (
            lambda bench, clock: bench.run(setattr(clock, "now", clock.now + 120) or Tick()),
            ("earlier writes not fenced in time", ["default/claim"]),
        ),
    ],
    ids=["fenced", "not in time"],
)
def test_that_claims_are_fenced_is_logged(bench, clock, ends, said):
    """Which claims all others wait for, and how it ended."""
    with capture_logs() as logs:
        bench.run(bench.delta(claim(finalizers=[FINALIZER])))
        ends(bench, clock)
        bench.run(Tick())

    lines = [(line["event"], line["claims"]) for line in logs if "claims" in line]
    assert lines == [("earlier writes may be under way", ["default/claim"]), said]


def test_only_what_was_under_way_at_the_start_is_fenced(bench):
    """Who sets the finalizer later is an allocator that lives; and what comes again unchanged settles nothing."""
    listed = bench.delta(claim(finalizers=[FINALIZER]))
    bench.run(listed)
    effects = bench.run(listed, bench.delta(claim("later", finalizers=[FINALIZER])))

    assert writes(effects, "fence") == []
    (text,) = bench.cycle._fence.reasons()
    assert "default/claim;" in text
