"""`kubectl dra status`: whether an operator decides, what it owns, how far its pods are, and what is wrong."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from dra_operator.api.kinds import POLICIES
from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, partial_lines, verb
from dra_operator.cli.kubectl.subjects import age_at
from dra_operator.cli.kubectl.tables import Column, count, listing, wrapped
from dra_operator.questions.answers import DECISION, STATUS

if TYPE_CHECKING:
    from dra_operator.questions.status import PolicyStatus, StatusReport

DEMAND: Final = Demand.for_question(
    STATUS, DECISION, required=STATUS.required, engine="dra_operator.questions.status"
)
_COLUMNS: Final = (
    Column("WHAT", lambda row: row[0]),
    Column("STATE", lambda row: row[1]),
    Column("MEANING", lambda row: row[2], is_cut=True),
)


@verb("status", DEMAND, formats=(), namespace="Not looked at: it is about the whole cluster.")
def app(question: Question) -> Answer:
    """Say who decides, which policies are installed, which devices are owned, and what waits.

    Exit code 0: an operator decides, and nothing is wrong with that; 1: none does, or something is; 2: it cannot be
    said.
    """
    from dra_operator.questions.status import find_status

    report = find_status(question.cluster)
    lines = listing(_COLUMNS, list(_rows(question, report)), question.style)
    for fault in report.faults:
        lines += ["", *wrapped(f"wrong: {fault}", question.style)]
    asides = partial_lines(report)
    if not report.policies:
        whys = dict.fromkeys(question.cluster.unread.get(kind.kind, "") for kind in POLICIES)
        asides.append(f"which policies are installed is not known: {'; '.join(filter(None, whys))}")
    if report.waiting:
        asides.append("what waits, and why: kubectl dra waiting -A")
    if report.faults:
        asides.append("what is wrong with claims, pods and devices: kubectl dra audit -A")
    return Answer("Status", report, lines, CODES[report.conclusion], asides=asides)


def _rows(question: Question, report: "StatusReport") -> Iterator[tuple[str, str, str]]:
    word = {True: "decides", False: "does not decide", None: "unknown"}[report.decides]
    ready = f"; {report.ready} of {count(report.pods, 'pod')} ready" if report.pods else ""
    yield "operator", word, f"{report.operator}{ready}"
    for policy in report.policies:
        which = " (mutating)" if policy.sort == "Mutating" else ""
        yield f"policy {policy.name}{which}", _state(policy), policy.meaning
    owners = f"{count(len(report.owners), 'owner')}, {count(report.settled, 'rule')} settled"
    yield "owned devices", str(report.owned_devices), owners if report.owners else "none is owned"
    for each in report.gated:
        yield (
            f"gated pods {each.state}",
            str(each.count),
            f"oldest {age_at(each.oldest, question.cluster.now)}",
        )
    oldest = f"oldest {age_at(report.oldest_created, question.cluster.now)}: {report.oldest}"
    yield "waiting", str(report.waiting), oldest if report.waiting else "nothing waits for devices"


def _state(policy: "PolicyStatus") -> str:
    if not policy.is_installed:
        return "not installed"
    return "installed" if policy.is_bound else "not bound"
