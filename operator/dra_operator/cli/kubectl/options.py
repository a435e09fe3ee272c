"""The options that all verbs share, as kubectl has them, and what they mean together."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
REQUEST_SECONDS: Final = 30.0
"""How long an exchange may take; kubectl waits for ever."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Impersonation:
    """As whom to ask instead, as kubectl's --as, --as-group and --as-uid have it."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked: which cluster, as whom, which namespace, and how the answer is printed.

    `namespace` is empty if none was named: then it is that of the context. `format` is empty for a table;
    `has_wide` says whether it can be `wide`.
    """

    kubeconfig: str = ""
    context: str = ""
    impersonation: Impersonation = field(default_factory=Impersonation)
    timeout: float | None = REQUEST_SECONDS
    namespace: str = ""
    all_namespaces: bool = False
    files: tuple[str, ...] = ()
    snapshot: str = ""
    labels: str = ""
    format: str = ""
    headers: bool = True
    has_wide: bool = False


NAMESPACE_OF_CLAIMS: Final = (
    "Where not all claims may be read: those of this namespace; of the context's if left out."
)
"""What `-n` is for where devices of the whole cluster are asked about."""


def shared(*formats: str, labels: str = "", namespace: str = "") -> Callable[[_Command], _Command]:
    """Return a decorator that gives a command the shared options, as `options: Options`.

    `labels` says what `-l` selects, if it is there; `formats` are those beside the table, `json` and `yaml`.
    `namespace` says what `-n` is for where it is not for what is named or listed; then there is no `-A`.
    """
    choices = [*formats, JSON, YAML]

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def with_options(**given: Any) -> Any:
            return command(options=_options(given, has_wide=WIDE in formats), **given)

        decorated: Any = with_options
        for option in reversed(_declare(choices, labels, namespace)):
            decorated = option(decorated)
        return cast("_Command", decorated)

    return decorate


def _declare(
    formats: Sequence[str],
    labels: str,
    namespace: str,
) -> list[Callable[[Any], Any]]:
    found = [
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            default="",
            help=namespace or "Namespace; that of the context if left out.",
        ),
    ]
    if not namespace:
        found.append(click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces."))
    found += [
        click.option(
            "-f",
            "--filename",
            "files",
            metavar="FILE_OR_DIR",
            multiple=True,
            help="Manifests that lie over the objects of the cluster; - is stdin. May be repeated.",
        ),
        click.option(
            "--snapshot",
            metavar="FILE",
            default="",
            help="Ask a file that `dra-operator snapshot` wrote, and no cluster.",
        ),
        click.option(
            "-o",
            "--output",
            "format_",
            type=click.Choice(formats),
            default=None,
            help="Output format; a table if left out.",
        ),
        click.option("--no-headers", is_flag=True, help="No line of column names."),
    ]
    if labels:
        found.append(click.option("-l", "--selector", "labels", metavar="LABELS", default="", help=labels))
    return found + _connection()


def _connection() -> list[Callable[[Any], Any]]:
    return [
        click.option("--kubeconfig", metavar="FILE", default="", help="Kubeconfig file, as for kubectl."),
        click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig."),
        click.option("--as", "as_user", metavar="USER", default="", help="User to ask as."),
        click.option(
            "--as-group",
            "as_groups",
            metavar="GROUP",
            multiple=True,
            help="Group to ask as. May be repeated.",
        ),
        click.option("--as-uid", "as_uid", metavar="UID", default="", help="UID to ask as."),
        click.option(
            "--request-timeout",
            metavar="DURATION",
            default=f"{REQUEST_SECONDS:g}s",
            show_default=True,
            callback=_read_timeout,
            help="How long the server may take for an answer, as 10s or 2m; 0 is for ever.",
        ),
    ]


def _options(given: dict[str, Any], *, has_wide: bool) -> Options:
    """Return the shared options, and leave those of the command in `given`."""
    options = Options(
        kubeconfig=given.pop("kubeconfig"),
        context=given.pop("context"),
        impersonation=Impersonation(given.pop("as_user"), given.pop("as_groups"), given.pop("as_uid")),
        timeout=given.pop("request_timeout"),
        namespace=given.pop("namespace"),
        all_namespaces=given.pop("all_namespaces", False),
        files=given.pop("files"),
        snapshot=given.pop("snapshot"),
        labels=given.pop("labels", ""),
        format=given.pop("format_") or "",
        headers=not given.pop("no_headers"),
        has_wide=has_wide,
    )
    if options.namespace and options.all_namespaces:
        raise click.UsageError("-n names one namespace, and -A all of them: leave one out")
    if "" in options.files:
        raise click.UsageError(
            "-f: an empty path names no file; it may come from a variable that the shell does not know"
        )
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
