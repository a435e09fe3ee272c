"""Checks of selectors: what those of a class, or of a request behind its class, do on published devices.

A selector is asked about the devices that the selectors before it leave, as in Kubernetes. All facts are evaluations on
published devices, on copies of them that lack one attribute, or on a device of a driver that nobody means.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dra_operator.allocator import Allocator
from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.failures import (
    describe_failure,
    find_driver_meant,
    in_class,
    in_request,
    is_type_failure,
)
from dra_operator.allocator.matching.selectors import SelectorAnswers, SelectorCache
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.likeness import near_name, near_object
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceClass
from dra_operator.cel import CelError, Environment, PreparedDevice, compile_selector
from dra_operator.cel.advice.diagnostics import ADVICE, describe, mistaken_texts
from dra_operator.cel.device import full_name
from dra_operator.cel.run.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES
from dra_operator.explain.comparison import Comparison, conjuncts, find_literals, read, reading
from dra_operator.explain.pools import PublishedSlices
from dra_operator.inventory import Slice, bits
from dra_operator.questions.attribute_use import (
    MISSING_KEY,
    TABLES,
    AttributeUse,
    AttributeUses,
    Devices,
    ask,
    count,
)

_NEW: Final = Environment(expressions="new")
_FOREIGN: Final = PreparedDevice("driver.invalid", False, {}, {}, None)
"""A device of a driver that nobody means, without attributes."""
_DRIVER: Final = frozenset(("driver",))
_MOST_DETAILS: Final = 3


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
    """The expression does not compile, or holds a quantity or version that is none."""
    TOO_COMPLEX = "TooComplex"
    """It can cost more, or is longer, than the API server admits; as a note: it can cost more than half of that."""
    FAILS = "Fails"
    """It fails on devices, neither for a missing attribute nor for a type."""
    UNGUARDED_ATTRIBUTE = "UnguardedAttribute"
    """It reads what devices lack, or those of another driver would lack, and does not guard it."""
    TYPE_CLASH = "TypeClash"
    """It compares an attribute with a value of another type, or devices have the attribute in several types."""
    UNKNOWN_NAME = "UnknownName"
    """It names an attribute, a capacity or a driver that no device has."""
    MATCHES_NONE = "MatchesNone"
    """It matches none of the devices that it is asked about."""
    MATCHES_ALL = "MatchesAll"
    """It matches all of the devices that it is asked about, so it excludes none."""
    CLASS_NOT_FOUND = "ClassNotFound"
    """The request names a class that does not exist."""
    UNFINISHED = "Unfinished"
    """It takes so long that not all devices were asked."""


@dataclass(frozen=True, slots=True)
class SelectorChain:
    """The selectors of a class, or those of a request, which are asked after the ones of its class.

    `class_name` is that of the request's class, and empty for a class. `is_new`: no API server has taken them yet.
    """

    class_name: str
    expressions: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong, or worth knowing, with a selector of a chain by its number; None is the class of the request."""

    rule: LintRule
    severity: Severity
    number: int | None
    message: str


@dataclass(frozen=True, slots=True)
class SelectorFacts:
    """What a selector does: on how many of the devices that it was `asked` about it `matched`, and `failed`.

    `reads` and `cost` are None if it does not compile, `reads` also if it may read any part of a device.
    """

    asked: int
    matched: int
    failed: int
    reads: tuple[str, ...] | None
    attributes: tuple[AttributeUse, ...]
    cost: int | None


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """The facts of each selector of a chain, what is wrong with it, and the devices that all of it selects.

    These are None if not all devices could be asked.
    """

    facts: tuple[SelectorFacts, ...]
    issues: tuple[Issue, ...]
    selected: Devices | None


@dataclass(slots=True)
class SelectorChecker:
    """Checks selectors against what is published. Chains that are equal are checked once.

    Each chain has the time that an allocator gives to one claim.
    """

    classes: Mapping[str, DeviceClass]
    published: Devices
    selectors: SelectorCache
    limits: Limits
    clock: Callable[[], float]
    _uses: AttributeUses = field(init=False)
    _checked: dict[SelectorChain, CheckedChain] = field(default_factory=dict)
    _of_class: dict[str, Devices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._uses = AttributeUses(self.selectors)

    @classmethod
    def from_allocator(cls, allocator: Allocator) -> "SelectorChecker":
        """Return a checker for what an allocator sees, which shares its answers."""
        allocator.refresh()
        inventory = allocator.inventory
        slices = PublishedSlices(inventory, allocator.availability.views)
        published = tuple([(slice_, slice_.every) for slice_ in slices if slice_.every])
        limits = Limits(None, allocator.limits.seconds)
        selectors = allocator.candidates.selectors
        return cls(inventory.classes, published, selectors, limits, allocator.clock)

    def check(self, chain: SelectorChain) -> CheckedChain:
        """Return what there is to say of a chain."""
        found = self._checked.get(chain)
        if found is None:
            found = self._checked[chain] = _Check(self, chain, self._uses).run()
        return found

    def new_budget(self) -> Budget:
        """Return the time for one chain."""
        budget = self.selectors.budget = Budget(self.limits, self.clock)
        return budget

    def devices_in_class(self, name: str, budget: Budget) -> Devices:
        """Return the devices of a class. Raises AbortedError if the time is used up."""
        found = self._of_class.get(name)
        if found is None:
            found = self.published
            for expression in find_expressions(self.classes[name]):
                found, _ = ask(self.selectors.get(expression), found, budget)
            self._of_class[name] = found
        return found


def find_expressions(device_class: DeviceClass) -> tuple[str, ...]:
    """Return the selectors of a class."""
    return tuple(item.cel.expression for item in device_class.spec.selectors if item.cel is not None)


@dataclass(slots=True)
class _Check:
    """The check of one chain."""

    checker: SelectorChecker
    chain: SelectorChain
    uses: AttributeUses
    issues: list[Issue] = field(default_factory=list)
    facts: list[SelectorFacts] = field(default_factory=list)

    def run(self) -> CheckedChain:
        chain, budget = self.chain, self.checker.new_budget()
        selected: Devices | None = None
        try:
            devices = self._find_asked(budget)
            for number, expression in enumerate(chain.expressions):
                devices = self._check(number, expression, devices, budget)
            selected = devices
            self._check_other_drivers()
        except AbortedError:
            number = len(self.facts)
            if number < len(chain.expressions):
                text = "not all devices could be asked in the time that a claim has: write it more simply"
                self._add(LintRule.UNFINISHED, Severity.WARNING, number, text)
            for expression in chain.expressions[number:]:
                self.facts.append(self._untried(expression))
        return CheckedChain(tuple(self.facts), tuple(self.issues), selected)

    def _add(self, rule: LintRule, severity: Severity, number: int | None, message: str) -> None:
        self.issues.append(Issue(rule, severity, number, message))

    def _find_asked(self, budget: Budget) -> Devices:
        """Return the devices that the first selector is asked about."""
        checker, name = self.checker, self.chain.class_name
        if not name:
            return checker.published
        if name not in checker.classes:
            near = near_object(name, checker.classes)
            hint = f'; did you mean "{near}"?' if near else ""
            text = f"device class {name} does not exist{hint}"
            self._add(LintRule.CLASS_NOT_FOUND, Severity.ERROR, None, text)
            return ()
        devices = checker.devices_in_class(name, budget)
        if checker.published and not devices:
            text = f"no published device is in class {name}, so the selectors of the request were not asked"
            self._add(LintRule.MATCHES_NONE, Severity.WARNING, None, text)
        return devices

    def _check(self, number: int, expression: str, devices: Devices, budget: Budget) -> Devices:
        """Check a selector and return the devices that it leaves for those after it."""
        answers = self.checker.selectors.get(expression)
        if answers.program is None:
            assert answers.error is not None
            self._add(LintRule.INVALID, Severity.ERROR, number, describe(expression, answers.error))
            self.facts.append(SelectorFacts(count(devices), 0, count(devices), None, (), None))
            return ()
        matched, failed = ask(answers, devices, budget)
        uses = self.uses.find(expression, devices, budget)
        reads, cost = answers.program.reads, answers.program.program.estimate().high
        numbers = count(devices), count(matched), count(failed)
        self._check_text(number, expression, cost)
        if failed:
            self._describe_failures(number, answers, failed, numbers[0])
        self._check_types(number, expression, uses)
        self._check_names(number, answers, devices, uses)
        if devices and not matched:
            self._describe_none(number, answers, devices, failed, budget)
        elif numbers[1] == numbers[0] > 1 and reads != _DRIVER:
            text = f"matches all {self._asked(number, numbers[0])}, so it excludes none"
            self._add(LintRule.MATCHES_ALL, Severity.NOTE, number, text)
        names = None if reads is None else tuple(sorted(reads))
        self.facts.append(SelectorFacts(*numbers, names, uses, cost))
        return matched

    def _untried(self, expression: str) -> SelectorFacts:
        try:
            program = compile_selector(expression).program
        except CelError:
            return SelectorFacts(0, 0, 0, None, (), None)
        reads = program.reads()
        names = None if reads is None else tuple(sorted(reads))
        return SelectorFacts(0, 0, 0, names, (), program.estimate().high)

    # --- the text

    def _check_text(self, number: int, expression: str, cost: int) -> None:
        self.issues += check_text(number, expression, cost)
        if self.chain.is_new:
            try:
                compile_selector(expression, _NEW)
            except CelError as error:
                text = f"the API server does not admit it: {describe(expression, error, environment=_NEW)}"
                self._add(LintRule.INVALID, Severity.ERROR, number, text)

    # --- failures

    def _describe_failures(self, number: int, answers: SelectorAnswers, failed: Devices, asked: int) -> None:
        """Add what goes wrong on devices, once for each rule with the first device that it is about."""
        source = in_request("", "") if self.chain.class_name else in_class("", "")
        counts = Counter[LintRule]()
        texts: dict[LintRule, str] = {}
        for slice_, those, rule in self._classify(answers, failed):
            counts[rule] += those.bit_count()
            if rule not in texts:
                index = bits.lowest(those)
                how = describe_failure(answers, source, number, slice_, index)
                texts[rule] = f"{slice_.path(index)}: {how}"
        for rule, text in texts.items():
            devices = f"{counts[rule]} of {asked} device{'s' if asked != 1 else ''}"
            self._add(rule, Severity.ERROR, number, f"fails on {devices}: {text}")

    def _classify(self, answers: SelectorAnswers, failed: Devices) -> Iterator[tuple[Slice, int, LintRule]]:
        """Yield the devices of each slice on which a selector fails, by the rule that this is about."""
        known: dict[object, list[tuple[int, LintRule]]] = {}
        for slice_, those in failed:
            key = answers.failure_key(slice_, those)
            rules = known.get(key)
            if rules is None:
                rules = known[key] = self._classify_slice(answers, slice_, those)
            for equal, rule in rules:
                yield slice_, equal, rule

    def _classify_slice(
        self, answers: SelectorAnswers, slice_: Slice, failed: int
    ) -> list[tuple[int, LintRule]]:
        assert answers.program is not None
        reads = answers.selection.reads
        found: dict[LintRule, int] = {}
        for device, equal in self.checker.selectors.kinds.find(reads, slice_, reads.key(slice_), failed):
            if not (here := equal & failed):
                continue
            try:
                answers.program.match(device)
            except CelError as error:
                rule = rule_of(error)
                found[rule] = found.get(rule, 0) | here
        return [(devices, rule) for rule, devices in found.items()]

    def _check_other_drivers(self) -> None:
        """Add the selector that would fail on devices of a driver that nobody means, if none fails on published ones.

        For a request, the selectors of its class come first.
        """
        chain, checker = self.chain, self.checker
        if any(fact.failed or fact.cost is None for fact in self.facts) or (
            chain.class_name and chain.class_name not in checker.classes
        ):
            return
        before = find_expressions(checker.classes[chain.class_name]) if chain.class_name else ()
        for number, expression in enumerate((*before, *chain.expressions), -len(before)):
            program = checker.selectors.get(expression).program
            if program is None:
                return
            try:
                if not program.match(_FOREIGN):
                    return
            except CelError as error:
                if number >= 0 and error.message.startswith(MISSING_KEY):
                    self._describe_other_drivers(number, expression, error)
                return

    def _describe_other_drivers(self, number: int, expression: str, error: CelError) -> None:
        name = error.message.removeprefix(MISSING_KEY)
        driver = find_driver_meant(expression)
        advice = f'begin with device.driver == "{driver}" &&' if driver else ADVICE
        where = "the class" if self.chain.class_name else "it"
        text = f"fails on a device without {name}, and {where} takes those of any driver: {advice}"
        self._add(LintRule.UNGUARDED_ATTRIBUTE, Severity.WARNING, number, text)

    # --- types and names

    def _check_types(self, number: int, expression: str, uses: Iterable[AttributeUse]) -> None:
        if any(issue.rule is LintRule.TYPE_CLASH and issue.number == number for issue in self.issues):
            # It fails for that, which says more.
            return
        by_name = {use.name: use for use in uses if use.table == "attributes"}
        told: set[str] = set()
        for part in conjuncts(expression):
            compared = read(part)
            if compared is None or compared.field.table != "attributes" or not compared.kind:
                continue
            use = by_name.get(f"{compared.field.domain}/{compared.field.name}")
            if use is not None and (text := _clash(compared, use)):
                told.add(use.name)
                self._add(LintRule.TYPE_CLASH, Severity.WARNING, number, text)
        for use in by_name.values():
            if len(use.types) > 1 and use.name not in told:
                types = listed([f"{item.type} on {item.devices}" for item in use.types])
                text = (
                    f"devices have {use.name} in several types ({types}); a comparison is about one of them"
                )
                self._add(LintRule.TYPE_CLASH, Severity.WARNING, number, text)

    def _check_names(
        self, number: int, answers: SelectorAnswers, devices: Devices, uses: Iterable[AttributeUse]
    ) -> None:
        published = find_names(devices)
        self.issues += [
            unknown_name(number, use.table, use.name, use.devices, published)
            for use in uses
            if not use.present and use.devices
        ]
        drivers = {slice_.driver for slice_, _ in self.checker.published}
        for literal in find_literals(answers.expression):
            if literal.field.table == "driver" and drivers and literal.text not in drivers:
                near = near_object(literal.text, drivers)
                hint = f'; did you mean "{near}"?' if near else f"; published are {listed(sorted(drivers))}"
                text = f"no device of driver {literal.text} is published{hint}"
                self._add(LintRule.UNKNOWN_NAME, Severity.WARNING, number, text)

    # --- devices that are not matched

    def _describe_none(
        self, number: int, answers: SelectorAnswers, devices: Devices, failed: Devices, budget: Budget
    ) -> None:
        failing = dict(failed)
        refused = [(slice_, those & ~failing.get(slice_, 0)) for slice_, those in devices]
        details = self._compare(answers.expression, tuple(each for each in refused if each[1]), budget)
        shown = [f"{text} on {times}" for text, times in details.most_common(_MOST_DETAILS)]
        if len(details) > _MOST_DETAILS:
            others = details.total() - sum(times for _, times in details.most_common(_MOST_DETAILS))
            shown.append(f"others on {others}")
        why = f" ({', '.join(shown)})" if shown else ""
        text = f"matches none of {self._asked(number, count(devices))}{why}{_value_meant(answers, devices)}"
        self._add(LintRule.MATCHES_NONE, Severity.WARNING, number, text)

    def _asked(self, number: int, devices: int) -> str:
        """Return the devices that a selector is asked about, in words."""
        text = f"{devices} device{'s' if devices != 1 else ''}"
        if number:
            return f"{text} that the selectors before it leave"
        return f"{text} in class {self.chain.class_name}" if self.chain.class_name else text

    def _compare(self, expression: str, refused: Devices, budget: Budget) -> Counter[str]:
        """Return what the first false part of an expression compared, with the number of devices it refused so."""
        details = Counter[str]()
        parts = conjuncts(expression)
        for part in parts:
            answers = self.checker.selectors.get(part)
            passed = dict(ask(answers, refused, budget)[0]) if len(parts) > 1 else {}
            compared = read(part) or reading(answers.program.reads if answers.program else None)
            for slice_, those in refused:
                if compared is None or not (here := those & ~passed.get(slice_, 0)):
                    continue
                details.update(compared.describe(slice_, here))
            refused = tuple(passed.items())
        return details


def check_text(number: int, expression: str, cost: int) -> Iterator[Issue]:
    """Yield what is wrong with an expression wherever it is evaluated, and whether the API server admits its cost."""
    for _, text in mistaken_texts(expression):
        yield Issue(LintRule.INVALID, Severity.ERROR, number, f"fails wherever this is evaluated: {text}")
    if (size := len(expression.encode(errors="surrogatepass"))) > MAX_BYTES:
        text = f"{size:,} bytes are more than the {MAX_BYTES:,} that the API server admits"
        yield Issue(LintRule.TOO_COMPLEX, Severity.ERROR, number, text)
    if cost > COST_LIMIT:
        text = f"can cost {cost:,}, more than the {COST_LIMIT:,} that the API server admits: write it more simply"
        yield Issue(LintRule.TOO_COMPLEX, Severity.ERROR, number, text)
    elif cost > COST_LIMIT // 2:
        text = f"can cost {cost:,}, {cost / COST_LIMIT:.0%} of what the API server admits"
        yield Issue(LintRule.TOO_COMPLEX, Severity.NOTE, number, text)


def unknown_name(
    number: int, table: str, name: str, devices: int, published: Mapping[str, set[str]]
) -> Issue:
    """Return that none of some devices has an attribute or a capacity, and what was probably meant."""
    other = TABLES[1 - TABLES.index(table)]
    near = near_name(name, published[table])
    if name in published[other]:
        kind = "a capacity" if other == "capacity" else "an attribute"
        domain, _, bare = name.partition("/")
        hint = f': it is {kind}, device.{other}["{domain}"].{bare}'
    else:
        hint = f'; did you mean "{near}"?' if near else ""
    severity = Severity.WARNING if hint else Severity.NOTE
    text = f"none of {devices} devices has {_singular(table)} {name}{hint}"
    return Issue(LintRule.UNKNOWN_NAME, severity, number, text)


def rule_of(error: CelError) -> LintRule:
    """Return what a failure on a device is about."""
    if error.message.startswith(MISSING_KEY):
        return LintRule.UNGUARDED_ATTRIBUTE
    return LintRule.TYPE_CLASH if is_type_failure(error) else LintRule.FAILS


def _clash(compared: Comparison, use: AttributeUse) -> str:
    """Return what is wrong with a comparison of an attribute that devices have in other types; nothing if none has."""
    others = [item for item in use.types if item.type != compared.kind]
    if not others:
        return ""
    types = listed([f"{item.type} on {item.devices}" for item in others])
    article = "an" if compared.kind == "int" else "a"
    return (
        f"{use.name} is {types} of {use.devices} devices, and compared with {article} {compared.kind}: "
        "these are never equal"
    )


def _value_meant(answers: SelectorAnswers, devices: Devices) -> str:
    """Return a clause with the text that was probably meant by one which no device has; nothing if none is like it."""
    for literal in find_literals(answers.expression):
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


def find_names(devices: Devices) -> dict[str, set[str]]:
    """Return the attributes and capacities of the slices of some devices, as `domain/name`."""
    found: dict[str, set[str]] = {table: set() for table in TABLES}
    for schema in {slice_.schema for slice_, _ in devices}:
        for table, names in zip(TABLES, (schema.attributes, schema.capacity), strict=True):
            found[table].update(full_name(name, schema.driver) for name in names)
    return found


def _singular(table: str) -> str:
    return "attribute" if table == "attributes" else "capacity"
