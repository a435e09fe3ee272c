"""What answers have in common: devices, and what is not known for want of rights.

Answers are plain: texts, numbers, tuples. Amounts are texts with units, as Kubernetes writes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dra_operator.api.types import AllocationResult
from dra_operator.questions.errors import QuestionError

IF_NOBODY_ELSE: Final = "if nobody else holds them"
"""The condition of a yes where not everything that holds devices could be read."""
_REQUIRED: Final = ("ResourceSlice", "DeviceClass")
"""Without these nothing can be said."""
_HOLDING: Final = ("ResourceClaim", "DeviceTaintRule", "Node", "Pod")
"""Objects of these kinds may only take something away."""


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


@dataclass(frozen=True, slots=True)
class Restriction:
    """What an answer is subject to: kinds that could not be read, a line each; `at_most` if there may be less."""

    at_most: bool = False
    lines: tuple[str, ...] = ()


def devices_of(claim: str, allocation: AllocationResult) -> Iterator[DeviceAnswer]:
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


def find_restriction(unread: Mapping[str, str], kinds: Iterable[str] = _HOLDING) -> Restriction:
    """Return what answers about free devices are subject to. Raises QuestionError if nothing can be said at all."""
    for kind in _REQUIRED:
        if kind in unread:
            raise QuestionError(f"{kind}s cannot be read, so nothing can be said: {unread[kind]}")
    lines = tuple([f"{kind}s cannot be read: {unread[kind]}" for kind in kinds if kind in unread])
    return Restriction(bool(lines), lines)
