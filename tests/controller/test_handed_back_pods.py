"""Pods that were let go and cannot be placed, with the API server in memory: what is taken back, and from whom not."""

from datetime import datetime

import pytest

from cluster import CLASS, FINALIZER, PENDING, Operator, allocation, claim, resource_slice

from .test_gated_pods import Pods, node, pod

CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
}


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch):
    """It is told at once why a pod waits."""
    monkeypatch.setattr("dra_operator.controller.waiting_pods.YOUNG_SECONDS", -1.0)
    monkeypatch.setattr("dra_operator.controller.waiting_pods.AGAIN_SECONDS", 0.05)


@pytest.fixture
def pods(cluster):
    """A cluster of one node with two devices."""
    cluster.put(node("node-1"), CLASS, resource_slice("gpu-0", "gpu-1"))
    return Pods(cluster)


@pytest.fixture
async def start(cluster):
    """Start operators that take back soon; all are stopped at the end."""
    started = []

    async def begin(**settings):
        quick = {"claims": "all", "handback_seconds": 1, **settings}
        started.append(await Operator(cluster.server.url, **quick).start())
        return await started[-1].ready()

    yield begin
    for operator in started:
        await operator.manager.close()
        assert not operator.crashed


def refuse(cluster, name="pod"):
    """Have kube-scheduler say that it cannot place a pod."""
    cluster.change("Pod", name, lambda body: body["status"].update(conditions=[CONDITION]), "default")


def owned_by_pod(cluster, name="pod"):
    """Return the owner of a claim that was made for a pod."""
    uid = cluster.server.get("Pod", name, "default")["metadata"]["uid"]
    return [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}]


async def is_handed_back(cluster, pods):
    """Wait until a pod has given back its claim and its nomination, and was told so."""
    await cluster.until(lambda: not cluster.devices(), "the end of the allocation")
    await cluster.until(
        lambda: FINALIZER not in cluster.claim()["metadata"].get("finalizers", []), "no finalizer"
    )
    await cluster.until(lambda: pods.nominated() is None, "the end of the nomination")
    await cluster.until(lambda: "HandedBack" in cluster.reasons("pod", "Pod"), "the Event")
    (event,) = [event for event in cluster.events("pod", "Pod") if event["reason"] == "HandedBack"]
    assert event["message"] == (
        "handed back: 0/1 nodes are available: 1 Insufficient cpu; delete the pod to try again"
    )


async def test_pod_that_cannot_be_placed_gives_its_devices_back(cluster, pods, start):
    """And they stay back: the pod is kube-scheduler's, and another claim gets them."""
    await start()
    cluster.put(claim(), pod("pod", "claim"))
    await pods.let_go()
    refuse(cluster)

    await is_handed_back(cluster, pods)

    cluster.put(claim("other", request={"count": 2, "allocationMode": "ExactCount"}))
    assert sorted(await cluster.allocated("other")) == ["gpu-0", "gpu-1"]
    await cluster.stays(lambda: not cluster.devices())


async def test_next_operator_hands_back_what_was_made_for_the_pod(cluster, pods, start):
    """The gate was taken off by an operator before it; that the claim was made for the pod shows that."""
    first = await start()
    cluster.put(pod("pod", "claim"))
    cluster.put(claim(ownerReferences=owned_by_pod(cluster)))
    await pods.let_go()
    await first.manager.close()
    await start()
    refuse(cluster)

    await is_handed_back(cluster, pods)


async def test_claim_that_had_its_devices_before_an_ordinary_pod_named_it_keeps_them(cluster, pods, start):
    """No gate was ever there, so nothing is taken back from the pod."""
    await start()
    cluster.put(claim())
    await cluster.allocated()
    cluster.put(pod("pod", "claim", gates=()), claim("made", ownerReferences=[]))
    refuse(cluster)
    await cluster.allocated("made")

    # Longer than it takes to hand a pod back.
    for _ in range(4):
        await cluster.stays(cluster.devices)
    assert cluster.reasons("pod", "Pod") == []


async def test_claim_with_nothing_but_admin_access_is_not_taken_for_ours(cluster, pods, start):
    """kube-scheduler allocates such a claim for an ordinary pod, and no owned device shows who did."""
    await start(devices="owned")
    cluster.put(pod("pod", "claim", gates=()))
    has = allocation()
    has["devices"]["results"][0]["adminAccess"] = True
    made = claim(ownerReferences=owned_by_pod(cluster), finalizers=[FINALIZER])
    cluster.put({**made, "status": {"allocation": has}})
    refuse(cluster)

    # Longer than it takes to hand a pod back.
    for _ in range(4):
        await cluster.stays(cluster.devices)
    assert cluster.reasons("pod", "Pod") == []


def clear(cluster):
    """Take allocation and nomination back, as kube-scheduler's PostFilter does, which leaves the finalizer."""
    cluster.change("ResourceClaim", "claim", lambda body: body["status"].pop("allocation"), "default")
    cluster.change("Pod", "pod", lambda body: body["status"].pop("nominatedNodeName", None), "default")


@pytest.mark.parametrize("restarts", [0, 2], ids=["same operator", "after two restarts"])
@pytest.mark.parametrize("explain", ["ours", "all"])
async def test_pod_whose_devices_the_scheduler_took_back_is_told(cluster, pods, start, explain, restarts):
    """Nobody gives it others, and nothing is left but that it was let go; its claim says the same."""
    operator = await start(explain=explain)
    cluster.put(claim(), pod("pod", "claim"))
    await pods.let_go()
    clear(cluster)
    refuse(cluster)
    for _ in range(restarts):
        await operator.manager.close()
        operator = await start(explain=explain)

    await is_handed_back(cluster, pods)
    text = "handed back: 0/1 nodes are available: 1 Insufficient cpu; delete the pod to try again"
    await cluster.until(
        lambda: cluster.claim()["metadata"].get("annotations", {}).get(PENDING) == text, "the annotation"
    )
    assert set(cluster.reasons("pod", "Pod")) == {"HandedBack"}


@pytest.mark.parametrize("is_running", [True, False], ids=["beside the operator", "while none runs"])
async def test_claim_of_a_pod_that_was_let_go_and_deleted_is_free_again(cluster, pods, start, is_running):
    """Where only gated pods are ours nobody else decides it again, so the devices would be held for ever."""
    first = await start(claims="gated")
    cluster.put(claim(), pod("pod", "claim"))
    await pods.let_go()
    if not is_running:
        await first.manager.close()

    await cluster.session.request("DELETE", "/api/v1/namespaces/default/pods/pod")
    if not is_running:
        await start(claims="gated")

    await cluster.until(lambda: not cluster.devices(), "the end of the allocation")


async def test_time_that_somebody_wrote_into_the_annotation_hides_no_pod_from_the_alert(cluster, pods, start):
    """It counts from the creation of its pod at the earliest: a time before 1970 would look as if there were no pod."""
    metrics = (await start()).manager.metrics
    cluster.put(claim(), pod("pod", "claim", gates=()))
    body = cluster.server.get("Pod", "pod", "default")
    mark = f"0001-01-01T00:00:00Z node-1 {body['metadata']['uid']}"
    annotate = {"dra-operator.io/let-go": mark}
    cluster.change("Pod", "pod", lambda body: body["metadata"].update(annotations=annotate), "default")
    created = datetime.fromisoformat(body["metadata"]["creationTimestamp"]).timestamp()

    def since():
        return metrics.registry.get_sample_value("dra_operator_let_go_since_timestamp_seconds")

    await cluster.until(since, "the time")
    assert since() == created
