"""Faults on demand: each switch does to clients what it says, to the requests it is for, as often as it says."""

import asyncio
from typing import Any

import aiohttp
import pytest

from dra_operator.testing.errors import RequestInfo
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


async def test_a_lost_answer_was_done(api: Api) -> None:
    """The connection breaks after the write is stored."""
    api.server.faults.lose_answer(verb="create")

    with pytest.raises(BROKEN):
        await api.send("POST", CLAIMS, claim("a"))

    assert api.server.get("ResourceClaim", "a", "default") is not None


async def test_a_410_for_a_watch_comes_inside_the_stream(api: Api) -> None:
    """As the real server does it: status 200, one ERROR event."""
    api.server.faults.answer(410, verb="watch")

    async with api.watch() as watch:
        events = await watch.rest()

    assert [event["object"]["code"] for event in events] == [410]


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
