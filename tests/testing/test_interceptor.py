"""Faults on demand: each switch does to clients what it says, to the requests it is for, as often as it says."""

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from dra_operator.testing.interceptor import RequestInfo
from faulty_server import Effect, Faults

from .conftest import CLAIMS, Api
from .steps import claim

BROKEN = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)


@pytest.mark.parametrize(
    ("wanted", "applies"),
    [
        ({}, True),
        ({"verb": "patch"}, True),
        ({"verb": "get"}, False),
        ({"kind": "ResourceClaim"}, True),
        ({"kind": "Node"}, False),
        ({"subresource": "status"}, True),
        ({"subresource": ""}, False),
        ({"name": "a"}, True),
        ({"name": "b"}, False),
        ({"verb": "patch", "kind": "ResourceClaim", "subresource": "status", "name": "a"}, True),
    ],
)
def test_a_fault_is_for_the_requests_it_names(wanted: dict[str, Any], applies: bool) -> None:  # noqa: FBT001
    """Verb, kind, subresource and name each narrow it down; what is not named is any."""
    faults = Faults()
    faults.answer(503, **wanted)

    taken = faults.first(Effect.ANSWER, RequestInfo("patch", "ResourceClaim", "status", "a"))

    assert (taken is not None) is applies


def test_faults_are_used_up_in_order() -> None:
    """The first that applies is taken until its times are over, then the next."""
    faults = Faults()
    faults.answer(503, times=2)
    faults.answer(429)

    taken = [faults.first(Effect.ANSWER, RequestInfo("get", "Node")) for _ in range(4)]

    assert [fault.code if fault else None for fault in taken] == [503, 503, 429, None]


async def test_an_answer_fault_answers_and_does_nothing(api: Api) -> None:
    """The client gets the Status with Retry-After, and nothing was stored."""
    fault = api.server.faults.answer(429, verb="create", kind="ResourceClaim", retry_after=7)

    answer = await api.send("POST", CLAIMS, claim("a"))

    assert (answer.status, answer.body["reason"], answer.headers["Retry-After"]) == (
        429,
        "TooManyRequests",
        "7",
    )
    assert answer.body["details"] == {"retryAfterSeconds": 7}
    assert (fault.met, api.server.get("ResourceClaim", "a", "default")) == (1, None)


async def test_a_lost_answer_was_done(api: Api) -> None:
    """The connection breaks after the write is stored."""
    api.server.faults.lose_answer(verb="create")

    with pytest.raises(BROKEN):
        await api.send("POST", CLAIMS, claim("a"))

    assert api.server.get("ResourceClaim", "a", "default") is not None


async def test_a_refused_request_was_not_done(api: Api) -> None:
    """The connection breaks before anything is stored."""
    api.server.faults.refuse(verb="create")

    with pytest.raises(BROKEN):
        await api.send("POST", CLAIMS, claim("a"))

    assert api.server.get("ResourceClaim", "a", "default") is None


async def test_a_delay_holds_a_request_back(api: Api) -> None:
    """The answer comes, later."""
    api.server.faults.delay(0.2, verb="list")
    started = time.monotonic()

    answer = await api.get(CLAIMS)

    assert answer.status == 200
    assert time.monotonic() - started >= 0.2


async def test_a_410_for_a_watch_comes_inside_the_stream(api: Api) -> None:
    """As the real server does it: status 200, one ERROR event."""
    api.server.faults.answer(410, verb="watch")

    async with api.watch() as watch:
        events = await watch.rest()

    assert [event["object"]["code"] for event in events] == [410]


async def test_another_code_for_a_watch_is_its_status(api: Api) -> None:
    """A watch that is refused gets no stream."""
    api.server.faults.answer(403, verb="watch")

    assert (await api.get(f"{CLAIMS}?watch=true")).status == 403


async def test_open_watches_can_be_cut(api: Api) -> None:
    """The stream breaks off without its end; a new watch works."""
    async with api.watch() as watch:
        api.server.faults.cut_watches("ResourceClaim")
        with pytest.raises(BROKEN):
            await watch.next()

    await api.create(claim("a"))
    async with api.watch() as watch:
        assert (await watch.next())["type"] == "ADDED"


async def test_cutting_one_kind_leaves_the_others(api: Api) -> None:
    """A watch of nodes survives the cut of claims."""
    async with api.watch("/api/v1/nodes") as watch:
        api.server.faults.cut_watches("ResourceClaim")
        api.server.put({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})

        assert (await watch.next())["object"]["metadata"]["name"] == "n"


async def test_a_watch_can_be_cut_after_some_events(api: Api) -> None:
    """Exactly so many events arrive, then the stream breaks."""
    for name in "abc":
        await api.create(claim(name))
    api.server.faults.cut_watch_after(2)

    async with api.watch() as watch:
        names = [(await watch.next())["object"]["metadata"]["name"] for _ in range(2)]
        with pytest.raises(BROKEN):
            await watch.next()

    assert names == ["a", "b"]


async def test_a_stalled_watch_is_silent_until_it_resumes(api: Api) -> None:
    """Nothing comes while it is stalled, and then everything that was held back."""
    async with api.watch() as watch:
        api.server.faults.stall_watches("ResourceClaim")
        await api.create(claim("a"))
        waiting = asyncio.create_task(watch.next())
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done

        api.server.faults.resume_watches("ResourceClaim")

        assert (await waiting)["object"]["metadata"]["name"] == "a"


async def test_expiring_forgets_history_and_pages(api: Api) -> None:
    """Watches from an earlier version and continue tokens get 410."""
    first = await api.create(claim("a"))
    await api.create(claim("b"))
    page = (await api.get(f"{CLAIMS}?limit=1")).body

    api.server.faults.expire()

    async with api.watch(resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        assert (await watch.next())["object"]["code"] == 410
    answer = await api.get(f"{CLAIMS}?limit=1&continue={page['metadata']['continue']}")
    assert (answer.status, answer.body["reason"]) == (410, "Expired")


async def test_clearing_takes_all_faults_back(api: Api) -> None:
    """Afterwards everything works."""
    api.server.faults.answer(503, times=None)
    api.server.faults.stall_watches()

    api.server.faults.clear()

    await api.create(claim("a"))
    async with api.watch() as watch:
        assert (await watch.next())["type"] == "ADDED"
