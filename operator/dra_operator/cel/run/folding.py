"""Folding: constant folding, before there is a device.

Conversions of constants are carried out (and fail) here, even in a branch that is never taken; literals of constants
become values; `in` over a list of constant primitives becomes a set lookup, which sees only equal numbers of other
types that convert without loss, and over an empty list is false without a look at the left side.
Source: cel-go `interpreter/decorators.go`, `interpreter/optimizations.go`.
"""

from dataclasses import replace
from typing import Any, Final

from dra_operator.cel.dispatch import with_known_pattern
from dra_operator.cel.errors import CelError, compile_error
from dra_operator.cel.library import regex
from dra_operator.cel.run import steps as ir
from dra_operator.cel.values import INT_MAX, INT_MIN, UINT_MAX, CelMap, Uint, hashed_key

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
