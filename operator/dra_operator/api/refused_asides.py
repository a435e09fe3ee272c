"""Refused asides: what kube-scheduler and summaries of pools read of a slice, and the operator does not.

Resources of the node that a device consumes, and the attribute that names the type of a partition. Neither changes a
decision, so a slip shows only when the file is applied.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateNodeAllocatableResources` and
`validatePartitionTypeAttribute`, and the answers of an API server of 1.37.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_operator.api.patterns import QUALIFIED
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.refused import Refusal

_NO_RESOURCE = "is no resource that devices can consume: write cpu, memory or hugepages-…"
_NEITHER = "has neither mapping nor overhead: write one of them"
_NOT_ONE = "must have either capacityKey or deviceMultiplier: write one of them"
_NO_NAME = "is not a string: write a capacity of the device"
_NO_CAPACITY = "is no capacity of the device: write one that it has"
_NO_MULTIPLIER = "is missing: say how much one unit of the capacity stands for"
_NO_KEY = "is missing: name the capacity that is multiplied"
_NO_OVERHEAD = "has neither perPod nor perContainer: write one of them"
_NOT_POSITIVE = "is not greater than zero: write more, or leave it out"
_BELOW_ZERO = "is less than zero: write more, or leave it out"
_NO_COUNTERS = "is only for slices with devices that draw on counters: leave it out"
_NOT_QUALIFIED = (
    "is not fully qualified: write domain/name, the domain in lower case, such as gpu.example.com/profile"
)
_NO_TYPE = (
    "is missing: each device that draws on counters has the attribute that partitionTypeAttribute names"
)
_NO_TEXT = "is not a string: partitionTypeAttribute names it"


def find_refused_asides(body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what is refused of a slice, as it was read, in v1."""
    spec = body.get("spec") or {}
    yield from _partitions(spec)
    for index, device in enumerate(spec.get("devices") or ()):
        path = f"spec.devices[{index}].nodeAllocatableResources"
        capacities = device.get("capacity") or {}
        for resource, item in _object(device.get("nodeAllocatableResources")).items():
            at = f'{path}["{resource}"]'
            if resource not in ("cpu", "memory") and not resource.startswith("hugepages-"):
                yield Refusal(at, resource, _NO_RESOURCE)
            mapping, overhead = _object(item).get("mapping"), _object(item).get("overhead")
            if mapping is None and overhead is None:
                yield Refusal(at, None, _NEITHER)
            if mapping is not None:
                yield from _mapping(_object(mapping), capacities, f"{at}.mapping")
            if overhead is not None:
                yield from _overhead(_object(overhead), f"{at}.overhead")


def _mapping(mapping: Mapping[str, Any], capacities: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    device = mapping.get("deviceMultiplier")
    if (key is None) == (device is None):
        yield Refusal(path, None, _NOT_ONE)
        return
    if key is None and multiplier is not None:
        yield Refusal(f"{path}.capacityKey", None, _NO_KEY)
    if key is not None and not isinstance(key, str):
        yield Refusal(f"{path}.capacityKey", None, _NO_NAME)
    elif key is not None and key not in capacities:
        yield Refusal(f"{path}.capacityKey", key, _NO_CAPACITY)
    if key is not None and multiplier is None:
        yield Refusal(f"{path}.capacityMultiplier", None, _NO_MULTIPLIER)
    for field in ("capacityMultiplier", "deviceMultiplier"):
        if (nano := _nano(mapping.get(field))) is not None and nano <= 0:
            yield Refusal(f"{path}.{field}", str(mapping[field]), _NOT_POSITIVE)


def _overhead(overhead: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    given = [field for field in ("perPod", "perContainer") if overhead.get(field) is not None]
    if not given:
        yield Refusal(path, None, _NO_OVERHEAD)
    for field in given:
        if (nano := _nano(overhead[field])) is not None and nano < 0:
            yield Refusal(f"{path}.{field}", str(overhead[field]), _BELOW_ZERO)


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
            elif _object(union).get("string") is None:
                yield Refusal(at, None, _NO_TEXT)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _nano(amount: Any) -> int | None:
    """Return an amount in nano-units, or None for what is none."""
    try:
        return None if amount is None else parse_quantity(str(amount)).nano
    except ValueError:
        return None
