"""What answers have in common: devices and amounts.

Answers are plain: texts, numbers, tuples. Amounts are texts with units, as Kubernetes writes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.api.types import AllocationResult


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
