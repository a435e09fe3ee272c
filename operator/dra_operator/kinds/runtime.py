"""The runtime of the kinds: for each a Kopf in a thread and a loop of its own.

In the operator's own loop the end of Kopf would cancel every task that was made meanwhile (docs/kopf.md), and one Kopf
for all kinds ends when a single one is deleted. It runs while its kind is served, and is started anew with back-off.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeAlias

import aiohttp
import kopf

from dra_operator.api.names import GROUP, KOPF_FINALIZER
from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.credentials import Access, tls_context
from dra_operator.cluster.faults import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.session import ApiError, ApiUnreachable, in_thread
from dra_operator.kinds import allocation_policy, device_maintenance, device_reservation
from dra_operator.kinds.changes import Body, Plan
from dra_operator.kinds.handlers import OwnKind, Reconcile, register
from dra_operator.kinds.maintenance_controller import MaintenanceController
from dra_operator.kinds.policy_controller import PolicyController
from dra_operator.kinds.reservation_controller import ReservationController
from dra_operator.kinds.world import World

FindVerbs: TypeAlias = Callable[[str], Awaitable[frozenset[str] | None]]
"""Returns what may be done with the objects of a kind: nothing where it is not served, None if nobody answers."""

_RESTART: Final = (1.0, 60.0)
"""First and longest wait, in seconds, before Kopf is started anew, or a kind that is not served is asked for again."""
_ASK_SECONDS: Final = 60.0
"""How often, while Kopf runs, its kind is asked for, and what objects have left behind is looked after."""
_LOGIN: Final = (1.0, 30.0)
"""First and longest wait, in seconds, before Kopf asks or logs in again."""
_LASTING_SECONDS: Final = 60.0
"""Credentials that were good for so long are replaced at once."""
_STOP_SECONDS: Final = 5.0
_OF_NO_USE: Final = ("OS signals are ignored", "Stop-flag is set")
_LOGGERS: Final = ("kopf.objects", "kopf._core.reactor.running", "kopf._core.reactor.orchestration")


class _ExpectedFilter(logging.Filter):
    """Drops what Kopf says of a kind that was deleted, of flags, and each time that something keeps an object."""

    def __init__(self, left: Sequence[str]) -> None:
        super().__init__()
        self._left = left

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        if record.exc_info and _is_missing(record.exc_info[1]):
            return False
        text = record.getMessage()
        return not text.startswith(_OF_NO_USE) and not any(left in text for left in self._left)


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
        return (doubled(*_LOGIN, failures) for failures in count())

    def end(self) -> None:
        """Cancel the tasks that still ask the API server for something."""
        for task in self._asking:
            task.cancel()


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


def register_login(registry: kopf.OperatorRegistry, access: Access) -> None:
    """Add the handler by which Kopf logs in, with a pause where that was not long ago.

    Kopf logs in anew after each 401 of its first look at what is served, and takes what it gets for new credentials
    each time, since they end later: those that are refused must not be offered in a hot loop.
    """
    last, failures = float("-inf"), 0

    @kopf.on.login(registry=registry, id="access")
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal last, failures
        now = time.monotonic()
        failures = 0 if now >= last + _LASTING_SECONDS else failures + 1
        pause = doubled(*_LOGIN, failures - 1) if failures else 0.0
        last = now + pause
        await asyncio.sleep(pause)
        return session_for(await in_thread("credentials", access.connection_info))


def build_own_kinds(world: World, quiet_seconds: float, fenced_seconds: float) -> tuple[OwnKind, ...]:
    """Return all kinds of our own.

    The seconds are how long a card in maintenance must have been free, and so behind its policy.
    """
    policies, reservations = PolicyController(world), ReservationController(world)
    quiet, fenced = timedelta(seconds=quiet_seconds), timedelta(seconds=fenced_seconds)
    return (
        OwnKind(
            allocation_policy.PLURAL,
            policies.reconcile,
            "rules of the policy are still there",
            policies.sweep,
        ),
        OwnKind(
            device_reservation.PLURAL,
            reservations.reconcile,
            "claims of the reservation are still there",
            reservations.sweep,
        ),
        OwnKind(
            device_maintenance.PLURAL,
            MaintenanceController(world, quiet, fenced).reconcile,
            "rules of the maintenance are still there",
        ),
    )


class KindsRuntime:
    """Runs Kopf for kinds; `access` is what it logs in with."""

    def __init__(
        self,
        access: Access,
        kinds: Sequence[OwnKind],
        find_verbs: FindVerbs,
        defect_logger: DefectLogger = UNCOUNTED,
    ) -> None:
        self._access = access
        self._kinds = kinds
        self._find_verbs = find_verbs
        self._defect_logger = defect_logger

    async def run(self) -> None:
        """Run Kopf for each kind while that is served; cancelled, wait a few seconds for its end."""
        expected = _ExpectedFilter([each.left for each in self._kinds])
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(expected)
        try:
            async with asyncio.TaskGroup() as group:
                for kind in self._kinds:
                    group.create_task(self._keep_running(kind), name=f"dra-operator {kind.plural}")
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeFilter(expected)

    async def _keep_running(self, kind: OwnKind) -> None:
        """Run Kopf for a kind whenever that is served."""
        clock, failures = asyncio.get_running_loop().time, 0
        while True:
            began = clock()
            # Kopf does not serve a kind that is being deleted, of which discovery has no such verb.
            if "patch" in (await self._find_verbs(kind.plural) or ()):
                await self._run_kopf(kind)
            failures = 0 if clock() - began > _RESTART[1] else failures
            await asyncio.sleep(doubled(*_RESTART, failures))
            failures += 1

    async def _run_kopf(self, kind: OwnKind) -> None:
        """Run Kopf once, until it ends by itself, or its kind is not served any more."""
        loop, stop = asyncio.new_event_loop(), asyncio.Event()
        registry, settings = self._build_registry(kind), _build_settings()
        future: concurrent.futures.Future[None] = concurrent.futures.Future()

        def run() -> None:
            try:
                with (
                    contextlib.suppress(asyncio.CancelledError),
                    asyncio.Runner(loop_factory=lambda: loop) as runner,
                ):
                    runner.run(
                        kopf.operator(
                            registry=registry,
                            settings=settings,
                            standalone=True,
                            clusterwide=True,
                            # For a flag of threads one of Kopf's would wait, and so the end of a Kopf that has failed.
                            stop_flag=stop,
                        )
                    )
            except Exception as error:
                if not _is_missing(error):
                    self._defect_logger.exception(Defect.TASK, task=kind.plural)
            finally:
                future.set_result(None)

        threading.Thread(target=run, name=f"dra-operator {kind.plural}", daemon=True).start()
        ended = asyncio.wrap_future(future)
        try:
            while not (await asyncio.wait([ended], timeout=_ASK_SECONDS))[0]:
                if await self._find_verbs(kind.plural) == frozenset():
                    return
                if kind.sweep is not None:
                    # What cannot be done now is done the next time.
                    with contextlib.suppress(ApiError, ApiUnreachable):
                        await kind.sweep()
        finally:
            # One whose loop is closed has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
            await asyncio.wait([ended], timeout=_STOP_SECONDS)

    def _build_registry(self, kind: OwnKind) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        register_login(registry, self._access)
        register(registry, replace(kind, reconcile=_on_this_loop(kind.reconcile)))
        return registry


def _build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    tune(settings, EndlessBackoff(), drain=0)
    # One that does not end must not kill the process.
    settings.process.ultimate_exiting_timeout = None
    settings.persistence.finalizer = KOPF_FINALIZER
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    return settings


def _on_this_loop(reconcile: Reconcile) -> Reconcile:
    """Return what reconciles on the loop that runs now, when called on another one."""
    loop = asyncio.get_running_loop()

    async def reconcile_there(body: Body) -> Plan:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reconcile(body), loop))

    return reconcile_there


def _is_missing(error: BaseException | None) -> bool:
    """Return whether the API server has answered Kopf that it does not serve a kind."""
    return getattr(error, "status", None) == 404
