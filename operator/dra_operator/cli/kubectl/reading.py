"""Reading a cluster with the rights of the user: which objects there are, and which kinds could not be read.

Kinds are read side by side. A kind that may not be listed in all namespaces is listed in the one that is asked about;
what stays unread is named once, with the right that is missing. Half a list is an error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dra_operator.api.kinds import KINDS, LEASE, OWN_KINDS, POLICIES, RESOURCE_GROUP, Kind
from dra_operator.api.managed_fields import trim_managed_fields
from dra_operator.api.names import LEASE_NAME
from dra_operator.cli.kubectl.answering import Demand
from dra_operator.cli.kubectl.requests import Kubectl, ReadingError, RefusedError, items_of

if TYPE_CHECKING:
    from dra_operator.pods.workloads import KnownWorkload

_OPTIONAL: Final = frozenset(
    (
        *("DeviceTaintRule", "PersistentVolume", "PersistentVolumeClaim", "PodGroup", "ResourceQuota"),
        "PriorityClass",
        *(kind.kind for kind in (*POLICIES, *OWN_KINDS)),
    )
)
"""Kinds that some clusters do not serve: then there are none."""
_NOT_PERMITTED: Final = "not permitted to list "
_FORBIDDEN: Final = "Forbidden"
_NOT_FOUND: Final = "NotFound"
_OF_READER: Final = frozenset(
    ("resourceslices", "deviceclasses", "devicetaintrules", "nodes", "leases", "priorityclasses")
)
"""What the ClusterRole `dra-reader` of manifests/components/reader gives; what holds devices it does not."""
_READER: Final = "ClusterRole dra-reader has it (manifests/components/reader)"
_MOST_NAMES: Final = 1000
"""So many names are offered at most."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

Body = dict[str, Any]


@dataclass(slots=True)
class LiveObjects:
    """The objects of a cluster, as on the wire; `unread` has the reason for each kind that is not there, or in part.

    `version` is that of the API server; empty if it does not say.
    """

    bodies: list[Body] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    version: str = ""


def read_live(kubectl: Kubectl, demand: Demand, namespace: str, others: Sequence[str] = ()) -> LiveObjects:
    """Return the objects that a question needs. `namespace` is the one asked about, empty for all.

    What is read of that one alone is read of some `others` as well. Raises ReadingError if the server cannot be read,
    or a required kind may not be.
    """
    kinds = list(dict.fromkeys((*demand.cluster, *demand.namespaced)))
    asked = [(name, namespace) for name in kinds]
    asked += [(name, each) for each in others if namespace for name in demand.namespaced]
    found = LiveObjects()
    with ThreadPoolExecutor(len(kinds) + 1) as pool:
        version = pool.submit(_read_version, kubectl)
        answers = list(pool.map(lambda each: _read_kind(kubectl, KINDS[each[0]], demand, each[1]), asked))
    found.version = version.result()
    for (name, _), (bodies, reason) in zip(asked, answers, strict=True):
        found.bodies += bodies or ()
        if reason:
            found.unread[name] = reason
    known = {name for name, (bodies, _) in zip(kinds, answers, strict=False) if bodies is not None}
    check_required(demand, {kind: why for kind, why in found.unread.items() if kind not in known})
    return found


def _read_version(kubectl: Kubectl) -> str:
    """Return the version of the API server, as `v1.38.0`; empty if it does not say."""
    try:
        answer = kubectl.get("/version")
    except RefusedError:
        return ""
    return str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""


def read_workload(kubectl: Kubectl, known: "KnownWorkload", namespace: str, name: str) -> list[Body]:
    """Return a workload and what may stand between it and its pods in its namespace, as far as permitted."""
    from dra_operator.pods.workloads import KNOWN_WORKLOADS

    found: list[Body] = []
    between = [each for each in KNOWN_WORKLOADS.values() if each.kind in known.between]
    for each in (known, *between):
        for version in each.versions:
            base = f"/apis/{each.group}/{version}" if each.group else f"/api/{version}"
            path = f"{base}/namespaces/{namespace}/{each.plural}{f'/{name}' if each is known else ''}"
            try:
                answer = kubectl.get(path)
            except RefusedError:
                continue
            items = [answer] if each is known else items_of(path, answer)
            api_version = f"{each.group}/{version}" if each.group else version
            found += [_trimmed({"apiVersion": api_version, "kind": each.kind, **item}) for item in items]
            break
    return found


def check_required(demand: Demand, missing: Mapping[str, str]) -> None:
    """Raise ReadingError if kinds are missing, each with the reason, without which a question has no answer."""
    if required := {kind: missing[kind] for kind in demand.required if kind in missing}:
        raise ReadingError("; ".join(missing_rights(required)))


def _read_kind(kubectl: Kubectl, kind: Kind, demand: Demand, namespace: str) -> tuple[list[Body] | None, str]:
    """Return the objects of a kind, None if they may not be read, and why there are not all."""
    is_own = kind.namespaced and kind.kind not in demand.cluster
    scopes = [namespace] if is_own else ["", namespace] if kind.namespaced else [""]
    reason = ""
    for scope in dict.fromkeys(scopes):
        try:
            bodies = _list_newest(kubectl, kind, scope)
        except RefusedError as error:
            if error.reason != _FORBIDDEN:
                raise ReadingError(str(error)) from error
            where = f' in namespace "{scope}"' if scope else " in all namespaces" if kind.namespaced else ""
            reason = f"{_NOT_PERMITTED}{_resource(kind)}{where}"
            continue
        return bodies, f'{reason}: only those of "{scope}" are known' if reason else ""
    return None, reason


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _list_newest(kubectl: Kubectl, kind: Kind, scope: str) -> list[Body]:
    """Return the objects of a kind, in the newest version that is served; nothing of a kind that need not be there."""
    for version, path in _paths(kind, scope):
        try:
            items = items_of(path, kubectl.get(path))
        except RefusedError as error:
            if error.reason != _NOT_FOUND:
                raise
            continue
        api_version = kind.api_version(version)
        return [_trimmed({"apiVersion": api_version, "kind": kind.kind, **item}) for item in items]
    if kind.kind in _OPTIONAL:
        return []
    if kind.group == RESOURCE_GROUP:
        raise ReadingError(
            f"the API server does not serve {kind.plural} of {RESOURCE_GROUP} ({', '.join(kind.versions)}): "
            "Dynamic Resource Allocation needs Kubernetes 1.34, or the API turned on"
        )
    raise ReadingError(f"the server is no Kubernetes API server: it has no {kind.plural}")


def _paths(kind: Kind, scope: str) -> Iterator[tuple[str, str]]:
    """Yield each version of a kind with the path of its objects, of a namespace if one is given."""
    for version in kind.versions:
        base = f"/apis/{kind.api_version(version)}" if kind.group else f"/api/{version}"
        path = f"{base}/namespaces/{scope}/{kind.plural}" if scope else f"{base}/{kind.plural}"
        # Each node has a Lease: that of the operator is asked for by its name.
        yield version, f"{path}?fieldSelector=metadata.name%3D{LEASE_NAME}" if kind is LEASE else path


def _trimmed(body: Body) -> Body:
    """Drop what is long and says nothing; of managed fields keep who wrote a claim's status: an audit asks for it."""
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        kept = trim_managed_fields(body) if body["kind"] == "ResourceClaim" else None
        metadata.pop("managedFields", None)
        if kept:
            metadata["managedFields"] = kept
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(_LAST_APPLIED, None)
    return body


def read_names(kubectl: Kubectl, kind: Kind, namespace: str) -> Iterable[str]:
    """Return the names of a kind, the first of very many; for completion. Raises RefusedError, ReadingError."""
    for _, path in _paths(kind, namespace if kind.namespaced else ""):
        try:
            items = items_of(path, kubectl.get(f"{path}?limit={_MOST_NAMES}"))
        except RefusedError as error:
            if error.reason == _NOT_FOUND:
                continue
            raise
        return [item["metadata"]["name"] for item in items]
    return ()


def missing_rights(unread: Mapping[str, str]) -> Sequence[str]:
    """Return lines that name the rights that are missing; kinds that miss the same one are in one line.

    The first that a ClusterRole would give says which.
    """
    groups: dict[str, list[str]] = {}
    for reason in dict.fromkeys(unread.values()):
        if not reason.startswith(_NOT_PERMITTED):
            continue
        resource, _, where = reason.removeprefix(_NOT_PERMITTED).partition(" ")
        groups.setdefault(where, []).append(resource)
    lines, is_said = [], False
    for where, found in groups.items():
        line = f"{_NOT_PERMITTED}{', '.join(found)} {where}".rstrip()
        if not is_said and any(resource.partition(".")[0] in _OF_READER for resource in found):
            line, is_said = f"{line}: {_READER}", True
        lines.append(line)
    return lines
