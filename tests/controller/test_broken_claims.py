"""What a pass does beside deciding may break, for one claim or for all, and every other claim goes on."""

import pytest
from cycle_bench import FITS, Allocator, writes
from structlog.testing import capture_logs

from cluster import claim
from dra_operator.controller.allocation_checks import DoubleAllocationReporter
from dra_operator.controller.cycle import Tick
from dra_operator.controller.object_problems import ObjectProblems
from dra_operator.controller.write_results import ClaimWrites

FINALIZER = "resource.kubernetes.io/delete-protection"


def deleted(name):
    """A claim that is being deleted and that the finalizer of an allocation holds."""
    return claim(name, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[FINALIZER])


@pytest.fixture(autouse=True)
def breakable(bench):
    """Defects are what the tests are about."""
    bench.may_break = True


@pytest.fixture
def breaks(monkeypatch):
    """Have one step of the cycle fail for the claims named in this set."""
    names = set()

    def fail(function):
        sound = getattr(ClaimWrites, function)

        def call(self, key):
            if key[1] in names:
                raise RuntimeError("a defect")
            return sound(self, key)

        monkeypatch.setattr(ClaimWrites, function, call)
        return names

    return fail


def count(bench, place):
    """Return how many defects of a place were counted."""
    return bench.metrics.errors.labels(place)._value.get()


def test_a_claim_that_cannot_be_tidied_holds_up_nobody(bench, breaks):
    """Other deleted claims go, and those that wait are allocated, in the same pass."""
    breaks("release_unmanaged").add("bad")
    bench.allocator.answers["new"] = FITS
    with capture_logs() as logs:
        done = bench.run(bench.delta(deleted("bad")), bench.delta(deleted("good")), bench.delta(claim("new")))

    assert [write.key[1] for write in writes(done, "deallocate")] == ["good"]
    assert [write.key[1] for write in writes(done)] == ["new"]
    assert count(bench, "tidying") == 1
    assert [line["claim"] for line in logs if line["log_level"] == "error"] == ["default/bad"]


def test_a_claim_that_cannot_be_tidied_is_tried_again_later_each_time(bench, breaks, clock):
    """One traceback a wait is enough."""
    bad = breaks("release_unmanaged")
    bad.add("bad")
    bench.run(bench.delta(deleted("bad")))
    waits = []
    for _ in range(3):
        waits.append(bench.wake_at - clock.now)
        clock.now = bench.wake_at
        bench.run()
    bad.clear()
    clock.now = bench.wake_at

    assert [write.key[1] for write in writes(bench.run(), "deallocate")] == ["bad"]
    assert waits == [5, 10, 20]
    assert count(bench, "tidying") == 4


@pytest.mark.parametrize(
    ("reporter", "report"),
    [
        (ObjectProblems, "report_inventory"),
        (DoubleAllocationReporter, "report"),
        (Allocator, "refresh"),
        (ObjectProblems, "measure"),
    ],
)
def test_a_report_that_breaks_stops_no_decision(bench, clock, monkeypatch, reporter, report):
    """Claims are allocated meanwhile; the report is made again after one second, two, four, and no pass runs before."""

    def broken(_self):
        raise RuntimeError("a defect")

    sound = getattr(reporter, report)
    monkeypatch.setattr(reporter, report, broken)
    waits = []
    for number in range(3):
        bench.allocator.answers[f"claim-{number}"] = FITS
        assert len(writes(bench.run(bench.delta(claim(f"claim-{number}"))))) == 1
        bench.run(Tick())
        waits.append(bench.wake_at - clock.now)
        clock.now = bench.wake_at
    assert waits == [1, 2, 4]
    assert count(bench, "report") == 3

    monkeypatch.setattr(reporter, report, sound)
    bench.run()
    assert bench.wake_at is None or bench.wake_at > clock.now
