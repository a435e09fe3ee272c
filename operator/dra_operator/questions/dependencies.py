"""Dependencies: the kinds on which the answer to each question depends, and what is left of it where one is unread.

Nothing is assumed of objects that could not be read: there may be none, or any (the open-world assumption). So a yes
holds under a condition, or a no cannot be said, and a number is at most, or at least, that.
Source: docs/library.md, "What cannot be known".
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dra_operator.questions.errors import QuestionError
from dra_operator.questions.findings import Sort

if TYPE_CHECKING:
    from dra_operator.api.types import ResourceClaim
    from dra_operator.inventory import Inventory


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TO_PODS: Final = ("podAffinity", "podAntiAffinity")


class Influence(Flag):
    """What objects that were not read may do to what an answer counts."""

    LESS = auto()
    """There may be less: a number is at most that."""
    MORE = auto()
    """There may be more: a number is at least that."""
    EITHER = LESS | MORE


class Aspect(StrEnum):
    """What some dependencies take to count: that the question is about such a thing."""

    ADMIN_ACCESS = "admin access"
    """A claim asks for admin access, which the label of its namespace permits."""
    POD = "pod"
    """Where a pod can run."""
    VOLUME = "volume"
    """A pod with a volume claim."""
    OWNERSHIP = "ownership"
    """Some devices are the operator's, so that what takes devices from one decider gives them to the other."""
    CLASS = "class"
    """The devices of a class."""
    NODE = "node"
    """The devices of a node."""
    DRAIN = "drain"
    """A node that is drained."""
    RULE = "rule"
    """A DeviceTaintRule that is created or replaced."""
    EVERY_OBJECT = "every object"
    """All objects of the kinds, and not some that are named."""
    POD_AFFINITY = "pod affinity"
    """A pod that must run beside other pods, or apart from them."""
    TOPOLOGY_SPREAD = "topology spread"
    """A pod that must be spread."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A kind, and what its unread objects may do. `aspect` says when they may; None: always.

    `condition` is what a yes takes, as in "yes, if nobody else holds them".
    """

    kind: str
    influence: Influence
    aspect: Aspect | None = None
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Restriction:
    """What an answer is subject to: a line for each kind that could not be read and may change it.

    `at_most`: there may be less, under the `condition` there is not. `at_least`: there may be more.
    """

    at_most: bool = False
    at_least: bool = False
    condition: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a question depends on: kinds without which nothing can be said, and others.

    Objects of the kinds that are `named` count only where something names them, in its own namespace; the `details`
    say more about what is found. `unchecked` are aspects that the answer leaves out, each with what a yes takes.
    """

    required: tuple[str, ...] = ()
    others: tuple[Dependency, ...] = ()
    named: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    unchecked: tuple[tuple[Aspect, str], ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds, without those that are named."""
        found = dict.fromkeys((*self.required, *(each.kind for each in self.others), *self.details))
        return tuple(kind for kind in found if kind not in self.named)

    def check(self, unread: Mapping[str, str]) -> None:
        """Raise QuestionError if nothing can be said."""
        for kind in self.required:
            if kind in unread:
                raise QuestionError(f"{kind} cannot be read, so nothing can be said: {unread[kind]}")

    def find_restriction(
        self, unread: Mapping[str, str], aspects: AbstractSet[Aspect] = frozenset()
    ) -> Restriction:
        """Return what an answer is subject to, given the kinds that were not read, each with the reason.

        Raises QuestionError if nothing can be said at all.
        """
        self.check(unread)
        found = [
            each
            for each in self.others
            if each.kind in unread and (each.aspect is None or each.aspect in aspects)
        ]
        kinds = dict.fromkeys(each.kind for each in found)
        left_out = {aspect: condition for aspect, condition in self.unchecked if aspect in aspects}
        conditions = dict.fromkeys(each.condition for each in found if each.condition)
        conditions |= dict.fromkeys(left_out.values())
        return Restriction(
            bool(left_out) or any(Influence.LESS in each.influence for each in found),
            any(Influence.MORE in each.influence for each in found),
            f"if {' and '.join(conditions)}" if conditions else "",
            (
                *(f"{kind} cannot be read: {unread[kind]}" for kind in kinds),
                *(f"{aspect.value} is not looked at" for aspect in left_out),
            ),
        )


def find_aspects(
    inventory: "Inventory", claims: Iterable["ResourceClaim"], pods: Iterable[Mapping[str, Any]] = ()
) -> frozenset[Aspect]:
    """Return what the decision of some claims is about, and of pods, as on the wire, that use them."""
    found: set[Aspect] = set()
    if inventory.settlement is not None:
        found.add(Aspect.OWNERSHIP)
    if any(_asks_for_admin_access(claim) for claim in claims):
        found.add(Aspect.ADMIN_ACCESS)
    for body in pods:
        found.add(Aspect.POD)
        spec = body.get("spec") or {}
        if any(
            isinstance(volume, Mapping) and (volume.get("persistentVolumeClaim") or volume.get("ephemeral"))
            for volume in spec.get("volumes") or ()
        ):
            found.add(Aspect.VOLUME)
        found.update(_aspects_beside_others(spec))
    return frozenset(found)


def _aspects_beside_others(spec: Mapping[str, Any]) -> Iterator[Aspect]:
    """Yield what a pod asks of other pods, where it runs nowhere otherwise."""
    # Nobody has checked these fields of a file.
    affinity, constraints = spec.get("affinity"), spec.get("topologySpreadConstraints")
    parts = [affinity.get(name) for name in _TO_PODS] if isinstance(affinity, Mapping) else []
    if any(isinstance(part, Mapping) and part.get(_REQUIRED) for part in parts):
        yield Aspect.POD_AFFINITY
    for each in constraints if isinstance(constraints, list) else ():
        if isinstance(each, Mapping) and each.get("whenUnsatisfiable") == "DoNotSchedule":
            yield Aspect.TOPOLOGY_SPREAD


def _asks_for_admin_access(claim: "ResourceClaim") -> bool:
    requests = (request.exactly for request in claim.spec.devices.requests)
    return any(exactly is not None and exactly.admin_access is not None for exactly in requests)


# --- the questions


_CLAIMS: Final = Dependency("ResourceClaim", Influence.LESS, condition="nobody else holds them")
_RULES: Final = Dependency("DeviceTaintRule", Influence.LESS, condition="no rule taints them")
_NODES: Final = Dependency("Node", Influence.EITHER, condition="their nodes are as they are assumed to be")
_PODS: Final = Dependency("Pod", Influence.LESS, Aspect.POD, condition="other pods leave room on the nodes")
_VOLUMES_FIT: Final = "its volumes can be used there"

DECISION: Final = Dependencies(
    required=("ResourceSlice", "DeviceClass"),
    others=(
        *(_CLAIMS, _RULES, _NODES, _PODS),
        Dependency("Namespace", Influence.MORE, Aspect.ADMIN_ACCESS),
        # A claim that is bound names its volume, and without it a pod fits nowhere.
        Dependency("PersistentVolume", Influence.EITHER, Aspect.VOLUME, _VOLUMES_FIT),
        Dependency("PersistentVolumeClaim", Influence.LESS, Aspect.VOLUME, _VOLUMES_FIT),
        Dependency("DeviceTaintRule", Influence.MORE, Aspect.OWNERSHIP),
        Dependency("Pod", Influence.MORE, Aspect.OWNERSHIP),
    ),
    named=("ResourceClaimTemplate", "PodGroup"),
    unchecked=(
        (Aspect.POD_AFFINITY, "its affinity to other pods allows it"),
        (Aspect.TOPOLOGY_SPREAD, "its topology spread allows it"),
    ),
)
"""Whether claims can be allocated: `fit`, `headroom`, `allocate`, `explain`; and what a change leaves, of `impact`."""
ALLOCATION: Final = Dependencies(
    required=("ResourceSlice",),
    others=(
        Dependency("Node", Influence.LESS, condition="its node is there"),
        Dependency("DeviceTaintRule", Influence.LESS, condition="no rule evicts it"),
    ),
)
"""Whether a claim can use what it has."""
NAMED_CLAIM: Final = Dependencies(others=(Dependency("ResourceClaim", Influence.MORE),))
"""Whether a claim that a pod names is there."""
IMPACT: Final = Dependencies(
    required=("ResourceSlice", "DeviceClass"),
    others=(
        Dependency("ResourceClaim", Influence.MORE),
        Dependency("Pod", Influence.MORE, Aspect.DRAIN),
        Dependency("DeviceTaintRule", Influence.LESS, Aspect.RULE),
    ),
)
"""What a change hits."""
HOLDERS: Final = Dependencies(
    others=(
        Dependency("ResourceClaim", Influence.MORE),
        Dependency("ResourceSlice", Influence.EITHER, Aspect.CLASS, "the devices are of that class"),
        Dependency("ResourceSlice", Influence.MORE, Aspect.NODE),
    ),
    details=("Pod", "DeviceClass", "Node"),
)
"""Which claims hold devices."""
USAGE: Final = Dependencies(
    required=("ResourceSlice",),
    others=(
        *(_CLAIMS, _RULES),
        Dependency("Node", Influence.LESS, condition="their nodes can be used"),
    ),
    details=("Pod", "DeviceClass"),
)
"""How many devices are free, and which."""
OF_CLASS: Final = Dependencies(required=("DeviceClass",))
"""Which devices a class selects."""
LINT: Final = Dependencies(
    required=("ResourceSlice", "DeviceClass"),
    others=(
        Dependency("ResourceClaim", Influence.MORE, Aspect.EVERY_OBJECT),
        Dependency("ResourceClaimTemplate", Influence.MORE, Aspect.EVERY_OBJECT),
    ),
    named=("ResourceClaim", "ResourceClaimTemplate"),
)
"""What is wrong with selectors."""
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
        Sort.SERVED_TWICE: ("ResourceSlice", "Node", "DeviceClass"),
        Sort.GATE_LEFT_BEHIND: ("ResourceClaim", "Pod", "Node"),
        Sort.FOREIGN_ALLOCATION: ("ResourceClaim", "ResourceSlice", "DeviceTaintRule"),
        Sort.COUNTERS_HALF_OWNED: ("ResourceSlice", "DeviceTaintRule"),
        Sort.UNRESERVED: ("ResourceClaim",),
    }
)
"""The kinds without which a sort of faults is not judged, or not fully: more may be wrong."""
