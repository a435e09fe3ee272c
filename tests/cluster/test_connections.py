"""Sockets: a connection to somebody who has gone without a word is noticed in seconds."""

import socket

import pytest

from dra_operator.cluster import session as sessions
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.session import ASK_SECONDS, GONE_SECONDS, ApiSession, open_socket

from .script import credentials, ok


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="each system has options of its own")
async def test_connections_of_a_session_ask_whether_somebody_is_there(script, monkeypatch):
    """Every few seconds while nothing is said, and none waits long for what was sent to be acknowledged."""
    opened = []
    monkeypatch.setattr(
        sessions, "open_socket", lambda address: opened.append(open_socket(address)) or opened[-1]
    )
    script.then(ok({}))
    async with ApiSession(Access(lambda: credentials(script.url))) as session:
        await session.request("GET", "/readyz")

        (found,) = opened
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        asked = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT]
        values = [found.getsockopt(socket.IPPROTO_TCP, option) for option in asked]
    assert values == [ASK_SECONDS, ASK_SECONDS, GONE_SECONDS // ASK_SECONDS, 1000 * GONE_SECONDS]
