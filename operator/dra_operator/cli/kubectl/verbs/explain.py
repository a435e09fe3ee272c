"""`kubectl dra explain`: why a claim or pod waits, request by request, and the smallest change that would help."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.api.names import POD_GROUP_WORDS
from dra_operator.cli.kubectl.answering import (
    CANNOT_SAY,
    CODES,
    Answer,
    Demand,
    Question,
    partial_lines,
    verb,
)
from dra_operator.cli.kubectl.options import complete_subjects, option
from dra_operator.cli.kubectl.subjects import (
    COPIED,
    find_name,
    find_workload_name,
    full_name,
    kubectl_name,
    no_device_line,
    one_subject,
    parse_subject,
    remove,
    resolve_subject,
    without_option,
)
from dra_operator.cli.kubectl.tables import (
    Cell,
    Colour,
    Column,
    Row,
    Style,
    count,
    listing,
    names_cell,
    sentence,
    table,
    wrapped,
)
from dra_operator.questions.answers import DECISION

if TYPE_CHECKING:
    from dra_operator.pods.objects import Manifest
    from dra_operator.questions.explain import ExplainAnswer, FunnelStep, RequestFunnel
    from dra_operator.questions.gangs import GangAnswer
    from dra_operator.questions.origin import AllocationOrigin
    from dra_operator.questions.state import ClusterState
    from dra_operator.questions.workload_pods import EqualPods, WorkloadAnswer


# --- How `kubectl dra` prints what becomes of a gang.


_STATES: Final = {"fits": "fits", "runs": "runs", "waits": "does not fit", "undecided": "is not decided"}


def gangs_lines(style: Style, reports: "Sequence[GangAnswer]") -> Iterator[str]:
    """Yield the lines about gangs: of several the first that does not fit in full, and of the others one line."""
    waiting = [each for each in reports if each.state in ("waits", "undecided")]
    whole = reports[0] if len(reports) == 1 else next(iter(waiting), None)
    for each in reports:
        if each is not whole:
            yield from _gang_headline(style, each)
    if whole is not None:
        yield from [""] if len(reports) > 1 else ()
        yield from gang_lines(style, whole)


def _gang_headline(style: Style, report: "GangAnswer") -> Iterator[str]:
    number = f"{report.fitting:,} of {count(report.size, 'pod')} fit together"
    least = "" if report.at_least == report.size else f", at least {report.at_least:,} have to"
    value = f", all with {report.value}" if report.value else ""
    yield from wrapped(f"{report.subject} {_STATES[report.state]}: {number}{value}{least}", style)


def gang_lines(style: Style, report: "GangAnswer") -> Iterator[str]:
    """Yield the lines about a gang: how many of its pods fit, where, and what the next one lacks."""
    yield from _gang_headline(style, report)
    if report.pods:
        columns = (
            Column("POD", lambda each: each.name),
            Column("NODE", lambda each: each.node),
            Column("STATE", lambda each: "bound" if each.is_bound else "fits"),
            Column(
                "DEVICES",
                lambda each: ", ".join(f"{item.pool}/{item.device}" for item in each.devices) or "-",
                is_cut=True,
            ),
        )
        yield ""
        yield from listing(columns, report.pods, style)
    if report.scheduler:
        yield ""
        yield from wrapped(report.scheduler, style)
    if report.message:
        name = f"{report.failing} does not fit beside them: {report.reason}: " if report.failing else ""
        yield ""
        yield from sentence(f"{name}{report.message}", style)
    if report.values:
        yield ""
        values = (
            Column("VALUE", lambda each: each.value),
            Column("FIT", lambda each: "?" if each.fitting is None else str(each.fitting), is_number=True),
        )
        yield from listing(values, report.values, style)
    yield from _changes(style, report)
    if report.searched:
        yield report.searched


def _changes(style: Style, report: "ExplainAnswer | GangAnswer") -> Iterator[str]:
    if report.changes:
        yield ""
        yield "it would fit if"
    for change in report.changes:
        first, *rest = wrapped(change.text, style, "    ")
        yield f"  - {first.strip()}"
        yield from rest


# --- The verb.


DEMAND = Demand.for_question(DECISION, required=("ResourceClaim",), engine="dra_operator.questions.explain")
_COLUMNS: Final = (Column("DEVICES", is_number=True), Column("", is_cut=True), Column("BECAUSE", is_cut=True))
_MOST_NAMED: Final = 3
_COPIES: Final = ("DeviceClass/", "ResourceClaimTemplate/")
_A_COPY: Final = {"DeviceClass": "a device of ", "ResourceClaimTemplate": "a copy of "}
_WOULD: Final = {"waits": "would wait", "fits": "would fit"}
"""What is said of a copy, or with objects that are not there yet."""


@verb(
    "explain",
    DEMAND,
    click.Argument(
        ["subject"],
        metavar="[claim/NAME | pod/NAME | NAME | podgroup/NAME | WORKLOAD/NAME | template/NAME | class/NAME | FILE]",
        nargs=-1,
        callback=lambda _ctx, _param, words: one_subject(words),
        shell_complete=complete_subjects(COPIED),
    ),
    option("--no-changes", is_flag=True, help="Look for no changes that would help, nor for other nodes."),
    without_option(),
)
def app(question: Question, *, subject: str, no_changes: bool, without: tuple[str, ...]) -> Answer:
    """Say why a claim or pod waits: how many devices each condition leaves, and the smallest change that would help.

    A name alone is a claim, or else a pod. A workload, as deployment/NAME or job/NAME, is explained by its pods; of a
    PodGroup it is said whether all its pods fit at once. A file, a template or a class is explained as its pods or a
    copy would be. Exit code 0: it does not wait; 1: it does; 2: it cannot be said, or only if nobody else holds
    devices.
    """
    from dra_operator.questions.explain import EFFORT, explain

    effort = None if no_changes else EFFORT
    if (asked := find_workload_name(subject, question.own_namespace)) is not None:
        from dra_operator.questions.workload_pods import explain_workload

        return _workload(question, explain_workload(remove(question, without), *asked, effort), subject)
    if subject.partition("/")[0].lower() in POD_GROUP_WORDS:
        return _group(question, remove(question, without), subject)
    text = _named(question, subject)
    unread = question.cluster.unread
    if missing := [kind for kind in DECISION.required if kind in unread]:
        return _as_written(question, text, missing)
    cluster = remove(question, without)
    what = resolve_subject(question, text)
    if not isinstance(what, str) and _has_several(what):
        from dra_operator.questions.workload_pods import explain_new_pods

        return _workload(question, explain_new_pods(cluster, what, effort), text)
    report = explain(cluster, what, effort)
    is_copy = not isinstance(what, str) or what.startswith(_COPIES)
    would = is_copy or bool(question.given)
    lines = list(_lines(question.style, report, would=would))
    if isinstance(what, str) and report.state == "waits" and (gang := _gang_of(cluster, what)) is not None:
        report = replace(report, gang=gang)
        lines = [*gang_lines(question.style, gang), "", *lines]
    return Answer(
        "Explanation",
        report,
        lines,
        CODES[report.conclusion],
        names=[_name(what, text)],
        asides=list(dict.fromkeys([*partial_lines(report), *_hints(report)])),
    )


def _group(question: Question, cluster: "ClusterState", text: str) -> Answer:
    """Return whether the pods of a PodGroup fit all at once."""
    from dra_operator.questions.gangs import explain_gang

    word, _, name = text.partition("/")
    report = explain_gang(cluster, f"{word}/{full_name(name, question.own_namespace)}")
    lines = list(gang_lines(question.style, report))
    return Answer("Gang", report, lines, CODES[report.conclusion], names=[text], asides=partial_lines(report))


def _gang_of(cluster: "ClusterState", what: str) -> "GangAnswer | None":
    """Return what becomes of the gang of a pod that is named; None if it is of none."""
    from dra_operator.questions.gang_members import gang_of_pod
    from dra_operator.questions.gangs import answer_gang

    kind, _, name = what.partition("/")
    record = cluster.find_record(kind, *name.split("/")) if kind == "Pod" else None
    gang = None if record is None else gang_of_pod(cluster, record)
    return None if gang is None else answer_gang(cluster, gang)


def _hints(report: "ExplainAnswer") -> list[str]:
    """Return what to ask next."""
    hints = [
        no_device_line(each.device_class)
        for each in report.requests
        if any(step.name == "class" and step.refused and not step.left for step in each.steps)
    ]
    hints += [
        f"kubectl dra who class/{each.device_class} names all claims that hold such devices"
        for each in report.requests
        if any(_are_left_out(step) for step in each.steps)
    ]
    return hints


def _has_several(manifests: "Sequence[Manifest]") -> bool:
    """Return whether objects of a file are the pods of a workload, or several pods."""
    from dra_operator.pods.workloads import find_known

    pods = [each for each in manifests if each.body.get("kind") == "Pod"]
    return len(pods) > 1 or any(find_known(each.body) is not None for each in manifests)


def _workload(question: Question, report: "WorkloadAnswer", text: str) -> Answer:
    """Return what becomes of the pods of a workload: a table, and then each reason once."""
    style, hints = question.style, list[str]()
    lines = list(gangs_lines(style, report.gangs)) if report.gangs else [report.subject]
    columns = (
        Column("PODS", lambda each: names_cell(each.names) if each.names else f"{each.count} to be made"),
        Column("STATE", _state_of),
        Column("NODE", lambda each: names_cell(each.nodes) if each.nodes else "-"),
        Column("REASON", lambda each: each.explanation.reason or "-", is_cut=True),
    )
    if report.items:
        lines += [*([""] if report.gangs else ()), *listing(columns, report.items, style)]
    elif not report.gangs:
        lines.append("it has no pods, and makes none")
    for each in report.items:
        if each.explanation.state in _WOULD and each.explanation.state != "fits":
            lines += ["", *_lines(style, each.explanation, would=not each.names)]
            hints += _hints(each.explanation)
    asides = list(dict.fromkeys([*partial_lines(report), *hints]))
    return Answer("WorkloadExplanation", report, lines, CODES[report.conclusion], names=[text], asides=asides)


def _state_of(pods: "EqualPods") -> str:
    state = pods.explanation.state
    return state if pods.names else _WOULD.get(state, state)


def _name(subject: Any, text: str) -> str:
    """Return what `-o name` prints of what was explained: the object, or the file."""
    if not isinstance(subject, str):
        return text
    kind, _, name = subject.partition("/")
    return kubectl_name(kind, name.rpartition("/")[2])


def _named(question: Question, text: str) -> str:
    """Return what is asked about as KIND/NAME, or the path of a file. Raises UsageError, ClickException."""
    if not text:
        own = [each.obj for each in question.given if type(each.obj).__name__ in ("ResourceClaim", "Pod")]
        if len(own) != 1:
            raise click.UsageError("say what is to be explained: claim/NAME, pod/NAME, or a file")
        return f"{type(own[0]).__name__.lower()}/{own[0].metadata.namespace}/{own[0].metadata.name}"
    if text == "-" or "/" in text or Path(text).exists():
        return text
    kind, name = find_name(question, ("ResourceClaim", "Pod"), text)
    namespace, _, bare = name.partition("/")
    word = "claim" if kind == "ResourceClaim" else "pod"
    return f"{word}/{bare if namespace == question.own_namespace else name}"


def _as_written(question: Question, text: str, missing: Sequence[str]) -> Answer:
    """Return what the operator wrote on a claim, where kinds are missing without which nothing more can be said."""
    from dra_operator.pods.claims import named_claims
    from dra_operator.questions.claims import list_claims
    from dra_operator.questions.explain import ExplainAnswer

    kind, name = parse_subject(text, ("ResourceClaim", "Pod"))
    namespace, _, name = full_name(name, question.own_namespace).partition("/")
    record = question.cluster.find_record(kind, namespace, name) if kind == "Pod" else None
    names = [*named_claims(record.obj)] if record is not None else [name] if kind == "ResourceClaim" else []
    records = [question.cluster.find_record("ResourceClaim", namespace, each) for each in names]
    items = list_claims([record.obj for record in records if record is not None]).items
    why = question.cluster.unread[missing[0]]
    if not items:
        raise click.ClickException(f"there is no claim of {text} to be read; {why}")
    written = [item for item in items if item.message] or list(items)
    report = ExplainAnswer(
        f'{kind} "{namespace}/{name}"',
        written[0].state.value,
        message="; ".join(item.message for item in written if item.message),
        partial=(why,),
    )
    first, *message = _headline(question.style, report)
    lines = [first, *(line for text in message for line in wrapped(text, question.style, "  "))]
    if not report.message:
        lines.append("the operator wrote nothing on it")
    return Answer("Explanation", report, lines, CANNOT_SAY, names=[text], missing=missing)


def _lines(style: Style, report: "ExplainAnswer", *, would: bool) -> Any:
    for text in report.written:
        yield from wrapped(f"the operator says: {text}", style)
    if report.written:
        yield "as far as you can read:" if report.partial else "by what can be read:"
    first, *message = _headline(style, report, would=would)
    yield first
    # What a table says comes first, and the sentence behind it.
    texts = [
        f"claim {each.name or each.claim}: {each.reason}: {each.message}"
        for each in (report.claims if len(report.claims) > 1 else ())
    ]
    if not report.requests:
        for text in (*message, *texts):
            yield from wrapped(text, style, "  ")
    if report.rollout:
        yield from wrapped(report.rollout, style, "  ")
    if report.devices:
        names = ", ".join(f"{each.pool}/{each.device}" for each in report.devices)
        yield from wrapped(f"devices: {names}", style)
    if report.origin is not None:
        yield from _origin(style, report.origin)
    for funnel in report.requests:
        yield ""
        yield from _funnel(style, funnel)
    yield from _changes(style, report)
    if report.searched:
        yield ""
        yield from wrapped(report.searched, style)
    if report.requests and (message or texts):
        yield ""
        for text in (*message, *texts):
            yield from sentence(text, style)


def _origin(style: Style, origin: "AllocationOrigin") -> Any:
    from dra_operator.api.text import human_duration

    for each in origin.claims:
        claim = f"claim {each.name}: " if len(origin.claims) > 1 else ""
        since = "" if each.age_seconds is None else f" {human_duration(each.age_seconds)} ago"
        by = f" by {each.manager}" if each.manager else ""
        users = f", for {', '.join(each.consumers)}" if each.consumers else ", reserved for nobody"
        yield from wrapped(f"{claim}allocated{since}{by}{users}", style)
        for problem in each.problems:
            yield from wrapped(f"but {claim}{problem}", style)
    if origin.nodes is not None:
        first, more = origin.nodes[:_MOST_NAMED], len(origin.nodes) - _MOST_NAMED
        others = f" and {more:,} other{'s' if more > 1 else ''}" if more > 0 else ""
        names = f": {', '.join(first)}{others}" if first else ""
        text = (
            f"as things are it could be on {len(origin.nodes):,} of {count(origin.of_nodes, 'node')}{names}"
        )
        yield from wrapped(text, style)


def _headline(style: Style, report: "ExplainAnswer", *, would: bool = False) -> Any:
    colour = "red" if report.state == "broken" else "yellow" if report.state == "waits" else "green"
    word = _WOULD.get(report.state, report.state) if would else report.state
    state = click.style(word, fg=colour) if style.colours else word
    fits = report.state == "fits"
    node = f" on {report.node}" if report.node and fits else ""
    # What the scheduler has not done yet it could not do.
    is_said = fits and would
    subject = f"{_A_COPY.get(report.subject.partition(' ')[0], '')}{report.subject}"
    yield f"{subject} {state}{node}{f': {report.reason}' if report.reason and not is_said else ''}"
    if report.message and not is_said:
        yield report.message


def _funnel(style: Style, funnel: "RequestFunnel") -> Any:
    claim = f"claim {funnel.claim}, " if funnel.claim else ""
    yield f"{claim}request {funnel.request}: {funnel.asked} of class {funnel.device_class}"
    at_most = f"at most {funnel.most_on_a_node:,} on one node ({funnel.node})" if funnel.node else ""
    left: Row = [Cell(f"{funnel.left:,}", Colour.WARNING if not funnel.left else None), "left", at_most]
    yield from table(
        _COLUMNS, [*([_number(step), step.text, _because(step)] for step in funnel.steps), left], style
    )


def _number(step: "FunnelStep") -> str:
    """Return how many devices a selection leaves, or how many an obstacle takes away."""
    is_selection = step.name in ("published", "class") or step.name.startswith("selector")
    return f"{step.left:,}" if is_selection else f"-{step.refused:,}"


def _are_left_out(step: "FunnelStep") -> bool:
    """Return whether some claims are there by number only."""
    shown = {*step.holders.split(", ")}
    return any(name not in shown and name.partition("/")[2] not in shown for name in step.claims)


def _because(step: "FunnelStep") -> str:
    if step.holders:
        return step.holders
    texts = [f"{each.text} ({each.devices:,})" for each in step.near_misses]
    rest = step.refused - sum(each.devices for each in step.near_misses)
    return "; ".join([*texts, *([f"others ({rest:,})"] if texts and rest > 0 else [])])
