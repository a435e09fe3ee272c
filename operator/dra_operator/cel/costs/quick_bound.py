"""Quick bound: expressions that visibly cost little, so that nobody has to estimate how much.

A selector compares a few attributes with a few constants. Each node of such an expression happens once, and passes over
one constant, or over what the declaration of `device` limits to 64 characters; so its text and the number of its nodes
bound what it costs. The estimate is never above that (a law of the tests), and takes a fifth of all the time of
compiling.
"""

from typing import Final

from dra_operator.cel.syntax.nodes import Call, Expr, Ident, ListExpr, Literal, Select

_A_NODE: Final = 8
"""What a node costs at most: 64 characters at 0.1 each, and one for itself."""
_OF_ONE: Final = frozenset(("_&&_", "_||_", "!_", "compareTo", "isGreaterThan", "isLessThan"))
"""Functions that cost the same whatever they are given."""
COMPARING: Final = frozenset(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"))
"""Functions that pass over the smaller of two values."""
_READING: Final = frozenset(("quantity", "semver", "startsWith", "endsWith"))
"""Functions that pass over their arguments, not over what they are called on."""


def most(expr: Expr, length: int) -> int | None:
    """Return what an expression whose text has this length cannot exceed, or None if it is not simple."""
    nodes = 0
    waiting = [expr]
    while waiting:
        expr = waiting.pop()
        nodes += 1
        if type(expr) is Literal:
            continue
        if names := way(expr):
            nodes += 2 * len(names)
        elif type(expr) is Call and _is_simple(expr):
            waiting += expr.args
            if expr.target is not None:
                waiting.append(expr.target)
        elif type(expr) is ListExpr and _are_constants(expr):
            nodes += len(expr.elements)
        else:
            return None
    return nodes * _A_NODE + length


def _is_simple(call: Call) -> bool:
    """Return whether a call costs little if its arguments do."""
    name, arguments = call.function, call.args
    if name in COMPARING:
        return _is_limited(arguments[0]) or _is_limited(arguments[1])
    if name in _READING:
        return all(_is_limited(argument) for argument in arguments)
    if name == "contains" and call.target is not None:
        # A character of what is looked for costs less than one, as what it is looked for in has 64 at most.
        return _is_limited(call.target) and type(arguments[0]) is Literal
    if name == "@in":
        return type(arguments[1]) is ListExpr
    return name in _OF_ONE


def _is_limited(expr: Expr) -> bool:
    """Return whether it is known how long a value can be: it is written there, or declared as part of a device.

    Nothing is declared of what lies inside an attribute, as an element of a list does.
    """
    names = way(expr)
    return type(expr) is Literal or names == ("driver",) or (names[:1] == ("attributes",) and len(names) <= 3)


def _are_constants(expr: ListExpr) -> bool:
    return all(type(element) is Literal for element in expr.elements)


def way(expr: Expr) -> tuple[str, ...]:
    """Return the names and keys that lead from `device` to a value, written as constants; none if it is not so."""
    names: list[str] = []
    while type(expr) is not Ident:
        if type(expr) is Select:
            names.append(expr.field)
            expr = expr.operand
        elif type(expr) is Call and expr.function == "_[_]" and type(expr.args[1]) is Literal:
            names.append(str(expr.args[1].value))
            expr = expr.args[0]
        else:
            return ()
    return tuple(reversed(names)) if expr.name == "device" else ()
