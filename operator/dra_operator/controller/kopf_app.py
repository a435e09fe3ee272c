"""The Kopf application: start-up, clean-up, signals and login.

Whatever is decided or told depends on reflectors, as Kopf never learns of what was deleted while a watch was broken
(docs/decisions.md, Shape). Kopf serves nothing before the start-up handler has returned, and would cut off its tasks
after five seconds, so clean-up stops the manager itself.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any

import kopf

from dra_operator._version import __version__
from dra_operator.allocator.self_check import SelfCheckError, run_self_check
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.faults import Defect
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.manager import Manager
from dra_operator.controller.settings import Settings, Tuning
from dra_operator.kinds.runtime import EndlessBackoff, register_login, tune

log = get_logger()


def build_registry(
    manager: Manager,
    access: Access,
    *,
    backoff: EndlessBackoff,
    started: Callable[[Manager], None],
    stopped: Callable[[], None],
) -> kopf.OperatorRegistry:
    """Return Kopf's handlers: start-up, clean-up and login.

    `backoff` is that of Kopf's requests. `started` is called when everything has been spawned, `stopped` when
    the manager has stopped.
    """
    registry = kopf.OperatorRegistry()
    register_login(registry, access)

    @kopf.on.startup(registry=registry, id="runtime")
    async def start(**_: Any) -> None:
        await manager.start()
        started(manager)

    @kopf.on.cleanup(registry=registry, id="runtime")
    async def stop(**_: Any) -> None:
        _expect_signals()
        await manager.close()
        backoff.end()
        stopped()

    return registry


def _expect_signals() -> None:
    """Let nothing come of further signals: Kopf knows the first one alone, and has a traceback for each other."""
    loop = asyncio.get_running_loop()
    # As Kopf does it: not in Windows, and in the main thread alone.
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        for sent in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sent, lambda: None)


def warn_of_all_devices(settings: Settings) -> None:
    """Say what it means beside kube-scheduler to allocate every device, if that is what is wanted."""
    if settings.devices == "all":
        log.warning(messages.ALL_DEVICES, why=messages.BESIDE_SCHEDULER)


def is_sound() -> bool:
    """Return whether this installation decides a small cluster as it should; if not, the log says what is wrong.

    It is the rehearsal as well: the first claim finds a process that has decided claims before.
    """
    try:
        run_self_check()
    except SelfCheckError as error:
        log.critical(messages.NOT_SOUND, why=str(error), exc_info=error.__cause__)
        return False
    return True


async def serve(
    settings: Settings,
    access: Access,
    *,
    stop: asyncio.Event | None = None,
    started: Callable[[Manager], None] = lambda _: None,
    settle: Callable[[], None] = lambda: None,
    tuning: Tuning = Tuning(),  # noqa: B008 - it is frozen
) -> int:
    """Run the operator until a signal or `stop`, or until it must start again; return the exit code: 0, or else 1.

    `started` is called with the manager once it runs; tests use it. `settle` is called once, in another thread,
    when everything has been listed and taken in.
    """
    stop = stop or asyncio.Event()
    crashed = False

    def on_crash() -> None:
        nonlocal crashed
        crashed = True
        stop.set()

    log.info(messages.STARTING, version=__version__, claims=settings.claims)
    manager = Manager(
        settings,
        access,
        on_crash=on_crash,
        settle=settle,
        tuning=tuning,
        runs_kinds=True,
    )
    try:
        # Before Kopf, which would take seconds to give up.
        await manager.listen()
    except OSError as error:
        log.critical(messages.CANNOT_LISTEN, address=settings.listen, why=str(error))
        await manager.close()
        return 1
    kopf_settings, backoff = kopf.OperatorSettings(), EndlessBackoff()
    tune(kopf_settings, backoff, tuning.drain_seconds)
    # A task of Kopf's waits for the stop flag. After a signal nobody else raises it, and Kopf waits five
    # seconds for the end of that task.
    registry = build_registry(manager, access, backoff=backoff, started=started, stopped=stop.set)
    try:
        await kopf.operator(
            registry=registry,
            settings=kopf_settings,
            clusterwide=True,
            standalone=True,
            stop_flag=stop,
        )
    except Exception:
        manager.metrics.defect_logger.exception(Defect.TASK, task="kopf")
        crashed = True
    finally:
        await manager.close()
    return 1 if crashed else 0
