"""Check: each recorded decision decided again on its node, with what was held when it was made.

What is stored is not stored in the order in which it was decided: a decision counts as made before another if it is
stored soon after it and gets the same devices there. Source: docs/history.md, "Checked against the record".
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile
from typing import Final

from dra_operator.allocator.decision import Allocated, Decider, Failed
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.text import seconds_of
from dra_operator.api.types import AllocationResult
from dra_operator.history.jobs import Lifetime, read_allocation, read_claim, read_lifetimes
from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import MICRO
from dra_operator.history.timeline import ChangedHistory, Changes, Timeline, pool_of
from dra_operator.inventory import PoolKey

SOON: Final = 60 * MICRO
"""So long after it was decided a decision is stored at most, and so long ago was what its maker had not heard of."""
_SPANS: Final = (MICRO, 10 * MICRO, SOON)
RELEASED: Final = "Released"
CHANGED: Final = "Changed"
UNDECIDED: Final = "Undecided"
OTHER: Final = "Other"
IN_GAP: Final = "next to a gap, left out"
REORDERED: Final = "stored in another order than made"
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
    """How many decisions were checked, and how many came out the `same`; `counts` are of others, by line."""

    decisions: int
    same: int
    differences: tuple[Difference, ...]
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Decision:
    """Claims that were decided together, what they got, and when that was stored."""

    seen: list[Lifetime]
    results: list[AllocationResult]
    is_of_pod: bool
    decider: Decider
    node: str
    created: int
    at: int
    pools: set[PoolKey]
    whole: frozenset[tuple[str, str, str]]
    """The devices that are nobody else's."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A claim that had devices, and when it had them no more."""

    at: int
    name: str
    result: AllocationResult


def check_decisions(reader: Reader, span: Span) -> CheckReport:
    """Decide again what was decided in a span of a record. Raises StoreError."""
    return _Check(reader, span).run()


class _Check:
    def __init__(self, reader: Reader, span: Span) -> None:
        self._reader = reader
        self._span = span
        self._history = ChangedHistory(reader, Changes())
        self._timeline = Timeline(self._history, span)
        self._held: dict[str, AllocationResult] = {}
        self._ends: list[tuple[int, str]] = []
        self._ended: deque[_Ended] = deque()
        self._pools: dict[str, set[PoolKey]] = defaultdict(set)
        """Those of which anything was got on a node."""
        self._counts: Counter[str] = Counter()

    def run(self) -> CheckReport:
        """Return the report."""
        waiting = deque[_Decision]()
        for each in sorted(_read_decisions(self._reader, self._span), key=lambda each: each.at):
            self._pools[each.node] |= each.pools
            if each.at <= self._span.since:
                self._apply(each)
            else:
                waiting.append(each)
        total, differences = len(waiting), list[Difference]()
        while waiting:
            decision = waiting.popleft()
            self._advance(decision.at)
            if any(gap.since - SOON <= decision.at <= gap.until + SOON for gap in self._reader.gaps):
                self._counts[IN_GAP] += 1
            elif not self._is_same(decision):
                differences += self._explain(decision, waiting)
            self._apply(decision)
        total -= self._counts[IN_GAP]
        return CheckReport(total, total - len(differences), tuple(differences), dict(self._counts))

    def _advance(self, at: int) -> None:
        """Take in what ended and changed up to a time."""
        while self._ends and self._ends[0][0] <= at:
            ended, name = heappop(self._ends)
            self._timeline.state.ledger.withdraw("", name)
            self._ended.append(_Ended(ended, name, self._held.pop(name)))
        while self._ended and self._ended[0].at < at - SOON:
            self._ended.popleft()
        self._timeline.advance(at)

    def _assume(self, decision: _Decision) -> None:
        for seen, result in zip(decision.seen, decision.results, strict=True):
            self._timeline.state.ledger.assume("", f"claim {id(seen)}", result)

    def _apply(self, decision: _Decision) -> None:
        self._assume(decision)
        for seen, result in zip(decision.seen, decision.results, strict=True):
            name = f"claim {id(seen)}"
            self._held[name] = result
            if seen.ended is not None:
                heappush(self._ends, (max(seen.ended, decision.at), name))

    def _decide(self, decision: _Decision) -> _Devices | None:
        """Return what claims get by now on their node; None if that is not found out."""
        timeline = self._timeline
        claims = [read_claim(seen.body) for seen in decision.seen]
        allocator = timeline.state.allocators[decision.decider]
        nodes = timeline.set_of(decision.node) if decision.node else timeline.everything
        if decision.is_of_pod:
            found = allocator.allocate_for_pod(claims, ~nodes, decider=decision.decider)
        else:
            found = allocator.allocate(claims, nodes, decider=decision.decider)
        if isinstance(found, Failed):
            return None
        return _devices(found.results) if isinstance(found, Allocated) else ()

    def _is_same(self, decision: _Decision) -> bool:
        return self._decide(decision) == _devices(decision.results)

    def _find_earlier(self, decision: _Decision, waiting: Iterable[_Decision], soon: int) -> list[_Decision]:
        """Return as few decisions as are needed, stored soon after another, after which that comes out the same."""
        near, devices = list[_Decision](), set[tuple[str, str, str]]()
        for each in takewhile(lambda each: each.at <= decision.at + soon, waiting):
            # What had not come yet was not decided, nor what got a device that another one got between.
            is_near = each.created <= decision.at and not each.whole & devices
            if is_near and each.pools & self._pools[decision.node]:
                near.append(each)
            devices |= each.whole
        made = list[_Decision]()
        with self._timeline.state.ledger.trial():
            while not self._is_same(decision):
                if (other := next((each for each in near if self._is_same(each)), None)) is None:
                    return []
                self._assume(other)
                near.remove(other)
                made.append(other)
        # Any other one would be in the way of what was decided between.
        for each in [*made]:
            fewer = [other for other in made if other is not each]
            with self._timeline.state.ledger.trial():
                for other in fewer:
                    self._assume(other)
                made = fewer if self._is_same(decision) else made
        return made

    def _explain(self, decision: _Decision, waiting: deque[_Decision]) -> Iterator[Difference]:
        """Yield how a decision differs and of which sort that is, unless it is the same in another order.

        What is nearest in time explains it.
        """
        found, sort = self._decide(decision), ""
        for soon in _SPANS if found is not None else ():
            if earlier := self._find_earlier(decision, waiting, soon):
                for each in earlier:
                    self._apply(each)
                    waiting.remove(each)
                    self._counts[REORDERED] += 1
                return
            if self._is_same_with_ended(decision, waiting, soon):
                sort = RELEASED
            elif self._is_same_before_change(decision, waiting, soon):
                sort = CHANGED
            if sort:
                break
        names = [each.body["metadata"] for each in decision.seen]
        yield Difference(
            ", ".join(f"{each['namespace']}/{each['name']}" for each in names),
            decision.node,
            sort or (UNDECIDED if found is None else OTHER),
            _names(_devices(decision.results)),
            _names(found or ()),
        )

    def _is_same_with_ended(self, decision: _Decision, waiting: Iterable[_Decision], soon: int) -> bool:
        """Return whether a decision is the same if the last things that ended just before still count."""
        pools = self._pools[decision.node]
        ended = [
            each
            for each in reversed(self._ended)
            if each.at >= decision.at - soon and _pools([each.result]) & pools
        ]
        with self._timeline.state.ledger.trial():
            for each in [None, *ended]:
                if each is not None:
                    self._timeline.state.ledger.assume("", each.name, each.result)
                if self._is_same(decision) or self._find_earlier(decision, waiting, soon):
                    return True
        return False

    def _is_same_before_change(self, decision: _Decision, waiting: Iterable[_Decision], soon: int) -> bool:
        """Return whether a decision is the same in the cluster as it was before changes just before."""
        now, span = self._timeline, Span(max(decision.at - soon, self._span.since), decision.at + 1)
        times = {
            at
            for row in self._history.read_states(span, "ResourceSlice", "DeviceClass", "DeviceTaintRule")
            if row.kind != "ResourceSlice" or pool_of(row.body) in self._pools[decision.node]
            for at in (row.since, row.until)
            if span.since < at < span.until
        }
        try:
            for at in sorted(times, reverse=True):
                self._timeline = Timeline(self._history, Span(at - 1, at))
                self._timeline.advance(at - 1)
                for name, result in self._held.items():
                    self._timeline.state.ledger.assume("", name, result)
                if self._is_same_with_ended(decision, waiting, soon):
                    return True
        finally:
            self._timeline = now
        return False


def _read_decisions(reader: Reader, span: Span) -> Iterator[_Decision]:
    """Yield what was decided together: the claims of a pod that nobody had decided before, or one without a pod."""
    decided = set[int]()
    for seen in sorted(
        read_lifetimes(reader, span), key=lambda each: (each.started is None, each.started or 0)
    ):
        found = [each for _, each in seen.claims if each.allocation and id(each) not in decided]
        decided |= {id(each) for each in found}
        if found:
            results = [read_allocation(each) for each in found]
            pinned = next((name for each in results if (name := pinned_to(each.node_selector))), "")
            yield _Decision(
                found,
                results,
                seen.is_pod,
                seen.decider,
                seen.node or pinned,
                round((seconds_of(seen.body["metadata"].get("creationTimestamp")) or 0) * MICRO),
                max(each.started or 0 for each in found),
                _pools(results),
                frozenset(
                    [
                        (each.driver, each.pool, each.device)
                        for result in results
                        for each in result.devices.results
                        if not each.share_id and not each.admin_access
                    ]
                ),
            )


def _pools(results: Iterable[AllocationResult]) -> set[PoolKey]:
    return {(each.driver, each.pool) for result in results for each in result.devices.results}


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
