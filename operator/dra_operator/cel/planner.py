"""Planner: from the checked tree to the plan, with all that can be done before there is a device.

Source: cel-go `interpreter/planner.go`, `interpreter/decorators.go` (folding), `cel/library.go` (`or`,
`orValue`).
"""

from dataclasses import dataclass, field
from typing import Any, Final

from dra_operator.cel import folding
from dra_operator.cel.checker import Checked
from dra_operator.cel.dispatch import function
from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import compile_error
from dra_operator.cel.interpretable import (
    Attribute,
    Choice,
    Const,
    Equality,
    Fold,
    Invoke,
    Logic,
    MakeList,
    MakeMap,
    MakeMessage,
    Operand,
    Otherwise,
    Plan,
    Qualifier,
    Step,
    Variable,
)
from dra_operator.cel.library.regex import Patterns
from dra_operator.cel.messages import TYPE_VALUES
from dra_operator.cel.qualify import KEYS
from dra_operator.cel.syntax.nodes import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    Struct,
)
from dra_operator.cel.types import Kind
from dra_operator.cel.values import go_type


def plan(checked: Checked, environment: Environment) -> Plan:
    """Return the plan of a checked expression; raises CelError where a constant part of it already fails."""
    planner = _Planner(checked, environment)
    step = planner.plan(checked.expr)
    return Plan(step, planner.slots)


@dataclass(slots=True)
class _Planner:
    checked: Checked
    environment: Environment
    slots: int = 1
    scopes: list[dict[str, int]] = field(default_factory=list)
    patterns: Patterns = field(default_factory=Patterns)

    def plan(self, expr: Expr) -> Step:
        """Return the step that evaluates `expr`."""
        return _PLANS[type(expr)](self, expr)  # type: ignore[no-any-return]

    def plan_literal(self, expr: Literal) -> Step:
        return Const(expr.id, expr.value)

    # --- attributes ---------------------------------------------------------------------------------------------

    def plan_ident(self, expr: Ident) -> Step:
        name = expr.name.removeprefix(".")
        if self.checked.type_of(expr).kind is Kind.TYPE:
            value = TYPE_VALUES.get(name)
            if value is None:
                raise compile_error(f"reference to undefined type: {name}", expr.position)
            return Const(expr.id, value)
        return Attribute(Variable(expr.id, name, self._slot(expr.name)))

    def _slot(self, name: str) -> int:
        if not name.startswith("."):
            for scope in reversed(self.scopes):
                slot = scope.get(name)
                if slot is not None:
                    return slot
        return 0

    def plan_select(self, expr: Select) -> Step:
        attribute = self._attribute(self.plan(expr.operand))
        attribute.qualify(Qualifier(expr.id, expr.field, test_only=expr.test_only))
        if expr.test_only:
            attribute.test_id = expr.id
        return attribute

    @staticmethod
    def _attribute(step: Step) -> Attribute:
        """Return a step as something that can be qualified."""
        if isinstance(step, Attribute) and step.test_id is None:
            return step
        return Attribute(Operand(step.id, step))

    def _plan_index(self, call: Call, arguments: tuple[Step, ...], *, optional: bool) -> Step:
        operand, index = arguments
        attribute = self._attribute(operand)
        if isinstance(index, Const):
            if type(index.value) not in KEYS:
                raise compile_error(f"invalid qualifier type: {go_type(index.value)}", call.position)
            attribute.qualify(Qualifier(call.id, index.value, optional=optional))
        else:
            fresh = not isinstance(index, Attribute)
            attribute.qualify(Qualifier(call.id, step=index, optional=optional, fresh=fresh))
        return attribute

    # --- calls --------------------------------------------------------------------------------------------------

    def plan_call(self, expr: Call) -> Step:
        members = expr.args if expr.target is None else (expr.target, *expr.args)
        arguments = tuple(map(self.plan, members))
        name = expr.function
        overloads = self.checked.overloads.get(expr.id, ())
        match name:
            case "_&&_":
                return Logic(expr.id, absorbing=False, terms=(arguments[0], arguments[1]))
            case "_||_":
                return Logic(expr.id, absorbing=True, terms=(arguments[0], arguments[1]))
            case "_?_:_":
                return self._plan_choice(expr, arguments)
            case "_==_" | "_!=_":
                return Equality(expr.id, name == "_!=_", arguments)
            case "_[_]":
                return self._plan_index(expr, arguments, optional=False)
            case "_[?_]" | "_?._":
                return self._plan_index(expr, arguments, optional=True)
            case "or" | "orValue" if len(arguments) == 2:
                return Otherwise(expr.id, name == "orValue", *arguments)
        called = function(name, overloads, len(arguments), self.environment)
        invoke = Invoke(expr.id, called, overloads[0] if len(overloads) == 1 else "", arguments)
        return folding.folded_call(invoke, expr.position, self.patterns)

    def _plan_choice(self, expr: Call, arguments: tuple[Step, ...]) -> Step:
        condition, chosen, other = arguments
        return Attribute(Choice(expr.id, condition, self._branch(chosen), self._branch(other)))

    @staticmethod
    def _branch(step: Step) -> Attribute:
        return step if isinstance(step, Attribute) else Attribute(Operand(step.id, step))

    # --- aggregates ---------------------------------------------------------------------------------------------

    def plan_list(self, expr: ListExpr) -> Step:
        elements = tuple(map(self.plan, expr.elements))
        return folding.folded_list(MakeList(expr.id, elements, expr.optional))

    def plan_map(self, expr: MapExpr) -> Step:
        entries = tuple(
            (self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in expr.entries
        )
        return folding.folded_map(MakeMap(expr.id, entries))

    def plan_struct(self, expr: Struct) -> Step:
        fields = tuple((part.name, self.plan(part.value), part.optional) for part in expr.fields)
        return MakeMessage(expr.id, expr.type_name, fields)

    def plan_comprehension(self, expr: Comprehension) -> Step:
        init = self.plan(expr.init)
        over = self.plan(expr.range)
        accumulator, first = self._new_slot(), self._new_slot()
        second = self._new_slot() if expr.variable2 else None
        names = {expr.variable: first, **({expr.variable2: second} if second is not None else {})}
        self.scopes.append({**names, expr.accumulator: accumulator})
        condition, step = self.plan(expr.condition), self.plan(expr.step)
        self.scopes[-1] = {expr.accumulator: accumulator}
        result = self.plan(expr.result)
        self.scopes.pop()
        return Fold(expr.id, over, accumulator, first, second, init, condition, step, result)

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


_PLANS: Final[dict[type, Any]] = {
    Literal: _Planner.plan_literal,
    Ident: _Planner.plan_ident,
    Select: _Planner.plan_select,
    Call: _Planner.plan_call,
    ListExpr: _Planner.plan_list,
    MapExpr: _Planner.plan_map,
    Struct: _Planner.plan_struct,
    Comprehension: _Planner.plan_comprehension,
}
