"""`kubectl dra impact`: which claims and pods a change hits, and which of them would fit elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, partial_lines, verb
from dra_operator.cli.kubectl.options import NAMESPACE_OF_CLAIMS, complete_subjects
from dra_operator.cli.kubectl.requests import ReadingError
from dra_operator.cli.kubectl.subjects import KINDS
from dra_operator.cli.kubectl.tables import (
    Cell,
    Colour,
    Column,
    Style,
    count,
    listing,
    names_cell,
    sentence,
    wrapped,
)
from dra_operator.questions.answers import DECISION, IMPACT, KindsRead

if TYPE_CHECKING:
    from dra_operator.questions.impact import ClaimImpact, ImpactReport

_REQUESTS = KindsRead(details=("ResourceClaimTemplate", "PodGroup"))
"""Whose requests fewer or more devices can serve."""
DEMAND = Demand.for_question(
    IMPACT,
    DECISION,
    _REQUESTS,
    required=("ResourceSlice", "DeviceClass", "Node"),
    engine="dra_operator.questions.impact",
)


_CHANGES: Final = (
    "node/NAME, driver/NAME, or a file with a DeviceTaintRule, DeviceClass, "
    "AllocationPolicy or DeviceMaintenance"
)


def _check_named(ctx: click.Context, param: click.Parameter, subject: str) -> str:  # noqa: ARG001 - click's
    if not subject and not ctx.resilient_parsing:
        raise click.UsageError(f"say what changes: {_CHANGES}")
    return subject


@verb(
    "impact",
    DEMAND,
    click.Argument(
        ["subject"],
        metavar="[node/NAME | driver/NAME | CHANGE.yaml]",
        default="",
        callback=_check_named,
        shell_complete=complete_subjects({"node/": "Node", "driver/": ""}),
    ),
    namespace=NAMESPACE_OF_CLAIMS,
)
def app(question: Question, *, subject: str) -> Answer:
    """Say which claims and pods a change hits, and which of them would fit elsewhere. Changes nothing.

    node/NAME drains a node, driver/NAME removes a driver with its slices, and a file has DeviceTaintRules,
    AllocationPolicies and DeviceMaintenances, or a DeviceClass, as they are to be applied. Exit code 0: nothing that is
    in use is hit; 1: something is; 2: it cannot be said.
    """
    from dra_operator.questions.impact import find_impact

    change, evicts_after = _change(question, subject)
    report = find_impact(question.cluster, **change)
    if evicts_after is not None:
        claims = tuple([_with_eviction(question, each, evicts_after) for each in report.claims])
        report = replace(report, claims=claims)
    columns = (
        Column("CLAIM", lambda claim: f"{claim.namespace}/{claim.name}"),
        Column("EFFECT", _effect),
        Column(
            "DEVICES",
            lambda claim: names_cell([device.partition("/")[2] for device in claim.devices]),
            is_cut=True,
        ),
        Column(
            "PODS", lambda claim: names_cell([pod.name for pod in claim.pods]), is_cut=True, is_dropped=True
        ),
        Column("FITS ELSEWHERE", lambda claim: _fits_cell(claim, is_partial=bool(report.partial))),
    )
    lines = listing(columns, report.claims, question.style)
    return Answer(
        "Impact",
        report,
        [*lines, *_reason_lines(question.style, report), *_request_lines(question.style, report)],
        CODES[report.conclusion],
        names=[f"resourceclaim.resource.k8s.io/{claim.name}" for claim in report.claims],
        asides=[*report.problems, *report.warnings, *partial_lines(report), *_summary(report)],
    )


def _with_eviction(question: Question, item: "ClaimImpact", seconds: int) -> "ClaimImpact":
    from dra_operator.kinds.maintenance_cards import find_pod, read_holder
    from dra_operator.questions.impact import Effect

    objects = question.cluster.objects
    claim = question.cluster.find_claim((item.namespace, item.name))
    record = None if claim is None else objects.records.get(("Pod", item.namespace, find_pod(claim) or ""))
    if claim is None or record is None or read_holder(claim, record.body).obstacle:
        return item
    return replace(item, effect=Effect.EVICTED, after_seconds=seconds)


def _change(question: Question, text: str) -> tuple[dict[str, Any], int | None]:
    """Return the change that is meant, for `find_impact`, and after how many seconds it evicts pods that it may.

    Raises UsageError, ReadingError.
    """
    kind, slash, name = text.partition("/")
    if slash and kind in ("node", "nodes", "driver", "drivers") and not Path(text).is_file():
        return {"drained_node" if kind.startswith("node") else "removed_driver": name}, None
    if hint := _hint(question, text):
        raise click.UsageError(hint)
    bodies = _bodies(text)
    kinds = [str(body.get("kind")) for body in bodies]
    if kinds == ["DeviceClass"]:
        return {"device_class": bodies[0]}, None
    if kinds == ["DeviceReservation"]:
        spec = bodies[0].get("spec") or {}
        raise ReadingError(
            f"{text}: a DeviceReservation takes free devices alone: kubectl dra headroom "
            f"template/{spec.get('resourceClaimTemplateName')} says how many copies fit"
        )
    if not kinds or not {*kinds} <= {"DeviceTaintRule", "AllocationPolicy", "DeviceMaintenance"}:
        has = ", ".join(kinds) or "nothing"
        raise ReadingError(
            f"{text}: has {has}: DeviceTaintRules, AllocationPolicies, DeviceMaintenances, or one DeviceClass, are a "
            "change"
        )
    rules = [rule for body in bodies for rule in _rules_of(question, text, body)]
    if not rules:
        raise ReadingError(f"{text}: nobody publishes a device that it names")
    specs = [body.get("spec") or {} for body in bodies if body.get("kind") == "DeviceMaintenance"]
    if len(bodies) > 1 and any(spec.get("drain") == "Evict" for spec in specs):
        raise ReadingError(
            f"{text}: has a DeviceMaintenance that evicts beside other changes: ask about it alone"
        )
    waits = [int(spec.get("evictAfterSeconds", 300)) for spec in specs if spec.get("drain") == "Evict"]
    return {"rules": rules}, min(waits, default=None)


def _rules_of(question: Question, path: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a rule as it is, and the rules that are made for a policy or a maintenance. Raises ReadingError."""
    from pydantic import ValidationError

    from dra_operator.kinds.allocation_policy import PolicySpec
    from dra_operator.kinds.device_maintenance import read_maintenance
    from dra_operator.kinds.maintenance_cards import find_named_cards
    from dra_operator.kinds.maintenance_plan import build_rule

    if body.get("kind") == "DeviceTaintRule":
        return [body]
    try:
        if body.get("kind") == "DeviceMaintenance":
            metadata = {"name": "", **(body.get("metadata") or {}), "uid": "new"}
            own = read_maintenance({**body, "metadata": metadata})
            cards = find_named_cards(own, question.cluster.inventory)
            keys = dict.fromkeys(key for card in cards for key in card.devices)
            return [build_rule(own, key, "resource.k8s.io/v1") for key in keys]
        spec = PolicySpec.model_validate(body.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(each) for each in ("spec", *first["loc"]))
        raise ReadingError(f"{path}: {field}: {first['msg']}") from None
    return [entry.selector.rule("resource.k8s.io/v1") for entry in spec.devices]


def _hint(question: Question, text: str) -> str:
    """Return what to write instead of something that is neither a node or driver nor a file; nothing for a file."""
    if text == "-" or Path(text).exists():
        return ""
    word, slash, name = text.partition("/")
    kind = KINDS.get(word.partition(".")[0].lower()) if slash else None
    if kind in ("DeviceClass", "DeviceTaintRule"):
        return (
            f"{text}: a {kind} changes by a file: kubectl get {kind.lower()} {name} -o yaml > changed.yaml, "
            "edit it, and name it here"
        )
    if kind is not None:
        return f"{text}: a change is {_CHANGES}"
    if text in question.cluster.nodes:
        return f"an object is named KIND/NAME: write node/{text}"
    return ""


def _bodies(path: str) -> list[Mapping[str, Any]]:
    from dra_operator.questions.manifests import read, sort_found

    found, problems = sort_found(read([path]))
    if problems:
        raise ReadingError("\n".join(problems))
    return [each.body for each in found]


def _effect(claim: "ClaimImpact") -> Cell:
    after = f" after {claim.after_seconds} s" if claim.after_seconds else ""
    return Cell(f"{claim.effect.value}{after}", None if claim.effect.value == "kept" else Colour.WARNING)


def _fits_cell(claim: "ClaimImpact", *, is_partial: bool) -> Cell:
    if claim.fits_elsewhere is None:
        return Cell("cannot say", Colour.WARNING)
    if not claim.fits_elsewhere:
        return Cell("no", Colour.BAD)
    found = f"on {claim.new_node}" if claim.new_node else "yes"
    return Cell(f"{found}?" if is_partial else found, Colour.WARNING if is_partial else Colour.GOOD)


def _reason_lines(style: Style, report: "ImpactReport") -> list[str]:
    """Return why claims fit nowhere else, each reason once: in a table it would be cut."""
    claims: dict[str, list[str]] = {}
    for claim in report.claims:
        why = ": ".join(text for text in (claim.reason, claim.message) if text)
        if not claim.fits_elsewhere and why:
            claims.setdefault(why, []).append(f"{claim.namespace}/{claim.name}")
    return [line for why, names in claims.items() for line in sentence(f"{_first(names)}: {why}", style)]


def _first(names: list[str]) -> str:
    more = len(names) - 1
    return names[0] + (f" and {count(more, 'more claim')}" if more else "")


def _request_lines(style: Style, report: "ImpactReport") -> list[str]:
    texts = [
        f"{item.kind} {item.namespace}/{item.name}: request {item.request}: "
        f"{count(item.devices_after, 'device')} can serve it (free or not), {item.devices_before:,} before"
        for item in report.requests
        if item.is_decisive or style.wide
    ]
    return [line for text in texts for line in wrapped(text, style)]


def _summary(report: "ImpactReport") -> list[str]:
    pods = len({(claim.namespace, pod.kind, pod.name) for claim in report.claims for pod in claim.pods})
    stuck = sum(claim.fits_elsewhere is False for claim in report.claims)
    unknown = sum(claim.fits_elsewhere is None for claim in report.claims)
    hit = f"{report.change}: {count(report.devices, 'device')} hit, {report.used:,} of them in use"
    if not report.claims:
        return [hit]
    rest = f"{stuck:,} would not fit elsewhere" if stuck else "all would fit elsewhere"
    if unknown:
        rest = f"of {unknown:,} it cannot be said whether they would fit elsewhere"
    return [f"{hit}, by {count(len(report.claims), 'claim')} and {count(pods, 'pod')}; {rest}"]
