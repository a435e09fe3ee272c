"""The cluster that a verb asks: a live one, with manifests over it, a snapshot, or files alone."""

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING

import click

from dra_operator.api.kinds import POLICIES
from dra_operator.api.text import shown
from dra_operator.api.versions import RELEASED, RULES, rules_of
from dra_operator.cli.kubectl.answering import Demand, Question
from dra_operator.cli.kubectl.options import Options
from dra_operator.cli.kubectl.reading import check_required, read_live, read_workload
from dra_operator.cli.kubectl.requests import ReadingError, connect
from dra_operator.cli.kubectl.subjects import find_workload_name

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dra_operator.history.reader import Reader, Span
    from dra_operator.pods.objects import Manifest
    from dra_operator.questions.manifests import Found
    from dra_operator.questions.state import ClusterState


_LEFT_OUT = ("PersistentVolume", "PersistentVolumeClaim", *(kind.kind for kind in POLICIES))
"""What a snapshot has none of."""
_PATIENCE = 1.0
"""After so many seconds it is said what is being read."""
_MOST_NAMED = 3
_COMPLETE = "..."
"""The last line of a snapshot: that of YAML which ends a document."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def read_source(options: Options, demand: Demand) -> Question:
    """Return what is asked, as far as it can be read. Raises ReadingError."""
    question = _read(options, demand)
    # A path that is wrong is a slip on the command line.
    are_there = all(path == "-" or Path(path).exists() for path in options.files)
    if question.problems and not (demand.reads_on and are_there):
        raise ReadingError("\n".join(question.problems))
    return question


def _read(options: Options, demand: Demand) -> Question:
    if options.snapshot:
        return _read_snapshot(options, demand)
    if options.history:
        return _read_history(options, demand)
    if options.offline:
        return _read_files(options)
    kubectl = connect(options)
    context = kubectl.context()
    own = options.namespace or context.namespace
    if not _NAMESPACE.fullmatch(own):
        raise ReadingError(f"namespace {shown(own)}: is no name of a namespace: choose another with -n")
    if context.has_plugin:
        kubectl.log_in()
    # The engine takes as long to import as the server to answer.
    importing = Thread(target=import_module, args=(demand.engine,), daemon=True)
    importing.start()
    others = sorted(_find_namespaces((*options.files, options.subject)) - {own})
    # Who waits wants to know for what.
    notice = Timer(_PATIENCE, lambda: click.echo(f"reading {_named(demand.kinds)}", err=True))
    notice.daemon = True
    if sys.stderr is not None and sys.stderr.isatty():
        notice.start()
    try:
        live = read_live(kubectl, demand, "" if options.all_namespaces else own, others)
        if (asked := find_workload_name(options.subject, own)) is not None:
            live.bodies += read_workload(kubectl, *asked)
    finally:
        notice.cancel()
        # Two threads that import modules which import each other may each find one that is not complete; and a process
        # that ends while C++ is loaded is aborted.
        importing.join()
    listed = demand.kinds - live.unread.keys()
    # Of a kind that may be read in one namespace alone all objects of that are there.
    listed |= {
        f"{kind}/{own}"
        for kind, why in live.unread.items()
        if why.endswith(f'only those of "{own}" are known')
    }
    from dra_operator.questions.contents import gather_stored
    from dra_operator.questions.state import ClusterState

    contents = gather_stored(live.bodies)
    contents.listed |= listed
    cluster = ClusterState(contents, unread=live.unread, rules=rules_of(live.version))
    return _overlaid(cluster, options, own)


def _named(kinds: AbstractSet[str]) -> str:
    """Return the first of some kinds, and how many others there are, in less than a line of a terminal."""
    first, others = sorted(kinds)[:_MOST_NAMED], len(kinds) - _MOST_NAMED
    return ", ".join(first) + (f" and {others} other kinds" if others > 0 else "")


def _find_namespaces(paths: Iterable[str]) -> set[str]:
    """Return the namespaces that objects in files, or on stdin, name; what cannot be read is told later."""
    files = [path for path in paths if path == "-" or Path(path).exists()]
    if not files:
        return set()
    from dra_operator.questions.manifests import read, sort_found

    manifests, _ = sort_found(read(files))
    found = {(each.body.get("metadata") or {}).get("namespace") for each in manifests}
    return {str(each) for each in found if isinstance(each, str) and _NAMESPACE.fullmatch(each)}


def _read_files(options: Options) -> Question:
    """Return what is in files alone. Of what an API server has taken it is asked as of what is in a cluster."""
    from dra_operator.questions.load import gather
    from dra_operator.questions.state import ClusterState

    contents = gather(read_manifests(options.files, options.namespace))
    problems = tuple(contents.errors)
    contents.errors.clear()
    given = tuple(each for each in contents.records.values() if not each.obj.metadata.uid)
    namespace = "" if options.all_namespaces else options.namespace
    cluster = ClusterState(contents, rules=RULES[options.kubernetes or RELEASED])
    return Question(cluster, namespace, options, given, ("what is not in the files is not there",), problems)


def _read_snapshot(options: Options, demand: Demand) -> Question:
    from dra_operator.questions.manifests import read_header
    from dra_operator.questions.state import ClusterState

    path = options.snapshot
    check_complete(path)
    header = read_header(path)
    unread = {} if header is None else dict.fromkeys(_LEFT_OUT, "a snapshot has none")
    rules = RULES[options.kubernetes] if options.kubernetes else None
    cluster = ClusterState.load([path], unread=unread, rules=rules)
    if cluster.errors:
        raise ReadingError("\n".join(cluster.errors))
    as_of = f"{path} does not say when it was taken: ages are until now, and what is not in it is not there"
    if header is not None:
        as_of = f"as of {header.time}, when {path} was taken"
    return _recorded(cluster, options, demand, as_of)


def _read_history(options: Options, demand: Demand) -> Question:
    """Return the state of a time that a record has; the last one if none is named."""
    reader = read_record(options.history)
    from dra_operator.history.reader import build_state, time_text

    moment = reader.read_moment(read_time(options.at) if options.at else reader.span.until)
    as_of = f"as of {time_text(moment.at)}, by the record {options.history.rpartition('/')[2]}"
    return _recorded(build_state(moment), options, demand, as_of)


def _recorded(cluster: "ClusterState", options: Options, demand: Demand, as_of: str) -> Question:
    """Return the question about a cluster as it was. Raises ReadingError if a kind is missing that must be there."""
    check_required(demand, cluster.unread)
    cluster.unread = {kind: why for kind, why in cluster.unread.items() if kind in demand.kinds}
    return _overlaid(cluster, options, options.namespace, as_of)


def _overlaid(cluster: "ClusterState", options: Options, namespace: str, *notes: str) -> Question:
    """Return the question about a cluster with the objects of the files over its own."""
    asked = "" if options.all_namespaces else namespace
    if not options.files:
        return Question(cluster, asked, options, notes=notes)
    from dra_operator.questions.load import gather

    given = gather(read_manifests(options.files, namespace))
    over = cluster.overlaid(given)
    problems = tuple(given.errors or [line for line in over.errors if line not in cluster.errors])
    over.objects.errors = list(cluster.errors)
    records = tuple(over.objects.records[key] for key in given.records if key in over.objects.records)
    return Question(over, asked, options, records, notes, problems)


def read_manifests(paths: Sequence[str], namespace: str) -> "list[Found]":
    """Return what is in some files; objects that name no namespace are of one, as kubectl has it."""
    from dra_operator.questions.manifests import Unreadable, read

    return [each if isinstance(each, Unreadable) else _in_namespace(each, namespace) for each in read(paths)]


def _in_namespace(manifest: "Manifest", namespace: str) -> "Manifest":
    from dra_operator.api.kinds import KINDS

    kind = KINDS.get(str(manifest.body.get("kind")))
    metadata = manifest.body.get("metadata")
    if not namespace or not isinstance(metadata, Mapping) or metadata.get("namespace"):
        return manifest
    if kind is not None and not kind.namespaced:
        return manifest
    return replace(manifest, body={**manifest.body, "metadata": {**metadata, "namespace": namespace}})


def check_complete(path: str) -> None:
    """Raise ReadingError for a snapshot that was cut: of YAML, what is left may well be read."""
    if path == "-":
        raise ReadingError(
            "--snapshot: give the file that `dra-operator snapshot` wrote; stdin is not looked at"
        )
    from dra_operator.cli.output import opened
    from dra_operator.questions.documents import UNREADABLE, why
    from dra_operator.questions.manifests import TITLE

    try:
        with opened(Path(path), "rb") as file:
            content = file.read().strip()
    except UNREADABLE as error:
        raise ReadingError(f"{path}: {why(error)}") from error
    # Manifests, as kubectl prints them, have no such end.
    if content.startswith(TITLE.encode()) and not content.endswith(f"\n{_COMPLETE}".encode()):
        raise ReadingError(
            f"{path}: its last line is not `{_COMPLETE}`, with which `dra-operator snapshot` ends: the file was cut; "
            "take it again"
        )


# --- The record that a verb asks: how it is opened, and times and spans on the command line.


INSTALL = "a record needs SQLAlchemy: pip install 'dra-operator[history]', and [postgres] for PostgreSQL"


def open_record(url: str, *, create: bool = False) -> "Engine":
    """Return the engine of a store. Raises ReadingError, StoreError."""
    try:
        from dra_operator.history.schema import open_store
    except ModuleNotFoundError as error:
        raise ReadingError(f"{INSTALL} ({error})") from error
    return open_store(url, create=create)


def read_record(url: str) -> "Reader":
    """Return what reads a store. Raises as `open_record` does."""
    engine = open_record(url)
    from dra_operator.history.reader import Reader

    return Reader(engine)


def read_record_span(url: str, since: str, until: str) -> "tuple[Reader, Span]":
    """Return what reads a store, and what of a span of time it has. Raises ReadingError, StoreError, BadParameter."""
    reader = read_record(url)
    from dra_operator.history.reader import Span, time_text

    begin = max(read_time(since), reader.span.since)
    end = min(read_time(until), reader.span.until) if until else reader.span.until
    if begin >= end:
        raise ReadingError(f"--since {since}: the record is from {' to '.join(map(time_text, reader.span))}")
    return reader, Span(begin, end)


def read_span(text: str) -> int:
    """Return the microseconds of a duration as `7d`. Raises BadParameter."""
    from dra_operator.history.reader import parse_duration

    if (found := parse_duration(text)) is None:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 30m, 6h, 7d or 2w")
    return found


def read_time(text: str) -> int:
    """Return a time in microseconds since 1970. Raises BadParameter."""
    from dra_operator.history.reader import parse_time

    if (found := parse_time(text, round(time.time() * 1_000_000))) is None:
        raise click.BadParameter(
            f"{text!r} is no time: write it as 2026-05-01T15:00:00Z, or how long ago it is: 90s, 30m, 6h, 7d"
        )
    return found
