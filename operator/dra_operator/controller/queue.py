"""The scheduling queue: a claim is active, backing off or unschedulable, as in kube-scheduler.

Active claims are tried the oldest first; where a round takes longer than a cycle, fair by namespace. Unschedulable ones
become active by a change that may help, and 30 s after devices were taken: searches skip those in use, so what an
attempt said, or an error that it met, may be over.
Source: k8s.io/kubernetes/pkg/scheduler/backend/queue.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.writes import Consumer, Write, allocate
from dra_operator.controller.claims import ClaimStore, Key, order
from dra_operator.ledger import Ledger
from dra_operator.pods.gate import SchedulingPod
from dra_operator.pods.gate import order as order_of_pods

# --- Timers: when time alone makes a cycle necessary.
# Whoever waits for a time sets the timer of its task, and looks by itself what is due when the cycle runs.


RETRY = (1.0, 30.0)
"""First and longest wait, in seconds, after an error."""
ABORTED = (30.0, 600.0)
"""First and longest wait, in seconds, after an attempt that used up its deadline, its steps or its tries on a node."""
DEFECT = (5.0, 600.0)
"""First and longest wait, in seconds, of a claim or pod that met a defect of ours."""
BUDGET = 1.0
"""Seconds for which a cycle decides claims, and as long gated pods; the next one takes in what arrived, and goes on."""
FLUSH = 0.01
"""Seconds after which decisions made so far are handed over."""


class Timers:
    """When each task that waits for a time is due; each has one timer at most. Times are of one monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[Hashable, float] = {}

    def set(self, task: Hashable, due: float | None) -> None:
        """Move the timer of a task to `due`, or stop it with None."""
        if due is None:
            self._due.pop(task, None)
        else:
            self._due[task] = due

    def next_due(self) -> float | None:
        """Return when the first timer ends, or None if none runs."""
        return min(self._due.values(), default=None)


@dataclass(slots=True)
class BestEffortTask:
    """What a cycle does beside deciding: a defect there is logged and must not stop decisions.

    It is tried again later each time. `name` is what the log calls it; `clock` is monotonic, in seconds.
    """

    name: str
    clock: Callable[[], float]
    timers: Timers
    defect_logger: DefectLogger
    _failures: int = 0
    _retry_at: float | None = None

    def run(self, work: Callable[[], float | None]) -> None:
        """Do the work, unless it has just met a defect; `work` returns when time alone makes it due again."""
        if self._retry_at is not None and self.clock() < self._retry_at:
            return
        try:
            due = work()
        except Exception:
            self.defect_logger.exception(Defect.REPORT, report=self.name)
            due = self._retry_at = self.clock() + doubled(*RETRY, self._failures)
            self._failures += 1
        else:
            self._failures, self._retry_at = 0, None
        self.timers.set(("task", self.name), due)


@dataclass(slots=True)
class TokenBucket:
    """A rate limit: `rate` a second, and as many at once. `clock` is monotonic, in seconds."""

    rate: float
    clock: Callable[[], float]
    _tokens: float = field(init=False)
    _filled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._filled_at = self.rate, self.clock()

    def has_one(self) -> bool:
        """True if one may be taken now."""
        return self._level() >= 1

    def take_one(self) -> None:
        """Take one token, whether there is one or not."""
        self._tokens, self._filled_at = self._level() - 1, self.clock()

    def full_at(self) -> float:
        """Return now if a token is there, or else when the bucket is full again."""
        now, level = self.clock(), self._level()
        return now if level >= 1 else now + (self.rate - level) / self.rate

    def _level(self) -> float:
        return min(self.rate, self._tokens + (self.clock() - self._filled_at) * self.rate)


# --- Which claims and pods are tried, and in which order.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assumed:
    """What was decided for the claim of a uid, and is not stored yet: an allocation with its time, made for a node.

    The claim is reserved for `consumer`, if there is one.
    """

    uid: str
    allocation: AllocationResult
    node: str
    consumer: Consumer | None


class InFlightWrites:
    """Writes that were sent and not answered, one for each claim. `send` gets those that may go out.

    A write is conditional on the version it was decided on, so two at once for one claim would make the second fail. An
    allocation that is decided meanwhile is sent after the answer, which tells the new version.
    """

    def __init__(self, send: Callable[[Write], None]) -> None:
        self._send = send
        self._writes: dict[Key, Write] = {}
        self._assumed: dict[Key, Assumed] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def __contains__(self, key: Key) -> bool:
        return key in self._writes

    def is_allocating(self, key: Key) -> bool:
        """True if an allocation of the claim is sent, or waits for the answer to another write."""
        return key in self._assumed

    def is_changing_allocation(self, key: Key) -> bool:
        """True if a write is sent, or waits to be, by which the claim gets an allocation or loses it."""
        write = self._writes.get(key)
        return key in self._assumed or (write is not None and write.kind not in ("annotate", "reserve"))

    def submit(self, write: Write) -> None:
        """Send a write if the claim has none in flight; else drop it."""
        if write.key not in self._writes:
            self._writes[write.key] = write
            self._send(write)

    def allocate(self, claim: ResourceClaim, assumed: Assumed) -> None:
        """Send what was decided for a claim, or keep it until the write before it is answered."""
        key = claim_key(claim)
        self._assumed[key] = assumed
        if key not in self._writes:
            self.submit(allocate(claim, assumed.allocation, assumed.consumer))

    def assumed(self, key: Key) -> Assumed | None:
        """Return what was decided for a claim and is not stored yet."""
        return self._assumed.get(key)

    def pop_assumed(self, key: Key) -> Assumed | None:
        """Forget what was decided for a claim: it is stored, or will not be."""
        return self._assumed.pop(key, None)

    def finish(self, write: Write) -> bool:
        """Take in that a write was answered; return whether that was waited for."""
        if self._writes.get(write.key) is not write:
            return False
        del self._writes[write.key]
        return True


ALL_SECONDS = 30.0
"""How long claims wait after something was taken: what their messages say of devices in use is out of date."""
_FADING = 0.9
"""How much of the time that a namespace took counts one cycle later."""
_LONG = 3.0
"""Where the claims of a namespace took more seconds than this, new ones do not go first."""
_NOTHING = 0.01


class ActiveQueue:
    """The claims that are to be tried, each once in a round, so that the youngest get their turn as well.

    A claim that was tried is tried again when all others of its namespace were. In the middle of a round the namespace
    that took least time lately goes first, and a claim of which nothing was reported yet before those that wait
    already, unless its namespace takes long.
    """

    def __init__(self) -> None:
        self._active: set[Key] = set()
        self._tried: set[Key] = set()
        self._next_round: set[Key] = set()
        self._spent: defaultdict[str, float] = defaultdict(float)
        """The seconds that the claims of each namespace took lately."""

    @property
    def is_mid_round(self) -> bool:
        """Whether some claim was tried in this round."""
        return bool(self._tried)

    def add(self, keys: AbstractSet[Key]) -> None:
        """Have some claims tried: in this round, or in the next one if they were tried in this one."""
        self._active |= keys - self._tried
        self._next_round |= keys & self._tried

    def begin_cycle(
        self, find: Callable[[Key], T | None], order: Callable[[T], Any], is_new: Callable[[Key], bool]
    ) -> list[T]:
        """Begin a cycle: return what is to be tried, in its order; what is not found is active no more.

        In the middle of a round the namespace that took least time comes first, and of it what is new.
        """
        if self._next_round:
            self._end_rounds()
        fading = {name: seconds * _FADING for name, seconds in self._spent.items() if seconds > _NOTHING}
        self._spent = defaultdict(float, fading)
        found = {key: item for key in self._active if (item := find(key)) is not None}
        self._active &= found.keys()
        is_mid_round = self.is_mid_round

        def rank(key: Key) -> tuple[Any, ...]:
            first = self.priority(key, is_new=is_new(key)) if is_mid_round else ()
            return first, order(found[key])

        return [found[key] for key in sorted(found, key=rank)]

    def priority(self, key: Key, *, is_new: bool) -> tuple[bool, float, bool]:
        """Return by what claims are sorted in the middle of a round, before their age."""
        spent = self._spent.get(key[0], 0.0)
        return not is_new or spent > _LONG, spent, not is_new

    def remove(self, key: Key) -> None:
        """Have a claim not tried now."""
        self._active.discard(key)

    def start(self, key: Key) -> None:
        """Count a claim as tried in this round."""
        self._active.discard(key)
        self._tried.add(key)

    def put_back(self, key: Key) -> None:
        """Have a claim whose turn was cut off tried again in this round, by what its namespace took by now."""
        self._active.add(key)

    def charge(self, key: Key, seconds: float) -> None:
        """Charge the time that a claim took to its namespace."""
        self._spent[key[0]] += seconds

    def end_cycle(self) -> bool:
        """End the round if all claims were tried; return whether none is active then."""
        if not self._active:
            self._tried.clear()
            self._active, self._next_round = self._next_round, set()
        return not self._active

    def _end_rounds(self) -> None:
        """End the round of each namespace all of whose claims were tried."""
        ended = {namespace for namespace, _ in self._next_round} - {
            namespace for namespace, _ in self._active
        }
        if ended:
            self._tried = {key for key in self._tried if key[0] not in ended}
            self._active |= {key for key in self._next_round if key[0] in ended}
            self._next_round -= self._active


@dataclass(slots=True)
class _Entry:
    uid: str
    attempts: int
    until: float
    version: str | None
    refusals: int
    is_over: bool = False


@dataclass(slots=True)
class Backoff:
    """Claims, or other objects, that must not be tried again just yet: exponential back-off by key.

    An entry ends when a cycle pops it, and not in the middle of one: it would end unnoticed. `name` tells its timers
    from those of others; `clock` is monotonic, in seconds.
    """

    name: str
    clock: Callable[[], float]
    timers: Timers
    _entries: dict[Key, _Entry] = field(default_factory=dict)

    def add(self, key: Key, uid: str, first: float, longest: float, version: str | None = None) -> float:
        """Back off for `first` seconds, twice as long each time up to `longest`; return for how long.

        With `version` only until the resourceVersion is another one. Without, a new version says nothing: our own
        annotation makes one.
        """
        before = self._entries.get(key)
        attempts = refusals = 0
        if before is not None and before.uid == uid:
            attempts, refusals = before.attempts, before.refusals
        seconds = doubled(first, longest, attempts)
        self._entries[key] = _Entry(uid, attempts + 1, self.clock() + seconds, version, refusals)
        self._set_timer(key)
        return seconds

    def holds(self, key: Key, uid: str, version: str) -> bool:
        """True if the object of that uid and resourceVersion must not be tried yet."""
        entry = self._entries.get(key)
        if entry is None or entry.uid != uid:
            return False
        if entry.version is not None and entry.version != version:
            return False
        return not entry.is_over

    def holds_claim(self, claim: ResourceClaim) -> bool:
        """True if the claim must not be tried yet."""
        return self.holds(claim_key(claim), claim.metadata.uid, claim.metadata.resource_version)

    def count_refusal(self, key: Key) -> int:
        """Count that the API server refused a write; return how often it did since it accepted one.

        Whatever else the claim backed off for is not counted.
        """
        if (entry := self._entries.get(key)) is None:
            return 0
        entry.refusals += 1
        return entry.refusals

    def expire(self, keys: Iterable[Key]) -> None:
        """Let some entries end now: what they waited for is there."""
        now = self.clock()
        for key in keys:
            if (entry := self._entries.get(key)) is not None:
                entry.until = min(entry.until, now)
                self._set_timer(key)

    def remove(self, key: Key) -> None:
        """Forget that there ever was a reason to back off."""
        self._entries.pop(key, None)
        self._set_timer(key)

    def clear(self) -> None:
        """Remove all entries."""
        for key in tuple(self._entries):
            self.remove(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def pop_expired(self) -> set[Key]:
        """End the entries whose time is over and return their keys; these stay known, so that the next is longer."""
        now = self.clock()
        expired = {key for key, entry in self._entries.items() if entry.until <= now and not entry.is_over}
        for key in expired:
            self._entries[key].is_over = True
            self._set_timer(key)
        return expired

    def _set_timer(self, key: Key) -> None:
        entry = self._entries.get(key)
        due = None if entry is None or entry.is_over else entry.until
        self.timers.set(("back-off", self.name, key), due)


@dataclass(slots=True)
class SchedulingQueue:
    """The active claims, those that back off, and when the unschedulable ones become active.

    All other claims of the store that wait and have no allocation in flight are unschedulable for now. Unlike in
    kube-scheduler, a claim that just does not fit does not back off: writes, aborted attempts and defects do.
    """

    claims: ClaimStore
    ledger: Ledger
    in_flight: InFlightWrites
    clock: Callable[[], float]
    timers: Timers
    active: ActiveQueue = field(default_factory=ActiveQueue)
    backoff: Backoff = field(init=False)
    annotation_backoff: Backoff = field(init=False)
    """The claims of which an annotation cannot be written just now. That holds up nothing else of them."""
    _version: int = field(init=False)
    _due: float | None = None

    def __post_init__(self) -> None:
        self.backoff = Backoff("claim", self.clock, self.timers)
        self.annotation_backoff = Backoff("annotation", self.clock, self.timers)
        self._version = self.ledger.lasting_version

    def activate_all(self) -> None:
        """Have all claims that wait tried, by what is in use now."""
        self._version = self.ledger.lasting_version
        self._set_due(None)
        self.active.add(self.claims.waiting())

    def activate_due(self) -> None:
        """Have the claims tried that waited long enough since something was taken."""
        if self._due is not None and self.clock() >= self._due:
            self.activate_all()

    def begin_cycle(self, is_reported: Callable[[Key], bool]) -> list[ResourceClaim]:
        """Begin a cycle: return the claims to be tried, in their order; the others are active no more."""
        return self.active.begin_cycle(self._find_ready, order, lambda key: not is_reported(key))

    def observe_ledger(self) -> None:
        """Start to wait if something was taken. What came back has had all claims tried."""
        if self.ledger.lasting_version != self._version:
            self._version = self.ledger.lasting_version
            if self._due is None:
                self._set_due(self.clock() + ALL_SECONDS)

    def _find_ready(self, key: Key) -> ResourceClaim | None:
        claim = self.claims.get(key)
        if claim is None or not self.claims.is_waiting(key) or self.in_flight.is_allocating(key):
            return None
        return None if self.backoff.holds_claim(claim) else claim

    def _set_due(self, due: float | None) -> None:
        self._due = due
        self.timers.set("unschedulable", due)


AGAIN_SECONDS: Final = 1.0
"""How long pods that were tried in vain wait at least after nodes, or what is in use, have changed."""
_SHARE: Final = 10.0
"""All of them are tried so seldom that this takes one part of so many of the time."""


@dataclass(slots=True)
class PodQueue:
    """The gated pods that are to be tried, back off, or were tried in vain. `clock` is monotonic, in seconds.

    The order is by priority, then age. A pod that was tried in vain becomes active by a change that may help: of its
    claims, or of devices at once; of nodes and their pods, which change all the time, after a pause that grows with
    what it takes to try all.
    """

    clock: Callable[[], float]
    timers: Timers
    active: ActiveQueue = field(default_factory=ActiveQueue)
    backoff: Backoff = field(init=False)
    """The pods that cannot be written just now."""
    _unschedulable: set[Key] = field(default_factory=set)
    _version: object = None
    _again_at: float | None = None
    _seconds: float = 0.0
    """What the unschedulable pods took since all became active."""

    def __post_init__(self) -> None:
        self.backoff = Backoff("pod", self.clock, self.timers)

    def begin_cycle(self, find_pod: Callable[[Key], SchedulingPod | None]) -> list[SchedulingPod]:
        """Begin a cycle: return the pods to be tried, in their order; others are active no more."""

        def find(key: Key) -> SchedulingPod | None:
            pod = find_pod(key)
            return None if pod is None or not pod.is_ours or self.is_held(pod) else pod

        return self.active.begin_cycle(find, order_of_pods, lambda key: key not in self._unschedulable)

    def is_held(self, pod: SchedulingPod) -> bool:
        """True if the pod backs off."""
        return self.backoff.holds(pod.key, pod.uid, pod.resource_version)

    def charge(self, key: Key, seconds: float) -> None:
        """Charge the time that a pod took."""
        self.active.charge(key, seconds)
        if key in self._unschedulable:
            self._seconds += seconds

    def set_unschedulable(self, key: Key) -> None:
        """State that there is no room for a pod now."""
        self._unschedulable.add(key)

    def is_unschedulable(self, key: Key) -> bool:
        """True if a pod was tried in vain and is not tried again now."""
        return key in self._unschedulable

    def activate(self, keys: Iterable[Key]) -> None:
        """Have some pods tried."""
        self.active.add(frozenset(keys))

    def activate_all(self) -> None:
        """Have all pods tried that were tried in vain."""
        self.active.add(frozenset(self._unschedulable))
        self._seconds = 0.0
        self._set_again(None)

    def observe(self, version: object) -> None:
        """Take in of which state of the cluster the pods were tried; another one has all of them tried in a while."""
        if version != self._version:
            self._version = version
            if self._unschedulable and self._again_at is None:
                self._set_again(self.clock() + max(AGAIN_SECONDS, _SHARE * self._seconds))
        if self._again_at is not None and self.clock() >= self._again_at:
            self.activate_all()

    def remove(self, key: Key) -> None:
        """Forget a pod: it is gone, or needs no decision any more."""
        self.active.remove(key)
        self.backoff.remove(key)
        self._unschedulable.discard(key)

    def set_decided(self, key: Key) -> None:
        """State that a pod needs no decision any more; it may back off from other writes."""
        self.active.remove(key)
        self._unschedulable.discard(key)

    def accept(self, key: Key) -> None:
        """State that there is room for a pod."""
        self._unschedulable.discard(key)

    def _set_again(self, due: float | None) -> None:
        self._again_at = due
        self.timers.set("unschedulable pods", due)
