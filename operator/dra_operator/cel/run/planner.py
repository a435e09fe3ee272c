"""Planner: from a checked tree to the steps of its evaluation, with constants folded before there is a device.

Conversions of constants are carried out (and fail) here, even in a branch that is never taken; literals of constants
become values; `in` over a list of constant primitives becomes a set lookup, which sees only equal numbers of other
types that convert without loss, and over an empty list is false without a look at the left side.
Source: cel-go `interpreter/planner.go`, `interpreter/decorators.go`, `interpreter/optimizations.go`.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from dra_operator.cel.errors import CelError, compile_error
from dra_operator.cel.library import regex
from dra_operator.cel.library.regex import Patterns
from dra_operator.cel.run import steps as ir
from dra_operator.cel.run.steps import function, with_known_pattern
from dra_operator.cel.syntax import nodes
from dra_operator.cel.types.checker import Checked
from dra_operator.cel.types.environment import TYPE_VALUES, Environment
from dra_operator.cel.types.types import Kind
from dra_operator.cel.values import INT_MAX, INT_MIN, KEYS, UINT_MAX, CelMap, Uint, go_type, hashed_key

_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_SET_ELEMENTS: Final = frozenset((bool, float, int, str, Uint))


def folded_call(call: ir.Invoke, position: int, patterns: regex.Patterns) -> ir.Step:
    """Return what a call is before evaluation; raises CelError if it fails with its constants already.

    `patterns` are those of the expression so far.
    """
    name, arguments = call.function.name, call.arguments
    if call.overload == "in_list" and isinstance(arguments[1], ir.Const):
        return _folded_membership(call, arguments[0], arguments[1].value)
    if name in _CONVERSIONS and len(arguments) == 1 and isinstance(arguments[0], ir.Const):
        try:
            return ir.Const(call.id, call.function.call(arguments[0].value))
        except CelError as error:
            raise compile_error(error.message, position) from None
    if name in regex.SEARCHING and isinstance(arguments[1], ir.Const) and type(arguments[1].value) is str:
        try:
            patterns.add(arguments[1].value)
        except CelError as error:
            raise compile_error(error.message, position) from None
        return replace(call, function=with_known_pattern(call.function), known_pattern=True)
    return call


def _folded_membership(call: ir.Invoke, argument: ir.Step, elements: tuple[Any, ...]) -> ir.Step:
    if not elements:
        return ir.Const(call.id, value=False)
    if any(type(element) not in _SET_ELEMENTS for element in elements):
        return call
    keys = frozenset(hashed_key(twin) for element in elements for twin in _twins(element))
    return ir.Members(call.id, argument, keys)


def _twins(element: Any) -> list[Any]:
    """Return the values that count as the same constant: itself and what it converts to."""
    kind = type(element)
    twins = [element]
    if kind is int:
        twins.append(float(element))
        if element >= 0:
            twins.append(Uint(element))
    elif kind is Uint:
        twins.append(float(element))
        if element <= INT_MAX:
            twins.append(int(element))
    elif kind is float and element.is_integer():
        if INT_MIN < element < INT_MAX:
            twins.append(int(element))
        if 0 <= element < UINT_MAX:
            twins.append(Uint(element))
    return twins


def folded_list(make: ir.MakeList) -> ir.Step:
    """Return a list of constants as a constant; none of them can be an optional value."""
    values = [element.value for element in make.elements if isinstance(element, ir.Const)]
    if make.optional or len(values) < len(make.elements):
        return make
    return ir.Const(make.id, tuple(values))


def folded_map(make: ir.MakeMap) -> ir.Step:
    """Return a map of constants as a constant, unless it fails: then it fails in each evaluation."""
    made = CelMap()
    for key, value, optional in make.entries:
        if optional or not (isinstance(key, ir.Const) and isinstance(value, ir.Const)):
            return make
        try:
            made.put(key.value, value.value)
        except CelError:
            return make
    return ir.Const(make.id, made)


def plan(checked: Checked, environment: Environment) -> ir.Plan:
    """Return the plan of a checked expression; raises CelError where a constant part of it already fails."""
    planner = _Planner(checked, environment)
    step = planner.plan(checked.expr)
    return ir.Plan(step, planner.slots)


@dataclass(slots=True)
class _Planner:
    checked: Checked
    environment: Environment
    slots: int = ir.FIRST_VARIABLE
    scopes: list[dict[str, int]] = field(default_factory=list)
    patterns: Patterns = field(default_factory=Patterns)

    def plan(self, expr: nodes.Expr) -> ir.Step:
        """Return the step that evaluates `expr`."""
        return _PLANS[type(expr)](self, expr)  # type: ignore[no-any-return]

    # --- attributes ---------------------------------------------------------------------------------------------

    def plan_ident(self, expr: nodes.Ident) -> ir.Step:
        name = expr.name.removeprefix(".")
        if self.checked.type_of(expr).kind is Kind.TYPE:
            value = TYPE_VALUES.get(name)
            if value is None:
                raise compile_error(f"reference to undefined type: {name}", expr.position)
            return ir.Const(expr.id, value)
        return ir.Attribute(ir.Variable(expr.id, name, self._slot(expr.name)))

    def _slot(self, name: str) -> int:
        if not name.startswith("."):
            for scope in reversed(self.scopes):
                slot = scope.get(name)
                if slot is not None:
                    return slot
        return ir.DEVICE

    def plan_select(self, expr: nodes.Select) -> ir.Step:
        attribute = self._attribute(self.plan(expr.operand))
        attribute.qualify(ir.Qualifier(expr.id, expr.field, test_only=expr.test_only))
        if expr.test_only:
            attribute.test_id = expr.id
        return attribute

    @staticmethod
    def _attribute(step: ir.Step) -> ir.Attribute:
        """Return a step as something that can be qualified."""
        if isinstance(step, ir.Attribute) and step.test_id is None:
            return step
        return ir.Attribute(ir.Operand(step.id, step))

    def _plan_index(self, call: nodes.Call, arguments: tuple[ir.Step, ...], *, optional: bool) -> ir.Step:
        operand, index = arguments
        attribute = self._attribute(operand)
        if isinstance(index, ir.Const):
            if type(index.value) not in KEYS:
                raise compile_error(f"invalid qualifier type: {go_type(index.value)}", call.position)
            attribute.qualify(ir.Qualifier(call.id, index.value, optional=optional))
        else:
            fresh = not isinstance(index, ir.Attribute)
            attribute.qualify(ir.Qualifier(call.id, step=index, optional=optional, fresh=fresh))
        return attribute

    # --- calls --------------------------------------------------------------------------------------------------

    def plan_call(self, expr: nodes.Call) -> ir.Step:
        members = expr.args if expr.target is None else (expr.target, *expr.args)
        arguments = tuple(map(self.plan, members))
        name = expr.function
        overloads = self.checked.overloads.get(expr.id, ())
        match name:
            case "_&&_":
                return ir.Logic(expr.id, absorbing=False, terms=(arguments[0], arguments[1]))
            case "_||_":
                return ir.Logic(expr.id, absorbing=True, terms=(arguments[0], arguments[1]))
            case "_?_:_":
                return self._plan_choice(expr, arguments)
            case "_==_" | "_!=_":
                return ir.Equality(expr.id, name == "_!=_", arguments)
            case "_[_]":
                return self._plan_index(expr, arguments, optional=False)
            case "_[?_]" | "_?._":
                return self._plan_index(expr, arguments, optional=True)
            case "or" | "orValue" if len(arguments) == 2:
                return ir.Otherwise(expr.id, name == "orValue", *arguments)
        called = function(name, overloads, len(arguments), self.environment)
        invoke = ir.Invoke(expr.id, called, overloads[0] if len(overloads) == 1 else "", arguments)
        return folded_call(invoke, expr.position, self.patterns)

    def _plan_choice(self, expr: nodes.Call, arguments: tuple[ir.Step, ...]) -> ir.Step:
        condition, chosen, other = arguments
        return ir.Attribute(ir.Choice(expr.id, condition, self._branch(chosen), self._branch(other)))

    @staticmethod
    def _branch(step: ir.Step) -> ir.Attribute:
        return step if isinstance(step, ir.Attribute) else ir.Attribute(ir.Operand(step.id, step))

    # --- aggregates ---------------------------------------------------------------------------------------------

    def plan_list(self, expr: nodes.ListExpr) -> ir.Step:
        elements = tuple(map(self.plan, expr.elements))
        return folded_list(ir.MakeList(expr.id, elements, expr.optional))

    def plan_map(self, expr: nodes.MapExpr) -> ir.Step:
        entries = tuple(
            (self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in expr.entries
        )
        return folded_map(ir.MakeMap(expr.id, entries))

    def plan_struct(self, expr: nodes.Struct) -> ir.Step:
        fields = tuple((part.name, self.plan(part.value), part.optional) for part in expr.fields)
        return ir.MakeMessage(expr.id, expr.type_name, fields)

    def plan_comprehension(self, expr: nodes.Comprehension) -> ir.Step:
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
        return ir.Fold(expr.id, over, accumulator, first, second, init, condition, step, result)

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


_PLANS: Final[dict[type, Any]] = {
    nodes.Literal: lambda _, expr: ir.Const(expr.id, expr.value),
    nodes.Ident: _Planner.plan_ident,
    nodes.Select: _Planner.plan_select,
    nodes.Call: _Planner.plan_call,
    nodes.ListExpr: _Planner.plan_list,
    nodes.MapExpr: _Planner.plan_map,
    nodes.Struct: _Planner.plan_struct,
    nodes.Comprehension: _Planner.plan_comprehension,
}
