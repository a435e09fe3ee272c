"""Why gated pods wait."""

from types import SimpleNamespace

import pytest

from dra_operator.allocator.decision import Failed
from dra_operator.allocator.reasons import Reason
from dra_operator.controller.facts import PendingReason
from dra_operator.controller.waiting_pods import PodReasons
from dra_operator.pods.pod_decision import PodDecider
from pod_world import NAMESPACE, PodWorld, claim, device_class, named, node, pod, resource_slice

GATED = {"schedulingGates": [{"name": "dra-operator.io/allocation"}]}
WORLD = (device_class(), node("n1"), resource_slice("n1", "gpu-0"))


def explain(world, *, trouble=None, has_lost=False, others=False):
    """Return why the pod p waits: one with the gate was tried in vain, one without was let go."""
    pods = SimpleNamespace(
        trouble=lambda _key: trouble,
        is_waiting=lambda _key: True,
        has_lost_devices=lambda _key: has_lost,
    )
    gangs = SimpleNamespace(find=lambda _key: None, explain=lambda _key: None)
    reasons = PodReasons(world.cluster, world.explainer, others, gangs, pods, world.decider)
    if (waiting := reasons.find((NAMESPACE, "p"))) is None:
        return None
    return reasons.explain(waiting)


def test_pod_that_was_tried_is_not_tried_again_to_explain_it(monkeypatch):
    """A search has ten seconds, for each of thousands of pods; an explanation has less, and is shared by like pods."""
    monkeypatch.setattr(PodDecider, "find_node", lambda *_: pytest.fail("it was tried again"))
    world = PodWorld(*WORLD, claim("c"), claim("d"), pod("p", named("a", "c"), named("b", "d"), **GATED))

    assert explain(world).reason == "ClaimsDoNotFitTogether"


def test_nothing_is_said_of_a_pod_that_fits_by_now():
    """Devices have come back since it was tried; it is tried again soon."""
    assert explain(PodWorld(*WORLD, claim("c"), pod("p", named("a", "c"), **GATED))) is None


def test_search_that_was_given_up_is_the_reason(monkeypatch):
    """Nothing else is known then of a pod whose claims fit by themselves."""
    aborted = Failed("aborted", "the search was given up", Reason.SEARCH_ABORTED)
    monkeypatch.setattr(PodDecider, "find_node", lambda *_: aborted)
    found = explain(PodWorld(*WORLD, claim("c"), pod("p", named("a", "c"), **GATED)))

    assert (found.reason, found.message) == ("SearchAborted", "the search was given up")


@pytest.mark.parametrize("others", [False, True], ids=["ours", "all"])
def test_pod_that_was_handed_back_is_told_so_and_its_claims(others):
    """Whatever is told of pods of others: these devices are not what it waits for."""
    world = PodWorld(*WORLD, claim("c"), pod("p", named("a", "c")))
    found = explain(world, trouble=PendingReason("HandedBack", "handed back: no"), others=others)

    assert (found.reason, found.message) == ("HandedBack", "handed back: no")
    assert found.claims == {"a": "handed back: no"}


@pytest.mark.parametrize(("has_lost", "reason"), [(True, None), (False, "NotScheduled")])
def test_nothing_is_said_of_a_pod_that_lost_its_devices_just_now(has_lost, reason):
    """What it would get is not its reason; of another pod without a gate it is."""
    world = PodWorld(*WORLD, claim("c"), pod("p", named("a", "c")))
    found = explain(world, has_lost=has_lost, others=True)

    assert (found and found.reason) == reason
    assert explain(world, has_lost=has_lost) is None
