"""Check: each recorded decision decided again on its node, with what was held when it was made.

What is stored is not stored in the order in which it was decided: a decision counts as made before another if it is
stored soon after it and gets the same devices there. Source: docs/history.md, "Checked against the record".
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from dra_operator.allocator.decision import Allocated, Decider, Failed
from dra_operator.api.names import GATE
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult
from dra_operator.history.jobs import Seen, find_claims, index_claims, read_allocation, read_claim, read_seen
from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import MICRO
from dra_operator.history.timeline import ChangedHistory, Changes, Timeline
from dra_operator.inventory import PoolKey

SOON: Final = 60 * MICRO
"""So long after it was decided a decision is stored at most, and so long ago was what its maker had not heard of."""
RELEASED: Final = "Released"
CHANGED: Final = "Changed"
UNDECIDED: Final = "Undecided"
OTHER: Final = "Other"
IN_GAP: Final = "decisions next to a gap are left out"
REORDERED: Final = "decisions were stored in another order than made"
_Devices = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that comes out otherwise than recorded; `difference` is of docs/history.md."""

    claims: str
    node: str
    difference: str
    recorded: tuple[str, ...]
    decided: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """How many decisions there were, and how many came out the `same`; `counts` are of others, by line."""

    decisions: int
    same: int
    differences: tuple[Difference, ...]
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Decision:
    """Claims that were decided together, when that was stored, and what they got."""

    seen: list[Seen]
    is_of_pod: bool
    decider: Decider
    node: str
    at: int
    results: list[AllocationResult] = field(default_factory=list)

    @property
    def pools(self) -> set[PoolKey]:
        """The pools of its devices."""
        return {(each.driver, each.pool) for result in self.results for each in result.devices.results}


def check_decisions(reader: Reader, span: Span) -> CheckReport:
    """Decide again what was decided in a span of a record. Raises StoreError."""
    return _Check(reader, span).run()


class _Check:
    def __init__(self, reader: Reader, span: Span) -> None:
        self._reader = reader
        self._span = span
        self._timeline = Timeline(ChangedHistory(reader, Changes()), span)
        self._ends: list[tuple[int, int, int, Seen, AllocationResult]] = []
        self._ended: deque[tuple[int, str, AllocationResult]] = deque()
        self._changes = [
            (row.since, (row.body["spec"]["driver"], row.body["spec"]["pool"]["name"]))
            for row in reader.read_states(span, "ResourceSlice")
        ]
        self._others = [row.since for row in reader.read_states(span, "DeviceClass", "DeviceTaintRule")]
        self._counts: Counter[str] = Counter()
        self._differences: list[Difference] = []
        self._same = 0

    def run(self) -> CheckReport:
        """Return the report."""
        decisions = sorted(_read_decisions(self._reader, self._span), key=lambda each: each.at)
        total, waiting = 0, deque[_Decision]()
        for each in decisions:
            each.results = [read_allocation(seen) for seen in each.seen]
            if each.at <= self._span.since:
                self._apply(each)
            else:
                waiting.append(each)
                total += 1
        while waiting:
            decision = waiting.popleft()
            self._advance(decision.at)
            if any(gap.since - SOON <= decision.at <= gap.until + SOON for gap in self._reader.gaps):
                self._counts[IN_GAP] += 1
            elif self._is_same(decision) or self._reorder(decision, waiting):
                self._same += 1
            else:
                self._differences.append(self._explain(decision))
            self._apply(decision)
        return CheckReport(total, self._same, tuple(self._differences), dict(self._counts))

    def _advance(self, at: int) -> None:
        """Take in what ended and changed up to a time."""
        while self._ends and self._ends[0][0] <= at:
            ended, _, number, _, result = heappop(self._ends)
            self._timeline.state.ledger.withdraw("", f"claim {number}")
            self._ended.append((ended, f"claim {number}", result))
        while self._ended and self._ended[0][0] < at - SOON:
            self._ended.popleft()
        self._timeline.advance(at)

    def _apply(self, decision: _Decision) -> None:
        for seen, result in zip(decision.seen, decision.results, strict=True):
            self._timeline.state.ledger.assume("", f"claim {id(seen)}", result)
            if seen.ended is not None:
                heappush(self._ends, (max(seen.ended, decision.at), id(result), id(seen), seen, result))

    def _decide(self, decision: _Decision) -> _Devices | None:
        """Return what claims get by now on their node; None if that is not found out."""
        timeline, claims = self._timeline, [read_claim(seen.body) for seen in decision.seen]
        allocator = timeline.state.allocators[decision.decider]
        nodes = timeline.everything if not decision.node else timeline.set_of(decision.node)
        if decision.is_of_pod:
            found = allocator.allocate_for_pod(claims, ~nodes, decider=decision.decider)
        else:
            found = allocator.allocate(claims, nodes, decider=decision.decider)
        if isinstance(found, Failed):
            return None
        return _devices(found.results) if isinstance(found, Allocated) else ()

    def _is_same(self, decision: _Decision) -> bool:
        return self._decide(decision) == _devices(decision.results)

    def _reorder(self, decision: _Decision, waiting: deque[_Decision]) -> bool:
        """Return whether a decision is the same after some that were stored soon after it; these are made then."""
        pools = decision.pools
        near = [each for each in waiting if each.at <= decision.at + SOON and each.pools & pools]
        for _ in range(len(near)):
            for other in near:
                if self._is_same(other):
                    self._apply(other)
                    near.remove(other)
                    waiting.remove(other)
                    self._same += 1
                    self._counts[REORDERED] += 1
                    break
            else:
                return False
            if self._is_same(decision):
                return True
        return False

    def _explain(self, decision: _Decision) -> Difference:
        """Return how a decision differs, and of which sort that is."""
        names = ", ".join(
            f"{each.body['metadata']['namespace']}/{each.body['metadata']['name']}" for each in decision.seen
        )
        found, pools = self._decide(decision), decision.pools
        since = decision.at - SOON
        if found is None:
            sort = UNDECIDED
        elif self._is_same_with_ended(decision):
            sort = RELEASED
        elif any(since <= at <= decision.at and key in pools for at, key in self._changes) or any(
            since <= at <= decision.at for at in self._others
        ):
            sort = CHANGED
        else:
            sort = OTHER
        return Difference(names, decision.node, sort, _names(_devices(decision.results)), _names(found or ()))

    def _is_same_with_ended(self, decision: _Decision) -> bool:
        """Return whether a decision is the same if some of what ended just before still counts."""
        ledger = self._timeline.state.ledger
        ended = [each for each in self._ended if _pools(each[2]) & decision.pools]
        with ledger.trial():
            for _, name, result in reversed(ended):
                ledger.assume("", name, result)
                if self._is_same(decision):
                    return True
        return False


def _pools(result: AllocationResult) -> set[PoolKey]:
    return {(each.driver, each.pool) for each in result.devices.results}


def _read_decisions(reader: Reader, span: Span) -> Iterator[_Decision]:
    """Yield what was decided together: the claims of a pod that nobody had decided before, or one without a pod."""
    pods, claims = read_seen(reader, span)
    by_name, decided = index_claims(claims.values()), set[int]()
    for pod in sorted(pods.values(), key=lambda each: (each.started is None, each.started or 0)):
        found = [each for _, each in find_claims(pod, by_name) if each.allocation and id(each) not in decided]
        gates = {each.get("name") for each in pod.body["spec"].get("schedulingGates") or ()}
        decided |= {id(each) for each in found}
        if found:
            decider = Decider.OPERATOR if GATE in gates else Decider.KUBE_SCHEDULER
            yield _build(found, decider, pod.node, is_of_pod=True)
    for claim in claims.values():
        if claim.allocation and id(claim) not in decided:
            yield _build([claim], Decider.OPERATOR, "", is_of_pod=False)


def _build(found: list[Seen], decider: Decider, node: str, *, is_of_pod: bool) -> _Decision:
    pinned = next((name for each in found if (name := pinned_to(read_allocation(each).node_selector))), "")
    at = max(each.started or 0 for each in found)
    return _Decision(found, is_of_pod, decider, node or pinned, at)


def _devices(results: Iterable[AllocationResult]) -> _Devices:
    """Return what is compared: devices by request, and amounts; share ids are random."""
    return tuple(
        [
            (
                each.request,
                each.driver,
                each.pool,
                each.device,
                tuple(sorted((name, amount.nano) for name, amount in each.consumed_capacity.items())),
            )
            for result in results
            for each in result.devices.results
        ]
    )


def _names(devices: _Devices) -> tuple[str, ...]:
    return tuple([f"{each[2]}/{each[3]}" for each in devices])
