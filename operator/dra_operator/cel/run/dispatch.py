"""Dispatch: from a function's name and overloads to what is called.

Where the checker settled on one overload, its implementation is called after a look at the run-time types,
since a dyn argument can be anything; where several remained, the first whose signature fits the values is
taken, in the order of the declarations.
Source: cel-go `common/decls/decls.go`, `Bindings`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from dra_operator.cel.errors import CelError, compile_error, runtime_error
from dra_operator.cel.library.core import SINGLETONS
from dra_operator.cel.types.environment import Environment, Overload
from dra_operator.cel.types.types import DYN, Kind, Type, list_of
from dra_operator.cel.values.values import CelMap, held, type_name


@dataclass(frozen=True, slots=True)
class Function:
    """Something to call: its name, what to call, and whether all arguments are evaluated before an error counts.

    `direct` is the code of the one overload that was settled on, if there is one: it does not look at types.
    """

    name: str
    call: Callable[..., Any]
    eager: bool
    direct: Callable[..., Any] | None = None


_ANYTHING: Final = frozenset((Kind.DYN, Kind.ANY, Kind.PARAMETER))
_UNGUARDED: Final = frozenset(("flatten",))
"""Functions that take lists whatever they hold: upstream disables their type guards, for lists already flat.

It does so for `contains`, `startsWith` and `endsWith`, too, whose arguments hold nothing: there it changes no answer.
"""
_MOST_REMEMBERED: Final = 256


def matches(kind: Type, value: Any) -> bool:
    """Return whether a value can be an argument of this type; of lists and maps the first entry is looked at."""
    if kind.kind in _ANYTHING:
        return True
    if type_name(value) != kind.name:
        return False
    if kind.kind is Kind.LIST:
        return not value or matches(kind.parameters[0], value[0])
    if kind.kind is Kind.MAP and isinstance(value, CelMap):
        for key, item in value.items():
            return matches(kind.parameters[0], key) and matches(kind.parameters[1], item)
    return True


def function(name: str, overloads: tuple[str, ...], arguments: int, environment: Environment) -> Function:
    """Return what a call of `name` calls; raises CelError if nothing implements it."""
    singleton = SINGLETONS.get(name)
    if singleton is not None:
        return Function(name, singleton, eager=arguments <= 2)
    declared = environment.functions.get(name, ())
    if len(overloads) == 1:
        chosen = next(overload for overload in declared if overload.id == overloads[0])
        call, direct = _dispatched(name, (chosen,))
        return Function(name, call, arguments <= 2, direct)
    candidates = tuple(overload for overload in declared if len(overload.arguments) == arguments)
    return Function(name, _dispatched(name, candidates)[0], eager=False)


def with_known_pattern(function: Function) -> Function:
    """Return what stands for a function of `regex.SEARCHING` if its pattern is written in the expression.

    Upstream puts another call in its place, one that stops at the first argument that fails and searches whatever Go
    holds as a text.
    Source: cel-go `interpreter/optimizations.go`, k8s.io/apiserver `pkg/cel/library/regex.go`.
    """
    search = function.direct or function.call

    def call(*values: Any) -> Any:
        wanted = (str, str, int)[: len(values)]
        if tuple(map(type, values)) == wanted:
            return search(*values)
        contents = tuple(map(held, values))
        if tuple(map(type, contents)) == wanted:
            return search(*contents)
        raise no_such_overload(function.name, values)

    return replace(function, call=call, eager=False)


def _dispatched(
    name: str, candidates: tuple[Overload, ...]
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Return what chooses among overloads by the values, and the implementation of the first."""
    guards = _own_types if name in _UNGUARDED else _all_types
    choices = [(guards(overload), _implementation(overload)) for overload in candidates]
    by_types = not any(kind.parameters for kinds, _ in choices for kind in kinds)
    remembered: dict[tuple[type, ...], Callable[..., Any]] = {}

    def call(*values: Any) -> Any:
        types = tuple(map(type, values))
        known = remembered.get(types)
        if known is not None:
            return known(*values)
        for kinds, implementation in choices:
            if all(map(matches, kinds, values)):
                if by_types and len(remembered) < _MOST_REMEMBERED:
                    remembered[types] = implementation
                return implementation(*values)
        raise no_such_overload(name, values)

    return call, choices[0][1] if choices else None


def _all_types(overload: Overload) -> tuple[Type, ...]:
    return overload.arguments


def _own_types(overload: Overload) -> tuple[Type, ...]:
    """Return the types of the arguments without those of what lists hold."""
    return tuple(list_of(DYN) if kind.kind is Kind.LIST else kind for kind in overload.arguments)


def _implementation(overload: Overload) -> Callable[..., Any]:
    if overload.code is None:
        raise compile_error(f"no such overload: {overload.id}")
    return overload.code


def no_such_overload(name: str, values: tuple[Any, ...]) -> CelError:
    """Return the error of a call that no overload fits."""
    return runtime_error(f"no such overload: {name}({', '.join(map(type_name, values))})")
