"""The runtime: wires together everything that runs while the operator runs.

It must outlive the API server. At the start the API server may not be there; later the control plane may be away for
minutes, or a permission may be missing for an hour. None of that ends the process, since a restart would not help and
would lose what is known: the runtime says in `/readyz` what is missing, goes on trying, and resumes. What ends it is a
defect of our own, or that what is known is worth nothing: another operator decides, etcd was restored, or a kind is
served in another version.

Nothing is allocated before this operator is the only one that decides (`controller.leading`), and before every kind
that is served has been listed once. With half of the objects, devices in use would look free, and taints would be
missing.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from random import random
from secrets import randbits
from typing import Any

from dra_operator.allocator import Allocator, Decider, Limits
from dra_operator.api.kinds import KINDS, Kind
from dra_operator.api.names import share_id
from dra_operator.cluster.access import Access
from dra_operator.cluster.backoff import DEFAULT_BACKOFF
from dra_operator.cluster.discovery import Served, served
from dra_operator.cluster.events import EventRecorder
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.reflector import Delta, Reflector
from dra_operator.cluster.rule_writer import RuleOutcome, RuleWrite, RuleWriter
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.cluster.writer import Writer
from dra_operator.cluster.writes import Conflict, WriteOutcome, Written
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, PodUse, pod_use
from dra_operator.controller.denials import Denials
from dra_operator.controller.desk import Effect
from dra_operator.controller.dry_run import TOLD_UP_TO, DryRun
from dra_operator.controller.health import HealthServer
from dra_operator.controller.interruptions import Interruptions
from dra_operator.controller.leading import Leading
from dra_operator.controller.logs import get_logger
from dra_operator.controller.loop import Loop
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.ownership_fence import OwnershipFence
from dra_operator.controller.passes import Passes
from dra_operator.controller.reports import Notice, Subject
from dra_operator.controller.settings import Settings
from dra_operator.controller.settlement import SettlementTimer
from dra_operator.controller.standby import ANSWERS_SECONDS, Standby
from dra_operator.controller.unheard import trouble_of, unheard
from dra_operator.controller.unsaid import Unsaid
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import Ledger

WATCHED: dict[str, Kind] = {
    name: KINDS[name]
    for name in (
        "ResourceClaim",
        "ResourceSlice",
        "DeviceClass",
        "DeviceTaintRule",
        "Node",
        "Namespace",
        "Pod",
    )
}
"""The kinds that decisions depend on."""
NEEDED = ("ResourceClaim", "ResourceSlice", "DeviceClass")
"""The kinds without which there is nothing to do."""
OPTIONAL = tuple(name for name, kind in WATCHED.items() if kind.group and name not in NEEDED)
"""The kinds that an API server may stop serving, when a feature is switched off."""
LOOK_SECONDS = 2.0
"""How often the runtime looks after itself."""
REDISCOVER_SECONDS = 60.0
"""How often the API server is asked again for kinds that it did not serve."""
CATCHING_UP_SECONDS = 1.0
"""How long a watch that is open again may take to tell what was missed."""

log = get_logger()


class Runtime:
    """The operator without its shell.

    `on_crash` is called on the event loop when the process has to begin anew; `settle` is called once, in another
    thread, when everything has been listed and taken in. `dry_run` gets what would otherwise be written.
    """

    def __init__(
        self,
        settings: Settings,
        access: Access,
        *,
        on_crash: Callable[[], None],
        settle: Callable[[], None] = lambda: None,
        dry_run: DryRun | None = None,
    ) -> None:
        self.metrics = Metrics()
        self.address: str | None = None
        """Where health and metrics are served, as HOST:PORT, once started."""
        self._settings = settings
        self._access = access
        self._on_crash = on_crash
        self._clock = clock = time.monotonic
        self._owns = settings.devices == "owned"
        inventory = Inventory(settlement=Settlement() if self._owns else None)
        ledger = Ledger()
        allocator = Allocator(
            inventory,
            ledger,
            limits=Limits(seconds=settings.claim_deadline_seconds, tries=settings.tries_per_node),
            clock=clock,
            share_ids=partial(share_id, randbits),
            decider=Decider.OPERATOR,
        )
        self._passes = Passes(
            inventory,
            ledger,
            allocator,
            metrics=self.metrics,
            event_refresh=settings.event_refresh_seconds,
            clock=clock,
            settlement=SettlementTimer(
                settle=settings.ownership_settle_seconds,
                quiet=settings.ownership_quiet_seconds,
                holds_rules=dry_run is None,
            ),
            operator=self._self(),
            hears=self._hears,
        )
        self._loop = Loop(
            self._passes,
            self._carry_out,
            metrics=self.metrics,
            quiet=settings.quiet_seconds,
            latest=settings.latest_seconds,
            full=settings.full_pass_seconds,
            settle=settle,
            clock=clock,
        )
        self._leading = Leading(settings, access, self._record, self._has_told)
        self._standby = Standby(WATCHED, clock)
        self._ownership_fence = OwnershipFence(self._loop.put, clock, asks_who=dry_run is None)
        self.metrics.ready.set_function(lambda: not self.unready())
        self.metrics.leading.set_function(lambda: self._leading.is_leader)
        self.metrics.tell_reflectors(lambda: self._reflectors)
        self.metrics.count_events(lambda: self._recorder.counts if self._recorder is not None else {})
        self._health = HealthServer(
            settings.listen,
            stuck=self.stuck,
            unready=self.unready,
            notes=self.notes,
            following=self._leading.following,
            metrics=self.metrics.text,
        )
        self._interruptions = Interruptions(clock)
        self._denials = Denials(self._self(), self._record, settings.event_refresh_seconds, clock)
        self._session: ApiSession | None = None
        self._recorder: EventRecorder | None = None
        self._rule_writer: RuleWriter | None = None
        self._writer: Writer | DryRun | None = None
        self._dry_run = dry_run
        if dry_run is not None:
            dry_run.deliver_to(self._loop.put)
            # What an earlier operator had sent could only be in the way of writes.
            self._passes.fence.waive()
        self._reflectors: dict[str, Reflector] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._pods: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble: str | None = messages.NOT_CONNECTED
        self._discovered_at = 0.0
        self._unsaid: Unsaid | None = None
        self._crashed: str | None = None
        self._connected = False
        self._stopping = False

    # --- life

    async def listen(self) -> None:
        """Serve health and metrics. Raises OSError if the address cannot be listened on."""
        self.address = await self._health.start()
        log.info(messages.LISTENING, address=self.address)

    async def start(self) -> None:
        """Start everything else and wait for nothing."""
        self._session = ApiSession(self._access, answered=self.metrics.count_request)
        if self._dry_run is None:
            self._recorder = EventRecorder(
                self._session, busy=self._is_writing, defect_logger=self.metrics.defect_logger
            )
            self._unsaid = Unsaid(self._recorder, self._clock)
            self._spawn("events", self._recorder.run())
        self._spawn("loop", self._loop.run())
        self._spawn("connect", self._connect())
        self._spawn("look", self._look_after())

    async def close(self) -> None:
        """Stop: no further pass, what is being written gets its time, then everything ends."""
        if self._stopping:
            return
        self._stopping = True
        log.info(messages.STOPPING)
        drain = self._settings.drain_seconds
        self._loop.stop()
        try:
            async with asyncio.timeout(drain):
                await self._loop.idle()
        except TimeoutError:
            log.warning(messages.PASS_LATE)
        # Let what the last pass handed over reach the writer before the writer closes.
        await asyncio.sleep(0)
        # Without the Lease nothing more may be written.
        if self._writer is not None and (
            left := await self._writer.drain(0 if self._leading.ended else drain)
        ):
            log.warning(messages.DRAINED, writes=left)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._leading.give_up()
            await self._session.close()
        await self._health.stop()
        log.info(messages.STOPPED)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"dra-operator {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Notice that a part has ended, which none may: asyncio would keep its exception to itself."""
        self._tasks.discard(task)
        if task.cancelled() or self._stopping:
            return
        error = task.exception()
        if error is None and task.get_name().endswith(" connect"):
            return
        if error is None and self._leading.ended:
            self._crash(self._leading.ended)
            return
        self.metrics.defect_logger.critical(Defect.TASK, error, task=task.get_name())
        self._crash(f"{task.get_name()} ended: {error!r}")

    def _crash(self, why: str) -> None:
        """Have the process end, and say why at /healthz until then."""
        self._crashed = why
        self._on_crash()

    # --- connecting

    async def _connect(self) -> None:
        """Get the Lease, find out what is served, watch it, and begin when everything has been listed."""
        assert self._session is not None
        await self._leading.win(self._session)
        if self._leading.ended:
            self._crash(self._leading.ended)
            return
        self._standby.end()
        self._passes.desk.telling.events_delivered_up_to = (
            TOLD_UP_TO if self._dry_run else self._leading.events_delivered_up_to
        )
        self._spawn("lease", self._leading.keep())
        failures = 0
        while True:
            wait = REDISCOVER_SECONDS
            try:
                found = await self._discover()
                missing = [name for name in NEEDED if name not in found]
                if not missing:
                    break
                trouble = f"the API server does not serve {', '.join(missing)} of resource.k8s.io"
            except (ApiError, ApiUnreachable) as error:
                failures += 1
                trouble, wait = f"API server: {error}", DEFAULT_BACKOFF.delay(failures, random)
            if trouble != self._trouble:
                log.warning(messages.API_UNAVAILABLE, why=trouble, server=self._access.server)
            self._trouble = trouble
            await self._session.outage.pause(wait)
        self._trouble = None
        log.info(
            messages.CONNECTED,
            server=self._access.server,
            **{name: kind.api_version for name, kind in found.items()},
        )
        self._writer = self._dry_run or Writer(
            self._session,
            found["ResourceClaim"],
            self._take_outcome,
            may_write=self._leading.may_write,
            concurrency=self._settings.write_concurrency,
            timeout=self._settings.request_timeout_seconds,
            defect_logger=self.metrics.defect_logger,
        )
        for name in WATCHED:
            if name not in found:
                log.info(messages.NOT_SERVED, kind=name)
        self._watch(found)
        await self._look_at_ownership()
        while late := [found for found in self._reflectors.values() if not found.synced.is_set()]:
            await late[0].synced.wait()
        log.info(messages.SYNCED, **{name: len(reflector) for name, reflector in self._reflectors.items()})
        self._connected = True
        self._open_or_close()

    def _open_or_close(self) -> None:
        """Let decisions be made when everything has been listed, but not while the claims are being listed again.

        In half a new list of claims, a device may be gone from the old holder and not yet at the new one. Half a list
        of another kind does no more harm than the old one.
        """
        if self._reflectors["ResourceClaim"].halfway:
            self._loop.close()
        elif self._connected and all(found.synced.is_set() for found in self._reflectors.values()):
            self._loop.open()

    async def _discover(self) -> dict[str, Served]:
        assert self._session is not None
        self._discovered_at = self._clock()
        return await served(self._session, WATCHED)

    def _watch(self, found: dict[str, Served]) -> None:
        """Start a reflector for each kind that has none."""
        assert self._session is not None
        for name, kind in found.items():
            if name in self._reflectors:
                continue
            deliver = self._deliver_pod if name == "Pod" else self._deliver
            self._reflectors[name] = Reflector(
                self._session,
                kind,
                deliver,
                room=self._loop.room,
                turned=self._open_or_close,
                clock=self._clock,
                defect_logger=self.metrics.defect_logger,
            )
            self._watches[name] = self._spawn(name, self._reflectors[name].run())
            # A dry run writes to no rule, so each of its writes stays under way.
            if name == "DeviceTaintRule" and self._rule_writer is None and self._dry_run is None:
                self._rule_writer = RuleWriter(
                    self._session,
                    kind,
                    self._take_rule_outcome,
                    may_write=self._leading.may_write,
                    timeout=self._settings.request_timeout_seconds,
                )
                self._spawn("rules", self._rule_writer.run())

    async def _look_at_ownership(self) -> None:
        """Find out which policy protects owned devices."""
        if self._owns and self._session is not None:
            await self._ownership_fence.look(self._session)

    # --- what goes through

    def _deliver(self, delta: Delta) -> None:
        if self._dry_run is not None:
            self._dry_run.observe(delta)
        self._loop.put(delta)
        if delta.body is None and self._recorder is not None:
            self._recorder.forget(delta.kind, delta.namespace, delta.name)

    def _deliver_pod(self, delta: Delta) -> None:
        """Pass on which claims a pod uses. Most pods use none; of these nothing is kept."""
        pod = (delta.namespace, delta.name)
        use = PodUse(*pod, frozenset()) if delta.body is None else pod_use(delta.body)
        if use.claims:
            self._pods.add(pod)
        elif pod in self._pods:
            self._pods.discard(pod)
        else:
            return
        self._loop.put(use)

    def _take_outcome(self, outcome: WriteOutcome) -> None:
        """Take in the answer to a write: the claim's newest state first, then what it means."""
        try:
            if isinstance(outcome, Written | Conflict) and outcome.body is not None:
                self._reflectors["ResourceClaim"].observe(outcome.body)
        finally:
            # Without an outcome the claim would wait for it for ever.
            self._loop.put(outcome)

    def _take_rule_outcome(self, outcome: RuleOutcome) -> None:
        """Take in the answer to a write to a rule: the newest state of the rule first."""
        try:
            if (
                outcome.body is not None
                and (reflector := self._reflectors.get("DeviceTaintRule")) is not None
            ):
                reflector.observe(dict(outcome.body))
        finally:
            self._loop.put(outcome)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Notice):
            self._record(effect)
        elif isinstance(effect, RuleWrite):
            if self._rule_writer is not None:
                self._rule_writer.submit(effect)
        elif self._writer is not None:
            self._writer.submit(effect)

    def _is_writing(self) -> bool:
        """Whether Events should wait, because decisions are being written."""
        return self._writer is not None and self._writer.busy

    def _record(self, notice: Notice) -> None:
        if self._dry_run is not None:
            self._dry_run.record(notice)
        if self._recorder is not None:
            self._recorder.record(notice.subject, notice.type, notice.reason, notice.message)

    def _has_told(self) -> bool:
        """Whether each claim that was found waiting has been looked at, and all Events have been sent."""
        return self._loop.settled and self._recorder is not None and not self._recorder.pending

    # --- looking after itself

    async def _look_after(self) -> None:
        """Measure, and report what has been wrong for some time."""
        while True:
            due = self._clock() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            now = self._clock()
            self.metrics.loop_lag_seconds.set(max(0.0, now - due))
            self._interruptions.look(self._reflectors)
            if self._session is not None and self._leading.stands_by:
                await self._standby.look(self._session)
            self._look_at_rights()
            if self._connected:
                await self._look_at_ownership()
            if self._unsaid is not None:
                self._unsaid.look()
            if self._writer is not None and now - self._discovered_at >= REDISCOVER_SECONDS:
                await self._rediscover()
            if self._connected:
                self._open_or_close()

    def _look_at_rights(self) -> None:
        """Tell what is denied. Of kinds that have no answer yet, or have another trouble now, nothing new is known."""
        asked = (self._standby.forbidden or self._reflectors or WATCHED).keys() | {"Lease"}
        found = self._standby.forbidden | self._leading.denials()
        stale = self._settings.stale_seconds
        for name, reflector in self._reflectors.items():
            if reflector.forbidden is not None or trouble_of(reflector, stale) is None:
                found[name] = reflector.forbidden
        self._denials.look(found, unanswered=asked - found.keys())

    def _self(self) -> Subject:
        """Return what stands for the operator in the cluster: its pod if known, else its namespace."""
        namespace = self._access.namespace
        if self._settings.pod_name:
            return Subject("Pod", namespace, self._settings.pod_name)
        return Subject("Namespace", "", namespace)

    async def _rediscover(self) -> None:
        """Watch kinds that are served by now. If one is served in another version, the process must start again."""
        in_trouble = any(reflector.trouble is not None for reflector in self._reflectors.values())
        if all(name in self._reflectors for name in WATCHED) and not in_trouble:
            self._discovered_at = self._clock()
            return
        try:
            async with asyncio.timeout(ANSWERS_SECONDS):
                found = await self._discover()
        except (ApiError, ApiUnreachable, TimeoutError):
            return
        if self._stopping or self._crashed is not None:
            return
        for name, kind in found.items():
            reflector = self._reflectors.get(name)
            if reflector is not None and reflector.served != kind:
                was, now = reflector.served.api_version, kind.api_version
                log.critical(messages.SERVED_ANEW, kind=name, was=was, now=now)
                self._crash(f"{name} is served as {now} now, was {was}")
                return
        for name in OPTIONAL:
            if name not in found and name in self._reflectors and self._reflectors[name].trouble is not None:
                await self._unwatch(name)
        if any(name not in self._reflectors for name in found):
            # As at the start: nothing may be decided before the objects of the new kind are known.
            self._loop.close()
            self._watch(found)

    async def _unwatch(self, name: str) -> None:
        """Forget a kind that is no longer served, with all of its objects."""
        task, reflector = self._watches.pop(name), self._reflectors.pop(name)
        task.cancel()
        await asyncio.wait([task])
        reflector.end()
        log.info(messages.NOT_SERVED, kind=name)

    def _hears(self, kind: str) -> bool:
        if (reflector := self._reflectors.get(kind)) is None or reflector.trouble is not None:
            return False
        return self._clock() >= reflector.well_since + CATCHING_UP_SECONDS

    # --- health

    def stuck(self) -> list[str]:
        """Return why the operator is not alive, for `/healthz`; empty while it is."""
        if self._crashed is not None:
            return [self._crashed]
        if self._loop.running_since is None:
            return []
        idle = self._clock() - max(self._passes.progressed_at, self._loop.running_since)
        if idle < self._settings.stuck_seconds:
            return []
        return [f"a pass has made no progress for {idle:.0f} s"]

    def unready(self) -> list[str]:
        """Return why the operator cannot do its work, for `/readyz`; empty while it can."""
        if self._stopping:
            return ["stopping"]
        reasons = self.stuck() + self._leading.unready()
        if self._leading.stands_by:
            return reasons + self._standby.texts()
        if self._trouble is not None and not reasons:
            reasons.append(self._trouble)
        reasons.extend(unheard(self._reflectors, self._settings.stale_seconds))
        reasons.extend(self._passes.fence.texts())
        reasons.extend(self._passes.desk.rights.texts())
        if reasons and self._access.unreadable:
            reasons.append(messages.UNREADABLE)
        if not reasons and not (self._loop.is_open and self._loop.settled):
            reasons.append("about to begin")
        return reasons

    def notes(self) -> list[str]:
        """Return what is not as it should be though the operator does its work, for `/readyz`."""
        error = self._recorder.forbidden if self._recorder is not None else None
        notes = [] if error is None else [messages.forbidden(error)]
        if self._connected:
            notes += [*self._ownership_fence.notes(), *self._passes.owned.notes()]
        return notes

    def summary(self) -> dict[str, Any]:
        """Return a few facts for Kopf's probe."""
        return {
            "ready": not self.unready(),
            "leading": self._leading.is_leader,
            "pass": self._passes.desk.number,
            "objects": {name: len(reflector) for name, reflector in self._reflectors.items()},
        }
