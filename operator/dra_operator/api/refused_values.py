"""Refused values: attributes and capacities of a device that the API server does not take.

Of an attribute with two values only one is read, one without a value makes selectors fail, and a policy that
contradicts itself gives shares another size than was meant, or none. In a file each is a slip that shows only when the
file is applied.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateDeviceAttribute` and `validateRequestPolicy`, and the
answers of an API server of 1.37. Where a feature gate makes the difference, nothing is said.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_operator.api.patterns import IDENTIFIER, NOT_LOOKED_AT, PREFIX
from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.refused import Refusal
from dra_operator.api.types import CapacityRequestPolicyRange, Device, ResourceSliceSpec

_NAME = re.compile(rf"({PREFIX})?{IDENTIFIER}|{NOT_LOOKED_AT}", re.ASCII | re.DOTALL)
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
_BOTH = "validValues and validRange are both set: keep one of them"
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


def find_refused_values(spec: ResourceSliceSpec, body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what is refused of the attributes and capacities of a slice.

    `body` is the object that was read, in v1: of attributes it has what the reader drops.
    """
    for index, device in enumerate(spec.devices):
        path = f"spec.devices[{index}]"
        yield from _attributes(body["spec"]["devices"][index].get("attributes") or {}, f"{path}.attributes")
        yield from _capacities(device, f"{path}.capacity")


def _attributes(attributes: Mapping[str, Any], path: str) -> Iterator[Refusal]:
    for name, union in attributes.items():
        yield from _name(name, path)
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


def _name(name: str, path: str) -> Iterator[Refusal]:
    if not _NAME.fullmatch(name):
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


def _capacities(device: Device, path: str) -> Iterator[Refusal]:
    for name, capacity in device.capacity.items():
        yield from _name(name, path)
        policy = capacity.request_policy
        if policy is None:
            continue
        at = f"{_entry(path, name)}.requestPolicy"
        if not device.allow_multiple_allocations:
            yield Refusal(at, None, _NOT_SHARED)
        elif policy.valid_values and policy.valid_range is not None:
            yield Refusal(at, None, _BOTH)
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
    span: CapacityRequestPolicyRange, default: Quantity, most: Quantity, path: str
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
