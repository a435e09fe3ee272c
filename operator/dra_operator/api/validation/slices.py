"""What an API server refuses of ResourceSlices and DeviceTaintRules, and the operator would read in its own way.

Two devices of one name, an attribute with two values, a policy that contradicts itself, a misspelt effect: in a file
each is a slip that shows only when the file is applied. Where a feature gate makes the difference, nothing is said.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateResourceSliceSpec`, `validateDeviceAttribute`,
`validateRequestPolicy`, `validateNodeAllocatableResources`; the answers of an API server of 1.37.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from dra_operator.api import types
from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.read import PartError, read_part
from dra_operator.api.validation.limits import Refusal
from dra_operator.api.validation.names import (
    DOMAIN,
    DRIVER,
    IDENTIFIER,
    KEY,
    LABEL,
    NO_DRIVER,
    NO_KEY,
    NO_NODE,
    NO_VALUE,
    NOT_LOOKED_AT,
    PREFIX,
    QUALIFIED,
    SUBDOMAIN,
    VALUE,
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
    """Yield what is refused of the attributes and capacities of a slice.

    `body` is the object that was read, in v1: of attributes it has what the reader drops.
    """
    for index, device in enumerate(spec.devices):
        path = f"spec.devices[{index}]"
        yield from _attributes(body["spec"]["devices"][index].get("attributes") or {}, f"{path}.attributes")
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


class _Strict(Wire):
    """What an API server reads without leaving out anything."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, extra="forbid")


@dataclass(frozen=True, slots=True)
class _Mapping(_Strict):
    """What a device stands for: an amount for each unit of a capacity, or for each device."""

    capacity_key: str | None = None
    capacity_multiplier: Amount | None = None
    device_multiplier: Amount | None = None


@dataclass(frozen=True, slots=True)
class _Overhead(_Strict):
    """What using a device costs besides."""

    per_pod: Amount | None = None
    per_container: Amount | None = None


@dataclass(frozen=True, slots=True)
class _Resource(_Strict):
    """What a device consumes of a resource of its node."""

    mapping: _Mapping | None = None
    overhead: _Overhead | None = None


def find_refused_asides(body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what is refused of a slice, as it was read, in v1."""
    spec = body.get("spec") or {}
    yield from _partitions(spec)
    for index, device in enumerate(spec.get("devices") or ()):
        path = f"spec.devices[{index}].nodeAllocatableResources"
        try:
            resources = read_part(Table[_Resource], device.get("nodeAllocatableResources"))
        except PartError as error:
            separator = "." if error.path and not error.path.startswith("[") else ""
            yield Refusal(f"{path}{separator}{error.path}", None, error.message)
            continue
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
_SEGMENTS = re.compile(rf"(?=.{{1,253}}$){DOMAIN}(/{DOMAIN})*")

_NO_EFFECT = "is no effect: write NoSchedule, NoExecute, or None"
_NO_POOL = "is no name of a pool: use lower case letters, digits, - and ., such as the name of the node"
_NO_GENERATION = "is less than zero: begin with 0 or 1, and count up when the pool changes"
_NO_COUNT = "is not greater than zero: say how many slices the pool has"
_NO_DEVICE = "is no name of a device: use lower case letters, digits and -, at most 63 of them"
_TWO_DEVICES = "is the name of two devices of this slice: give each a name of its own"
_NO_SET = "is no name of a counter set: use lower case letters, digits and -, at most 63 of them"
_NO_COUNTER = "is no name of a counter: use lower case letters, digits and -, at most 63 of them"
_TWO_SETS = "is the name of two counter sets: give each a name of its own"
_DRAWN_TWICE = "is named twice: name all counters of a set at once"
_BOTH = "devices and sharedCounters are both set: publish the counters in another slice of the pool"
_EMPTY_SET = "has no counters: name at least one, or leave the set out"
_NO_GROUP = "is no name of a group: use lower case letters, digits and -, at most 63 of them"
_TWO_GROUPS = "is named twice: once is enough"
_PREPARE, _UNPREPARE, _ALL = "NodePrepareResources", "NodeUnprepareResources", "*"
_OPERATIONS = (_PREPARE, _UNPREPARE, _ALL)
_NO_OPERATION = f"is no operation: write {_PREPARE}, {_UNPREPARE}, or * for all"
_SKIPPED_TWICE = "is named twice: once is enough"
_NOT_UNPREPARED = f"has {_PREPARE} alone: skip {_UNPREPARE} as well"
_NO_TERMS = "is empty: say which nodes, or set allNodes in its place"
_NO_CONDITION = "is no name of a condition: write domain/name or name, of letters, digits, -, _ and ."
_TWO_CONDITIONS = "is named twice: a condition is either met or failed, and once is enough"
_NO_CONDITIONS = "is empty: a device has both bindingConditions and bindingFailureConditions, or neither"
_OF_SLICE = "nodeName, nodeSelector, allNodes, perDeviceNodeSelection"
_OF_DEVICE = "nodeName, nodeSelector, allNodes"
_NOT_ONE = "{given} of {names} are set: set just one, to say where devices can be used"
_FALSE = "cannot be false: set it to true, or leave it out"
_NOT_PER_DEVICE = (
    "says where it can be used: leave that out, or set perDeviceNodeSelection of the slice in its place"
)


def find_refused(obj: types.ResourceSlice | types.DeviceTaintRule) -> Iterator[Refusal]:
    """Yield what is refused of a slice or a rule."""
    if isinstance(obj, types.DeviceTaintRule):
        yield from _taint(obj.spec.taint, "spec.taint")
        if obj.spec.device_selector is not None:
            yield from _selected(obj.spec.device_selector, "spec.deviceSelector")
    else:
        yield from _slice(obj.spec)


def _slice(spec: types.ResourceSliceSpec) -> Iterator[Refusal]:
    # The API server has always taken drivers in capitals, too.
    if not DRIVER.fullmatch(spec.driver.lower()):
        yield Refusal("spec.driver", spec.driver, NO_DRIVER)
    if not _SEGMENTS.fullmatch(spec.pool.name):
        yield Refusal("spec.pool.name", spec.pool.name, _NO_POOL)
    if spec.pool.generation < 0:
        yield Refusal("spec.pool.generation", spec.pool.generation, _NO_GENERATION)
    if spec.pool.resource_slice_count <= 0:
        yield Refusal("spec.pool.resourceSliceCount", spec.pool.resource_slice_count, _NO_COUNT)
    yield from _nodes(spec, "spec")
    if spec.per_device_node_selection is False:
        yield Refusal("spec.perDeviceNodeSelection", None, _FALSE)
    given = [spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection]
    yield from _just_one(given, "spec", _OF_SLICE)
    if spec.devices and spec.shared_counters:
        yield Refusal("spec", None, _BOTH)
    yield from _skipped(spec.skip_node_operations, "spec.skipNodeOperations")
    yield from _devices(spec)
    yield from _counter_sets(spec.shared_counters)


def _selected(selector: types.DeviceTaintSelector, path: str) -> Iterator[Refusal]:
    """Yield what is wrong with the names in a rule; a name that is right may still be that of nothing."""
    if selector.driver is not None and not DRIVER.fullmatch(selector.driver.lower()):
        yield Refusal(f"{path}.driver", selector.driver, NO_DRIVER)
    if selector.pool is not None and not _SEGMENTS.fullmatch(selector.pool):
        yield Refusal(f"{path}.pool", selector.pool, _NO_POOL)
    if selector.device is not None and not LABEL.fullmatch(selector.device):
        yield Refusal(f"{path}.device", selector.device, _NO_DEVICE)


def _skipped(operations: Sequence[str], path: str) -> Iterator[Refusal]:
    for index, name in enumerate(operations):
        if name not in _OPERATIONS:
            yield Refusal(f"{path}[{index}]", name, _NO_OPERATION)
        elif name in operations[:index]:
            yield Refusal(f"{path}[{index}]", name, _SKIPPED_TWICE)
    if _PREPARE in operations and not {_UNPREPARE, _ALL}.intersection(operations):
        yield Refusal(path, None, _NOT_UNPREPARED)


def _devices(spec: types.ResourceSliceSpec) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, device in enumerate(spec.devices):
        path = f"spec.devices[{index}]"
        yield from _name(device.name, f"{path}.name", seen, _NO_DEVICE, _TWO_DEVICES)
        yield from _place(device, path, is_chosen=bool(spec.per_device_node_selection))
        for number, taint in enumerate(device.taints):
            yield from _taint(taint, f"{path}.taints[{number}]")
        drawn: set[str] = set()
        for number, item in enumerate(device.consumes_counters):
            at = f"{path}.consumesCounters[{number}]"
            yield from _name(item.counter_set, f"{at}.counterSet", drawn, _NO_SET, _DRAWN_TWICE)
            if not item.counters:
                yield Refusal(f"{at}.counters", None, _EMPTY_SET)
            groups: set[str] = set()
            for place, name in enumerate(item.compatibility_groups):
                yield from _name(name, f"{at}.compatibilityGroups[{place}]", groups, _NO_GROUP, _TWO_GROUPS)
        yield from _conditions(device, path)


def _conditions(device: types.Device, path: str) -> Iterator[Refusal]:
    met, failed = device.binding_conditions, device.binding_failure_conditions
    seen: set[str] = set()
    for field, names, others in (
        ("bindingConditions", met, failed),
        ("bindingFailureConditions", failed, met),
    ):
        if others and not names:
            yield Refusal(f"{path}.{field}", None, _NO_CONDITIONS)
        for index, name in enumerate(names):
            if not KEY.fullmatch(name):
                yield Refusal(f"{path}.{field}[{index}]", name, _NO_CONDITION)
            elif name in seen:
                yield Refusal(f"{path}.{field}[{index}]", name, _TWO_CONDITIONS)
            seen.add(name)


def _taint(taint: types.DeviceTaint, path: str) -> Iterator[Refusal]:
    if not KEY.fullmatch(taint.key):
        yield Refusal(f"{path}.key", taint.key, NO_KEY)
    if taint.value and not VALUE.fullmatch(taint.value):
        yield Refusal(f"{path}.value", taint.value, NO_VALUE)
    if taint.effect not in EFFECTS:
        yield Refusal(f"{path}.effect", taint.effect, _NO_EFFECT)


def _place(device: types.Device, path: str, *, is_chosen: bool) -> Iterator[Refusal]:
    given = [device.node_name, device.node_selector, device.all_nodes]
    if is_chosen:
        yield from _nodes(device, path)
        yield from _just_one(given, path, _OF_DEVICE)
    elif any(item is not None for item in given):
        yield Refusal(path, None, _NOT_PER_DEVICE)


def _nodes(item: types.ResourceSliceSpec | types.Device, path: str) -> Iterator[Refusal]:
    if item.node_name is not None and not SUBDOMAIN.fullmatch(item.node_name):
        yield Refusal(f"{path}.nodeName", item.node_name, NO_NODE)
    if item.node_selector is not None and not item.node_selector.node_selector_terms:
        yield Refusal(f"{path}.nodeSelector.nodeSelectorTerms", None, _NO_TERMS)
    if item.all_nodes is False:
        yield Refusal(f"{path}.allNodes", None, _FALSE)


def _just_one(given: Sequence[object], path: str, names: str) -> Iterator[Refusal]:
    count = sum(item is not None and item is not False and item != "" for item in given)
    if count != 1:
        yield Refusal(path, None, _NOT_ONE.format(given=count or "none", names=names))


def _counter_sets(sets: Sequence[types.CounterSet]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, item in enumerate(sets):
        path = f"spec.sharedCounters[{index}]"
        yield from _name(item.name, f"{path}.name", seen, _NO_SET, _TWO_SETS)
        if not item.counters:
            yield Refusal(f"{path}.counters", None, _EMPTY_SET)
        for name in item.counters:
            yield from _name(name, f"{path}.counters", set(), _NO_COUNTER, "")


def _name(name: str, path: str, seen: set[str], wrong: str, again: str) -> Iterator[Refusal]:
    """Yield what is wrong with a name, and add it to those that were seen."""
    if not LABEL.fullmatch(name):
        yield Refusal(path, name, wrong)
    elif name in seen:
        yield Refusal(path, name, again)
    seen.add(name)
