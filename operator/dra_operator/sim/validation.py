"""The rules that people meet: names, immutable fields, requests, allocations. Not all that the API server checks.

Each returns the fields it refuses, in upstream's words; none of them changes anything. Bodies are in the stored shape.
Source: pkg/apis/resource/validation and apimachinery's ValidateObjectMeta of Kubernetes 1.36.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dra_operator.api.name_rules import LABEL, SUBDOMAIN, VALUE, problems_of_qualified_name
from dra_operator.sim import errors
from dra_operator.sim.errors import FieldError
from dra_operator.sim.resources import Resource
from dra_operator.sim.strategy import allocated_devices

Body = Mapping[str, Any]

_IMMUTABLE = "field is immutable"
_MAX_REQUESTS = 32
_MAX_RESERVED_FOR = 256


# --- names ----------------------------------------------------------------------------------------------------------


def _dns_label(field: str, value: str) -> Iterator[FieldError]:
    return _invalid(field, value, LABEL.problems(value))


def _dns_subdomain(field: str, value: str) -> Iterator[FieldError]:
    return _invalid(field, value, SUBDOMAIN.problems(value))


def _qualified_name(field: str, value: str) -> Iterator[FieldError]:
    return _invalid(field, value, problems_of_qualified_name(value))


def _invalid(field: str, value: str, problems: Iterable[str]) -> Iterator[FieldError]:
    return (errors.invalid_value(field, value, problem) for problem in problems)


def metadata_errors(resource: Resource, metadata: Body) -> list[FieldError]:
    """Return what is wrong with the name and the finalizers of an object."""
    name = metadata.get("name", "")
    found: list[FieldError] = []
    if not name:
        found.append(errors.required("metadata.name", "name or generateName is required"))
    elif resource.kind == "Namespace":
        found.extend(_dns_label("metadata.name", name))
    else:
        found.extend(_dns_subdomain("metadata.name", name))
    for finalizer in metadata.get("finalizers") or ():
        found.extend(_qualified_name("metadata.finalizers", finalizer))
    return found + label_errors(metadata)


def label_errors(metadata: Body) -> list[FieldError]:
    """Return what is wrong with the labels of an object."""
    found: list[FieldError] = []
    for key, value in (metadata.get("labels") or {}).items():
        found.extend(_qualified_name("metadata.labels", key))
        found.extend(_invalid("metadata.labels", value, VALUE.problems(value)))
    return found


def metadata_update_errors(metadata: Body, old: Body) -> list[FieldError]:
    """Return what an update may not change in the metadata."""
    found = []
    if metadata.get("uid", old["uid"]) != old["uid"]:
        found.append(errors.invalid_value("metadata.uid", metadata["uid"], _IMMUTABLE))
    if "deletionTimestamp" in old:
        added = [
            name for name in metadata.get("finalizers") or () if name not in (old.get("finalizers") or ())
        ]
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            why = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{shown}}}"
            )
            found.append(errors.forbidden_field("metadata.finalizers", why))
    return found


# --- kinds ----------------------------------------------------------------------------------------------------------


def create_errors(resource: Resource, body: Body) -> list[FieldError]:
    """Return what is wrong with a new object."""
    match resource.kind:
        case "ResourceClaim":
            return list(_claim_spec(body["spec"], "spec"))
        case "ResourceClaimTemplate":
            return list(_claim_spec(body["spec"]["spec"], "spec.spec"))
        case "ResourceSlice":
            return list(_slice(body["spec"]))
        case "DeviceTaintRule":
            return list(_taint(body["spec"]["taint"], "spec.taint"))
        case "DeviceClass":
            return list(_class(body["spec"]))
        case "Pod":
            return list(_pod(body["spec"]))
        case "Event":
            return list(_event(body))
    return []


def update_errors(resource: Resource, body: Body, old: Body) -> list[FieldError]:
    """Return what is wrong with a changed object."""
    match resource.kind:
        case "ResourceClaim" | "ResourceClaimTemplate":
            return _immutable("spec", body["spec"], old["spec"])
        case "ResourceSlice":
            spec, before = body["spec"], old["spec"]
            changed = _immutable("spec.driver", spec["driver"], before["driver"])
            changed += _immutable("spec.pool.name", spec["pool"]["name"], before["pool"]["name"])
            changed += _immutable("spec.nodeName", spec.get("nodeName"), before.get("nodeName"))
            return [*_slice(spec), *changed]
    return create_errors(resource, body)


def _immutable(field: str, value: Any, old: Any) -> list[FieldError]:
    return [] if value == old else [errors.invalid_value(field, value, _IMMUTABLE)]


def _claim_spec(spec: Body, path: str) -> Iterator[FieldError]:
    devices = spec["devices"]
    requests = devices.get("requests") or ()
    if len(requests) > _MAX_REQUESTS:
        yield errors.too_many(f"{path}.devices.requests", len(requests), _MAX_REQUESTS)
    seen = set()
    for index, request in enumerate(requests):
        at = f"{path}.devices.requests[{index}]"
        yield from _request(request, at)
        name = request.get("name", "")
        if name in seen:
            yield errors.duplicate(at, name)
        seen.add(name)
    known = set(_request_names(requests))
    for part in ("constraints", "config"):
        for index, item in enumerate(devices.get(part) or ()):
            at = f"{path}.devices.{part}[{index}].requests"
            yield from _unknown(item.get("requests") or (), known, at)


def _unknown(names: Iterable[str], known: Collection[str], path: str) -> Iterator[FieldError]:
    for position, name in enumerate(names):
        if name not in known:
            yield errors.invalid_value(f"{path}[{position}]", name, _UNKNOWN_REQUEST)


_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _request_names(requests: Sequence[Body]) -> Iterator[str]:
    for request in requests:
        yield request["name"]
        for alternative in request.get("firstAvailable") or ():
            yield f"{request['name']}/{alternative['name']}"


def _request(request: Body, at: str) -> Iterator[FieldError]:
    if request.get("name"):
        yield from _dns_label(f"{at}.name", request["name"])
    else:
        yield errors.required(f"{at}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield errors.invalid_value(at, None, why)
    elif exactly is None and not alternatives:
        yield errors.required(at, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None:
        yield from _wanted(exactly, f"{at}.exactly")
    for index, alternative in enumerate(alternatives or ()):
        below = f"{at}.firstAvailable[{index}]"
        if alternative.get("name"):
            yield from _dns_label(f"{below}.name", alternative["name"])
        else:
            yield errors.required(f"{below}.name")
        yield from _wanted(alternative, below)


def _wanted(wanted: Body, at: str) -> Iterator[FieldError]:
    class_name = wanted.get("deviceClassName", "")
    if class_name:
        yield from _dns_subdomain(f"{at}.deviceClassName", class_name)
    else:
        yield errors.required(f"{at}.deviceClassName")
    yield from _selectors(wanted.get("selectors") or (), f"{at}.selectors")
    mode, count = wanted.get("allocationMode", ""), wanted.get("count", 0)
    if mode == "All" and count:
        yield errors.invalid_value(f"{at}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield errors.invalid_value(f"{at}.count", count, "must be greater than zero")
    elif mode not in ("All", "ExactCount"):
        yield errors.unsupported(f"{at}.allocationMode", mode, ("All", "ExactCount"))


def _selectors(selectors: Sequence[Body], at: str) -> Iterator[FieldError]:
    for index, selector in enumerate(selectors):
        if selector.get("cel") is None:
            yield errors.required(f"{at}[{index}].cel")
        elif not selector["cel"].get("expression"):
            yield errors.required(f"{at}[{index}].cel.expression")


def _class(spec: Body) -> Iterator[FieldError]:
    yield from _selectors(spec.get("selectors") or (), "spec.selectors")


def _slice(spec: Body) -> Iterator[FieldError]:
    if spec["driver"]:
        yield from _dns_subdomain("spec.driver", spec["driver"])
    else:
        yield errors.required("spec.driver")
    pool = spec["pool"]
    if not pool["name"]:
        yield errors.required("spec.pool.name")
    if pool["resourceSliceCount"] <= 0:
        yield errors.invalid_value(
            "spec.pool.resourceSliceCount", pool["resourceSliceCount"], "must be greater than zero"
        )
    if pool["generation"] < 0:
        yield errors.invalid_value(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )
    yield from _one_node_field(spec)
    seen = set()
    for index, device in enumerate(spec.get("devices") or ()):
        at = f"spec.devices[{index}]"
        if device["name"]:
            yield from _dns_label(f"{at}.name", device["name"])
        else:
            yield errors.required(f"{at}.name")
        if device["name"] in seen:
            yield errors.duplicate(at, device["name"])
        seen.add(device["name"])
        for number, taint in enumerate(device.get("taints") or ()):
            yield from _taint(taint, f"{at}.taints[{number}]")


def _one_node_field(spec: Body) -> Iterator[FieldError]:
    names = ("nodeName", "perDeviceNodeSelection", "nodeSelector", "allNodes")
    given = [name for name in names if spec.get(name)]
    choice = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if len(given) > 1:
        shown = ", ".join(f"`{name}`" for name in given)
        yield errors.invalid_value("spec", f"{{{shown}}}", f"{choice}, but multiple fields are set")
    elif not given:
        yield errors.required("spec", choice)


def _taint(taint: Body, at: str) -> Iterator[FieldError]:
    yield from _qualified_name(f"{at}.key", taint.get("key", ""))
    effects = ("NoExecute", "NoSchedule", "None")
    if not taint.get("effect"):
        yield errors.required(f"{at}.effect")
    elif taint["effect"] not in effects:
        yield errors.unsupported(f"{at}.effect", taint["effect"], effects)


def _pod(spec: Body) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield errors.required("spec.containers")
    for index, container in enumerate(spec.get("containers") or ()):
        if not container.get("name"):
            yield errors.required(f"spec.containers[{index}].name")
        if not container.get("image"):
            yield errors.required(f"spec.containers[{index}].image")


def _event(body: Body) -> Iterator[FieldError]:
    about = body["involvedObject"].get("namespace", "")
    own = body["metadata"].get("namespace", "")
    if about and about != own:
        yield errors.invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if not about and own != "default":
        yield errors.invalid_value("involvedObject.namespace", about, "does not match event.namespace")


# --- the status of a claim ------------------------------------------------------------------------------------------


def status_errors(resource: Resource, body: Body, old: Body) -> list[FieldError]:
    """Return what is wrong with a changed status."""
    if resource.kind != "ResourceClaim":
        return []
    return list(_claim_status(body, old))


def _claim_status(body: Body, old: Body) -> Iterator[FieldError]:
    status, before = body["status"], old["status"]
    allocation, allocated = status.get("allocation"), before.get("allocation")
    deleting = "deletionTimestamp" in old["metadata"]
    known = set(_request_names(body["spec"]["devices"].get("requests") or ()))
    if allocation is not None and allocated is None:
        for index, result in enumerate(allocation["devices"].get("results") or ()):
            yield from _result(result, known, f"status.allocation.devices.results[{index}]")
    yield from _reserved_for(status, before, deleting=deleting)
    if allocated is not None and allocation is not None and allocation != allocated:
        yield errors.invalid_value("status.allocation", allocation, _IMMUTABLE)
    devices = allocated_devices(status)
    for index, device in enumerate(status.get("devices") or ()):
        if (device["driver"], device["pool"], device["device"], device.get("shareID", "")) not in devices:
            shown = {name: device[name] for name in ("driver", "pool", "device")}
            yield errors.invalid_value(
                f"status.devices[{index}]", shown, "must be an allocated device in the claim"
            )


def _result(result: Body, known: set[str], at: str) -> Iterator[FieldError]:
    if result["request"] not in known:
        yield errors.invalid_value(f"{at}.request", result["request"], _UNKNOWN_REQUEST)
    for name in ("driver", "pool", "device"):
        if not result[name]:
            yield errors.required(f"{at}.{name}")


def _reserved_for(status: Body, before: Body, *, deleting: bool) -> Iterator[FieldError]:
    consumers = status.get("reservedFor") or ()
    if not consumers:
        return
    if len(consumers) > _MAX_RESERVED_FOR:
        yield errors.too_many("status.reservedFor", len(consumers), _MAX_RESERVED_FOR)
    if status.get("allocation") is None:
        yield errors.forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set")
        return
    seen = set()
    for index, consumer in enumerate(consumers):
        if consumer["uid"] in seen:
            yield errors.duplicate(f"status.reservedFor[{index}]", consumer["uid"])
        seen.add(consumer["uid"])
    added = seen - {consumer["uid"] for consumer in before.get("reservedFor") or ()}
    if deleting and added:
        yield errors.forbidden_field(
            "status.reservedFor",
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )
