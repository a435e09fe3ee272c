"""The parts of requests that can be edited: what each asks for, or each of its alternatives."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from dra_operator.api.types import DeviceSubRequest, ExactDeviceRequest
from dra_operator.pods.situation import Claims

Asked: TypeAlias = ExactDeviceRequest | DeviceSubRequest
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Part:
    """What a request of a claim asks for, or one of its alternatives; by entry and positions.

    `alternative` is None if the request has none. `path` is its name as results have it.
    """

    entry: str
    request: int
    alternative: int | None
    path: str
    asked: Asked


def find_parts(claims: Claims) -> tuple[Part, ...]:
    """Return all that claims ask for, in order."""
    found: list[Part] = []
    for entry, claim in claims.items():
        for number, request in enumerate(claim.spec.devices.requests):
            if request.exactly is not None:
                found.append(Part(entry, number, None, request.name, request.exactly))
                continue
            for place, item in enumerate(request.first_available):
                found.append(Part(entry, number, place, f"{request.name}/{item.name}", item))
    return tuple(found)


def with_part(claims: Claims, part: Part, asked: Asked) -> Claims:
    """Return claims of which one asks for something else in the place of a part."""
    claim = claims[part.entry]
    request = claim.spec.devices.requests[part.request]
    if part.alternative is None:
        assert isinstance(asked, ExactDeviceRequest)
        request = replace(request, exactly=asked)
    else:
        assert isinstance(asked, DeviceSubRequest)
        request = replace(
            request, first_available=with_item(request.first_available, part.alternative, asked)
        )
    devices = claim.spec.devices
    devices = replace(devices, requests=with_item(devices.requests, part.request, request))
    return {**claims, part.entry: replace(claim, spec=replace(claim.spec, devices=devices))}


def is_monotone(parts: Collection[Part]) -> bool:
    """Return whether to ask for less never makes claims unfit: not of those that ask for all devices there are."""
    return all(part.asked.allocation_mode != "All" for part in parts)


def with_item(items: tuple[_Item, ...], place: int, item: _Item) -> tuple[_Item, ...]:
    """Return items with another one in a place."""
    return (*items[:place], item, *items[place + 1 :])
