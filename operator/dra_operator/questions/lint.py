"""Lint of selectors and derived attributes of classes, claims and templates, held against what is published.

`selector_checks` and `derived_checks` say what is wrong, and here it gets the object and the field that it is about.
Source: docs/library.md, "Lint".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dra_operator.allocator import Decider
from dra_operator.api.names import POD_CLAIM_NAME
from dra_operator.api.text import printable
from dra_operator.api.types import (
    DerivedAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_operator.cel.run.meter import COST_LIMIT
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions.answers import Conclusion, conclude
from dra_operator.questions.attribute_use import AttributeUse, count
from dra_operator.questions.derived_checks import DerivedChecker, DerivedFacts
from dra_operator.questions.manifests import Source
from dra_operator.questions.partial import LINT
from dra_operator.questions.selector_checks import (
    Issue,
    LintRule,
    SelectorChain,
    SelectorChecker,
    SelectorFacts,
    Severity,
    find_expressions,
)
from dra_operator.questions.state import ClusterState

KINDS: Final = ("DeviceClass", "ResourceClaimTemplate", "ResourceClaim")
"""The kinds that have selectors."""
_SEVERITIES: Final = tuple(Severity)


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong, or worth knowing: the object, the field, what it is and what to do about it."""

    rule: LintRule
    severity: Severity
    kind: str
    namespace: str
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        """Return it in one line: `DeviceClass "gpu": spec.selectors[0].cel.expression: matches none of 8 devices`."""
        full = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f'{self.kind} "{full}": {self.field}: {self.message}'


@dataclass(frozen=True, slots=True)
class SelectorReport:
    """A selector of an object, and what it does on published devices.

    `request` is the request, or `request/subrequest`, that the selector belongs to; empty for a class. It was `asked`
    about the devices that the selectors before it leave, `matched` some and `failed` on some. `reads` is as in
    `SelectorProgram`; `attributes` are those parts of it that devices may lack. `cost` is None if it does not compile.
    """

    kind: str
    namespace: str
    name: str
    field: str
    request: str
    expression: str
    asked: int
    matched: int
    failed: int
    reads: tuple[str, ...] | None
    attributes: tuple[AttributeUse, ...]
    cost: int | None
    cost_limit: int = COST_LIMIT


@dataclass(frozen=True, slots=True)
class DerivedAttributeReport:
    """A derived attribute of a request, and what it does on published devices.

    It was `asked` about the devices that the selectors of the request leave, `failed` on some, and has so many
    different `values` on the others. The rest is as in `SelectorReport`.
    """

    kind: str
    namespace: str
    name: str
    field: str
    request: str
    attribute: str
    expression: str
    asked: int
    failed: int
    values: int
    reads: tuple[str, ...] | None
    cost: int | None
    cost_limit: int = COST_LIMIT


@dataclass(frozen=True, slots=True)
class LintReport:
    """What there is to say of the selectors of some objects, against so many published devices; the worst comes first.

    `errors` are lines about objects that cannot be read; `unread` are the kinds that could not be read, each with the
    reason: what depends on them is not said. `partial` has those of which objects were to be checked as well.
    """

    devices: int
    selectors: tuple[SelectorReport, ...]
    findings: tuple[LintFinding, ...]
    errors: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    derived_attributes: tuple[DerivedAttributeReport, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether there is nothing worse than a note."""
        is_bad = any(item.severity is not Severity.NOTE for item in self.findings)
        return conclude(is_yes=not is_bad, is_partial=bool(self.partial) and not is_bad)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the selectors of a chain stand in an object: the field with the list, and the request.

    Behind them come the derived attributes of the request.
    """

    path: str
    request: str
    chain: SelectorChain
    derived: tuple[DerivedAttribute, ...] = ()


def lint(source: Source, cluster: ClusterState | None = None) -> LintReport:
    """Return what there is to say of the selectors of some classes, claims and templates, given as objects or files.

    They are held against what a cluster publishes, over whose objects they lie; without one, against what the source
    itself publishes. Claims that were made for pods are left to their templates.
    """
    given = ClusterState.load(source)
    if cluster is None:
        return lint_objects(given, find_lintable(given))
    over = cluster.with_contents(cluster.objects.overlaid(given.objects))
    return lint_objects(over, find_lintable(given))


def lint_objects(
    state: ClusterState,
    records: Iterable[ObjectRecord],
    kinds: Iterable[str] = (),
) -> LintReport:
    """Return what there is to say of the selectors of some classes, claims and templates, against a state.

    Objects of other kinds have no selectors and are passed over. `kinds` are those of which all were asked
    about. Raises QuestionError if slices or classes were not read.
    """
    partial = LINT.find_missing(state.unread, kinds)
    checker = SelectorChecker.from_allocator(state.allocators[Decider.KUBE_SCHEDULER])
    selectors: list[SelectorReport] = []
    findings: list[LintFinding] = []
    derived = DerivedChecker(checker)
    derived_reports: list[DerivedAttributeReport] = []
    for record in records:
        metadata = record.obj.metadata
        about = type(record.obj).__name__, metadata.namespace, metadata.name
        for place in _find_places(record.obj):
            checked = checker.check(place.chain)
            fields = [
                f"{place.path}.selectors[{number}].cel.expression" for number in range(len(checked.facts))
            ]
            for at, expression, facts in zip(fields, place.chain.expressions, checked.facts, strict=True):
                selectors.append(_selector_report(about, at, place.request, expression, facts))
            for issue in checked.issues:
                at = f"{place.path}.deviceClassName" if issue.number is None else fields[issue.number]
                findings.append(_finding(issue, about, at))
            for number, item in enumerate(place.derived):
                at = f"{place.path}.derivedAttributes[{number}].expression"
                found = derived.check(number, item, checked.selected)
                derived_reports.append(_derived_report(about, at, place.request, item, found.facts))
                findings += [_finding(issue, about, at) for issue in found.issues]
    findings.sort(key=lambda item: _SEVERITIES.index(item.severity))
    unread = tuple(f"{kind}: {why}" for kind, why in sorted(state.unread.items()))
    return LintReport(
        count(checker.published),
        tuple(selectors),
        tuple(findings),
        tuple(state.errors),
        unread,
        tuple(derived_reports),
        partial,
    )


def _finding(issue: Issue, about: tuple[str, str, str], path: str) -> LintFinding:
    return LintFinding(issue.rule, issue.severity, *about, path, printable(issue.message))


def _selector_report(
    about: tuple[str, str, str], path: str, request: str, expression: str, facts: SelectorFacts
) -> SelectorReport:
    return SelectorReport(
        *about,
        path,
        request,
        expression,
        facts.asked,
        facts.matched,
        facts.failed,
        facts.reads,
        facts.attributes,
        facts.cost,
    )


def _derived_report(
    about: tuple[str, str, str], path: str, request: str, item: DerivedAttribute, facts: DerivedFacts
) -> DerivedAttributeReport:
    return DerivedAttributeReport(
        *about,
        path,
        request,
        item.name,
        item.expression,
        facts.asked,
        facts.failed,
        facts.values,
        facts.reads,
        facts.cost,
    )


def find_lintable(state: ClusterState) -> list[ObjectRecord]:
    """Return the objects of a state that have selectors; of claims those that no pod's template has made."""
    return [
        record
        for kind in KINDS
        for record in state.objects.of_kind(kind)
        if kind != "ResourceClaim" or POD_CLAIM_NAME not in record.obj.metadata.annotations
    ]


def _find_places(obj: object) -> Iterator[_Place]:
    match obj:
        case DeviceClass():
            chain = SelectorChain("", find_expressions(obj), is_new=not obj.metadata.uid)
            yield _Place("spec", "", chain)
        case ResourceClaim():
            yield from _find_requests(obj.spec.devices, "spec.devices", is_new=not obj.metadata.uid)
        case ResourceClaimTemplate():
            devices = obj.spec.spec.devices
            yield from _find_requests(devices, "spec.spec.devices", is_new=not obj.metadata.uid)
        case _:
            pass


def _find_requests(devices: DeviceClaim, path: str, *, is_new: bool) -> Iterator[_Place]:
    for number, request in enumerate(devices.requests):
        at = f"{path}.requests[{number}]"
        parts: list[tuple[str, str, ExactDeviceRequest | DeviceSubRequest]] = []
        if request.exactly is not None:
            parts.append((f"{at}.exactly", request.name, request.exactly))
        parts += [
            (f"{at}.firstAvailable[{index}]", f"{request.name}/{item.name}", item)
            for index, item in enumerate(request.first_available)
        ]
        for place, name, item in parts:
            expressions = tuple(each.cel.expression for each in item.selectors if each.cel is not None)
            chain = SelectorChain(item.device_class_name, expressions, is_new)
            yield _Place(place, name, chain, item.derived_attributes)
