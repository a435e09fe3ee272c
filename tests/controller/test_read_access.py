"""What is told of rights that the operator itself lacks."""

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.events import Subject
from dra_operator.cluster.session import ApiError
from dra_operator.controller.health import LASTING_SECONDS, ReadAccess

ITSELF = Subject("Pod", "dra-operator", "dra-operator-0")
REFRESH = 1200.0


def denied(verb="watch", resource="nodes"):
    """A refusal of the authorizer."""
    return ApiError(403, "Forbidden", "no", verb=verb, resource=resource)


class Rights:
    """What is denied, looked at every two seconds, and what is told of it."""

    def __init__(self, clock):
        self.clock, self.recorded, self.logged = clock, [], []
        self.access = ReadAccess(ITSELF, self.recorded.append, REFRESH, clock)

    def look(self, seconds=2.0, unanswered=(), **errors):
        """Look, after a time, at what is denied by kind."""
        self.clock.now += seconds
        with capture_logs() as logs:
            self.access.check(errors, set(unanswered))
        self.logged += [(line["event"], line["verb"], line["resource"]) for line in logs]

    @property
    def messages(self):
        """What the Events said."""
        return [notice.message for notice in self.recorded]


@pytest.fixture
def rights(clock, monkeypatch):
    """Nothing is denied, and a right has to be missing as long as it is outside of tests."""
    monkeypatch.setattr("dra_operator.controller.health.LASTING_SECONDS", LASTING_SECONDS)
    return Rights(clock)


def test_what_an_api_server_denies_until_it_has_read_its_roles_is_not_told(rights):
    """Whoever reads the log in the morning would look for a role that was there all the time."""
    rights.look(Node=denied(), Lease=denied("update", "leases"))
    rights.look(Node=denied(), Lease=None)
    rights.look(Node=None, Lease=None)
    rights.look(Node=denied(), Lease=denied("update", "leases"))

    assert (rights.logged, rights.messages) == ([], [])


def test_right_that_stays_away_is_told_once_by_log_and_event(rights):
    """With verb and resource, however often it is looked at."""
    for _ in range(5):
        rights.look(LASTING_SECONDS, Node=denied())

    assert rights.logged == [("forbidden", "watch", "nodes")]
    assert rights.messages == ["not permitted to watch nodes: no"]
    assert rights.recorded[0].subject == ITSELF


def test_event_of_a_missing_right_is_repeated(rights):
    """The API server forgets Events after an hour."""
    rights.look(Node=denied())
    rights.look(LASTING_SECONDS, Node=denied())
    rights.look(REFRESH, Node=denied())

    assert (len(rights.logged), len(rights.messages)) == (1, 2)


def test_a_right_that_was_granted_is_told_no_more(rights):
    """Neither by the Event that was to be repeated; and if it is missing again, that is told anew."""
    rights.look(Node=denied())
    rights.look(LASTING_SECONDS, Node=denied())
    rights.look(Node=None)
    rights.look(REFRESH, Node=None)
    assert rights.logged == [("forbidden", "watch", "nodes"), ("permitted again", "watch", "nodes")]
    assert len(rights.messages) == 1

    rights.look(Node=denied())
    rights.look(LASTING_SECONDS, Node=denied())
    assert (len(rights.logged), len(rights.messages)) == (3, 2)


async def test_an_api_server_in_trouble_permits_nothing(cluster, operator):
    """A 503 says nothing of the right that it denied before."""
    denial = cluster.server.faults.answer(403, times=None, verb="watch", kind="Node")
    with capture_logs() as logs:

        def told():
            return [line["event"] for line in logs if line.get("resource") == "nodes"]

        cluster.server.faults.cut_watches("Node")
        await cluster.until(told, "the refusal")
        denial.times, trouble = 0, cluster.server.faults.answer(503, times=None, verb="watch", kind="Node")
        await cluster.until(lambda: trouble.met, "the trouble")
        await cluster.stays(lambda: told() == ["forbidden"])

        trouble.times = 0
        await cluster.until(lambda: told() == ["forbidden", "permitted again"], "the grant", 10)
