"""Limits: lists and texts that are longer than the API server takes, with what to do about each.

In a cluster nothing like it can be there; in a file it is a mistake that shows only when the file is applied.
Tolerations (16 are documented) and amounts are not counted, as the API server does not count them either.
Source: the constants of k8s.io/api/resource/v1 of Kubernetes 1.37, and the answers of its API server.
"""

import json
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

from dra_operator.api import types
from dra_operator.api.wire import Wire, wire_fields


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field that the API server refuses: its path in v1, its value or length, what is wrong and what to do."""

    path: str
    value: str | int | None
    text: str

    @property
    def message(self) -> str:
        """The value and what is wrong with it, for people."""
        return (
            self.text if self.value is None else f"{json.dumps(self.value, ensure_ascii=False)} {self.text}"
        )


_SPLIT_CLAIM = "ask for the rest in another claim"
_SPLIT_SLICE = "publish the rest in another slice of the pool"
_JOIN = "write several as one, joined by &&"
_LEAVE_OUT = "leave some out"
_NAME_NONE = "name no request, which means all of them"
_SELECT_AT_ONCE = "say it in one, or set perDeviceNodeSelection and say it at each device"

MOST_ITEMS: Final[Mapping[tuple[type[Any], str], tuple[int, str]]] = {
    (types.DeviceClaim, "requests"): (32, _SPLIT_CLAIM),
    (types.DeviceClaim, "constraints"): (32, _LEAVE_OUT),
    (types.DeviceClaim, "config"): (32, _LEAVE_OUT),
    (types.DeviceRequest, "first_available"): (8, _LEAVE_OUT),
    (types.ExactDeviceRequest, "selectors"): (32, _JOIN),
    (types.ExactDeviceRequest, "derived_attributes"): (32, _LEAVE_OUT),
    (types.DeviceSubRequest, "selectors"): (32, _JOIN),
    (types.DeviceSubRequest, "derived_attributes"): (32, _LEAVE_OUT),
    (types.DeviceConstraint, "requests"): (32, _NAME_NONE),
    (types.DeviceConfiguration, "requests"): (32, _NAME_NONE),
    (types.DeviceClassSpec, "selectors"): (32, _JOIN),
    (types.DeviceClassSpec, "config"): (32, _LEAVE_OUT),
    (types.ResourceSliceSpec, "shared_counters"): (8, _SPLIT_SLICE),
    (types.CounterSet, "counters"): (32, "make a counter set of the rest"),
    (types.Device, "taints"): (16, _LEAVE_OUT),
    (types.Device, "binding_conditions"): (4, _LEAVE_OUT),
    (types.Device, "binding_failure_conditions"): (4, _LEAVE_OUT),
    (types.Device, "consumes_counters"): (2, _LEAVE_OUT),
    (types.DeviceCounterConsumption, "counters"): (32, _LEAVE_OUT),
    (types.DeviceCounterConsumption, "compatibility_groups"): (2, _LEAVE_OUT),
    (types.CapacityRequestPolicy, "valid_values"): (10, "use validRange"),
}
"""How many items fields may have, and what to do about more."""
_REMEDIES_FOR_BYTES: Final[Mapping[tuple[type[Any], str], str]] = {
    (types.CELSelector, "expression"): f"{_LEAVE_OUT}, or use several selectors",
    (types.DerivedAttribute, "expression"): _LEAVE_OUT,
    (types.OpaqueConfiguration, "parameters"): _LEAVE_OUT,
}
_MOST_BYTES = 10 * 1024
_MOST_DEVICES = 128
_MOST_DEVICES_ADVANCED = 64
_MOST_NAMED_VALUES = 32
_MOST_VALUES = 48


def find_too_long(obj: object) -> Iterator[Refusal]:
    """Yield what is too long in a claim, a template, a class or a slice; nothing of others."""
    if isinstance(
        obj, types.ResourceClaim | types.ResourceClaimTemplate | types.DeviceClass | types.ResourceSlice
    ):
        yield from _part(obj.spec, "spec")


def _part(part: Wire, path: str) -> Iterator[Refusal]:
    kind: Any = type(part)
    for field, name in _names(kind):
        value, at = getattr(part, field), f"{path}.{name}"
        if (limit := MOST_ITEMS.get((kind, field))) is not None:
            yield from _most(value, *limit, at)
        if (remedy := _REMEDIES_FOR_BYTES.get((kind, field))) is not None:
            yield from _most_bytes(value, remedy, at)
        else:
            yield from _below(value, at)
    if isinstance(part, types.ResourceSliceSpec):
        yield from _slice(part, path)
    elif isinstance(part, types.Device):
        yield from _device(part, path)


@cache
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    """Return the name of each field, here and on the wire."""
    return tuple((each.name, name) for each, name in zip(fields(kind), wire_fields(kind), strict=True))


def _below(value: Any, path: str) -> Iterator[Refusal]:
    if isinstance(value, Wire):
        yield from _part(value, path)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _below(item, f"{path}[{number}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _below(item, f'{path}["{key}"]')


def _most(items: Sized, most: int, remedy: str, path: str) -> Iterator[Refusal]:
    if len(items) > most:
        yield Refusal(path, len(items), f"are too many, {most} at most: {remedy}")


def _most_bytes(value: object, remedy: str, path: str) -> Iterator[Refusal]:
    # The API server counts the bytes that it is sent, and compact JSON has the fewest.
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    length = len(text.encode(errors="surrogatepass"))
    if length > _MOST_BYTES:
        yield Refusal(path, length, f"bytes are too many, {_MOST_BYTES} at most: {remedy}")


def _slice(spec: types.ResourceSliceSpec, path: str) -> Iterator[Refusal]:
    if spec.node_selector is not None:
        terms = spec.node_selector.node_selector_terms
        yield from _most(terms, 1, _SELECT_AT_ONCE, f"{path}.nodeSelector.nodeSelectorTerms")
    most, remedy = _MOST_DEVICES, _SPLIT_SLICE
    if any(_is_advanced(device) for device in spec.devices):
        most = _MOST_DEVICES_ADVANCED
        remedy = f"with taints, counters or lists there is room for no more; {_SPLIT_SLICE}"
    yield from _most(spec.devices, most, remedy, f"{path}.devices")


def _is_advanced(device: types.Device) -> bool:
    lists = any(isinstance(item.value, tuple) for item in device.attributes.values())
    return bool(device.taints or device.consumes_counters or lists)


def _device(device: types.Device, path: str) -> Iterator[Refusal]:
    named = len(device.attributes) + len(device.capacity)
    if named > _MOST_NAMED_VALUES:
        text = f"attributes and capacities are too many, {_MOST_NAMED_VALUES} together at most: {_LEAVE_OUT}"
        yield Refusal(path, named, text)
    values = sum(
        [len(item.value) if isinstance(item.value, tuple) else 1 for item in device.attributes.values()]
    )
    if values > _MOST_VALUES:
        text = f"values of attributes are too many, {_MOST_VALUES} at most: {_LEAVE_OUT}"
        yield Refusal(path, values, text)
