"""Selectors that fail on devices which were not reached, as the operator tells of them."""

from dataclasses import replace

import pytest
from cycle_bench import event_reasons, fits, writes
from structlog.testing import capture_logs

from cluster import CLASS, claim, node, resource_slice
from dra_operator.cluster.writes import Written
from dra_operator.controller import messages
from dra_operator.controller.allocation_checks import SELECTOR_PAUSE, SELECTOR_SECONDS
from dra_operator.controller.event_dedup import EventRequest

FAILS = "request gpu: selector #0 fails on 2 of 3 devices: no such key: ready"
READY = "device.attributes['gpu.example.com'].ready"


def store(bench, *names):
    """Decide some claims, and take in that their allocations are stored; return what is to be done then."""
    bench.allocator.answers = {name: fits(f"gpu-{number}") for number, name in enumerate(names)}
    sent = [write for name in names for write in writes(bench.run(bench.delta(claim(name))))]
    items = []
    for write in sent:
        items += [bench.delta(claim(write.name), allocation=dict(write.allocation)), Written(write, {})]
    return bench.run(*items)


async def test_an_event_says_on_how_many_devices_the_selector_fails(cluster, operator):
    """Beside that of the allocation, once the claim is allocated."""
    slices = [resource_slice("gpu-0", name=f"slice-{n}", on=f"node-{n}", pool=f"pool-{n}") for n in (1, 2, 3)]
    slices[0]["spec"]["devices"][0]["attributes"] = {"ready": {"bool": True}}
    cluster.put(*(node(f"node-{n}") for n in (1, 2, 3)), CLASS, *slices)
    cluster.put(claim(request={"selectors": [{"cel": {"expression": READY}}]}))

    assert await cluster.allocated() == ["gpu-0"]
    await cluster.until(lambda: "SelectorFailed" in cluster.reasons("claim"), "the warning")
    (event,) = [event for event in cluster.events("claim") if event["reason"] == "SelectorFailed"]
    assert event["type"] == "Warning"
    assert event["message"] == (
        "request gpu: selector #0 fails on 2 of 3 devices: gpu.example.com/pool-2/gpu-0: no such key: ready; "
        "this device has no attributes; guard what not every device has by has(), or by .? and orValue(); "
        f"{messages.NOT_REACHED}"
    )
    assert cluster.annotation() is None


def test_the_warning_follows_the_allocation(bench):
    """Both are told once; nothing is said while the allocation is on its way."""
    bench.allocator.failing = {"claim": [FAILS]}
    effects = store(bench, "claim")

    assert event_reasons(effects) == ["Allocated", "SelectorFailed"]
    assert event_reasons(bench.run()) == []
    assert bench.allocator.looked_at == ["claim"]


def test_a_claim_without_such_a_selector_has_no_warning(bench):
    """It was looked at."""
    assert event_reasons(store(bench, "claim")) == ["Allocated"]
    assert bench.allocator.looked_at == ["claim"]


def test_a_claim_that_is_gone_is_not_looked_at(bench):
    """Nobody reads its Events."""
    bench.allocator.failing = {"claim": [FAILS]}
    bench.allocator.answers = {"claim": fits("gpu-0")}
    (write,) = writes(bench.run(bench.delta(claim())))
    stored = bench.delta(claim(), allocation=dict(write.allocation))

    bench.run(stored, Written(write, {}), replace(stored, body=None))

    assert bench.allocator.looked_at == []


def test_it_takes_a_tenth_of_the_time_at_most(bench, clock):
    """Each pass looks at one claim at least; the pass asks to be woken for the others."""

    def slow(name):
        bench.allocator.looked_at.append(name.metadata.name)
        clock.now += 2 * SELECTOR_SECONDS
        return []

    bench.allocator.find_failing = slow
    store(bench, "a", "b")
    assert bench.allocator.looked_at == ["a"]
    assert bench.wake_at == pytest.approx(clock.now + SELECTOR_PAUSE * 2 * SELECTOR_SECONDS)

    bench.run()
    assert bench.allocator.looked_at == ["a"]
    clock.now = bench.wake_at
    bench.run()
    assert bench.allocator.looked_at == ["a", "b"]


def test_a_defect_costs_one_warning(bench, clock):
    """The other claim is looked at later, and everything else goes on."""
    bench.may_break = True
    bench.allocator.failing = {"a": ZeroDivisionError(), "b": [FAILS]}
    with capture_logs():
        effects = store(bench, "a", "b")
    assert event_reasons(effects) == ["Allocated", "Allocated"]

    clock.now = bench.wake_at
    (warning,) = [effect for effect in bench.run() if isinstance(effect, EventRequest)]
    assert warning.subject.name == "b"
