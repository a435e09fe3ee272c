"""The runtime of the kinds goes on when Kopf does not."""

import asyncio
import threading

import kopf
import pytest
from structlog.testing import capture_logs

from cluster import access_to
from dra_operator.kinds.handlers import OwnKind
from dra_operator.kinds.runtime import KindsRuntime

ALL = frozenset({"get", "list", "patch", "watch"})


class MissingError(Exception):
    """What Kopf raises where a kind is not served any more."""

    status = 404


async def reconcile(body):
    """Never called: no object is there."""
    raise AssertionError(body)


async def test_kopf_that_has_ended_is_started_again_where_its_kind_is_served(monkeypatch):
    """Of each kind alone, and not of one that is missing or being deleted; cancelled, it ends for good."""
    verbs = {"ones": ALL, "others": ALL, "deleted": ALL - {"patch"}, "missing": frozenset(), "unknown": None}
    starts, ends, errors = [], [], {"ones": [OSError("no route")], "others": [MissingError()]}
    started_again = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def find_verbs(plural):
        return verbs[plural]

    async def operator(*, stop_flag, **_):
        starts.append(kind := threading.current_thread().name.split()[-1])
        if errors[kind]:
            raise errors[kind].pop()
        if len(starts) == 4:
            loop.call_soon_threadsafe(started_again.set)
        await stop_flag.wait()
        ends.append(kind)

    monkeypatch.setattr(kopf, "operator", operator)
    kinds = [OwnKind(each, reconcile, "something is left") for each in verbs]
    runtime = KindsRuntime(access_to("http://nowhere.example.com"), kinds, find_verbs)
    with capture_logs() as said:
        running = asyncio.create_task(runtime.run())
        async with asyncio.timeout(60):
            await started_again.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    assert sorted(starts) == ["ones", "ones", "others", "others"]
    assert sorted(ends) == ["ones", "others"]
    assert [line["task"] for line in said] == ["ones"]
