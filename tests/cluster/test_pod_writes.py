"""Writes to pods: what is sent, and what comes of each answer."""

import pytest

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import GATE, LET_GO_ANNOTATION
from dra_operator.cluster import writes
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.writes import nominate, open_gate
from dra_operator.pods.gate import read_scheduling_pod

from .script import ok, status, thing

PODS = Served(KINDS["Pod"], "v1")
PATH = "/api/v1/namespaces/ns/pods/p"
OTHER = "kueue.x-k8s.io/admission"


def pod(version=6, uid="u", *, gates=(), node=None):
    """A pod as on the wire."""
    body = thing("p", version, uid)
    body["spec"] = {"schedulingGates": [{"name": name} for name in gates]} if gates else {}
    body["status"] = {} if node is None else {"nominatedNodeName": node}
    return body


def known(gates):
    """The pod that was decided on."""
    body = pod(5, gates=gates)
    body["spec"]["resourceClaims"] = [{"name": "gpu"}]
    return read_scheduling_pod(body)


OFF = open_gate(known([GATE, OTHER]))
NOMINATED = nominate(known([GATE]), "node-1")


@pytest.fixture
def pod_desk(desk):
    """Return a writer for pods."""
    return desk(served=PODS)


@pytest.mark.parametrize(
    ("write", "sent", "answer"),
    [
        (OFF, {"spec": {"schedulingGates": [{"name": OTHER}]}}, pod(gates=[OTHER])),
        (
            open_gate(known([GATE]), "now node-1 u"),
            {
                "spec": {"schedulingGates": []},
                "metadata": {"annotations": {LET_GO_ANNOTATION: "now node-1 u"}},
            },
            pod(),
        ),
        (NOMINATED, {"status": {"nominatedNodeName": "node-1"}}, pod(node="node-1")),
        (
            nominate(known([GATE]), None),
            {"status": {"nominatedNodeName": None}},
            pod(),
        ),
    ],
    ids=["gate-off", "let-go", "nominate", "no-nomination"],
)
async def test_a_write_is_one_conditional_patch(script, pod_desk, write, sent, answer):
    """It names uid and resourceVersion of the pod that was decided on, and what changes; gates of others stay."""
    script.then(ok(answer))

    outcome = await pod_desk.result(write)

    assert outcome == writes.Stored(write, answer)
    (asked,) = script.asked
    assert (asked.method, asked.path) == ("PATCH", PATH + ("/status" if "status" in sent else ""))
    metadata = {**sent.get("metadata", {}), "uid": "u", "resourceVersion": "5"}
    assert asked.body == {**sent, "metadata": metadata}


@pytest.mark.parametrize("write", [OFF, NOMINATED])
async def test_a_pod_that_has_changed_is_a_conflict(script, pod_desk, write):
    """As it is now comes with the outcome, so that it is decided again at once."""
    changed = pod(7, gates=[GATE])
    script.then(status(409, "the object has been modified"), ok(changed))

    outcome = await pod_desk.result(write)

    assert isinstance(outcome, writes.Stale)
    assert outcome.body == changed


async def test_an_answer_that_was_lost_is_read_back(script, pod_desk):
    """The gate is off: the patch was stored, whoever said 504."""
    script.then(status(504, "timed out"), ok(pod(6, gates=[OTHER])))

    assert isinstance(await pod_desk.result(OFF), writes.Stored)
    assert [asked.method for asked in script.asked] == ["PATCH", "GET"]


@pytest.mark.parametrize(("write", "resource"), [(OFF, "pods"), (NOMINATED, "pods/status")])
async def test_a_right_that_is_missing_is_named(script, pod_desk, write, resource):
    """Verb and resource, as an administrator writes them into a role."""
    script.then(status(403, f'User "a" cannot patch resource "{resource}"', "Forbidden"))

    outcome = await pod_desk.result(write)

    assert isinstance(outcome, writes.Denied)
    assert (outcome.missing.verb, outcome.missing.resource) == ("patch", resource)


async def test_a_webhook_that_puts_the_gate_back_is_a_refusal(script, pod_desk):
    """The patch is accepted and the gate is still there: the field is named, and who may have done so."""
    script.then(ok(pod(6, gates=[GATE, OTHER])))

    outcome = await pod_desk.result(OFF)

    assert outcome == writes.Denied(
        OFF,
        "the patch of pods was accepted, but spec.schedulingGates is not as sent: "
        "a mutating webhook or admission policy changes it",
    )


async def test_a_nomination_that_is_not_kept_is_a_refusal(script, pod_desk):
    """The subresource and the field are named."""
    script.then(ok(pod(6)))

    outcome = await pod_desk.result(NOMINATED)

    assert isinstance(outcome, writes.Denied)
    assert outcome.message.startswith(
        "the patch of pods/status was accepted, but status.nominatedNodeName is not"
    )
