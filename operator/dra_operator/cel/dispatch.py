"""Dispatch: from a function's name and overloads to what is called.

Where the checker settled on one overload, its implementation is called after a look at the run-time types, since a dyn
argument can be anything; where several remained, the first whose signature fits the values is taken, in the order of
the declarations.
Source: cel-go `common/decls/decls.go`, `Bindings`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.cel.declarations import Overload
from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import compile_error, runtime_error
from dra_operator.cel.library import OVERLOADS
from dra_operator.cel.operators import SINGLETONS
from dra_operator.cel.types import Kind, Type
from dra_operator.cel.values import CelMap, type_name


@dataclass(frozen=True, slots=True)
class Function:
    """Something to call: its name, what to call, and whether all arguments are evaluated before an error counts."""

    name: str
    call: Callable[..., Any]
    eager: bool


_ANYTHING: Final = frozenset((Kind.DYN, Kind.ANY, Kind.PARAMETER))


def matches(kind: Type, value: Any) -> bool:
    """Return whether a value can be an argument of this type; of lists and maps the first entry is looked at."""
    if kind.kind in _ANYTHING:
        return True
    if kind.wrapper and value is None:
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
        return Function(name, singleton, eager=True)
    declared = environment.overloads(name) or ()
    if len(overloads) == 1:
        chosen = next(overload for overload in declared if overload.id == overloads[0])
        return Function(name, _guarded(name, chosen), eager=arguments <= 2)
    candidates = [overload for overload in declared if len(overload.arguments) == arguments]
    return Function(name, _dispatched(name, candidates), eager=False)


def _implementation(overload: Overload) -> Callable[..., Any]:
    implementation = OVERLOADS.get(overload.id)
    if implementation is None:
        raise compile_error(f"no such overload: {overload.id}")
    return implementation


def _guarded(name: str, overload: Overload) -> Callable[..., Any]:
    implementation = _implementation(overload)
    kinds = overload.arguments

    def call(*values: Any) -> Any:
        for kind, value in zip(kinds, values, strict=True):
            if not matches(kind, value):
                raise no_such_overload(name, values)
        return implementation(*values)

    return call if kinds else implementation


def _dispatched(name: str, candidates: list[Overload]) -> Callable[..., Any]:
    choices = [(overload.arguments, _implementation(overload)) for overload in candidates]

    def call(*values: Any) -> Any:
        for kinds, implementation in choices:
            if all(map(matches, kinds, values)):
                return implementation(*values)
        raise no_such_overload(name, values)

    return call


def no_such_overload(name: str, values: tuple[Any, ...]) -> Exception:
    """Return the error of a call that no overload fits."""
    return runtime_error(f"no such overload: {name}({', '.join(map(type_name, values))})")
