"""Reading a cluster with the rights of the user: which objects there are, and which kinds could not be read.

Kinds are read side by side, each page by page. A kind that may not be listed in all namespaces is listed in the one
that is asked about; what stays unread is named once, with the right that is missing. Half a list is an error.
"""

import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self

from dra_operator.api.kinds import KINDS, RESOURCE_GROUP, Kind
from dra_operator.cli.kubectl.client import ATTEMPTS, ApiClient
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.errors import ReadingError, RefusedError, RequestError
from dra_operator.questions.managers import trim_managed_fields

_OPTIONAL: Final = frozenset(("DeviceTaintRule", "PersistentVolume", "PersistentVolumeClaim", "PodGroup"))
"""Kinds that some clusters do not serve: then there are none."""
_NOT_PERMITTED: Final = "not permitted to list "
_MOST_AT_ONCE: Final = 4
PROGRESS_SECONDS: Final = 1.0
"""After how long it is said what is being read, and how often again."""
_DROPPED_OF_CONTAINERS: Final = (
    *(
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
    ),
    *(
        "securityContext",
        "startupProbe",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "volumeMounts",
    ),
)
_OF_READER: Final = frozenset(("resourceslices", "deviceclasses", "devicetaintrules", "nodes"))
"""What the ClusterRole `dra-reader` of manifests/components/reader gives; what holds devices it does not."""
_READER: Final = "ClusterRole dra-reader has it (manifests/components/reader)"
_MOST_NAMES: Final = 5000
"""So many names are offered at most."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ListedKind:
    """Where a kind was listed, and the version of the list, from which a watch goes on."""

    path: str
    version: str
    api_version: str
    kind: str


@dataclass(slots=True)
class LiveObjects:
    """The objects of a cluster, as on the wire; `unread` has the reason for each kind that is not there, or in part."""

    bodies: list[Body] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    listed: list[ListedKind] = field(default_factory=list)


class Progress:
    """Says at the terminal what is being read, once that takes longer than a second. Use it in a `with` block."""

    def __init__(self, write: Callable[[str], None], *, is_terminal: bool) -> None:
        self._write = write
        self._is_terminal = is_terminal
        self._counts: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def report(self, plural: str, read: int, total: int) -> None:
        """Say how many objects of a kind were read, of how many."""
        with self._lock:
            self._counts[plural] = (read, total)

    def _run(self) -> None:
        is_shown = False
        while not self._done.wait(PROGRESS_SECONDS):
            if is_shown and not self._is_terminal:
                continue
            with self._lock:
                counts = [
                    (name, read, total)
                    for name, (read, total) in self._counts.items()
                    if read < total or not total
                ]
            parts = [f"{name} {read:,} of {total:,}" if total else name for name, read, total in counts]
            text = f"reading {', '.join(parts) or 'the cluster'} ..."
            # At a terminal the line is written over, and gone at the end.
            self._write(
                f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K"
                if self._is_terminal
                else f"{text}\n"
            )
            is_shown = True
        if is_shown and self._is_terminal:
            self._write("\r\x1b[K")


def terminal_progress() -> Progress:
    """Return what says on stderr how far reading is."""

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    return Progress(write, is_terminal=sys.stderr.isatty())


def read_live(client: ApiClient, demand: Demand, namespace: str, progress: Progress) -> LiveObjects:
    """Return the objects that a question needs. `namespace` is the one asked about.

    Raises ReadingError if the server cannot be read, or a required kind may not be.
    """
    kinds = list(dict.fromkeys((*demand.cluster, *demand.namespaced)))
    found = LiveObjects()

    def read(name: str) -> tuple[list[Body], str, ListedKind | None]:
        try:
            return _read_kind(client, KINDS[name], demand, namespace, progress)
        finally:
            client.close()

    # Large kinds first, as they take longest.
    with ThreadPoolExecutor(min(len(kinds), _MOST_AT_ONCE)) as pool:
        answers = list(pool.map(read, kinds))
    for name, (bodies, reason, listed) in zip(kinds, answers, strict=True):
        found.bodies += bodies
        if listed is not None:
            found.listed.append(listed)
        if reason:
            found.unread[name] = reason
    known_in_part = {each.kind for each in found.listed}
    check_required(demand, {kind: why for kind, why in found.unread.items() if kind not in known_in_part})
    return found


def check_required(demand: Demand, missing: Mapping[str, str]) -> None:
    """Raise ReadingError if kinds are missing, each with the reason, without which a question has no answer."""
    if required := {kind: missing[kind] for kind in demand.required if kind in missing}:
        raise ReadingError("; ".join(missing_rights(required)))


def _read_kind(
    client: ApiClient, kind: Kind, demand: Demand, namespace: str, progress: Progress
) -> tuple[list[Body], str, ListedKind | None]:
    """Return the objects of a kind, why there are not all, and where they were listed."""
    is_own = kind.namespaced and kind.kind not in demand.cluster
    scopes = [namespace] if is_own else ["", namespace] if kind.namespaced else [""]
    reason = ""
    for scope in dict.fromkeys(scopes):
        try:
            bodies, listed = _list_newest(client, kind, scope, progress)
        except RefusedError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise ReadingError(_words(error)) from error
            where = f' in namespace "{scope}"' if scope else " in all namespaces" if kind.namespaced else ""
            reason = f"{_NOT_PERMITTED}{_resource(kind)}{where}"
            continue
        except RequestError as error:
            raise ReadingError(str(error)) from error
        return bodies, f'{reason}: only those of "{scope}" are known' if reason else "", listed
    return [], reason, None


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _words(error: RefusedError) -> str:
    return error.message


def _list_newest(
    client: ApiClient, kind: Kind, scope: str, progress: Progress
) -> tuple[list[Body], ListedKind | None]:
    """Return the objects of a kind, in the newest version that is served; nothing of a kind that need not be there."""
    for version in kind.versions:
        api_version = kind.api_version(version)
        base = f"/apis/{api_version}" if kind.group else f"/api/{version}"
        path = f"{base}/namespaces/{scope}/{kind.plural}" if scope else f"{base}/{kind.plural}"
        try:
            bodies, listed_version = _list(client, path, kind, api_version, progress)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            if not kind.group and kind.kind not in _OPTIONAL:
                raise ReadingError(
                    f"{client.access.server}: is no Kubernetes API server: it has no {path}"
                ) from error
            continue
        return bodies, ListedKind(path, listed_version, api_version, kind.kind)
    if kind.kind in _OPTIONAL:
        return [], None
    if kind.group == RESOURCE_GROUP:
        raise ReadingError(
            f"{client.access.server}: does not serve {kind.plural} of {RESOURCE_GROUP} "
            f"({', '.join(kind.versions)}): Dynamic Resource Allocation needs Kubernetes 1.34, or the API turned on"
        )
    return [], None


def _list(
    client: ApiClient, path: str, kind: Kind, api_version: str, progress: Progress
) -> tuple[list[Body], str]:
    trim = _TRIM.get(kind.kind, _trimmed)
    for attempt in range(1, ATTEMPTS + 1):
        found: list[Body] = []
        version = ""
        progress.report(kind.plural, 0, 0)
        try:
            for items, remaining, page_version in client.pages(path):
                version = page_version
                found += [trim({"apiVersion": api_version, "kind": kind.kind, **item}) for item in items]
                progress.report(kind.plural, len(found), len(found) + remaining)
        except RefusedError as error:
            # The server has forgotten the list in the middle.
            if error.status != HTTPStatus.GONE or attempt == ATTEMPTS:
                raise
        else:
            return found, version
    raise AssertionError("the last attempt returns or raises")


def trim(body: Body) -> Body:
    """Return an object without what no question needs, as large clusters would not fit into memory."""
    return _TRIM.get(str(body.get("kind")), _trimmed)(body)


def _trimmed(body: Body) -> Body:
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(_LAST_APPLIED, None)
    return body


def _trimmed_pod(body: Body) -> Body:
    spec = body.get("spec")
    lists = (spec.get("containers"), spec.get("initContainers")) if isinstance(spec, dict) else ()
    for containers in lists:
        for container in containers or ():
            for dropped in _DROPPED_OF_CONTAINERS:
                container.pop(dropped, None)
    return _trimmed(body)


def _trimmed_node(body: Body) -> Body:
    status = body.get("status")
    if isinstance(status, dict):
        for dropped in ("images", "volumesAttached", "volumesInUse", "addresses", "daemonEndpoints"):
            status.pop(dropped, None)
    return _trimmed(body)


def _trimmed_claim(body: Body) -> Body:
    """Keep who wrote the status, and when: an audit asks who allocated a claim."""
    kept = trim_managed_fields(body)
    _trimmed(body)
    if kept:
        body["metadata"]["managedFields"] = kept
    return body


_TRIM: Final[Mapping[str, Callable[[Body], Body]]] = {
    "Pod": _trimmed_pod,
    "Node": _trimmed_node,
    "ResourceClaim": _trimmed_claim,
}


def read_names(client: ApiClient, kind: Kind, namespace: str) -> Iterable[str]:
    """Return the names of a kind, of one page, as fast as can be; for completion. Raises RefusedError, RequestError."""
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
    for version in kind.versions:
        base = f"/apis/{kind.api_version(version)}" if kind.group else f"/api/{version}"
        path = (
            f"{base}/namespaces/{namespace}/{kind.plural}"
            if kind.namespaced and namespace
            else f"{base}/{kind.plural}"
        )
        try:
            items, _, _ = next(client.pages(path, {"limit": str(_MOST_NAMES)}, accept))
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
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
