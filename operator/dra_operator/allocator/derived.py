"""Derived attributes: computed for a device when a constraint asks for one, and only then.

A program is compiled at first need and each value computed once an attempt; whatever goes wrong ends the attempt.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel import (
    CelError,
    DerivedAttributeProgram,
    Environment,
    compile_derived_attribute,
    prepare_device,
)
from dra_operator.inventory import Slice


@dataclass(slots=True)
class DerivedPrograms:
    """Compiled expressions. The oldest half goes when there are too many."""

    environment: Environment
    maximum: int = 1024
    _known: dict[str, DerivedAttributeProgram | CelError] = field(default_factory=dict)

    def get(self, expression: str) -> DerivedAttributeProgram:
        """Return the program of an expression. Raises CelError if it does not compile."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= self.maximum:
                for old in list(self._known)[: self.maximum // 2]:
                    del self._known[old]
            try:
                found = compile_derived_attribute(expression, self.environment)
            except CelError as error:
                found = error
            self._known[expression] = found
        if isinstance(found, CelError):
            raise found
        return found


@dataclass(slots=True)
class DerivedAttributes:
    """The derived attributes of one attempt, by device and expression."""

    programs: DerivedPrograms
    budget: Budget
    _values: dict[tuple[int, int, str], AttributeValue] = field(default_factory=dict)

    def value(self, name: str, expression: str, content: Slice, index: int) -> AttributeValue:
        """Return the value of an attribute for a device.

        Raises FatalError, or AbortedError when the time is used up.
        """
        key = (content.serial, index, expression)
        if (found := self._values.get(key)) is not None:
            return found
        self.budget.look()
        try:
            program = self.programs.get(expression)
        except CelError as error:
            raise FatalError(
                f"compile derived attribute {name} failed: {error}", Reason.DERIVED_ATTRIBUTE_FAILED
            ) from None
        try:
            value: AttributeValue = program.evaluate(prepare_device(content.driver, content.device(index)))
        except CelError as error:
            device = f"{content.driver}/{content.pool}/{content.names[index]}"
            raise FatalError(
                f"evaluate derived attribute {name} on device {device} failed: {error}",
                Reason.DERIVED_ATTRIBUTE_FAILED,
            ) from None
        self._values[key] = value
        return value
