"""Pods and claims after the allocation: what still keeps a pod from devices that its claims have."""

import pytest

from dra_operator import Cluster
from factories import claim, request
from small_cluster import cluster, holding, node, pod, template

ENTRY = [{"name": "gpu", "resourceClaimName": "used"}]
PORT = {"containerPort": 9000, "hostPort": 9000, "protocol": "TCP"}


def user(name="train", entries=ENTRY, **spec):
    """A pod of the cluster that names a claim, or several."""
    return pod(name, uid=name, entries=entries, **spec)


def with_port(body):
    """The pod with a port of its node."""
    body["spec"]["containers"][0]["ports"] = [PORT]
    return body


TAINT = {"key": "dedicated", "value": "llm", "effect": "NoSchedule"}
OBSTACLES = {
    "cordon": ([node("n1", unschedulable=True)], user(), "unschedulable", "the nodes were not cordoned"),
    "cpu": ([node("n1", cpu="500m")], user(), "cpu", "the nodes had enough cpu, or the pod requested less"),
    "selector": (
        [],
        user(nodeSelector={"zone": "a"}),
        "nodeSelector",
        "its nodeSelector were dropped or met",
    ),
    "taint": (
        [node("n1", taints=[TAINT])],
        user(),
        "dedicated=llm:NoSchedule",
        "it tolerated the taints of the nodes",
    ),
    "port": (
        [with_port(pod("first", uid="first", entries=[], nodeName="n1"))],
        with_port(user()),
        "9000/TCP",
        "its host ports were free",
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_pod_that_cannot_use_what_is_allocated_is_told_what_would_help(obstacle):
    """All of its claims are allocated: the node is named, what is in the way, and the change that helps."""
    bodies, asked, said, change = OBSTACLES[obstacle]

    answer = cluster(*bodies, holding("used", "n1", "gpu-0"), asked).explain("pod/team/train")

    assert (answer.state, answer.reason) == ("waits", "AllocatedNodeUnsuitable")
    assert "n1" in answer.message
    assert said in answer.message
    assert [each.text for each in answer.changes] == [change]


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("are_stored", [True, False], ids=["stored", "files"])
def test_simulate_names_pods_that_cannot_use_what_is_allocated(obstacle, are_stored):
    """Nothing is left to decide of their claims, and they wait all the same."""
    bodies, asked, said, _ = OBSTACLES[obstacle]
    if not are_stored:
        asked = {**asked, "metadata": {"name": "train", "namespace": "team"}}

    notes = cluster(*bodies, holding("used", "n1", "gpu-0"), asked).allocate().notes

    (note,) = [each for each in notes if "team/train" in each]
    assert 'cannot use its claims: claim "gpu" is allocated on n1, where the pod cannot run' in note
    assert said.partition("=")[0] in note


def test_pod_that_can_use_what_is_allocated_is_no_note():
    """Neither one that waits for the scheduler, nor one that runs on a node that has been cordoned since."""
    running = user("running", nodeName="n1")
    state = cluster(node("n1", unschedulable=True), holding("used", "n1", "gpu-0"), running)

    assert not any("running" in each for each in state.allocate().notes)
    assert cluster(holding("used", "n1", "gpu-0"), user()).allocate().notes == ()


def test_claims_on_two_nodes_are_each_named_with_theirs():
    """No change of the pod helps, and it is said where each claim is."""
    entries = [*ENTRY, {"name": "other", "resourceClaimName": "elsewhere"}]

    answer = cluster(
        holding("used", "n1", "gpu-0"), holding("elsewhere", "n2", "gpu-0"), user(entries=entries)
    ).explain("pod/team/train")

    assert answer.reason == "AllocatedNodeUnsuitable"
    assert '"gpu" on n1' in answer.message
    assert '"other" on n2' in answer.message
    assert (answer.changes, answer.searched) == ((), "no single change helps")


# --- pods that have a node


def test_bound_pod_without_reservation_is_told_who_makes_it():
    """kube-controller-manager does, of pods that have a node: to make the pod anew changes nothing."""
    stale = [{"resource": "pods", "name": "old", "uid": "old"}]
    held = holding("used", "n1", "gpu-0")
    held["status"]["reservedFor"] = stale

    answer = cluster(held, user(nodeName="n1")).explain("pod/team/train")

    assert answer.state == "waits"
    assert 'claim "used" is not reserved for it: kube-controller-manager does that' in answer.message
    assert "it is reserved for pod old, which is gone" in answer.message
    assert "make the pod anew" not in answer.message


def test_bound_pod_with_a_claim_elsewhere_is_told_where():
    """Nothing brings the device to it."""
    answer = cluster(holding("used", "n2", "gpu-0"), user(nodeName="n1")).explain("pod/team/train")

    assert answer.state == "waits"
    assert 'claim "used" is allocated on n2' in answer.message


def test_bound_pod_without_allocation_is_to_be_made_anew():
    """Nobody allocates the claim of a pod that kube-scheduler did not bind."""
    asked = claim("used", request("gpu"), namespace="team", uid="used")

    answer = cluster(asked, user(nodeName="n1")).explain("pod/team/train")

    assert 'claim "used" is not allocated: ' in answer.message
    assert "make the pod anew without spec.nodeName" in answer.message


def reserved(*metadata, **fields):
    """The claim, reserved for the pod."""
    held = holding("used", "n1", "gpu-0", *metadata, **fields)
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "train", "uid": "train"}]
    return held


@pytest.mark.parametrize(("version", "is_old"), [("v1.33.4", True), ("v1.34.0", False), ("", False)])
def test_kubelet_that_asks_for_an_older_version_is_named(version, is_old):
    """Until 1.33 it fetches claims as v1beta1, which a server of today may not serve."""
    old = node("n1")
    old["status"]["nodeInfo"] = {"kubeletVersion": version}

    answer = cluster(old, reserved(), user(nodeName="n1")).explain("pod/team/train")

    assert ("v1.33.4" in answer.message) == is_old
    assert (answer.state == "waits") == is_old


# --- claims that are being deleted, or bound


def test_claim_that_is_being_deleted_says_what_holds_it():
    """It is allocated, and waits for whoever uses it."""
    leaving = reserved(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f"])

    answer = cluster(leaving, user(nodeName="n1")).explain("claim/team/used")

    assert answer.state == "waits"
    assert answer.message.startswith("it is being deleted: it is reserved for pod train")


def binding(conditions, allocated="2026-01-01T00:00:00Z"):
    """A claim whose device has conditions to be bound by, as its driver wrote them."""
    held = holding("used", "n1", "gpu-0")
    (item,) = held["status"]["allocation"]["devices"]["results"]
    item |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
    held["status"]["allocation"]["allocationTimestamp"] = allocated
    key = {name: item[name] for name in ("driver", "pool", "device")}
    held["status"]["devices"] = [{**key, "conditions": conditions}]
    return held


def test_failed_binding_has_the_words_of_its_driver():
    """Its reason and its message."""
    failed = {"type": "failed", "status": "True", "reason": "NoLane", "message": "no free lane"}

    answer = cluster(binding([failed]), user()).explain("pod/team/train")

    assert answer.state == "waits"
    assert "failed: NoLane: no free lane" in answer.message


@pytest.mark.parametrize(("seconds", "is_over"), [(60, False), (3600, True)])
def test_binding_that_takes_longer_than_the_scheduler_waits_is_overdue(seconds, is_over):
    """After ten minutes kube-scheduler takes the allocation back, if it runs."""
    state = cluster(binding([]), user(), now=1767225600.0 + seconds)

    answer = state.explain("pod/team/train")

    assert "attached" in answer.message
    assert ("kube-scheduler gives up after 600 s" in answer.message) == is_over


# --- names of requests


def container(kind, **named):
    """A pod whose container names a request."""
    body = pod("train", entries=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    first = {"name": "init", "image": "none", "resources": {"claims": [{"name": "gpu", **named}]}}
    if kind == "containers":
        body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu", **named}]
    else:
        body["spec"]["initContainers"] = [first]
    return body


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_request_that_a_claim_does_not_have_is_said(kind):
    """Kubernetes takes it, and the container silently gets no device."""
    notes = cluster(template(), container(kind, request="gpus")).allocate().notes

    (note,) = [each for each in notes if "gpus" in each]
    assert f"spec.{kind}[0].resources.claims[0].request" in note
    assert 'did you mean "gpu"?' in note
    assert not any(
        "request" in each for each in cluster(template(), container(kind, request="gpu")).allocate().notes
    )


def test_alternative_of_a_request_is_refused():
    """The API server takes only the name of the request."""
    (error,) = Cluster.load([template(), container("containers", request="gpu/big")]).errors

    assert '"gpu/big" is no name of a request: write "gpu"' in error


def test_static_pod_has_no_claims():
    """The API server refuses it."""
    static = pod("train")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}

    answer = cluster(template(), static).allocate()

    assert any("static pods do not support resource claims" in each for each in answer.missing)
    assert answer.claims == ()


def mapped(request_name):
    """A running pod whose status maps a resource to a request."""
    body = pod("train", uid="train", entries=[], nodeName="n1")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": request_name}
    body["status"] = {
        "phase": "Running",
        "extendedResourceClaimStatus": {"resourceClaimName": "used", "requestMappings": [mapping]},
    }
    return body


def test_mapping_to_a_request_that_is_not_there_is_said():
    """The kubelet gives the container no device."""
    answer = cluster(reserved(), mapped("request-0")).explain("pod/team/train")

    assert "request-0" in answer.message
    assert "request-0" not in cluster(reserved(), mapped("r0")).explain("pod/team/train").message


# --- reservations of pods that ended


def ended(phase, finished):
    """A pod that has ended."""
    body = user(nodeName="n1")
    state = {"terminated": {"finishedAt": finished}}
    body["status"] = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    return body


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize(
    ("finished", "is_found"), [("2026-01-01T00:00:00Z", True), ("2026-01-01T23:59:00Z", False)]
)
def test_reservation_for_a_pod_that_ended_long_ago_is_a_fault(phase, finished, is_found):
    """kube-controller-manager takes it away within seconds."""
    state = cluster(reserved(), ended(phase, finished), now=1767225600.0 + 86400)

    found = [each for each in state.audit().findings if each.sort == "ConsumerGone"]

    assert bool(found) == is_found
    assert all("pod train, which has ended" in each.message for each in found)


def test_claim_that_outlives_the_pod_that_it_was_made_for_is_a_fault():
    """kube-controller-manager deletes it when the pod has ended."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": True}
    held = holding("used", "n1", "gpu-0", ownerReferences=[owner])

    state = cluster(held, ended("Succeeded", "2026-01-01T00:00:00Z"), now=1767225600.0 + 86400)

    (found,) = [each for each in state.audit().findings if each.sort == "ConsumerGone"]
    assert "was made for pod train, which has ended" in found.message
