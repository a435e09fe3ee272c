"""The Kopf application: start-up, clean-up, signals and login.

Whatever is decided or told depends on reflectors, as Kopf never learns of what was deleted while a watch was broken
(docs/decisions.md, Shape). Kopf serves nothing before the start-up handler has returned, and would cut off its tasks
after five seconds, so clean-up stops the manager itself.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import aiohttp
import kopf

from dra_operator._version import __version__
from dra_operator.allocator.self_check import SelfCheckError, run_self_check
from dra_operator.cluster.credentials import Access, tls_context
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.session import in_thread
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.manager import Manager
from dra_operator.controller.settings import Settings, Tuning
from dra_operator.kinds.handlers import OwnKind
from dra_operator.kinds.runtime import FindVerbs, KindsRuntime

log = get_logger()


class EndlessBackoff:
    """Back-offs in seconds that never end: a control plane that is away for an hour is no reason to exit.

    They know which of Kopf's tasks they keep going. Of these, Kopf leaves its first look at what is served
    behind when it ends, and then waits five seconds for it in vain.
    """

    def __init__(self) -> None:
        self._asking: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[float]:
        """Return 1, 2, 4, ... up to 30, for ever; each request of Kopf's begins here, in its task."""
        if (task := asyncio.current_task()) is not None:
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return self.seconds()

    def end(self) -> None:
        """Cancel the tasks that still ask the API server for something."""
        for task in self._asking:
            task.cancel()

    @staticmethod
    def seconds() -> Iterator[float]:
        """Yield 1, 2, 4, ... up to 30, for ever."""
        seconds = 1.0
        while True:
            yield seconds
            seconds = min(seconds * 2, 30.0)


class LoginPace:
    """How long to wait before the next login, so that credentials that are refused are not offered in a hot loop.

    Kopf logs in anew after each 401 of its first look at what is served, and takes what it gets for new
    credentials each time, since they end later. `clock` is a monotonic clock in seconds.
    """

    LASTING = 60.0
    """Credentials that were good for so long, in seconds, are replaced at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._backoff = EndlessBackoff.seconds()
        self._last: float | None = None

    def pause(self) -> float:
        """Return how many seconds to wait before the login that is asked for now: 0, or 1, 2, 4, ... up to 30."""
        now, pause = self._clock(), 0.0
        if self._last is None or now >= self._last + self.LASTING:
            self._backoff = EndlessBackoff.seconds()
        else:
            pause = next(self._backoff)
        self._last = now + pause
        return pause


def session_for(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """Return the access `info` as a session of Kopf's, with our trust in certificates. Kopf closes it."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls_context(info)),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
    )
    return kopf.AiohttpSession(
        aiohttp_session=session,
        server=info.server,
        default_namespace=info.default_namespace,
        expiration=info.expiration,
    )


def tune(settings: kopf.OperatorSettings, backoff: EndlessBackoff, drain: float) -> None:
    """Set Kopf up as a shell only. `drain` is how long writes get at the end. Source: docs/kopf.md."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = backoff
    settings.networking.request_timeout = 60
    settings.networking.connect_timeout = 10
    settings.watching.server_timeout = 300
    # After a signal Kopf kills its own process then, however much is still to be written.
    settings.process.ultimate_exiting_timeout = 60 + 2 * drain
    settings.execution.default_backoff = 10


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


def register_login(registry: kopf.OperatorRegistry, access: Access) -> None:
    """Add the handler by which Kopf logs in."""
    pace = LoginPace()

    @kopf.on.login(registry=registry, id="access")
    async def login(**_: Any) -> kopf.AiohttpSession:
        await asyncio.sleep(pace.pause())
        return session_for(await in_thread("credentials", access.connection_info))


def build_kinds(
    access: Access, kinds: Sequence[OwnKind], find_verbs: FindVerbs, defect_logger: DefectLogger
) -> KindsRuntime:
    """Return what runs kinds of our own."""

    def tune_kinds(settings: kopf.OperatorSettings) -> None:
        tune(settings, EndlessBackoff(), drain=0)
        # One that does not end must not kill the process.
        settings.process.ultimate_exiting_timeout = None

    return KindsRuntime(
        kinds, find_verbs, lambda registry: register_login(registry, access), tune_kinds, defect_logger
    )


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
        build_kinds=partial(build_kinds, access),
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
