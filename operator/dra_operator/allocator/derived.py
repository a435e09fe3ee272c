"""Derived attributes: computed for a device when a constraint asks for one, and only then.

A program is compiled at first need and each value computed once an attempt; whatever goes wrong ends the attempt.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel import (
    CelError,
    DerivedAttributeProgram,
    Environment,
    PreparedDevice,
    compile_derived_attribute,
    prepare_device,
)
from dra_operator.cel.diagnostics import describe
from dra_operator.inventory import Slice


@lru_cache(maxsize=1024)
def _compile(expression: str, environment: Environment) -> DerivedAttributeProgram | CelError:
    # A program depends on nothing but its text, so all allocators of a process share it.
    try:
        program: DerivedAttributeProgram = compile_derived_attribute(expression, environment)
    except CelError as error:
        return error
    return program


@dataclass(slots=True)
class DerivedAttributes:
    """The derived attributes of one attempt, by device and expression."""

    environment: Environment
    budget: Budget
    _values: dict[tuple[int, int, str], AttributeValue] = field(default_factory=dict)

    def value(self, request: str, name: str, expression: str, content: Slice, index: int) -> AttributeValue:
        """Return the value of an attribute for a device, as a request derives it.

        Raises FatalError, or AbortedError when the time is used up.
        """
        key = (content.serial, index, expression)
        if (found := self._values.get(key)) is not None:
            return found
        self.budget.look()
        program = _compile(expression, self.environment)
        if isinstance(program, CelError):
            raise self._error(request, f"derived attribute {name} {self._describe(expression, program)}")
        device = prepare_device(content.driver, content.device(index))
        try:
            value: AttributeValue = program.evaluate(device)
        except CelError as error:
            path = f"{content.driver}/{content.pool}/{content.names[index]}"
            text = self._describe(expression, error, device)
            raise self._error(request, f"derived attribute {name} fails on device {path}: {text}") from None
        self._values[key] = value
        return value

    def _describe(self, expression: str, error: CelError, device: PreparedDevice | None = None) -> str:
        return describe(expression, error, device, self.environment)

    @staticmethod
    def _error(request: str, text: str) -> FatalError:
        return FatalError(f"request {request}: {text}", Reason.DERIVED_ATTRIBUTE_FAILED, request=request)
