"""Lint of selectors and derived attributes of classes, claims and templates, held against what is published.

A selector is asked about the devices that the selectors before it leave, as in Kubernetes, and a derived attribute
about those that all selectors of its request leave. All facts are evaluations on published devices, or on a device of a
driver that nobody means. Source: docs/library.md, "Lint".
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError, Decider
from dra_operator.allocator.matching.selectors import (
    SelectorAnswers,
    SelectorCache,
    described,
    find_driver_meant,
)
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.names import POD_CLAIM_NAME
from dra_operator.api.text import did_you_mean, listed, near_name, near_object, printable
from dra_operator.api.types import DeviceClass, DeviceSelector, ResourceClaim, ResourceClaimTemplate
from dra_operator.cel.advice import ADVICE, DOMAIN_ADVICE, describe, mistaken_texts
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import (
    DerivedAttributeProgram,
    Selector,
    compile_derived_attribute,
    compile_selector,
)
from dra_operator.cel.run.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES
from dra_operator.cel.types.environment import Environment
from dra_operator.explain.comparison import find_literals, first_false
from dra_operator.explain.sentence import published_names
from dra_operator.explain.stages import Refusals, published_slices
from dra_operator.inventory import Slice, bits
from dra_operator.pods.edits import find_parts
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions.answers import LINT, UNFINISHED, Conclusion, conclude
from dra_operator.questions.manifests import Source
from dra_operator.questions.state import ClusterState

_KINDS: Final = ("DeviceClass", "ResourceClaimTemplate", "ResourceClaim")
Devices: TypeAlias = tuple[tuple[Slice, int], ...]
"""Some devices: a set of bits for each slice that has any of them."""
_Item = TypeVar("_Item", "ExpressionReport", "LintFinding")
_Program: TypeAlias = Selector | DerivedAttributeProgram
_Evaluate: TypeAlias = Callable[[PreparedDevice], object]
_Compile: TypeAlias = Callable[[str, Environment], _Program]
_NEW: Final = Environment(expressions="new")
_FOREIGN: Final = PreparedDevice("driver.invalid", False, {}, {}, None)
"""A device of a driver that nobody means, without attributes."""
_MISSING_KEY: Final = "no such key: "
_LEFT: Final = " that the selectors before it leave"


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The API server refuses the object, or an attempt to allocate ends with an error."""
    WARNING = "warning"
    """It selects nothing, or hardly what was meant; or it will fail once other devices are published."""
    NOTE = "note"
    """Worth knowing."""


class LintRule(StrEnum):
    """What a finding is about."""

    INVALID = "Invalid"
    """It does not compile, is not admitted, or fails on devices that have what it reads, as for the type of a value."""
    UNGUARDED_ATTRIBUTE = "UnguardedAttribute"
    """It reads what devices lack, or those of another driver would lack, and does not guard it."""
    UNKNOWN_NAME = "UnknownName"
    """It names an attribute, a capacity or a driver that no device has; or the request a class that does not exist."""
    MATCHES_NONE = "MatchesNone"
    """It matches none of the devices that it is asked about."""
    MATCHES_ALL = "MatchesAll"
    """It matches all of the devices that it is asked about, so it excludes none."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong, or worth knowing: the object, the field, what it is and what to do about it."""

    rule: LintRule
    severity: Severity
    field: str
    message: str
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it in one line: `DeviceClass "gpu": spec.selectors[0].cel.expression: matches none of 8 devices`."""
        if not self.kind:
            return self.message
        full = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f'{self.kind} "{full}": {self.field}: {self.message}'


@dataclass(frozen=True, slots=True)
class ExpressionReport:
    """A selector or a derived `attribute` of an object, and what it does on published devices.

    `request` is the request, or `request/subrequest`, that it belongs to; empty for a class. It was `asked` about
    devices, and `failed` on some. `found` is how many of them a selector matches, or how many different values a
    derived attribute has. `reads` is as in `SelectorProgram`. `cost` is None if it does not compile.
    """

    field: str
    attribute: str
    expression: str
    asked: int = 0
    found: int = 0
    failed: int = 0
    reads: tuple[str, ...] | None = None
    cost: int | None = None
    cost_limit: int = COST_LIMIT
    request: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Chain:
    """The selectors of a class; or those of a request, asked after the ones of its class, and what it derives by them.

    `class_name` is that of the request's class, and empty for a class. `is_new`: no API server has taken them yet.
    `derived` has names with expressions.
    """

    class_name: str
    expressions: tuple[str, ...]
    is_new: bool
    derived: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LintReport:
    """What there is to say of the selectors of some objects, against so many published devices; the worst comes first.

    `errors` are lines about objects that cannot be read; `unread` are the kinds that could not be read, each with the
    reason: what depends on them is not said. `partial` has those of which objects were to be checked as well, and the
    selectors that take too long to ask all devices.
    """

    devices: int
    selectors: tuple[ExpressionReport, ...]
    findings: tuple[LintFinding, ...]
    errors: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    derived_attributes: tuple[ExpressionReport, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether there is nothing worse than a note."""
        is_bad = any(item.severity is not Severity.NOTE for item in self.findings)
        return conclude(is_yes=not is_bad, is_partial=bool(self.partial) and not is_bad)


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


def describe_files(problems: Iterable[str], replaced: Iterable[str]) -> list[LintFinding]:
    """Return the findings that something of files cannot be read, or is not looked at, each of which a line says."""
    hint = "so this one was not checked: lint each folder by itself"
    return [
        *(LintFinding(LintRule.INVALID, Severity.ERROR, "", line) for line in problems),
        *(LintFinding(LintRule.INVALID, Severity.WARNING, "", f"{line}, {hint}") for line in replaced),
    ]


def lint_objects(
    state: ClusterState, records: Iterable[ObjectRecord], kinds: Iterable[str] = ()
) -> LintReport:
    """Return what there is to say of the selectors of some classes, claims and templates, against a state.

    Objects of other kinds have no selectors and are passed over. `kinds` are those of which all were asked
    about. Raises QuestionError if slices or classes were not read.
    """
    partial = list(LINT.find_missing(state.unread, kinds))
    allocator = state.allocators[Decider.KUBE_SCHEDULER]
    allocator.refresh()
    slices = published_slices(allocator.availability.views)
    published = tuple([(slice_, slice_.every) for slice_ in slices if slice_.every])
    known: dict[_Chain, _Check] = {}
    selectors: list[ExpressionReport] = []
    derived: list[ExpressionReport] = []
    findings: list[LintFinding] = []
    for record in records:
        own: list[tuple[str, LintFinding]] = []
        served = set[str]()
        for path, request, chain in _find_chains(record.obj):
            found = known[chain] = known.get(chain) or _Check(allocator, published, chain).run()
            placed = [replace(_placed(each, record, path), request=request) for each in found.reports]
            selectors += placed[: len(chain.expressions)]
            derived += placed[len(chain.expressions) :]
            own += [(request, _placed(each, record, path)) for each in found.findings]
            if all(each.found for each in found.reports[: len(chain.expressions)]):
                served.add(request.partition("/")[0])
            if not found.is_whole:
                name = f"{record.obj.metadata.namespace}/{record.obj.metadata.name}".removeprefix("/")
                partial.append(f"{type(record.obj).__name__} {name}: {path}: {UNFINISHED}")
        findings += [_as_alternative(each, request, served) for request, each in own]
    findings.sort(key=lambda item: tuple(Severity).index(item.severity))
    unread = tuple(f"{kind}: {why}" for kind, why in sorted(state.unread.items()))
    return LintReport(
        _count(published),
        tuple(selectors),
        tuple(findings),
        tuple(state.errors),
        unread,
        tuple(derived),
        tuple(partial),
    )


def _as_alternative(item: LintFinding, request: str, served: Collection[str]) -> LintFinding:
    """Return a finding; that an alternative matches nothing is worth a note where another one of its list does."""
    request, slash, _ = request.partition("/")
    is_expected = slash and item.rule is LintRule.MATCHES_NONE and request in served
    return replace(item, severity=Severity.NOTE) if is_expected else item


def _placed(item: _Item, record: ObjectRecord, path: str) -> _Item:
    """Return a report or a finding with its object, and the whole path of its field."""
    metadata = record.obj.metadata
    return replace(
        item,
        kind=type(record.obj).__name__,
        namespace=metadata.namespace,
        name=metadata.name,
        field=f"{path}.{item.field}",
    )


def find_lintable(state: ClusterState) -> list[ObjectRecord]:
    """Return the objects of a state that have selectors; of claims those that no pod's template has made."""
    return [
        record
        for kind in _KINDS
        for record in state.objects.of_kind(kind)
        if kind != "ResourceClaim" or POD_CLAIM_NAME not in record.obj.metadata.annotations
    ]


def _find_chains(obj: object) -> Iterator[tuple[str, str, _Chain]]:
    """Yield the chains of an object, each with the path of the field that holds it, and the request."""
    match obj:
        case DeviceClass():
            yield "spec", "", _Chain("", _find_expressions(obj.spec.selectors), is_new=not obj.metadata.uid)
            return
        case ResourceClaim():
            path, claim = "spec.devices", obj
        case ResourceClaimTemplate():
            path, claim = "spec.spec.devices", ResourceClaim(obj.metadata, obj.spec.spec)
        case _:
            return
    for part in find_parts({"": claim}):
        which = "exactly" if part.alternative is None else f"firstAvailable[{part.alternative}]"
        asked, expressions = part.asked, _find_expressions(part.asked.selectors)
        derived = tuple((each.name, each.expression) for each in asked.derived_attributes)
        chain = _Chain(asked.device_class_name, expressions, not claim.metadata.uid, derived)
        yield f"{path}.requests[{part.request}].{which}", part.path, chain


def _count(devices: Iterable[tuple[Slice, int]]) -> int:
    return sum([those.bit_count() for _, those in devices])


def _find_expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple(item.cel.expression for item in selectors if item.cel is not None)


@dataclass(slots=True)
class _Check:
    """The check of one chain, in the time that an allocator gives to one claim.

    Fields are those below the class or the request. Not `is_whole`: not all devices could be asked in time.
    """

    allocator: Allocator
    published: Devices
    chain: _Chain
    reports: list[ExpressionReport] = field(default_factory=list)
    findings: list[LintFinding] = field(default_factory=list)
    is_whole: bool = True

    @property
    def cache(self) -> SelectorCache:
        """The expressions that the allocator knows, with the time that is left."""
        return self.allocator.candidates.selectors

    def run(self) -> "_Check":
        """Check it, once, and return it."""
        limits = Limits(None, self.allocator.limits.seconds)
        self.cache.budget = Budget(limits, self.allocator.clock)
        selectors = len(self.chain.expressions)
        for number, expression in enumerate(self.chain.expressions):
            self._compile(f"selectors[{number}].cel.expression", "", expression, compile_selector)
        for number, each in enumerate(self.chain.derived):
            self._compile(f"derivedAttributes[{number}].expression", *each, compile_derived_attribute)
        try:
            devices = self._find_asked()
            if not self.chain.class_name and not selectors:
                self._check_selects_all(devices)
            for number, report in enumerate(self.reports):
                if number < selectors:
                    self.reports[number], devices = self._ask_selector(number, report, devices)
                else:
                    self.reports[number] = self._ask_derived(report, devices)
            self._check_other_drivers()
        except AbortedError:
            self.is_whole = False
        return self

    def _add(self, rule: LintRule, severity: Severity, path: str, message: str) -> None:
        self.findings.append(LintFinding(rule, severity, path, printable(message)))

    # --- the text

    def _compile(self, path: str, attribute: str, expression: str, compile_: _Compile) -> None:
        """Add what is known of an expression without devices, and what is wrong with its text."""
        report = ExpressionReport(path, attribute, expression)
        told: list[str] = []
        try:
            program = compile_(expression, self.cache.environment)
        except CelError as error:
            told = [describe(expression, error, environment=self.cache.environment)]
        else:
            cost = program.program.estimate().high
            reads = None if program.reads is None else tuple(sorted(program.reads))
            report = replace(report, reads=reads, cost=cost)
            told += [f"fails wherever this is evaluated: {text}" for _, text in mistaken_texts(expression)]
            told += self._find_refusals(expression, cost, compile_)
        for text in told:
            self._add(LintRule.INVALID, Severity.ERROR, path, text)
        self.reports.append(report)

    def _find_refusals(self, expression: str, cost: int, compile_: _Compile) -> Iterator[str]:
        """Yield why the API server does not admit an expression that compiles."""
        if (size := len(expression.encode(errors="surrogatepass"))) > MAX_BYTES:
            yield f"{size:,} bytes are more than the {MAX_BYTES:,} that the API server admits"
        if cost > COST_LIMIT:
            limit = f"the {COST_LIMIT:,} that the API server admits: write it more simply"
            yield f"can cost {cost:,}, more than {limit}"
        if self.chain.is_new:
            try:
                compile_(expression, _NEW)
            except CelError as error:
                text = describe(expression, error, environment=_NEW)
                yield f"the API server does not admit it: {text}"

    # --- what it does on devices

    def _check_selects_all(self, devices: Devices) -> None:
        """Add that a class without selectors takes the devices of several drivers."""
        if len(drivers := sorted({slice_.key[0] for slice_, _ in devices})) > 1:
            text = (
                f"is empty: the class takes {_devices(_count(devices))}, of all drivers ({listed(drivers)})"
            )
            self._add(LintRule.MATCHES_ALL, Severity.NOTE, "selectors", text)

    def _find_asked(self) -> Devices:
        """Return the devices that the first selector is asked about."""
        classes, name, path = self.allocator.inventory.classes, self.chain.class_name, "deviceClassName"
        if not name:
            return self.published
        if name not in classes:
            text = f"device class {name} does not exist{did_you_mean(near_object(name, classes))}"
            self._add(LintRule.UNKNOWN_NAME, Severity.ERROR, path, text)
            return ()
        devices = self.published
        for expression in _find_expressions(classes[name].spec.selectors):
            devices, _ = self._ask(self.cache.get(expression), devices)
        if self.published and not devices:
            text = f"no published device is in class {name}, so the selectors of the request were not asked"
            self._add(LintRule.MATCHES_NONE, Severity.WARNING, path, text)
        return devices

    def _ask(self, answers: SelectorAnswers, devices: Devices) -> tuple[Devices, Devices]:
        """Return which of some devices a selector selects, and on which it fails."""
        asked = [(slice_, *answers.ask(slice_, those, self.cache.budget)) for slice_, those in devices]
        matched = tuple([(slice_, those) for slice_, those, _ in asked if those])
        return matched, tuple([(slice_, those) for slice_, _, those in asked if those])

    def _ask_selector(
        self, number: int, report: ExpressionReport, devices: Devices
    ) -> tuple[ExpressionReport, Devices]:
        """Return what a selector does on devices, and those that it leaves for the selectors after it."""
        asked = _count(devices)
        if report.cost is None:
            return replace(report, asked=asked, failed=asked), ()
        answers = self.cache.get(report.expression)
        matched, failed = self._ask(answers, devices)
        report = replace(report, asked=asked, found=_count(matched), failed=_count(failed))
        assert answers.program is not None
        self._check_failure(report, answers.program.match, failed)
        self._check_names(report, devices)
        self._check_drivers(report)
        told = f"{_devices(asked)}{_LEFT if number or self.chain.class_name else ''}"
        if devices and not matched:
            why = self._describe_refused(report.expression, devices, dict(failed))
            text = f"matches none of {told}{why}{_value_meant(report.expression, devices)}"
            self._add(LintRule.MATCHES_NONE, Severity.WARNING, report.field, text)
        elif report.found == asked > 1 and report.reads != ("driver",):
            text = f"matches all {told}, so it excludes none"
            self._add(LintRule.MATCHES_ALL, Severity.NOTE, report.field, text)
        return report, matched

    def _ask_derived(self, report: ExpressionReport, devices: Devices) -> ExpressionReport:
        """Return what a derived attribute does on the devices that its request selects."""
        asked, expression = _count(devices), report.expression
        if report.cost is None:
            return replace(report, asked=asked, failed=asked)
        failed: list[tuple[Slice, int]] = []
        found: set[AttributeValue] = set()
        for slice_, those in devices:
            values = self.allocator.candidates.derived.values(expression, slice_, those, self.cache.budget)
            if failing := values.failed & those:
                failed.append((slice_, failing))
            found.update(value for value, alike in values.by_value.items() if alike & those)
        report = replace(report, asked=asked, found=len(found), failed=_count(failed))
        program = compile_derived_attribute(expression, self.cache.environment)
        self._check_failure(report, program.evaluate, failed)
        self._check_names(report, devices)
        return report

    def _check_failure(
        self, report: ExpressionReport, evaluate: _Evaluate, failed: Sequence[tuple[Slice, int]]
    ) -> None:
        """Add on how many devices an expression fails, and how on the first of them, which says what it is about."""
        for slice_, those in failed[:1]:
            index = bits.lowest(those)
            device = slice_.device(index)
            try:
                evaluate(prepare_device(slice_.driver, device))
            except CelError as error:
                is_missing = error.message.startswith(_MISSING_KEY)
                rule = LintRule.UNGUARDED_ATTRIBUTE if is_missing else LintRule.INVALID
                how = described(
                    report.expression, error, frozenset(report.reads or ()), slice_.driver, device
                )
                if DOMAIN_ADVICE in how and (driver := find_driver_meant(report.expression)):
                    how += f"; if only devices of that driver are meant, {_about_driver(driver)}"
                text = f"fails on {report.failed} of {_devices(report.asked)}: {slice_.path(index)}: {how}"
                self._add(rule, Severity.ERROR, report.field, text)

    def _check_other_drivers(self) -> None:
        """Add the selector that would fail on devices of a driver that nobody means, if none fails on published ones.

        For a request, the selectors of its class come first.
        """
        class_name, classes = self.chain.class_name, self.allocator.inventory.classes
        if class_name and class_name not in classes:
            return
        reports = self.reports[: len(self.chain.expressions)]
        if any(report.failed or report.cost is None for report in reports):
            return
        before = _find_expressions(classes[class_name].spec.selectors) if class_name else ()
        for number, expression in enumerate((*before, *self.chain.expressions), -len(before)):
            program = self.cache.get(expression).program
            try:
                if program is None or not program.match(_FOREIGN):
                    return
            except CelError as error:
                name = error.message.removeprefix(_MISSING_KEY)
                if number >= 0 and name != error.message:
                    driver = find_driver_meant(expression)
                    advice = _about_driver(driver) if driver else ADVICE
                    where = f"{'the class' if class_name else 'it'} takes those of any driver"
                    text = f"fails on a device without {name}, and {where}: {advice}"
                    self._add(LintRule.UNGUARDED_ATTRIBUTE, Severity.WARNING, reports[number].field, text)
                return

    # --- names

    def _check_names(self, report: ExpressionReport, devices: Devices) -> None:
        """Add what an expression reads that none of some devices has: guarded, it is the same for all of them."""
        published = published_names(devices)
        for path in report.reads or () if devices else ():
            table, _, name = path.partition("/")
            if path in published or not name:
                continue
            other = "capacity" if table == "attributes" else "attributes"
            names = {each.partition("/")[2] for each in published if each.startswith(table)}
            hint = did_you_mean(near_name(name, names))
            if f"{other}/{name}" in published:
                domain, _, bare = name.partition("/")
                hint = f': write device.{other}["{domain}"].{bare}'
            text = f"none of {_devices(report.asked)} has {table.removesuffix('s')} {name}{hint}"
            severity = Severity.WARNING if hint else Severity.NOTE
            self._add(LintRule.UNKNOWN_NAME, severity, report.field, text)

    def _check_drivers(self, report: ExpressionReport) -> None:
        drivers = {slice_.driver for slice_, _ in self.published}
        for literal in find_literals(report.expression):
            if literal.field.table == "driver" and drivers and literal.text not in drivers:
                hint = (
                    did_you_mean(near_object(literal.text, drivers))
                    or f"; published are {listed(sorted(drivers))}"
                )
                text = f"no device of driver {literal.text} is published{hint}"
                self._add(LintRule.UNKNOWN_NAME, Severity.WARNING, report.field, text)

    # --- devices that are not matched

    def _describe_refused(self, expression: str, devices: Devices, failed: dict[Slice, int]) -> str:
        """Return a clause with what an expression compared that is false for some devices and fails on others."""
        details = Counter[str]()
        for slice_, those in devices:
            refused = those & ~failed.get(slice_, 0)
            for text, count in first_false(self.cache, expression, slice_, refused, self.cache.budget):
                details[text] += count
        return Refusals(details=details).detail()


def _value_meant(expression: str, devices: Devices) -> str:
    """Return a clause with the text that was probably meant by one which no device has; nothing if none is like it."""
    for literal in find_literals(expression):
        if literal.kind != "string" or literal.field.table != "attributes":
            continue
        values = {
            value.value
            for slice_, _ in devices
            for column in literal.field.columns(slice_)
            for value in (column.values if column is not None else ())
            if isinstance(value, AttributeValue) and isinstance(value.value, str)
        }
        if literal.text not in values and (near := near_object(literal.text, values)):
            return f'; for {literal.field.name} "{literal.text}", did you mean "{near}"?'
    return ""


def _about_driver(driver: str) -> str:
    return f'begin with device.driver == "{driver}" &&'


def _devices(number: int) -> str:
    return f"{number} device{'s' if number != 1 else ''}"
