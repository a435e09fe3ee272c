"""Tables: what `kubectl get` shows of objects, a row for each, with ages as kubectl writes them.

Source: k8s.io/kubernetes/pkg/printers/internalversion; k8s.io/apimachinery/pkg/util/duration, `HumanDuration`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

import orjson

from dra_operator.api.durations import age
from dra_operator.api.names import ENDED_PHASES
from dra_operator.testing.errors import StatusError
from dra_operator.testing.lists import Page
from dra_operator.testing.registry import Target
from dra_operator.testing.resources import Resource
from dra_operator.testing.store import StoredObject, wire_body

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


def row(
    stored: StoredObject, resource: Resource, version: str, now: datetime, include: IncludeObject
) -> Json:
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


def partial_metadata(stored: StoredObject) -> Json:
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
    if "deletionTimestamp" in body["metadata"] and phase not in ENDED_PHASES:
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


def _named_and_dated(columns: tuple[str, ...] = (), cells: Cells = lambda _body, _now: []) -> Printer:
    """Return the printer of a kind with some columns between the name and the age."""

    def all_cells(body: Body, now: datetime) -> list[Any]:
        return [body["metadata"]["name"], *cells(body, now), _created(body, now)]

    return Printer(("Name", *columns, "Age"), all_cells)


def _slice(body: Body, _now: datetime) -> list[Any]:
    spec = body["spec"]
    return [spec.get("nodeName", ""), spec["driver"], spec["pool"]["name"]]


def _taint_rule(body: Body, now: datetime) -> list[Any]:
    taint = body["spec"]["taint"]
    added = age(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [*(taint.get(name, "") for name in ("key", "value", "effect")), added]


_NAME_AND_AGE = _named_and_dated()
_PRINTERS = {
    "ResourceClaim": _named_and_dated(("State",), lambda body, _: [claim_state(body)]),
    "ResourceSlice": _named_and_dated(("Node", "Driver", "Pool"), _slice),
    "DeviceTaintRule": _named_and_dated(("Key", "Value", "Effect", "TimeAdded"), _taint_rule),
    "Namespace": _named_and_dated(("Status",), lambda body, _: [body["status"].get("phase", "")]),
    "ConfigMap": _named_and_dated(
        ("Data",), lambda body, _: [len(body.get("data") or ()) + len(body.get("binaryData") or ())]
    ),
    "Lease": _named_and_dated(("Holder",), lambda body, _: [body["spec"].get("holderIdentity", "")]),
    "Node": Printer(
        (
            "Name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+", "OS-Image+",
            "Kernel-Version+", "Container-Runtime+",
        ),
        _node,
    ),
    "Pod": Printer(
        ("Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"),
        _pod,
    ),
    "Event": Printer(
        (
            "Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message", "First Seen+", "Count+",
            "Name+",
        ),
        _event,
    ),
}  # fmt: skip


_REPRESENTATIONS = (
    "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)


class Form(Enum):
    """How objects are shown."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


def form_of(accept: str) -> Form:
    """Return the first form of an Accept header that is offered here; StatusError (406) if there is none."""
    for choice in accept.split(",") if accept else ("*/*",):
        media_type, *texts = (part.strip() for part in choice.split(";"))
        options = dict(text.partition("=")[::2] for text in texts)
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        wanted = options.get("as", "")
        if not wanted:
            return Form.OBJECT
        if options.get("g") != "meta.k8s.io" or options.get("v") != "v1":
            continue
        if wanted == "Table":
            return Form.TABLE
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form.METADATA
    message = f"406: Not Acceptable\n\nAvailable representations: {_REPRESENTATIONS}"
    raise StatusError(406, "NotAcceptable", message, {})


@dataclass(slots=True)
class Presenter:
    """Shows the objects of one target in one form; one for each request, since a Table's columns come once."""

    target: Target
    form: Form
    include: IncludeObject
    clock: Callable[[], datetime]
    _columns_sent: bool = field(default=False)

    def one(self, stored: StoredObject) -> bytes:
        """Return the bytes of a single object."""
        match self.form:
            case Form.OBJECT:
                return stored.encoded(self.target.resource, self.target.version)
            case Form.METADATA:
                return orjson.dumps(partial_metadata(stored))
            case Form.TABLE:
                metadata = {"resourceVersion": stored.body["metadata"].get("resourceVersion", "")}
                return self._table(metadata, [stored])

    def page(self, page: Page) -> bytes:
        """Return the bytes of a list."""
        if self.form is Form.TABLE:
            return self._table(page.metadata(), page.items)
        resource, version = self.target.resource, self.target.version
        if self.form is Form.METADATA:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": META_API}
            items = b",".join(orjson.dumps(partial_metadata(stored)) for stored in page.items)
        else:
            head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version(version)}
            items = b",".join(stored.list_item(resource, version) for stored in page.items)
        return orjson.dumps({**head, "metadata": page.metadata()})[:-1] + b',"items":[' + items + b"]}"

    def _table(self, metadata: dict[str, object], objects: Sequence[StoredObject]) -> bytes:
        resource, version, now = self.target.resource, self.target.version, self.clock()
        columns = None if self._columns_sent else column_definitions(resource)
        self._columns_sent = True
        rows = [row(stored, resource, version, now, self.include) for stored in objects]
        return table(columns, metadata, rows)
