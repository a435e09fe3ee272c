"""The runtime of the kinds: Kopf in a thread and a loop of its own, and their way to the state of the operator.

In the operator's own loop the end of Kopf would cancel every task that was made meanwhile (docs/kopf.md). It begins
when the Lease is won and a kind is served, and is started anew, with back-off, whenever it ends.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import kopf
from pydantic import ValidationError

from dra_operator.api.names import KOPF_FINALIZER
from dra_operator.api.read import read_object
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.delivery import Permit
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.faults import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable
from dra_operator.kinds.allocation_policy import (
    GROUP,
    PLURAL,
    VERSION,
    Body,
    Change,
    ClaimName,
    Create,
    Delete,
    Plan,
    Policy,
    Rule,
    find_kept,
    find_selectors,
    plan,
    read_policy,
    read_rule,
)
from dra_operator.kinds.handlers import RULES_LEFT, register_policies
from dra_operator.kinds.selector import Selector
from dra_operator.ledger import Ledger
from dra_operator.questions.raw_devices import DeviceKey

T = TypeVar("T")
POLICIES: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
_RESTART: Final = (1.0, 60.0)
"""First and longest wait, in seconds, before Kopf is started anew."""
_STOP_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
_ASK_SECONDS: Final = 10.0
_CONFLICTS: Final = frozenset((404, 409, 422))
"""What a write is answered whose object is another by now: the next reconciliation sees it."""


@dataclass(slots=True)
class Inquiry:
    """A question about the state, which the thread of cycles answers."""

    ask: Callable[[Ledger], Any]
    future: "concurrent.futures.Future[Any]"

    def refuse(self) -> None:
        """Say that nothing is known now: not all claims are listed."""
        if self.future.set_running_or_notify_cancel():
            why = "claims are being listed, so nobody knows who holds devices"
            self.future.set_exception(ApiUnreachable(why))

    def answer(self, ledger: Ledger) -> None:
        """Answer it, unless nobody waits any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.ask(ledger))
        except Exception as error:  # noqa: BLE001 - it is the asker's
            self.future.set_exception(error)


@dataclass(slots=True)
class World:
    """What the kinds read and write, on the loop of the operator.

    `put` queues an inquiry for the next cycle; `may_write` waits until the Lease is held; `rules` is how
    DeviceTaintRules are served, None where they are not.
    """

    session: ApiSession
    put: Callable[[Inquiry], None]
    may_write: Permit
    rules: Callable[[], Served | None]

    async def is_served(self) -> bool | None:
        """Return whether the kinds are served, and may be listed; None if nobody answers."""
        try:
            # Asked first, as everybody may: where the kind is not installed, nothing is refused.
            await self.session.request("GET", f"/apis/{GROUP}/{VERSION}", timeout=_ASK_SECONDS)
            await self.session.request("GET", POLICIES, params={"limit": "1"}, timeout=_ASK_SECONDS)
        except ApiError as error:
            return False if error.status in (403, 404) else None
        except ApiUnreachable:
            return None
        return True

    async def reconcile_policy(self, body: Body) -> Plan:
        """Write what an AllocationPolicy lacks; return the plan. Raises ApiError, ApiUnreachable, ValidationError."""
        served = self.rules()
        if served is None:
            raise ApiUnreachable("the API server does not serve DeviceTaintRule, by which devices are owned")
        others = await self._read_policies()
        policy = read_policy(body)
        # What Kopf has of it may be older than what was just read.
        policy = next((each for each in others if each.uid == policy.uid), replace(policy, selectors=()))
        rules = await self._read_rules(served)
        asked = {selector: find_kept(selector, policy, rules) for selector in find_selectors(policy, rules)}
        holders = await self._ask(lambda ledger: find_holders(asked, ledger))
        found = plan(policy, others, rules, lambda selector: holders[selector], served.api_version)
        for change in found.changes:
            await self._write(served, change)
        return found

    async def _ask(self, ask: Callable[[Ledger], T]) -> T:
        """Return what the thread of cycles answers. Raises ApiUnreachable if no cycle runs in time."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.put(Inquiry(ask, future))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise ApiUnreachable("the operator is busy, and did not say who holds devices") from None

    async def _read_policies(self) -> list[Policy]:
        found = []
        for body in (await self.session.request("GET", POLICIES)).get("items") or ():
            # One that an older schema let pass says so itself, and keeps nothing from the others.
            with contextlib.suppress(ValidationError):
                found.append(read_policy(body))
        return found

    async def _read_rules(self, served: Served) -> list[Rule]:
        items = (await self.session.request("GET", served.path())).get("items") or ()
        found = []
        for item in items:
            body = {"apiVersion": served.api_version, "kind": served.kind.kind, **item}
            rule = read_object(body)
            if isinstance(rule, DeviceTaintRule) and (read := read_rule(rule, body)) is not None:
                found.append(read)
        return found

    async def _write(self, served: Served, change: Change) -> None:
        """Send one change; one that is refused as its rule is another by now is left to the next reconciliation."""
        await self.may_write()
        try:
            match change:
                case Create():
                    await self.session.request("POST", served.path(), body=change.body)
                case Delete():
                    options = {"preconditions": {"uid": change.uid, "resourceVersion": change.version}}
                    await self.session.request("DELETE", served.path(name=change.name), body=options)
                case _:
                    body = {"metadata": change.metadata}
                    path = served.path(name=change.name)
                    await self.session.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status not in _CONFLICTS:
                raise


def find_holders(
    asked: Mapping[Selector, Sequence[Selector]], ledger: Ledger
) -> dict[Selector, Sequence[ClaimName]]:
    """Return the claims that hold devices of each selector, or shares of them, sorted.

    Devices that other selectors, those beside it, name as well do not count.
    """
    found: dict[Selector, Sequence[ClaimName]] = {}
    for selector, kept in asked.items():
        claims: set[ClaimName] = set()
        for driver, pool in ledger.pools():
            devices = {*ledger.held((driver, pool)), *ledger.shared((driver, pool))}
            keys = [DeviceKey(driver, pool, name) for name in devices]
            names = [
                key.name
                for key in keys
                if selector.matches(key) and not any(each.matches(key) for each in kept)
            ]
            claims |= ledger.holders((driver, pool), names)
        found[selector] = sorted(claims)
    return found


class _ExpectedFilter(logging.Filter):
    """Drops what Kopf says in a thread, and each time that a policy is kept as claims hold its devices."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        text = record.getMessage()
        return RULES_LEFT not in text and not text.startswith("OS signals are ignored")


_EXPECTED: Final = _ExpectedFilter()


class KindsRuntime:
    """Runs Kopf for the kinds in a thread of its own, until `stop`.

    `register_login` adds the handler by which Kopf logs in, `tune` sets up what is not about kinds.
    """

    def __init__(
        self,
        world: World,
        register_login: Callable[[kopf.OperatorRegistry], None],
        tune: Callable[[kopf.OperatorSettings], None],
        defect_logger: DefectLogger = UNCOUNTED,
    ) -> None:
        self._world = world
        self._register_login = register_login
        self._tune = tune
        self._defect_logger = defect_logger
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dra-operator kinds", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        for name in ("kopf.objects", "kopf._core.reactor.running"):
            logging.getLogger(name).addFilter(_EXPECTED)
        self._thread.start()

    async def stop(self) -> None:
        """End Kopf, and wait for that a few seconds."""
        self._stopping.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, _STOP_SECONDS)

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
        register_policies(registry, self._reconcile)
        return registry

    async def _reconcile(self, body: Body) -> Plan:
        """Reconcile on the loop of the operator."""
        found = asyncio.run_coroutine_threadsafe(self._world.reconcile_policy(body), self._loop)
        return await asyncio.wrap_future(found)

    def _build_settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        self._tune(settings)
        settings.persistence.finalizer = KOPF_FINALIZER
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        return settings
