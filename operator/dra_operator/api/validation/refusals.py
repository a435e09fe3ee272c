"""What an API server refuses of an object in a file, and the operator would decide as if it were right.

One walk through the object asks each field what `_FIELDS` says of it, and each part what `_PARTS` says. In a cluster
none of it can be there, so the allocator does not ask. What the allocator itself says of a claim (a class that does not
exist, a selector that does not compile) is not repeated here; expressions are judged by `questions.load`.
Source: k8s.io/kubernetes/pkg/apis/resource/validation; the constants of k8s.io/api/resource/v1 of Kubernetes 1.37.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

from dra_operator.api import types
from dra_operator.api.core import Namespace, Pod
from dra_operator.api.validation import checks, slices
from dra_operator.api.validation.checks import (
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
    Refusal,
)
from dra_operator.api.wire import Wire, wire_fields

_SPLIT_CLAIM: Final = "ask for the rest in another claim"
_SPLIT_SLICE: Final = "publish the rest in another slice of the pool"
_JOIN: Final = "write several as one, joined by &&"
_LEAVE_OUT: Final = "leave some out"
_NAME_NONE: Final = "name no request, which means all of them"

_NO_NAME = "is no name of an object: use lower case letters, digits, - and ., at most 253 of them"
_NO_NAMESPACE = "is no name of a namespace: use lower case letters, digits and -, at most 63 of them"
_NOT_A_LABEL = "is no name of {what}: use lower case letters, digits and -, at most 63 of them"
_ONCE = "is named twice: once is enough"
_TWO_REQUESTS = "is the name of two requests: give each a name of its own"
_TWO_DEVICES = "is the name of two devices of this slice: give each a name of its own"
_TWO_SETS = "is the name of two counter sets: give each a name of its own"
_DRAWN_TWICE = "is named twice: name all counters of a set at once"
_EMPTY_SET = "has no counters: name at least one, or leave the set out"
_NO_REQUEST = "names no request: the claim has {names}"
_NO_COUNT = "is not greater than zero: ask for at least one device, or leave the request out"
_COUNT_OF_ALL = "cannot be given with allocationMode All: leave it out"
_NO_OPERATOR = "is no operator: write Equal or Exists"
_NO_EFFECT = "is no effect: write NoSchedule or NoExecute, or leave it out for both"
_NO_TAINT_EFFECT = "is no effect: write NoSchedule, NoExecute, or None"
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
_NOT_QUALIFIED = (
    "is not fully qualified: write domain/name, the domain in lower case, such as gpu.example.com/model"
)
_NO_RESOURCE = "is no name of an extended resource: write domain/name, such as example.com/gpu"
_NO_ATTRIBUTE_NAME = (
    "is no name of an attribute: write domain/name, the domain in lower case, such as team.example.com/numa"
)
_DERIVED_TWICE = "is derived twice: write one expression for it"
_NOT_ASKED = "is asked for by no constraint of this request: name it in one, or leave it out"
_NO_EXPRESSION = "is missing: write the expression that computes the attribute"
_NO_POOL = "is no name of a pool: use lower case letters, digits, - and ., such as the name of the node"
_NO_GENERATION = "is less than zero: begin with 0 or 1, and count up when the pool changes"
_NO_SLICES = "is not greater than zero: say how many slices the pool has"
_FALSE = "cannot be false: set it to true, or leave it out"
_OPERATIONS = ("NodePrepareResources", "NodeUnprepareResources", "*")
_NO_OPERATION = "is no operation: write NodePrepareResources, NodeUnprepareResources, or * for all"


def find_refusals(obj: object, body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what the API server refuses of an object that has the API's defaults; `body` is what was read, in v1.

    An object with a uid was taken by an API server: that one may be newer, and know more operators, or older, and take
    domains in capitals; and `snapshot --redact` leaves out parameters. Of a claim that is allocated nothing is said: it
    holds its devices whatever it looks like. Of the kinds of the core group only names are looked at.
    """
    metadata = getattr(obj, "metadata", None)
    if metadata is None or metadata.uid:
        return
    if isinstance(obj, types.ResourceClaim) and obj.status.allocation is not None:
        return
    allowed, problem = (LABEL, _NO_NAMESPACE) if isinstance(obj, Namespace) else (SUBDOMAIN, _NO_NAME)
    if not allowed.fullmatch(metadata.name):
        yield Refusal("metadata.name", metadata.name, problem)
    if isinstance(obj, Pod) and obj.spec.node_name and not SUBDOMAIN.fullmatch(obj.spec.node_name):
        yield Refusal("spec.nodeName", obj.spec.node_name, NO_NODE)
    if isinstance(obj, Pod):
        yield from _requests_of_containers(body)
    if isinstance(obj, _WALKED):
        yield from _part(obj.spec, "spec")
    if isinstance(obj, types.ResourceSlice):
        yield from slices.find_refused_values(obj.spec, body)


def find_container_claims(body: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each claim that a container of a pod names, with the claim's name and the request's."""
    spec = body.get("spec") or {}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            claims = (container.get("resources") or {}).get("claims")
            for number, item in enumerate(claims if isinstance(claims, list) else ()):
                if isinstance(item, Mapping):
                    path = f"spec.{field}[{index}].resources.claims[{number}]"
                    yield path, item.get("name"), item.get("request")


def _requests_of_containers(body: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield the requests of claims that containers of a pod name and that cannot be names, as of an alternative."""
    for path, _, name in find_container_claims(body):
        if isinstance(name, str) and name and not LABEL.fullmatch(name):
            request, slash, _ = name.partition("/")
            text = f'is no name of a request: write "{request}", whatever alternative is chosen'
            yield Refusal(f"{path}.request", name, text if slash else _NOT_A_LABEL.format(what="a request"))


_WALKED: Final = (
    types.ResourceClaim
    | types.ResourceClaimTemplate
    | types.DeviceClass
    | types.ResourceSlice
    | types.DeviceTaintRule
)


def _part(part: Wire, path: str) -> Iterator[Refusal]:
    kind: Any = type(part)
    for field, name in _names(kind):
        value, at = getattr(part, field), f"{path}.{name}"
        for check in _FIELDS.get((kind, field), ()):
            yield from check(value, at)
        yield from _below(value, at)
    for look in _PARTS.get(kind, ()):
        yield from look(part, path)


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
            if isinstance(item, Wire):
                yield from _part(item, f'{path}["{key}"]')


# --- what there is to say of parts ------------------------------------------------------------------------------------


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


def _derived(devices: types.DeviceClaim, path: str) -> Iterator[Refusal]:
    """Yield what is refused of the derived attributes of a claim, their expressions aside."""
    for place, names, attributes in all_derived(devices, path):
        asked = {
            # Of two, the one that devices must share.
            item.distinct_attribute if item.match_attribute is None else item.match_attribute
            for item in devices.constraints
            if not item.requests or not names.isdisjoint(item.requests)
        }
        yield from checks.names(QUALIFIED, _NO_ATTRIBUTE_NAME, _DERIVED_TWICE, "name")(attributes, place)
        seen: set[str] = set()
        for index, item in enumerate(attributes):
            if QUALIFIED.fullmatch(item.name) and item.name not in asked | seen:
                yield Refusal(f"{place}[{index}].name", item.name, _NOT_ASKED)
            seen.add(item.name)
            if not item.expression:
                yield Refusal(f"{place}[{index}].expression", None, _NO_EXPRESSION)


def _references(devices: types.DeviceClaim, path: str) -> Iterator[Refusal]:
    """Yield the requests that constraints and configuration name, and the claim has not."""
    known = dict.fromkeys(
        name
        for request in devices.requests
        for name in (request.name, *(f"{request.name}/{item.name}" for item in request.first_available))
    )
    named = [(f"constraints[{number}]", item.requests) for number, item in enumerate(devices.constraints)]
    named += [(f"config[{number}]", item.requests) for number, item in enumerate(devices.config)]
    unknown = _NO_REQUEST.format(names=", ".join(known) or "none")
    for place, requests in named:
        yield from checks.one_of(known, unknown, _ONCE)(requests, f"{path}.{place}.requests")


def _request(request: types.DeviceRequest, path: str) -> Iterator[Refusal]:
    if request.exactly is None and not request.first_available:
        yield Refusal(path, None, _NOTHING)
    elif request.exactly is not None and request.first_available:
        yield Refusal(path, None, _BOTH)


def _wanted(wanted: types.ExactDeviceRequest | types.DeviceSubRequest, path: str) -> Iterator[Refusal]:
    if not wanted.device_class_name:
        yield Refusal(f"{path}.deviceClassName", None, _NO_CLASS)
    if wanted.allocation_mode == "ExactCount" and wanted.count <= 0:
        yield Refusal(f"{path}.count", wanted.count, _NO_COUNT)
    elif wanted.allocation_mode == "All" and wanted.count:
        yield Refusal(f"{path}.count", wanted.count, _COUNT_OF_ALL)


def _constraint(constraint: types.DeviceConstraint, path: str) -> Iterator[Refusal]:
    if constraint.match_attribute is None and constraint.distinct_attribute is None:
        yield Refusal(path, None, _NO_ATTRIBUTE)


def _toleration(item: types.DeviceToleration, path: str) -> Iterator[Refusal]:
    if item.operator == "Exists" and item.value:
        yield Refusal(f"{path}.value", item.value, _VALUE_OF_EXISTS)
    elif item.operator == "Equal":
        yield from checks.name(VALUE, NO_VALUE)(item.value, f"{path}.value")


def _config(config: types.DeviceConfiguration, path: str) -> Iterator[Refusal]:
    if config.opaque is None:
        yield Refusal(path, None, _NO_OPAQUE)
    elif not isinstance(config.opaque.parameters, dict):
        yield Refusal(f"{path}.opaque.parameters", None, _NO_PARAMETERS)


def _extended_resource(name: str | None, path: str) -> Iterator[Refusal]:
    if name is None:
        return
    is_own = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    # Its quota has that prefix, and must have a name as well.
    if is_own or not KEY.fullmatch(f"requests.{name}"):
        yield Refusal(path, name, _NO_RESOURCE)


_Check = Callable[[Any, str], Iterator[Refusal]]
_CLASS: Final = checks.name(SUBDOMAIN, _NOT_A_CLASS)
_MODE: Final = checks.one_of(("ExactCount", "All"), _NO_MODE)
_POOL: Final = checks.name(slices.POOL, _NO_POOL, is_required=True)
# The API server has always taken drivers in capitals, too.
_DRIVER: Final = checks.name(DRIVER, NO_DRIVER, in_capitals=True, is_required=True)
_ATTRIBUTE: Final = checks.name(QUALIFIED, _NOT_QUALIFIED, is_required=True)
_NOT_FALSE: Final = checks.must(lambda value: value is not False, _FALSE)
_CONDITIONS: Final = checks.items(4, _LEAVE_OUT)
_COUNTERS: Final = (checks.items(32, _LEAVE_OUT), checks.must(bool, _EMPTY_SET))

_FIELDS: Final[Mapping[tuple[type[Any], str], tuple[_Check, ...]]] = {
    (types.DeviceClaim, "requests"): (
        checks.items(32, _SPLIT_CLAIM),
        checks.names(LABEL, _NOT_A_LABEL.format(what="a request"), _TWO_REQUESTS, "name"),
    ),
    (types.DeviceClaim, "constraints"): (checks.items(32, _LEAVE_OUT),),
    (types.DeviceClaim, "config"): (checks.items(32, _LEAVE_OUT),),
    (types.DeviceRequest, "first_available"): (
        checks.items(8, _LEAVE_OUT),
        checks.names(LABEL, _NOT_A_LABEL.format(what="a request"), _TWO_REQUESTS, "name"),
    ),
    **{
        (kind, field): found
        for kind in (types.ExactDeviceRequest, types.DeviceSubRequest)
        for field, found in (
            ("device_class_name", (_CLASS,)),
            ("allocation_mode", (_MODE,)),
            ("selectors", (checks.items(32, _JOIN),)),
            ("derived_attributes", (checks.items(32, _LEAVE_OUT),)),
        )
    },
    (types.DeviceToleration, "key"): (checks.name(KEY, NO_KEY),),
    (types.DeviceToleration, "operator"): (checks.one_of(("Equal", "Exists"), _NO_OPERATOR),),
    (types.DeviceToleration, "effect"): (checks.one_of(("", *slices.EFFECTS), _NO_EFFECT),),
    (types.DeviceConstraint, "requests"): (checks.items(32, _NAME_NONE),),
    (types.DeviceConstraint, "match_attribute"): (_ATTRIBUTE,),
    (types.DeviceConstraint, "distinct_attribute"): (_ATTRIBUTE,),
    (types.DeviceConfiguration, "requests"): (checks.items(32, _NAME_NONE),),
    (types.OpaqueConfiguration, "driver"): (_DRIVER,),
    (types.OpaqueConfiguration, "parameters"): (checks.size(_LEAVE_OUT),),
    (types.CELSelector, "expression"): (checks.size(f"{_LEAVE_OUT}, or use several selectors"),),
    (types.DerivedAttribute, "expression"): (checks.size(_LEAVE_OUT),),
    (types.DeviceClassSpec, "selectors"): (checks.items(32, _JOIN),),
    (types.DeviceClassSpec, "config"): (checks.items(32, _LEAVE_OUT),),
    (types.DeviceClassSpec, "extended_resource_name"): (_extended_resource,),
    (types.DeviceTaintSelector, "driver"): (_DRIVER,),
    (types.DeviceTaintSelector, "pool"): (_POOL,),
    (types.DeviceTaintSelector, "device"): (
        checks.name(LABEL, _NOT_A_LABEL.format(what="a device"), is_required=True),
    ),
    (types.DeviceTaint, "key"): (checks.name(KEY, NO_KEY, is_required=True),),
    (types.DeviceTaint, "value"): (checks.name(VALUE, NO_VALUE),),
    (types.DeviceTaint, "effect"): (checks.one_of(slices.EFFECTS, _NO_TAINT_EFFECT),),
    (types.ResourceSliceSpec, "driver"): (_DRIVER,),
    (types.ResourceSliceSpec, "devices"): (
        checks.names(LABEL, _NOT_A_LABEL.format(what="a device"), _TWO_DEVICES, "name"),
    ),
    (types.ResourceSliceSpec, "shared_counters"): (
        checks.items(8, _SPLIT_SLICE),
        checks.names(LABEL, _NOT_A_LABEL.format(what="a counter set"), _TWO_SETS, "name"),
    ),
    (types.ResourceSliceSpec, "skip_node_operations"): (checks.one_of(_OPERATIONS, _NO_OPERATION, _ONCE),),
    (types.ResourceSliceSpec, "per_device_node_selection"): (_NOT_FALSE,),
    (types.ResourcePool, "name"): (_POOL,),
    (types.ResourcePool, "generation"): (
        checks.must(lambda value: value >= 0, _NO_GENERATION, is_shown=True),
    ),
    (types.ResourcePool, "resource_slice_count"): (
        checks.must(lambda value: value > 0, _NO_SLICES, is_shown=True),
    ),
    **{
        (kind, field): found
        for kind in (types.ResourceSliceSpec, types.Device)
        for field, found in (
            ("node_name", (checks.name(SUBDOMAIN, NO_NODE, is_required=True),)),
            ("all_nodes", (_NOT_FALSE,)),
        )
    },
    (types.CounterSet, "counters"): (
        checks.items(32, "make a counter set of the rest"),
        checks.must(bool, _EMPTY_SET),
        checks.keys(LABEL, _NOT_A_LABEL.format(what="a counter")),
    ),
    (types.Device, "taints"): (checks.items(16, _LEAVE_OUT),),
    (types.Device, "binding_conditions"): (_CONDITIONS,),
    (types.Device, "binding_failure_conditions"): (_CONDITIONS,),
    (types.Device, "consumes_counters"): (
        checks.items(2, _LEAVE_OUT),
        checks.names(LABEL, _NOT_A_LABEL.format(what="a counter set"), _DRAWN_TWICE, "counterSet"),
    ),
    (types.DeviceCounterConsumption, "counters"): _COUNTERS,
    (types.DeviceCounterConsumption, "compatibility_groups"): (
        checks.items(2, _LEAVE_OUT),
        checks.names(LABEL, _NOT_A_LABEL.format(what="a group"), _ONCE),
    ),
    (types.CapacityRequestPolicy, "valid_values"): (checks.items(10, "use validRange"),),
}
"""What is asked of fields."""

_PARTS: Final[Mapping[type[Any], tuple[_Check, ...]]] = {
    types.DeviceClaim: (_references, _derived),
    types.DeviceRequest: (_request,),
    types.ExactDeviceRequest: (_wanted,),
    types.DeviceSubRequest: (_wanted,),
    types.DeviceConstraint: (_constraint,),
    types.DeviceConfiguration: (_config,),
    types.DeviceToleration: (_toleration,),
    types.ResourceSliceSpec: (slices.find_refused_places,),
    types.Device: (slices.find_refused_device,),
}
"""What is asked of parts, of which several fields go together."""
