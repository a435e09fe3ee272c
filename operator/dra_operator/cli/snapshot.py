"""`dra-operator snapshot`: the state of a cluster as a file, for `simulate` to run again.

What allocation depends on, and no more: of nodes their labels, taints and whether they can be used, of pods which
claims they name and what they ask of a node. It is read with the operator's own rights; what those do not cover is left
out and said, in the file as well.
Source: docs/cli.md.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dra_operator.cli.output import refuse

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dra_operator.api.convert import Body
from dra_operator.api.kinds import OWN_NAMES
from dra_operator.api.names import (
    ENDED_PHASES,
    GANG_ANNOTATION,
    GANG_MATCH_ANNOTATION,
    GANG_TOPOLOGY_ANNOTATION,
    LEASE_NAME,
)
from dra_operator.cli.arguments import file_path
from dra_operator.cli.output import opened, refusing
from dra_operator.cli.redact import redact
from dra_operator.questions.managers import trim_managed_fields
from dra_operator.questions.manifests import SnapshotHeader, write_header, write_yaml

if TYPE_CHECKING:
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiSession


_Answer = TypeVar("_Answer")

Kubeconfig = Annotated[
    str,
    typer.Option(metavar="FILE", envvar="DRA_OPERATOR_KUBECONFIG", help="Kubeconfig file, as for `run`."),
]
Context = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        envvar="DRA_OPERATOR_CONTEXT",
        help="Context of the kubeconfig file, as for `run`.",
    ),
]


def ask(kubeconfig: str, context: str, question: "Callable[[ApiSession], Awaitable[_Answer]]") -> _Answer:
    """Return what comes of a session with a cluster; end the command with 2 where there is none, or it refuses."""
    from dra_operator.cluster.credentials import AccessError, load_access
    from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
    from dra_operator.controller import logs

    # To stderr: stdout is for the answer.
    logs.configure("console", "warning")

    async def speak() -> _Answer:
        access = load_access(kubeconfig or None, context or None)
        async with ApiSession(access) as session:
            return await question(session)

    try:
        return asyncio.run(speak())
    except (AccessError, ApiError, ApiUnreachable, LookupError) as error:
        refuse(str(error))


TAKEN = (
    "Namespace", "Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaimTemplate",
    "PodGroup", "Pod", "ResourceClaim", "Lease", "ResourceQuota", *OWN_NAMES,
)  # fmt: skip
"""The kinds, in the order in which they are listed: what claims depend on before the claims."""
NEEDED = ("Node", "DeviceClass", "ResourceSlice", "ResourceClaim")
"""The kinds without which there is nothing to decide."""
_RARE = ("PodGroup", "ResourceQuota", *OWN_NAMES)
"""Kinds that not every API server has, which is not worth a note."""
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

    `unread` has the reason for each kind that could not be read; `kubernetes` is the version of the API server.
    """

    bodies: list[Body] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    kubernetes: str = ""


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
        file.write(write_header(SnapshotHeader(begun, taken.unread, taken.kubernetes)))
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
    from dra_operator.cluster.discovery import served, server_version
    from dra_operator.cluster.session import ApiError

    found = await served(session, {name: KINDS[name] for name in kinds})
    if missing := [name for name in NEEDED if name in kinds and name not in found]:
        raise LookupError(f"the API server does not serve {', '.join(missing)}")
    taken = Snapshot(kubernetes=await server_version(session))
    for name in kinds:
        if name not in found:
            if name not in _RARE:
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
            # Each node has a Lease: that of the operator is asked for by its name.
            fields = f"metadata.name={LEASE_NAME}" if kind.kind.kind == "Lease" else ""
            found = pages(session, kind, PAGE, fields)
            return [{**named, **item} async for _, items, _ in found for item in items]
        except ApiError as error:
            if error.status != 410 or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


# --- what is kept of an object --------------------------------------------------------------------------------------

_Kept = Mapping[str, Any]
"""What is kept of a mapping: by the name of a field what is kept of it, None for all of it."""


def _all(*names: str) -> _Kept:
    return dict.fromkeys(names)


_NAME: Final = _all("name", "namespace", "uid")
_IDENTITY: Final = {**_NAME, **_all("creationTimestamp", "deletionTimestamp")}
_OF_GANG: Final = {
    **_IDENTITY,
    "annotations": _all(GANG_ANNOTATION, GANG_MATCH_ANNOTATION, GANG_TOPOLOGY_ANNOTATION),
}
_CONTAINER: Final = {
    **_all("name", "restartPolicy"),
    "resources": _all("requests", "limits", "claims"),
    "ports": _all("containerPort", "hostPort", "hostIP", "protocol"),
}
_CONTAINERS: Final = {"initContainers": _CONTAINER, "containers": _CONTAINER}
_BESIDE: Final = {"requiredDuringSchedulingIgnoredDuringExecution": _all("topologyKey")}
"""Of affinity to other pods that it is there, without their labels."""
_NODE: Final = {
    "metadata": _all("name", "labels", "deletionTimestamp"),
    "spec": _all("unschedulable", "taints"),
    "status": {
        "conditions": _all("type", "status"),
        "nodeInfo": _all("kubeletVersion"),
        **_all("declaredFeatures", "allocatable"),
    },
}
_NAMESPACE: Final = {"metadata": _all("name", "labels")}
_GROUP: Final = {
    "metadata": _OF_GANG,
    "spec": _all(
        *("resourceClaims", "schedulingPolicy", "schedulingConstraints", "parentCompositePodGroupName")
    ),
    "status": _all("resourceClaimStatuses"),
}
_QUOTA: Final = {
    "metadata": _NAME,
    "spec": _all("hard", "scopes", "scopeSelector"),
    "status": _all("hard", "used"),
}
_OWN_KIND: Final = {"metadata": {**_IDENTITY, **_all("generation")}, **_all("spec", "status")}
_POD: Final = {
    "metadata": {**_OF_GANG, **_all("ownerReferences")},
    "spec": {
        **_all(
            *("nodeName", "resourceClaims", "schedulingGroup", "priority", "schedulingGates"),
            *("nodeSelector", "schedulerName"),
        ),
        **_all("tolerations", "resources", "overhead", "hostNetwork", "hostUsers"),
        "affinity": {**_all("nodeAffinity"), "podAffinity": _BESIDE, "podAntiAffinity": _BESIDE},
        "topologySpreadConstraints": _all("maxSkew", "topologyKey", "whenUnsatisfiable"),
        **_CONTAINERS,
    },
    "status": {
        **_all("phase", "resourceClaimStatuses", "nominatedNodeName"),
        "extendedResourceClaimStatus": _all("resourceClaimName", "requestMappings"),
        "conditions": _all("type", "status", "reason", "lastTransitionTime"),
        "containerStatuses": {"state": {"terminated": _all("finishedAt")}},
    },
}
_OF_DAEMON: Final = {**_NAME, "ownerReferences": _all("apiVersion", "kind", "name", "uid", "controller")}
_RESIDENT: Final = {
    "metadata": _NAME,
    "spec": {**_all("nodeName", "resources", "overhead", "hostNetwork"), **_CONTAINERS},
    "status": _all("phase"),
}
"""What nobody else can have of a node: kube-scheduler counts requests, ports, and the pod."""

_OPERATOR_LABEL: Final = "app.kubernetes.io/name"
_OPERATOR: Final = {
    **_RESIDENT,
    "metadata": {**_NAME, "labels": _all(_OPERATOR_LABEL)},
    "status": {**_all("phase"), "conditions": _all("type", "status")},
}
"""Of a pod of the operator whether it is ready, as `kubectl dra status` asks."""


def _keep(value: Any, kept: _Kept | None) -> Any:
    if kept is None or not value:
        return value
    if isinstance(value, list):
        return [_keep(item, kept) for item in value]
    return {
        name: found for name in kept if (found := _keep(value.get(name), kept[name])) not in (None, {}, [])
    }


def _some(body: Body, kept: _Kept) -> Body:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **_keep(body, kept)}


def _whole(body: Body) -> Body | None:
    return {**body, "metadata": _metadata(body)}


def _claim(body: Body) -> Body | None:
    """Return a claim with who wrote its status, and when: an audit asks who allocated it."""
    kept = trim_managed_fields(body)
    return {**body, "metadata": {**_metadata(body), **({"managedFields": kept} if kept else {})}}


def _node(body: Body) -> Body | None:
    status = {**(body.get("status") or {})}
    status["conditions"] = [item for item in status.get("conditions") or () if item.get("type") == "Ready"]
    return _some({**body, "status": status}, _NODE)


def _pod(body: Body) -> Body | None:
    """Return a pod as far as claims are named by it, or must be made for it, with what it asks of a node but volumes.

    Of another one only what it has of its node; None if it has no node, or has ended.
    """
    spec, status = body.get("spec") or {}, body.get("status") or {}
    extends = not spec.get("nodeName") and _asks_for_extended_resources(spec)
    is_of_gang = bool(spec.get("schedulingGroup")) or GANG_ANNOTATION in (
        body["metadata"].get("annotations") or {}
    )
    if spec.get("resourceClaims") or status.get("extendedResourceClaimStatus") or extends or is_of_gang:
        return _some(body, _POD)
    labels = body["metadata"].get("labels") or {}
    if labels.get(_OPERATOR_LABEL) == LEASE_NAME:
        return _some(body, _OPERATOR)
    is_there = spec.get("nodeName") and status.get("phase") not in ENDED_PHASES
    if not is_there:
        return None
    # Where the pods of a driver run is known by their DaemonSet.
    owners = body["metadata"].get("ownerReferences") or ()
    is_of_node = any(owner.get("kind") == "DaemonSet" for owner in owners)
    return _some(body, {**_RESIDENT, "metadata": _OF_DAEMON} if is_of_node else _RESIDENT)


def _asks_for_extended_resources(spec: Body) -> bool:
    """True if a container asks for what a class may serve; the other pods are not worth a place in the file."""
    from dra_operator.allocator.extended import is_extended

    return any(
        is_extended(resource)
        for name in _CONTAINERS
        for container in spec.get(name) or ()
        for amounts in (container.get("resources") or {}).values()
        if isinstance(amounts, Mapping)
        for resource in amounts
    )


def _lease(body: Body) -> Body | None:
    spec = _all("holderIdentity", "renewTime", "leaseDurationSeconds")
    return _some(body, {"metadata": _NAME, "spec": spec})


_TRIM: Mapping[str, Callable[[Body], Body | None]] = {
    "ResourceClaim": _claim,
    "Node": _node,
    "Namespace": lambda body: _some(body, _NAMESPACE),
    "Pod": _pod,
    "Lease": _lease,
    "ResourceQuota": lambda body: _some(body, _QUOTA),
    **dict.fromkeys(OWN_NAMES, lambda body: _some(body, _OWN_KIND)),
    "PodGroup": lambda body: _some(body, _GROUP),
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


def _summary(bodies: Iterable[Body]) -> str:
    kinds = [body["kind"] for body in bodies]
    return ", ".join(f"{kinds.count(name)} {name}" for name in TAKEN if name in kinds) or "nothing"
