"""Since when claims wait, as the metric says: what an alert on waiting times goes by."""

from datetime import UTC, datetime

import pytest
from cycle_bench import writes

from cluster import allocation, claim, node
from dra_operator.allocator.decision import Failed
from dra_operator.allocator.reasons import Reason
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stored
from dra_operator.controller.claims import PodUse

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def since(bench, clock):
    """Return the seconds after noon since which somebody waits for a reason; None if nobody does."""
    started = clock.now
    bench.wall = lambda: datetime.fromtimestamp(NOON + clock.now - started, UTC)

    def read(reason):
        found = bench.metric("pending_since_timestamp_seconds", reason=reason)
        return None if found is None else found - NOON

    return read


@pytest.fixture
def wait(bench):
    """Let a claim come, wait, and get its annotation."""

    def wait(name):
        sent = writes(bench.run(bench.delta(claim(name))), "annotate")
        bench.run(*[Stored(write, {}) for write in sent])

    return wait


@pytest.fixture
def try_again(bench):
    """Let all claims that wait be decided again, and return the allocations that are to be written."""

    def try_again():
        body = node("node-2")
        body["metadata"]["resourceVersion"] = "1"
        return writes(bench.run(Delta("Node", "", body["metadata"]["name"], body)))

    return try_again


def test_each_reason_has_the_time_of_its_own_claims(bench, wait, clock, since):
    """That of the one that has waited longest of them."""
    bench.allocator.answers = dict.fromkeys(["c", "d"], Failed("fatal", "broken", Reason.SELECTOR_FAILED))
    for name in "abcd":
        wait(name)
        clock.now += 10

    assert (since("DeviceInUse"), since("SelectorFailed")) == (0, 20)


def test_a_claim_keeps_its_time_when_its_reason_changes(bench, wait, try_again, clock, since):
    """What somebody waits for is a device, whatever is in the way."""
    wait("claim")
    clock.now += 30
    bench.allocator.answers = {"claim": Failed("fatal", "broken", Reason.SELECTOR_FAILED)}
    try_again()

    assert since("DeviceInUse") is None
    assert since("SelectorFailed") == 0


@pytest.mark.parametrize(
    "taken",
    [
        lambda _: PodUse("default", "pod", frozenset({"claim"})),
        lambda bench: bench.delta(claim(labels={"dra-operator.io/allocate": "false"})),
        lambda bench: bench.delta(claim(), allocation=allocation()),
    ],
    ids=["used by a pod", "opted out", "allocated by another"],
)
def test_a_claim_that_is_given_back_has_not_waited_meanwhile(bench, wait, clock, since, taken):
    """It did not wait for us: an alert on waiting times is not about it."""
    wait("claim")
    clock.now += 30
    bench.run(taken(bench))
    assert since("DeviceInUse") is None
    clock.now += 3600
    bench.run(PodUse("default", "pod", frozenset()), bench.delta(claim()))

    assert since("DeviceInUse") == 3630


def test_how_long_an_allocation_took_is_told_also_where_the_watch_is_faster_than_the_answer(
    bench, write, clock
):
    """From when the claim was seen until the answer was here."""
    clock.now += 3.5
    bench.run(bench.delta(claim(), allocation=dict(write.allocation)))
    bench.run(Stored(write, {}))

    assert bench.metric("allocation_seconds_sum") == 3.5
