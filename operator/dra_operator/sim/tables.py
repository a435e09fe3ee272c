"""What `kubectl get` prints: the server makes the rows, the client only aligns them.

Columns with a priority above 0 are shown by `-o wide`. Source: pkg/printers/internalversion/printers.go of Kubernetes
1.37.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import orjson

from dra_operator.api.names import OVER
from dra_operator.sim.durations import age
from dra_operator.sim.objects import Stored
from dra_operator.sim.resources import Resource
from dra_operator.sim.views import wire_body

Json = dict[str, Any]
Body = Mapping[str, Any]
Cells = Callable[[Body, datetime], list[Any]]

META_API = "meta.k8s.io/v1"
_NONE = "<none>"


class IncludeObject(Enum):
    """What a row carries beside its cells; the values are the wire's."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind, as `Name` or `Name+` (wide), and the cells of an object."""

    columns: tuple[str, ...]
    cells: Cells


def column_definitions(resource: Resource) -> list[Json]:
    """Return the columns of a kind."""
    columns = _printer(resource).columns
    return [
        {
            "name": column.removesuffix("+"),
            "type": "string",
            "format": "name" if column.removesuffix("+") == "Name" else "",
            "description": f"{column.removesuffix('+')} of the {resource.kind}",
            "priority": 1 if column.endswith("+") else 0,
        }
        for column in columns
    ]


def row(stored: Stored, resource: Resource, version: str, now: datetime, include: IncludeObject) -> Json:
    """Return the row of an object."""
    found: Json = {"cells": _printer(resource).cells(stored.body, now)}
    if resource.kind == "Pod" and (condition := _POD_CONDITIONS.get(stored.body["status"].get("phase", ""))):
        found["conditions"] = [condition]
    if include is IncludeObject.METADATA:
        found["object"] = partial_metadata(stored)
    elif include is IncludeObject.OBJECT:
        found["object"] = wire_body(stored.body, resource, version)
    else:
        found["object"] = None
    return found


def partial_metadata(stored: Stored) -> Json:
    """Return an object's metadata as a PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META_API, "metadata": stored.body["metadata"]}


def table(columns: list[Json] | None, metadata: Body, rows: Iterable[Json]) -> bytes:
    """Return a Table; `columns` None leaves them out, as watches do after the first event."""
    found = {
        "kind": "Table",
        "apiVersion": META_API,
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": list(rows),
    }
    return orjson.dumps(found)


def _printer(resource: Resource) -> Printer:
    return _PRINTERS.get(resource.kind, _NAME_AND_AGE)


def _created(body: Body, now: datetime) -> str:
    return age(body["metadata"].get("creationTimestamp"), now)


def _name_and_age(body: Body, now: datetime) -> list[Any]:
    return [body["metadata"]["name"], _created(body, now)]


def _claim(body: Body, now: datetime) -> list[Any]:
    return [body["metadata"]["name"], claim_state(body), _created(body, now)]


def claim_state(body: Body) -> str:
    """Return the states of a claim, as `allocated,reserved`."""
    states = []
    deleted = "deletionTimestamp" in body["metadata"]
    if deleted:
        states.append("deleted")
    if body["status"].get("allocation") is not None:
        states.append("allocated")
        if body["status"].get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _slice(body: Body, now: datetime) -> list[Any]:
    spec = body["spec"]
    return [
        body["metadata"]["name"],
        spec.get("nodeName", ""),
        spec["driver"],
        spec["pool"]["name"],
        _created(body, now),
    ]


def _taint_rule(body: Body, now: datetime) -> list[Any]:
    taint = body["spec"]["taint"]
    return [
        body["metadata"]["name"],
        taint.get("key", ""),
        taint.get("value", ""),
        taint.get("effect", ""),
        age(taint.get("timeAdded"), now) if taint.get("timeAdded") else "",
        _created(body, now),
    ]


def _namespace(body: Body, now: datetime) -> list[Any]:
    return [body["metadata"]["name"], body["status"].get("phase", ""), _created(body, now)]


def _config_map(body: Body, now: datetime) -> list[Any]:
    entries = len(body.get("data") or ()) + len(body.get("binaryData") or ())
    return [body["metadata"]["name"], entries, _created(body, now)]


def _lease(body: Body, now: datetime) -> list[Any]:
    return [body["metadata"]["name"], body["spec"].get("holderIdentity", ""), _created(body, now)]


def _node(body: Body, now: datetime) -> list[Any]:
    status, info = body["status"], body["status"].get("nodeInfo") or {}
    ready = next((item for item in status.get("conditions") or () if item.get("type") == "Ready"), None)
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if body["spec"].get("unschedulable"):
        states.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        body["metadata"]["name"],
        ",".join(states),
        ",".join(_roles(body["metadata"].get("labels") or {})) or _NONE,
        _created(body, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    prefix = "node-role.kubernetes.io/"
    roles = {name.removeprefix(prefix) for name in labels if name.startswith(prefix)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return sorted(roles - {""})


def _address(status: Body, kind: str) -> str:
    return next((item["address"] for item in status.get("addresses") or () if item["type"] == kind), _NONE)


def _pod(body: Body, now: datetime) -> list[Any]:
    spec, status = body["spec"], body["status"]
    containers = status.get("containerStatuses") or ()
    ready = sum(1 for item in containers if item.get("ready") and (item.get("state") or {}).get("running"))
    restarts = sum(item.get("restartCount", 0) for item in containers)
    addresses = status.get("podIPs") or [{}]
    return [
        body["metadata"]["name"],
        f"{ready}/{len(spec.get('containers') or ())}",
        _pod_state(body),
        str(restarts),
        _created(body, now),
        addresses[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _readiness_gates(spec, status),
    ]


def _pod_state(body: Body) -> str:
    status = body["status"]
    phase = status.get("phase", "")
    state = str(status.get("reason") or phase)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            state = "SchedulingGated"
    for container in reversed(status.get("containerStatuses") or ()):
        held = container.get("state") or {}
        waiting, ended = held.get("waiting") or {}, held.get("terminated")
        if waiting.get("reason"):
            state = waiting["reason"]
        elif ended is not None:
            state = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in body["metadata"] and phase not in OVER:
        state = "Terminating"
    return state


def _readiness_gates(spec: Body, status: Body) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return _NONE
    held = {item["type"] for item in status.get("conditions") or () if item.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate['conditionType'] in held)}/{len(gates)}"


_POD_CONDITIONS = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}


def _event(body: Body, now: datetime) -> list[Any]:
    about, series = body["involvedObject"], body.get("series")
    first = age(body.get("firstTimestamp") or body.get("eventTime"), now)
    last = age(body["lastTimestamp"], now) if body.get("lastTimestamp") else first
    count = body.get("count") or 1
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count", 0)
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return [
        last,
        body.get("type", ""),
        body.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _event_source(body),
        body.get("message", "").strip(),
        first,
        count,
        body["metadata"]["name"],
    ]


def _event_source(body: Body) -> str:
    source = body.get("source") or {}
    component = source.get("component") or body.get("reportingComponent", "")
    instance = source.get("host") or body.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else str(component)


_NAME_AND_AGE = Printer(("Name", "Age"), _name_and_age)
_PRINTERS = {
    "ResourceClaim": Printer(("Name", "State", "Age"), _claim),
    "ResourceSlice": Printer(("Name", "Node", "Driver", "Pool", "Age"), _slice),
    "DeviceTaintRule": Printer(("Name", "Key", "Value", "Effect", "TimeAdded", "Age"), _taint_rule),
    "Namespace": Printer(("Name", "Status", "Age"), _namespace),
    "ConfigMap": Printer(("Name", "Data", "Age"), _config_map),
    "Lease": Printer(("Name", "Holder", "Age"), _lease),
    "Node": Printer(
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "Internal-IP+",
            "External-IP+",
            "OS-Image+",
            "Kernel-Version+",
            "Container-Runtime+",
        ),
        _node,
    ),
    "Pod": Printer(
        ("Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"),
        _pod,
    ),
    "Event": Printer(
        (
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "Subobject+",
            "Source+",
            "Message",
            "First Seen+",
            "Count+",
            "Name+",
        ),
        _event,
    ),
}
