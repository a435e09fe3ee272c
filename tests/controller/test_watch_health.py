"""What the log says of kinds that are not heard of."""

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.reflector import Counters
from dra_operator.cluster.session import Trouble
from dra_operator.controller.health import WatchHealth

AWAY, DENIED = "nobody answers", "403 Forbidden"


@dataclass
class Watch:
    """A reflector, as far as it is asked."""

    trouble: Trouble | None = None
    last_trouble: Trouble | None = None
    counters: Counters = field(default_factory=Counters)

    def fail(self, why):
        """Meet a trouble, of a sort that is its first word."""
        self.trouble = self.last_trouble = Trouble(why.split(maxsplit=1)[0], why)
        self.counters.failures += 1

    def succeed(self):
        """Be heard of again."""
        self.trouble = None


class Night:
    """Three kinds, a look at them every two seconds, and the lines that they lead to."""

    def __init__(self, clock):
        self.clock, self.health = clock, WatchHealth(clock)
        self.watches = {kind: Watch() for kind in ("Claim", "Slice", "Pod")}
        self.look()

    def look(self, seconds=2.0):
        """Look, after a time, and return what was logged: level, kinds, and why or how long."""
        self.clock.now += seconds
        with capture_logs() as logs:
            self.health.check(self.watches)
        return [
            (line["log_level"], line["kinds"], line["why"] if "why" in line else line["seconds"])
            for line in logs
        ]

    def fail(self, why, *kinds):
        """Have kinds meet a trouble."""
        for kind in kinds or self.watches:
            self.watches[kind].fail(why)

    def succeed(self, *kinds):
        """Have kinds be heard of."""
        for kind in kinds or self.watches:
            self.watches[kind].succeed()


@pytest.fixture
def night(clock):
    """All is well."""
    return Night(clock)


def test_an_outage_is_one_line_and_its_end_another(night):
    """However many kinds meet it, and whatever each of them meets on the way."""
    night.fail("the connection was cut")
    night.fail(AWAY)
    assert night.look() == [("warning", "Claim, Slice, Pod", AWAY)]

    night.fail(AWAY)
    assert night.look() == []
    night.fail(DENIED)
    assert night.look() == []
    night.succeed()
    assert night.look() == [("info", "Claim, Slice, Pod", 6)]
    assert night.look() == []


def test_troubles_of_different_sorts_are_told_apart(night):
    """What one kind has is not hidden by an outage that begins at the same moment."""
    night.fail(f"{AWAY}: claims", "Claim")
    night.fail("garbage", "Slice")
    night.fail(f"{AWAY}: pods", "Pod")

    assert night.look() == [("warning", "Claim, Pod", f"{AWAY}: claims"), ("warning", "Slice", "garbage")]
    assert night.look(1000) == []


def test_a_kind_that_is_not_watched_any_more_is_left_out(night):
    """That it is not served is told elsewhere; if it is served again, it begins anew."""
    night.fail(AWAY)
    night.look()
    night.succeed("Claim", "Slice")
    del night.watches["Pod"]
    assert night.look() == [("info", "Claim, Slice", 2)]

    night.watches["Pod"] = Watch()
    night.fail(AWAY, "Pod")
    assert night.look() == [("warning", "Pod", AWAY)]
