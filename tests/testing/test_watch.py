"""Watches over HTTP: where they begin, what they send, how they end."""

import asyncio
from typing import Any

import aiohttp
import pytest

from dra_operator.testing.server import ServerOptions

from .conftest import CLAIMS, Api
from .steps import claim


@pytest.fixture
def options() -> ServerOptions:
    """Return options with a short history and frequent bookmarks."""
    return ServerOptions(history=4, bookmark_seconds=0.05)


def shown(events: list[Any]) -> list[tuple[str, str]]:
    """Return events as (type, name)."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_watch_without_a_version_begins_with_the_state(api: Api) -> None:
    """What exists comes as ADDED, then the changes."""
    await api.create(claim("a"))
    async with api.watch() as watch:
        assert shown([await watch.next()]) == [("ADDED", "a")]

        await api.create(claim("b"))

        assert shown([await watch.next()]) == [("ADDED", "b")]


async def test_a_watch_resumes_after_a_version(api: Api) -> None:
    """Only what happened after the version is sent, each change with its own version."""
    first = await api.create(claim("a"))
    await api.merge(f"{CLAIMS}/a", {"metadata": {"labels": {"x": "y"}}})
    await api.send("DELETE", f"{CLAIMS}/a")

    async with api.watch(resourceVersion=first["metadata"]["resourceVersion"], timeoutSeconds="1") as watch:
        events = await watch.rest()

    assert shown(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == [
        int(first["metadata"]["resourceVersion"]) + 1,
        int(first["metadata"]["resourceVersion"]) + 2,
    ]


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


async def test_a_selector_turns_changes_into_comings_and_goings(api: Api) -> None:
    """An object that begins to match is ADDED, one that ceases to is DELETED with the content that the client knew."""
    await api.create(claim("a"))
    async with api.watch(labelSelector="x=y", timeoutSeconds="1") as watch:
        await api.merge(f"{CLAIMS}/a", {"metadata": {"labels": {"x": "y"}}})
        await api.merge(f"{CLAIMS}/a", {"metadata": {"labels": {"z": "1"}}})
        await api.merge(f"{CLAIMS}/a", {"metadata": {"labels": {"x": "no"}}})
        await api.merge(f"{CLAIMS}/a", {"metadata": {"labels": {"z": "2"}}})
        events = await watch.rest()

    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"x": "y", "z": "1"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


async def test_a_watch_of_a_namespace_sees_no_other(api: Api) -> None:
    """Objects of other namespaces are left out, in the state and in the changes."""
    api.server.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other"}})
    api.server.put(claim("a", namespace="other"))
    async with api.watch(timeoutSeconds="1") as watch:
        api.server.put(claim("b", namespace="other"))
        api.server.put(claim("c"))

        assert shown(await watch.rest()) == [("ADDED", "c")]


async def test_bookmarks_say_how_far_the_watch_is(api: Api) -> None:
    """A bookmark carries the newest version of the server, also where no change was for this watch."""
    api.server.put({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})
    async with api.watch(allowWatchBookmarks="true", timeoutSeconds="1") as watch:
        event = await watch.next()

    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"] == {"resourceVersion": str(api.server.store.revision)}


async def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    """A streaming list sends the state, then a bookmark with the annotation that says so."""
    await api.create(claim("a"))
    parameters = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(**parameters) as watch:
        events = [await watch.next(), await watch.next()]

    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_ends_at_its_time(api: Api) -> None:
    """TimeoutSeconds ends the stream properly."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with api.watch(timeoutSeconds="1") as watch:
        assert await watch.rest() == []

    assert 0.9 < loop.time() - started < 3


async def test_watches_of_two_versions_show_their_own_shape(api: Api) -> None:
    """One change is sent to each watch in the version it asked for."""
    old = "/apis/resource.k8s.io/v1beta1/resourceclaims"
    async with api.watch() as new_watch, api.watch(old) as old_watch:
        await api.create(claim("a"))
        new, flat = await new_watch.next(), await old_watch.next()

    assert new["object"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "c"
    assert flat["object"]["spec"]["devices"]["requests"][0]["deviceClassName"] == "c"


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


async def test_a_burst_reaches_every_watch_in_order(server: Any) -> None:
    """Two watches read two thousand changes each, none lost, none twice."""
    server.store._history = 4_096
    server.put(claim("a"))
    async with aiohttp.ClientSession(server.url) as session:
        api = Api(server, session)
        async with api.watch() as first, api.watch() as second:
            await first.next()
            await second.next()
            start = server.store.revision
            for number in range(2_000):
                server.touch(
                    "ResourceClaim", "a", "default", lambda body, n=number: {**body, "status": {"n": n}}
                )
            for watch in (first, second):
                events = [await watch.next() for _ in range(2_000)]
                versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
                assert versions == list(range(start + 1, start + 2_001))
