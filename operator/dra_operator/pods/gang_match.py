"""One value for all of a gang: `matchAttribute` over the results of all members, not of one claim.

For a value, each request that it concerns gets one more selector, so the allocator itself decides by it. Values of
which too few devices are free are told by counting. Source: docs/gangs.md.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from dra_operator.allocator.constraints import elements
from dra_operator.api.attributes import SCALARS, AttributeValue
from dra_operator.api.types import (
    CELSelector,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dra_operator.api.versions import Rules
from dra_operator.inventory import Inventory, Slice, bits
from dra_operator.ledger import Ledger

_PLENTY: Final = 1 << 30
"""So many copies have room on a device that can be shared, as far as counting tells."""
_NOTHING: Final = "false"
_Asked = TypeVar("_Asked", ExactDeviceRequest, DeviceSubRequest)


@dataclass(frozen=True, slots=True)
class GangMatch:
    """An attribute of which all results of some classes have one value; no classes: those whose driver publishes it."""

    attribute: str
    classes: tuple[str, ...] = ()

    def concerns(self, device_class: str, driver: str, publishers: Iterable[str]) -> bool:
        """Return whether a result for a class by a driver has to have the value."""
        return device_class in self.classes if self.classes else driver in publishers


@dataclass(slots=True)
class MatchValues:
    """The values that devices publish of the attribute of a match, and how many devices with each are free at most.

    `others` are free devices of drivers that do not publish it.
    """

    match: GangMatch
    inventory: Inventory
    ledger: Ledger
    rules: Rules
    free: dict[AttributeValue, int] = field(default_factory=dict)
    others: int = 0
    publishers: tuple[str, ...] = ()
    _has_lists: bool = False
    _narrowed: dict[tuple[int, AttributeValue | None], tuple[object, ResourceClaim]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        slices = [slice_ for pool in self.inventory.pools.values() for slice_ in pool.slices.values()]
        by_driver: dict[str, int] = {}
        publishers = set()
        for slice_ in slices:
            used, _ = self.ledger.in_use(slice_.key, slice_.names)
            is_published = False
            for index in bits.each(slice_.every):
                room = 0 if used >> index & 1 else _PLENTY if slice_.shareable >> index & 1 else 1
                by_driver[slice_.driver] = by_driver.get(slice_.driver, 0) + room
                value = _value_of(slice_, index, self.match.attribute)
                if value is None:
                    continue
                is_published = True
                self._has_lists |= value.type not in SCALARS
                for each in elements(value, self.rules):
                    self.free[each] = self.free.get(each, 0) + room
            if is_published:
                publishers.add(slice_.driver)
        self.publishers = tuple(sorted(publishers))
        self.others = sum(
            count for driver, count in by_driver.items() if self.match.classes or driver not in publishers
        )

    def candidates(self, held: Iterable[ResourceClaim]) -> Iterator[AttributeValue | None]:
        """Yield the values that what some claims have leaves, in order; None, which no device has, if there is none."""
        left = set(self.free)
        for claim in held:
            for result in _results(claim):
                found = self._held_value(claim, result)
                if found is not None:
                    left &= found
        yield from sorted(left, key=lambda each: (each.type, str(each.value)))
        if not left:
            yield None

    def _held_value(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult
    ) -> frozenset[AttributeValue] | None:
        """Return the values of a device that a claim has; None if the match does not concern it."""
        name = _class_of(claim, result.request)
        if result.admin_access or not self.match.concerns(name, result.driver, self.publishers):
            return None
        pool = self.inventory.pools.get((result.driver, result.pool))
        for slice_ in () if pool is None else pool.slices.values():
            index = slice_.indexes.get(result.device)
            if index is not None and (value := _value_of(slice_, index, self.match.attribute)) is not None:
                return frozenset(elements(value, self.rules))
        return frozenset()

    def may_have_room(self, value: AttributeValue | None, claims: Iterable[ResourceClaim]) -> bool:
        """Return False only if fewer devices than some claims need could have a value, or need none."""
        if self.match.classes:
            needed = sum(_least(claim, self.match.classes) for claim in claims)
            return needed <= (0 if value is None else self.free[value])
        needed = sum(_least(claim) for claim in claims)
        return needed <= self.others + (0 if value is None else self.free[value])

    def narrow(self, claim: ResourceClaim, value: AttributeValue | None) -> ResourceClaim:
        """Return a claim whose results have a value; with None, one that has no result that the match concerns."""
        if value is None and not self.match.classes and not self.publishers:
            return claim
        key = id(claim.spec), value
        found = self._narrowed.get(key)
        if found is None:
            devices = claim.spec.devices
            requests = tuple([self._narrow_request(each, value) for each in devices.requests])
            spec = replace(claim.spec, devices=replace(devices, requests=requests))
            # The spec is kept, so that no other has its id.
            found = self._narrowed[key] = claim.spec, replace(claim, spec=spec)
        return replace(claim, spec=found[1].spec)

    def _narrow_request(self, request: DeviceRequest, value: AttributeValue | None) -> DeviceRequest:
        if request.exactly is not None:
            exactly = self._narrow_one(request.exactly, value)
            return replace(request, exactly=exactly)
        first = tuple([self._narrow_one(each, value) for each in request.first_available])
        return replace(request, first_available=first)

    def _narrow_one(self, asked: _Asked, value: AttributeValue | None) -> _Asked:
        if getattr(asked, "admin_access", None):
            return asked
        if self.match.classes and asked.device_class_name not in self.match.classes:
            return asked
        text = self._expression(value)
        if not self.match.classes:
            text = f"!(device.driver in {json.dumps(self.publishers)}) || ({text})"
        selector = DeviceSelector(CELSelector(text))
        return replace(asked, selectors=(*asked.selectors, selector))

    def _expression(self, value: AttributeValue | None) -> str:
        if value is None:
            return _NOTHING
        domain, _, name = self.match.attribute.rpartition("/")
        place = f"device.attributes[{json.dumps(domain)}].{name}"
        text = json.dumps(value.value)
        if value.type == "version":
            text = f"semver({text})"
        same = f"{place}.includes({text})" if self._has_lists else f"{place} == {text}"
        return f"has({place}) && {same}"


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def _class_of(claim: ResourceClaim, name: str) -> str:
    """Return the class of a request, or of a subrequest, by its full name."""
    for request in claim.spec.devices.requests:
        if request.name == name and request.exactly is not None:
            return request.exactly.device_class_name
        for each in request.first_available:
            if f"{request.name}/{each.name}" == name:
                return each.device_class_name
    return ""


def _least(claim: ResourceClaim, classes: tuple[str, ...] = ()) -> int:
    """Return how many devices a claim takes at least; of some classes alone, if any are given."""

    def count(asked: ExactDeviceRequest | DeviceSubRequest) -> int:
        is_counted = not classes or asked.device_class_name in classes
        return asked.count if is_counted and not getattr(asked, "admin_access", None) else 0

    total = 0
    for request in claim.spec.devices.requests:
        options = (request.exactly,) if request.exactly is not None else request.first_available
        total += min(map(count, options), default=0)
    return total


def _value_of(slice_: Slice, index: int, attribute: str) -> AttributeValue | None:
    for column in slice_.attribute_columns(attribute):
        if column is not None and (value := column.values[index]) is not None:
            return value
    return None
