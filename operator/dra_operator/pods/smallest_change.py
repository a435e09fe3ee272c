"""The smallest change with which claims would fit: one edit of each kind, applied alone and decided again.

At most three kinds are shown, in the order of `Kind`. If no edit helps, it is said what none can mend. Bounded by a
number of decisions for each kind, and by time. Source: docs/pods.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from dra_operator.allocator import Allocated, Decision, Failed, Reason
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.api.text import listed, printable
from dra_operator.pods.change import Change, Kind
from dra_operator.pods.ended_claims import find_ended
from dra_operator.pods.request_edits import find_amount, find_constraint, find_count, find_toleration
from dra_operator.pods.request_parts import find_parts
from dra_operator.pods.selector_edits import find_selector
from dra_operator.pods.situation import LIMITS, Situation
from dra_operator.pods.trials import ExhaustedError, Trials

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
    """What finding changes may cost: decisions for each kind, and seconds for all."""

    decisions: int = 1000
    seconds: float = 2.0


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
    is_complete = True
    kinds = 0
    for find in _FINDERS.values():
        trials = Trials(situation, effort.decisions, deadline)
        try:
            change = find(trials)
        except ExhaustedError:
            change = None
        is_complete = is_complete and trials.is_complete
        kinds += trials.is_complete
        if change is not None:
            found.append(change)
            if len(found) == most:
                break
    unmendable = _find_unmendable(situation, decision) if is_complete and not found else ""
    return SmallestChanges(tuple(found), is_complete, unmendable, kinds)


def _find_condition(trials: Trials) -> Change | None:
    """Return the node condition that helps if it keeps the pod from no node; of several that of the fewest nodes."""
    situation = trials.situation
    for name, nodes in sorted(situation.conditions.items(), key=lambda item: (item[1], item[0])):
        edited = replace(situation, nodes=situation.find_nodes_without(name))
        if isinstance(trials.decide(edited), Allocated):
            text = _CONDITIONS.get(name, f"the nodes had enough {name}")
            return Change(Kind.NODE_CONDITION, text, (nodes,), condition=name)
    return None


_CONDITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nodeName": "its nodeName were dropped",
        "unschedulable": "the nodes were not cordoned",
        "nodeSelector": "its nodeSelector were dropped or met",
        "affinity": "its node affinity were dropped or met",
        "taint": "it tolerated the taints of the nodes",
        "ports": "its host ports were free",
        "pods": "the nodes had room for more pods",
        "volume": "its volumes were to be had there",
        "features": "the nodes had the features that it needs",
    }
)
_FINDERS: Final[Mapping[Kind, Callable[[Trials], Change | None]]] = MappingProxyType(
    {
        Kind.TOLERATION: find_toleration,
        Kind.SELECTOR: find_selector,
        Kind.AMOUNT: find_amount,
        Kind.COUNT: find_count,
        Kind.CONSTRAINT: find_constraint,
        Kind.NODE_CONDITION: _find_condition,
        Kind.CLAIMS_ENDED: find_ended,
    }
)


# --- what no edit mends


def _find_unmendable(situation: Situation, decision: Decision) -> str:
    if isinstance(decision, Failed):
        return _NOTHING_HELPS.get(decision.reason, "")
    if not situation.allocator.inventory.nodes:
        return "there are no nodes"
    names = list(dict.fromkeys(_classes_without_devices(situation)))
    if not names:
        return ""
    return f"no device is in DeviceClass {listed(names)}"


def _classes_without_devices(situation: Situation) -> Iterator[str]:
    """Yield the classes of requests none of whose alternatives has a device in its class."""
    requests: dict[tuple[str, int], list[str]] = {}
    for part in find_parts(situation.claims):
        requests.setdefault((part.entry, part.request), []).append(part.asked.device_class_name)
    for names in requests.values():
        if not any(_has_devices(situation, name) for name in names):
            yield from names


def _has_devices(situation: Situation, name: str) -> bool:
    allocator = situation.allocator
    found = allocator.inventory.classes.get(name)
    if found is None:
        return True
    selectors = tuple(item.cel.expression for item in found.spec.selectors if item.cel is not None)
    key = allocator.candidates.key(AskContent(selectors, (), ()), ())
    budget = Budget(LIMITS, allocator.clock)
    try:
        return any(
            allocator.candidates.select(key, slice_, budget)
            for pool in allocator.inventory.pools.values()
            for slice_ in pool.slices.values()
        )
    except AbortedError:
        return True
