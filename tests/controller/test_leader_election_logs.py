"""What an operator says while it waits for the Lease: each state once, and again when it comes back."""

import pytest
from structlog.testing import capture_logs

from cluster import access_to
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.controller.leader_election import LeaderElection
from dra_operator.controller.settings import Settings

AWAY = ApiUnreachable("PUT leases: cut")
DENIED = ApiError(403, "Forbidden", 'User "we" cannot get resource "leases"', verb="get", resource="leases")


class Lease:
    """A Lease that is found as a test says: the holder of each time, or what keeps it from being read."""

    name, namespace, identity, uid, period = "ns/dra-operator", "ns", "we", "", 0.0

    def __init__(self, found):
        self.found, self.holder, self.error, self.won = list(found), "", None, False

    async def take(self):
        """Return whether it is ours now."""
        found = self.found.pop(0)
        self.error = found if isinstance(found, Exception) else None
        if self.error is not None:
            raise self.error
        self.holder, self.won = found, found == "we"
        return self.won


def refused(code):
    """Return a refusal."""
    return ApiError(code, "No", "no", verb="get", resource="leases")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["other", "other", "third"], ["standing by", "standing by"]),
        (["other", AWAY, AWAY, "other"], ["standing by", "API server not available", "standing by"]),
        ([AWAY, "other", AWAY], ["API server not available", "standing by", "API server not available"]),
        ([DENIED, DENIED], []),
        ([refused(404)], ["lease refused"]),
        ([refused(401)], ["API server not available"]),
        ([refused(429)], ["API server not available"]),
        ([refused(500)], ["API server not available"]),
    ],
    ids=[
        "others",
        "once away",
        "away again",
        "denied",
        "no namespace",
        "no credentials",
        "busy",
        "in trouble",
    ],
)
async def test_each_state_is_told_when_it_begins(monkeypatch, found, said):
    """Also one that was told before; but for a missing right, which others tell when it lasts."""
    monkeypatch.setattr(
        "dra_operator.controller.leader_election.Lease", lambda *_, **__: Lease([*found, "we"])
    )
    operator = LeaderElection(Settings(lease_namespace="ns"), access_to("http://api.example"), lambda _: None)
    with capture_logs() as logs:
        await operator.win(None)

    assert [line["event"] for line in logs] == [*said, "leading"]


def test_one_that_has_not_asked_yet_does_not_decide():
    """Nothing is wrong with it, and /leaderz is red."""
    operator = LeaderElection(Settings(lease_namespace="ns"), access_to("http://api.example"), lambda _: None)

    assert (operator.unready(), operator.following()) == ([], ["not connected yet"])
