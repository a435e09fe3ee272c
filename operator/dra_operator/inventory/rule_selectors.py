"""Selectors of taint rules: which devices a DeviceTaintRule of v1alpha3 means by a class and by CEL.

Both are asked about each published device. One on which an expression fails gets no taint; a rule of which anything
cannot be evaluated at all, or whose class is missing, taints nothing.
Source: ResourceSlice tracker of Kubernetes 1.33 and 1.34 (docs/dra-semantics 5.2); later versions have neither field.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from dra_operator.api.types import DeviceClass, DeviceSelector, DeviceTaint, DeviceTaintRule
from dra_operator.cel.device import prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.inventory import bits
from dra_operator.inventory.slices import Slice
from dra_operator.inventory.taints import names_device, touches

if TYPE_CHECKING:
    # The compiler is imported for rules that have expressions, which are few.
    from dra_operator.cel.program import Selector

_SELECTORS: Final = "spec.deviceSelector.selectors"
_CLASS: Final = "spec.deviceSelector.deviceClassName"
_NOTHING: Final = "the rule taints nothing"


class _UnusableRuleError(Exception):
    """A rule taints nothing; the text names the field, what is wrong and what comes of it."""


class _Source(NamedTuple):
    """An expression, compiled, and where it stands."""

    title: str
    expression: str
    selector: "Selector"


@dataclass(slots=True)
class _Rule:
    """What one rule selects by; `problem` says why it selects nothing."""

    class_name: str | None
    sources: tuple[_Source, ...] = ()
    problem: str = ""
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    """By the name of the slice, how an expression fails on its first device, by the title of the expression."""


@dataclass(slots=True)
class RuleSelectors:
    """The class and the expressions of each rule that has any; most have none."""

    classes: Mapping[str, DeviceClass]
    _rules: dict[str, _Rule] = field(default_factory=dict)

    def put(self, rule: DeviceTaintRule) -> None:
        """Compile what a rule selects by, again if its class has changed."""
        name, selector = rule.metadata.name, rule.spec.device_selector
        self._rules.pop(name, None)
        if selector is None or (selector.device_class_name is None and not selector.selectors):
            return
        found = self._rules[name] = _Rule(selector.device_class_name)
        try:
            found.sources = (*self._of_class(selector.device_class_name), *_compiled(selector.selectors))
        except _UnusableRuleError as error:
            found.problem = str(error)

    def remove(self, name: str) -> None:
        """Forget a rule."""
        self._rules.pop(name, None)

    def forget_slice(self, name: str) -> None:
        """Forget on which devices of a slice expressions fail."""
        for rule in self._rules.values():
            rule.failures.pop(name, None)

    def of_class(self, name: str) -> list[str]:
        """Return the names of the rules that select by a class."""
        return [key for key, rule in self._rules.items() if rule.class_name == name]

    def taints_in_force(
        self, slice_: Slice, rules: Sequence[DeviceTaintRule]
    ) -> tuple[tuple[DeviceTaint, ...], ...]:
        """Return the taints in force, a tuple a device: the published ones, then those of rules, sorted by name.

        Source: upstream's ResourceSlice tracker, which appends without removing duplicates.
        """
        matching = [rule for rule in rules if touches(rule, slice_.driver, slice_.pool)]
        published = tuple(fields.taints for fields in slice_.device_fields)
        if not matching:
            return published
        tainted = [(rule.spec.taint, self.tainted(rule, slice_)) for rule in matching]
        return tuple(
            taints + tuple(taint for taint, devices in tainted if devices >> index & 1)
            for index, taints in enumerate(published)
        )

    def tainted(self, rule: DeviceTaintRule, slice_: Slice) -> int:
        """Return which devices of a slice a rule taints."""
        if not touches(rule, slice_.driver, slice_.pool):
            return 0
        named = bits.from_flags([names_device(rule, name) for name in slice_.names])
        return named & self.selected(rule.metadata.name, slice_)

    def selected(self, name: str, slice_: Slice) -> int:
        """Return which devices of a slice a rule selects by class and expressions: all, if it has neither."""
        rule = self._rules.get(name)
        if rule is None:
            return slice_.every
        rule.failures.pop(slice_.name, None)
        if rule.problem:
            return 0
        from dra_operator.cel.advice import describe  # noqa: PLC0415

        selected, failures = slice_.every, dict[str, str]()
        devices = [prepare_device(slice_.driver, slice_.device(index)) for index in bits.each(slice_.every)]
        for source in rule.sources:
            for index in bits.each(selected):
                try:
                    if source.selector.match(devices[index]):
                        continue
                except CelError as error:
                    text = describe(source.expression, error, devices[index])
                    failures.setdefault(source.title, f"{slice_.path(index)}: {text}")
                selected &= ~(1 << index)
        if failures:
            rule.failures[slice_.name] = failures
        return selected

    def problem(self, name: str) -> str:
        """Return why a rule selects nothing, or an empty text."""
        rule = self._rules.get(name)
        return rule.problem if rule is not None else ""

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name of a rule, what is wrong with what it selects by, and with which part of it."""
        for name, rule in self._rules.items():
            if rule.problem:
                yield name, rule.problem, ""
            first: dict[str, str] = {}
            for _, failures in sorted(rule.failures.items(), reverse=True):
                first |= failures
            for title, text in sorted(first.items()):
                yield name, f"{title} fails on devices, which are not tainted: {text}", title

    def _of_class(self, name: str | None) -> Iterator[_Source]:
        if name is None:
            return
        item = self.classes.get(name)
        if item is None:
            close = get_close_matches(name, self.classes, 1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise _UnusableRuleError(
                f"{_CLASS}: device class {name} does not exist{hint}; until it does, {_NOTHING}"
            )
        yield from _compiled(item.spec.selectors, f"{_CLASS}: class {name}: selector #{{}}")


def _compiled(selectors: tuple[DeviceSelector, ...], title: str = f"{_SELECTORS}[{{}}]") -> Iterator[_Source]:
    from dra_operator.cel.advice import describe  # noqa: PLC0415
    from dra_operator.cel.program import compile_selector  # noqa: PLC0415

    for number, selector in enumerate(selectors):
        place = title.format(number)
        if selector.cel is None:
            raise _UnusableRuleError(f"{place} is not of a known kind; only cel is; {_NOTHING}")
        expression = selector.cel.expression
        try:
            yield _Source(place, expression, compile_selector(expression))
        except CelError as error:
            raise _UnusableRuleError(f"{place} {describe(expression, error)}; {_NOTHING}") from None
