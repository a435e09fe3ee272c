"""The queue of gated pods: which are tried, in which order, and when again."""

import pytest

from dra_operator.api.names import GATE
from dra_operator.controller.queue import AGAIN_SECONDS, PodQueue, Timers
from dra_operator.pods.gate import read_scheduling_pod


def pod(name, namespace="a", **spec):
    """A gated pod."""
    body = {
        "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"schedulingGates": [{"name": GATE}], **spec},
    }
    return read_scheduling_pod(body)


@pytest.fixture
def timers():
    """Timers of a queue."""
    return Timers()


@pytest.fixture
def queue(clock, timers):
    """A queue."""
    return PodQueue(clock, timers)


def begin(queue, *pods):
    """Begin a cycle over some pods; return the names of those to be tried."""
    return [each.name for each in queue.begin_cycle({each.key: each for each in pods}.get)]


def test_priority_comes_before_the_name(queue):
    """All active pods are tried, the highest priority first."""
    pods = [pod("a"), pod("b", priority=5)]
    queue.activate([each.key for each in pods])

    assert begin(queue, *pods) == ["b", "a"]


def test_pod_that_backs_off_is_not_tried(queue, clock):
    """Nor is one that is gone."""
    held, gone = pod("held"), pod("gone")
    queue.activate([held.key, gone.key])
    queue.backoff.add(held.key, held.uid, 5.0, 5.0)

    assert begin(queue, held) == []


def test_namespace_that_took_time_goes_last_in_the_middle_of_a_round(queue):
    """Many pods of one namespace do not hold up the one of another."""
    pods = [pod(f"p{number}") for number in range(3)]
    other = pod("z", "z")
    queue.activate([each.key for each in (*pods, other)])
    assert begin(queue, *pods, other)[0] == "p0"
    queue.active.start(pods[0].key)
    queue.charge(pods[0].key, 5.0)

    assert begin(queue, *pods, other) == ["z", "p1", "p2"]


def test_pods_without_room_are_tried_again_a_while_after_nodes_changed(queue, clock, timers):
    """A change of nodes and pods does not have all of them tried at once, and the wait grows with what they take."""
    waiting = pod("a")
    queue.activate([waiting.key])
    begin(queue, waiting)
    queue.active.start(waiting.key)
    queue.set_unschedulable(waiting.key)
    queue.charge(waiting.key, 2.0)
    queue.active.end_cycle()
    queue.observe("another state")
    due = timers.next_due()
    assert begin(queue, waiting) == []

    clock.now = due
    queue.observe("another state")

    assert due >= clock.now - 20.0 + AGAIN_SECONDS
    assert begin(queue, waiting) == ["a"]


def test_device_that_is_free_again_has_all_tried_at_once(queue):
    """What is known to help is not waited for."""
    waiting = pod("a")
    queue.set_unschedulable(waiting.key)

    queue.activate_all()

    assert begin(queue, waiting) == ["a"]
