"""A verb: what it reads, its options, its question, and how the answer is printed.

`verb` declares one; called, it reads what it demands, asks, prints the answer in the format that was asked for, and
ends by it. Documents are dataclasses, keys in camelCase; what is empty is left out, as in the Kubernetes API.
Source: docs/kubectl-dra.schema.json.
"""

import inspect
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click

from dra_operator.api.kinds import OWN_KINDS, POLICIES
from dra_operator.cli.kubectl.options import (
    JSON,
    NAME,
    SARIF,
    WIDE,
    YAML,
    Options,
    shared,
    take_options,
    use_colours,
)
from dra_operator.cli.kubectl.requests import ReadingError, RefusedError
from dra_operator.cli.kubectl.tables import Style, is_cut, wrapped
from dra_operator.questions.answers import Conclusion, KindsRead, QuestionError, UnknownObjectError

if TYPE_CHECKING:
    from dra_operator.pods.objects import ObjectRecord
    from dra_operator.questions.state import ClusterState

API_VERSION: Final = "kubectl.dra-operator.io/v1"
LISTS: Final = {
    "Audit": "findings",
    "CheckReport": "differences",
    "Gang": "pods",
    "HistoryReport": "rows",
    "Holders": "holders",
    "Impact": "claims",
    "Lint": "findings",
    "PastHeadroom": "hours",
    "ReplayReport": "rows",
    "Usage": "rows",
}
"""The fields that hold the list of a kind, which documents call `items`."""
YES: Final = 0
NO: Final = 1
CANNOT_SAY: Final = 2
CODES: Final = {Conclusion.YES: YES, Conclusion.NO: NO, Conclusion.CANNOT_SAY: CANNOT_SAY}
"""The exit codes, by what an answer comes to."""
_MOST_WARNINGS: Final = 10
_MANY: Final = 200
"""So many lines of a table can be read at a terminal."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a question has to read: kinds of the whole cluster, and kinds of the namespace that is asked about alone.

    Without those `required` there is no answer; without the others there is one with a restriction. `engine` is the
    module that answers, which is imported while the server does its part. `reads_on`: what of files cannot be read is
    part of the answer.
    """

    cluster: tuple[str, ...] = ()
    namespaced: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    engine: str = "dra_operator.questions.state"
    reads_on: bool = False

    @property
    def kinds(self) -> AbstractSet[str]:
        """The kinds that are read."""
        return {*self.cluster, *self.namespaced}

    @classmethod
    def for_question(cls, *questions: KindsRead, required: tuple[str, ...], engine: str) -> Self:
        """Return what the answers to some questions depend on."""
        cluster = dict.fromkeys(kind for each in questions for kind in each.kinds)
        named = dict.fromkeys(kind for each in questions for kind in each.named)
        return cls(
            tuple(sorted(cluster, key=_LARGEST_FIRST.index)),
            tuple([kind for kind in named if kind not in cluster]),
            required,
            engine,
        )


_LARGEST_FIRST = (
    *("Pod", "ResourceSlice", "ResourceClaim", "Node", "DeviceClass", "DeviceTaintRule", "Namespace"),
    *("PersistentVolume", "PersistentVolumeClaim", "ResourceClaimTemplate", "PodGroup", "ResourceQuota"),
    "PriorityClass",
    "Lease",
    *(kind.kind for kind in (*POLICIES, *OWN_KINDS)),
)
"""The kinds, those first that take longest to read."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a verb answers: a cluster that was read, and the namespace asked about (empty: all).

    `given` are the objects of files that lie over those of the cluster, `problems` what cannot be read of them.
    `notes` are lines that every answer goes with.
    """

    cluster: "ClusterState"
    namespace: str
    options: Options
    given: "tuple[ObjectRecord, ...]" = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def style(self) -> Style:
        """How tables are printed."""
        return style_of(self.options)

    @property
    def own_namespace(self) -> str:
        """The namespace of objects that are named without one."""
        return self.namespace or "default"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: `kind` and `report` for documents, `lines` for people, and the exit code.

    `names` are for `-o name`, `results` for `-o sarif`. `asides` go to stderr: what restricts the answer, and what to
    do next. `missing` are the kinds that may not be read and that the answer lacks; None: all that may not be read.
    `many` is what is said where a terminal shows too many lines.
    """

    kind: str
    report: Any
    lines: Sequence[str]
    code: int = YES
    names: Sequence[str] = ()
    asides: Sequence[str] = field(default=())
    results: Sequence[Mapping[str, Any]] = ()
    many: str = ""
    missing: Collection[str] | None = None


def verb(
    name: str,
    demand: Demand,
    *params: click.Parameter,
    formats: Sequence[str] = (WIDE, NAME),
    labels: str = "",
    namespace: str = "",
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Return a decorator that makes a verb of a question and its `params`, which it is asked with.

    The docstring of the question is what `--help` says. The others are for `options.shared`.
    """

    def decorate(ask: Callable[..., Answer]) -> click.Command:
        def call(**given: Any) -> None:
            options = take_options(given, has_wide=WIDE in formats)
            if isinstance(subject := given.get("subject"), str):
                options = replace(options, subject=subject)
            run(options, demand, lambda question: ask(question, **given))

        params_of_all = shared(formats, labels, namespace)
        return click.Command(name, callback=call, params=[*params, *params_of_all], help=inspect.getdoc(ask))

    return decorate


def run(options: Options, demand: Demand, ask: Callable[[Question], Answer]) -> None:
    """Answer a question, print the answer and end the process by it."""
    from dra_operator.cli.kubectl.reading import missing_rights
    from dra_operator.cli.kubectl.source import read_source

    with refusing():
        question = read_source(options, demand)
        check_namespace(question.cluster, options.namespace)
        answer = ask(question)
    show(answer, options)
    say(f"warning: {line}" for line in cut_lines(question.cluster.errors))
    is_short = not options.format and sys.stdout.isatty() and is_cut(answer.lines)
    rest = (
        [f"{'-o wide' if options.has_wide else 'a wider terminal'} shows what is left out"]
        if is_short
        else []
    )
    if answer.many and not options.format and sys.stdout.isatty() and len(answer.lines) > _MANY:
        rest.append(answer.many)
    unread = question.cluster.unread
    if answer.missing is not None:
        unread = {kind: why for kind, why in unread.items() if kind in answer.missing}
    notes = [*question.notes, *missing_rights(unread), *answer.asides, *rest]
    say(f"note: {line}" for line in notes)
    sys.stdout.flush()
    raise SystemExit(answer.code)


def partial_lines(report: Any) -> list[str]:
    """Return what an answer takes for granted, and what it lacks, in one line; missing rights are told beside it."""
    kinds, others = list[str](), list[str]()
    for line in report.partial:
        kind, _, why = line.partition(" cannot be read: ")
        if why.startswith("not permitted"):
            kinds.append(kind)
        else:
            others.append(line)
    lacking = [*([f"{', '.join(kinds)} cannot be read in full"] if kinds else []), *others]
    partial = [f"this cannot be said for certain: {'; '.join(lacking)}"] if lacking else []
    return [*getattr(report, "assumed", ()), *partial]


def check_namespace(cluster: "ClusterState", namespace: str) -> None:
    """Raise UnknownObjectError for a namespace that is not there, as far as namespaces were read.

    Nothing is wrong in such a one. One that objects of files are in may be created with them.
    """
    known = {record.obj.metadata.name for record in cluster.objects.of_kind("Namespace")}
    if not namespace or not known or "Namespace" in cluster.unread or namespace in known:
        return
    if any(key[1] == namespace for key in cluster.objects.records):
        return
    from dra_operator.api.text import near_object

    near = near_object(namespace, known)
    hint = f'did you mean "{near}"?' if near else "choose another with -n"
    raise UnknownObjectError(f'there is no namespace "{namespace}": {hint}')


def style_of(options: Options) -> Style:
    """Return how the tables of an answer are printed: with `-o wide` nothing is cut, as kubectl has it."""
    is_wide = options.format == WIDE
    is_bounded = not is_wide and sys.stdout.isatty()
    width = max(shutil.get_terminal_size().columns, 20) if is_bounded else None
    return Style(width, use_colours(), is_wide, options.headers)


@contextmanager
def refusing() -> Iterator[None]:
    """End the process with 2, and lines that say why, if there is no answer."""
    try:
        yield
    except click.UsageError:
        raise
    except (
        ReadingError,
        RefusedError,
        QuestionError,
        click.ClickException,
    ) as error:
        text = error.message if isinstance(error, click.ClickException) else str(error)
        say(f"error: {line}" for line in text.splitlines())
        raise SystemExit(CANNOT_SAY) from None


def show(answer: Answer, options: Options) -> None:
    """Print an answer on stdout."""
    if options.format == JSON:
        click.echo(json_text(answer))
    elif options.format == YAML:
        click.echo(yaml_text(answer), nl=False)
    elif options.format == SARIF:
        from dra_operator.cli.kubectl.sarif import sarif_text

        click.echo(sarif_text(answer.results))
    elif options.format == NAME:
        write_lines(answer.names)
    else:
        write_lines(answer.lines)


def json_text(answer: Answer) -> str:
    """Return an answer as JSON."""
    import orjson

    return orjson.dumps(_document(answer), option=orjson.OPT_INDENT_2).decode()


def yaml_text(answer: Answer) -> str:
    """Return an answer as a document of YAML."""
    from dra_operator.questions.manifests import to_yaml

    return to_yaml(_document(answer))


def _document(answer: Answer) -> dict[str, Any]:
    listed = LISTS.get(answer.kind)
    found = {"items" if name == listed else name: value for name, value in _plain(answer.report).items()}
    return {"apiVersion": API_VERSION, "kind": answer.kind, **found}


def camel(name: str) -> str:
    """Return a field's name as in JSON: `is_at_most` is `isAtMost`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        found = {camel(each.name): _plain(getattr(value, each.name)) for each in fields(value)}
        return {name: item for name, item in found.items() if item is not None and item not in ("", [], {})}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return round(float(value), 6)
    return str(value) if isinstance(value, Decimal) else value


def write_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout, at once."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def write_page(path: str, text: str) -> None:
    """Write a page for a browser into a file. Raises ReadingError."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReadingError(f"{path}: {error.strerror or error}") from error


def say(lines: Iterable[str]) -> None:
    """Print lines on stderr."""
    style = Style(
        shutil.get_terminal_size().columns if sys.stderr is not None and sys.stderr.isatty() else None
    )
    for line in lines:
        # What is in objects may be meant for the terminal.
        for each in wrapped(line, style):
            click.echo(each, err=True)


def cut_lines(lines: Sequence[str]) -> list[str]:
    """Return the first of some lines, and how many more there are."""
    more = [f"{len(lines) - _MOST_WARNINGS:,} more of these"] if len(lines) > _MOST_WARNINGS else []
    return [*lines[:_MOST_WARNINGS], *more]
