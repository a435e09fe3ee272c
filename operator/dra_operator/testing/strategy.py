"""What the API server does to an object before it stores it: defaults, resets, generation, and what it refuses.

Each rule here is one that a client can see: a status sent to the main endpoint is ignored, a spec sent to `/status` is
ignored, generation counts changes of the spec. Bodies are in the stored shape and may be changed in place. What the
structs declare of values is not asked: a real API server does, and tests/real.
Source: pkg/registry/*/strategy.go, pkg/apis/*/defaults.go and pkg/apis/resource/validation of Kubernetes 1.37.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dra_operator.api.kinds import RESOURCE_GROUP
from dra_operator.api.names import ADMIN_ACCESS_LABEL
from dra_operator.testing.discovery import NAMESPACES, Resource
from dra_operator.testing.store import Store

Body = dict[str, Any]
_IMMUTABLE: Final = "field is immutable"


# --- defaults -------------------------------------------------------------------------------------------------------


def apply_defaults(resource: Resource, body: Body, now: str) -> None:
    """Fill in what the API defaults in every decoded body of the kind. `now` is RFC 3339 text, to the second."""
    match resource.kind:
        case "ResourceClaim":
            _default_claim_spec(body["spec"])
            for result in _results(body):
                _default_tolerations(result)
        case "ResourceClaimTemplate":
            _default_claim_spec(body["spec"]["spec"])
        case "ResourceSlice":
            for device in body["spec"].get("devices") or ():
                for taint in device.get("taints") or ():
                    taint.setdefault("timeAdded", now)
        case "DeviceTaintRule":
            body["spec"]["taint"].setdefault("timeAdded", now)
        case "Pod":
            _default_pod(body["spec"])
        case "Namespace":
            labels = body["metadata"].setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = body["metadata"].get("name", "")
        case "Node":
            status = body["status"]
            if status.get("capacity") and not status.get("allocatable"):
                status["allocatable"] = dict(status["capacity"])


def _default_claim_spec(spec: Body) -> None:
    for request in spec["devices"].get("requests") or ():
        for wanted in filter(None, (request.get("exactly"), *(request.get("firstAvailable") or ()))):
            if wanted.setdefault("allocationMode", "ExactCount") == "ExactCount":
                wanted.setdefault("count", 1)
            _default_tolerations(wanted)


def _default_tolerations(tolerating: Body) -> None:
    for toleration in tolerating.get("tolerations") or ():
        toleration.setdefault("operator", "Equal")


_POD_DEFAULTS: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}


def _default_pod(spec: Body) -> None:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        last = container.get("image", "").rpartition("/")[2]
        is_pinned = "@" in last or (":" in last and not last.endswith(":latest"))
        container.setdefault("imagePullPolicy", "IfNotPresent" if is_pinned else "Always")
    for name, value in _POD_DEFAULTS.items():
        spec.setdefault(name, value)


# --- create ---------------------------------------------------------------------------------------------------------


def prepare_create(resource: Resource, body: Body) -> None:
    """Reset what a client may not set on creation, and set what the server starts with."""
    if resource.has_generation:
        body["metadata"]["generation"] = 1
    match resource.kind:
        case "ResourceClaim" | "DeviceTaintRule":
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
    """Do what the default admission plugins do: priority, and five minutes of patience with a node that is away."""
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(item.get("key", key) == key for item in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
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


# --- update ---------------------------------------------------------------------------------------------------------


def prepare_update(resource: Resource, body: Body, old: Mapping[str, Any], now: str) -> None:
    """Undo what an update of the main endpoint may not change, and count the generation."""
    if resource.has_status:
        body["status"] = old["status"]
    if resource.kind == "Namespace":
        body["spec"] = old["spec"]
    if resource.kind == "DeviceTaintRule":
        taint, before = body["spec"]["taint"], old["spec"]["taint"]
        # A changed effect counts from now, unless the client says otherwise: tolerations run from `timeAdded`.
        if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
            taint["timeAdded"] = now
    if resource.has_generation and body["spec"] != old["spec"]:
        body["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_status_update(resource: Resource, body: Body, old: Mapping[str, Any]) -> None:
    """Undo what an update of `/status` may not change.

    Claims and taint rules keep all of their metadata; nodes and pods, for reasons of age, take labels and annotations.
    """
    for name in old:
        if name not in ("metadata", "status"):
            body[name] = old[name]
    if resource.group == RESOURCE_GROUP:
        body["metadata"] = dict(old["metadata"])
    if resource.kind == "ResourceClaim" and body["status"].get("devices"):
        # What a driver reported of a device goes with its allocation.
        gone = set(map(_device, _results(old))) - set(map(_device, _results(body)))
        kept = [device for device in body["status"].pop("devices") if _device(device) not in gone]
        if kept:
            body["status"]["devices"] = kept


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


# --- refusals, by field ---------------------------------------------------------------------------------------------


def problems(
    resource: Resource, body: Body, old: Mapping[str, Any] | None, store: Store, *, checks_admin_access: bool
) -> dict[str, str]:
    """Return what is wrong with an object that is created, or takes the place of `old`."""
    found: dict[str, str] = {}
    if not body["metadata"].get("name"):
        found["metadata.name"] = "name or generateName is required"
    if old is not None:
        found |= dict.fromkeys(_immutable_fields(resource, body, old), _IMMUTABLE)
        if resource.kind == "ResourceClaim":
            found |= _status_problems(body, old)
    if checks_admin_access:
        found |= _admin_access(resource, body, old, store)
    return found


def metadata_problems(metadata: Body, old: Mapping[str, Any]) -> dict[str, str]:
    """Return what an update may not change in the metadata; asked before the server keeps what is its own."""
    found: dict[str, str] = {}
    if metadata.get("uid", old["uid"]) != old["uid"]:
        found["metadata.uid"] = _IMMUTABLE
    if "deletionTimestamp" in old and {*(metadata.get("finalizers") or ())} - {
        *(old.get("finalizers") or ())
    }:
        found["metadata.finalizers"] = "no new finalizers can be added if the object is being deleted"
    return found


def _immutable_fields(resource: Resource, body: Body, old: Mapping[str, Any]) -> Iterator[str]:
    spec, before = body.get("spec"), old.get("spec")
    if resource.kind in ("ResourceClaim", "ResourceClaimTemplate") and spec != before:
        yield "spec"
    if resource.kind == "ResourceClaim":
        allocation, was = body["status"].get("allocation"), old["status"].get("allocation")
        if allocation and was and allocation != was:
            yield "status.allocation"
    if resource.kind == "ResourceSlice":
        spec, before = body["spec"], old["spec"]
        if spec["pool"]["name"] != before["pool"]["name"]:
            yield "spec.pool.name"
        for name in ("driver", "nodeName"):
            if spec.get(name) != before.get(name):
                yield f"spec.{name}"


def _status_problems(body: Body, old: Mapping[str, Any]) -> dict[str, str]:
    status, found = body["status"], {}
    devices = {*map(_device, _results(body))}
    for index, device in enumerate(status.get("devices") or ()):
        if _device(device) not in devices:
            found[f"status.devices[{index}]"] = "must be an allocated device in the claim"
    consumers = status.get("reservedFor") or ()
    if consumers and status.get("allocation") is None:
        found["status.reservedFor"] = "may not be specified when `allocated` is not set"
    elif "deletionTimestamp" in old["metadata"] and any(
        consumer not in (old["status"].get("reservedFor") or ()) for consumer in consumers
    ):
        found["status.reservedFor"] = "new entries may not be added while `deletionTimestamp` is set"
    return found


def _admin_access(
    resource: Resource, body: Body, old: Mapping[str, Any] | None, store: Store
) -> dict[str, str]:
    """Return the refusal of a new request, or a new allocation, with admin access where it may not be."""
    if resource.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return {}
    if old is None:
        spec = body["spec"]["spec"] if resource.kind == "ResourceClaimTemplate" else body["spec"]
        field, asked = "spec.devices.requests", spec["devices"].get("requests") or ()
        has_access = [bool((request.get("exactly") or {}).get("adminAccess")) for request in asked]
    elif resource.kind == "ResourceClaim":
        field, before = "status.allocation.devices.results", _results(old)
        has_access = [bool(result.get("adminAccess")) and result not in before for result in _results(body)]
    else:
        return {}
    if not any(has_access):
        return {}
    namespace = store.get(NAMESPACES, "", body["metadata"]["namespace"])
    labels = namespace.body["metadata"].get("labels") if namespace else None
    if (labels or {}).get(ADMIN_ACCESS_LABEL) == "true":
        return {}
    why = (
        f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    )
    return {f"{field}[{has_access.index(True)}].adminAccess": why}


def _results(body: Mapping[str, Any]) -> Sequence[Body]:
    allocation = (body.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def _device(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return what a result or a report is about: driver, pool, device and share."""
    return item["driver"], item["pool"], item["device"], item.get("shareID", "")
