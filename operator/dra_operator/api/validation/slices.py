"""What an API server refuses of ResourceSlices, of which several fields go together, and of what our types leave out.

Two devices of one name, an attribute with two values, a policy that contradicts itself, a misspelt effect: in a file
each is a slip that shows only when the file is applied. Where a feature gate makes the difference, nothing is said.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateResourceSliceSpec`, `validateDeviceAttribute`,
`validateRequestPolicy`, `validateNodeAllocatableResources`; the answers of an API server of 1.37.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.api import types
from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.read import PartError, read_part
from dra_operator.api.validation.checks import (
    DOMAIN,
    IDENTIFIER,
    KEY,
    NOT_LOOKED_AT,
    PREFIX,
    QUALIFIED,
    Refusal,
    items,
    names,
)
from dra_operator.api.wire import Amount, Table, Wire

_ATTRIBUTE_NAME = re.compile(rf"({PREFIX})?{IDENTIFIER}|{NOT_LOOKED_AT}", re.ASCII | re.DOTALL)
_NUMBER = "(0|[1-9][0-9]*)"
_PART = f"({_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD = r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
# Not `api.semver`: it reads no number beyond 64 bits, and the API server takes those.
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?{_BUILD}")
_LONGEST = 64
_MOST_COUNTED = 2**63 - 1

_NO_NAME = "is no name: write name or domain/name, the name of letters, digits and _, at most 32 of them"
_NO_VERSION = "is no version: write three numbers, such as 1.2.0, and nothing in front of them"
_TOO_LONG = f"bytes are too many, {_LONGEST} at most: write less"
_NO_VALUE = 'has no value: write one, such as {"string": "h100"}'
_VALUES = "{names} are set: keep one of them"
_NOTHING_LISTED = "is an empty list: write at least one value, or leave the attribute out"
_NOT_SHARED = "is only for a device that is shared: set allowMultipleAllocations, or leave it out"
_BOTH_VALUES = "validValues and validRange are both set: keep one of them"
_NO_DEFAULT = "is missing: say what a share consumes for which no amount is requested"
_NO_DEFAULT_VALUE = "the default, {default}, is not among them: add it, or choose another default"
_MORE_THAN_ALL = "is more than the capacity, which is {most}: write less, or give it more"
_NOT_MORE = "is not more than {before}, the one before it: write each once, the least first"
_NO_MIN = "is missing: say what a share consumes at least"
_MAX_BELOW_MIN = "is less than min, which is {least}: write more, or lower min"
_DEFAULT_BELOW_MIN = "is less than min, which is {least}: write more, or lower min"
_DEFAULT_ABOVE_MAX = "is more than max, which is {greatest}: write less, or raise max"
_NO_STEP = "is not greater than zero: write more, or leave it out"
_NOT_COUNTED = "cannot be reached by steps, which end at {most}: write less, or leave step out"
_BELOW_ZERO = "cannot be reached by steps, which start from zero at least: write more, or leave step out"
_LONG_STEP = "is more than lies between min, {least}, and the capacity, {most}: write less, or leave it out"
_MISSED = "leads from min, {least}, past the {name}, {amount}: choose another step, or another {name}"


def find_refused_values(spec: types.ResourceSliceSpec, body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what is refused of the attributes, capacities and resources of nodes in a slice.

    `body` is the object that was read, in v1: it has what the reader drops.
    """
    yield from _partitions(body.get("spec") or {})
    for index, device in enumerate(spec.devices):
        path = f"spec.devices[{index}]"
        read = body["spec"]["devices"][index]
        yield from _attributes(read.get("attributes") or {}, f"{path}.attributes")
        yield from _resources(read, f"{path}.nodeAllocatableResources")
        yield from _capacities(device, f"{path}.capacity")


def _attributes(attributes: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    for name, union in attributes.items():
        yield from _attribute_name(name, path)
        at = _entry(path, name)
        # Null is an object's way to leave a field out.
        values = {field: value for field, value in (union or {}).items() if value is not None}
        if not values:
            yield Refusal(at, None, _NO_VALUE)
        elif len(values) > 1:
            yield Refusal(at, None, _VALUES.format(names=" and ".join(values)))
        else:
            for field, value in values.items():
                yield from _value(field, value, f"{at}.{field}")


def _attribute_name(name: str, path: str) -> Iterator[Refusal]:
    if not _ATTRIBUTE_NAME.fullmatch(name):
        yield Refusal(path, name, _NO_NAME)


def _value(field: str, value: Any, path: str) -> Iterator[Refusal]:
    if isinstance(value, list):
        if not value:
            yield Refusal(path, None, _NOTHING_LISTED)
        for index, item in enumerate(value):
            yield from _value(field, item, f"{path}[{index}]")
    elif isinstance(value, str):
        length = len(value.encode(errors="surrogatepass"))
        if length > _LONGEST:
            yield Refusal(path, length, _TOO_LONG)
        elif field in ("version", "versions") and not _VERSION.fullmatch(value):
            yield Refusal(path, value, _NO_VERSION)


def _capacities(device: types.Device, path: str) -> Iterator[Refusal]:
    for name, capacity in device.capacity.items():
        yield from _attribute_name(name, path)
        policy = capacity.request_policy
        if policy is None:
            continue
        at = f"{_entry(path, name)}.requestPolicy"
        if not device.allow_multiple_allocations:
            yield Refusal(at, None, _NOT_SHARED)
        elif policy.valid_values and policy.valid_range is not None:
            yield Refusal(at, None, _BOTH_VALUES)
        elif policy.default is None:
            if policy.valid_values or policy.valid_range is not None:
                yield Refusal(f"{at}.default", None, _NO_DEFAULT)
        elif policy.valid_range is not None:
            yield from _range(policy.valid_range, policy.default, capacity.value, at)
        elif policy.valid_values:
            yield from _values(policy.valid_values, policy.default, capacity.value, f"{at}.validValues")


def _values(values: Sequence[Quantity], default: Quantity, most: Quantity, path: str) -> Iterator[Refusal]:
    if default not in values:
        yield Refusal(path, None, _NO_DEFAULT_VALUE.format(default=default))
    for index, value in enumerate(values):
        if value > most:
            yield Refusal(f"{path}[{index}]", str(value), _MORE_THAN_ALL.format(most=most))
        if index and value <= values[index - 1]:
            yield Refusal(f"{path}[{index}]", str(value), _NOT_MORE.format(before=values[index - 1]))


def _range(
    span: types.CapacityRequestPolicyRange, default: Quantity, most: Quantity, path: str
) -> Iterator[Refusal]:
    if span.min is None:
        yield Refusal(f"{path}.validRange.min", None, _NO_MIN)
        return
    for field, bound in (("min", span.min), ("max", span.max)):
        if bound is not None and bound > most:
            yield Refusal(f"{path}.validRange.{field}", str(bound), _MORE_THAN_ALL.format(most=most))
    if span.max is not None and span.max < span.min:
        yield Refusal(f"{path}.validRange.max", str(span.max), _MAX_BELOW_MIN.format(least=span.min))
    elif default < span.min:
        yield Refusal(f"{path}.default", str(default), _DEFAULT_BELOW_MIN.format(least=span.min))
    elif span.max is not None and default > span.max:
        yield Refusal(f"{path}.default", str(default), _DEFAULT_ABOVE_MAX.format(greatest=span.max))
    elif span.step is not None:
        bounds = {"default": default, "validRange.min": span.min, "validRange.max": span.max}
        yield from _steps(span.step, span.min, bounds, most, path)


def _steps(
    step: Quantity, least: Quantity, bounds: Mapping[str, Quantity | None], most: Quantity, path: str
) -> Iterator[Refusal]:
    at = f"{path}.validRange.step"
    if step.nano <= 0:
        yield Refusal(at, str(step), _NO_STEP)
        return
    if least.nano + step.nano > most.nano:
        yield Refusal(at, str(step), _LONG_STEP.format(least=least, most=most))
        return
    given = {field: bound for field, bound in bounds.items() if bound is not None}
    # Which fractions are counted depends on a feature gate.
    are_whole = all(amount.nano % NANO == 0 for amount in (*given.values(), step))
    uncounted = [
        Refusal(f"{path}.{field}", str(amount), text)
        for field, amount in (*given.items(), ("validRange.step", step))
        if (text := _uncounted(amount, are_whole=are_whole))
    ]
    yield from uncounted
    if uncounted or not are_whole:
        return
    for field, amount in given.items():
        if (amount.nano - least.nano) % step.nano:
            name = field.rpartition(".")[2]
            yield Refusal(at, str(step), _MISSED.format(least=least, name=name, amount=amount))


def _uncounted(bound: Quantity, *, are_whole: bool) -> str | None:
    """Return why the API server does not count from this amount or to it, or None if it does."""
    if bound.nano > _MOST_COUNTED * NANO:
        return _NOT_COUNTED.format(most=_MOST_COUNTED)
    return _BELOW_ZERO if are_whole and bound.nano < 0 else None


def _entry(path: str, name: str) -> str:
    return f"{path}[{json.dumps(name, ensure_ascii=False)}]"


_NO_RESOURCE = "is no resource that devices can consume: write cpu, memory or hugepages-…"
_NEITHER = "has neither mapping nor overhead: write one of them"
_NO_KEY_OR_MULTIPLIER = "must have either capacityKey or deviceMultiplier: write one of them"
_NO_CAPACITY = "is no capacity of the device: write one that it has"
_NO_MULTIPLIER = "is missing: say how much one unit of the capacity stands for"
_NO_KEY = "is missing: name the capacity that is multiplied"
_NO_OVERHEAD = "has neither perPod nor perContainer: write one of them"
_NOT_POSITIVE = "is not greater than zero: write more, or leave it out"
_NEGATIVE = "is less than zero: write more, or leave it out"
_NO_COUNTERS = "is only for slices with devices that draw on counters: leave it out"
_NOT_QUALIFIED = (
    "is not fully qualified: write domain/name, the domain in lower case, such as gpu.example.com/profile"
)
_NO_TYPE = (
    "is missing: each device that draws on counters has the attribute that partitionTypeAttribute names"
)
_NO_TEXT = "is not a string: partitionTypeAttribute names it"


@dataclass(frozen=True, slots=True)
class _Mapping(Wire):
    """What a device stands for: an amount for each unit of a capacity, or for each device."""

    capacity_key: str | None = None
    capacity_multiplier: Amount | None = None
    device_multiplier: Amount | None = None


@dataclass(frozen=True, slots=True)
class _Overhead(Wire):
    """What using a device costs besides."""

    per_pod: Amount | None = None
    per_container: Amount | None = None


@dataclass(frozen=True, slots=True)
class _Resource(Wire):
    """What a device consumes of a resource of its node."""

    mapping: _Mapping | None = None
    overhead: _Overhead | None = None


def _resources(device: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    try:
        resources = read_part(Table[_Resource], device.get("nodeAllocatableResources"))
    except PartError as error:
        separator = "." if error.path and not error.path.startswith("[") else ""
        yield Refusal(f"{path}{separator}{error.path}", None, error.message)
        return
    for name, resource in resources.items():
        yield from _resource(name, resource, device.get("capacity") or {}, f'{path}["{name}"]')


def _resource(name: str, resource: _Resource, capacities: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
        yield Refusal(path, name, _NO_RESOURCE)
    if resource.mapping is None and resource.overhead is None:
        yield Refusal(path, None, _NEITHER)
    if resource.mapping is not None:
        yield from _mapping(resource.mapping, capacities, f"{path}.mapping")
    if resource.overhead is not None:
        yield from _overhead(resource.overhead, f"{path}.overhead")


def _mapping(mapping: _Mapping, capacities: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    key, multiplier = mapping.capacity_key, mapping.capacity_multiplier
    if (key is None) == (mapping.device_multiplier is None):
        yield Refusal(path, None, _NO_KEY_OR_MULTIPLIER)
        return
    if key is None and multiplier is not None:
        yield Refusal(f"{path}.capacityKey", None, _NO_KEY)
    if key is not None and key not in capacities:
        yield Refusal(f"{path}.capacityKey", key, _NO_CAPACITY)
    if key is not None and multiplier is None:
        yield Refusal(f"{path}.capacityMultiplier", None, _NO_MULTIPLIER)
    for field, amount in (
        ("capacityMultiplier", multiplier),
        ("deviceMultiplier", mapping.device_multiplier),
    ):
        if amount is not None and amount.nano <= 0:
            yield Refusal(f"{path}.{field}", str(amount), _NOT_POSITIVE)


def _overhead(overhead: _Overhead, path: str) -> Iterator[Refusal]:
    given = {"perPod": overhead.per_pod, "perContainer": overhead.per_container}
    if all(amount is None for amount in given.values()):
        yield Refusal(path, None, _NO_OVERHEAD)
    for field, amount in given.items():
        if amount is not None and amount.nano < 0:
            yield Refusal(f"{path}.{field}", str(amount), _NEGATIVE)


def _partitions(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    name = spec.get("partitionTypeAttribute")
    if name is None:
        return
    path = "spec.partitionTypeAttribute"
    drawing = [
        (index, item) for index, item in enumerate(spec.get("devices") or ()) if item.get("consumesCounters")
    ]
    if not drawing:
        yield Refusal(path, str(name), _NO_COUNTERS)
    elif not QUALIFIED.fullmatch(str(name)):
        yield Refusal(path, str(name), _NOT_QUALIFIED)
    else:
        bare = name.removeprefix(f"{spec.get('driver')}/")
        for index, item in drawing:
            attributes = item.get("attributes") or {}
            at = f'spec.devices[{index}].attributes["{name}"]'
            union = attributes.get(name, attributes.get(bare))
            if union is None:
                yield Refusal(at, None, _NO_TYPE)
            elif not isinstance(union, Mapping) or union.get("string") is None:
                yield Refusal(at, None, _NO_TEXT)


EFFECTS = ("None", "NoSchedule", "NoExecute")
POOL = re.compile(rf"(?=.{{1,253}}$){DOMAIN}(/{DOMAIN})*")
"""What names of pools look like."""

_BOTH = "devices and sharedCounters are both set: publish the counters in another slice of the pool"
_NOT_UNPREPARED = "has NodePrepareResources alone: skip NodeUnprepareResources as well"
_NO_TERMS = "is empty: say which nodes, or set allNodes in its place"
_NO_CONDITION = "is no name of a condition: write domain/name or name, of letters, digits, -, _ and ."
_TWO_CONDITIONS = "is named twice: a condition is either met or failed, and once is enough"
_NO_CONDITIONS = "is empty: a device has both bindingConditions and bindingFailureConditions, or neither"
_OF_SLICE = "nodeName, nodeSelector, allNodes, perDeviceNodeSelection"
_OF_DEVICE = "nodeName, nodeSelector, allNodes"
_NOT_ONE = "{given} of {names} are set: set just one, to say where devices can be used"
_NOT_PER_DEVICE = (
    "says where it can be used: leave that out, or set perDeviceNodeSelection of the slice in its place"
)
_SELECT_AT_ONCE = "say it in one, or set perDeviceNodeSelection and say it at each device"
_SPLIT = "publish the rest in another slice of the pool"
_SPLIT_ADVANCED = f"with taints, counters or lists there is room for no more; {_SPLIT}"
_LEAVE_OUT = "leave some out"


def find_refused_places(spec: types.ResourceSliceSpec, path: str) -> Iterator[Refusal]:
    """Yield what is refused of where the devices of a slice can be used, and of how many there are."""
    if spec.devices and spec.shared_counters:
        yield Refusal(path, None, _BOTH)
    if "NodePrepareResources" in spec.skip_node_operations and not {
        "NodeUnprepareResources",
        "*",
    }.intersection(spec.skip_node_operations):
        yield Refusal(f"{path}.skipNodeOperations", None, _NOT_UNPREPARED)
    most, remedy = (64, _SPLIT_ADVANCED) if any(map(_is_advanced, spec.devices)) else (128, _SPLIT)
    yield from items(most, remedy)(spec.devices, f"{path}.devices")
    given = [spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection]
    yield from _just_one(given, path, _OF_SLICE)
    yield from _terms(spec, path)
    if spec.node_selector is not None:
        terms = spec.node_selector.node_selector_terms
        yield from items(1, _SELECT_AT_ONCE)(terms, f"{path}.nodeSelector.nodeSelectorTerms")
    for index, device in enumerate(spec.devices):
        at = f"{path}.devices[{index}]"
        placed = [device.node_name, device.node_selector, device.all_nodes]
        if spec.per_device_node_selection:
            yield from _terms(device, at)
            yield from _just_one(placed, at, _OF_DEVICE)
        elif any(item is not None for item in placed):
            yield Refusal(at, None, _NOT_PER_DEVICE)


def _is_advanced(device: types.Device) -> bool:
    lists = any(isinstance(item.value, tuple) for item in device.attributes.values())
    return bool(device.taints or device.consumes_counters or lists)


def _terms(item: types.ResourceSliceSpec | types.Device, path: str) -> Iterator[Refusal]:
    if item.node_selector is not None and not item.node_selector.node_selector_terms:
        yield Refusal(f"{path}.nodeSelector.nodeSelectorTerms", None, _NO_TERMS)


def _just_one(given: Sequence[object], path: str, fields: str) -> Iterator[Refusal]:
    count = sum(item is not None and item is not False and item != "" for item in given)
    if count != 1:
        yield Refusal(path, None, _NOT_ONE.format(given=count or "none", names=fields))


def find_refused_device(device: types.Device, path: str) -> Iterator[Refusal]:
    """Yield what is refused of the binding conditions of a device, and of how many values it has."""
    met, failed = device.binding_conditions, device.binding_failure_conditions
    if bool(met) != bool(failed):
        yield Refusal(
            f"{path}.{'bindingFailureConditions' if met else 'bindingConditions'}", None, _NO_CONDITIONS
        )
    for refusal in names(KEY, _NO_CONDITION, _TWO_CONDITIONS)((*met, *failed), ""):
        index = int(refusal.path.strip("[]"))
        is_met = index < len(met)
        field, index = (
            ("bindingConditions", index) if is_met else ("bindingFailureConditions", index - len(met))
        )
        yield Refusal(f"{path}.{field}[{index}]", refusal.value, refusal.text)
    named = len(device.attributes) + len(device.capacity)
    if named > 32:
        text = f"attributes and capacities are too many, 32 together at most: {_LEAVE_OUT}"
        yield Refusal(path, named, text)
    values = sum(
        [len(item.value) if isinstance(item.value, tuple) else 1 for item in device.attributes.values()]
    )
    if values > 48:
        yield Refusal(path, values, f"values of attributes are too many, 48 at most: {_LEAVE_OUT}")
