"""The smallest change with which claims would fit: one edit of each kind, applied alone and decided again.

At most three kinds are shown, in the order of `Kind`. If no edit helps, it is said what none can mend. Bounded by a
number of decisions for each kind, and by time. Source: docs/pods.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dra_operator.allocator import Allocated, Decision, Failed, Reason, Unsatisfied
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.api.text import listed, printable
from dra_operator.api.types import ResourceClaim
from dra_operator.pods.edits import EDITS, Change, Kind, Series, find_parts, is_monotone
from dra_operator.pods.ended_claims import find_ended, is_reserved
from dra_operator.pods.situation import LIMITS, ExhaustedError, Situation, Trials

MOST_KINDS: Final = 3
_NOTHING_HELPS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.CLASS_NOT_FOUND: "a DeviceClass does not exist",
        Reason.POOL_INCOMPLETE: "a pool is incomplete",
        Reason.POOL_INVALID: "a pool is invalid",
        Reason.SELECTOR_INVALID: "a selector does not compile",
        Reason.SELECTOR_FAILED: "a selector fails on a device",
        Reason.DERIVED_ATTRIBUTE_FAILED: "a derived attribute fails on a device",
        Reason.NODE_SELECTOR_INVALID: "a node selector of a pool cannot be parsed",
        Reason.ADMIN_ACCESS_DENIED: "admin access is denied",
    }
)
"""What no single edit can mend, by the reason of the error with which the attempt ends."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What finding changes may cost: decisions for each kind, and seconds for all.

    Of claims that may end those that are not used come first.
    """

    decisions: int = 1000
    seconds: float = 2.0
    is_used: Callable[[ResourceClaim], bool] = is_reserved


@dataclass(frozen=True, slots=True)
class SmallestChanges:
    """Changes that help, the smallest of each kind, and at most of three kinds.

    `is_complete`: all edits were decided, so without changes no single one helps; `unmendable` is then why, if known.
    `kinds` are those of which all edits were decided that had to be.
    """

    changes: tuple[Change, ...]
    is_complete: bool = True
    unmendable: str = ""
    kinds: int = len(Kind)

    @property
    def text(self) -> str:
        """With what a message ends; nothing if it is not known whether anything helps."""
        if self.changes:
            return printable(f"; it would fit {', or '.join(f'if {each.text}' for each in self.changes)}")
        if not self.is_complete:
            return ""
        return printable(f"; no single change helps{f': {self.unmendable}' if self.unmendable else ''}")


def find_smallest_changes(
    situation: Situation, effort: Effort = Effort(), *, most: int = MOST_KINDS
) -> SmallestChanges:
    """Return what would make the claims of a situation fit, in which they do not.

    `most` is of how many kinds. Of claims that fit after all nothing is said.
    """
    decision = situation.decide()
    if isinstance(decision, Allocated):
        return SmallestChanges((), is_complete=False)
    deadline = situation.allocator.clock() + effort.seconds
    found: list[Change] = []
    kinds = tried = 0
    for kind in Kind:
        trials = Trials(situation, decision, effort.decisions, deadline)
        change = (
            find_ended(trials, effort.is_used) if kind is Kind.CLAIMS_ENDED else _find_smallest(trials, kind)
        )
        tried, kinds = tried + 1, kinds + trials.is_complete
        if change is not None:
            found.append(change)
            if len(found) == most:
                break
    is_complete = kinds == tried
    unmendable = _find_unmendable(situation, decision) if is_complete and not found else ""
    return SmallestChanges(tuple(found), is_complete, unmendable, kinds)


def _find_smallest(trials: Trials, kind: Kind) -> Change | None:
    """Return the smallest edit of a kind that helps, of several as small the first."""
    best: Change | None = None
    monotone = is_monotone(trials.situation.claims)
    try:
        for series in EDITS[kind](trials.situation):
            found = (
                _bisect(trials, series) if series.is_chain and monotone else _try_all(trials, series, best)
            )
            if found is not None and (best is None or found.size < best.size):
                best = found
    except ExhaustedError:
        pass
    return best


def _try_all(trials: Trials, series: Series, best: Change | None) -> Change | None:
    """Return the first edit of a series that helps, if it is smaller than the best so far."""
    if series.bound is not None and series.length > 1:
        decision = trials.decide(series.bound.apply(trials.situation))
        # Nothing follows from an error: another edit may avoid it.
        if isinstance(decision, Unsatisfied) and is_monotone(trials.situation.claims):
            return None
    for number in range(series.length):
        change = series.edit(number)
        if best is not None and change.size >= best.size:
            return None
        if trials.fit(change.apply(trials.situation)):
            return change
    return None


def _bisect(trials: Trials, series: Series) -> Change | None:
    """Return the first edit of a chain that helps: each asks for less than the one before."""
    low, high = -1, series.length
    decision = trials.decide(series.edit(high - 1).apply(trials.situation))
    if not isinstance(decision, Allocated):
        return None
    high -= 1
    while high - low > 1:
        middle = (low + high) // 2
        if trials.fit(series.edit(middle).apply(trials.situation)):
            high = middle
        else:
            low = middle
    return series.edit(high)


# --- what no edit mends


def _find_unmendable(situation: Situation, decision: Decision) -> str:
    if isinstance(decision, Failed):
        return _NOTHING_HELPS.get(decision.reason, "")
    if not situation.allocator.inventory.nodes:
        return "there are no nodes"
    requests: dict[tuple[str, int], list[str]] = {}
    for part in find_parts(situation.claims):
        requests.setdefault((part.entry, part.request), []).append(part.asked.device_class_name)
    empty = [
        name
        for names in requests.values()
        if not any(_has_devices(situation, name) for name in names)
        for name in names
    ]
    return f"no device is in DeviceClass {listed(list(dict.fromkeys(empty)))}" if empty else ""


def _has_devices(situation: Situation, name: str) -> bool:
    """Return whether devices are in a class, as far as that can be told."""
    allocator = situation.allocator
    found = allocator.inventory.classes.get(name)
    if found is None:
        return True
    selectors = tuple(item.cel.expression for item in found.spec.selectors if item.cel is not None)
    key = allocator.candidates.key(AskContent(selectors, (), ()), ())
    budget = Budget(LIMITS, allocator.clock)
    slices = (slice_ for pool in allocator.inventory.pools.values() for slice_ in pool.slices.values())
    try:
        return any(allocator.candidates.select(key, slice_, budget) for slice_ in slices)
    except AbortedError:
        return True
