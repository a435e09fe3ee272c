"""Connections that notice when the other end has gone, and threads that the end of the process does not wait for.

A node of the control plane that loses its power says nothing to anybody. So the kernel asks every few seconds whether
somebody is there, and waits no longer for what is sent to be acknowledged.
Source: tcp(7); Go's net.Dialer and client-go ask in the same way, every 15 and 30 seconds.
"""

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

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


_T = TypeVar("_T")


async def in_thread(name: str, work: Callable[[], _T]) -> _T:
    """Do some work in a thread of its own, which has that name, and return or raise what comes of it.

    Who is cancelled here waits no more; the thread goes on.
    """
    done = concurrent.futures.Future[_T]()
    # Whoever is not interested any more must not take the place away where the answer goes.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where this is awaited
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(done)
