"""The operator as a Kopf operator: start, signals, login, probe."""

import asyncio
import contextlib
import itertools
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kopf
import pytest

from cluster import CLASS, Cluster, access_to, claim, node, resource_slice, split
from dra_operator.cluster.credentials import AccessError
from dra_operator.controller.kopf_app import serve
from dra_operator.controller.leader_election import GIVE_UP_SECONDS
from dra_operator.controller.manager import Manager
from dra_operator.controller.settings import Settings
from dra_operator.kinds.runtime import EndlessBackoff, tune
from factories import manifest
from faulty_server import FaultyServer

# Kopf warns of its own use of what Python deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kopf")


@pytest.fixture
def apart():
    """The API server in a thread of its own: when Kopf ends, it ends every task of its event loop."""
    ready, end, made = threading.Event(), asyncio.Event(), []

    async def stay_up():
        async with FaultyServer() as server:
            made.extend((server, asyncio.get_running_loop()))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(stay_up()))
    thread.start()
    ready.wait()
    server, loop = made
    yield Cluster(server, None)
    loop.call_soon_threadsafe(server.faults.cut_watches)
    loop.call_soon_threadsafe(end.set)
    thread.join()


@pytest.fixture
def shell(apart):
    """Start the operator by Kopf, and stop it."""

    @contextlib.asynccontextmanager
    async def begin(url=apart.server.url, access=None, **settings):
        stop, started = asyncio.Event(), asyncio.Event()
        found = []

        def note(runtime):
            found.append(runtime)
            started.set()

        options, tuning = split(
            **{
                "listen": "127.0.0.1:0",
                "quiet_seconds": 0.005,
                "drain_seconds": 2,
                "lease_namespace": "default",
                "devices": "all",
                **settings,
            }
        )
        task = asyncio.create_task(
            serve(options, access or access_to(url), stop=stop, started=note, tuning=tuning)
        )
        await asyncio.wait_for(started.wait(), 60)
        yield task, found[0], stop
        stop.set()
        await asyncio.wait_for(task, 60)

    return begin


async def told(runtime, why):
    """Wait until a reason why the operator is not ready has that word."""
    async with asyncio.timeout(60):
        while not any(why in reason for reason in runtime.unready()):  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)


async def test_kopf_runs_the_operator_and_stops_it_with_0(apart, shell):
    """Start, allocate, stop: exit code 0, at once."""
    apart.put(node(), CLASS, resource_slice("gpu-0"), claim())
    async with shell() as (task, _, stop):
        await apart.allocated()
        stop.set()

        assert await asyncio.wait_for(task, 60) == 0


@pytest.fixture
def refusing():
    """The address of an API server that takes no credentials, and what it was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


async def test_refused_credentials_are_not_offered_in_a_hot_loop(shell, refusing):
    """A 401 to everything is answered by a pause, is told by /readyz, and does not hold up the end."""
    url, asked = refusing
    async with shell(url) as (task, runtime, stop):
        await told(runtime, "401")
        await asyncio.sleep(0.5)
        # Kopf's first look; the operator's own requests go elsewhere.
        assert 1 <= asked.count("/api") <= 2
        stop.set()

        assert await asyncio.wait_for(task, 60) == 0


async def test_readyz_tells_why_there_are_no_better_credentials(shell, refusing):
    """A 401 says that they are refused; that a plugin gives no others is what there is to mend."""

    def read():
        raise AccessError("the plugin hangs")

    access = access_to(refusing[0])
    access._source = read
    async with shell(access=access) as (_, runtime, _):
        await told(runtime, "401")
        await told(runtime, "credentials cannot be read again; the log says why")


async def test_writes_on_their_way_are_finished_before_the_end(apart, shell):
    """SIGTERM: no new pass, but what is being written is written."""
    apart.put(node(), CLASS, resource_slice("gpu-0"), claim())
    apart.server.faults.delay(0.3, times=1, verb="patch", kind="ResourceClaim", subresource="status")
    async with shell() as (task, _, stop):
        await apart.until(lambda: apart.claim()["metadata"].get("finalizers"))
        stop.set()

        assert await task == 0
    assert apart.devices() == ["gpu-0"]


async def test_a_part_that_ends_by_a_defect_ends_the_operator_with_1(shell, monkeypatch):
    """A background task that dies is noticed, logged and ends the process: deaf is worse than dead."""

    async def break_down(_self):
        await asyncio.sleep(0.1)
        raise RuntimeError("a defect")

    monkeypatch.setattr(Manager, "_check_health", break_down)
    async with shell() as (task, _, _):
        assert await asyncio.wait_for(task, 60) == 1


async def test_an_address_that_is_taken_ends_the_start_with_1(apart):
    """Without its probes the operator would be killed later, and nobody would see why."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings(listen=f"127.0.0.1:{taken.getsockname()[1]}")

        assert await asyncio.wait_for(serve(settings, access_to(apart.server.url)), 15) == 1


async def test_kopf_puts_nothing_on_any_object(apart, shell):
    """No Kopf annotation, no Kopf finalizer, no patch but ours."""
    apart.put(node(), CLASS, resource_slice("gpu-0"), claim())
    async with shell():
        await apart.allocated()

    bodies = [body for kind in ("Node", "DeviceClass", "ResourceSlice") for body in apart.server.list(kind)]
    assert not any("kopf" in str(body) for body in (*bodies, apart.claim()))
    patched = {what for what in apart.server.requests if what.startswith(("patch", "update"))}
    # The Lease is updated when it is given up at the end.
    assert patched == {"patch ResourceClaim", "patch ResourceClaim/status", "update Lease"}


TEMPLATE = manifest(
    "ResourceClaimTemplate",
    "typo",
    {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "typo"}}]}}},
    namespace="default",
)


async def test_template_that_comes_is_told_what_is_wrong_with_it(apart, shell):
    """Where pods are explained; nothing is written on it."""
    apart.put(node(), CLASS, resource_slice("gpu-0"))
    async with shell(explain="all") as (_, runtime, _):
        await apart.until(lambda: not runtime.unready())
        apart.put(TEMPLATE)
        await apart.until(lambda: apart.reasons("typo", "ResourceClaimTemplate"), seconds=10)

    assert apart.reasons("typo", "ResourceClaimTemplate") == ["InvalidObject"]
    metadata = apart.server.get("ResourceClaimTemplate", "typo", "default")["metadata"]
    assert not metadata.get("annotations")
    assert not metadata.get("finalizers")


async def test_kopf_is_a_shell_only():
    """No peering, no scanning, no Events of its own, and back-offs that never end."""
    settings, backoff = kopf.OperatorSettings(), EndlessBackoff()
    tune(settings, backoff, drain=10)

    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert not settings.posting.enabled
    assert settings.networking.error_backoffs is backoff
    assert list(itertools.islice(backoff, 8)) == [1, 2, 4, 8, 16, 30, 30, 30]


def test_kopf_kills_nobody_who_may_still_be_writing():
    """Pass and writes may take `drain_seconds` each, and the Lease its time, before Kopf kills its own process."""
    settings = kopf.OperatorSettings()
    tune(settings, EndlessBackoff(), drain=300)

    assert settings.process.ultimate_exiting_timeout > 2 * 300 + GIVE_UP_SECONDS
