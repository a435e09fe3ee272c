"""Owned devices: from when they may be used, which policy protects them, and the rules that own them.

With the policy, `settle` seconds after the rule came or was changed, if a dry run then shows that it is in force.
Otherwise, when nobody else has stored an allocation in the pool for `quiet` seconds: likely the last one, not surely.
A rule gets a finalizer, so that it stays in force while allocations are being written, and an annotation once it has
settled. Source: docs/ownership.md.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import OWNED_FINALIZER, OWNED_POLICY, SETTLED_ANNOTATION
from dra_operator.api.text import listed
from dra_operator.api.types import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    DeviceTaintSelector,
)
from dra_operator.cluster.discovery import served
from dra_operator.cluster.events import Subject
from dra_operator.cluster.ownership_policy import (
    PATHS,
    PoolsFence,
    RuleAnswer,
    RuleProbe,
    RulesFence,
    fenced,
)
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.cluster.writes import Denied, Stale, Stored, Unclear, Write, WriteOutcome, mark_rule
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, text
from dra_operator.controller.context import Context
from dra_operator.controller.facts import warning
from dra_operator.controller.ingest import DeltaEffects
from dra_operator.controller.logs import get_logger
from dra_operator.controller.queue import Backoff
from dra_operator.inventory import ChangeSet, Slice
from dra_operator.inventory.ownership import RuleStatus, is_owned_taint, owns, settled_mark
from dra_operator.inventory.slices import PoolKey
from dra_operator.inventory.taints import names_device, touches


@dataclass(frozen=True, slots=True)
class PolicyState:
    """Which policy refuses allocations of owned devices by others; without one `why` says why it is not there.

    One that was deleted and installed again has another `uid`.
    """

    fence: RulesFence | PoolsFence | None
    why: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class SettlementState:
    """The rules and pools whose devices may be used; `unfenced` are pools that no policy protects.

    `marked` are the rules of which all that they own may be used, with the mark of each. `unproven` are those that the
    API server is to be asked about, `unknown` those that it does not know by its last answer, and why. `due` is when
    time alone changes this, by the clock, or None.
    """

    rules: frozenset[str] = frozenset()
    marked: Mapping[str, str] = field(default_factory=dict)
    pools: frozenset[PoolKey] = frozenset()
    unfenced: frozenset[PoolKey] = frozenset()
    unproven: frozenset[str] = frozenset()
    unknown: Mapping[str, str] = field(default_factory=dict)
    due: float | None = None


@dataclass(slots=True)
class SettlementTimer:
    """Remembers when taints, allocations of others and the policy were first seen. Times are of one monotonic clock.

    A rule counts only with our finalizer, without which it could go while allocations are being written.
    """

    settle: float
    quiet: float
    policy: PolicyState | None = None
    """None until it has been looked for."""
    _policy_since: float = math.inf
    _rules: dict[str, tuple[object, float]] = field(default_factory=dict)
    """By name: uid and generation of a rule, and when it was first seen so."""
    _published: dict[PoolKey, float] = field(default_factory=dict)
    _stored: dict[PoolKey, float] = field(default_factory=dict)
    _answers: dict[str, str] = field(default_factory=dict)
    """By mark: empty if the API server knows the rule, else why nobody can rely on that."""
    _breached_at: float = -math.inf

    def observe_policy(self, state: PolicyState, now: float) -> None:
        """Take in the policy that is installed now."""
        before = self.policy
        if before is None or (before.fence, before.uid) != (state.fence, state.uid):
            self._policy_since = now
        self.policy = state

    def observe_rules(self, rules: Mapping[str, DeviceTaintRule], now: float) -> None:
        """Take in the rules that own devices: one that came or was changed is seen from now on."""
        known, self._rules = self._rules, {}
        uids = {rule.metadata.uid for rule in rules.values()}
        self._answers = {mark: why for mark, why in self._answers.items() if mark.partition("/")[0] in uids}
        for name, rule in rules.items():
            if owns(rule) and not rule.metadata.deletion_timestamp:
                identity = (rule.metadata.uid, rule.metadata.generation)
                before = known.get(name)
                self._rules[name] = before if before and before[0] == identity else (identity, now)

    def observe_published(self, key: PoolKey, now: float, *, owned: bool) -> None:
        """Take in whether slices of a pool publish devices with the owned taint."""
        if owned:
            self._published.setdefault(key, now)
        else:
            self._published.pop(key, None)

    def observe_allocation(self, key: PoolKey, now: float) -> None:
        """Take in that somebody else has stored an allocation in a pool."""
        self._stored[key] = now

    def observe_breach(self, now: float) -> None:
        """Take in that somebody else has allocated a device that the policy protects: what it promised was not so."""
        self._breached_at = now
        self._answers.clear()

    def observe_answer(self, mark: str, why: str) -> None:
        """Take in whether the API server knows the rule of a mark; `why` is empty if it does."""
        self._answers[mark] = why

    @property
    def breach_ends(self) -> float:
        """From when on owned devices may be used again, after somebody else has allocated a protected one."""
        return self._breached_at + self.quiet

    @property
    def owns_any(self) -> bool:
        """True if any taint in force owns devices."""
        return bool(self._rules or self._published)

    def settled(
        self, rules: Mapping[str, DeviceTaintRule], pools: Iterable[PoolKey], now: float
    ) -> SettlementState:
        """Return what may be used by now; nothing until the policy has been looked for."""
        if self.policy is None:
            return SettlementState()
        # Nodes come and go, and most pools with them.
        self._stored = {key: at for key, at in self._stored.items() if at + self.quiet > now}
        fence, owning = self.policy.fence, [rules[name] for name in self._rules]
        follows = isinstance(fence, RulesFence)
        known = self._judge_rules(owning, now) if follows else SettlementState()
        exposed = known.unknown.keys() if follows else self._rules.keys()
        ends = [] if known.due is None else [known.due]
        used, unfenced, waiting = set[PoolKey](), set[PoolKey](), set[str]()
        for key in pools if exposed else self._published:
            here = [rule for rule in owning if touches(rule, *key)]
            if not any(rule.metadata.name in exposed for rule in here) and key not in self._published:
                continue
            if isinstance(fence, PoolsFence) and fence.covers(*key):
                end = max([self._fenced_end(rule) for rule in here] + self._published_end(key))
            else:
                unfenced.add(key)
                end = self._quiet_end(key, here)
            ends.append(end)
            if end <= now:
                used.add(key)
            else:
                waiting.update(rule.metadata.name for rule in here)
        uid = self.policy.uid if isinstance(fence, PoolsFence) else ""
        marked = {
            rule.metadata.name: settled_mark(rule.metadata, uid)
            for rule in owning
            if rule.metadata.name in exposed and rule.metadata.name not in waiting
        }
        return replace(
            known,
            marked={**known.marked, **marked},
            pools=frozenset(used),
            unfenced=frozenset(unfenced),
            due=_next(ends, now),
        )

    def _judge_rules(self, owning: Iterable[DeviceTaintRule], now: float) -> SettlementState:
        """Return which rules a policy protects that follows them, and which it would if the API server knew them."""
        uid = self.policy.uid if self.policy is not None else ""
        marked, unproven, unknown, ends = dict[str, str](), set[str](), dict[str, str](), list[float]()
        for rule in owning:
            name, mark = rule.metadata.name, settled_mark(rule.metadata, uid)
            ends.append(end := self._fenced_end(rule))
            if now < end:
                continue
            if _mark(rule) == mark or self._answers.get(mark) == "":
                marked[name] = mark
            else:
                unproven.add(name)
                if mark in self._answers:
                    unknown[name] = self._answers[mark]
        return SettlementState(
            rules=frozenset(marked),
            marked=marked,
            unproven=frozenset(unproven),
            unknown=unknown,
            due=_next(ends, now),
        )

    def _is_held(self, rule: DeviceTaintRule) -> bool:
        return OWNED_FINALIZER in rule.metadata.finalizers

    def _fenced_end(self, rule: DeviceTaintRule) -> float:
        """Return from when the devices of a rule may be used that a policy protects: what has settled stays so."""
        if not self._is_held(rule):
            return math.inf
        uid = self.policy.uid if self.policy is not None else ""
        if _mark(rule) == settled_mark(rule.metadata, uid):
            return self.breach_ends
        seen = max(self._rules[rule.metadata.name][1], self._policy_since)
        return max(seen + self.settle, self.breach_ends)

    def _published_end(self, key: PoolKey) -> list[float]:
        """Return from when devices may be used that their slices own and a policy protects, if there are any."""
        begun = self._published.get(key)
        if begun is None:
            return []
        return [max(max(begun, self._policy_since) + self.settle, self.breach_ends)]

    def _quiet_end(self, key: PoolKey, rules: Sequence[DeviceTaintRule]) -> float:
        """Return from when the owned devices of a pool may be used that no policy protects.

        Nobody knows what was stored before this operator began, so the time starts anew with it.
        """
        if not all(map(self._is_held, rules)):
            return math.inf
        begun = [self._rules[rule.metadata.name][1] for rule in rules]
        begun += [self._stored.get(key, -math.inf), self._breached_at]
        begun.append(self._published.get(key, -math.inf))
        return max(begun) + self.quiet


def _next(ends: Iterable[float], now: float) -> float | None:
    return min((end for end in ends if now < end < math.inf), default=None)


def _any_device(rule: DeviceTaintRule) -> tuple[str, str, str]:
    """Return driver, pool and name of a device that the rule owns; it need not exist."""
    selector = rule.spec.device_selector or DeviceTaintSelector()
    return selector.driver or "any", selector.pool or "any", selector.device or "any"


def _mark(rule: DeviceTaintRule) -> str | None:
    return rule.metadata.annotations.get(SETTLED_ANNOTATION)


ASKED = (1.0, 15.0)
"""First and longest wait, in seconds, until the API server is asked again whether it knows a rule."""
CONFLICT = (0.05, 30.0)
"""First and longest wait, in seconds, of a rule that was changed; it waits for the newer version at most."""
RETRY = (5.0, 300.0)
"""First and longest wait, in seconds, after a write to a rule that was not accepted."""
_KIND = "DeviceTaintRule"

log = get_logger()


@dataclass(slots=True)
class OwnedDevices:
    """Used in the thread of cycles; `notes` may be called in any.

    Where the inventory has no settlement, all devices are ours, and rules are only let go of.
    """

    context: Context
    timer: SettlementTimer
    operator: Subject
    """What stands for the operator itself in Events."""
    _owns_any: bool | None = None
    _settled: SettlementState = field(default_factory=SettlementState)
    _writing: set[str] = field(default_factory=set)
    _backoff: Backoff = field(init=False)
    _ask_backoff: Backoff = field(init=False)
    _asked: int = 0
    _breach: str = ""
    """The last device that somebody else has allocated although it is protected."""
    _forbidden: str = ""
    _dirty: bool = True
    _version: int = -1
    _changes: ChangeSet = field(default_factory=ChangeSet)

    def __post_init__(self) -> None:
        if self.context.inventory.settlement is not None:
            # Else nobody takes in what has changed, and it would heap up.
            self._changes = self.context.inventory.subscribe()
        self._backoff = Backoff("rule", self.context.clock, self.context.timers)
        self._ask_backoff = Backoff("rule asked about", self.context.clock, self.context.timers)

    # --- what is known

    def observe_policy(self, state: PolicyState) -> None:
        """Take in which policy is installed."""
        if self.timer.policy != state:
            if state.fence is not None:
                log.info(messages.OWNERSHIP_FENCE, fence=type(state.fence).__name__)
            else:
                # Nothing is guaranteed.
                log.warning(messages.OWNERSHIP_FENCE, fence="", why=state.why)
            self._dirty = True
        self.timer.observe_policy(state, self.context.clock())

    def observe_claims(self, effects: DeltaEffects, *, is_certain: bool = True) -> None:
        """Take in which claims somebody else allocated, and report those on devices that are ours.

        `is_certain` is False while it may have been an operator before this one.
        """
        if self.context.inventory.settlement is None:
            return
        for key in effects.foreign:
            for result in self.context.ledger.results(key):
                if not result.admin_access:
                    self.timer.observe_allocation((result.driver, result.pool), self.context.clock())
                    self._dirty = self._dirty or (result.driver, result.pool) in self._settled.unfenced
                    is_fenced = (result.driver, result.pool) not in self._settled.unfenced
                    self._report_foreign(key, result, is_breach=is_certain and is_fenced)

    def _observe_breach(self, device: str) -> None:
        """Use no device on the word of the policy until it has kept it for long enough."""
        now = self.context.clock()
        if now >= self.timer.breach_ends:
            log.warning(messages.OWNERSHIP_BREACHED, device=device, seconds=self.timer.quiet)
        self._breach, self._dirty = device, True
        self.timer.observe_breach(now)

    def observe_answer(self, answer: RuleAnswer) -> None:
        """Take in whether the API server knows a rule."""
        probe = answer.probe
        self._writing.discard(probe.name)
        why = ""
        if not answer.is_known:
            why = messages.NOT_KNOWN if answer.error is None else messages.not_asked(str(answer.error))
            self._ask_backoff.add(("", probe.name), probe.mark, *ASKED)
            log.info(messages.RULE_UNKNOWN, rule=probe.name, why=why)
        self.timer.observe_answer(probe.mark, why)
        self._dirty = True

    def observe_outcome(self, outcome: WriteOutcome) -> None:
        """Take in what came of a write to a rule."""
        write, key = outcome.write, outcome.write.key
        self._writing.discard(key[1])
        match outcome:
            case Stored():
                self._backoff.remove(key)
                self._forbidden = ""
            case Stale():
                # Until the watch tells what is there now, the same would happen.
                self._backoff.add(key, write.uid, *CONFLICT, version=write.version)
            case Denied(message=why, missing=error):
                self._backoff.add(key, write.uid, *RETRY)
                if error is not None:
                    why = self._forbidden = messages.forbidden(error)
                log.warning(messages.RULE_NOT_WRITTEN, rule=key[1], why=why)
            case Unclear():
                self._backoff.add(key, write.uid, *RETRY)

    # --- what follows

    def refresh(self) -> bool:
        """Have the inventory use what has settled by now; return whether that changes any device."""
        self._backoff.pop_expired()
        self._ask_backoff.pop_expired()
        if self.context.inventory.settlement is None:
            return False
        now = self.context.clock()
        self._follow(now)
        due = self._settled.due
        if not self._dirty and (due is None or now < due):
            return False
        self._dirty = False
        rules, before, version = self.context.inventory.rules, self._settled, self.context.inventory.version
        self.timer.observe_rules(rules, now)
        settled = self._settled = self.timer.settled(rules, self.context.inventory.pools, now)
        self.context.timers.set("settlement", settled.due)
        self._report_owning()
        self.context.inventory.settle(settled.rules, settled.pools)
        if self.context.inventory.version == version:
            return False
        log.info(
            messages.OWNERSHIP_SETTLED,
            rules=sorted(settled.rules - before.rules),
            pools=["/".join(key) for key in sorted(settled.pools - before.pools)],
        )
        return True

    def _follow(self, now: float) -> None:
        """Take in which pools publish owned devices by themselves."""
        pools, self._changes.pools = self._changes.pools, {}
        self._changes.nodes.clear()
        self._changes.classes.clear()
        self._dirty = self._dirty or bool(pools) or self._version != self.context.inventory.rules_version
        self._version = self.context.inventory.rules_version
        for key in pools:
            pool = self.context.inventory.pools.get(key)
            owned = pool is not None and any(map(_publishes_owned, pool.slices.values()))
            self.timer.observe_published(key, now, owned=owned)

    def write_rules(self) -> None:
        """Have written what the rules lack, and asked what is not known of them, each that is not under way."""
        for name, rule in self.context.inventory.rules.items():
            metadata = rule.metadata
            if name in self._writing or self._backoff.holds(
                ("", name), metadata.uid, metadata.resource_version
            ):
                continue
            write = self._write_for(rule)
            if (effect := write if write is not None else self._probe_for(rule)) is not None:
                self._writing.add(name)
                self.context.send(effect)

    def _probe_for(self, rule: DeviceTaintRule) -> RuleProbe | None:
        """Return the question whether the API server knows a rule, if it is to be asked and there is a claim for it.

        Each question is about another claim: what is wrong with one says nothing of the rule.
        """
        name, policy = rule.metadata.name, self.timer.policy
        if name not in self._settled.unproven or policy is None:
            return None
        mark = settled_mark(rule.metadata, policy.uid)
        if self._ask_backoff.holds(("", name), mark, ""):
            return None
        claims = [claim for claim in self.context.claims.pending() if claim.spec.devices.requests]
        if not claims:
            return None
        self._asked += 1
        return RuleProbe(name, mark, claims[self._asked % len(claims)], _any_device(rule))

    def _write_for(self, rule: DeviceTaintRule) -> Write | None:
        metadata = rule.metadata
        kept = tuple(name for name in metadata.finalizers if name != OWNED_FINALIZER)
        is_held = OWNED_FINALIZER in metadata.finalizers
        finalizers, annotations = None, dict[str, str | None]()
        owns_here = self.context.inventory.settlement is not None and owns(rule)
        if metadata.deletion_timestamp or not owns_here:
            if not is_held or self._is_being_written(rule):
                return None
            finalizers = kept
            log.info(messages.RULE_LET_GO, rule=metadata.name)
        else:
            if not is_held:
                finalizers = (*kept, OWNED_FINALIZER)
            mark = self._settled.marked.get(metadata.name)
            written = _mark(rule)
            # A mark that names a policy says more than one without: the policy may be unreadable for a moment.
            if mark is not None and not f"{written}/".startswith(f"{mark}/"):
                annotations[SETTLED_ANNOTATION] = mark
            elif written is not None and mark is None and self.context.clock() < self.timer.breach_ends:
                annotations[SETTLED_ANNOTATION] = None
            if finalizers is None and not annotations:
                return None
        return mark_rule(rule, finalizers, annotations)

    def _is_being_written(self, rule: DeviceTaintRule) -> bool:
        """True if an allocation of ours on devices of the rule may still be stored."""
        return any(
            touches(rule, result.driver, result.pool) and names_device(rule, result.device)
            for results in self.context.ledger.assumed()
            for result in results
        )

    # --- what is reported

    def find_status(self, name: str, uid: str) -> RuleStatus:
        """Return whether the devices of a rule are used by now, and whether nobody else can allocate them."""
        is_settled = self._settled.marked.get(name, "").startswith(f"{uid}/")
        return RuleStatus(is_settled, *self._judge_fence(name))

    def _judge_fence(self, name: str) -> tuple[bool | None, str]:
        policy, settled = self.timer.policy, self._settled
        if policy is None:
            return None, "the policy has not been looked for yet"
        if policy.fence is None:
            return False, f"{policy.why}: manifests/components/ownership has it"
        if (left := self.timer.breach_ends - self.context.clock()) > 0:
            return False, messages.breached(self._breach, self.timer.quiet, left)
        rule = self.context.inventory.rules.get(name)
        if isinstance(policy.fence, PoolsFence) and rule is not None:
            driver, pool, _ = _any_device(rule)
            return policy.fence.covers(driver, pool), "the policy has a list of pools without these"
        if name in settled.rules:
            return True, ""
        if name in settled.unknown:
            return False, settled.unknown[name]
        if name in settled.unproven:
            return None, "no claim waits by which the API server can be asked"
        return None, "the rule is new, or was changed"

    def _report_owning(self) -> None:
        """Warn, once each time, when no taint makes any device ours."""
        owns_any, before = self.timer.owns_any, self._owns_any
        if self.timer.policy is None or owns_any == before:
            return
        self._owns_any = owns_any
        if not owns_any:
            log.warning(messages.OWNS_NO_DEVICE, why=messages.OWNS_NOTHING)
            self.context.events.record(
                warning(self.operator, messages.EVENT_OWNS_NOTHING, messages.OWNS_NOTHING)
            )

    def _report_foreign(self, key: Key, result: DeviceRequestAllocationResult, *, is_breach: bool) -> None:
        """Report an allocation by somebody else, if it is on a device that is ours and has settled.

        After one that was a breach, a device that is only owned counts as well.
        """
        is_breached = self.context.clock() < self.timer.breach_ends
        for slice_, index in self.context.inventory.find_device(result.driver, result.pool, result.device):
            if not (slice_.ours >> index & 1 or (is_breached and self._is_owned(slice_, result))):
                continue
            self.context.metrics.foreign_allocations.inc()
            device, quiet = slice_.path(index), self.timer.quiet if is_breach else None
            message = messages.allocated_by_another(device, text(key), quiet)
            self.context.events.record(warning(self._owner(slice_, result), messages.EVENT_FOREIGN, message))
            log.warning(messages.FOREIGN, claim=text(key), device=device)
            if is_breach:
                self._observe_breach(device)
            return

    def _owner(self, slice_: Slice, result: DeviceRequestAllocationResult) -> Subject:
        """Return the rule by which a device is ours, or the slice that says so itself."""
        name = self._owning_rule(slice_, result)
        return (
            self.context.ingest.subject(_KIND, name)
            if name
            else self.context.ingest.subject("ResourceSlice", slice_.name)
        )

    def _owning_rule(self, slice_: Slice, result: DeviceRequestAllocationResult) -> str:
        for name, rule in sorted(self.context.inventory.rules.items()):
            if owns(rule) and touches(rule, *slice_.key) and names_device(rule, result.device):
                return name
        return ""

    def _is_owned(self, slice_: Slice, result: DeviceRequestAllocationResult) -> bool:
        taints = slice_.device_fields[slice_.indexes[result.device]].taints
        return any(map(is_owned_taint, taints)) or bool(self._owning_rule(slice_, result))

    def notes(self) -> list[str]:
        """Return what is not as it should be with owned devices though decisions go on, a line each."""
        if self.context.inventory.settlement is None or self.timer.policy is None:
            return []
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        timer, settled = self.timer, self._settled
        if not timer.owns_any:
            yield messages.OWNS_NOTHING
        if (left := timer.breach_ends - self.context.clock()) > 0:
            yield messages.breached(self._breach, timer.quiet, left)
        unknown = messages.unknown_rules(settled.unknown) if settled.unknown else ""
        if unknown and not settled.unfenced:
            yield unknown
        if settled.unfenced:
            why = unknown or (timer.policy.why if timer.policy is not None else "")
            waiting = _texts(settled.unfenced - settled.pools)
            yield messages.not_guaranteed(_texts(settled.unfenced), why, timer.quiet, waiting)
        if self._forbidden:
            yield self._forbidden


def _texts(pools: Iterable[tuple[str, str]]) -> str:
    return listed(["/".join(key) for key in sorted(pools)])


def _publishes_owned(slice_: Slice) -> bool:
    return any(
        is_owned_taint(taint) for device_fields in slice_.device_fields for taint in device_fields.taints
    )


AGAIN_SECONDS: Final = 15.0
"""How often the policy is asked for."""

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(slots=True)
class PolicyProbe:
    """Asks for the policy. `report` gets its state when it is known; `clock` is monotonic, in seconds."""

    report: Callable[[PolicyState], None]
    clock: Callable[[], float]
    _due_at: float = float("-inf")
    _username: str = ""
    _notes: tuple[str, ...] = ()

    async def check(self, session: ApiSession) -> None:
        """Ask for the policy, if it is time to. An API server that does not answer changes nothing."""
        if self.clock() < self._due_at:
            return
        self._due_at = self.clock() + AGAIN_SECONDS
        try:
            if not self._username:
                self._username = await _own_username(session)
            state, notes = await _read_policy(session, self._username)
        except (ApiError, ApiUnreachable):
            return
        before, self._notes = self._notes, notes
        for note in self._notes:
            if note not in before:
                log.warning(messages.OWNERSHIP_UNFIT, why=note)
        self.report(state)

    def notes(self) -> tuple[str, ...]:
        """Return what is wrong with the policy that is installed, a line each."""
        return self._notes


async def _own_username(session: ApiSession) -> str:
    """Return who this operator is to the API server; empty if that does not say."""
    try:
        review = await session.request(
            "POST", _REVIEWS, body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        )
    except ApiError as error:
        if error.status in (403, 404):
            return ""
        raise
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")


async def _read_policy(session: ApiSession, username: str) -> tuple[PolicyState, tuple[str, ...]]:
    """Return what the installed policy protects, and if that is nothing, why; and what is wrong with it, a line each.

    `username` is the operator's. Raises ApiError and ApiUnreachable if that cannot be known.
    """
    found, missing = list[dict[str, Any]](), ""
    for what, path in PATHS.items():
        try:
            found.append(await session.request("GET", path + OWNED_POLICY))
        except ApiError as error:
            if error.is_missing_right:
                return PolicyState(None, messages.forbidden(error)), ()
            if error.status != 404:
                raise
            missing = missing or what
    if missing:
        return PolicyState(None, f"the {missing} {OWNED_POLICY} is not installed"), ()
    fence = fenced(*found)
    if fence is None:
        return PolicyState(None, f"the policy {OWNED_POLICY} or its binding is not as it was published"), ()
    state = PolicyState(fence, uid="/".join(str(each["metadata"].get("uid") or "") for each in found))
    notes = list[str]()
    if isinstance(fence, RulesFence):
        rules = replace(KINDS[_KIND], versions=(fence.version,))
        if not await served(session, {_KIND: rules}):
            state = PolicyState(None, f"the policy {OWNED_POLICY} has no parameters here")
            notes.append(messages.refuses_all(OWNED_POLICY))
    if username and fence.username != username:
        notes.append(messages.not_exempt(OWNED_POLICY, fence.username, username))
    return state, tuple(notes)
