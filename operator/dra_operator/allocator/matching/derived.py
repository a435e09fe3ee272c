"""Derived attributes: computed for a device when a constraint asks for one, once for what an expression can tell apart.

An error ends the attempt that reaches the device. Where requests that derive an attribute differently could have one
device, or an expression fails or may take long, devices are not grouped by it: the exhaustive search decides.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.equivalence import CacheLimit, ExpressionCache, FieldSet
from dra_operator.allocator.matching.groups import Groups, are_too_many, groups_of, values_of
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel.advice import describe
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.errors import CelError, kept
from dra_operator.cel.program import DerivedAttributeProgram, compile_derived_attribute
from dra_operator.inventory import Features, NodeView, Slice

_MAX_EXPRESSIONS = 1024
_MAX_SLICES = 65_536
"""Of so many the answers of expressions are kept, of all together."""


@dataclass(slots=True)
class Values:
    """What an expression says of the devices of a slice, as sets: those known, those without a value, and by value."""

    known: int = 0
    failed: int = 0
    by_value: dict[AttributeValue, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Expression:
    """An expression, and what it says of each slice that looks different to it."""

    program: DerivedAttributeProgram | CelError
    reads: FieldSet
    values: dict[object, Values] = field(default_factory=dict)


@dataclass(slots=True)
class DerivedAttributes:
    """The derived attributes of all attempts."""

    selectors: SelectorCache
    _expressions: ExpressionCache[_Expression] = field(default_factory=ExpressionCache)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_SLICES))

    def can_be_asked_ahead(self, expression: str) -> bool:
        """True if an expression can be asked about devices that may never be reached: it compiles and costs little."""
        program = (self._expressions.get(expression) or self._compile(expression)).program
        return not isinstance(program, CelError) and not program.may_take_long

    def values(self, expression: str, slice_: Slice, wanted: int, budget: Budget) -> Values:
        """Return what an expression says of the devices of a slice, of those wanted at least.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        known = self._expressions.get(expression) or self._compile(expression)
        program = known.program
        if isinstance(program, CelError):
            return Values(wanted, wanted)
        key = known.reads.key(slice_)
        found = known.values.get(key)
        if found is None:
            self._room.reserve(known.values)
            found = known.values[key] = Values()
        if missing := wanted & slice_.every & ~found.known:
            for device, alike in self.selectors.kinds.find(known.reads, slice_, key, missing):
                if alike & missing:
                    budget.check_time()
                    value = _evaluate(program, device)
                    if value is None:
                        found.failed |= alike
                    else:
                        found.by_value[value] = found.by_value.get(value, 0) | alike
                    found.known |= alike
        return found

    def value(  # noqa: PLR0917 - what an error names, and the device
        self, request: str, name: str, expression: str, slice_: Slice, index: int, budget: Budget
    ) -> AttributeValue:
        """Return the value of an attribute for a device, as a request derives it.

        Raises FatalError, or AbortedError when the time is used up.
        """
        for value, devices in self.values(expression, slice_, 1 << index, budget).by_value.items():
            if devices >> index & 1:
                return value
        program = self._expressions[expression].program
        if isinstance(program, CelError):
            raise self._error(request, f"derived attribute {name} {self._describe(expression, program)}")
        # All of the device, for the words of the error.
        device = prepare_device(slice_.driver, slice_.device(index))
        try:
            return program.evaluate(device)
        except CelError as error:
            text = f"fails on device {slice_.path(index)}: {self._describe(expression, error, device)}"
            raise self._error(request, f"derived attribute {name} {text}") from None

    def _compile(self, expression: str) -> _Expression:
        self.selectors.budget.check_time()
        for dropped in self._expressions.make_room(expression, _MAX_EXPRESSIONS):
            self._room.release(dropped.values)
        try:
            program = compile_derived_attribute(expression, self.selectors.environment)
        except CelError as error:
            found = _Expression(kept(error), self.selectors.field_set(None))
        else:
            found = _Expression(program, self.selectors.field_set(program.reads))
        self._expressions[expression] = found
        return found

    def _describe(self, expression: str, error: CelError, device: PreparedDevice | None = None) -> str:
        return describe(expression, error, device, self.selectors.environment)

    @staticmethod
    def _error(request: str, text: str) -> FatalError:
        return FatalError(f"request {request}: {text}", Reason.DERIVED_ATTRIBUTE_FAILED, request=request)


def _evaluate(program: DerivedAttributeProgram, device: PreparedDevice) -> AttributeValue | None:
    # Raised again and again, the error of a broken device would keep the frames of all.
    if program.program.refuses(device):
        return None
    try:
        return program.evaluate(device)
    except CelError:
        return None


def derived_groups(
    view: NodeView,
    takers: Mapping[str | None, int],
    published: Groups | None,
    derived: DerivedAttributes,
    budget: Budget,
    *,
    features: Features,
) -> Groups | None:
    """Return the groups of the devices that some requests could take, or None if that cannot be told.

    `takers` holds sets of positions by the expression that derives the attribute for whoever could take them; under
    None are those of requests that see what is `published`, which may be None if there are none. Raises AbortedError.
    """
    holders: dict[AttributeValue, int] = {}
    seen = 0
    for expression, devices in takers.items():
        if expression is None:
            assert published is not None
            found = _published(published, devices)
        else:
            found = _derived(view, expression, devices, derived, budget, features=features)
        if found is None or _differ(holders, found, devices & seen):
            return None
        seen |= devices
        for values, those in found.items():
            holders[values] = holders.get(values, 0) | those
    in_order = dict(sorted(holders.items(), key=_first_device))
    return groups_of(in_order, 0, sum([pool.size for pool in view.pools]))


def _differ(some: Mapping[AttributeValue, int], others: Mapping[AttributeValue, int], devices: int) -> bool:
    """True if any of some devices has another value among the others, or a value in one of the two alone."""
    return bool(devices) and any(
        (some.get(value, 0) ^ others.get(value, 0)) & devices for value in some.keys() | others.keys()
    )


def _published(groups: Groups, devices: int) -> dict[AttributeValue, int] | None:
    """Return which of some devices hold each value, or None if that of one of them cannot be told."""
    if groups.odd & devices:
        return None
    return {
        values: those & devices
        for values, those in zip(groups.values, groups.holders, strict=True)
        if those & devices
    }


def _derived(
    view: NodeView,
    expression: str,
    devices: int,
    derived: DerivedAttributes,
    budget: Budget,
    *,
    features: Features,
) -> dict[AttributeValue, int] | None:
    """Return the same of what an expression derives."""
    if not derived.can_be_asked_ahead(expression):
        return None
    held: dict[AttributeValue, int] = {}
    places = 0
    every = sum([pool.size for pool in view.pools])
    for start, pool in view.row:
        for offset, slice_ in pool.placed:
            first = start + offset
            wanted = devices >> first & slice_.every
            if not wanted:
                continue
            values = derived.values(expression, slice_, wanted, budget)
            if values.failed & wanted:
                return None
            for value, those in values.by_value.items():
                here = (those & wanted) << first
                if not here:
                    continue
                combined = values_of(value, features)
                if combined is None:
                    return None
                for found in combined:
                    held[found] = held.get(found, 0) | here
                    places += here.bit_count()
            if are_too_many(len(held), places, every):
                return None
    return held


def _first_device(held: tuple[AttributeValue, int]) -> int:
    return held[1] & -held[1]
