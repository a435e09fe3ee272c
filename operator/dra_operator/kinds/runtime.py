"""The runtime of the kinds: Kopf in a thread and a loop of its own.

In the operator's own loop the end of Kopf would cancel every task that was made meanwhile (docs/kopf.md). It begins
when the Lease is won and a kind is served, and is started anew, with back-off, whenever it ends.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import kopf

from dra_operator.api.names import GROUP, KOPF_FINALIZER
from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.faults import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.kinds.changes import Body
from dra_operator.kinds.handlers import OwnKind, Reconcile, Reconciliation, register

_RESTART: Final = (1.0, 60.0)
"""First and longest wait, in seconds, before Kopf is started anew."""
_STOP_SECONDS: Final = 5.0
_LOGGERS: Final = ("kopf.objects", "kopf._core.reactor.running")


class _ExpectedFilter(logging.Filter):
    """Drops what Kopf says in a thread, and each time that an object is kept as something of it is left."""

    def __init__(self, left: Sequence[str]) -> None:
        super().__init__()
        self._left = left

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        text = record.getMessage()
        return not text.startswith("OS signals are ignored") and not any(left in text for left in self._left)


class KindsRuntime:
    """Runs Kopf for kinds in a thread of its own, until `stop`.

    `register_login` adds the handler by which Kopf logs in, `tune` sets up what is not about kinds.
    """

    def __init__(
        self,
        kinds: Sequence[OwnKind],
        register_login: Callable[[kopf.OperatorRegistry], None],
        tune: Callable[[kopf.OperatorSettings], None],
        defect_logger: DefectLogger = UNCOUNTED,
    ) -> None:
        self._kinds = kinds
        self._register_login = register_login
        self._tune = tune
        self._defect_logger = defect_logger
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dra-operator kinds", daemon=True)
        self._filter = _ExpectedFilter([each.left for each in kinds])

    @property
    def plurals(self) -> frozenset[str]:
        """The kinds that it runs for."""
        return frozenset([each.plural for each in self._kinds])

    def start(self) -> None:
        """Start the thread."""
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._filter)
        self._thread.start()

    async def sweep(self) -> None:
        """Look after what objects have left behind; what cannot be done now is done in the next minute."""
        for kind in self._kinds:
            if kind.sweep is not None:
                with contextlib.suppress(ApiError, ApiUnreachable):
                    await kind.sweep()

    async def stop(self) -> None:
        """End Kopf, and wait for that a few seconds."""
        self._stopping.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, _STOP_SECONDS)
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._filter)

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                kopf.run(
                    registry=self._build_registry(),
                    settings=self._build_settings(),
                    standalone=True,
                    clusterwide=True,
                    stop_flag=self._stopping,
                )
            except Exception:
                self._defect_logger.exception(Defect.TASK, task="kinds")
            self._stopping.wait(doubled(*_RESTART, failures))
            failures += 1

    def _build_registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        self._register_login(registry)
        for kind in self._kinds:
            register(registry, replace(kind, reconcile=self._on_own_loop(kind.reconcile)))
        return registry

    def _on_own_loop(self, reconcile: Reconcile) -> Reconcile:
        """Return what reconciles on the loop of the operator."""

        async def reconcile_there(body: Body) -> Reconciliation:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reconcile(body), self._loop))

        return reconcile_there

    def _build_settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        self._tune(settings)
        settings.persistence.finalizer = KOPF_FINALIZER
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        return settings
