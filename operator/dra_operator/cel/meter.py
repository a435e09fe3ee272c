"""Meter: what an evaluation has cost so far, and the end of it where that is too much.

Costs are counted as cel-go counts them, down to its stack of observed values: a call is charged by the sizes of its
arguments, if all of them were evaluated and are still on the stack.
Source: cel-go `interpreter/runtimecost.go`, `ext/lists.go`, `ext/sets.go`; k8s.io/apiserver `pkg/cel/library/cost.go`.
"""

from typing import Any, Final

from dra_operator.cel.call_costs import call_cost
from dra_operator.cel.errors import Abort
from dra_operator.cel.plan import (
    Attribute,
    Choice,
    Equality,
    Fold,
    Invoke,
    Logic,
    MakeList,
    MakeMap,
    MakeMessage,
    Qualifier,
    Step,
)

COST_LIMIT: Final = 1_000_000
"""The most that one evaluation may cost (`CELSelectorExpressionMaxCost`)."""
LIST_COST: Final = 10
MAP_COST: Final = 30
MESSAGE_COST: Final = 40


class Meter:
    """The cost of one evaluation, in upstream's units."""

    __slots__ = ("cost", "limit", "stack")

    def __init__(self, limit: int = COST_LIMIT) -> None:
        self.cost = 0
        self.limit = limit
        self.stack: list[tuple[int, Any]] = []

    def observe(self, step: Step, value: Any) -> None:
        """Charge for a step that has given `value`; raises CelError once the limit is exceeded."""
        match step:
            case Attribute():
                self._observe_attribute(step)
            case Logic():
                self._drop(*(term.id for term in step.terms))
            case Fold():
                self._drop(step.range.id)
            case Equality():
                name, overload = ("_!=_", "not_equals") if step.negated else ("_==_", "equals")
                self._charge_call(name, overload, step.arguments, value)
            case Invoke():
                self._charge_call(step.function.name, step.overload, step.arguments, value)
            case MakeList():
                self._take(step.elements)
                self.cost += LIST_COST
            case MakeMap():
                self._take(tuple(part for key, value, _ in step.entries for part in (key, value)))
                self.cost += MAP_COST
            case MakeMessage():
                self._take(tuple(value for _, value, _ in step.fields))
                self.cost += MESSAGE_COST
            case _:
                pass
        self._push(step.id, value)

    def _observe_attribute(self, attribute: Attribute) -> None:
        root = attribute.root
        if isinstance(root, Choice):
            self._drop(root.other.inner_id, root.chosen.inner_id, root.condition.id)
        else:
            self._drop(attribute.inner_id)
            self.cost += 1
        if attribute.test_id is not None:
            self.cost -= 1

    def observe_qualifier(self, qualifier: Qualifier, value: Any) -> None:
        """Charge for a step along an attribute; raises CelError once the limit is exceeded."""
        if qualifier.fresh:
            self._drop(qualifier.id)
        self.cost += 1
        self._push(qualifier.id, value)

    def _charge_call(self, name: str, overload: str, arguments: tuple[Step, ...], result: Any) -> None:
        values = self._take(arguments)
        if values is not None:
            self.cost += call_cost(name, overload, values, result)

    def _push(self, identity: int, value: Any) -> None:
        self.stack.append((identity, value))
        if self.cost > self.limit:
            raise Abort("runtime", "operation cancelled: actual cost limit exceeded")

    def _drop(self, *identities: int) -> None:
        """Take each of these, and what lies above it, off the stack."""
        for identity in identities:
            index = self._find(identity)
            if index >= 0:
                del self.stack[index:]

    def _take(self, steps: tuple[Step, ...]) -> list[Any] | None:
        """Take the values of these steps off the stack, the last first; None if one is not there."""
        values = []
        for step in reversed(steps):
            index = self._find(step.id)
            if index < 0:
                return None
            values.append(self.stack[index][1])
            del self.stack[index:]
        values.reverse()
        return values

    def _find(self, identity: int) -> int:
        stack = self.stack
        for index in range(len(stack) - 1, -1, -1):
            if stack[index][0] == identity:
                return index
        return -1
