"""Who is decided again since others have taken devices, and when."""

from dataclasses import replace

import pytest
from cycle_bench import FITS, Unsatisfied, fits

from cluster import claim
from dra_operator.allocator import Failed, Reason
from dra_operator.cluster.reflector import Delta
from dra_operator.controller import queue
from dra_operator.controller.queue import ALL_SECONDS, FAILED_SECONDS

FAILED = Failed("fatal", "no such key", Reason.SELECTOR_FAILED, ("default", "failed"), "gpu")


@pytest.fixture
def waiting(bench):
    """Two claims that wait, one for devices, one because of an error; what was asked before is forgotten."""
    bench.allocator.answers = {"failed": FAILED, "full": Unsatisfied(), "taker": FITS}
    bench.run(bench.delta(claim("failed")), bench.delta(claim("full")))
    bench.allocator.asked.clear()
    return bench


def test_what_failed_is_decided_soon_after_something_was_taken(waiting, clock):
    """The device on which it failed may be the one that is in use now."""
    waiting.run(waiting.delta(claim("taker")))
    assert waiting.allocator.asked == ["taker"]
    assert waiting.wake_at == clock.now + FAILED_SECONDS

    clock.now += FAILED_SECONDS
    waiting.run()

    assert waiting.allocator.asked == ["taker", "failed"]


def test_of_many_that_failed_a_few_are_decided_at_once(bench, clock, monkeypatch):
    """In turn, one batch after something was taken: thousands would slow down whoever fits. None of it is put off."""
    monkeypatch.setattr(queue, "FAILED_AT_ONCE", 2)
    names = ["a", "b", "c"]
    bench.allocator.answers = dict.fromkeys(names, FAILED) | {"taker": fits("gpu-0"), "other": fits("gpu-1")}
    bench.allocator.answers["aborted"] = replace(FAILED, kind="aborted")
    bench.run(*(bench.delta(claim(name)) for name in ["aborted", *names]))
    asked = []
    for taker in ("taker", "other"):
        bench.run(bench.delta(claim(taker)))
        bench.allocator.asked.clear()
        for _ in range(2):
            clock.now += FAILED_SECONDS
            bench.run()
        asked.append(bench.allocator.asked[:])

    assert asked == [["a", "b"], ["a", "c"]]


def test_all_that_wait_are_decided_in_the_end(waiting, clock):
    """So people are told how many devices are in use now; once, and nothing more is due until something is taken."""
    waiting.run(waiting.delta(claim("taker")))
    clock.now += ALL_SECONDS
    waiting.run()
    assert sorted(waiting.allocator.asked) == ["failed", "full", "taker"]

    clock.now += ALL_SECONDS
    waiting.run()

    assert len(waiting.allocator.asked) == 3


def test_a_claim_that_was_decided_with_all_others_need_not_be_again(waiting, clock):
    """What came back has had everybody decided, by what is in use now."""
    waiting.run(waiting.delta(claim("taker")))
    waiting.run(waiting.delta(claim("other")), Delta("ResourceClaim", "default", "taker", None))
    asked = list(waiting.allocator.asked)

    clock.now += ALL_SECONDS
    waiting.run()

    assert waiting.allocator.asked == asked


@pytest.mark.parametrize(("seconds", "name"), [(FAILED_SECONDS, "failed"), (ALL_SECONDS, "full")])
def test_what_else_is_taken_meanwhile_puts_nobody_off(waiting, clock, seconds, name):
    """Somebody may take something each moment."""
    waiting.allocator.answers["other"] = fits("gpu-1")
    waiting.run(waiting.delta(claim("taker")))
    clock.now += seconds / 2
    waiting.run(waiting.delta(claim("other")))
    assert waiting.allocator.asked.count(name) == 0

    clock.now += seconds / 2
    waiting.run()

    assert waiting.allocator.asked.count(name) == 1


def test_what_fails_no_more_is_not_decided_soon(waiting, clock):
    """It waits for devices now, like others, or is gone."""
    waiting.allocator.answers["failed"] = Unsatisfied()
    waiting.run(waiting.delta(claim("failed", labels={"new": "label"})))
    waiting.run(waiting.delta(claim("taker")))
    assert waiting.wake_at == clock.now + ALL_SECONDS


def test_what_failed_and_is_gone_wakes_nobody(waiting, clock):
    """It is nothing to those that still wait."""
    waiting.run(Delta("ResourceClaim", "default", "failed", None), waiting.delta(claim("taker")))

    assert waiting.wake_at == clock.now + ALL_SECONDS
