"""`dra-operator snapshot`: the state of a cluster as a file, for `simulate` to run again.

What allocation depends on, and no more: of nodes their labels, taints and whether they can be used, of pods which
claims they name and what they ask of a node. It is read with the operator's own rights; what those do not cover is left
out and said, in the file as well.
Source: docs/cli.md.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dra_operator.api.convert import Body
from dra_operator.api.names import ENDED_PHASES
from dra_operator.cli.arguments import file_path
from dra_operator.cli.client import Context, Kubeconfig, ask
from dra_operator.cli.output import opened, refusing
from dra_operator.cli.redact import redact
from dra_operator.questions.managers import trim_managed_fields
from dra_operator.questions.manifests import write_yaml
from dra_operator.questions.snapshot_header import SnapshotHeader, write_header

if TYPE_CHECKING:
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiSession

TAKEN = (
    "Namespace", "Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaimTemplate",
    "PodGroup", "Pod", "ResourceClaim",
)  # fmt: skip
"""The kinds, in the order in which they are listed: what claims depend on before the claims."""
NEEDED = ("Node", "DeviceClass", "ResourceSlice", "ResourceClaim")
"""The kinds without which there is nothing to decide."""
_RARE = "PodGroup"
"""The kind that few clusters serve, so that it is not worth a note."""
PAGE = 500
"""Objects asked for at a time."""
END_OF_DOCUMENTS = b"...\n"
"""The last line: with it a document of YAML ends, and no object is lost behind it."""
ATTEMPTS = 3
"""How often a list is begun, if the API server forgets it in the middle."""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(slots=True)
class Snapshot:
    """The objects of a cluster, as on the wire, and lines about what is not among them.

    `unread` has the reason for each kind that could not be read.
    """

    bodies: list[Body] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


@app.command()
def snapshot(
    *,
    redacted: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Replace names, namespaces, labels, annotations and uids of claims and pods; drop opaque parameters.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=file_path, help="Write to this file; .gz is compressed."),
    ] = None,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Write the state of a cluster, as far as claims depend on it, for `simulate -f`. Only reads from the cluster."""
    begun = time.time()
    taken = ask(kubeconfig, context, read_objects)
    bodies = redact(taken.bodies) if redacted else taken.bodies
    with refusing(None, out), opened(out or Path("-"), "wb") as file:
        file.write(write_header(SnapshotHeader(begun, taken.unread)))
        file.writelines(write_yaml(bodies))
        # By this it is known that nothing was cut off.
        file.write(END_OF_DOCUMENTS)
    for note in taken.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(_summary(bodies), err=True)


async def read_objects(session: "ApiSession", kinds: Sequence[str] = TAKEN) -> Snapshot:
    """Return the state of the cluster that a session speaks to, or some kinds of it.

    Raises ApiError, ApiUnreachable, or LookupError if a kind without which nothing can be decided is not served.
    """
    from dra_operator.api.kinds import KINDS
    from dra_operator.cluster.discovery import served
    from dra_operator.cluster.session import ApiError

    found = await served(session, {name: KINDS[name] for name in kinds})
    if missing := [name for name in NEEDED if name in kinds and name not in found]:
        raise LookupError(f"the API server does not serve {', '.join(missing)}")
    taken = Snapshot()
    for name in kinds:
        if name not in found:
            if name != _RARE:
                taken.notes.append(f"{name} is not served")
            continue
        try:
            bodies = await _list(session, found[name])
        except ApiError as error:
            if error.status != 403 or name in NEEDED:
                raise
            taken.notes.append(f"not permitted to {error.verb} {error.resource}: left out")
            kind = KINDS[name]
            resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            taken.unread[name] = f"not permitted to {error.verb} {resource} when the snapshot was taken"
            continue
        trimmed = map(_TRIM.get(name, _whole), bodies)
        taken.bodies += [body for body in trimmed if body is not None]
    return taken


async def _list(session: "ApiSession", kind: "Served") -> list[Body]:
    """Return all objects of a kind. Raises ApiError, ApiUnreachable."""
    from dra_operator.cluster.discovery import pages
    from dra_operator.cluster.session import ApiError

    named = {"apiVersion": kind.api_version, "kind": kind.kind.kind}
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return [{**named, **item} async for _, items, _ in pages(session, kind, PAGE) for item in items]
        except ApiError as error:
            if error.status != 410 or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


# --- what is kept of an object --------------------------------------------------------------------------------------


def _whole(body: Body) -> Body | None:
    return {**body, "metadata": _metadata(body)}


def _claim(body: Body) -> Body | None:
    """Return a claim with who wrote its status, and when: an audit asks who allocated it."""
    kept = trim_managed_fields(body)
    return {**body, "metadata": {**_metadata(body), **({"managedFields": kept} if kept else {})}}


def _node(body: Body) -> Body | None:
    status, spec = body.get("status") or {}, body.get("spec") or {}
    ready = [
        {"type": item["type"], "status": item.get("status", "")}
        for item in status.get("conditions") or ()
        if item.get("type") == "Ready"
    ]
    kept = {"conditions": ready, **_some(status, "declaredFeatures", "allocatable")}
    metadata = _some(body["metadata"], "name", "labels", "deletionTimestamp")
    return {
        **_kind(body),
        "metadata": metadata,
        "spec": _some(spec, "unschedulable", "taints"),
        "status": kept,
    }


def _namespace(body: Body) -> Body | None:
    return {**_kind(body), "metadata": _some(body["metadata"], "name", "labels")}


def _pod(body: Body) -> Body | None:
    """Return a pod as far as claims are named by it, or must be made for it, with what it asks of a node but volumes.

    Of another one only what it has of its node; None if it has no node, or has ended.
    """
    spec, status = body.get("spec") or {}, body.get("status") or {}
    extends = not spec.get("nodeName") and _asks_for_extended_resources(spec)
    if not (spec.get("resourceClaims") or status.get("extendedResourceClaimStatus") or extends):
        is_there = spec.get("nodeName") and status.get("phase") not in ENDED_PHASES
        return _resident(body) if is_there else None
    containers = {name: list(map(_container, spec.get(name) or ())) for name in _CONTAINERS}
    metadata = _some(body["metadata"], *_IDENTITY, "ownerReferences")
    extended = _some(status.get("extendedResourceClaimStatus") or {}, "resourceClaimName")
    return {
        **_kind(body),
        "metadata": metadata,
        "spec": {
            **_some(spec, *_OF_PODS),
            **_affinity(spec),
            **{name: part for name, part in containers.items() if part},
        },
        "status": {
            **_some(status, "phase", "resourceClaimStatuses", "nominatedNodeName"),
            **({"extendedResourceClaimStatus": extended} if extended else {}),
        },
    }


def _resident(body: Body) -> Body:
    """Return of a pod what nobody else can have of its node: kube-scheduler counts requests, ports, and the pod."""
    spec = body["spec"]
    return {
        **_kind(body),
        "metadata": _some(body["metadata"], "name", "namespace", "uid"),
        "spec": {
            **_some(spec, "nodeName", "resources", "overhead", "hostNetwork"),
            **{name: list(map(_container, spec[name])) for name in _CONTAINERS if spec.get(name)},
        },
        "status": _some(body.get("status") or {}, "phase"),
    }


def _affinity(spec: Body) -> dict[str, Any]:
    """Return the affinity to nodes, and that a pod must be beside others or apart from them, without their labels."""
    given = spec.get("affinity") or {}
    affinity = _some(given, "nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if terms := (given.get(name) or {}).get(_REQUIRED):
            affinity[name] = {_REQUIRED: [_some(term, "topologyKey") for term in terms]}
    spread = [
        _some(each, "maxSkew", "topologyKey", "whenUnsatisfiable")
        for each in spec.get("topologySpreadConstraints") or ()
    ]
    return {
        **({"affinity": affinity} if affinity else {}),
        **({"topologySpreadConstraints": spread} if spread else {}),
    }


def _group(body: Body) -> Body | None:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    return {
        **_kind(body),
        "metadata": _some(body["metadata"], *_IDENTITY),
        "spec": _some(spec, "resourceClaims"),
        "status": _some(status, "resourceClaimStatuses"),
    }


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_CONTAINERS = ("initContainers", "containers")
_OF_PODS = (
    *("nodeName", "resourceClaims", "schedulingGroup", "priority", "schedulingGates"),
    *("nodeSelector", "tolerations", "resources", "overhead", "hostNetwork", "hostUsers"),
)


def _asks_for_extended_resources(spec: Body) -> bool:
    """True if a container asks for what a class may serve; the other pods are not worth a place in the file."""
    from dra_operator.allocator.extended import is_extended

    return any(
        is_extended(resource)
        for name in _CONTAINERS
        for container in spec.get(name) or ()
        for amounts in (_container(container)["resources"]).values()
        for resource in amounts or ()
    )


def _container(body: Body) -> dict[str, Any]:
    resources = _some(body.get("resources") or {}, "requests", "limits")
    ports = [
        _some(port, "containerPort", "hostPort", "hostIP", "protocol") for port in body.get("ports") or ()
    ]
    return {
        **_some(body, "name", "restartPolicy"),
        "resources": resources,
        **({"ports": ports} if ports else {}),
    }


_TRIM: Mapping[str, Callable[[Body], Body | None]] = {
    "ResourceClaim": _claim,
    "Node": _node,
    "Namespace": _namespace,
    "Pod": _pod,
    "PodGroup": _group,
}


def _metadata(body: Body) -> Body:
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    annotations = {
        name: value
        for name, value in (metadata.pop("annotations", None) or {}).items()
        # It repeats the whole object.
        if name != "kubectl.kubernetes.io/last-applied-configuration"
    }
    return {**metadata, "annotations": annotations} if annotations else metadata


def _kind(body: Body) -> dict[str, Any]:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"]}


def _some(part: Body, *names: str) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


def _summary(bodies: Iterable[Body]) -> str:
    kinds = [body["kind"] for body in bodies]
    return ", ".join(f"{kinds.count(name)} {name}" for name in TAKEN if name in kinds) or "nothing"
