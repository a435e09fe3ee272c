"""The manager: wires together everything that runs while the operator runs.

It outlives the API server: what is missing is named in `/readyz`, tried again, and work goes on. The process ends only
by a defect of our own, or when what is known is worth nothing: another operator decides, etcd was restored, a kind is
served otherwise, or other rules hold. Nothing is allocated before this operator leads, and before all that is served
has been listed once: with half of the objects, devices in use would look free, and taints would be missing.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from functools import partial
from random import random
from secrets import randbits
from typing import Any

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Decider
from dra_operator.api.kinds import KINDS, Kind
from dra_operator.api.names import share_id
from dra_operator.api.versions import RELEASED, RULES, VERSIONS, rules_of
from dra_operator.cluster.backoff import DEFAULT_BACKOFF
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.discovery import Served, served, server_version
from dra_operator.cluster.events import EventRecorder, Subject
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.ownership_policy import RuleAnswer, RuleProbe, refuses
from dra_operator.cluster.reflector import Delta, Reflector
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.cluster.writer import Writer
from dra_operator.cluster.writes import Stale, Stored, WriteOutcome
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimScope, Key, PodUse, pod_use
from dra_operator.controller.cycle import Effect, SchedulingCycle
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.gangs import GROUPS
from dra_operator.controller.health import HealthServer, ReadAccess, WatchHealth, find_trouble, unready_kinds
from dra_operator.controller.leader_election import ANSWERS_SECONDS, POD_NAME, LeaderElection, StandbyAccess
from dra_operator.controller.logs import get_logger
from dra_operator.controller.loop import Loop
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.object_problems import KIND as KIND_OF_TEMPLATES
from dra_operator.controller.owned_devices import PolicyProbe, SettlementTimer
from dra_operator.controller.settings import Settings, Tuning
from dra_operator.controller.waiting_pods import VOLUMES
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.kinds.runtime import KindsRuntime, build_own_kinds
from dra_operator.kinds.world import World
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
OF_PODS = (*VOLUMES, GROUPS)
"""The kinds that are watched where more of pods matters than which claims they use."""
ASIDE = (*OF_PODS, KIND_OF_TEMPLATES)
"""The kinds that no decision waits for; a gated pod whose PodGroup is not known waits by itself."""
NEEDED = ("ResourceClaim", "ResourceSlice", "DeviceClass")
"""The kinds without which there is nothing to do."""
WRITTEN = {KINDS[name].plural: name for name in ("ResourceClaim", "Pod", "DeviceTaintRule")}
"""The kinds that are written to, by what RBAC calls them."""
OPTIONAL = tuple(name for name, kind in WATCHED.items() if kind.group and name not in NEEDED)
"""The kinds that an API server may stop serving, when a feature is switched off."""
CHECK_SECONDS = 2.0
"""How often the operator checks itself."""
REDISCOVER_SECONDS = 60.0
"""How often the API server is asked again for its version, and for kinds that it did not serve."""
OLDER_ANSWERS = 10
"""So often in a row an older version must be told: while servers are upgraded one by one, either may answer."""
CATCHING_UP_SECONDS = 1.0
"""How long a watch that is open again may take to deliver what was missed."""

log = get_logger()


class Manager:
    """The operator without Kopf.

    `runs_kinds`: the kinds of our own as well. `on_crash` is called on the event loop when the process has to begin
    anew; `settle` is called once, in another thread, when everything has been listed and taken in.
    """

    def __init__(
        self,
        settings: Settings,
        access: Access,
        *,
        on_crash: Callable[[], None],
        settle: Callable[[], None] = lambda: None,
        tuning: Tuning = Tuning(),  # noqa: B008 - it is frozen
        runs_kinds: bool = False,
    ) -> None:
        self.metrics = Metrics()
        self.address: str | None = None
        """Where health and metrics are served, as HOST:PORT, once started."""
        self._settings, self._access, self._on_crash = settings, access, on_crash
        self._tuning = tuning
        self._clock = clock = time.monotonic
        self._session = ApiSession(access, answered=self.metrics.count_request)
        self.explains_pods = settings.explain == "all"
        """Whether it is told why pods wait, and what is wrong with ResourceClaimTemplates."""
        self._scope = ClaimScope(settings.claims)
        self._owns_devices = settings.devices == "owned" and self._scope is not ClaimScope.NONE
        """Whether it allocates, and only devices that are its own."""
        self._sees_pods = self.explains_pods or self._scope.has_gated
        """Whether more of pods matters than which claims they use."""
        aside = (*(OF_PODS if self._sees_pods else ()), *([KIND_OF_TEMPLATES] if self.explains_pods else ()))
        self._watched = WATCHED | {name: KINDS[name] for name in aside}
        self._reflectors: dict[str, Reflector] = {}
        self._pods: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble: str | None = messages.NOT_CONNECTED
        self._crashed: str | None = None
        self._rules, self._older_answers = RULES[RELEASED], 0
        self._discovered_at = 0.0
        self._connected = self._stopping = False
        self._cycle = self._build_cycle()
        self._loop = self._build_loop(settle)
        self._election = LeaderElection(self._session, settings, self._record, tuning=tuning)
        self._standby_access = StandbyAccess(WATCHED, clock)
        self._policy_probe = PolicyProbe(self._loop.put, clock)
        self._watch_health = WatchHealth(clock)
        self._read_access = ReadAccess(
            self._own_subject(), self._record, self._tuning.event_refresh_seconds, clock
        )
        self._runs_kinds = runs_kinds
        self._kinds: asyncio.Task[None] | None = None
        self._writers: dict[str, Writer] = {}
        """By what they write to."""
        self._recorder = EventRecorder(
            self._session, busy=self._is_writing, defect_logger=self.metrics.defect_logger
        )
        self._world = World(
            self._session,
            self._loop.put,
            self._election.may_write,
            self._find_served,
            self._recorder.record,
            self.metrics,
        )
        self._health = self._build_health_server()

    def _build_loop(self, settle: Callable[[], None]) -> Loop:
        return Loop(
            self._cycle,
            self._carry_out,
            metrics=self.metrics,
            tuning=self._tuning,
            settle=settle,
            clock=self._clock,
        )

    def _build_cycle(self) -> SchedulingCycle:
        settings = self._settings
        inventory = Inventory(settlement=Settlement() if self._owns_devices else None)
        ledger = Ledger()
        allocator = Allocator(
            inventory,
            ledger,
            limits=Limits(seconds=settings.claim_deadline_seconds, tries=self._tuning.tries_per_node),
            clock=self._clock,
            share_ids=partial(share_id, randbits),
            decider=Decider.OPERATOR,
        )
        return SchedulingCycle(
            inventory,
            ledger,
            allocator,
            explainer=Explainer(allocator),
            metrics=self.metrics,
            event_refresh=self._tuning.event_refresh_seconds,
            clock=self._clock,
            settlement=SettlementTimer(
                settle=settings.ownership_settle_seconds,
                quiet=self._tuning.ownership_quiet_seconds,
            ),
            operator=self._own_subject(),
            hears=self._is_up_to_date,
            has_told=self._has_told_claims,
            has_arrivals=lambda: self._loop.has_arrivals,
            scope=self._scope,
            handback_seconds=settings.handback_seconds,
            explains_pods=self.explains_pods,
        )

    def _build_health_server(self) -> HealthServer:
        self.metrics.ready.set_function(lambda: not self.unready())
        self.metrics.leading.set_function(lambda: self._election.is_leader)
        self.metrics.register_reflectors(lambda: self._reflectors)
        self.metrics.register_events(lambda: self._recorder.counts)
        return HealthServer(
            self._settings.listen,
            stuck=self.stuck,
            unready=self.unready,
            notes=self.notes,
            following=self._election.following,
            metrics=self.metrics.text,
        )

    # --- life

    async def listen(self) -> None:
        """Serve health and metrics. Raises OSError if the address cannot be listened on."""
        self.address = await self._health.start()
        log.info(messages.LISTENING, address=self.address)

    async def start(self) -> None:
        """Start everything else and wait for nothing."""
        self._spawn("events", self._recorder.run())
        self._spawn("loop", self._loop.run())
        self._spawn("connect", self._connect())
        self._spawn("look", self._check_health())

    async def close(self) -> None:
        """Stop: no further cycle, what is being written gets its time, then everything ends."""
        if self._stopping:
            return
        self._stopping = True
        log.info(messages.STOPPING)
        if self._kinds is not None:
            self._kinds.cancel()
            await asyncio.gather(self._kinds, return_exceptions=True)
        drain = self._tuning.drain_seconds
        self._loop.stop()
        try:
            async with asyncio.timeout(drain):
                await self._loop.idle()
        except TimeoutError:
            log.warning(messages.PASS_LATE)
        # Let what the last cycle handed over reach the writer before the writer closes.
        await asyncio.sleep(0)
        # Without the Lease nothing more may be written.
        if left := await self._drain(0 if self._election.ended else drain):
            log.warning(messages.DRAINED, writes=left)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._election.give_up()
        await self._session.close()
        await self._health.stop()
        log.info(messages.STOPPED)

    async def _drain(self, seconds: float) -> int:
        """Let the writers finish; return how many writes were left unfinished."""
        return sum(await asyncio.gather(*[writer.drain(seconds) for writer in self._writers.values()]))

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
        if error is None and task.get_name().endswith((" connect", " question")):
            return
        if error is None and self._election.ended:
            self._crash(self._election.ended)
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
        await self._election.win()
        if self._election.ended:
            self._crash(self._election.ended)
            return
        self._standby_access.end()
        self._spawn("lease", self._election.keep())
        found = await self._discover_needed()
        self._trouble = None
        self._cycle.decide_by(self._rules)
        log.info(
            messages.CONNECTED,
            server=self._access.server,
            rules=f"of Kubernetes {self._rules.kubernetes}",
            **{name: kind.api_version for name, kind in found.items()},
        )
        for name in self._watched:
            if name not in found:
                log.info(messages.NOT_SERVED, kind=name)
        self._watch(found)
        await self._check_policy()
        while late := [found for found in self._decisive().values() if not found.synced.is_set()]:
            await late[0].synced.wait()
        log.info(messages.SYNCED, **{name: len(reflector) for name, reflector in self._reflectors.items()})
        self._connected = True
        self._open_or_close()
        # Before, nobody knows who holds devices.
        await asyncio.sleep(CATCHING_UP_SECONDS)
        self._start_kinds()

    def _start_kinds(self) -> None:
        """Start what runs the kinds of our own."""
        if not self._runs_kinds or self._scope is ClaimScope.NONE or self._stopping:
            return
        kinds = build_own_kinds(
            self._world, self._tuning.maintenance_quiet_seconds, self._settings.ownership_settle_seconds
        )
        runtime = KindsRuntime(self._access, kinds, self._world.find_verbs, self.metrics.defect_logger)
        self._kinds = self._spawn("kinds", runtime.run())

    def _build_writer(self, served: Served) -> Writer:
        """Build the writer of a kind. Of rules there are few, and each changes seldom."""
        is_rule = served.kind.kind == "DeviceTaintRule"
        return Writer(
            self._session,
            served,
            self._handle_outcome,
            may_write=self._election.may_write,
            concurrency=1 if is_rule else self._tuning.write_concurrency,
            timeout=self._tuning.request_timeout_seconds,
            defect_logger=self.metrics.defect_logger,
        )

    async def _discover_needed(self) -> dict[str, Served]:
        """Return what is served, as soon as nothing that is needed is missing."""
        failures = 0
        while True:
            wait = REDISCOVER_SECONDS
            try:
                found = await self._discover()
                missing = [name for name in NEEDED if name not in found]
                if not missing:
                    self._rules = rules_of(await server_version(self._session))
                    return found
                trouble = f"the API server does not serve {', '.join(missing)} of resource.k8s.io"
            except (ApiError, ApiUnreachable) as error:
                failures += 1
                trouble, wait = f"API server: {error}", DEFAULT_BACKOFF.delay(failures, random)
            if trouble != self._trouble:
                log.warning(messages.API_UNAVAILABLE, why=trouble, server=self._access.server)
            self._trouble = trouble
            await self._session.outage.pause(wait)

    def _open_or_close(self) -> None:
        """Let decisions be made when everything has been listed, but not while the claims are being listed again.

        In half a new list of claims, a device may be gone from the old holder and not yet at the new one. Half a list
        of another kind does no more harm than the old one.
        """
        if self._reflectors["ResourceClaim"].halfway:
            self._loop.close()
        elif self._connected and all(found.synced.is_set() for found in self._decisive().values()):
            self._loop.open()

    def _decisive(self) -> dict[str, Reflector]:
        """Return the reflectors that decisions depend on."""
        return {name: found for name, found in self._reflectors.items() if name not in ASIDE}

    async def _discover(self) -> dict[str, Served]:
        self._discovered_at = self._clock()
        return await served(self._session, self._watched)

    def _watch(self, found: dict[str, Served]) -> None:
        """Start a reflector for each kind."""
        for name, kind in found.items():
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
            self._spawn(name, self._reflectors[name].run())
            if kind.kind.plural in WRITTEN and (name != "Pod" or self._scope.has_gated):
                self._writers[kind.kind.plural] = self._build_writer(kind)

    async def _check_policy(self) -> None:
        """Find out which policy protects owned devices."""
        if self._owns_devices:
            await self._policy_probe.check(self._session)

    def _find_served(self, kind: str) -> Served | None:
        """Return how a watched kind is served."""
        reflector = self._reflectors.get(kind)
        return None if reflector is None else reflector.served

    # --- what goes through

    def _deliver(self, delta: Delta) -> None:
        self._loop.put(delta)

    def _deliver_pod(self, delta: Delta) -> None:
        """Pass on which claims a pod uses. Most pods use none; of these nothing is kept but what they ask of nodes."""
        if self._sees_pods:
            self._deliver(delta)
        pod = (delta.namespace, delta.name)
        use = PodUse(*pod, frozenset()) if delta.body is None else pod_use(delta.body)
        if use.claims:
            self._pods.add(pod)
        elif pod in self._pods:
            self._pods.discard(pod)
        else:
            return
        self._loop.put(use)

    def _handle_outcome(self, outcome: WriteOutcome) -> None:
        """Take in the answer to a write: the claim's newest state first, then what it means."""
        try:
            if isinstance(outcome, Stored | Stale) and outcome.body is not None:
                self._reflectors[WRITTEN[outcome.write.resource]].observe(outcome.body)
        finally:
            # Without an outcome the object would wait for it for ever.
            self._loop.put(outcome)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, EventRequest):
            self._record(effect)
        elif isinstance(effect, RuleProbe):
            self._spawn("question", self._ask(effect))
        elif (writer := self._writers.get(effect.resource)) is not None:
            writer.submit(effect)

    async def _ask(self, probe: RuleProbe) -> None:
        """Ask whether the policy knows a rule."""
        answer = RuleAnswer(probe, is_known=False)
        claims, timeout = self._reflectors["ResourceClaim"].served, self._tuning.request_timeout_seconds
        try:
            await self._election.may_write()
            is_known = await refuses(self._session, claims, probe.claim, probe.device, timeout=timeout)
            answer = RuleAnswer(probe, is_known)
        except (ApiError, ApiUnreachable) as error:
            answer = RuleAnswer(probe, is_known=False, error=error)
        finally:
            self._loop.put(answer)

    def _is_writing(self) -> bool:
        """Whether Events should wait, because decisions are being written."""
        return any(writer.busy for writer in self._writers.values())

    def _record(self, event: EventRequest) -> None:
        self._recorder.record(event.subject, event.type, event.reason, event.message)

    # --- checks of itself

    async def _check_health(self) -> None:
        """Measure, and report what has been wrong for some time."""
        while True:
            due = self._clock() + CHECK_SECONDS
            await asyncio.sleep(CHECK_SECONDS)
            now = self._clock()
            self.metrics.loop_lag_seconds.set(max(0.0, now - due))
            self._watch_health.check(self._reflectors)
            if self._election.stands_by:
                await self._standby_access.check(self._session)
            self._check_permissions()
            if self._connected:
                await self._check_policy()
            if self._writers and now - self._discovered_at >= REDISCOVER_SECONDS:
                await self._rediscover()
            if self._connected:
                self._open_or_close()

    def _check_permissions(self) -> None:
        """Report what is denied. Of kinds without an answer yet, or with another trouble now, nothing new is known."""
        asked = (self._standby_access.forbidden or self._reflectors or self._watched).keys() | {"Lease"}
        found = self._standby_access.forbidden | self._election.denials()
        stale = self._tuning.stale_seconds
        for name, reflector in self._reflectors.items():
            if reflector.forbidden is not None or find_trouble(reflector, stale) is None:
                found[name] = reflector.forbidden
        self._read_access.check(found, unanswered=asked - found.keys())

    def _own_subject(self) -> Subject:
        """Return what stands for the operator in the cluster: its pod if known, else its namespace."""
        namespace = self._access.namespace
        if pod := os.environ.get(POD_NAME):
            return Subject("Pod", namespace, pod)
        return Subject("Namespace", "", namespace)

    async def _rediscover(self) -> None:
        """Have the process start again if the API server is of another version by now, or serves other kinds."""
        if await self._is_of_other_version():
            return
        in_trouble = any(reflector.trouble is not None for reflector in self._reflectors.values())
        if all(name in self._reflectors for name in self._watched) and not in_trouble:
            self._discovered_at = self._clock()
            return
        try:
            async with asyncio.timeout(ANSWERS_SECONDS):
                found = await self._discover()
        except (ApiError, ApiUnreachable, TimeoutError):
            return
        if self._stopping or self._crashed is not None:
            return
        for name in self._watched:
            kind, reflector = found.get(name), self._reflectors.get(name)
            now = None if kind is None else kind.api_version
            was = None if reflector is None else reflector.served.api_version
            is_gone = (
                now is None and name in OPTIONAL and reflector is not None and reflector.trouble is not None
            )
            if is_gone or (now is not None and now != was):
                log.critical(messages.SERVED_ANEW, kind=name, was=was or "", now=now or "")
                self._crash(f"{name} is served as {now or 'nothing'} now, was {was or 'nothing'}")
                return

    async def _is_of_other_version(self) -> bool:
        """Return whether the process has to start again, as other rules hold by now."""
        try:
            async with asyncio.timeout(ANSWERS_SECONDS):
                version = await server_version(self._session)
        except (ApiError, ApiUnreachable, TimeoutError):
            return False
        rules = rules_of(version)
        # One that does not say its version is not one of another.
        if not version or rules is self._rules:
            self._older_answers = 0
            return False
        if VERSIONS.index(rules.kubernetes) < VERSIONS.index(self._rules.kubernetes):
            self._older_answers += 1
            if self._older_answers < OLDER_ANSWERS:
                return False
        if self._stopping or self._crashed is not None:
            return False
        was, now = self._rules.kubernetes, rules.kubernetes
        log.critical(messages.OTHER_RULES, version=version, was=was, now=now)
        self._crash(
            f"the API server is {version} now: the rules of Kubernetes {now} hold, no longer those of {was}"
        )
        return True

    def _has_told_claims(self, version: str) -> bool:
        reflector = self._reflectors.get("ResourceClaim")
        return reflector is not None and reflector.has_told(version)

    def _is_up_to_date(self, kind: str) -> bool:
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
        idle = self._clock() - max(self._cycle.progressed_at, self._loop.running_since)
        if idle < self._tuning.stuck_seconds:
            return []
        return [f"a pass has made no progress for {idle:.0f} s"]

    def unready(self) -> list[str]:
        """Return why the operator cannot do its work, for `/readyz`; empty while it can."""
        if self._stopping:
            return ["stopping"]
        reasons = self.stuck() + self._election.unready()
        if self._election.stands_by:
            return reasons + self._standby_access.reasons()
        if self._trouble is not None and not reasons:
            reasons.append(self._trouble)
        reasons.extend(unready_kinds(self._decisive(), self._tuning.stale_seconds))
        reasons.extend(self._cycle.reasons())
        if reasons and self._access.unreadable:
            reasons.append(messages.UNREADABLE)
        if not reasons and not (self._loop.is_open and self._loop.settled):
            reasons.append("about to begin")
        return reasons

    def notes(self) -> list[str]:
        """Return what is not as it should be though the operator does its work, for `/readyz`."""
        error = self._recorder.forbidden
        notes = [] if error is None else [messages.forbidden(error)]
        if self._connected:
            notes += [*self._policy_probe.notes(), *self._cycle.notes()]
            aside = {name: found for name, found in self._reflectors.items() if name in ASIDE}
            notes += unready_kinds(aside, self._tuning.stale_seconds)
        return notes
