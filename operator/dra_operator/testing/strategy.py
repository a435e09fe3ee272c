"""What the API server does to an object before it stores it: defaults, resets, generation, deletion.

Each rule here is one that a client can see: a status sent to the main endpoint is ignored, a spec sent to `/status` is
ignored, generation counts changes of the spec. Bodies are in the stored shape and may be changed in place.
Source: pkg/registry/*/strategy.go and pkg/apis/*/defaults.go of Kubernetes 1.37.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from dra_operator.api.kinds import RESOURCE_GROUP
from dra_operator.api.names import ADMIN_ACCESS_LABEL
from dra_operator.testing import errors
from dra_operator.testing.errors import FieldError
from dra_operator.testing.resources import NAMESPACES, Resource
from dra_operator.testing.store import Store

Body = dict[str, Any]

_DEFAULT_TOLERATION_SECONDS = 300


# --- defaults -------------------------------------------------------------------------------------------------------


def apply_defaults(resource: Resource, body: Body, now: str) -> None:
    """Fill in what the API defaults in every decoded body of the kind. `now` is RFC 3339 text, to the second."""
    match resource.kind:
        case "ResourceClaim":
            _default_claim_spec(body.get("spec") or {})
            _default_results(body.get("status") or {})
        case "ResourceClaimTemplate":
            _default_claim_spec((body.get("spec") or {}).get("spec") or {})
        case "ResourceSlice":
            for device in body["spec"].get("devices") or ():
                for taint in device.get("taints") or ():
                    taint.setdefault("timeAdded", now)
        case "DeviceTaintRule":
            body["spec"]["taint"].setdefault("timeAdded", now)
        case "Pod":
            _default_pod(body)
        case "Namespace":
            body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = body["metadata"].get(
                "name", ""
            )
        case "Node":
            _default_allocatable(body["status"])


def _default_claim_spec(spec: Body) -> None:
    for request in spec.get("devices", {}).get("requests") or ():
        for wanted in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if wanted is not None:
                _default_request(wanted)


def _default_request(wanted: Body) -> None:
    wanted.setdefault("allocationMode", "ExactCount")
    if wanted["allocationMode"] == "ExactCount":
        wanted.setdefault("count", 1)
    _default_tolerations(wanted)


def _default_results(status: Body) -> None:
    allocation = status.get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        _default_tolerations(result)


def _default_tolerations(tolerating: Body) -> None:
    for toleration in tolerating.get("tolerations") or ():
        toleration.setdefault("operator", "Equal")


def _default_pod(body: Body) -> None:
    spec = body["spec"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
    ):
        spec.setdefault(name, value)


def _pull_policy(image: str) -> str:
    last = image.rpartition("/")[2]
    tagged = ":" in last and not last.endswith(":latest")
    return "IfNotPresent" if tagged or "@" in last else "Always"


def _default_allocatable(status: Body) -> None:
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


# --- create ---------------------------------------------------------------------------------------------------------


def prepare_create(resource: Resource, body: Body) -> None:
    """Reset what a client may not set on creation, and set what the server starts with."""
    if resource.has_generation:
        body["metadata"]["generation"] = 1
    match resource.kind:
        case "ResourceClaim":
            body["status"] = {}
        case "DeviceTaintRule":
            body["status"] = {}
        case "Namespace":
            finalizers = body["spec"].setdefault("finalizers", [])
            if "kubernetes" not in finalizers:
                finalizers.append("kubernetes")
            body["status"] = {"phase": "Active"}
        case "Pod":
            body["status"] = {"phase": "Pending", "qosClass": _qos_class(body["spec"])}
            _admit_pod(body["spec"])


def _admit_pod(spec: Body) -> None:
    """Do what the default admission plugins do: priority, and a while of patience with a node that is away."""
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(item.get("key", key) == key for item in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
                }
            )


def _qos_class(spec: Mapping[str, Any]) -> str:
    """Return BestEffort without any cpu or memory asked for, Guaranteed where limits equal requests everywhere."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    amounts = [container.get("resources") or {} for container in containers]
    if not any(item.get("requests") or item.get("limits") for item in amounts):
        return "BestEffort"
    guaranteed = all(
        set(limits := item.get("limits") or {}) >= {"cpu", "memory"}
        and (item.get("requests") or limits) == limits
        for item in amounts
    )
    return "Guaranteed" if guaranteed else "Burstable"


def warnings_of(resource: Resource, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the server says of an object that it takes nevertheless."""
    driver = body["spec"]["driver"] if resource.kind == "ResourceSlice" else ""
    if driver == driver.lower():
        return ()
    return (f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters',)


# --- update ---------------------------------------------------------------------------------------------------------


def prepare_update(resource: Resource, body: Body, old: Mapping[str, Any], now: str) -> None:
    """Undo what an update of the main endpoint may not change, and count the generation."""
    if resource.has_status:
        body["status"] = old["status"]
    if resource.kind == "Namespace":
        body["spec"] = old["spec"]
    if resource.kind == "DeviceTaintRule":
        _restart_taint(body["spec"]["taint"], old["spec"]["taint"], now)
    if resource.has_generation and body["spec"] != old["spec"]:
        body["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _restart_taint(taint: Body, old: Mapping[str, Any], now: str) -> None:
    """A changed effect counts from now, unless the client says otherwise: tolerations run from `timeAdded`."""
    if taint.get("effect") != old.get("effect") and taint.get("timeAdded") == old.get("timeAdded"):
        taint["timeAdded"] = now


def prepare_status_update(resource: Resource, body: Body, old: Mapping[str, Any]) -> None:
    """Undo what an update of `/status` may not change.

    Claims and taint rules keep all of their metadata; nodes and pods, for reasons of age, take labels and annotations.
    """
    for name in old:
        if name not in ("metadata", "status"):
            body[name] = old[name]
    if resource.group == RESOURCE_GROUP:
        body["metadata"] = dict(old["metadata"])
    elif resource.kind == "Pod":
        owners = old["metadata"].get("ownerReferences")
        body["metadata"].pop("ownerReferences", None)
        if owners is not None:
            body["metadata"]["ownerReferences"] = owners
    if resource.kind == "ResourceClaim":
        _drop_deallocated_devices(body["status"], old["status"])


def record_nomination(resource: Resource, body: Body, old: Mapping[str, Any], manager: str) -> None:
    """Record in managedFields who nominated a pod, for as long as the nomination stands; nothing else is recorded."""
    if resource.kind != "Pod":
        return
    node = (body.get("status") or {}).get("nominatedNodeName")
    kept = old["metadata"].get("managedFields")
    if node != (old.get("status") or {}).get("nominatedNodeName"):
        kept = [{**_NOMINATION, "manager": manager}] if node and manager else None
    if kept:
        body["metadata"]["managedFields"] = kept


_NOMINATION = {
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}},
    "subresource": "status",
}
_Device = tuple[str, str, str, str]


def _device_ids(results: Any) -> set[_Device]:
    return {(item["driver"], item["pool"], item["device"], item.get("shareID", "")) for item in results or ()}


def allocated_devices(status: Mapping[str, Any]) -> set[_Device]:
    """Return the devices of a claim's allocation as (driver, pool, device, share)."""
    allocation = status.get("allocation") or {}
    return _device_ids((allocation.get("devices") or {}).get("results"))


def _drop_deallocated_devices(status: Body, old: Mapping[str, Any]) -> None:
    gone = allocated_devices(old) - allocated_devices(status)
    if not gone or not status.get("devices"):
        return
    kept = [device for device in status["devices"] if not _device_ids([device]) <= gone]
    status.pop("devices")
    if kept:
        status["devices"] = kept


_WHY = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"


class AdminAccess(Enum):
    """Whether the rule is on."""

    CHECKED = "checked"
    UNCHECKED = "unchecked"


def _permitted(store: Store, namespace: str) -> bool:
    stored = store.get(NAMESPACES, "", namespace)
    return (
        stored is not None and (stored.body["metadata"].get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true"
    )


def admit_create(
    mode: AdminAccess, store: Store, resource: Resource, body: Mapping[str, Any]
) -> list[FieldError]:
    """Return the refusal of a new claim or template that asks for admin access where it may not."""
    if mode is AdminAccess.UNCHECKED or resource.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return []
    claim_spec = body["spec"]["spec"] if resource.kind == "ResourceClaimTemplate" else body["spec"]
    for index, request in enumerate(claim_spec["devices"].get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            if _permitted(store, body["metadata"]["namespace"]):
                return []
            # Upstream names this path for templates, too, and leaves `exactly` out.
            return [errors.forbidden_field(f"spec.devices.requests[{index}].adminAccess", _WHY)]
    return []


def admit_status(
    mode: AdminAccess, store: Store, resource: Resource, body: Mapping[str, Any], old: Mapping[str, Any]
) -> list[FieldError]:
    """Return the refusal of an allocation with admin access where it may not be."""
    if mode is AdminAccess.UNCHECKED or resource.kind != "ResourceClaim":
        return []
    before = _results(old)
    for index, result in enumerate(_results(body)):
        if result.get("adminAccess") and result not in before:
            if _permitted(store, body["metadata"]["namespace"]):
                return []
            return [errors.forbidden_field(f"status.allocation.devices.results[{index}].adminAccess", _WHY)]
    return []


def _results(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    allocation = body["status"].get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()
