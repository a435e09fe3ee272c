"""`kubectl dra lint`: what is wrong with the selectors of classes, claims and templates."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, partial_lines, verb
from dra_operator.cli.kubectl.options import NAME, SARIF, WIDE, complete_subjects
from dra_operator.cli.kubectl.subjects import kubectl_name, parse_subject
from dra_operator.cli.kubectl.tables import Column, count, listing, wrapped
from dra_operator.questions.answers import LINT

if TYPE_CHECKING:
    from dra_operator.pods.objects import ObjectRecord
    from dra_operator.questions.lint import LintReport

DEMAND = replace(
    Demand.for_question(LINT, required=LINT.required, engine="dra_operator.questions.lint"), reads_on=True
)
_SUBJECTS: Final = {"class/": "DeviceClass", "claim/": "ResourceClaim", "template/": "ResourceClaimTemplate"}
_MOST_FINDINGS: Final = 50
"""So many are shown at a terminal."""
_COLOURS: Final = {"error": "red", "warning": "yellow", "note": None}
_REQUEST: Final = (
    Column("OBJECT", lambda item: " ".join([item.kind, "/".join(filter(None, (item.namespace, item.name)))])),
    Column("REQUEST", lambda item: item.request or "-"),
)
_NUMBERS: Final = (
    Column("OF", lambda item: f"{item.asked:,}", is_number=True),
    Column(
        "COST",
        lambda item: "-" if item.cost is None else f"{100 * item.cost / item.cost_limit:.1f}%",
        is_number=True,
    ),
)
_COLUMNS: Final = (
    *_REQUEST,
    Column("MATCHES", lambda item: f"{item.found:,}", is_number=True),
    *_NUMBERS,
    Column("SELECTOR", lambda item: " ".join(item.expression.split()), is_cut=True),
)
_DERIVED_COLUMNS: Final = (
    *_REQUEST,
    Column("ATTRIBUTE", lambda item: item.attribute),
    Column("VALUES", lambda item: f"{item.found:,}", is_number=True),
    *_NUMBERS,
    Column("EXPRESSION", lambda item: " ".join(item.expression.split()), is_cut=True),
)


@verb(
    "lint",
    DEMAND,
    click.Argument(
        ["subjects"],
        metavar="[class/NAME | claim/NAME | template/NAME]...",
        nargs=-1,
        shell_complete=complete_subjects(_SUBJECTS),
    ),
    formats=(WIDE, NAME, SARIF),
)
def app(question: Question, *, subjects: tuple[str, ...]) -> Answer:
    """Check selectors against the devices that are published: those that match none, fail, or name what none has.

    Derived attributes are checked on the devices that their request selects.

    Without a name those of the files of -f, or else of all classes, and of the claims and templates of the namespace.
    -o wide also shows how many devices each selector matches. Exit code 0: nothing worse than a note; 1: warnings or
    errors; 2: it cannot be said.
    """
    from dra_operator.questions.lint import describe_files, lint_objects

    are_all_asked = not subjects and not question.given
    kinds = LINT.optional if are_all_asked else ()
    report = lint_objects(question.cluster, _records(question, subjects), kinds)
    about_files = describe_files(question.problems, question.cluster.objects.replaced)
    report = replace(report, findings=(*about_files, *report.findings))
    bad = [item for item in report.findings if item.severity.value != "note"]
    return Answer(
        "Lint",
        report,
        _lines(question, report),
        CODES[report.conclusion],
        names=list(
            dict.fromkeys(kubectl_name(item.kind, item.name) for item in report.findings if item.name)
        ),
        results=[*_results(question, report)] if question.options.format == SARIF else (),
        asides=[*partial_lines(report), *_asides(report, len(bad))],
    )


def _records(question: Question, subjects: tuple[str, ...]) -> "list[ObjectRecord]":
    from dra_operator.questions.lint import find_lintable
    from dra_operator.questions.usage import unknown_object

    cluster = question.cluster
    if not subjects:
        found = find_lintable(cluster)
        if question.given:
            return [record for record in found if any(record is each for each in question.given)]
        own = ("", question.namespace)
        return [each for each in found if not question.namespace or each.obj.metadata.namespace in own]
    records = []
    for text in subjects:
        kind, name = parse_subject(text, tuple(_SUBJECTS.values()))
        namespace = "" if kind == "DeviceClass" else question.own_namespace
        record = cluster.find_record(kind, namespace, name)
        if record is None:
            if kind in cluster.unread:
                raise click.ClickException(f"{text}: {cluster.unread[kind]}")
            known = [key[2] for key in cluster.objects.records if key[:2] == (kind, namespace)]
            raise unknown_object(kind, name, known)
        records.append(record)
    return records


def _lines(question: Question, report: "LintReport") -> list[str]:
    style = question.style
    lines: list[str] = []
    shown = report.findings if style.width is None else report.findings[:_MOST_FINDINGS]
    for item in shown:
        severity = item.severity.value
        colour = _COLOURS[severity]
        first, *rest = wrapped(f"{severity}: {item} ({item.rule.value})", style, "  ")
        first = first.strip()
        if style.colours and colour:
            first = click.style(severity, fg=colour) + first.removeprefix(severity)
        lines += [first, *rest]
    if more := len(report.findings) - len(shown):
        lines += wrapped(f"and {more:,} more: name a class, claim or template, or see all with | less", style)
    for columns, items in ((_COLUMNS, report.selectors), (_DERIVED_COLUMNS, report.derived_attributes)):
        if style.wide and items:
            lines += [*([""] if lines else []), *listing(columns, items, style)]
    return lines


def _results(question: Question, report: "LintReport") -> Iterator[dict[str, Any]]:
    from dra_operator.cli.kubectl.sarif import find_location, find_message_location, sarif_result

    for item in report.findings:
        record = question.cluster.find_record(item.kind, item.namespace, item.name)
        location = (
            find_message_location(item.message) if record is None else find_location(record.place, item.field)
        )
        yield sarif_result(item.rule.value, item.severity.value, str(item), location)


def _asides(report: "LintReport", bad: int) -> list[str]:
    derived = (
        f" and {count(number, 'derived attribute')}" if (number := len(report.derived_attributes)) else ""
    )
    selectors = f"{count(len(report.selectors), 'selector')}{derived}"
    checked = f"{selectors} checked against {count(report.devices, 'device')}"
    if not report.findings:
        return [f"{checked}: nothing to say"]
    return [f"{checked}: {count(bad, 'problem')}, {count(len(report.findings) - bad, 'note')}"]
