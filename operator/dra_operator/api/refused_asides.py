"""Refused asides: what kube-scheduler and summaries of pools read of a slice, and the operator does not.

Resources of the node that a device consumes, and the attribute that names the type of a partition. Neither changes a
decision, so a slip shows only when the file is applied. The operator does not read these resources, whose form has
changed with each version; so their types stand here.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateNodeAllocatableResources` and
`validatePartitionTypeAttribute`, and the answers of an API server of 1.37.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from dra_operator.api.patterns import QUALIFIED
from dra_operator.api.read import PartError, read_part
from dra_operator.api.refused import Refusal
from dra_operator.api.wire import Amount, Table, Wire

_NO_RESOURCE = "is no resource that devices can consume: write cpu, memory or hugepages-…"
_NEITHER = "has neither mapping nor overhead: write one of them"
_NOT_ONE = "must have either capacityKey or deviceMultiplier: write one of them"
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
        yield Refusal(path, None, _NOT_ONE)
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
            yield Refusal(f"{path}.{field}", str(amount), _BELOW_ZERO)


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
