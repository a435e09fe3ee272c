"""What waits for devices in a cluster."""

from random import Random

import pytest

from dra_operator.api.names import GATE
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.questions.waiting import find_waiting
from factories import claim, request
from small_cluster import cluster, holding, pod, template


def made_for(name, entry="gpu", *expressions, count=1, **metadata):
    """A claim that was made of a template for a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    asked = request("gpu", "gpu", *expressions, count=count, allocationMode="ExactCount")
    return claim(
        f"{name}-{entry}", asked, namespace="team", uid=f"{name}-{entry}", ownerReferences=[owner], **metadata
    )


def waiting_pod(name, *, count=1, gates=(), created="2026-01-01T00:00:00Z", **fields):
    """A pod and its claim, as controllers leave them."""
    body = pod(name, uid=name, schedulingGates=[{"name": each} for each in gates], **fields)
    body["metadata"]["creationTimestamp"] = created
    body["status"] = {
        "phase": "Pending",
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
    }
    return body, made_for(name, count=count)


def told(report):
    """Kind, name and reason of each."""
    return [(item.kind, item.name, item.reason) for item in report.items]


def test_pods_count_with_their_claims_and_claims_that_no_pod_uses_alone():
    """Each waiting pod is one row, its claims none; others do not wait."""
    old = waiting_pod("old", count=9)
    new = waiting_pod("new", count=9, created="2026-01-02T00:00:00Z")
    ended = waiting_pod("ended", count=9)[0]
    ended["status"]["phase"] = "Succeeded"
    alone = claim(
        "alone", request("gpu", "gpu", count=8, allocationMode="ExactCount"), namespace="team", uid="a"
    )
    alone["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"

    report = find_waiting(cluster(*new, *old, ended, alone, holding("held", "n1", "gpu-0"), template()))

    assert told(report) == [
        ("ResourceClaim", "alone", "NotEnoughDevices"),
        ("Pod", "old", "NotEnoughDevices"),
        ("Pod", "new", "NotEnoughDevices"),
    ]
    assert {item.classes for item in report.items} == {("gpu",)}
    assert report.conclusion == "no"


def test_nothing_waits():
    """A pod that nothing about devices keeps is not told, and the answer is yes."""
    plain = pod("plain", entries=[], uid="plain")
    report = find_waiting(cluster(plain, holding("held", "n1", "gpu-0")))

    assert (report.items, report.conclusion) == ((), "yes")


def test_one_namespace_alone():
    """Of others nothing is told."""
    assert find_waiting(cluster(*waiting_pod("old", count=9)), "other").items == ()


@pytest.mark.parametrize(
    ("gates", "state", "reason", "text"),
    [
        ((), "fits", "NotScheduled", "fit on node n1"),
        (("example.com/quota",), "waits", "SchedulingGated", "example.com/quota"),
        ((GATE,), "waits", "SchedulingGated", "waits for the operator to take its scheduling gate"),
    ],
)
def test_what_waits_for_somebody_else_says_for_whom(gates, state, reason, text):
    """Pods that fit wait for the scheduler or the operator, gated ones for whoever takes the gate off."""
    (item,) = find_waiting(cluster(*waiting_pod("one", gates=gates))).items

    assert (item.state, item.reason) == (state, reason)
    assert text in item.message


def test_claim_that_fits_and_no_pod_uses_is_not_scheduled():
    """It has a reason as everything that waits."""
    alone = claim("alone", request("gpu", "gpu"), namespace="team", uid="a")

    assert told(find_waiting(cluster(alone))) == [("ResourceClaim", "alone", "NotScheduled")]


def test_what_could_not_be_read_makes_the_answer_partial():
    """Without pods nobody knows who waits."""
    report = find_waiting(cluster(*waiting_pod("old", count=9), unread={"Pod": "forbidden"}))

    assert "Pod cannot be read: forbidden" in report.partial
    assert report.conclusion == "cannot say"


@pytest.mark.parametrize("seed", range(40))
def test_reasons_are_those_that_explain_finds_one_by_one(seed):
    """That equal pods are explained once changes nothing, and no pod or claim is forgotten."""
    random = Random(seed)  # noqa: S311 - which world it is
    objects = [holding(f"held-{n}", "n1", f"gpu-{n}") for n in range(random.randint(0, 2))]
    for number in range(random.randint(1, 8)):
        gates = random.choice(((), (), (GATE,), ("example.com/x",)))
        body, own = waiting_pod(
            f"p{number}", count=random.choice((1, 2, 4)), gates=gates, cpu=random.choice(("1", "99"))
        )
        body["spec"]["nodeSelector"] = random.choice(({}, {"kubernetes.io/hostname": "n2"}))
        if random.random() < 0.2:
            body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
            body["status"].pop("resourceClaimStatuses")
        objects += [body, own] if random.random() < 0.9 else [body]
    objects.append(claim("shared", request("gpu", "gpu"), namespace="team", uid="shared"))
    asked = cluster(*objects)

    report = find_waiting(asked)

    expected = {}
    pods = [record.obj for record in asked.objects.of_kind("Pod")]
    used = {name for each in pods if not is_over(each) for name in named_claims(each)}
    for kind in ("Pod", "ResourceClaim"):
        for record in asked.objects.of_kind(kind):
            name = record.obj.metadata.name
            if kind == "ResourceClaim" and (name in used or record.obj.status.allocation is not None):
                continue
            found = asked.explain(f"{kind}/team/{name}", None)
            if found.state not in ("does not wait", "allocated"):
                expected[kind, name] = (found.state, found.reason, found.message)
    assert {(i.kind, i.name): (i.state, i.reason, i.message) for i in report.items} == expected
