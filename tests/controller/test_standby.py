"""What an operator that stands by knows of its rights, and when it asks."""

import asyncio
import contextlib

import pytest

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.controller.leader_election import AGAIN_SECONDS, RETRY_SECONDS, StandbyAccess

NOT_YET = ["not known yet what this operator is permitted to list"]


def denied(verb, resource):
    """The authorizer's refusal."""
    text = f'{resource} is forbidden: User "x" cannot {verb} resource "{resource}"'
    return ApiError(403, "Forbidden", text, verb=verb, resource=resource)


class Session:
    """An API server that serves Nodes and Pods; `troubles` says what a request raises, by verb and plural."""

    def __init__(self):
        self.asked = []
        self.troubles = {}

    def _ask(self, verb, plural):
        self.asked.append((verb, plural))
        if error := self.troubles.get((verb, plural)):
            raise error

    async def request(self, _method, path, *, params=None, timeout=60):  # noqa: ASYNC109 - as the session has it
        """Answer discovery, and lists of one object."""
        if params is None:
            self._ask("discover", path)
            return {"resources": [{"name": "nodes"}, {"name": "pods"}]}
        assert (params, timeout) == ({"limit": "1"}, 20)
        self._ask("list", path.rpartition("/")[2])
        return {"metadata": {"resourceVersion": "7"}, "items": []}

    @contextlib.asynccontextmanager
    async def stream(self, path, *, params, idle_timeout):
        """Answer a watch that goes on where the list was."""
        assert (params["resourceVersion"], idle_timeout) == ("7", 20)
        self._ask("watch", path.rpartition("/")[2])
        yield


@pytest.fixture
def session():
    """An API server that permits everything."""
    return Session()


@pytest.fixture
def now():
    """A clock that a test sets."""
    return [7000.0]


@pytest.fixture
def standby(now):
    """An operator that wants to read Nodes and Pods."""
    return StandbyAccess({name: KINDS[name] for name in ("Node", "Pod")}, lambda: now[0])


async def test_what_was_not_asked_yet_is_not_taken_for_granted(standby, session):
    """Nobody relies on an operator of which nothing is known, and everybody on one that may do all."""
    assert standby.reasons() == NOT_YET

    await standby.check(session)

    assert standby.reasons() == []
    assert session.asked[1:] == [("list", "nodes"), ("watch", "nodes"), ("list", "pods"), ("watch", "pods")]


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_each_right_that_is_missing_has_a_line(standby, session, verb):
    """And what is asked after it is asked all the same."""
    session.troubles[verb, "nodes"] = denied(verb, "nodes")
    session.troubles[verb, "pods"] = denied(verb, "pods")

    await standby.check(session)

    assert [text.partition(": ")[0] for text in standby.reasons()] == [
        f"not permitted to {verb} nodes",
        f"not permitted to {verb} pods",
    ]


@pytest.mark.parametrize(
    ("trouble", "pause"),
    [(None, AGAIN_SECONDS), (denied("list", "pods"), RETRY_SECONDS)],
    ids=["well", "denied"],
)
async def test_is_asked_again_after_a_pause(standby, session, now, trouble, pause):
    """A long one where all is well, and a short one where a right is missing."""
    session.troubles["list", "pods"] = trouble
    await standby.check(session)
    once = len(session.asked)

    now[0] += pause - 1
    await standby.check(session)
    assert len(session.asked) == once
    now[0] += 1
    session.troubles.clear()
    await standby.check(session)

    assert len(session.asked) > once
    assert standby.reasons() == []


@pytest.mark.parametrize(
    "trouble",
    [ApiUnreachable("no answer in time"), ApiError(503, "Unavailable", "later")],
    ids=["silent", "busy"],
)
async def test_trouble_that_is_no_refusal_changes_nothing_that_is_known(standby, session, now, trouble):
    """Before the first answer it is the reason; afterwards whoever holds the Lease says that there is trouble."""
    session.troubles["watch", "nodes"] = trouble
    await standby.check(session)
    assert standby.reasons() == [f"API server: {trouble}"]

    session.troubles.clear()
    now[0] += RETRY_SECONDS
    await standby.check(session)
    session.troubles["watch", "nodes"] = trouble
    now[0] += AGAIN_SECONDS
    await standby.check(session)

    assert standby.reasons() == []


async def test_slow_answers_are_not_waited_for(standby, session, monkeypatch):
    """Not for long, however each of them is in time: there is more to look after."""

    async def stall(*_args, **_options):
        await asyncio.sleep(0.03)
        return {"resources": [{"name": "nodes"}, {"name": "pods"}]}

    monkeypatch.setattr("dra_operator.controller.leader_election.ANSWERS_SECONDS", 0.05)
    monkeypatch.setattr(session, "request", stall)

    await standby.check(session)

    assert standby.reasons() == ["API server: no answer in 0.05 s to what this operator is permitted to list"]


async def test_one_that_decides_knows_better(standby, session):
    """What was refused while it stood by is forgotten when it takes over."""
    session.troubles["list", "pods"] = denied("list", "pods")
    await standby.check(session)

    standby.end()

    assert standby.forbidden == {}


async def test_a_look_that_ends_too_late_says_nothing(standby, session):
    """Who has taken over meanwhile asks by itself."""
    session.troubles["list", "pods"] = denied("list", "pods")
    standby.end()

    await standby.check(session)

    assert standby.forbidden == {}


async def test_what_is_no_list_is_trouble(standby, session, monkeypatch):
    """Something between may answer with anything, and the process goes on."""

    async def answer(_method, path, **_options):
        return {"resources": [{"name": "nodes"}]} if path.count("/") == 2 else {"hello": 1}

    monkeypatch.setattr(session, "request", answer)

    await standby.check(session)

    assert standby.reasons() == [
        'API server: GET /api/v1/nodes: the answer is no list of objects, but {"hello": 1}'
    ]
