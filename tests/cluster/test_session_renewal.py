"""The session and credentials that are read again: when, by whom, and what becomes of requests meanwhile."""

import asyncio
import subprocess
import sys
import threading

import pytest

from dra_operator.cluster.credentials import Access, AccessError
from dra_operator.cluster.session import ApiError, ApiSession

from .script import credentials, ok, status

CLAIM = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"


async def test_credentials_are_read_again_after_401(script):
    """A 401 makes the session read the credentials again and send the request once more."""
    tokens = iter(["Bearer old", "Bearer new"])
    script.then(status(401), ok({"done": True}))
    access = Access(lambda: credentials(script.url, authorization=next(tokens)))

    async with ApiSession(access) as session:
        assert await session.request("GET", CLAIM) == {"done": True}

    assert [asked.headers["Authorization"] for asked in script.asked] == ["Bearer old", "Bearer new"]


async def test_parallel_401s_read_credentials_once(script):
    """However many requests meet an expired token together, an exec plugin runs once."""
    readings = []
    script.default = lambda request: status(200 if request.headers["Authorization"] == "Bearer 2" else 401)(
        request
    )

    def read():
        readings.append(None)
        return credentials(script.url, authorization=f"Bearer {len(readings)}")

    async with ApiSession(Access(read)) as session:
        await asyncio.gather(*(session.request("GET", CLAIM) for _ in range(5)))

    assert len(readings) == 2


async def test_due_credentials_are_read_before_the_request(script):
    """The token of a pod is read again every minute, before it is sent."""
    tokens = iter(["Bearer old", "Bearer new"])
    now = [1000.0]
    access = Access(
        lambda: credentials(script.url, authorization=next(tokens), changes=True),
        lambda: now[0],
    )
    script.then(ok({}))

    async with ApiSession(access) as session:
        now[0] = 1070.0
        await session.request("GET", CLAIM)

    assert script.asked[0].headers["Authorization"] == "Bearer new"


class Plugin:
    """Credentials that are read at once the first time, later only when `free` is set; `now` is the time."""

    def __init__(self, url):
        self.free = threading.Event()
        self.readings = 0
        self.fails = False
        self.now = 1000.0
        self.access = Access(lambda: self._read(url), lambda: self.now)

    def _read(self, url):
        self.readings += 1
        if self.readings > 1:
            self.free.wait(5)
        if self.fails:
            raise AccessError("ended")
        return credentials(url, authorization=f"Bearer {self.readings}", changes=True)


@pytest.fixture
def plugin(script):
    """A plugin that hangs when it is asked again."""
    return Plugin(script.url)


async def test_hanging_plugin_does_not_stop_requests(script, plugin):
    """While credentials cannot be read, for whatever reason, requests go on with the old ones."""
    script.default = ok({})
    async with ApiSession(plugin.access, renewal_timeout=0.02) as session:
        for plugin.now in (1070.0, 1070.0, 1090.0):
            await session.request("GET", CLAIM)
        plugin.free.set()
        await session._reload
        await session.request("GET", CLAIM)

    assert [asked.headers["Authorization"] for asked in script.asked] == ["Bearer 1"] * 3 + ["Bearer 2"]
    assert plugin.readings == 2


async def test_credentials_that_cannot_be_read_are_tried_again_in_a_while(script, plugin):
    """When they have expired each request gets a 401, and would start a plugin, as is right after one that succeeds."""
    script.default = status(401)
    plugin.fails = True
    plugin.free.set()
    async with ApiSession(plugin.access) as session:
        for plugin.now, readings in (
            (1000.0, 2),
            (1001.0, 2),
            (1009.0, 2),
            (1010.0, 3),
            (1020.0, 5),
            (1021.0, 6),
        ):
            plugin.fails = plugin.now < 1020
            with pytest.raises(ApiError, match="401"):
                await session.request("GET", CLAIM)
            assert plugin.readings == readings


STOPS = """
import asyncio, itertools, time
import kopf
from dra_operator.cluster.credentials import Access, Login
from dra_operator.cluster.session import ApiSession, ApiUnreachable

times, clock = iter([0, 60]), itertools.count(0, 1000)

def read():
    time.sleep(next(times))
    return Login(kopf.ConnectionInfo(server="http://127.0.0.1:9"), changes=True)

async def main():
    async with ApiSession(Access(read, clock.__next__), renewal_timeout=0.1) as session:
        try:
            await session.request("GET", "/version")
        except ApiUnreachable:
            pass
    print("stops with tasks:", len(asyncio.all_tasks()))

asyncio.run(main())
"""


def test_the_end_of_the_process_waits_for_no_reading():
    """A plugin may hang for longer than the kubelet waits after SIGTERM."""
    ended = subprocess.run(
        [sys.executable, "-c", STOPS], capture_output=True, text=True, timeout=20, check=True
    )

    assert "credentials take long to read" in ended.stdout
    assert ended.stdout.endswith("stops with tasks: 1\n")
    assert "Traceback" not in ended.stderr
