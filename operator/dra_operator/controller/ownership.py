"""Owned devices: has the inventory use them when they have settled, and keeps the rules that own them.

A rule gets a finalizer, so that it stays in force until no write of ours for its devices is under way, and an
annotation once it has settled, so that the next operator need not wait again.
Source: docs/operator.md, section "Devices that are ours".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dra_operator.api.names import OWNED_FINALIZER, SETTLED_ANNOTATION
from dra_operator.api.shortened import listed
from dra_operator.api.types import DeviceRequestAllocationResult, DeviceTaintRule
from dra_operator.cluster.rule_writer import RuleOutcome, RuleWrite
from dra_operator.cluster.session import ApiError
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.desk import Desk, text
from dra_operator.controller.intake import Changes, Intake
from dra_operator.controller.logs import get_logger
from dra_operator.controller.putoff import PutOffs
from dra_operator.controller.reports import Notice, Subject
from dra_operator.controller.settlement import FenceState, SettlementState, SettlementTimer
from dra_operator.inventory import ChangeSet, Inventory, Slice
from dra_operator.inventory.ownership import is_owned_taint, owns, settled_mark
from dra_operator.inventory.taints import names_device, touches

CONFLICT = (0.05, 30.0)
"""First and longest wait, in seconds, of a rule that was changed; it waits for the newer version at most."""
RETRY = (5.0, 300.0)
"""First and longest wait, in seconds, after a write to a rule that was not accepted."""
_KIND = "DeviceTaintRule"

log = get_logger()


@dataclass(slots=True)
class OwnedDevices:
    """Used in the pass thread; `notes` may be called in any.

    Where the inventory has no settlement, all devices are ours, and rules are only let go of.
    """

    desk: Desk
    inventory: Inventory
    intake: Intake
    timer: SettlementTimer
    operator: Subject
    """What stands for the operator itself in Events."""
    _owns_any: bool | None = None
    _settled: SettlementState = field(default_factory=SettlementState)
    _writing: set[str] = field(default_factory=set)
    _putoffs: PutOffs = field(init=False)
    _forbidden: str = ""
    _dirty: bool = True
    _version: int = -1
    _changes: ChangeSet = field(default_factory=ChangeSet)

    def __post_init__(self) -> None:
        if self.inventory.settlement is not None:
            # Else nobody takes in what has changed, and it would heap up.
            self._changes = self.inventory.subscribe()
        self._putoffs = PutOffs(self.desk.clock)

    # --- what is known

    def observe_fence(self, state: FenceState) -> None:
        """Take in which policy is installed."""
        if self.timer.fence != state:
            if state.fence is not None:
                log.info(messages.OWNERSHIP_FENCE, fence=type(state.fence).__name__)
            else:
                # Nothing is guaranteed.
                log.warning(messages.OWNERSHIP_FENCE, fence="", why=state.why)
            self._dirty = True
        self.timer.observe_fence(state, self.desk.clock())

    def observe_changes(self, changes: Changes) -> None:
        """Take in which claims somebody else allocated, and tell of those on devices that are ours."""
        if self.inventory.settlement is None:
            return
        for key in changes.foreign:
            for result in self.desk.ledger.results(key):
                if not result.admin_access:
                    self.timer.observe_allocation((result.driver, result.pool), self.desk.clock())
                    self._dirty = self._dirty or (result.driver, result.pool) in self._settled.unfenced
                    self._tell_foreign(key, result)

    def observe_outcome(self, outcome: RuleOutcome) -> None:
        """Take in what came of a write to a rule."""
        name, error = outcome.write.name, outcome.error
        self._writing.discard(name)
        key = ("", name)
        if outcome.body is not None:
            self._putoffs.forget(key)
            self._forbidden = ""
            return
        if error is None:
            # Until the watch tells what is there now, the same would happen.
            write = outcome.write
            self._putoffs.for_version(key, write.uid, write.resource_version, *CONFLICT)
            return
        self._putoffs.for_time(key, outcome.write.uid, *RETRY)
        is_missing = isinstance(error, ApiError) and error.is_missing_right
        why = messages.forbidden(error) if is_missing and isinstance(error, ApiError) else str(error)
        self._forbidden = why if is_missing else self._forbidden
        log.warning(messages.RULE_NOT_WRITTEN, rule=name, why=why)

    # --- what follows

    def refresh(self) -> bool:
        """Have the inventory use what has settled by now; return whether that changes any device."""
        settlement = self.inventory.settlement
        if settlement is None:
            return False
        now = self.desk.clock()
        self._follow(now)
        due = self._settled.due
        if not self._dirty and (due is None or now < due):
            return False
        self._dirty = False
        rules, before, version = self.inventory.rules, self._settled, self.inventory.version
        self.timer.observe_rules(rules, now)
        settled = self._settled = self.timer.settled(rules, self.inventory.pools, now)
        self._tell_owning()
        self.inventory.settle(settled.rules, settled.pools)
        if self.inventory.version == version:
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
        self._dirty = self._dirty or bool(pools) or self._version != self.inventory.rules_version
        self._version = self.inventory.rules_version
        for key in pools:
            pool = self.inventory.pools.get(key)
            owned = pool is not None and any(map(_publishes_owned, pool.slices.values()))
            self.timer.observe_published(key, now, owned=owned)

    def write_rules(self) -> None:
        """Have written what the rules lack, each that is not being written."""
        self._putoffs.over()
        for name, rule in self.inventory.rules.items():
            metadata = rule.metadata
            if name in self._writing or self._putoffs.waits(
                ("", name), metadata.uid, metadata.resource_version
            ):
                continue
            if (write := self._write_of(rule)) is not None:
                self._writing.add(name)
                self.desk.pile.append(write)

    def _write_of(self, rule: DeviceTaintRule) -> RuleWrite | None:
        metadata = rule.metadata
        kept = tuple(name for name in metadata.finalizers if name != OWNED_FINALIZER)
        is_held = OWNED_FINALIZER in metadata.finalizers
        finalizers, annotations = None, dict[str, str | None]()
        owns_here = self.inventory.settlement is not None and owns(rule)
        if metadata.deletion_timestamp or not owns_here:
            if not is_held or self._is_being_written(rule):
                return None
            finalizers = kept
            log.info(messages.RULE_LET_GO, rule=metadata.name)
        else:
            if not is_held:
                finalizers = (*kept, OWNED_FINALIZER)
            mark = settled_mark(metadata)
            if metadata.name in self._settled.marked and metadata.annotations.get(SETTLED_ANNOTATION) != mark:
                annotations[SETTLED_ANNOTATION] = mark
            if finalizers is None and not annotations:
                return None
        return RuleWrite(metadata.name, metadata.uid, metadata.resource_version, finalizers, annotations)

    def _is_being_written(self, rule: DeviceTaintRule) -> bool:
        """True if an allocation of ours on devices of the rule may still be stored."""
        return any(
            touches(rule, result.driver, result.pool) and names_device(rule, result.device)
            for results in self.desk.ledger.assumed()
            for result in results
        )

    # --- what is told

    def _tell_owning(self) -> None:
        """Warn, once each time, when no taint makes any device ours."""
        owns_any, before = self.timer.owns_any, self._owns_any
        if self.timer.fence is None or owns_any == before:
            return
        self._owns_any = owns_any
        if not owns_any:
            log.warning(messages.OWNS_NO_DEVICE, why=messages.OWNS_NOTHING)
            self.desk.say(
                Notice(self.operator, "Warning", messages.EVENT_OWNS_NOTHING, messages.OWNS_NOTHING)
            )

    def _tell_foreign(self, key: Key, result: DeviceRequestAllocationResult) -> None:
        """Tell of an allocation by somebody else, if it is on a device that is ours and has settled."""
        pool = self.inventory.pools.get((result.driver, result.pool))
        for content in pool.slices.values() if pool is not None else ():
            index = content.indexes.get(result.device)
            if index is None or not content.ours >> index & 1:
                continue
            self.desk.metrics.foreign_allocations.inc()
            message = messages.allocated_by_another(content.path(index), text(key))
            notice = Notice(self._owner(content, result), "Warning", messages.EVENT_FOREIGN, message)
            self.desk.say(notice)
            log.warning(messages.FOREIGN, claim=text(key), device=content.path(index))
            return

    def _owner(self, content: Slice, result: DeviceRequestAllocationResult) -> Subject:
        """Return the rule by which a device is ours, or the slice that says so itself."""
        for name, rule in sorted(self.inventory.rules.items()):
            if owns(rule) and touches(rule, *content.key) and names_device(rule, result.device):
                return self.intake.subject(_KIND, name)
        return self.intake.subject("ResourceSlice", content.name)

    def notes(self) -> list[str]:
        """Return what is not as it should be with owned devices though decisions go on, a line each."""
        if self.inventory.settlement is None or self.timer.fence is None:
            return []
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        timer, settled = self.timer, self._settled
        if not timer.owns_any:
            yield messages.OWNS_NOTHING
        if settled.unfenced:
            why = timer.fence.why if timer.fence is not None else ""
            yield messages.not_guaranteed(_texts(settled.unfenced), why)
        if self._forbidden:
            yield self._forbidden

    def next_due(self) -> float | None:
        """Return when time alone changes what may be used, or a rule is to be written again."""
        times = (self._settled.due, self._putoffs.next_end())
        return min((time for time in times if time is not None), default=None)


def _texts(pools: Iterable[tuple[str, str]]) -> str:
    return listed(["/".join(key) for key in sorted(pools)])


def _publishes_owned(content: Slice) -> bool:
    return any(
        is_owned_taint(taint) for device_fields in content.device_fields for taint in device_fields.taints
    )
