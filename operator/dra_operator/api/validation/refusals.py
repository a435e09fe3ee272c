"""What an API server refuses of claims, templates, classes and pods, and the operator would decide as if it were right.

In a cluster none of it can be there, so the allocator does not ask. What the allocator itself says of a claim (a class
that does not exist, a selector that does not compile) is not repeated here; expressions are judged by `questions.load`.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateDeviceClaim`, `validateDeviceDerivedAttribute`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_operator.api import types
from dra_operator.api.core import Namespace, Pod
from dra_operator.api.validation.limits import Refusal, find_too_long
from dra_operator.api.validation.names import (
    DRIVER,
    KEY,
    LABEL,
    NO_DRIVER,
    NO_KEY,
    NO_NODE,
    NO_VALUE,
    QUALIFIED,
    SUBDOMAIN,
    VALUE,
)
from dra_operator.api.validation.slices import EFFECTS, find_refused, find_refused_asides, find_refused_values

_NO_ATTRIBUTE_NAME = (
    "is no name of an attribute: write domain/name, the domain in lower case, such as team.example.com/numa"
)
_DERIVED_TWICE = "is derived twice: write one expression for it"
_NOT_ASKED = "is asked for by no constraint of this request: name it in one, or leave it out"
_NO_EXPRESSION = "is missing: write the expression that computes the attribute"


def find_refused_derived(devices: types.DeviceClaim, path: str) -> Iterator[Refusal]:
    """Yield what is refused of the derived attributes of a claim, their expressions aside."""
    for place, names, attributes in all_derived(devices, path):
        asked = {_attribute(item) for item in devices.constraints if _applies(item, names)}
        seen: set[str] = set()
        for index, item in enumerate(attributes):
            at = f"{place}[{index}]"
            if not QUALIFIED.fullmatch(item.name):
                yield Refusal(f"{at}.name", item.name, _NO_ATTRIBUTE_NAME)
            elif item.name in seen:
                yield Refusal(f"{at}.name", item.name, _DERIVED_TWICE)
            elif item.name not in asked:
                yield Refusal(f"{at}.name", item.name, _NOT_ASKED)
            seen.add(item.name)
            if not item.expression:
                yield Refusal(f"{at}.expression", None, _NO_EXPRESSION)


def all_derived(
    devices: types.DeviceClaim, path: str
) -> Iterator[tuple[str, frozenset[str], Sequence[types.DerivedAttribute]]]:
    """Yield the derived attributes of each request and alternative: their path, and what constraints call it."""
    for number, request in enumerate(devices.requests):
        at = f"{path}.requests[{number}]"
        if request.exactly is not None:
            names = frozenset([request.name])
            yield f"{at}.exactly.derivedAttributes", names, request.exactly.derived_attributes
        for index, item in enumerate(request.first_available):
            names = frozenset([request.name, f"{request.name}/{item.name}"])
            yield f"{at}.firstAvailable[{index}].derivedAttributes", names, item.derived_attributes


def _applies(constraint: types.DeviceConstraint, names: frozenset[str]) -> bool:
    return not constraint.requests or not names.isdisjoint(constraint.requests)


def _attribute(constraint: types.DeviceConstraint) -> str | None:
    """Return the attribute that a constraint is about: of two, the one that devices must share."""
    if constraint.match_attribute is not None:
        return constraint.match_attribute
    return constraint.distinct_attribute


_MODES = ("ExactCount", "All")
_OPERATORS = ("Equal", "Exists")

_NO_NAME = "is no name of an object: use lower case letters, digits, - and ., at most 253 of them"
_NO_NAMESPACE = "is no name of a namespace: use lower case letters, digits and -, at most 63 of them"
_NOT_A_LABEL = "is no name of a request: use lower case letters, digits and -, at most 63 of them"
_TWICE = "is the name of two requests: give each a name of its own"
_NAMED_TWICE = "is named twice: once is enough"
_NO_REQUEST = "names no request: the claim has {names}"
_NOT_QUALIFIED = (
    "is not fully qualified: write domain/name, the domain in lower case, such as gpu.example.com/model"
)
_NO_COUNT = "is not greater than zero: ask for at least one device, or leave the request out"
_COUNT_OF_ALL = "cannot be given with allocationMode All: leave it out"
_NO_OPERATOR = "is no operator: write Equal or Exists"
_NO_EFFECT = "is no effect: write NoSchedule or NoExecute, or leave it out for both"
_VALUE_OF_EXISTS = "cannot be given with operator Exists: leave it out, or write Equal"
_NO_OPAQUE = "opaque is missing: it is the only kind of configuration"
_NO_PARAMETERS = "must be an object: the parameters of the driver, by name"
_NO_MODE = "is no allocation mode: write ExactCount or All"
_NO_CLASS = "is missing: name the DeviceClass of the devices"
_NOT_A_CLASS = "is no name of a DeviceClass: use lower case letters, digits, - and ., at most 253 of them"
# Of requests as v1beta1 writes them, too: there is no `exactly` in these.
_NOTHING = "asks for nothing: name a DeviceClass, or alternatives in firstAvailable"
_BOTH = "asks for devices in firstAvailable and beside it: keep one of them"
_NO_ATTRIBUTE = "neither matchAttribute nor distinctAttribute is set: set one of them"
_NO_RESOURCE = "is no name of an extended resource: write domain/name, such as example.com/gpu"


def find_refusals(obj: object, body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what the API server refuses of an object that has the API's defaults; `body` is what was read, in v1.

    A claim that is allocated was taken by an API server, and holds its devices whatever it looks like. So was an object
    with a uid: that server may be newer, and know more operators, or older, and take domains in capitals; and `snapshot
    --redact` leaves out parameters.
    Of classes only names, lengths and configuration are looked at, of the kinds of the core group names alone.
    """
    if isinstance(obj, types.ResourceClaim) and obj.status.allocation is not None:
        return
    metadata = getattr(obj, "metadata", None)
    if metadata is not None and not metadata.uid:
        yield from _object(obj, metadata.name)
        yield from find_too_long(obj)
        if isinstance(obj, types.ResourceSlice | types.DeviceTaintRule):
            yield from find_refused(obj)
        if isinstance(obj, types.ResourceSlice):
            yield from find_refused_values(obj.spec, body)
            yield from find_refused_asides(body)
        if isinstance(obj, types.DeviceClass):
            yield from _resource(obj.spec.extended_resource_name)
            yield from _configs(obj.spec.config, "spec.config")
    if isinstance(obj, types.ResourceClaim):
        devices, path = obj.spec.devices, "spec.devices"
    elif isinstance(obj, types.ResourceClaimTemplate):
        devices, path = obj.spec.spec.devices, "spec.spec.devices"
    else:
        return
    yield from _claim(devices, path)
    if not obj.metadata.uid:
        yield from _incomplete(devices.requests, f"{path}.requests")
        yield from _tolerations(devices, path)
        yield from _attributes(devices.constraints, f"{path}.constraints")
        yield from find_refused_derived(devices, path)
        yield from _configs(devices.config, f"{path}.config")


def _object(obj: object, name: str) -> Iterator[Refusal]:
    allowed, problem = (LABEL, _NO_NAMESPACE) if isinstance(obj, Namespace) else (SUBDOMAIN, _NO_NAME)
    if not allowed.fullmatch(name):
        yield Refusal("metadata.name", name, problem)
    if isinstance(obj, Pod) and obj.spec.node_name and not SUBDOMAIN.fullmatch(obj.spec.node_name):
        yield Refusal("spec.nodeName", obj.spec.node_name, NO_NODE)


def _claim(devices: types.DeviceClaim, path: str) -> Iterator[Refusal]:
    yield from _names(devices.requests, f"{path}.requests")
    for index, request in enumerate(devices.requests):
        yield from _request(request, f"{path}.requests[{index}]")
    for index, constraint in enumerate(devices.constraints):
        yield from _references(constraint.requests, devices, f"{path}.constraints[{index}].requests")
    for index, config in enumerate(devices.config):
        yield from _references(config.requests, devices, f"{path}.config[{index}].requests")


def _names(requests: Sequence[types.DeviceRequest | types.DeviceSubRequest], path: str) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, request in enumerate(requests):
        at = f"{path}[{index}].name"
        if not LABEL.fullmatch(request.name):
            yield Refusal(at, request.name, _NOT_A_LABEL)
        elif request.name in seen:
            yield Refusal(at, request.name, _TWICE)
        seen.add(request.name)


def _request(request: types.DeviceRequest, path: str) -> Iterator[Refusal]:
    if request.exactly is not None and request.first_available:
        yield Refusal(path, None, _BOTH)
    elif request.exactly is not None:
        yield from _count(request.exactly, f"{path}.exactly.count")
    yield from _names(request.first_available, f"{path}.firstAvailable")
    for index, alternative in enumerate(request.first_available):
        yield from _count(alternative, f"{path}.firstAvailable[{index}].count")


def _count(request: types.ExactDeviceRequest | types.DeviceSubRequest, path: str) -> Iterator[Refusal]:
    if request.allocation_mode == "ExactCount" and request.count <= 0:
        yield Refusal(path, request.count, _NO_COUNT)
    elif request.allocation_mode == "All" and request.count:
        yield Refusal(path, request.count, _COUNT_OF_ALL)


def _incomplete(requests: Sequence[types.DeviceRequest], path: str) -> Iterator[Refusal]:
    for index, request in enumerate(requests):
        wanted = dict(_wanted(request, f"{path}[{index}]"))
        if not wanted:
            yield Refusal(f"{path}[{index}]", None, _NOTHING)
        for where, item in wanted.items():
            if not item.device_class_name:
                yield Refusal(f"{where}.deviceClassName", None, _NO_CLASS)
            elif not SUBDOMAIN.fullmatch(item.device_class_name):
                yield Refusal(f"{where}.deviceClassName", item.device_class_name, _NOT_A_CLASS)
            if item.allocation_mode not in _MODES:
                yield Refusal(f"{where}.allocationMode", item.allocation_mode, _NO_MODE)


def _tolerations(devices: types.DeviceClaim, path: str) -> Iterator[Refusal]:
    for number, request in enumerate(devices.requests):
        for where, item in _wanted(request, f"{path}.requests[{number}]"):
            for index, toleration in enumerate(item.tolerations):
                yield from _toleration(toleration, f"{where}.tolerations[{index}]")


def _wanted(
    request: types.DeviceRequest, path: str
) -> Iterator[tuple[str, types.ExactDeviceRequest | types.DeviceSubRequest]]:
    """Yield what a request asks for, by its path: one thing, or alternatives."""
    for place, item in enumerate(request.first_available):
        yield f"{path}.firstAvailable[{place}]", item
    if request.exactly is not None:
        yield f"{path}.exactly", request.exactly


def _toleration(item: types.DeviceToleration, path: str) -> Iterator[Refusal]:
    if item.key and not KEY.fullmatch(item.key):
        yield Refusal(f"{path}.key", item.key, NO_KEY)
    if item.operator not in _OPERATORS:
        yield Refusal(f"{path}.operator", item.operator, _NO_OPERATOR)
    elif item.operator == "Exists" and item.value:
        yield Refusal(f"{path}.value", item.value, _VALUE_OF_EXISTS)
    elif item.value and not VALUE.fullmatch(item.value):
        yield Refusal(f"{path}.value", item.value, NO_VALUE)
    if item.effect and item.effect not in EFFECTS:
        yield Refusal(f"{path}.effect", item.effect, _NO_EFFECT)


def _resource(name: str | None) -> Iterator[Refusal]:
    if name is None:
        return
    is_own = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    # Its quota has that prefix, and must have a name as well.
    if is_own or not KEY.fullmatch(f"requests.{name}"):
        yield Refusal("spec.extendedResourceName", name, _NO_RESOURCE)


def _configs(configs: Sequence[types.DeviceConfiguration], path: str) -> Iterator[Refusal]:
    for index, config in enumerate(configs):
        yield from _config(config, f"{path}[{index}]")


def _config(config: types.DeviceConfiguration, path: str) -> Iterator[Refusal]:
    if config.opaque is None:
        yield Refusal(path, None, _NO_OPAQUE)
        return
    # The API server has always taken drivers in capitals, too.
    if not DRIVER.fullmatch(config.opaque.driver.lower()):
        yield Refusal(f"{path}.opaque.driver", config.opaque.driver, NO_DRIVER)
    if not isinstance(config.opaque.parameters, dict):
        yield Refusal(f"{path}.opaque.parameters", None, _NO_PARAMETERS)


def _references(names: Sequence[str], devices: types.DeviceClaim, path: str) -> Iterator[Refusal]:
    known = dict.fromkeys(
        name
        for request in devices.requests
        for name in (request.name, *(f"{request.name}/{item.name}" for item in request.first_available))
    )
    for index, name in enumerate(names):
        if name not in known:
            yield Refusal(f"{path}[{index}]", name, _NO_REQUEST.format(names=", ".join(known) or "none"))
        elif name in names[:index]:
            yield Refusal(f"{path}[{index}]", name, _NAMED_TWICE)


def _attributes(constraints: Sequence[types.DeviceConstraint], path: str) -> Iterator[Refusal]:
    for index, constraint in enumerate(constraints):
        attributes = (
            ("matchAttribute", constraint.match_attribute),
            ("distinctAttribute", constraint.distinct_attribute),
        )
        for field, attribute in attributes:
            if attribute is not None and not QUALIFIED.fullmatch(attribute):
                yield Refusal(f"{path}[{index}].{field}", attribute, _NOT_QUALIFIED)
        if all(attribute is None for _, attribute in attributes):
            yield Refusal(f"{path}[{index}]", None, _NO_ATTRIBUTE)
