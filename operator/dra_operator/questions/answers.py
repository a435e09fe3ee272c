"""What answers have in common: what they come to, devices and amounts; and errors, where there is no answer.

Answers are plain: texts, numbers, tuples. Amounts are texts with units, as Kubernetes writes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dra_operator.api.types import AllocationResult


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
