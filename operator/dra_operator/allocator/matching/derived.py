"""Derived attributes: computed for a device when a constraint asks for one, and only then.

A value is computed once for each thing that its expression can tell apart, and kept by what the expression reads, as
the answers of selectors are. What goes wrong ends the attempt that reaches the device.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.reads import Reads
from dra_operator.allocator.matching.room import ByExpression
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel import (
    CelError,
    DerivedAttributeProgram,
    PreparedDevice,
    compile_derived_attribute,
    prepare_device,
)
from dra_operator.cel.advice.diagnostics import describe
from dra_operator.cel.errors import kept
from dra_operator.inventory import Slice

_MAX_EXPRESSIONS = 1024
_MAX_SIZE = 262_144
_SIZE_OF_SLICE = 4
"""What is kept for a slice takes about as much room as so many of the values in it."""


@dataclass(slots=True)
class Values:
    """What an expression says of the devices of a slice, as sets: those known, those without a value, and by value."""

    known: int = 0
    failed: int = 0
    of: dict[AttributeValue, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Expression:
    """An expression, and what it says of each slice that looks different to it."""

    program: DerivedAttributeProgram | CelError
    reads: Reads
    values: dict[object, Values] = field(default_factory=dict)


@dataclass(slots=True)
class DerivedAttributes:
    """The derived attributes of all attempts."""

    selectors: SelectorCache
    _expressions: ByExpression[_Expression] = field(default_factory=ByExpression)
    _size: int = 0

    def can_be_asked_ahead(self, expression: str) -> bool:
        """True if an expression can be asked about devices that may never be reached: it compiles and costs little."""
        program = (self._expressions.get(expression) or self._compile(expression)).program
        return not isinstance(program, CelError) and not program.may_take_long

    def reads(self, expression: str) -> frozenset[str] | None:
        """Return which parts of a device an expression reads; None if that cannot be told."""
        program = (self._expressions.get(expression) or self._compile(expression)).program
        return None if isinstance(program, CelError) else program.reads

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
            if self._size > _MAX_SIZE:
                self._forget(self._expressions.values())
            found = known.values[key] = Values()
            self._size += _SIZE_OF_SLICE
        if missing := wanted & slice_.every & ~found.known:
            for device, alike in self.selectors.kinds.of(known.reads, slice_, key, missing):
                if alike & missing:
                    budget.look()
                    value = _evaluate(program, device)
                    if value is None:
                        found.failed |= alike
                    else:
                        self._size += value not in found.of
                        found.of[value] = found.of.get(value, 0) | alike
                    found.known |= alike
        return found

    def value(  # noqa: PLR0917 - what an error names, and the device
        self, request: str, name: str, expression: str, slice_: Slice, index: int, budget: Budget
    ) -> AttributeValue:
        """Return the value of an attribute for a device, as a request derives it.

        Raises FatalError, or AbortedError when the time is used up.
        """
        for value, devices in self.values(expression, slice_, 1 << index, budget).of.items():
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
        self.selectors.budget.look()
        self._forget(self._expressions.make_room(expression, _MAX_EXPRESSIONS))
        try:
            program = compile_derived_attribute(expression, self.selectors.environment)
        except CelError as error:
            found = _Expression(kept(error), self.selectors.reads_of(None))
        else:
            found = _Expression(program, self.selectors.reads_of(program.reads))
        self._expressions[expression] = found
        return found

    def _forget(self, expressions: Iterable[_Expression]) -> None:
        """Let go of the values of some expressions."""
        for expression in expressions:
            self._size -= sum([_SIZE_OF_SLICE + len(item.of) for item in expression.values.values()])
            expression.values.clear()

    def _describe(self, expression: str, error: CelError, device: PreparedDevice | None = None) -> str:
        return describe(expression, error, device, self.selectors.environment)

    @staticmethod
    def _error(request: str, text: str) -> FatalError:
        return FatalError(f"request {request}: {text}", Reason.DERIVED_ATTRIBUTE_FAILED, request=request)


def _evaluate(program: DerivedAttributeProgram, device: PreparedDevice) -> AttributeValue | None:
    # Raised again and again, the error of a broken device would keep the frames of all.
    if device.broken is not None:
        return None
    try:
        return program.evaluate(device)
    except CelError:
        return None
