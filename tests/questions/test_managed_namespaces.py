"""Managed namespaces: what is asked about is decided as the policy would have it, and that is said."""

import pytest

from factories import manifest, taint_rule
from small_cluster import cluster, pod, template

OWN_N1 = taint_rule(
    "own", {"driver": "gpu.example.com", "pool": "n1"}, key="dra-operator.io/owned", effect="NoSchedule"
)
OWN_ALL = taint_rule("own", {"driver": "gpu.example.com"}, key="dra-operator.io/owned", effect="NoSchedule")


MANAGED = manifest("Namespace", "team", labels={"dra-operator.io/claims": "managed"})
PLAIN = manifest("Namespace", "team")
JOB = manifest(
    "Job", "job", {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}, namespace="team"
)
SUBJECTS = {"pod": [pod()], "job": [JOB], "template": "template/team/gpu"}
SAID = "namespace team is managed"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_a_managed_namespace_has_is_decided_by_the_operator(subject):
    """It gets the devices that are owned, and no others; in an ordinary namespace it is the other way round."""
    managed, plain = (cluster(OWN_N1, template(), each) for each in (MANAGED, PLAIN))
    asked = SUBJECTS[subject]

    for state, node, is_said in ((managed, "n1", True), (plain, "n2", False)):
        explained, fit, headroom = state.explain(asked), state.fit(asked), state.headroom(asked)
        assert explained.node == node
        assert [each.node for each in fit.nodes] == [node]
        assert [(each.node, each.copies) for each in headroom.nodes] == [(node, 2)]
        for answer in (explained, fit, headroom):
            assert any(SAID in line for line in answer.assumed) == is_said


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulerName": "other"},
        {"nodeName": "n2"},
        {"schedulingGates": [{"name": "dra-operator.io/allocation"}]},
    ],
    ids=["another scheduler", "a node", "the gate already"],
)
def test_pod_that_the_policy_passes_over_is_decided_as_it_is(spec):
    """Of another scheduler, with a node, or with the gate already."""
    answer = cluster(OWN_N1, template(), MANAGED).explain([pod(**spec)])

    assert answer.assumed == ()
    assert answer.node == ("n1" if "schedulingGates" in spec else "n2")


def test_pod_of_the_cluster_is_not_gated_anymore():
    """The policy is for new ones: this one came before the label."""
    old = pod(uid="train", entries=[{"name": "gpu", "resourceClaimName": "waits"}])

    assert cluster(OWN_N1, MANAGED, old).explain("pod/team/train").assumed == ()


def test_simulate_decides_as_the_policy_would():
    """Pods of files get their devices from the operator; gated ones as well, whatever the namespace."""
    gated = pod("gated", schedulingGates=[{"name": "dra-operator.io/allocation"}])
    for bodies, expected in (
        ([MANAGED, pod()], {"n1"}),
        ([PLAIN, pod()], {"n2"}),
        ([PLAIN, gated], {"n1"}),
    ):
        answer = cluster(OWN_N1, template(), *bodies).allocate()
        assert {each.node for each in answer.claims} == expected
    full = cluster(OWN_N1, template(3), MANAGED, pod()).allocate()
    assert [each.reason for each in full.claims] == ["NotEnoughDevices"]


def test_class_whose_devices_are_all_owned_is_asked_as_a_standalone_claim():
    """Nobody but the operator has room for it; of one with other devices kube-scheduler's are counted."""
    whole, part = cluster(OWN_ALL), cluster(OWN_N1)

    assert (whole.headroom("class/gpu").more, part.headroom("class/gpu").more) == (4, 2)
    assert any("owns all devices of the class" in line for line in whole.fit("class/gpu").assumed)
    assert part.headroom("class/gpu").assumed == ()
