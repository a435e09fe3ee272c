"""An independent check of decisions: nothing is given away that somebody else has, and no share beside a holder.

It counts anew from the claims each time, and knows neither ledger nor views.
"""

from collections.abc import Iterable

from dra_operator.api.types import AllocationResult, DeviceRequestAllocationResult

_Device = tuple[str, str, str]


def held_twice(given: Iterable[AllocationResult], others: Iterable[AllocationResult]) -> set[_Device]:
    """Return the devices of a decision that others hold, unless both sides have shares of them."""
    alone, sharing = _uses(others)
    taken, shared = _uses(given)
    return taken & (alone | sharing) | shared & alone


def _uses(allocations: Iterable[AllocationResult]) -> tuple[set[_Device], set[_Device]]:
    """Return the devices that allocations have alone, and those of which they have shares."""
    alone, sharing = set[_Device](), set[_Device]()
    for allocation in allocations:
        for result in allocation.devices.results:
            if not result.admin_access:
                (sharing if result.share_id else alone).add(_device(result))
    return alone, sharing


def _device(result: DeviceRequestAllocationResult) -> _Device:
    return result.driver, result.pool, result.device
