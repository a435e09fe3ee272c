"""Weight: how much an evaluation can pass over at most (abstract interpretation, with bounds of sizes as values).

Costs are not times: adding two lists costs 1, and a text that is bound and added to itself doubles. So only what passes
over little, whatever the device holds, is code that counts nothing. One unit is a character, a short element of a list,
or 64 bits of an amount.
Source of the sizes: limits of k8s.io/api/resource/v1.
"""

from contextlib import suppress
from typing import Any, Final, NamedTuple

from dra_operator.cel.checker import Checked
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.quantities import LARGEST_EXPONENT, parse_quantity
from dra_operator.cel.syntax import nodes
from dra_operator.cel.types import DYN, QUANTITY, STRING, Kind, Type

HEAVY: Final = 1_000_000
"""Above this it may take long: a unit takes at most a microsecond."""
_UNBOUNDED: Final = HEAVY * 10
_BITS: Final = 64
_NUMBER: Final = 64
"""The longest text that a number is written as."""
_SCALARS: Final = frozenset(
    (Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL, Kind.TIMESTAMP, Kind.TYPE, Kind.UINT)
)
_PASSING_OVER_THE_SMALLER: Final = frozenset(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"))


class Size(NamedTuple):
    """How many parts a value has, and how much it is with all that stands in it; `part` is the largest of its parts.

    Where nothing is known of the parts, each may be the whole.
    """

    length: int
    total: int
    part: "Size | None" = None

    @property
    def inner(self) -> "Size":
        """The size of a part."""
        return self.part or Size(self.total, self.total)


_ONE: Final = Size(1, 1)
_LARGEST_AMOUNT: Final = Size(1, LARGEST_EXPONENT * 10 // 3 // _BITS)
_TEXT: Final = Size(64, 64)
_VALUE: Final = Size(64, 64, _TEXT)
"""An attribute is a text, or a list of texts."""
_DOMAIN: Final = Size(32, 32 * 64, _VALUE)
_DOMAINS: Final = Size(32, 32 * 64, _DOMAIN)
_DEVICE: Final = Size(4, 2 * 32 * 64)
_FIELDS: Final = {"attributes": _DOMAINS, "capacity": _DOMAINS, "driver": _TEXT}


def weight(checked: Checked) -> int:
    """Return how much one evaluation passes over at most; beyond `HEAVY` no difference is made."""
    weighing = _Weighing(checked)
    weighing.size(checked.expr)
    return weighing.passed


class _Weighing:
    __slots__ = ("locals", "passed", "types")

    def __init__(self, checked: Checked) -> None:
        self.types = checked.types
        self.passed = 0
        self.locals: dict[str, list[Size]] = {}

    def size(self, expr: nodes.Expr) -> Size:
        """Return the size of the value of an expression, and add up what evaluating it passes over."""
        self._pass(1)
        size: Size = _SIZES[type(expr)](self, expr)
        return _ONE if self._type(expr).kind in _SCALARS else size

    def _pass(self, amount: int) -> None:
        self.passed = min(self.passed + amount, _UNBOUNDED)

    def _type(self, expr: nodes.Expr) -> Type:
        return self.types.get(expr.id, DYN)

    def literal(self, expr: nodes.Literal) -> Size:
        length = len(expr.value) if isinstance(expr.value, str | bytes) else 1
        return Size(length, length)

    def ident(self, expr: nodes.Ident) -> Size:
        known = self.locals.get(expr.name)
        if known:
            return known[-1]
        return _DEVICE if expr.name == "device" else _ONE

    def select(self, expr: nodes.Select) -> Size:
        operand = self.size(expr.operand)
        return _FIELDS.get(expr.field, _ONE) if operand is _DEVICE else operand.inner

    def aggregate(self, expr: nodes.ListExpr | nodes.MapExpr | nodes.Struct) -> Size:
        parts = [self.size(part) for part in nodes.children(expr)]
        return _whole(parts)

    # --- calls --------------------------------------------------------------------------------------------------

    def call(self, expr: nodes.Call) -> Size:
        parts = nodes.children(expr)
        sizes = [self.size(part) for part in parts]
        match expr.function:
            case "_[_]" | "_[?_]" | "_?._":
                return sizes[0].inner
            case "_?_:_":
                return _bounded(
                    max(size.length for size in sizes[1:]),
                    max(map(_total, sizes[1:])),
                    max(sizes[1:], key=_inner).inner,
                )
            case "_+_" if self._type(expr) != QUANTITY:
                made = _sum(*sizes)
            case "@in":
                self._pass(sizes[1].total)
                return _ONE
            case name if name in _PASSING_OVER_THE_SMALLER:
                self._pass(min(size.total for size in sizes))
                return _ONE
            case _:
                made = self._made(expr, parts, sizes)
        self._pass(made.total)
        return made

    def _made(self, expr: nodes.Call, parts: tuple[nodes.Expr, ...], sizes: list[Size]) -> Size:
        """Return what a call passes over, and makes at most: each part of one argument with each of the others."""
        kind = self._type(expr)
        if kind == QUANTITY:
            return self._amount(parts, sizes)
        total, sized = 1, False
        for part, size in zip(parts, sizes, strict=True):
            if self._type(part).kind not in _SCALARS:
                total, sized = min(total * (1 + size.total), _UNBOUNDED), True
        if sized or kind.kind is not Kind.LIST:
            return Size(total, total) if sized else Size(_NUMBER, _NUMBER)
        # A list that is made of numbers alone is as long as they say.
        written = [
            part.value for part in parts if isinstance(part, nodes.Literal) and type(part.value) is int
        ]
        count = max(1, *written) if len(written) == len(parts) else _UNBOUNDED
        return Size(count, count, _ONE)

    def _amount(self, parts: tuple[nodes.Expr, ...], sizes: list[Size]) -> Size:
        """An amount that is read has as many digits as its text says, which any text may."""
        if len(parts) == 1 and self._type(parts[0]) != QUANTITY:
            if isinstance(parts[0], nodes.Literal) and self._type(parts[0]) == STRING:
                with suppress(CelError):
                    return Size(1, 1 + parse_quantity(parts[0].value).nano.bit_length() // _BITS)
            return _LARGEST_AMOUNT
        return Size(1, min(sum(size.total for size in sizes), _UNBOUNDED))

    # --- folds --------------------------------------------------------------------------------------------------

    def fold(self, expr: nodes.Comprehension) -> Size:
        over = self.size(expr.range)
        init = self.size(expr.init)
        before, self.passed = self.passed, 0
        self._push(expr.accumulator, init)
        variables = [name for name in (expr.variable, expr.variable2) if name]
        for name in variables:
            self._push(name, over.inner)
        self.size(expr.condition)
        step = self.size(expr.step)
        for name in (*variables, expr.accumulator):
            self.locals[name].pop()
        self.passed = min(before + over.length * self.passed, _UNBOUNDED)
        # The step of a macro adds something to the accumulator, or leaves it as it is.
        grown = _times(over.length, step)
        self._push(expr.accumulator, _sum(init, grown) if over.length else init)
        result = self.size(expr.result)
        self.locals[expr.accumulator].pop()
        return result

    def _push(self, name: str, size: Size) -> None:
        self.locals.setdefault(name, []).append(size)


def _sum(*sizes: Size) -> Size:
    return _bounded(
        sum(size.length for size in sizes),
        sum(size.total for size in sizes),
        max(sizes, key=_inner).inner,
    )


def _times(count: int, size: Size) -> Size:
    return _bounded(count * size.length, count * size.total, size.inner)


def _whole(parts: list[Size]) -> Size:
    """Return the size of a list, a map or a message with these parts."""
    total = len(parts) + sum(part.total for part in parts)
    return _bounded(len(parts), total, max(parts, key=_total, default=_ONE))


def _bounded(count: int, total: int, part: Size) -> Size:
    return Size(min(count, _UNBOUNDED), min(total, _UNBOUNDED), part)


def _total(size: Size) -> int:
    return size.total


def _inner(size: Size) -> int:
    return size.inner.total


_SIZES: Final[dict[type, Any]] = {
    nodes.Literal: _Weighing.literal,
    nodes.Ident: _Weighing.ident,
    nodes.Select: _Weighing.select,
    nodes.Call: _Weighing.call,
    nodes.ListExpr: _Weighing.aggregate,
    nodes.MapExpr: _Weighing.aggregate,
    nodes.Struct: _Weighing.aggregate,
    nodes.Comprehension: _Weighing.fold,
}
