"""`dra-operator snapshot`: the state of a cluster as a file, for `simulate` to run again.

What allocation depends on, and no more: of nodes their labels, taints and whether they can be used, of pods which
claims they name and what they ask of a node. It is read with the operator's own rights; what those do not cover is left
out and said, in the file as well.
Source: docs/cli.md.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dra_operator.api.convert import Body
from dra_operator.api.kinds import OWN_NAMES
from dra_operator.api.names import (
    ADMIN_ACCESS_LABEL,
    FINALIZER,
    GANG_ANNOTATION,
    GANG_MATCH_ANNOTATION,
    GANG_TOPOLOGY_ANNOTATION,
    LEASE_NAME,
    LET_GO_ANNOTATION,
    OPT_OUT_LABEL,
    POD_CLAIM_NAME,
    SPECIAL_CLAIM_ANNOTATION,
)
from dra_operator.api.validation.unknown_fields import without_unknown_fields
from dra_operator.cli.output import FILE, opened, refuse, refusing
from dra_operator.pods.gate import read_mark
from dra_operator.questions.kept_fields import NEEDED, RARE, REST, TAKEN, keep, trim
from dra_operator.questions.manifests import SnapshotHeader, write_header, write_yaml

if TYPE_CHECKING:
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiSession


# --- Redaction: a state that can be shown to others, and in which everything is decided as before.
# Names, namespaces, labels, annotations and uids of tenants' objects get other names, the same one always the same,
# in the same order, since claims of one age are decided by name. What decides is kept: requests, selectors,
# allocations. What only drivers understand is dropped, and so are fields of tenants' objects that this version does
# not know.


_KEPT_METADATA = ("creationTimestamp", "deletionTimestamp", "generation", "resourceVersion")


class _Aliases:
    """Other names for some names: first all are collected, then each is numbered by its place among the sorted."""

    def __init__(self, make: Callable[[str], str]) -> None:
        self._make = make
        self._seen: set[str] = set()
        self._table: dict[str, str] | None = None

    def __call__(self, name: str) -> str:
        """Return the other name for a name; the name itself while names are being collected."""
        if self._table is None:
            self._seen.add(name)
            return name
        return self._table[name]

    def number(self) -> None:
        """End the collection."""
        width = len(str(len(self._seen)))
        self._table = {
            name: self._make(f"{number:0{width}}") for number, name in enumerate(sorted(self._seen), 1)
        }


def redact(bodies: Iterable[Body]) -> list[Body]:
    """Return the objects, as on the wire in any version, without what tenants would not show."""
    redactor = _Redactor()
    known = list(bodies)
    for body in known:
        redactor.redacted(body)
    redactor.number()
    return [redactor.redacted(body) for body in known]


class _Redactor:
    def __init__(self) -> None:
        self._all: list[_Aliases] = []
        self._namespaces = self._called("namespace")
        self._names = {
            "ResourceClaim": self._called("claim"),
            "ResourceClaimTemplate": self._called("template"),
            "Pod": self._called("pod"),
            "PodGroup": self._called("group"),
            "ResourceQuota": self._called("quota"),
        }
        self._others, self._entries = self._called("owner"), self._called("entry")
        self._keys, self._values = self._called("key"), self._called("value")
        self._uids = self._aliases(lambda number: f"00000000-0000-4000-8000-{int(number):012}")
        self._shapes = self._build_shapes()

    def _called(self, prefix: str) -> _Aliases:
        return self._aliases(lambda number: f"{prefix}-{number}")

    def _aliases(self, make: Callable[[str], str]) -> _Aliases:
        self._all.append(_Aliases(make))
        return self._all[-1]

    def _build_shapes(self) -> dict[str, Any]:
        """Return what is shown of each kind, but for its kind and version; of others all is."""
        containers = self._called("container")
        container = {
            REST: None,
            "name": containers,
            "resources": {REST: None, "claims": {REST: None, "name": self._entries}},
        }
        entry = {
            "resourceClaimName": self._names["ResourceClaim"],
            "resourceClaimTemplateName": self._names["ResourceClaimTemplate"],
            "name": self._entries,
        }
        mapping = {REST: None, "containerName": containers}
        pod = {
            "spec": {
                REST: None,
                "resourceClaims": entry,
                "schedulingGroup": {"podGroupName": self._names["PodGroup"]},
                "initContainers": container,
                "containers": container,
            },
            "status": {
                REST: None,
                "resourceClaimStatuses": entry,
                "extendedResourceClaimStatus": {**entry, "requestMappings": mapping},
            },
        }
        made = {"labels": self._labels, "annotations": lambda each: self._table(each, {})}
        named: dict[str, Body] = {
            "ResourceClaim": {"spec": None, "status": {"allocation": None, "reservedFor": self._consumer}},
            "ResourceClaimTemplate": {"spec": {"metadata": made, "spec": None}},
            "Pod": pod,
            "PodGroup": pod,
            "ResourceQuota": {"spec": None, "status": None},
        }
        # Without what names claims, pods and reasons of people.
        condition = dict.fromkeys(("type", "status", "reason", "lastTransitionTime", "observedGeneration"))
        own = {
            "metadata": {REST: None, "name": self._others, "namespace": self._namespaces},
            "status": {"conditions": condition},
        }
        return {
            **{kind: {**each, "metadata": partial(self._metadata, kind)} for kind, each in named.items()},
            **dict.fromkeys(OWN_NAMES, own),
            "Namespace": {"metadata": {"name": self._namespaces, "labels": {ADMIN_ACCESS_LABEL: None}}},
            "Lease": {"metadata": None, "spec": {REST: None, "holderIdentity": lambda _: "operator"}},
        }

    def number(self) -> None:
        """End the collection of names."""
        for aliases in self._all:
            aliases.number()

    def redacted(self, body: Body) -> Body:
        """Return one object as it is shown."""
        kind = body["kind"]
        if kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate"):
            body = _without_parameters(body)
        if kind not in self._shapes:
            return body
        if kind in ("ResourceClaim", "ResourceClaimTemplate"):
            body = without_unknown_fields(body)
        shown: Body = keep(body, {"apiVersion": None, "kind": None, **self._shapes[kind]})
        return shown

    def _metadata(self, kind: str, metadata: Body) -> Body:
        shown = {name: metadata[name] for name in _KEPT_METADATA if name in metadata}
        shown["name"] = self._names[kind](metadata["name"])
        shown["namespace"] = self._namespaces(metadata["namespace"])
        if metadata.get("uid"):
            shown["uid"] = self._uids(metadata["uid"])
        kept_annotations: Mapping[str, Callable[[str], str]] = {
            POD_CLAIM_NAME: self._entries,
            SPECIAL_CLAIM_ANNOTATION: str,
            LET_GO_ANNOTATION: self._let_go,
            GANG_ANNOTATION: self._values,
            GANG_MATCH_ANNOTATION: str,
            GANG_TOPOLOGY_ANNOTATION: str,
        }
        parts = {
            "labels": self._labels(metadata.get("labels")),
            "annotations": self._table(metadata.get("annotations"), kept_annotations),
            "ownerReferences": [self._owner(owner) for owner in metadata.get("ownerReferences") or ()],
            "finalizers": [name for name in metadata.get("finalizers") or () if name == FINALIZER],
        }
        return {**shown, **{name: part for name, part in parts.items() if part}}

    def _table(self, table: Body | None, kept: Mapping[str, Callable[[str], str]]) -> dict[str, str]:
        """Return labels or annotations with other keys and values, save for those that are `kept`."""
        return {
            name if name in kept else self._keys(name): kept.get(name, self._values)(value)
            for name, value in (table or {}).items()
        }

    def _labels(self, labels: Body | None) -> dict[str, str]:
        return self._table(labels, {OPT_OUT_LABEL: self._opt_out})

    def _opt_out(self, value: str) -> str:
        """Return the value of the label that keeps the operator away; one that means nothing is the tenant's own."""
        return value if value in ("false", "true") else self._values(value)

    def _let_go(self, mark: str) -> str:
        """Return the mark of a pod that was let go, whose end is the pod's uid."""
        head, _, uid = mark.rpartition(" ")
        return f"{head} {self._uids(uid)}" if read_mark(mark, uid) is not None else self._values(mark)

    def _owner(self, owner: Body) -> Body:
        names = self._names.get(owner["kind"], self._others)
        return {**owner, "name": names(owner["name"]), "uid": self._uids(owner["uid"])}

    def _consumer(self, consumer: Body) -> Body:
        kind = {"pods": "Pod", "podgroups": "PodGroup"}.get(consumer.get("resource", ""), "")
        names = self._names.get(kind, self._others)
        return {**consumer, "name": names(consumer["name"]), "uid": self._uids(consumer["uid"])}


def _without_parameters(value: Any) -> Any:
    """Return a value without the parameters of opaque configuration, wherever they stand in it."""
    if isinstance(value, Mapping):
        return {
            name: {"driver": part.get("driver")}
            if name == "opaque" and isinstance(part, Mapping)
            else _without_parameters(part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_without_parameters(item) for item in value]
    return value


# --- The command.


def _read_cluster(kubeconfig: str, context: str) -> "Snapshot":
    """Return the state of a cluster; end the command with 2 where there is none, or it refuses."""
    from dra_operator.cluster.credentials import AccessError, load_access
    from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
    from dra_operator.controller import logs

    # To stderr: stdout is for the answer.
    logs.configure("console", "warning")

    async def speak() -> Snapshot:
        async with ApiSession(load_access(kubeconfig or None, context or None)) as session:
            return await read_objects(session)

    try:
        return asyncio.run(speak())
    except (AccessError, ApiError, ApiUnreachable, LookupError) as error:
        refuse(str(error))


PAGE = 500
"""Objects asked for at a time."""
END_OF_DOCUMENTS = b"...\n"
"""The last line: with it a document of YAML ends, and no object is lost behind it."""
ATTEMPTS = 3
"""How often a list is begun, if the API server forgets it in the middle."""


@dataclass(slots=True)
class Snapshot:
    """The objects of a cluster, as on the wire, and lines about what is not among them.

    `unread` has the reason for each kind that could not be read; `kubernetes` is the version of the API server.
    """

    bodies: list[Body] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    kubernetes: str = ""


@click.command("snapshot")
@click.option(
    *("--redact", "redacted"),
    is_flag=True,
    help="Replace names, namespaces, labels, annotations and uids of claims and pods; drop opaque parameters.",
)
@click.option("--out", type=FILE, metavar="FILE", help="Write to this file; .gz is compressed.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    envvar="DRA_OPERATOR_KUBECONFIG",
    show_envvar=True,
    help="Kubeconfig file, as for `run`.",
)
@click.option(
    "--context",
    default="",
    metavar="NAME",
    envvar="DRA_OPERATOR_CONTEXT",
    show_envvar=True,
    help="Context of the kubeconfig file, as for `run`.",
)
def app(*, redacted: bool, out: Path | None, kubeconfig: str, context: str) -> None:
    """Write the state of a cluster, as far as claims depend on it, for `simulate -f`. Only reads from the cluster."""
    begun = time.time()
    taken = _read_cluster(kubeconfig, context)
    bodies = redact(taken.bodies) if redacted else taken.bodies
    with refusing(None, out), opened(out or Path("-"), "wb") as file:
        file.write(write_header(SnapshotHeader(begun, taken.unread, taken.kubernetes)))
        file.writelines(write_yaml(bodies))
        # By this it is known that nothing was cut off.
        file.write(END_OF_DOCUMENTS)
    for note in taken.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(_summary(bodies), err=True)


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
            if name not in RARE:
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
        taken.bodies += [body for body in map(trim, bodies) if body is not None]
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


def _summary(bodies: Iterable[Body]) -> str:
    kinds = [body["kind"] for body in bodies]
    return ", ".join(f"{kinds.count(name)} {name}" for name in TAKEN if name in kinds) or "nothing"
