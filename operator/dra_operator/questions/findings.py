"""Findings: the sorts of faults that an audit finds, each with the object and what to do.

Source: docs/audit.md.
"""

from dataclasses import dataclass
from enum import StrEnum

from dra_operator.questions.answers import Conclusion, conclude


class Sort(StrEnum):
    """The sorts of findings, the most urgent first."""

    TWO_HOLDERS = "TwoHolders"
    EXCLUSIVE_BESIDE_SHARES = "ExclusiveBesideShares"
    OVERDRAWN = "Overdrawn"
    NOT_PUBLISHED = "NotPublished"
    NODE_GONE = "NodeGone"
    CONSUMER_GONE = "ConsumerGone"
    DELETION_HANGS = "DeletionHangs"
    POOL_NOT_COMPLETE = "PoolNotComplete"
    SLICE_WITHOUT_NODE = "SliceWithoutNode"
    NODE_WITHOUT_DEVICES = "NodeWithoutDevices"
    SERVED_TWICE = "ServedTwice"
    BINDING_OVERDUE = "BindingOverdue"
    UNKNOWN_REQUEST = "UnknownRequest"
    NOBODY_DECIDES = "NobodyDecides"
    GATE_LEFT_BEHIND = "GateLeftBehind"
    FOREIGN_ALLOCATION = "ForeignAllocation"
    COUNTERS_HALF_OWNED = "CountersHalfOwned"
    TOLERATES_OWNED = "ToleratesOwned"
    UNRESERVED = "Unreserved"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with an object, in one line, and what to do about it.

    `related` are the other objects that take part, as `ResourceClaim team-a/train-0`.
    """

    sort: Sort
    kind: str
    namespace: str
    name: str
    message: str
    action: str
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UncheckedSort:
    """A sort that could not be judged, and why."""

    sort: Sort
    why: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All findings by sort, and by namespace and name of the object; and what could not be judged.

    `owned_without_policy` are the rules and slices that own devices, and are of no AllocationPolicy: nothing is wrong
    with them.
    """

    findings: tuple[Finding, ...]
    unchecked: tuple[UncheckedSort, ...] = ()
    owned_without_policy: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether nothing is wrong."""
        # What is found is wrong, whatever could not be checked.
        return conclude(is_yes=not self.findings, is_partial=bool(self.unchecked) and not self.findings)
