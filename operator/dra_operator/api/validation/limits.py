"""What is refused: a field of an object in a file, told before somebody applies the file."""

import json
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass

from dra_operator.api.types import (
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceConfiguration,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)


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

_MOST_DEVICES = 128
_MOST_DEVICES_ADVANCED = 64
_MOST_NAMED_VALUES = 32
_MOST_VALUES = 48
_LONGEST_EXPRESSION = 10 * 1024
_LONGEST_PARAMETERS = 10 * 1024


def find_too_long(obj: object) -> Iterator[Refusal]:
    """Yield what is too long in a claim, a template, a class or a slice; nothing of others."""
    match obj:
        case ResourceClaim():
            yield from _claim(obj.spec.devices, "spec.devices")
        case ResourceClaimTemplate():
            yield from _claim(obj.spec.spec.devices, "spec.spec.devices")
        case DeviceClass():
            yield from _selectors(obj.spec.selectors, "spec.selectors")
            yield from _config(obj.spec.config, "spec.config")
        case ResourceSlice():
            yield from _slice(obj)
        case _:
            pass


def _most(items: Sized, most: int, path: str, remedy: str) -> Iterator[Refusal]:
    if len(items) > most:
        yield Refusal(path, len(items), f"are too many, {most} at most: {remedy}")


def _claim(devices: DeviceClaim, path: str) -> Iterator[Refusal]:
    yield from _most(devices.requests, 32, f"{path}.requests", _SPLIT_CLAIM)
    yield from _most(devices.constraints, 32, f"{path}.constraints", _LEAVE_OUT)
    yield from _config(devices.config, f"{path}.config")
    for number, request in enumerate(devices.requests):
        at = f"{path}.requests[{number}]"
        if request.exactly is not None:
            yield from _request(request.exactly, f"{at}.exactly")
        yield from _most(request.first_available, 8, f"{at}.firstAvailable", _LEAVE_OUT)
        for place, item in enumerate(request.first_available):
            yield from _request(item, f"{at}.firstAvailable[{place}]")
    for number, constraint in enumerate(devices.constraints):
        yield from _most(constraint.requests, 32, f"{path}.constraints[{number}].requests", _NAME_NONE)
    for number, config in enumerate(devices.config):
        yield from _most(config.requests, 32, f"{path}.config[{number}].requests", _NAME_NONE)


def _config(items: Sequence[DeviceConfiguration], path: str) -> Iterator[Refusal]:
    yield from _most(items, 32, path, _LEAVE_OUT)
    for number, item in enumerate(items):
        length = _sent_length(item.opaque.parameters) if item.opaque is not None else 0
        if length > _LONGEST_PARAMETERS:
            text = f"bytes are too many, {_LONGEST_PARAMETERS} at most: {_LEAVE_OUT}"
            yield Refusal(f"{path}[{number}].opaque.parameters", length, text)


def _sent_length(parameters: object) -> int:
    # The API server counts the bytes that it is sent, and compact JSON has the fewest.
    return len(
        json.dumps(parameters, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")
    )


def _request(item: ExactDeviceRequest | DeviceSubRequest, path: str) -> Iterator[Refusal]:
    yield from _selectors(item.selectors, f"{path}.selectors")
    yield from _most(item.derived_attributes, 32, f"{path}.derivedAttributes", _LEAVE_OUT)
    for number, derived in enumerate(item.derived_attributes):
        yield from _expression(
            derived.expression, f"{path}.derivedAttributes[{number}].expression", _LEAVE_OUT
        )


def _selectors(selectors: Sequence[DeviceSelector], path: str) -> Iterator[Refusal]:
    yield from _most(selectors, 32, path, _JOIN)
    for number, item in enumerate(selectors):
        if item.cel is not None:
            remedy = f"{_LEAVE_OUT}, or use several selectors"
            yield from _expression(item.cel.expression, f"{path}[{number}].cel.expression", remedy)


def _expression(expression: str, path: str, remedy: str) -> Iterator[Refusal]:
    length = len(expression.encode(errors="surrogatepass"))
    if length > _LONGEST_EXPRESSION:
        yield Refusal(path, length, f"bytes are too many, {_LONGEST_EXPRESSION} at most: {remedy}")


def _slice(obj: ResourceSlice) -> Iterator[Refusal]:
    spec = obj.spec
    if spec.node_selector is not None:
        terms = spec.node_selector.node_selector_terms
        yield from _most(terms, 1, "spec.nodeSelector.nodeSelectorTerms", _SELECT_AT_ONCE)
    most, remedy = _MOST_DEVICES, _SPLIT_SLICE
    if any(_is_advanced(device) for device in spec.devices):
        most = _MOST_DEVICES_ADVANCED
        remedy = f"with taints, counters or lists there is room for no more; {_SPLIT_SLICE}"
    yield from _most(spec.devices, most, "spec.devices", remedy)
    for number, device in enumerate(spec.devices):
        yield from _device(device, f"spec.devices[{number}]")
    yield from _most(spec.shared_counters, 8, "spec.sharedCounters", _SPLIT_SLICE)
    for number, counters in enumerate(spec.shared_counters):
        path = f"spec.sharedCounters[{number}].counters"
        yield from _most(counters.counters, 32, path, "make a counter set of the rest")


def _is_advanced(device: Device) -> bool:
    lists = any(isinstance(item.value, tuple) for item in device.attributes.values())
    return bool(device.taints or device.consumes_counters or lists)


def _device(device: Device, path: str) -> Iterator[Refusal]:
    yield from _most(device.taints, 16, f"{path}.taints", _LEAVE_OUT)
    yield from _most(device.binding_conditions, 4, f"{path}.bindingConditions", _LEAVE_OUT)
    yield from _most(device.binding_failure_conditions, 4, f"{path}.bindingFailureConditions", _LEAVE_OUT)
    yield from _most(device.consumes_counters, 2, f"{path}.consumesCounters", _LEAVE_OUT)
    for number, item in enumerate(device.consumes_counters):
        at = f"{path}.consumesCounters[{number}]"
        yield from _most(item.counters, 32, f"{at}.counters", _LEAVE_OUT)
        yield from _most(item.compatibility_groups, 2, f"{at}.compatibilityGroups", _LEAVE_OUT)
    named = len(device.attributes) + len(device.capacity)
    if named > _MOST_NAMED_VALUES:
        text = f"attributes and capacities are too many, {_MOST_NAMED_VALUES} together at most: {_LEAVE_OUT}"
        yield Refusal(path, named, text)
    values = sum(
        [len(item.value) if isinstance(item.value, tuple) else 1 for item in device.attributes.values()]
    )
    if values > _MOST_VALUES:
        yield Refusal(
            path, values, f"values of attributes are too many, {_MOST_VALUES} at most: {_LEAVE_OUT}"
        )
    yield from _policies(device, path)


def _policies(device: Device, path: str) -> Iterator[Refusal]:
    for name, capacity in device.capacity.items():
        if capacity.request_policy is not None:
            at = f'{path}.capacity["{name}"].requestPolicy.validValues'
            yield from _most(capacity.request_policy.valid_values, 10, at, "use validRange")
