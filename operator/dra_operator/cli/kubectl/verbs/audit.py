"""`kubectl dra audit`: what is wrong in a cluster, each with the object and what to do."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, verb
from dra_operator.cli.kubectl.options import NAME, SARIF, option
from dra_operator.cli.kubectl.subjects import kubectl_name
from dra_operator.cli.kubectl.tables import Style, count, wrapped
from dra_operator.questions.answers import AUDIT, KindsRead

if TYPE_CHECKING:
    from dra_operator.questions.answers import Sort
    from dra_operator.questions.audit import AuditReport, Finding

_KINDS: Final = dict.fromkeys(kind for kinds in AUDIT.values() for kind in kinds)
DEMAND = Demand.for_question(
    KindsRead(details=(*_KINDS, "Namespace")),
    required=("ResourceClaim", "ResourceSlice"),
    engine="dra_operator.questions.audit",
)
_MOST_OF_SORT: Final = 20
"""So many findings of each sort are shown at a terminal, unless sorts are named."""
_MOST_OWNERS: Final = 10
_OTHERS: Final = "selectors of classes and claims are not checked here: kubectl dra lint"


@verb(
    "audit",
    DEMAND,
    option(
        "--sort", "sorts", metavar="SORT", multiple=True, help="Only findings of a sort. May be repeated."
    ),
    formats=(NAME, SARIF),
)
def app(question: Question, *, sorts: tuple[str, ...]) -> Answer:
    """Find what is wrong: each line names the object, what is wrong with it, and what to do.

    With -n, only findings in which objects of a namespace take part. Exit code 0: nothing is wrong; 1: something is; 2:
    nothing was found, but not all could be checked.

    Examples: kubectl dra audit -n team-a; kubectl dra audit --sort Unreserved.
    """
    from dataclasses import replace

    from dra_operator.questions.answers import Sort
    from dra_operator.questions.audit import audit

    if unknown := sorted({*sorts} - {*Sort}):
        raise click.ClickException(f"there is no sort {', '.join(unknown)}: there are {', '.join(Sort)}")
    report = audit(question.cluster)
    namespace = question.options.namespace
    report = replace(
        report,
        findings=tuple(
            item
            for item in report.findings
            if (not sorts or item.sort in sorts) and (not namespace or _is_about(item, namespace))
        ),
        unchecked=tuple(item for item in report.unchecked if not sorts or item.sort in sorts),
    )
    return Answer(
        "Audit",
        report,
        _lines(report, question.style, None if sorts or question.style.width is None else _MOST_OF_SORT),
        CODES[report.conclusion],
        names=list(dict.fromkeys(kubectl_name(item.kind, item.name) for item in report.findings)),
        results=[*_results(question, report)] if question.options.format == SARIF else (),
        asides=[*_asides(report), *([] if sorts else [_OTHERS])],
    )


def _results(question: Question, report: "AuditReport") -> Iterator[dict[str, Any]]:
    from dra_operator.cli.kubectl.sarif import find_location, sarif_result

    for item in report.findings:
        record = question.cluster.find_record(item.kind, item.namespace, item.name)
        location = None if record is None else find_location(record.place)
        message = f"{_subject(item)}: {item.message}; {item.action}"
        yield sarif_result(item.sort.value, "error", message, location, _subject(item))


def _lines(report: "AuditReport", style: Style, most: int | None) -> list[str]:
    """Return the findings by sort, of each sort so many at most."""
    sorts: dict[Sort, list[Finding]] = {}
    for item in report.findings:
        sorts.setdefault(item.sort, []).append(item)
    lines: list[str] = []
    for sort, findings in sorts.items():
        title = f"{sort.value} ({len(findings):,})"
        lines += [*([""] if lines else []), click.style(title, bold=True) if style.colours else title]
        shown = findings[:most]
        for action, group in groupby(shown, lambda item: item.action):
            for item in group:
                lines += wrapped(f"{_subject(item)}: {item.message}", style, "  ")
            lines += wrapped(f"-> {action}", style, "     ")
        if rest := len(findings) - len(shown):
            lines.append(f"  and {rest:,} more: kubectl dra audit --sort {sort.value}")
    return lines


def _is_about(item: "Finding", namespace: str) -> bool:
    """Return whether an object of a namespace is at fault, or takes part: a device that two claims hold has none."""
    return item.namespace == namespace or any(
        name.partition(" ")[2].startswith(f"{namespace}/") for name in item.related
    )


def _subject(item: "Finding") -> str:
    name = f"{item.namespace}/{item.name}" if item.namespace else item.name
    return f"{item.kind} {name}"


def _asides(report: "AuditReport") -> list[str]:
    sorts: dict[str, list[str]] = {}
    for item in report.unchecked:
        sorts.setdefault(item.why, []).append(item.sort.value)
    found = [f"{', '.join(names)} not checked: {why}" for why, names in sorts.items()]
    if owners := report.owned_without_policy:
        more = f" and {len(owners) - _MOST_OWNERS:,} others" if len(owners) > _MOST_OWNERS else ""
        found.append(f"owned without an AllocationPolicy: by {', '.join(owners[:_MOST_OWNERS])}{more}")
    if not report.findings:
        end = " with what was checked" if report.unchecked else ""
        return [*found, f"nothing is wrong{end}"]
    return [*found, f"{count(len(report.findings), 'finding')}"]
