"""What nobody knows of a write: the device stays taken until somebody knows, and no longer than that takes."""

from concurrent.futures import Future

import pytest
from cycle_bench import FITS, KEY

from cluster import claim, pod
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.cluster.writes import Unclear
from dra_operator.controller.claims import PodUse
from dra_operator.controller.cycle import Tick
from dra_operator.controller.object_problems import ObjectProblems
from dra_operator.kinds.world import Inquiry

UNREAD = ApiError(403, "Forbidden", "no", verb="get", resource="resourceclaims")
UNCLEAR = pytest.mark.parametrize(
    "outcome",
    [Unclear, lambda write: Unclear(write, UNREAD)],
    ids=["stopped", "not to be read back"],
)


@UNCLEAR
def test_an_unknown_outcome_keeps_its_device(bench, write, clock, outcome):
    """Until somebody knows better the device counts as taken; then the claim is decided anew."""
    bench.run(outcome(write))
    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {KEY}

    clock.now += 16
    bench.run()
    assert bench.allocator.asked == ["claim", "claim"]


@UNCLEAR
def test_a_device_of_an_unknown_outcome_is_nobodys_while_nothing_is_heard_of_claims(
    bench, write, clock, outcome
):
    """It may be stored, and whoever is told of no claim any more would learn of that too late."""
    bench.heard -= {"ResourceClaim"}
    bench.allocator.answers = {}
    bench.run(outcome(write), bench.delta(claim("other")))
    for _ in range(5):
        clock.now += 16
        bench.run(Tick())
    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {KEY}

    bench.heard |= {"ResourceClaim"}
    bench.allocator.answers = {"other": FITS}
    clock.now = bench.wake_at
    bench.run()
    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {("default", "other")}


def test_a_device_of_an_unknown_outcome_is_nobodys_when_claims_are_heard_of_again_during_a_pass(
    bench, write, clock
):
    """What was missed is told after the items that this pass takes in."""
    bench.heard -= {"ResourceClaim"}
    bench.run(Unclear(write))
    clock.now += 16

    def items():
        yield bench.delta(claim("other"))
        bench.heard |= {"ResourceClaim"}

    bench.allocator.answers = {"other": FITS}
    bench.cycle.run(items(), lambda _: None, lambda: False)

    assert KEY in bench.ledger.holders(("d", "p"), ["gpu-0"])


def test_a_device_of_an_unknown_outcome_is_nobodys_when_its_time_is_over_during_a_pass(
    bench, write, clock, monkeypatch
):
    """The claim is not decided, and gives nothing back, before somebody has asked whether claims are heard of."""
    bench.heard -= {"ResourceClaim"}
    bench.run(Unclear(write))
    clock.now += 14.5
    monkeypatch.setattr(ObjectProblems, "report_inventory", lambda _: setattr(clock, "now", clock.now + 1))
    bench.allocator.answers = {}
    bench.run(Tick())

    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {KEY}


async def test_claims_are_not_heard_of_before_a_watch_that_is_open_again_has_caught_up(
    cluster, operator, monkeypatch
):
    """It is accepted first, and tells what was missed after that."""
    monkeypatch.setattr("dra_operator.controller.manager.CATCHING_UP_SECONDS", 60)
    hears, claims = operator.manager._is_up_to_date, operator.manager._reflectors["ResourceClaim"]
    claims.well_since -= 60
    assert hears("ResourceClaim")
    cluster.server.faults.answer(503, times=1, verb="watch", kind="ResourceClaim")
    cluster.server.faults.cut_watches("ResourceClaim")
    await cluster.until(lambda: claims.counters.failures and claims.trouble is None)
    assert not hears("ResourceClaim")

    monkeypatch.setattr("dra_operator.controller.manager.CATCHING_UP_SECONDS", 0)
    assert hears("ResourceClaim")


def test_a_device_of_an_unknown_outcome_is_tried_for_when_the_time_is_over(bench, write, clock):
    """Also where the claim itself, decided anew, does not take it again."""
    bench.run(Unclear(write), bench.delta(claim("other")))
    bench.allocator.answers = {"other": FITS}
    clock.now += 16
    bench.run()

    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {("default", "other")}


def test_an_unknown_outcome_for_a_claim_that_a_pod_took_ends_with_its_wait(bench, write, clock):
    """The device is not held for ever for a claim that is never decided again; whoever waits is tried."""
    bench.run(Unclear(write), bench.delta(claim("other")))
    bench.run(PodUse("default", "pod", frozenset({"claim"})))
    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {KEY}
    clock.now += 16
    bench.run()

    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == set()
    assert bench.allocator.asked.count("other") == 2


async def test_a_device_is_nobodys_while_nobody_may_be_told_whether_its_claim_has_it(
    cluster, operator, gpu, monkeypatch
):
    """The answer is lost with the rights to read claims, and the claim is a pod's by then: it is not decided again."""
    monkeypatch.setattr("dra_operator.cluster.delivery.UNCHANGED_SECONDS", 0.05)
    for place in ("write_results.UNCLEAR", "cycle.UNHEARD"):
        monkeypatch.setattr(f"dra_operator.controller.{place}", (0.05, 0.1))
    faults = cluster.server.faults
    for verb in ("get", "list", "watch"):
        faults.answer(403, times=None, verb=verb, kind="ResourceClaim")
    sent = faults.delay(0.1, verb="patch", kind="ResourceClaim", subresource="status", times=1)
    faults.lose_answer(verb="patch", kind="ResourceClaim", subresource="status")
    cluster.put(claim("first"), claim("second"))
    await cluster.until(lambda: sent.met)
    faults.cut_watches("ResourceClaim")
    cluster.put(pod(uses="first"))
    await cluster.allocated("first")
    forbidden = operator.manager.metrics.writes.labels("allocate", "unknown")
    await cluster.until(forbidden._value.get)
    await cluster.stays(lambda: not cluster.devices("second"))
    faults.clear()

    await cluster.stays(lambda: not cluster.devices("second"))


@pytest.mark.parametrize("is_heard", [True, False])
def test_nobody_is_told_who_holds_devices_while_nothing_is_heard_of_claims(bench, is_heard):
    """A device without a known holder may have one that was not told."""
    bench.heard -= set() if is_heard else {"ResourceClaim"}
    inquiry = Inquiry(lambda state: len(state.ledger.holders(("d", "p"), ["gpu-0"])), Future())
    bench.run(inquiry)

    if is_heard:
        assert inquiry.future.result(0) == 0
    else:
        assert isinstance(inquiry.future.exception(0), ApiUnreachable)
