"""Watches over HTTP: where they begin, what they send, how they end."""

from typing import Any

import aiohttp
import pytest

from .conftest import CLAIMS, Api
from .steps import claim


@pytest.fixture
def options() -> dict[str, Any]:
    """Return options with a short history and frequent bookmarks."""
    return {"history": 4, "bookmark_seconds": 0.05}


def shown(events: list[Any]) -> list[tuple[str, str]]:
    """Return events as (type, name)."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_version_that_is_forgotten_gets_410_in_the_stream(api: Api) -> None:
    """A watch from before the window is answered 200 with one ERROR event, and ends."""
    first = await api.create(claim("a"))
    for number in range(9):
        await api.merge(f"{CLAIMS}/a", {"metadata": {"labels": {"n": str(number)}}})

    async with api.watch(resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        events = await watch.rest()

    assert [(event["type"], event["object"]["code"], event["object"]["reason"]) for event in events] == [
        ("ERROR", 410, "Expired")
    ]


async def test_stopping_the_server_ends_its_watches(api: Api) -> None:
    """A server that stops ends open watches, and after a start on the same port they can resume."""
    created = await api.create(claim("a"))
    url = api.server.url
    async with api.watch(resourceVersion=created["metadata"]["resourceVersion"]) as watch:
        await api.server.stop()
        assert await watch.next() is None
    await api.server.start()

    assert api.server.url == url
    async with aiohttp.ClientSession(url) as session, session.get(f"{CLAIMS}/a") as response:
        assert response.status == 200
