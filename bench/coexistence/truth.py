"""Whether a claim of ours that waits does so with reason: nothing of what the operator owns, and is free, fits it.

A count for the few forms of requests that the workload makes; it does not know the operator's allocator.
"""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

from live.objects import Body, allocation_of, is_told

from coexistence.reader import Device, Published, Reader


class Truth:
    """What fits the free devices of the operator, as the reader sees them."""

    def __init__(self, stock: Published, reader: Reader) -> None:
        self._reader = reader
        self._nodes: dict[str, list[Device]] = defaultdict(list)
        for device in stock.devices.values():
            self._nodes[device.node].append(device)

    def fault(self, claim: Body) -> str | None:
        """Return what is wrong about a claim of ours at rest, or None."""
        if allocation_of(claim):
            return None
        if not is_told(claim):
            return "neither allocated nor with a reason"
        requests = [one["exactly"] for one in claim["spec"]["devices"]["requests"]]
        fitting = [name for name, devices in self._nodes.items() if self._fits(requests, devices)]
        if fitting:
            return f"waits although it fits {', '.join(fitting[:3])}"
        return None

    def _fits(self, requests: list[Body], devices: Iterable[Device]) -> bool:
        kinds = {one["deviceClassName"] for one in requests}
        if kinds != {"plain"}:
            (request,) = requests
            return any(
                self._fits_one(request, device)
                for device in devices
                if {device.kind} == kinds and device.id in self._reader.owned
            )
        plain = [device for device in devices if device.kind == "plain"]
        free = [device for device in plain if self._is_free(device)]
        if any(one.get("allocationMode") == "All" for one in requests):
            return len(requests) == 1 and bool(plain) and len(free) == len(plain)
        return sum(one.get("count", 1) for one in requests) <= len(free)

    def _is_free(self, device: Device) -> bool:
        return device.id in self._reader.owned and not self._reader.holders(device.id)

    def _fits_one(self, request: Body, device: Device) -> bool:
        if device.is_shared:
            wanted = request["capacity"]["requests"]
            left = self._reader.remaining_capacity(device)
            return all(left[name] >= Fraction(value) for name, value in wanted.items())
        return not self._reader.holders(device.id) and all(
            self._reader.remaining_counter(counter) >= value for counter, value in device.consumes.items()
        )
