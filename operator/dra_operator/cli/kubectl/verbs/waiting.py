"""`kubectl dra waiting`: what waits for devices, and why: a row a reason and class, or a row each."""

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, partial_lines, verb
from dra_operator.cli.kubectl.subjects import age_at, kubectl_name, source_flags
from dra_operator.cli.kubectl.tables import Column, listing, names_cell
from dra_operator.questions.answers import DECISION

if TYPE_CHECKING:
    from dra_operator.questions.waiting import WaitingItem

DEMAND: Final = Demand.for_question(
    DECISION, required=(*DECISION.required, "ResourceClaim"), engine="dra_operator.questions.waiting"
)
_MOST_NAMED: Final = 3


@verb("waiting", DEMAND)
def app(question: Question) -> Answer:
    """List pods and claims that wait for devices: a row a reason and class, with -o wide a row each.

    A pod counts as one, with all its claims. Exit code 0: nothing waits; 1: something does; 2: it cannot be said.
    """
    from dra_operator.questions.waiting import find_waiting

    report = find_waiting(question.cluster, question.namespace)
    asides = partial_lines(report)
    if report.items:
        first, flags = report.items[0], source_flags(question)
        asides.append(f"the oldest: kubectl dra explain {_name(first)} -n {first.namespace}{flags}")
    else:
        where = f' in namespace "{question.namespace}": -A lists those of all' if question.namespace else ""
        asides.append(f"nothing waits for devices{where}")
    return Answer(
        "WaitingList",
        report,
        (_each if question.style.wide else _sums)(question, report.items),
        CODES[report.conclusion],
        names=[kubectl_name(item.kind, item.name) for item in report.items],
        asides=asides,
    )


def _sums(question: Question, items: "tuple[WaitingItem, ...]") -> list[str]:
    """Return a row a reason and class, the one with most first."""
    groups = defaultdict[tuple[str, tuple[str, ...]], list["WaitingItem"]](list)
    for item in items:
        groups[_reason(item), item.classes].append(item)
    found = [group for _, group in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))]

    def example(group: "list[WaitingItem]") -> str:
        return _name(group[0]) if question.namespace else f"{_name(group[0])} -n {group[0].namespace}"

    def namespaces(group: "list[WaitingItem]") -> list[str]:
        return sorted({item.namespace for item in group})

    columns = (
        Column("REASON", lambda group: _reason(group[0])),
        Column("CLASS", lambda group: names_cell(group[0].classes, _MOST_NAMED, ","), is_cut=True),
        Column("WAITING", lambda group: str(len(group)), is_number=True),
        Column("OLDEST", lambda group: age_at(group[0].created, question.cluster.now)),
        Column("NAMESPACES", lambda group: names_cell(namespaces(group), _MOST_NAMED, ","), is_cut=True),
        Column("FOR EXAMPLE", example),
    )
    return listing(columns, found, question.style)


def _each(question: Question, items: "tuple[WaitingItem, ...]") -> list[str]:
    """Return a row each, the oldest first."""
    columns = (
        Column("NAMESPACE", lambda item: item.namespace),
        Column("NAME", _name),
        Column("REASON", _reason),
        Column("CLASS", lambda item: ",".join(item.classes) or "-"),
        Column("AGE", lambda item: age_at(item.created, question.cluster.now)),
        Column("MESSAGE", lambda item: item.message, is_cut=True),
    )
    return listing(columns, items, question.style)


def _name(item: "WaitingItem") -> str:
    return f"{'pod' if item.kind == 'Pod' else 'claim'}/{item.name}"


def _reason(item: "WaitingItem") -> str:
    """Return the reason, or for one without a name what state it is in."""
    return item.reason or item.state
