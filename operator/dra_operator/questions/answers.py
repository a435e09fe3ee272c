"""What answers have in common: what they come to, devices and amounts; and errors, where there is no answer.

Answers are plain: texts, numbers, tuples. Amounts are texts with units, as Kubernetes writes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dra_operator.api.kinds import OWN_NAMES, POLICIES

if TYPE_CHECKING:
    from dra_operator.api.types import AllocationResult, ResourceClaim
    from dra_operator.inventory import Inventory


class QuestionError(ValueError):
    """One line with object, field, value and what to do."""


class UnknownObjectError(QuestionError):
    """An object is named that is not there."""


class Conclusion(StrEnum):
    """What an answer comes to: `kubectl dra` ends with 0, 1 and 2."""

    YES = "yes"
    NO = "no"
    CANNOT_SAY = "cannot say"


def conclude(*, is_yes: bool, is_partial: bool) -> Conclusion:
    """Return what an answer comes to: one that lacks something is neither a yes nor a no."""
    if is_partial:
        return Conclusion.CANNOT_SAY
    return Conclusion.YES if is_yes else Conclusion.NO


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """A change with which it would fit: its kind, and what goes on after "it would fit if"."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a capacity."""

    name: str
    amount: str


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """A device that a request of a claim has, or would get; `claim` is the entry of the pod, or the claim's name."""

    claim: str
    request: str
    driver: str
    pool: str
    device: str
    consumed: tuple[Amount, ...] = ()
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class LargestDevice:
    """A device that has room, and how much it has left of a capacity: none has more."""

    driver: str
    pool: str
    device: str
    capacity: str
    amount: str


def devices_of(claim: str, allocation: "AllocationResult") -> Iterator[DeviceAnswer]:
    """Yield the devices of an allocation."""
    for result in allocation.devices.results:
        consumed = tuple([Amount(name, str(amount)) for name, amount in result.consumed_capacity.items()])
        yield DeviceAnswer(
            claim,
            result.request,
            result.driver,
            result.pool,
            result.device,
            consumed,
            bool(result.admin_access),
        )


# --- Partial answers: which kinds each question reads, and what an answer lacks where some of them could not be read.
# Nothing is assumed of objects that could not be read: there may be none, or any (the open-world assumption). So a
# partial answer is neither a yes nor a no. Source: docs/library.md, "What cannot be known".


ABORTED: Final = "a search ran out of its time"
"""A line of a partial answer that is so for no kind."""
UNFINISHED: Final = (
    "not all devices could be asked in the time that a claim has: write its selectors more simply"
)
"""What is said of objects whose selectors take too long."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TO_PODS: Final = ("podAffinity", "podAntiAffinity")


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
    OBJECT_STUCK = "ObjectStuck"


@dataclass(frozen=True, slots=True)
class KindsRead:
    """The kinds that a question reads: those without which nothing can be said, and others.

    The `optional` ones count only for some of the objects asked about. Objects of the kinds that are `named` count only
    where something names them, in its own namespace; the `details` say more about what is found.
    """

    required: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds, without those that are named."""
        found = dict.fromkeys((*self.required, *self.others, *self.optional, *self.details))
        return tuple(kind for kind in found if kind not in self.named)

    def check(self, unread: Mapping[str, str]) -> None:
        """Raise QuestionError if nothing can be said, given the kinds that were not read, each with the reason."""
        for kind in self.required:
            if kind in unread:
                raise QuestionError(f"{kind} cannot be read, so nothing can be said: {unread[kind]}")

    def find_missing(self, unread: Mapping[str, str], optional: Iterable[str] = ()) -> tuple[str, ...]:
        """Return a line for each kind that an answer lacks, also of some optional ones.

        Raises QuestionError if nothing can be said.
        """
        self.check(unread)
        kinds = dict.fromkeys((*self.others, *optional))
        return tuple(f"{kind} cannot be read: {unread[kind]}" for kind in kinds if kind in unread)


def find_decision_kinds(
    inventory: "Inventory", claims: Iterable["ResourceClaim"], pods: Iterable[Mapping[str, Any]] = ()
) -> tuple[str, ...]:
    """Return the optional kinds on which the decision of some claims depends, and of pods, as on the wire."""
    found = dict[str, None]()
    if inventory.settlement is not None:
        # Where some devices are the operator's, it depends on its pods who decides about a claim.
        found["Pod"] = None
        # Its label says whether new pods get the gate.
        found["Namespace"] = None
    if any(_asks_for_admin_access(claim) for claim in claims):
        found["Namespace"] = None
    for body in pods:
        found["Pod"] = None
        volumes = (body.get("spec") or {}).get("volumes") or ()
        if any(
            isinstance(each, Mapping) and (each.get("persistentVolumeClaim") or each.get("ephemeral"))
            for each in volumes
        ):
            found |= dict.fromkeys(("PersistentVolume", "PersistentVolumeClaim"))
    return tuple(found)


def find_unchecked(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line for each condition of some pods, as on the wire, that no question looks at: a yes lacks it."""
    return tuple(dict.fromkeys(line for body in pods for line in _find_unchecked(body.get("spec") or {})))


def _find_unchecked(spec: Mapping[str, Any]) -> Iterator[str]:
    # Nobody has checked these fields of a file.
    affinity, constraints = spec.get("affinity"), spec.get("topologySpreadConstraints")
    parts = [affinity.get(name) for name in _TO_PODS] if isinstance(affinity, Mapping) else []
    if any(isinstance(part, Mapping) and part.get(_REQUIRED) for part in parts):
        yield "pod affinity is not looked at"
    for each in constraints if isinstance(constraints, list) else ():
        if isinstance(each, Mapping) and each.get("whenUnsatisfiable") == "DoNotSchedule":
            yield "topology spread is not looked at"


def _asks_for_admin_access(claim: "ResourceClaim") -> bool:
    requests = (request.exactly for request in claim.spec.devices.requests)
    return any(exactly is not None and exactly.admin_access is not None for exactly in requests)


# --- the questions


DECISION: Final = KindsRead(
    required=("ResourceSlice", "DeviceClass"),
    others=("ResourceClaim", "DeviceTaintRule", "Node"),
    optional=("Pod", "Namespace", "PersistentVolume", "PersistentVolumeClaim"),
    named=("ResourceClaimTemplate", "PodGroup", "ResourceQuota", "PriorityClass"),
    details=("Lease",),
)
"""Whether claims can be allocated: `fit`, `headroom`, `allocate`, `explain`; and what a change leaves, of `impact`."""
ALLOCATION: Final = KindsRead(required=("ResourceSlice",), others=("Node", "DeviceTaintRule"))
"""Whether a claim can use what it has."""
NAMED_CLAIM: Final = KindsRead(others=("ResourceClaim",))
"""Whether a claim that a pod names is there."""
IMPACT: Final = KindsRead(
    required=("ResourceSlice", "DeviceClass"),
    others=("ResourceClaim",),
    optional=("Pod", "DeviceTaintRule"),
)
"""What a change hits: of a drain it depends on pods, of a rule on other rules."""
HOLDERS: Final = KindsRead(
    others=("ResourceClaim",),
    optional=("ResourceSlice", "Pod", "DeviceTaintRule"),
    details=("DeviceClass", "Node"),
)
"""Which claims hold devices: of a class or a node it depends on slices, of a policy on its rules, and on pods whether
they are idle."""
USAGE: Final = KindsRead(
    required=("ResourceSlice",),
    others=("ResourceClaim", "DeviceTaintRule", "Node"),
    details=("Pod", "DeviceClass"),
)
"""How many devices are free, and which: without the others less may be free."""
MISSING: Final = KindsRead(required=("ResourceSlice", "Node"), others=("Pod", "ResourceClaim"))
"""Which nodes should have devices and have none."""
WAITING: Final = KindsRead(required=DECISION.required, others=("Pod", "ResourceClaim"))
"""What waits; why each does depends on the kinds of a decision."""
STATUS: Final = KindsRead(
    required=DECISION.required,
    others=("Lease", "Pod", "ResourceClaim", "DeviceTaintRule", "Node"),
    details=tuple(kind.kind for kind in POLICIES),
)
"""Who decides and what for: all that the operator reads, its Lease and its policies."""
OF_CLASS: Final = KindsRead(required=("DeviceClass",))
"""Which devices a class selects."""
LINT: Final = KindsRead(
    required=("ResourceSlice", "DeviceClass"),
    optional=("ResourceClaim", "ResourceClaimTemplate"),
    named=("ResourceClaim", "ResourceClaimTemplate"),
)
"""What is wrong with selectors: the optional kinds count where all objects of theirs are asked about."""
AUDIT: Final[Mapping[Sort, tuple[str, ...]]] = MappingProxyType(
    {
        Sort.TWO_HOLDERS: ("ResourceClaim",),
        Sort.EXCLUSIVE_BESIDE_SHARES: ("ResourceClaim",),
        Sort.OVERDRAWN: ("ResourceClaim", "ResourceSlice"),
        Sort.NOT_PUBLISHED: ("ResourceClaim", "ResourceSlice"),
        Sort.NODE_GONE: ("ResourceClaim", "Node"),
        Sort.CONSUMER_GONE: ("ResourceClaim", "Pod", "PodGroup"),
        Sort.DELETION_HANGS: (
            *("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
            *("Node", "Pod", "PodGroup"),
        ),
        Sort.POOL_NOT_COMPLETE: ("ResourceSlice",),
        Sort.SLICE_WITHOUT_NODE: ("ResourceSlice", "Node"),
        Sort.BINDING_OVERDUE: ("ResourceClaim", "Pod"),
        Sort.UNKNOWN_REQUEST: ("Pod", "ResourceClaim"),
        Sort.NODE_WITHOUT_DEVICES: ("ResourceSlice", "Node", "Pod", "ResourceClaim"),
        Sort.SERVED_TWICE: ("ResourceSlice", "Node", "DeviceClass"),
        Sort.NOBODY_DECIDES: ("Lease", "Pod", "DeviceTaintRule"),
        Sort.GATE_LEFT_BEHIND: ("ResourceClaim", "Pod", "Node", "Lease"),
        Sort.FOREIGN_ALLOCATION: ("ResourceClaim", "ResourceSlice", "DeviceTaintRule"),
        Sort.COUNTERS_HALF_OWNED: ("ResourceSlice", "DeviceTaintRule"),
        Sort.TOLERATES_OWNED: ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceTaintRule"),
        Sort.UNRESERVED: ("ResourceClaim",),
        Sort.OBJECT_STUCK: OWN_NAMES,
    }
)
"""The kinds without which a sort of faults is not judged, or not fully: more may be wrong."""
