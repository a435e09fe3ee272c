"""What is wrong with objects that are not claims, and when people are told of it."""

import pytest

from dra_operator.cluster.reflector import Delta
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.object_problems import INCOMPLETE_SECONDS


def publish(name, *, pool="pool", generation=1, count=2, devices=("gpu-0",), **spec):
    """Return the difference that brings a slice."""
    found = {"name": pool, "generation": generation, "resourceSliceCount": count}
    spec = {
        "driver": "d",
        "nodeName": "n",
        "pool": found,
        "devices": [{"name": one} for one in devices],
        **spec,
    }
    body = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": name, "uid": name}, "spec": spec}
    return Delta("ResourceSlice", "", name, body)


def device_class(*expressions):
    """Return the difference that brings a class."""
    spec = {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}
    body = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu", "uid": "u"}, "spec": spec}
    return Delta("DeviceClass", "", "gpu", body)


def told(effects):
    """Return what Events say, of which object."""
    return [(effect.subject.name, effect.message) for effect in effects if isinstance(effect, EventRequest)]


def incomplete(name="a", found="1 of 2 slices of generation 1 missing"):
    """Return what is told of the pool."""
    return [(name, f"pool d/pool is incomplete: {found}")]


def test_a_pool_that_is_complete_in_a_moment_is_no_news(bench, clock):
    """Drivers publish the slices of a pool one after the other; nobody is told, then or later."""
    effects = bench.run(publish("a"))
    clock.now += 0.15
    effects += bench.run(publish("b", devices=["gpu-1"]))
    clock.now += 2 * INCOMPLETE_SECONDS
    effects += bench.run()

    assert (told(effects), bench.wake_at) == ([], None)


def test_a_pool_that_stays_incomplete_is_told_when_the_time_is_over(bench, clock):
    """Once, although nothing else happens: the pass asks to be woken."""
    started = clock.now
    assert told(bench.run(publish("a"))) == []
    assert bench.wake_at == started + INCOMPLETE_SECONDS

    clock.now = bench.wake_at
    assert told(bench.run()) == incomplete()
    assert bench.wake_at == clock.now + 1200
    assert told(bench.run()) == []


def test_a_pool_that_changes_and_is_never_complete_is_told(bench, clock):
    """A driver that begins a generation again and again gives no devices either: its time goes on."""
    bench.run(publish("a"))
    clock.now += INCOMPLETE_SECONDS - 1
    assert told(bench.run(publish("a", generation=2))) == []

    clock.now += 1
    assert told(bench.run()) == incomplete(found="1 of 2 slices of generation 2 missing")


def test_the_time_begins_again_after_a_pool_was_complete(bench, clock):
    """Each update has the whole time, also of a pool that was told of."""
    bench.run(publish("a"))
    clock.now += INCOMPLETE_SECONDS
    bench.run()
    bench.run(publish("b", devices=["gpu-1"]))
    assert told(bench.run(publish("a", generation=2))) == []

    clock.now += INCOMPLETE_SECONDS
    assert told(bench.run()) == incomplete(found="1 of 2 slices of generation 2 missing")


def test_what_time_does_not_mend_is_told_at_once(bench):
    """A pool with one name twice, and a class whose selector does not compile."""
    effects = bench.run(publish("a", count=1, devices=["gpu-0", "gpu-0"]), device_class("nonsense"))

    assert [name for name, _ in told(effects)] == ["gpu", "a"]


def labelled(value, **metadata):
    """Return the difference that brings a claim with the label that may keep the operator away."""
    metadata = {
        "namespace": "team",
        "name": "gpu",
        "uid": "u",
        "labels": {"dra-operator.io/allocate": value},
    } | metadata
    body = {"apiVersion": "resource.k8s.io/v1", "metadata": metadata, "spec": {"devices": {}}}
    return Delta("ResourceClaim", "team", "gpu", body)


def odd_labels(effects):
    """Return what is told of labels."""
    return [
        effect.message for effect in effects if isinstance(effect, EventRequest) and "label" in effect.message
    ]


@pytest.mark.parametrize("value", ["False", "no", ""])
def test_a_label_that_nobody_understands_is_told_once(bench, value):
    """Somebody wanted something by it, and it changes nothing."""
    text = f'label dra-operator.io/allocate is "{value}", neither "false" nor "true": '

    assert odd_labels(bench.run(labelled(value))) == [f"{text}the claim is allocated as without it"]
    assert odd_labels(bench.run(labelled(value, annotations={"a": "b"}))) == []
