"""Conversion between the versions of resource.k8s.io: to v1 when reading, from v1 when writing.

Only the shape differs, so this works on plain JSON, before types are checked: what is not shaped as expected is passed
on, and the reader names it. What needs no change is shared with the argument. v1 and v1beta2 are equal; v1beta1 has the
fields of `exactly` beside `firstAvailable`, wraps a device in `basic`, and writes unset node fields as "" and false.
v1alpha3 (Kubernetes 1.31) also had bare quantities as capacities: it is read, not written.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_not
from typing import Any, TypeAlias, TypeVar, cast

from dra_operator.api import types
from dra_operator.api.kinds import KINDS, RESOURCE_GROUP

Body: TypeAlias = Mapping[str, Any]
_Change: TypeAlias = Callable[[Any], Any]

_EXACT_FIELDS = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
    "derivedAttributes",
)  # fmt: skip
FLAT_VERSIONS = ("v1beta1", "v1alpha3")
"""The versions that have the fields of `exactly` beside `firstAvailable`, and those of a device in `basic`."""
_ZERO = (None, "", 0, False)


def version_of(body: Body) -> str:
    """Return the version that an object's `apiVersion` names, without the group; `v1` if it has none."""
    api_version = body.get("apiVersion")
    return api_version.rpartition("/")[2] if isinstance(api_version, str) and api_version else "v1"


def to_v1(body: Body, *, kind: str | None = None, version: str | None = None) -> Body:
    """Return `body` in version v1. `kind` and `version` stand in for fields that the items of a list lack."""
    kind = kind or _kind_of(body)
    return _converted(body, kind, "v1", _READERS.get((kind, version or version_of(body))))


def from_v1(body: Body, version: str, *, kind: str | None = None) -> Body:
    """Return `body`, an object of version v1, in `version`."""
    kind = kind or _kind_of(body)
    return _converted(body, kind, version, _WRITERS.get((kind, version)))


def _kind_of(body: Body) -> str:
    kind = body.get("kind")
    return kind if isinstance(kind, str) else ""


def _converted(body: Body, kind: str, version: str, change: _Change | None) -> Body:
    known = KINDS.get(kind)
    result = body if change is None else _changed(body, "spec", change)
    if "apiVersion" not in body or known is None or known.group != RESOURCE_GROUP:
        return result
    api_version = known.api_version(version)
    return result if body["apiVersion"] == api_version else {**result, "apiVersion": api_version}


def _changed(value: Any, name: str, change: _Change) -> Any:
    """Return the object `value` with its field `name` changed; what is no such object stays as it is."""
    if not isinstance(value, Mapping) or value.get(name) is None:
        return value
    return {**value, name: change(value[name])}


def _each(change: _Change) -> _Change:
    """Return the change that applies `change` to each item of a list."""
    return lambda items: [change(item) for item in items] if isinstance(items, list | tuple) else items


def _within(name: str, change: _Change) -> _Change:
    """Return the change that applies `change` to the field `name` of an object."""
    return lambda value: _changed(value, name, change)


# --- requests


def _nested_request(request: Any) -> Any:
    """Move the flat fields below `exactly`, as soon as one of them is not zero."""
    if not isinstance(request, Mapping) or "exactly" in request:
        return request
    exact = {name: request[name] for name in _EXACT_FIELDS if name in request}
    rest = {name: value for name, value in request.items() if name not in _EXACT_FIELDS}
    if any(value not in _ZERO and value not in ({}, []) for value in exact.values()) or (
        exact.get("adminAccess") is False or exact.get("capacity") == {}
    ):
        rest["exactly"] = exact
    return rest


def _flat_request(request: Any) -> Any:
    if not isinstance(request, Mapping) or not isinstance(request.get("exactly"), Mapping):
        return request
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **request["exactly"]}


def _claim_spec(change: _Change) -> _Change:
    return _within("devices", _within("requests", _each(change)))


# --- slices


def _unset_node_fields(spec: Any) -> Any:
    """Leave out the node fields that v1beta1 writes as "" and false; in v1 they would count as set."""
    if not isinstance(spec, Mapping):
        return spec
    unset = {name for name in ("nodeName", "allNodes") if name in spec and spec[name] in _ZERO}
    return {name: value for name, value in spec.items() if name not in unset} if unset else spec


def _unwrapped_device(device: Any) -> Any:
    if not isinstance(device, Mapping):
        return device
    # Without `basic` a device is of a kind that this version does not know: only its name counts.
    basic = device.get("basic")
    name = {"name": device["name"]} if "name" in device else {}
    if basic is None:
        return name
    return {**basic, **name} if isinstance(basic, Mapping) else device


def _wrapped_device(device: Any) -> Any:
    if not isinstance(device, Mapping):
        return device
    basic = {name: value for name, value in device.items() if name != "name"}
    return {"name": device.get("name"), "basic": basic}


def _read_slice_spec(spec: Any) -> Any:
    return _changed(_unset_node_fields(spec), "devices", _each(_unwrapped_device))


def _write_slice_spec(spec: Any) -> Any:
    return _changed(spec, "devices", _each(_wrapped_device))


def _capacity_objects(capacity: Any) -> Any:
    if not isinstance(capacity, Mapping):
        return capacity
    return {
        name: value if isinstance(value, Mapping) else {"value": value} for name, value in capacity.items()
    }


def _read_alpha_slice_spec(spec: Any) -> Any:
    return _changed(_read_slice_spec(spec), "devices", _each(_within("capacity", _capacity_objects)))


_READERS: dict[tuple[str, str], _Change] = {
    ("ResourceSlice", "v1beta1"): _read_slice_spec,
    ("ResourceSlice", "v1alpha3"): _read_alpha_slice_spec,
}
for _version in FLAT_VERSIONS:
    _READERS["ResourceClaim", _version] = _claim_spec(_nested_request)
    _READERS["ResourceClaimTemplate", _version] = _within("spec", _claim_spec(_nested_request))
_WRITERS: dict[tuple[str, str], _Change] = {
    ("ResourceSlice", "v1beta1"): _write_slice_spec,
    ("ResourceClaim", "v1beta1"): _claim_spec(_flat_request),
    ("ResourceClaimTemplate", "v1beta1"): _within("spec", _claim_spec(_flat_request)),
}


# --- The API's defaults, for objects that passed no API server: files, tests, recorded scenarios.
# The API server applies them when an object is written, so what comes from a cluster has them already. One is
# missing here: a taint's `timeAdded` becomes the time of writing, and nothing in this package knows the time.
# Source: k8s.io/kubernetes/pkg/apis/resource/v1, `SetDefaults_…`.

_T = TypeVar("_T")
_BELOW: Mapping[type, tuple[str, ...]] = {
    types.ResourceClaim: ("spec", "status"),
    types.ResourceClaimTemplate: ("spec",),
    types.ResourceClaimTemplateSpec: ("spec",),
    types.ResourceClaimSpec: ("devices",),
    types.ResourceClaimStatus: ("allocation",),
    types.AllocationResult: ("devices",),
    types.DeviceAllocationResult: ("results",),
    types.DeviceRequestAllocationResult: ("tolerations",),
    types.DeviceClaim: ("requests",),
    types.DeviceRequest: ("exactly", "first_available"),
    types.ExactDeviceRequest: ("tolerations",),
    types.DeviceSubRequest: ("tolerations",),
}
"""The fields of each type that have something with defaults below them."""


def apply_defaults(obj: _T) -> _T:
    """Return `obj` with the API's defaults: allocation mode ExactCount, count 1, toleration operator Equal.

    Objects of kinds without defaults, and those that have them all, are returned as they are.
    """
    if isinstance(obj, tuple):
        items = tuple(map(apply_defaults, obj))
        return cast("_T", items) if any(map(is_not, items, obj)) else obj
    changed: dict[str, Any] = {}
    for name in _BELOW.get(type(obj), ()):
        old = getattr(obj, name)
        if (new := apply_defaults(old)) is not old:
            changed[name] = new
    if isinstance(obj, types.DeviceToleration) and not obj.operator:
        changed["operator"] = "Equal"
    if isinstance(obj, types.ExactDeviceRequest | types.DeviceSubRequest):
        mode = obj.allocation_mode or "ExactCount"
        if mode == "ExactCount" and not obj.count:
            changed["count"] = 1
        if not obj.allocation_mode:
            changed["allocation_mode"] = mode
    return cast("_T", replace(cast("Any", obj), **changed)) if changed else obj
