"""`kubectl dra lint`: what is wrong with the selectors of classes, claims and templates."""

from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Question, partial_lines, run
from dra_operator.cli.kubectl.completion import complete_subjects
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.options import NAME, WIDE, Options, shared
from dra_operator.cli.kubectl.subjects import kubectl_name, parse_subject
from dra_operator.cli.kubectl.tables import Column, Row, Style, count, table, wrapped
from dra_operator.questions.partial import LINT

if TYPE_CHECKING:
    from dra_operator.pods.objects import ObjectRecord
    from dra_operator.questions.lint import ExpressionReport, LintReport

DEMAND = Demand.for_question(LINT, required=LINT.required, engine="dra_operator.questions.lint")
_SUBJECTS: Final = {"class/": "DeviceClass", "claim/": "ResourceClaim", "template/": "ResourceClaimTemplate"}
_MOST_FINDINGS: Final = 50
"""So many are shown at a terminal."""
_COLOURS: Final = {"error": "red", "warning": "yellow", "note": None}
_COLUMNS: Final = (
    Column("OBJECT"),
    Column("REQUEST"),
    Column("MATCHES", is_number=True),
    Column("OF", is_number=True),
    Column("COST", is_number=True),
    Column("SELECTOR", is_cut=True),
)
_DERIVED_COLUMNS: Final = (
    Column("OBJECT"),
    Column("REQUEST"),
    Column("ATTRIBUTE"),
    Column("VALUES", is_number=True),
    Column("OF", is_number=True),
    Column("COST", is_number=True),
    Column("EXPRESSION", is_cut=True),
)


@click.command("lint")
@click.argument(
    "subjects",
    metavar="[class/NAME | claim/NAME | template/NAME]...",
    nargs=-1,
    shell_complete=complete_subjects(_SUBJECTS),
)
@shared(WIDE, NAME)
def app(*, subjects: tuple[str, ...], options: Options) -> None:
    """Check selectors against the devices that are published: those that match none, fail, or name what none has.

    Derived attributes are checked on the devices that their request selects.

    Without a name those of the files of -f, or else of all classes, and of the claims and templates of the namespace.
    -o wide also shows how many devices each selector matches. Exit code 0: nothing worse than a note; 1: warnings or
    errors; 2: it cannot be said.
    """
    run(options, DEMAND, lambda question: _answer(question, subjects))


def _answer(question: Question, subjects: tuple[str, ...]) -> Answer:
    from dra_operator.questions.lint import lint_objects

    are_all_asked = not subjects and not question.given
    kinds = LINT.optional if are_all_asked else ()
    report = lint_objects(question.cluster, _records(question, subjects), kinds)
    bad = [item for item in report.findings if item.severity.value != "note"]
    return Answer(
        "Lint",
        report,
        _lines(question, report),
        CODES[report.conclusion],
        names=list(dict.fromkeys(kubectl_name(item.kind, item.name) for item in report.findings)),
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
    if style.wide and report.selectors:
        lines += [*([""] if lines else []), *_selector_table(report.selectors, style)]
    if style.wide and report.derived_attributes:
        lines += [*([""] if lines else []), *_derived_table(report.derived_attributes, style)]
    return lines


def _selector_table(selectors: "tuple[ExpressionReport, ...]", style: Style) -> list[str]:
    rows: list[Row] = [
        [
            _object(item),
            item.request or "-",
            f"{item.found:,}",
            f"{item.asked:,}",
            _cost(item),
            " ".join(item.expression.split()),
        ]
        for item in selectors
    ]
    return list(table(_COLUMNS, rows, style))


def _derived_table(attributes: "tuple[ExpressionReport, ...]", style: Style) -> list[str]:
    rows: list[Row] = [
        [
            _object(item),
            item.request,
            item.attribute,
            f"{item.found:,}",
            f"{item.asked:,}",
            _cost(item),
            " ".join(item.expression.split()),
        ]
        for item in attributes
    ]
    return list(table(_DERIVED_COLUMNS, rows, style))


def _object(item: "ExpressionReport") -> str:
    return f"{item.kind} {item.namespace}/{item.name}" if item.namespace else f"{item.kind} {item.name}"


def _cost(item: "ExpressionReport") -> str:
    return "-" if item.cost is None else f"{100 * item.cost / item.cost_limit:.1f}%"


def _asides(report: "LintReport", bad: int) -> list[str]:
    derived = (
        f" and {count(number, 'derived attribute')}" if (number := len(report.derived_attributes)) else ""
    )
    selectors = f"{count(len(report.selectors), 'selector')}{derived}"
    checked = f"{selectors} checked against {count(report.devices, 'device')}"
    if not report.findings:
        return [f"{checked}: nothing to say"]
    return [f"{checked}: {count(bad, 'problem')}, {count(len(report.findings) - bad, 'note')}"]
