"""Sockets: connections that notice when whoever is at the other end has gone without a word.

A node of the control plane that loses its power says nothing to anybody, and its address goes to another one. A watch
would stay silent on such a connection until it is taken for dead, for more than a minute, and a write wait for its
answer as long. So the kernel asks every few seconds whether somebody is there, and waits no longer for what is sent to
be acknowledged. A server that is slow, or busy, acknowledges all the same: its kernel does, as long as it has room for
what is sent. It has for a request of ours, but for a claim of more than some 100 KB that is updated in protobuf: if the
server reads nothing of that for so long, the connection is given up, and the claim is read back like after any other
request without an answer.
Source: tcp(7); Go's net.Dialer and client-go ask in the same way, every 15 and 30 seconds.
"""

import contextlib
import socket
from typing import Any, Final

ASK_SECONDS: Final = 5
"""How long a connection is silent before it is asked, and how long from one time to the next."""
GONE_SECONDS: Final = 15
"""How long nothing is acknowledged before the connection is given up."""
_OPTIONS: Final = {
    "TCP_KEEPIDLE": ASK_SECONDS,
    "TCP_KEEPINTVL": ASK_SECONDS,
    "TCP_KEEPCNT": GONE_SECONDS // ASK_SECONDS,
    "TCP_USER_TIMEOUT": GONE_SECONDS * 1000,
}
"""Each system has some of these, and may refuse what it has: then it is as slow to notice as its kernel is."""


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a new socket for an address as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:
            with contextlib.suppress(OSError):
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
