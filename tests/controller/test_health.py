"""The answers for the kubelet and Prometheus."""

import asyncio
import socket

import aiohttp
import pytest

from dra_operator.controller import health
from dra_operator.controller.health import HealthServer


def server_at(listen, stuck=(), unready=(), notes=()):
    """A health server for an address."""
    return HealthServer(
        listen,
        stuck=lambda: stuck,
        unready=lambda: unready,
        notes=lambda: notes,
        following=lambda: ["standing by"],
        metrics=lambda: b"metric 1\n",
    )


@pytest.fixture
async def served():
    """A health server on a free port, its reasons, and a way to ask it."""
    stuck, unready = [], []
    server = server_at("127.0.0.1:0", stuck, unready)
    address = await server.start()
    async with aiohttp.ClientSession() as session:

        async def ask(path):
            async with session.get(f"http://{address}{path}") as response:
                return response.status, await response.text()

        yield stuck, unready, ask
    await server.stop()


async def test_all_is_well_until_there_is_a_reason(served):
    """Both answer 200 when there is nothing to say."""
    _, _, ask = served

    assert await ask("/healthz") == (200, "ok\n")
    assert await ask("/readyz") == (200, "ok\n")


async def test_not_ready_names_each_reason_and_is_still_alive(served):
    """What a restart would not change is not a matter of liveness."""
    _, unready, ask = served
    unready += ["API server: away", "not permitted to list resourceslices"]

    assert await ask("/readyz") == (503, "API server: away\nnot permitted to list resourceslices\n")
    assert (await ask("/healthz"))[0] == 200


async def test_stuck_is_not_alive(served):
    """Only what a restart would mend is red in /healthz."""
    stuck, _, ask = served
    stuck.append("a pass has made no progress for 300 s")

    assert await ask("/healthz") == (500, "a pass has made no progress for 300 s\n")


async def test_the_port_that_was_taken_is_told():
    """Port 0 is a free port, and the answer says which."""
    server = HealthServer("127.0.0.1:0", stuck=list, unready=list, notes=list, following=list, metrics=bytes)
    address = await server.start()
    try:
        assert address.startswith("127.0.0.1:")
        assert int(address.partition(":")[2]) > 0
    finally:
        await server.stop()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
@pytest.mark.parametrize("every", ["0.0.0.0", "[::]"])  # noqa: S104 - a port that nobody knows
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_every_address_is_of_both_families(every, host):
    """A pod of a cluster without IPv4 is asked by IPv6 whether it is alive."""
    server = server_at(f"{every}:0")
    address = await server.start()
    port = address.removeprefix(f"{every}:")
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/healthz") as response:
        assert response.status == 200
    await server.stop()


@pytest.fixture
async def connect():
    """Open connections to a health server; each is a reader and a writer."""
    server = server_at("127.0.0.1:0")
    host, _, port = (await server.start()).rpartition(":")
    opened = []

    async def open_one(sent):
        opened.append(await asyncio.open_connection(host, int(port)))
        opened[-1][1].write(sent)
        return opened[-1]

    yield open_one
    for _, writer in opened:
        writer.close()
    await server.stop()


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /no HTTP/1.1\r\nHost: a\r\n\r\n",
        b"no request\r\n\r\n",
    ],
)
async def test_no_answer_tells_a_version(connect, request_text):
    """Neither of the operator, nor of what it is built with, also to what is no request."""
    reader, _ = await connect(request_text)

    head = await reader.readuntil(b"\r\n\r\n")
    assert b"server: dra-operator\r\n" in head.lower()
    assert not any(name in head for name in (b"Python", b"aiohttp"))


async def test_of_too_many_connections_the_oldest_are_closed(connect, monkeypatch):
    """Who comes later is answered, however many others say nothing."""
    monkeypatch.setattr(health, "MOST_CONNECTIONS", 5)
    silent = [await connect(b"GET /healthz HTTP/1.1\r\n") for _ in range(20)]
    reader, _ = await connect(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")

    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    async with asyncio.timeout(60):
        for oldest, _ in silent[:14]:
            assert await oldest.read() == b""
    assert not any(youngest.at_eof() for youngest, _ in silent[-4:])
