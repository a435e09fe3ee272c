"""`kubectl dra who`: which claims and pods hold a device, a pool, the devices of a node or of a class."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import (
    CANNOT_SAY,
    CODES,
    Answer,
    Demand,
    Question,
    check_namespace,
    partial_lines,
    verb,
)
from dra_operator.cli.kubectl.options import complete_subjects, option
from dra_operator.cli.kubectl.subjects import KINDS, find_name, full_name, parse_subject, value_option
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, count, listing, names_cell
from dra_operator.questions.answers import HOLDERS, QuestionError

if TYPE_CHECKING:
    from dra_operator.questions.device_table import HolderQuery
    from dra_operator.questions.usage import Holder, HolderReport

DEMAND = Demand.for_question(
    HOLDERS, required=("ResourceClaim", "ResourceSlice"), engine="dra_operator.questions.usage"
)
_COLOURS: Final = {"running": Colour.GOOD, "unknown": None}
_MOST_NAMED: Final = 3


@verb(
    "who",
    DEMAND,
    click.Argument(
        ["subject"],
        metavar="[node/NAME | class/NAME | pool/NAME | device/POOL/NAME | pod/NAME | namespace/NAME | "
        "reservation/NAME | maintenance/NAME | policy/NAME]",
        default="",
        shell_complete=complete_subjects(
            {"node/": "Node", "class/": "DeviceClass", "pod/": "Pod", "namespace/": "Namespace"}
        ),
    ),
    option("--driver", metavar="NAME", help="Only devices of a driver."),
    value_option(),
    option("--idle", is_flag=True, help="Only claims without a running pod."),
    option("--admin-access", is_flag=True, help="Also claims with admin access, which hold nothing."),
    option("--since", metavar="TIME", help="With --history: all who held some since then, up to --at."),
)
def app(
    question: Question, *, subject: str, driver: str, value: str, idle: bool, admin_access: bool, since: str
) -> Answer:
    """Say who holds a device, a pool, the devices of a node or of a class, and what a pod or a namespace holds.

    Also what is held for a DeviceReservation, and who holds what the rules of a policy or a maintenance are about.

    Without a name, it says who holds anything; device/TEXT is a device with an attribute of this value.

    USE is what the pods of a claim do; where none runs, its devices are idle. With -n, only claims of a namespace. Exit
    code 0: somebody holds some; 1: nobody does; 2: it cannot be said. With --history and --since, who held a device, a
    pool or what is on a node over time.
    """
    from dataclasses import replace

    from dra_operator.questions.usage import find_holders

    query = _subject(question, subject, driver)
    if since:
        if value or idle or admin_access:
            raise click.UsageError(
                "--since lists who held devices: leave out --value, --idle and --admin-access"
            )
        return _past(question, query, subject, since)
    query = replace(query, admin_access=admin_access, value=value or query.value)
    report = find_holders(question.cluster, query)
    if idle:
        report = report.idle()
    code = CODES[report.conclusion]
    return Answer(
        "Holders",
        report,
        listing(_columns(question), report.holders, question.style),
        code,
        names=[f"resourceclaim.resource.k8s.io/{item.name}" for item in report.holders],
        asides=[
            *_asides(report, subject, code, "held idle" if idle else "held"),
            # What could not be read is said beside.
            *([] if question.cluster.unread else partial_lines(report)),
        ],
        many=f"{_claims(report.holders)}: node/NAME, class/NAME, --idle and -n select some",
    )


def _subject(question: Question, text: str, driver: str) -> "HolderQuery":
    from dra_operator.questions.device_table import HolderQuery

    namespace = question.options.namespace
    if not text:
        return HolderQuery(driver=driver, namespace=namespace)
    word, slash, name = text.partition("/")
    kind_named = KINDS.get(word.partition(".")[0].lower())
    if slash and kind_named is None:
        # As `kubectl dra devices` prints it.
        text = f"device/{text}"
    if slash and kind_named == "ResourceClaim":
        raise click.UsageError(f"who asks about devices, and {text} is none: kubectl dra claims {name}")
    kinds = ("Node", "DeviceClass", "pool", "device", "Pod", "Namespace")
    kind, name = parse_subject(text, (*kinds, "DeviceReservation", "DeviceMaintenance", "AllocationPolicy"))
    if kind == "DeviceReservation":
        return HolderQuery(driver=driver, reservation=full_name(name, question.own_namespace))
    if kind in ("DeviceMaintenance", "AllocationPolicy"):
        return HolderQuery(driver=driver, owner=f"{kind}/{name}", namespace=namespace)
    if kind == "Pod":
        return HolderQuery(driver=driver, pod=find_name(question, ("Pod",), name)[1])
    if kind == "Namespace":
        check_namespace(question.cluster, name)
        return HolderQuery(driver=driver, namespace=name)
    if kind == "Node":
        return HolderQuery(driver=driver, node=name, namespace=namespace)
    if kind == "DeviceClass":
        return HolderQuery(driver=driver, device_class=name, namespace=namespace)
    if kind == "device" and "/" not in name:
        return HolderQuery(driver=driver, namespace=namespace, value=name)
    pool, slash, device = name.rpartition("/") if kind == "device" else (name, "/", "")
    if not slash or "" in name.split("/"):
        form = "device/POOL/NAME" if kind == "device" else "pool/NAME"
        raise click.UsageError(f"{text!r}: write {form}, or with the driver before the pool")
    named, pool = _find_pool(question, pool)
    return HolderQuery(driver=named or driver, pool=pool, device=device, namespace=namespace)


def _past(question: Question, query: "HolderQuery", subject: str, since: str) -> Answer:
    """Return who held devices over time, by the record."""
    from dra_operator.cli.kubectl.answering import NO, YES
    from dra_operator.cli.kubectl.source import read_record_span

    options = question.options
    if not options.history:
        raise click.UsageError("--since asks a record: name it with --history")
    if query.device_class or query.value or query.pod or query.reservation or query.owner:
        raise click.UsageError("--since asks about a device, a pool, a node or a namespace")
    reader, span = read_record_span(options.history, since, options.at)
    from dra_operator.history.holders import find_past_holders
    from dra_operator.questions.usage import find_holders

    report = find_past_holders(reader, span._replace(until=span.until + 1), query)
    columns = (
        Column("DEVICE", lambda item: item.device),
        Column("CLAIM", lambda item: f"{item.namespace}/{item.name}"),
        Column(
            "PODS",
            lambda item: names_cell(item.pods, None if question.style.wide else _MOST_NAMED),
            is_cut=True,
        ),
        Column("SINCE", lambda item: f"{'<' if item.was_there else ''}{item.since}"),
        Column("UNTIL", lambda item: item.until or "-"),
    )
    asides = [f"from {report.since} to {report.until}; `<`: it was held already when the record found it"]
    if gaps := [f"{gap.since} to {gap.until}" for gap in report.gaps]:
        more = f" and {len(gaps) - _MOST_NAMED} more" if len(gaps) > _MOST_NAMED else ""
        asides.append(f"not recorded: {', '.join(gaps[:_MOST_NAMED])}{more}")
    if not report.items:
        asides.append(f"nobody held {subject or 'any device'}")
        try:
            find_holders(question.cluster, query)
        except QuestionError as error:
            # It may have been there before.
            asides.append(f"at the end {error}")
    code = YES if report.items else NO
    return Answer("PastHolders", report, listing(columns, report.items, question.style), code, asides=asides)


def _find_pool(question: Question, text: str) -> tuple[str, str]:
    """Return driver (empty: any) and pool that a text names: as names of pools have slashes, what is known decides."""
    from dra_operator.questions.claims import allocated_claims, results_of

    objects = question.cluster.objects
    known = {*question.cluster.inventory.pools}
    known |= {(item.driver, item.pool) for claim in allocated_claims(objects) for item in results_of(claim)}
    driver, slash, pool = text.partition("/")
    is_after_driver = any(each[0] == driver for each in known) and not any(each[1] == text for each in known)
    return (driver, pool) if slash and is_after_driver else ("", text)


def _columns(question: Question) -> tuple[Column, ...]:
    most = None if question.style.wide else _MOST_NAMED

    def devices(item: "Holder") -> Cell:
        names = [
            f"{each.pool}/{each.device}{_share(each.consumed)}{'' if each.is_published else ' (gone)'}"
            for each in item.devices
        ]
        return names_cell(names, most)

    def pods(item: "Holder") -> Cell:
        names = [each.name if each.kind == "Pod" else f"{each.kind}/{each.name}" for each in item.consumers]
        return names_cell(names, most)

    return (
        Column("CLAIM", lambda item: f"{item.namespace}/{item.name}"),
        Column("DEVICES", devices, is_cut=True),
        Column("NODE", lambda item: item.node or "-", is_dropped=True),
        Column("PODS", pods, is_cut=True),
        Column("USE", _use),
        Column("SINCE", _since, is_dropped=True),
    )


def _use(item: "Holder") -> Cell:
    use = "deleting" if item.is_being_deleted and item.is_idle else item.use.value
    if item.is_idle:
        return Cell(f"{use}, idle", Colour.WARNING)
    return Cell(use, _COLOURS.get(item.use.value))


def _since(item: "Holder") -> str:
    from dra_operator.api.text import human_duration

    since = "<unknown>" if item.age_seconds is None else human_duration(item.age_seconds)
    return f"<{since}" if item.is_since_creation else since


def _share(consumed: tuple[str, ...]) -> str:
    return f" ({', '.join(consumed)})" if consumed else ""


def _asides(report: "HolderReport", text: str, code: int, held: str) -> list[str]:
    is_user = KINDS.get(text.partition("/")[0].lower()) in ("Pod", "Namespace", "DeviceReservation")
    where = f" of {text}" if text and not text.startswith("device") and not is_user else ""
    held = f"{held} by {text}" if is_user else held
    if is_user and not report.holders and code != CANNOT_SAY:
        return [f"{text} holds none of {count(report.devices, 'device')}"]
    if not report.holders:
        if held != "held" and code != CANNOT_SAY:
            return [f"none of {count(report.devices, 'device')}{where} is {held}"]
        whom = "no claim that can be read" if code == CANNOT_SAY else "nobody"
        return [f"{whom} holds any of {count(report.devices, 'device')}{where}"]
    there = [
        item
        for item in report.holders
        if any(each.is_published and not each.is_admin_access for each in item.devices)
    ]
    number = len(_paths(there, is_published=True))
    found = f"{number:,} of {count(report.devices, 'device')}{where} {held}"
    if there:
        found += f", by {_claims(there)}"
    gone = [item for item in report.holders if not all(each.is_published for each in item.devices)]
    return [*([found] if there or report.devices else []), *_not_published(gone)]


def _not_published(gone: "Sequence[Holder]") -> list[str]:
    """Return a line about the claims that hold devices which are not published."""
    if not gone:
        return []
    names = names_cell([f"{item.namespace}/{item.name}" for item in gone], _MOST_NAMED)
    verb = "holds" if len(gone) == 1 else "hold"
    what = f"{_claims(gone)} {verb} devices that are not published ({names.text})"
    return [f"{what}: `kubectl dra audit` says what to do"]


def _claims(holders: "Sequence[Holder]") -> str:
    return count(len(holders), "claim")


def _paths(holders: "Sequence[Holder]", *, is_published: bool = False) -> set[str]:
    """Return the devices that some claims hold, or only those of them that are published."""
    return {
        each.path
        for item in holders
        for each in item.devices
        if (each.is_published or not is_published) and not each.is_admin_access
    }
