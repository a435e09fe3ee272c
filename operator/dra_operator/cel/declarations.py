"""Declarations: which functions there are, on what they work, what they give, and the code behind them.

Each module of the library has a table: a row an overload, which says `function id: (arguments) -> result`, or in the
receiver style `function id: target.(arguments) -> result`, the code (None where the planner or `operators` have it),
and the price of a call if it does not cost 1. The order is upstream's, and matters: the first that fits is taken.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.cel.costs.prices import ONE, Implementation, Price, Row
from dra_operator.cel.library import (
    authorization,
    conversions,
    core,
    formatting,
    lists,
    named_formats,
    network,
    older,
    optionals,
    quantities,
    regex,
    semvers,
    sets,
    strings,
    times,
    urls,
)
from dra_operator.cel.types import Type, parameters_in, read_type

_TABLES: Final[tuple[Mapping[str, Row], ...]] = (
    core.FUNCTIONS, conversions.FUNCTIONS, times.FUNCTIONS, regex.FUNCTIONS, lists.FUNCTIONS, sets.FUNCTIONS,
    strings.FUNCTIONS, formatting.FUNCTIONS, optionals.FUNCTIONS, quantities.FUNCTIONS, semvers.FUNCTIONS,
    network.FUNCTIONS, urls.FUNCTIONS, named_formats.FUNCTIONS, authorization.FUNCTIONS,
)  # fmt: skip


@fast_dataclass
class Overload:
    """One signature of a function. In the receiver style the first argument is the target."""

    id: str
    arguments: tuple[Type, ...]
    result: Type
    member: bool
    parameters: tuple[str, ...]
    code: Callable[..., Any] | None
    price: Price | None


@cache
def functions() -> Mapping[str, tuple[Overload, ...]]:
    """Return the overloads of every function of Kubernetes 1.37, by the function's name."""
    declared: dict[str, tuple[Overload, ...]] = {}
    for table in _TABLES:
        for text, row in table.items():
            name, overload = read_row(text, row)
            declared[name] = (*declared.get(name, ()), overload)
    return declared


@cache
def older_functions() -> Mapping[str, Overload]:
    """Return what Kubernetes 1.36 has instead of an overload of 1.37, by the function's name."""
    return dict(read_row(text, row) for text, row in older.FUNCTIONS.items())


def price_of(name: str, overload: str) -> Price:
    """Return what a call of a function costs; the overload is empty where only the values decide which it is."""
    by_overload, by_name = _prices()
    return by_overload.get(overload) or by_name.get(name, ONE)


@cache
def _prices() -> tuple[Mapping[str, Price], Mapping[str, Price]]:
    by_overload: dict[str, Price] = {}
    by_name: dict[str, Price] = {}
    declared = [(name, each) for name, group in functions().items() for each in group]
    for name, overload in (*declared, *older_functions().items()):
        if overload.price is not None:
            by_overload[overload.id] = overload.price
            if overload.price.by_name:
                by_name[name] = overload.price
    return by_overload, by_name


def read_row(text: str, row: Row) -> tuple[str, Overload]:
    """Return the name of a function and the overload that a row of the library states."""
    name, line = text.split(" ", 1)
    identity, signature = line.split(": ", 1)
    left, result = signature.rsplit(" -> ", 1)
    target, arguments = _split(left)
    types = tuple(map(read_type, (*target, *arguments)))
    result_type = read_type(result)
    used = dict.fromkeys(name for kind in (*types, result_type) for name in parameters_in(kind))
    code, price = row if isinstance(row, Implementation) else (row, None)
    return name, Overload(identity, types, result_type, bool(target), tuple(used), code, price)


def _split(left: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the target, if any, and the arguments of `target.(a, b)`."""
    depth = 0
    for start in range(len(left) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(left[start], 0)
        if depth == 0:
            break
    target = (left[: start - 1],) if start else ()
    return target, _arguments(left[start + 1 : -1])


def _arguments(text: str) -> tuple[str, ...]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return (*parts, current.strip()) if current.strip() else tuple(parts)
