"""Cost: the most that an expression can cost, before there is a device.

The API server refuses expressions whose worst case is above 1,000,000; `cel check` says so beforehand, and an
expression well below needs no meter. Sizes flow from `device`, whose parts are declared with limits, through
every operation to the loops and calls that cost by them.
Source: cel-go `checker/cost.go`.
"""

from typing import Any, Final

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.versions import Rules
from dra_operator.cel.cost.prices import (
    CHARACTER,
    LIST_COST,
    MAP_COST,
    MESSAGE_COST,
    NOWHERE,
    UNBOUNDED,
    UNKNOWN,
    AstNode,
    Estimate,
    Range,
    Trail,
    declared_size,
    exactly,
    known_size,
    size_of,
    trail,
)
from dra_operator.cel.syntax import nodes
from dra_operator.cel.types.checker import Checked
from dra_operator.cel.types.environment import price_of
from dra_operator.cel.types.types import Kind, Type

_NOTHING: Final = exactly(0)
_ONE: Final = exactly(1)
_LIST: Final = exactly(LIST_COST)
_MAP: Final = exactly(MAP_COST)
_MESSAGE: Final = exactly(MESSAGE_COST)
_SCALARS: Final = frozenset((Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT))
_URL_PARTS: Final = {
    "getScheme": 1, "getHostname": 1, "getHost": 1, "getPort": 1, "getEscapedPath": 3, "getQuery": 1,
}  # fmt: skip
"""How many times as long as a URL what is got of it can be."""
_EMPTY: Final = Range(UNBOUNDED, 0)
_ACCUMULATORS: Final = frozenset(("@result", "__result__"))


def estimate(checked: Checked, rules: Rules) -> Range:
    """Return the least and the most that an expression can cost by the rules of a version of Kubernetes."""
    return _Estimator(checked, rules).cost(checked.expr)


@fast_dataclass
class _Entries:
    """The sizes of the keys and values of a map, or of the elements (as values) of a list."""

    kind: Kind
    key: Range
    value: Range

    def union(self, other: "_Entries") -> "_Entries":
        return _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


@fast_dataclass
class _Local:
    path: Trail
    size: Range | None
    entries: _Entries | None = None


class _Estimator:
    __slots__ = ("checked", "entries", "has_bounded_parts", "locals", "paths", "sizes", "types")

    def __init__(self, checked: Checked, rules: Rules) -> None:
        self.checked = checked
        self.has_bounded_parts = rules.parts_are_bounded
        self.types = checked.types
        self.paths: dict[int, Trail] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, _Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, expr: nodes.Expr) -> Range:
        """Return what `expr` can cost, and remember what is known of its size."""
        return _COSTS[type(expr)](self, expr)  # type: ignore[no-any-return]

    def cost_ident(self, expr: nodes.Ident) -> Range:
        local = self._local(expr.name)
        self.paths[expr.id] = trail(expr.name) if local is None else local.path
        return _ONE

    def cost_select(self, expr: nodes.Select) -> Range:
        cost = self.cost(expr.operand)
        if expr.test_only and not self.has_bounded_parts:
            return cost
        self.paths[expr.id] = self._path(expr.operand).then(expr.field)
        if expr.test_only:
            return cost
        accessed = self.types[expr.operand.id].kind in (Kind.MAP, Kind.STRUCT, Kind.PARAMETER)
        return cost.plus(_ONE) if accessed else cost

    # --- calls --------------------------------------------------------------------------------------------------

    def cost_call(self, expr: nodes.Call) -> Range:
        if expr.function == "dyn":
            cost = self.cost(expr.args[0])
            self._copy(expr, expr.args[0])
            return cost.plus(_ONE)
        costs, measured = [], []
        for argument in expr.args:
            costs.append(self.cost(argument))
            measured.append(self._ast_node(argument))
        cost, target = _NOTHING, None
        if expr.target is not None:
            cost = self.cost(expr.target)
            target = self._ast_node(expr.target)
        call, size = _EMPTY, None
        for overload in self.checked.overloads[expr.id]:
            one = self._overload(expr, overload, target, measured, costs)
            call = call.union(one.cost)
            if one.size is not None:
                size = one.size if size is None else size.union(one.size)
            if overload in ("index_list", "index_map"):
                size = self._indexed(expr, overload)
            if size is None:
                size = self._size(expr)
        if size is not None:
            self.sizes[expr.id] = size
        return cost.plus(call)

    def _indexed(self, expr: nodes.Call, overload: str) -> Range | None:
        entries = self._entries(expr.args[0])
        step = "@items" if overload == "index_list" else "@values"
        self.paths[expr.id] = self._path(expr.args[0]).then(step)
        return None if entries is None else entries.value

    def _overload(
        self,
        expr: nodes.Call,
        overload: str,
        target: AstNode | None,
        measured: list[AstNode],
        costs: list[Range],
    ) -> Estimate:
        """Return the estimate of a call of one overload, its arguments included."""
        if overload in ("logical_and", "logical_or"):
            left, right = costs
            return Estimate(Range(left.low, left.plus(right).high))
        if overload == "conditional":
            return self._conditional(expr, measured, costs)
        arguments = _NOTHING
        for cost in costs:
            arguments = arguments.plus(cost)
        if overload in ("add_string", "add_bytes", "add_list"):
            size = known_size(measured[0]).plus(known_size(measured[1]))
            self._join_entries(expr, *expr.args)
            cost = _ONE if overload == "add_list" else size.scaled(CHARACTER)
            return Estimate(cost.plus(arguments), size)
        parts = measured if target is None else [target, *measured]
        found = price_of(expr.function, overload).estimate(*parts)
        result = found.size
        if self.has_bounded_parts and target is not None and expr.function in _URL_PARTS:
            result = size_of(target).times(Range(1, _URL_PARTS[expr.function]))
        return Estimate(found.cost.plus(arguments), result)

    def _conditional(self, expr: nodes.Call, measured: list[AstNode], costs: list[Range]) -> Estimate:
        condition, chosen, other = costs
        self._join_entries(expr, *expr.args[1:])
        return Estimate(
            condition.plus(chosen.union(other)), known_size(measured[1]).union(known_size(measured[2]))
        )

    def _join_entries(self, expr: nodes.Expr, left: nodes.Expr, right: nodes.Expr) -> None:
        one, other = self._entries(left), self._entries(right)
        if one is not None and other is not None:
            self.entries[expr.id] = one.union(other)

    # --- aggregates ---------------------------------------------------------------------------------------------

    def cost_list(self, expr: nodes.ListExpr) -> Range:
        cost = _LIST
        size = _EMPTY if expr.elements else exactly(0)
        for element in expr.elements:
            cost = cost.plus(self.cost(element))
            size = size.union(self._size(element) or UNKNOWN)
        self.entries[expr.id] = _Entries(Kind.LIST, _ONE, size)
        return cost

    def cost_map(self, expr: nodes.MapExpr) -> Range:
        cost = _MAP
        keys = values = _EMPTY if expr.entries else exactly(0)
        for entry in expr.entries:
            cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size(entry.key) or UNKNOWN)
            values = values.union(self._size(entry.value) or UNKNOWN)
        self.entries[expr.id] = _Entries(Kind.MAP, keys, values)
        return cost

    def cost_struct(self, expr: nodes.Struct) -> Range:
        cost = _MESSAGE
        for part in expr.fields:
            cost = cost.plus(self.cost(part.value))
        return cost

    # --- folds --------------------------------------------------------------------------------------------------

    def cost_comprehension(self, expr: nodes.Comprehension) -> Range:
        if _is_binding(expr):
            return self._cost_binding(expr)
        cost = self.cost(expr.range).plus(self.cost(expr.init))
        self._push(expr.accumulator, self._binding(expr.init))
        variables = [expr.variable, expr.variable2] if expr.variable2 else [expr.variable]
        for name, local in zip(variables, self._iterated(expr), strict=True):
            self._push(name, local)
        loop = self.cost(expr.condition)
        loop = self.cost(expr.step).plus(loop)
        for name in variables:
            self.locals[name].pop()
        cost = cost.plus(self.cost(expr.result))
        self.locals[expr.accumulator].pop()
        count = self._size(expr.range) or UNKNOWN
        self._remember_fold(expr, count)
        return cost.plus(count.times(loop))

    def _remember_fold(self, expr: nodes.Comprehension, count: Range) -> None:
        if isinstance(expr.init, nodes.Literal):
            size = self._size(expr.init)
            if size is not None:
                self.sizes[expr.id] = size
        elif isinstance(expr.init, nodes.ListExpr | nodes.MapExpr):
            self.sizes[expr.id] = count
            entries = self._entries(expr.step)
            if entries is not None:
                self.entries[expr.id] = entries

    def _cost_binding(self, expr: nodes.Comprehension) -> Range:
        cost = self.cost(expr.range).plus(self.cost(expr.init))
        self._push(expr.accumulator, self._binding(expr.init))
        cost = cost.plus(self.cost(expr.result))
        self.locals[expr.accumulator].pop()
        self._copy(expr, expr.result)
        return cost

    def _binding(self, init: nodes.Expr) -> _Local:
        return _Local(self._path(init), self._size(init), self._entries(init))

    def _iterated(self, expr: nodes.Comprehension) -> list[_Local]:
        """Return what is known of the variables that run over a range."""
        entries = self._entries(expr.range)
        path = self._path(expr.range)
        kind = self.types[expr.range.id].kind if entries is None else entries.kind
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        listed = kind is Kind.LIST
        if expr.variable2:
            keys = _Local(path.then("@indices" if listed else "@keys"), key)
            return [keys, _Local(path.then("@items" if listed else "@values"), value)]
        return [_Local(path.then("@items"), value) if listed else _Local(path.then("@keys"), key)]

    # --- what is known ------------------------------------------------------------------------------------------

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def _local(self, name: str) -> _Local | None:
        known = self.locals.get(name)
        return known[-1] if known else None

    def _path(self, expr: nodes.Expr) -> Trail:
        if type(expr) is nodes.Ident:
            known = self.locals.get(expr.name)
            if known:
                return known[-1].path
        return self.paths.get(expr.id, NOWHERE)

    def _ast_node(self, expr: nodes.Expr) -> AstNode:
        path = self._path(expr)
        if path.first in _ACCUMULATORS:
            path = NOWHERE
        constant = expr.value if type(expr) is nodes.Literal else None
        return AstNode(path, self.types[expr.id], constant, self._size(expr), self.has_bounded_parts)

    def _copy(self, target: nodes.Expr, source: nodes.Expr) -> None:
        size, entries = self._size(source), self._entries(source)
        if size is not None:
            self.sizes[target.id] = size
        if entries is not None:
            self.entries[target.id] = entries

    def _size(self, expr: nodes.Expr) -> Range | None:
        size = self.sizes.get(expr.id)
        if size is None:
            size = _written_size(expr)
        if size is not None:
            return size
        declared = declared_size(self._path(expr))
        if declared is not None:
            self.sizes[expr.id] = declared
            return declared
        kind = self.types[expr.id]
        if _is_scalar(kind) or (self.has_bounded_parts and kind.kind is Kind.TYPE):
            return _ONE
        local = self._local(expr.name) if isinstance(expr, nodes.Ident) else None
        return None if local is None else local.size

    def _entries(self, expr: nodes.Expr) -> _Entries | None:
        entries = self.entries.get(expr.id)
        if entries is None and isinstance(expr, nodes.Ident):
            local = self._local(expr.name)
            return None if local is None else local.entries
        return entries


def _is_binding(expr: nodes.Comprehension) -> bool:
    return (
        isinstance(expr.range, nodes.ListExpr)
        and not expr.range.elements
        and isinstance(expr.condition, nodes.Literal)
        and expr.condition.value is False
    )


def _written_size(expr: nodes.Expr) -> Range | None:
    if isinstance(expr, nodes.Literal):
        return exactly(len(expr.value)) if isinstance(expr.value, str | bytes) else _ONE
    if isinstance(expr, nodes.ListExpr):
        return exactly(len(expr.elements))
    if isinstance(expr, nodes.MapExpr):
        return exactly(len(expr.entries))
    return None


def _is_scalar(kind: Type) -> bool:
    if kind.kind is Kind.OPAQUE and kind.name == "optional_type":
        return _is_scalar(kind.parameters[0])
    return kind.kind in _SCALARS


_COSTS: Final[dict[type, Any]] = {
    nodes.Literal: lambda _, _literal: _NOTHING,
    nodes.Ident: _Estimator.cost_ident,
    nodes.Select: _Estimator.cost_select,
    nodes.Call: _Estimator.cost_call,
    nodes.ListExpr: _Estimator.cost_list,
    nodes.MapExpr: _Estimator.cost_map,
    nodes.Struct: _Estimator.cost_struct,
    nodes.Comprehension: _Estimator.cost_comprehension,
}
