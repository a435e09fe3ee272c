"""What of a pod its gate and its hand-over depend on, read from the wire."""

from datetime import UTC, datetime

import pytest

from dra_operator.api.names import GATE, LET_GO_ANNOTATION
from dra_operator.pods.gate import LetGo, handed_back, let_go_mark, read_scheduling_pod

OTHER = "kueue.x-k8s.io/admission"


def pod(*entries, gates=(GATE,), status=None, name="pod", **fields):
    """A pod on the wire."""
    metadata = {"namespace": "team", "name": name, "uid": "1", "resourceVersion": "7"}
    metadata |= {"creationTimestamp": "2026-01-01T00:00:00Z", **fields.pop("metadata", {})}
    spec = {"schedulingGates": [{"name": gate} for gate in gates], "resourceClaims": list(entries), **fields}
    return {"metadata": metadata, "spec": spec, "status": status or {"phase": "Pending"}}


def test_most_pods_are_not_read():
    """A pod without claims and without our gate matters to nobody here."""
    assert read_scheduling_pod(pod(gates=())) is None
    assert read_scheduling_pod(pod(gates=(OTHER,))) is None


@pytest.mark.parametrize(
    ("gates", "is_gated", "is_last"),
    [((GATE,), True, True), ((GATE, OTHER), True, False), ((OTHER,), False, False), ((), False, False)],
    ids=["ours", "ours and another", "another", "none"],
)
def test_our_gate_is_told_from_those_of_others(gates, is_gated, is_last):
    """A pod is decided when ours is its last gate."""
    found = read_scheduling_pod(pod({"name": "a", "resourceClaimName": "a"}, gates=gates))

    assert (found.is_gated, found.is_last_gate) == (is_gated, is_last)


def test_claims_are_those_named_and_those_made():
    """An entry of a template is missing until its claim is made; one that needs no claim is not."""
    entries = [
        {"name": "named", "resourceClaimName": "mine"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "needless", "resourceClaimTemplateName": "t"},
        {"name": "late", "resourceClaimTemplateName": "t"},
    ]
    statuses = [{"name": "made", "resourceClaimName": "pod-made-x"}, {"name": "needless"}]

    found = read_scheduling_pod(pod(*entries, status={"resourceClaimStatuses": statuses}))

    assert (found.claims, found.missing) == ({"mine", "pod-made-x"}, {"late"})


@pytest.mark.parametrize(
    "fields",
    [
        {"status": {"phase": "Failed"}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"nodeName": "n1"},
        {"gates": (OTHER,)},
    ],
    ids=["finished", "being deleted", "has a node", "without our gate"],
)
def test_pod_that_is_not_to_be_decided(fields):
    """Only an active pod that our gate holds is ours."""
    entry = {"name": "a", "resourceClaimName": "a"}

    assert read_scheduling_pod(pod(entry)).is_ours
    assert not read_scheduling_pod(pod(entry, **fields)).is_ours


def test_scheduler_that_found_no_node_is_recognized():
    """The condition PodScheduled of a gated pod has another reason."""
    entry = {"name": "a", "resourceClaimName": "a"}
    conditions = {
        (status, reason): [{"type": "PodScheduled", "status": status, "reason": reason, "message": "0/3"}]
        for status, reason in (
            ("False", "Unschedulable"),
            ("False", "SchedulingGated"),
            ("False", "SchedulerError"),
            ("True", ""),
        )
    }

    found = {
        each: read_scheduling_pod(pod(entry, status={"conditions": given})).unschedulable
        for each, given in conditions.items()
    }

    assert found.pop(("False", "Unschedulable")) == "0/3"
    assert {*found.values()} == {None}


def test_what_cannot_be_read_counts_as_absent():
    """A slip in one field hides neither the pod nor its gate."""
    found = read_scheduling_pod(pod({"name": "a", "resourceClaimName": 7}, priority="x"))

    assert found.is_gated
    assert (found.claims, found.priority) == (frozenset(), 0)


def let_go(mark):
    """Return what is read of a pod with that annotation, whose uid is 1."""
    body = pod(
        {"name": "a", "resourceClaimName": "a"}, gates=(), metadata={"annotations": {LET_GO_ANNOTATION: mark}}
    )
    return read_scheduling_pod(body).let_go


def test_pod_that_was_let_go_says_so_itself():
    """Whoever comes after knows for which node, and since when."""
    time = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)

    assert let_go(let_go_mark(time, "n1", "1")) == LetGo("n1", time.timestamp())


@pytest.mark.parametrize(
    "mark",
    [
        "2026-01-01T12:00:00Z n1 2",
        "",
        "n1 1",
        "soon n1 1",
        "0001-01-01T00:00:00 n1 1",
        "2026-01-01T12:00:00Z n1 1 2",
    ],
    ids=[
        "of the pod that it is a copy of",
        "empty",
        "no time",
        "no such time",
        "before all time",
        "too much",
    ],
)
def test_mark_that_is_not_of_this_pod_counts_for_nothing(mark):
    """Anybody may write it, and copies of a pod have it."""
    assert let_go(mark) is None


@pytest.mark.parametrize(
    ("why", "is_told"),
    [
        ("2 Insufficient cpu.", False),
        ("1 node(s) didn't match Pod's node affinity/selector.", False),
        ("1 node(s) didn't match pod anti-affinity rules.", True),
        ("1 node(s) didn't satisfy existing pods anti-affinity rules.", True),
        ("1 node(s) didn't match pod affinity rules.", True),
        ("1 node(s) didn't match pod topology spread constraints.", True),
    ],
)
def test_new_pod_that_would_go_to_the_same_node_is_told_of(why, is_told):
    """What is not looked at keeps the next pod from that node as well."""
    found = handed_back(
        f"{why} preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.", "n1"
    )

    assert "preemption" not in found
    assert found.startswith(f"handed back: {why.rstrip('.')};")
    assert found.endswith("; delete the pod to try again")
    assert ("a new pod goes to node n1 again" in found) is is_told
