"""Holders: which claims hold a device, a pool, the devices of a node or of a class, for which pods, since when.

A claim holds the results of its allocation; admin access holds nothing and is listed on request. A device that is
published for one node belongs to that node; any other belongs to the node that the allocation is pinned to.
"""

from dataclasses import dataclass
from enum import StrEnum


class Use(StrEnum):
    """What the consumers of an allocation do; anything but RUNNING and UNKNOWN leaves its devices idle."""

    RUNNING = "running"
    STARTING = "starting"
    WAITING = "waiting"
    ENDED = "ended"
    GONE = "gone"
    UNRESERVED = "unreserved"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """One result of an allocation. `consumed` are the amounts of a share, as `memory=10Gi`."""

    driver: str
    pool: str
    device: str
    request: str
    node: str = ""
    share_id: str = ""
    consumed: tuple[str, ...] = ()
    is_admin_access: bool = False
    is_published: bool = True

    @property
    def path(self) -> str:
        """The device as texts have it."""
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody a claim is reserved for, or a pod that only names it; `kind` is Pod, PodGroup or a resource."""

    kind: str
    name: str
    use: Use
    node: str = ""
    is_reserved: bool = True


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds devices.

    `since` is when it was allocated; if that is not known, when it was created, and `is_since_creation` says so. `node`
    is the one that its allocation is pinned to. `is_idle`: no consumer runs; None if that cannot be said.
    """

    namespace: str
    name: str
    devices: tuple[HeldDevice, ...]
    consumers: tuple[Consumer, ...]
    use: Use
    is_idle: bool | None
    node: str = ""
    since: str | None = None
    is_since_creation: bool = False
    age_seconds: int | None = None
    is_being_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: what is set restricts, all of it together. Empty, it is everything."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    node: str = ""
    device_class: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class HolderReport:
    """The claims that hold something, by namespace and name, and how many devices were asked about.

    `unread` has a line for each kind that could not be read: there may be more holders then.
    """

    subject: Subject
    holders: tuple[Holder, ...]
    devices: int
    unread: tuple[str, ...] = ()
