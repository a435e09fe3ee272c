"""What is named and is not there: a reason where all objects of the kind were listed, never that it fits."""

import pytest

from factories import manifest
from small_cluster import cluster, pod, template, waiting_pod

VOLUME = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
EPHEMERAL = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
LISTED = ("PersistentVolumeClaim", "PersistentVolume")


def volume_claim(**metadata):
    """The claim of the volume, as a file has it or, with a uid, bound."""
    spec = {"volumeName": "pv"} if metadata else {}
    body = manifest("PersistentVolumeClaim", "data", spec, namespace="team", **metadata)
    return {**body, "apiVersion": "v1"}


def priority_class(name):
    """A PriorityClass."""
    return {**manifest("PriorityClass", name), "apiVersion": "scheduling.k8s.io/v1", "value": 1000}


@pytest.mark.parametrize("entries", [None, []], ids=["with claims", "without"])
@pytest.mark.parametrize(
    ("named", "there", "listed", "is_refused"),
    [
        ("hihg", ["high"], ["PriorityClass"], True),
        ("hihg", [], ["PriorityClass"], True),
        ("hihg", ["high"], [], False),
        ("high", ["high"], ["PriorityClass"], False),
        ("system-node-critical", [], ["PriorityClass"], False),
        ("", [], ["PriorityClass"], False),
    ],
    ids=["misspelt", "none at all", "not listed", "there", "of the system", "none named"],
)
def test_pod_whose_priority_class_is_not_there_is_refused(entries, named, there, listed, is_refused):
    """The API server takes no such pod, so that no copy fits, and nothing is made of its template."""
    asking = pod(priorityClassName=named, entries=entries)
    state = cluster(template(), *map(priority_class, there), listed=listed)

    found = state.explain([asking])
    fits = state.fit([asking], copies=2)

    assert (found.conclusion.value, len(fits.copies)) == (("no", 0) if is_refused else ("yes", 2))
    assert ('there is no PriorityClass "hihg"' in found.message) == is_refused
    assert (found.requests, state.headroom([asking]).stranded if is_refused else 0) == ((), 0)
    assert ('did you mean "high"?' in found.message) == (is_refused and bool(there))


@pytest.mark.parametrize("ask", ["fit", "explain"])
def test_what_the_api_server_refuses_is_a_no_whatever_could_not_be_read(ask):
    """No device and no node helps a pod that cannot be created."""
    unread = {"Node": "not permitted", "DeviceTaintRule": "not permitted"}
    state = cluster(template(), listed=["PriorityClass"], unread=unread)

    answer = getattr(state, ask)([pod(priorityClassName="gone")])

    assert (answer.reason, answer.conclusion) == ("ClaimNotCreated", "no")


def test_priority_class_that_went_keeps_no_pod_that_is_there():
    """It is asked for when a pod is created: what it has had of it stays."""
    state = cluster(*waiting_pod(priorityClassName="gone", priority=7), listed=["PriorityClass"])

    assert state.explain("pod/team/train").state == "fits"


def test_priority_class_that_may_not_be_read_is_a_restriction():
    """Of a pod that names one; of others it does not matter."""
    state = cluster(template(), unread={"PriorityClass": "not permitted to list it"})

    answers = [state.fit([pod(priorityClassName=name)]) for name in ("high", "")]

    assert [answer.conclusion.value for answer in answers] == ["cannot say", "yes"]


@pytest.mark.parametrize(
    ("listed", "is_known"),
    [
        (LISTED, True),
        ((), False),
        (["PersistentVolumeClaim/team"], True),
        (["PersistentVolumeClaim/x"], False),
    ],
    ids=["listed", "unknown", "listed in its namespace", "listed in another"],
)
def test_volume_claim_that_is_not_there_keeps_a_pod_waiting(listed, is_known):
    """Where all were listed; of files nobody knows."""
    state = cluster(*waiting_pod(volumes=VOLUME), listed=listed)

    answer = state.explain("pod/team/train")

    assert (answer.state == "waits") == is_known
    assert ("claim data is not there" in answer.message) == is_known
    copy = cluster(template(), listed=listed).fit([pod(volumes=VOLUME)])
    assert copy.fits == (not is_known)


def test_volume_claim_that_comes_with_the_pod_counts_for_nothing():
    """Nobody had the time to bind it, nor to make that of an ephemeral volume."""
    state = cluster(template(), listed=LISTED)

    assert state.fit([pod(volumes=VOLUME), volume_claim()]).fits
    assert state.fit([pod(volumes=EPHEMERAL)]).fits


@pytest.mark.parametrize(
    ("resource", "near"),
    [("gpu.example.com/gpus", ""), ("example.com/gpsu", 'did you mean "example.com/gpus"?')],
    ids=["alone", "misspelt"],
)
def test_resource_that_nothing_has_keeps_a_pod_waiting(resource, near):
    """Neither a node nor a class is called so; the scheduler finds room nowhere."""
    asking = pod("train", uid="train", entries=[])
    asking["spec"]["containers"][0]["resources"]["limits"] = {resource: "1"}
    served = manifest("DeviceClass", "gpus", {"extendedResourceName": "example.com/gpus"})

    answer = cluster(served, asking).explain("pod/team/train")

    assert (answer.state, answer.reason, answer.conclusion.value) == ("waits", "NodeUnsuitable", "no")
    assert f"no node has the resource {resource}" in answer.message
    assert near in answer.message


@pytest.mark.parametrize(("cpu", "is_told"), [("1", False), ("500", True)])
def test_pod_without_claims_is_no_matter_of_devices(cpu, is_told):
    """It is said, and what else keeps it from nodes; the exit code is that nothing about devices does."""
    answer = cluster(pod("train", cpu, uid="train", entries=[])).explain("pod/team/train")

    assert (answer.state, answer.conclusion.value) == ("does not wait", "yes")
    assert answer.message.startswith("it has no claims, so no device keeps it from a node")
    assert ("it can run on none all the same: 2 cpu" in answer.message) == is_told


@pytest.mark.parametrize(
    ("scheduler", "conditions", "is_absent"),
    [
        ("volcano", [], True),
        ("volcano", [{"type": "PodScheduled", "status": "False"}], False),
        ("default-scheduler", [], False),
    ],
    ids=["nobody looked", "it looked", "kube-scheduler"],
)
def test_scheduler_that_looks_at_nothing_is_named(scheduler, conditions, is_absent):
    """Its claims fit, and nobody will place the pod."""
    held, asking = waiting_pod(schedulerName=scheduler)
    asking["status"] |= {"conditions": conditions}

    answer = cluster(held, asking).explain("pod/team/train")

    assert (answer.state, answer.node) == ("waits" if is_absent else "fits", "n1")
    assert ('its spec.schedulerName is "volcano"' in answer.message) == is_absent
