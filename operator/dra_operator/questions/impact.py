"""Impact: which claims and pods a change hits, and which of them would fit elsewhere.

The change is applied to a copy. Claims that are hit count as gone there, all at once, and are then decided anew in the
order in which kube-scheduler would decide their pods; each decision counts for the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A DeviceTaintRule, as on the wire, is created or replaced."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClassChange:
    """A DeviceClass, as on the wire, is created or replaced."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeDrain:
    """A node is cordoned, and its pods but those of DaemonSets are evicted."""

    name: str


@dataclass(frozen=True, slots=True)
class DriverRemoval:
    """A driver and all of its slices go."""

    name: str


ClusterChange: TypeAlias = RuleChange | ClassChange | NodeDrain | DriverRemoval


class Effect(StrEnum):
    """What becomes of a claim that is hit."""

    EVICTED = "evicted"
    """Its pods are evicted: a NoExecute taint that it does not tolerate, or a drained node."""
    KEPT = "kept"
    """It keeps its devices; after its end they are not given to a claim like it."""
    LOST = "lost"
    """Its devices are no longer published."""


@dataclass(frozen=True, slots=True)
class PodImpact:
    """A pod that uses a claim that is hit. `is_replaced`: a controller makes another one; None if that is not known."""

    name: str
    node: str
    is_replaced: bool | None


@dataclass(frozen=True, slots=True)
class ClaimImpact:
    """A claim that holds devices which are hit.

    `after_seconds` is how long its toleration still lasts. `fits_elsewhere` says whether it gets devices if it is
    decided anew after the change: on `new_node`, `new_devices`; or `reason` and `message` why not.
    """

    namespace: str
    name: str
    devices: tuple[str, ...]
    effect: Effect
    pods: tuple[PodImpact, ...]
    fits_elsewhere: bool
    new_node: str = ""
    new_devices: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class RequestImpact:
    """A request of a claim that waits, or of a template, which fewer or more devices can serve after the change."""

    kind: str
    namespace: str
    name: str
    request: str
    devices_before: int
    devices_after: int


@dataclass(frozen=True, slots=True)
class ImpactReport:
    """What a change hits: `devices` of them, `used` of which are held."""

    change: str
    devices: int
    used: int
    claims: tuple[ClaimImpact, ...]
    requests: tuple[RequestImpact, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
