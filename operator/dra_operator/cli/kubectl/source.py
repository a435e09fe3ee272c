"""The cluster that a verb asks: a live one, with manifests over it, or a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dra_operator.cli.kubectl.access import load_user_access
from dra_operator.cli.kubectl.client import ApiClient
from dra_operator.cli.kubectl.options import Options
from dra_operator.cli.kubectl.reading import Demand, ListedKind, ReadingError, read_live, terminal_progress

if TYPE_CHECKING:
    from dra_operator.questions.cluster import Cluster

_COMPLETE = "..."
"""The last line of a snapshot: that of YAML which ends a document."""
_TAIL_BYTES = 64


@dataclass(slots=True)
class Source:
    """A cluster that was read, and the namespace that is asked about: empty for all of them.

    `client` is None for a snapshot. `bodies` are the objects of the live cluster, if it is to be watched, and `listed`
    says from where a watch goes on.
    """

    cluster: "Cluster"
    namespace: str
    client: ApiClient | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    listed: list[ListedKind] = field(default_factory=list)


def connect(options: Options) -> ApiClient:
    """Return a client for the cluster of some options. Raises AccessError."""
    return ApiClient(
        load_user_access(options.kubeconfig, options.context, options.impersonation), options.timeout
    )


def read_source(options: Options, demand: Demand) -> Source:
    """Return what is asked, as far as it can be read. Raises AccessError, ReadingError."""
    if options.snapshot:
        check_complete(options.snapshot)
        return Source(load([options.snapshot, *options.files], {}, options), options.namespace)
    client = connect(options)
    own = options.namespace or client.access.namespace
    with terminal_progress() as progress:
        live = read_live(client, demand, "" if options.all_namespaces else own, progress)
    cluster = load([*live.bodies, *options.files], live.unread, options)
    namespace = "" if options.all_namespaces else own
    return Source(cluster, namespace, client, live.bodies if options.watch else [], live.listed)


def load(objects: list[Any], unread: Mapping[str, str], options: Options) -> "Cluster":
    """Return the state that some objects and files make. Raises ReadingError if a file cannot be read."""
    from dra_operator.questions.cluster import Cluster  # noqa: PLC0415 - `--help` needs none

    cluster = Cluster.load(objects, unread=unread)
    if (options.files or options.snapshot) and cluster.errors:
        raise ReadingError("\n".join(cluster.errors))
    return cluster


def check_complete(path: str) -> None:
    """Raise ReadingError for a snapshot that was cut: of YAML, what is left may well be read."""
    if path == "-":
        raise ReadingError(
            "--snapshot: give the file that `dra-operator snapshot` wrote; stdin is not looked at"
        )
    try:
        tail = _tail(Path(path))
    except (OSError, EOFError) as error:
        raise ReadingError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not tail.rstrip().endswith((f"\n{_COMPLETE}".encode(), b"}")):
        raise ReadingError(
            f"{path}: its last line is not `{_COMPLETE}`, with which `dra-operator snapshot` ends: the file was cut, "
            "or an older version wrote it; take it again"
        )


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(2)
        if start == b"\x1f\x8b":
            import gzip  # noqa: PLC0415 - few are packed
            import zlib  # noqa: PLC0415

            try:
                return gzip.decompress(start + file.read())[-_TAIL_BYTES:]
            except zlib.error as error:
                raise OSError(0, f"it is packed and damaged: {error}") from error
        file.seek(0, 2)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        return file.read()
