"""Checks of derived attributes: what their expressions do on the devices that a request selects.

A failure on any of them is fatal for the claim, once a constraint asks for the attribute.
Source: docs/dra-semantics 8.13.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.derived import DerivedAttributes
from dra_operator.allocator.matching.failures import described
from dra_operator.api.types import DerivedAttribute
from dra_operator.cel import CelError, DerivedAttributeProgram, compile_derived_attribute, prepare_device
from dra_operator.cel.advice.diagnostics import describe
from dra_operator.inventory import Slice, bits
from dra_operator.questions.attribute_use import TABLES, AttributeUses, Devices, count
from dra_operator.questions.selector_checks import (
    Issue,
    LintRule,
    SelectorChecker,
    Severity,
    check_text,
    find_names,
    rule_of,
    unknown_name,
)


@dataclass(frozen=True, slots=True)
class DerivedFacts:
    """What a derived attribute does: it was `asked` about devices, `failed` on some, and has `values` on the others.

    `reads` and `cost` are None if it does not compile, `reads` also if it may read any part of a device.
    """

    asked: int
    failed: int
    values: int
    reads: tuple[str, ...] | None
    cost: int | None


@dataclass(frozen=True, slots=True)
class CheckedDerived:
    """The facts of a derived attribute, and what is wrong with it."""

    facts: DerivedFacts
    issues: tuple[Issue, ...]


@dataclass(slots=True)
class DerivedChecker:
    """Checks derived attributes beside the selectors of their requests."""

    checker: SelectorChecker
    _derived: DerivedAttributes = field(init=False)
    _uses: AttributeUses = field(init=False)

    def __post_init__(self) -> None:
        self._derived = DerivedAttributes(self.checker.selectors)
        self._uses = AttributeUses(self.checker.selectors)

    def check(self, number: int, attribute: DerivedAttribute, devices: Devices | None) -> CheckedDerived:
        """Return what there is to say of a derived attribute, by its number in the request, on some devices.

        These are None if they could not be found in time.
        """
        expression = attribute.expression
        try:
            program = compile_derived_attribute(expression, self.checker.selectors.environment)
        except CelError as error:
            text = describe(expression, error, environment=self.checker.selectors.environment)
            asked = count(devices or ())
            issue = Issue(LintRule.INVALID, Severity.ERROR, number, text)
            return CheckedDerived(DerivedFacts(asked, asked, 0, None, None), (issue,))
        cost = program.program.estimate().high
        reads = None if program.reads is None else tuple(sorted(program.reads))
        issues = [*check_text(number, expression, cost)]
        budget = self.checker.new_budget()
        try:
            failed, values = self._evaluate(expression, devices or (), budget)
        except AbortedError:
            text = "not all devices could be asked in the time that a claim has: write it more simply"
            issues.append(Issue(LintRule.UNFINISHED, Severity.WARNING, number, text))
            return CheckedDerived(DerivedFacts(0, 0, 0, reads, cost), tuple(issues))
        issues += self._describe_failures(number, program, failed, count(devices or ()))
        issues += self._find_unknown_names(number, program, devices or ())
        facts = DerivedFacts(count(devices or ()), count(failed), values, reads, cost)
        return CheckedDerived(facts, tuple(issues))

    def _evaluate(self, expression: str, devices: Devices, budget: Budget) -> tuple[Devices, int]:
        """Return the devices on which an expression fails, and how many values it has on the others."""
        failed: list[tuple[Slice, int]] = []
        found: set[object] = set()
        for slice_, those in devices:
            values = self._derived.values(expression, slice_, those, budget)
            if failing := values.failed & those:
                failed.append((slice_, failing))
            found.update(value for value, alike in values.by_value.items() if alike & those)
        return tuple(failed), len(found)

    def _describe_failures(
        self, number: int, program: DerivedAttributeProgram, failed: Devices, asked: int
    ) -> Iterator[Issue]:
        """Yield what goes wrong on devices, once for each rule with the first device that it is about."""
        counts = Counter[LintRule]()
        texts: dict[LintRule, str] = {}
        for slice_, those in failed:
            for index, alike in self._kinds(program, slice_, those):
                device = slice_.device(index)
                try:
                    program.evaluate(prepare_device(slice_.driver, device))
                except CelError as error:
                    rule = rule_of(error)
                    counts[rule] += alike
                    if rule not in texts:
                        how = described(program.expression, error, program.reads, slice_.driver, device)
                        texts[rule] = f"{slice_.path(index)}: {how}"
        for rule, text in texts.items():
            devices = f"{counts[rule]} of {asked} device{'s' if asked != 1 else ''}"
            yield Issue(rule, Severity.ERROR, number, f"fails on {devices} that the request selects: {text}")

    def _kinds(
        self, program: DerivedAttributeProgram, slice_: Slice, devices: int
    ) -> Iterator[tuple[int, int]]:
        """Yield one of the devices of each kind that an expression can tell apart, and how many there are of it."""
        selectors = self.checker.selectors
        reads = selectors.field_set(program.reads)
        for _, equal in selectors.kinds.find(reads, slice_, reads.key(slice_), devices):
            if here := equal & devices:
                yield bits.lowest(here), here.bit_count()

    def _find_unknown_names(
        self, number: int, program: DerivedAttributeProgram, devices: Devices
    ) -> Iterator[Issue]:
        """Yield what it reads that no device has: guarded, it has one value on all of them."""
        asked = count(devices)
        published = find_names(devices)
        for path in sorted(program.reads or ()) if asked else ():
            table, _, name = path.partition("/")
            if table in TABLES and not self._uses.count_types(path, devices):
                yield unknown_name(number, table, name, asked, published)
