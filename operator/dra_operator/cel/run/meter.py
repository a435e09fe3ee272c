"""Meter: what an evaluation has cost so far, and the end of it where that is too much.

Costs are counted as cel-go counts them, down to its stack of observed values: a call is charged by the sizes
of its arguments, if all of them were evaluated and are still on the stack.
Source: cel-go `interpreter/runtimecost.go`, `ext/lists.go`, `ext/sets.go`; k8s.io/apiserver
`pkg/cel/library/cost.go`.
"""

# ruff: noqa: SLF001 - the table at the end is that of the class above it

from time import thread_time
from typing import Any, Final

from dra_operator.cel.cost.prices import LIST_COST, MAP_COST, MESSAGE_COST
from dra_operator.cel.errors import cost_exceeded
from dra_operator.cel.run import steps as ir
from dra_operator.cel.types.environment import price_of
from dra_operator.cel.values import MISSING

COST_LIMIT: Final = 1_000_000
"""The most that one evaluation may cost (`CELSelectorExpressionMaxCost`)."""
LONGEST: Final = 2.0
"""Seconds of its thread that one evaluation may take. Upstream has no such limit, but works faster than it counts."""
_EVERY: Final = 100
"""After so many steps the clock is looked at; the `limits` of the library bound what one step can take."""


class Meter:
    """The cost of one evaluation, in upstream's units."""

    __slots__ = ("_deadline", "_found", "_ids", "_steps", "_values", "cost", "limit")

    def __init__(self, limit: int = COST_LIMIT, seconds: float = LONGEST) -> None:
        self.cost = 0
        self.limit = limit
        self._deadline = thread_time() + seconds
        self._steps = 0
        # The stack of observed values, and how often each id is on it: most that is looked for is not there.
        self._ids: list[int] = []
        self._values: list[Any] = []
        self._found: dict[int, int] = {}

    def charge(self, cost: int) -> None:
        """Charge for what needs no stack (from 1.38 on); raises CelError once the limit is exceeded."""
        self.cost += cost
        self._count_step()

    def observe(self, step: ir.Step, value: Any) -> None:
        """Charge for a step that has given `value`; raises CelError once the limit is exceeded."""
        charge = _CHARGES.get(type(step))
        if charge is not None:
            charge(self, step, value)
        self._push(step.id, value)

    def observe_qualifier(self, qualifier: ir.Qualifier, value: Any) -> None:
        """Charge for a step along an attribute; raises CelError once the limit is exceeded."""
        if qualifier.fresh:
            self._drop(qualifier.id)
        self.cost += 1
        self._push(qualifier.id, value)

    def _attribute(self, attribute: ir.Attribute, _value: Any) -> None:
        root = attribute.root
        if isinstance(root, ir.Choice):
            self._drop(root.other.inner_id)
            self._drop(root.chosen.inner_id)
            self._drop(root.condition.id)
        else:
            self._drop(attribute.inner_id)
            self.cost += 1
        if attribute.test_id is not None:
            self.cost -= 1

    def _logic(self, step: ir.Logic, _value: Any) -> None:
        for term in step.terms:
            self._drop(term.id)

    def _fold(self, step: ir.Fold, _value: Any) -> None:
        self._drop(step.range.id)

    def _equality(self, step: ir.Equality, result: Any) -> None:
        name, overload = ("_!=_", "not_equals") if step.negated else ("_==_", "equals")
        self._call(name, overload, step.arguments, result)

    def _invoke(self, step: ir.Invoke, result: Any) -> None:
        self._call(step.function.name, step.overload, step.arguments, result)

    def _list(self, step: ir.MakeList, _value: Any) -> None:
        self._pop(step.elements)
        self.cost += LIST_COST

    def _map(self, step: ir.MakeMap, _value: Any) -> None:
        self._pop(tuple(part for key, value, _ in step.entries for part in (key, value)))
        self.cost += MAP_COST

    def _message(self, step: ir.MakeMessage, _value: Any) -> None:
        self._pop(tuple(value for _, value, _ in step.fields))
        self.cost += MESSAGE_COST

    def _call(self, name: str, overload: str, arguments: tuple[ir.Step, ...], result: Any) -> None:
        values = self._pop(arguments)
        if values is not None:
            self.cost += price_of(name, overload).spent(values, result)

    def _push(self, identity: int, value: Any) -> None:
        self._ids.append(identity)
        self._values.append(value)
        self._found[identity] = self._found.get(identity, 0) + 1
        self._count_step()

    def _count_step(self) -> None:
        self._steps += 1
        if self.cost > self.limit or (self._steps % _EVERY == 0 and thread_time() > self._deadline):
            raise cost_exceeded()

    def _drop(self, identity: int) -> Any:
        """Take the topmost value of this id, and what lies above it, off the stack; MISSING if it is not there."""
        found = self._found
        if not found.get(identity):
            return MISSING
        ids, values = self._ids, self._values
        while True:
            top, value = ids.pop(), values.pop()
            found[top] -= 1
            if top == identity:
                return value

    def _pop(self, steps: tuple[ir.Step, ...]) -> list[Any] | None:
        """Take the values of these steps off the stack, the last first; None if one is not there."""
        values = []
        for step in reversed(steps):
            value = self._drop(step.id)
            if value is MISSING:
                return None
            values.append(value)
        values.reverse()
        return values


_CHARGES: Final[dict[type, Any]] = {
    ir.Attribute: Meter._attribute,
    ir.Logic: Meter._logic,
    ir.Fold: Meter._fold,
    ir.Equality: Meter._equality,
    ir.Invoke: Meter._invoke,
    ir.MakeList: Meter._list,
    ir.MakeMap: Meter._map,
    ir.MakeMessage: Meter._message,
}
