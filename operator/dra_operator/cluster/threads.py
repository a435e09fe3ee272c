"""Threads that the end of the process does not wait for.

It would for those of asyncio and of its executors: for a plugin that hangs, or for a pass over a large cluster, longer
than the kubelet waits for us.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

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
