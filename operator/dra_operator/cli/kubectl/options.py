"""The options that all verbs share, as kubectl has them, and what they mean together."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from dra_operator.api.versions import FOLLOWED, Version

# --- Completion: what can follow on the command line, with the names of objects in the cluster.
# kubectl calls `kubectl_complete-dra` with the words so far, the last of which is incomplete, and reads lines `WORD`
# or `WORD<tab>HELP`, the last of which is cobra's directive. Source:
# k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go; github.com/spf13/cobra/completions.go.


NO_FILES: Final = 4
"""Directive: the words are all there is, no file is meant."""
FILES: Final = 0
_SECONDS: Final = 2.0
"""How long the server may take; somebody waits at the keyboard."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def print_completions(words: list[str]) -> None:
    """Print what the last of some words can become."""
    from dra_operator.cli.kubectl.commands import app

    *before, incomplete = words or [""]
    found = ShellComplete(app, {}, "kubectl dra", "").get_completions(before, incomplete)
    directive = FILES if any(item.type in ("file", "dir") for item in found) else NO_FILES
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else str(item.value))
    click.echo(f":{directive}")


def complete_names(kind: str) -> Complete:
    """Return what completes the names of a kind."""
    return complete_subjects({"": kind})


def complete_subjects(kinds: dict[str, str]) -> Complete:
    """Return what completes a prefix and the name of an object of its kind; nothing where the cluster is silent.

    A prefix without a kind is completed alone.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
        found: list[CompletionItem] = []
        for prefix, kind in kinds.items():
            if prefix and not (kind and incomplete.startswith(prefix)):
                if prefix.startswith(incomplete):
                    found.append(CompletionItem(prefix))
                continue
            found += [
                CompletionItem(f"{prefix}{name}")
                for name in _names(ctx, kind)
                if f"{prefix}{name}".startswith(incomplete)
            ]
        return found

    return complete


def complete_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the contexts of the kubeconfig that begin so."""
    from dra_operator.cli.kubectl.requests import ReadingError, connect

    try:
        names = connect(_options(ctx)).contexts()
    except ReadingError:
        names = []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _options(ctx: click.Context) -> "Options":
    names = ("kubeconfig", "context", "as_user", "as_groups", "as_uid")
    return Options(**{name: value for name in names if (value := ctx.params.get(name))}, timeout=_SECONDS)


def _names(ctx: click.Context, kind: str) -> Iterable[str]:
    from dra_operator.api.kinds import KINDS
    from dra_operator.cli.kubectl.reading import read_names
    from dra_operator.cli.kubectl.requests import ReadingError, RefusedError, connect

    given = ctx.params
    try:
        kubectl = connect(_options(ctx))
        namespace = KINDS[kind].namespaced and (given.get("namespace") or kubectl.context().namespace)
        return sorted(read_names(kubectl, KINDS[kind], namespace or ""))
    except (ReadingError, RefusedError):
        # What goes wrong would stand in the middle of the line that is being written.
        return ()


# --- Options that verbs share.


WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
SARIF: Final = "sarif"
"""Findings for code scanning: the Static Analysis Results Interchange Format."""
REQUEST_SECONDS: Final = 30.0
"""How long an exchange may take; kubectl waits for ever."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked: which cluster, as whom (`as_user` and so on), which namespace, and how the answer is printed.

    `kubernetes` is the version by whose rules files are asked, `at` the time of which the record `history` is.
    `namespace` is empty if none was named: then it is that of the context. `format` is None for a table;
    `has_wide` says whether it can be `wide`. `subject` is what is asked about, which may be a file.
    """

    kubeconfig: str = ""
    context: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    as_uid: str = ""
    timeout: float | None = REQUEST_SECONDS
    namespace: str = ""
    all_namespaces: bool = False
    files: tuple[str, ...] = ()
    snapshot: str = ""
    history: str = ""
    at: str = ""
    offline: bool = False
    kubernetes: Version | None = None
    labels: str = ""
    format: str | None = None
    headers: bool = True
    has_wide: bool = False
    subject: str = ""


NAMESPACE_OF_CLAIMS: Final = (
    "Where not all claims may be read: those of this namespace; of the context's if left out."
)
"""What `-n` is for where devices of the whole cluster are asked about."""


def option(*names: str, **settings: Any) -> click.Option:
    """Return an option; one without a type or a default is a text, empty if it is neither given nor `required`."""
    if not settings.keys() & {"type", "default", "is_flag", "multiple", "required"}:
        settings["default"] = ""
    return click.Option(list(names), **settings)


def shared(formats: Sequence[str], labels: str = "", namespace: str = "") -> list[click.Parameter]:
    """Return the options that all verbs share.

    `labels` says what `-l` selects, if it is there; `formats` are those beside the table, `json` and `yaml`.
    `namespace` says what `-n` is for where it is not for what is named or listed; then there is no `-A`.
    """
    of_namespace = namespace or "Namespace; that of the context if left out."
    found: list[click.Parameter] = [
        option(
            *("-n", "--namespace"),
            metavar="NAME",
            shell_complete=complete_names("Namespace"),
            help=of_namespace,
        )
    ]
    if not namespace:
        found.append(option("-A", "--all-namespaces", is_flag=True, help="All namespaces."))
    if labels:
        found.append(option("-l", "--selector", "labels", metavar="LABELS", help=labels))
    return [*found, *_source(), *output(formats), *connection()]


def record_options(*, required: bool = True) -> list[click.Parameter]:
    """Return the options of verbs that ask a record about a span of time."""
    since = "From when on: a time, or how long ago."
    history = "The record that is asked."
    return [
        option("--history", "url", metavar="URL", required=required, help=history),
        option("--since", metavar="TIME", default="30d", show_default=True, help=since),
        option("--until", metavar="TIME", help="Up to when; the end of the record if left out."),
    ]


def _source() -> list[click.Parameter]:
    files = "Manifests that lie over the objects of the cluster; - is stdin. May be repeated."
    return [
        option("-f", "--filename", "files", metavar="FILE_OR_DIR", multiple=True, help=files),
        option("--offline", is_flag=True, help="Ask what is in the files of -f, and no cluster."),
        option(
            "--kubernetes",
            type=click.Choice(FOLLOWED),
            help="With --offline or --snapshot: the version whose rules decide; 1.37, or that of the snapshot, if left "
            "out.",
        ),
        option("--snapshot", metavar="FILE", help="Ask a file of `dra-operator snapshot`, and no cluster."),
        option("--history", metavar="URL", help="Ask a record of `kubectl dra record`, and no cluster."),
        option(
            "--at",
            metavar="TIME",
            help="With --history: as of a time, or as long ago as 3h; now if left out.",
        ),
    ]


def output(formats: Sequence[str]) -> list[click.Parameter]:
    """Return the options of how an answer is printed: formats beside the table, `json` and `yaml`."""
    choice = click.Choice([*formats, JSON, YAML])
    return [
        option("-o", "--output", "format", type=choice, help="Output format; a table if left out."),
        option("--no-headers", is_flag=True, help="No line of column names."),
    ]


def connection() -> list[click.Parameter]:
    """Return the options that say which cluster is asked, and as whom."""
    timeout = "How long the server may take for an answer, as 10s or 2m; 0 is for ever."
    return [
        option("--kubeconfig", metavar="FILE", help="Kubeconfig file, as for kubectl."),
        option(
            "--context", metavar="NAME", shell_complete=complete_contexts, help="Context of the kubeconfig."
        ),
        option("--as", "as_user", metavar="USER", help="User to ask as."),
        option(
            "--as-group", "as_groups", metavar="GROUP", multiple=True, help="As a group. May be repeated."
        ),
        option("--as-uid", metavar="UID", help="UID to ask as."),
        option(
            *("--request-timeout", "timeout"),
            metavar="DURATION",
            default=f"{REQUEST_SECONDS:g}s",
            show_default=True,
            callback=_read_timeout,
            help=timeout,
        ),
    ]


def take_options(given: dict[str, Any], *, has_wide: bool) -> Options:
    """Return the shared options, and leave those of the verb in `given`. Raises UsageError."""
    names = {each.name for each in fields(Options)} - {"subject"}
    found = {name: given.pop(name) for name in names & given.keys()}
    options = Options(**found, headers=not given.pop("no_headers"), has_wide=has_wide)
    if options.namespace and options.all_namespaces:
        raise click.UsageError("-n names one namespace, and -A all of them: leave one out")
    if "" in options.files:
        raise click.UsageError(
            "-f: an empty path names no file; it may come from a variable that the shell does not know"
        )
    if options.kubernetes and not (options.offline or options.snapshot):
        raise click.UsageError(
            "--kubernetes is for --offline and --snapshot: a cluster says its version itself"
        )
    if options.at and not options.history:
        raise click.UsageError("--at asks a record: name it with --history")
    if options.history and (options.snapshot or options.offline):
        raise click.UsageError("--history asks a record: leave out --snapshot and --offline")
    if options.offline and (options.snapshot or not options.files):
        raise click.UsageError("--offline asks the files of -f: name them, and no snapshot")
    return options


def _read_timeout(ctx: click.Context, param: click.Parameter, value: str) -> float | None:  # noqa: ARG001 - click's
    seconds = read_seconds(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is no duration: write 10s, 2m or a number of seconds")
    return seconds or None


def read_seconds(text: str) -> float | None:
    """Return the seconds of a duration as Go writes it, or of a plain number; None for anything else."""
    try:
        return abs(float(text))
    except ValueError:
        pass
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def use_colours() -> bool:
    """Return whether stdout is a terminal that shows colours."""
    import sys

    return (
        sys.stdout is not None
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
