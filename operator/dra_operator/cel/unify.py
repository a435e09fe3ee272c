"""Unification: whether one type can stand for another, and what the open type parameters are then.

Source: cel-go `checker/types.go`, function by function; where it looks arbitrary (which of two types is taken
as the more general, what null may be assigned to) it is upstream's answer, and selectors in clusters depend
on it.
"""

from collections.abc import Sequence
from typing import TypeAlias

from dra_operator.cel.types import DYN, DYNAMIC, DYNAMIC_OR_ERROR, Kind, Type, is_assignable

Mapping: TypeAlias = dict[str, Type]
"""What each type parameter stands for so far."""

_NULLABLE = frozenset((Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP))
_PARAMETERIZED = frozenset((Kind.OPAQUE, Kind.LIST, Kind.MAP))


def assign(mapping: Mapping, sources: Sequence[Type], targets: Sequence[Type]) -> Mapping | None:
    """Return `mapping` as it is if all `sources` are assigned to `targets`, or None if they cannot be."""
    trial = dict(mapping)
    return trial if _all_assignable(trial, sources, targets) else None


def _all_assignable(mapping: Mapping, sources: Sequence[Type], targets: Sequence[Type]) -> bool:
    if len(sources) != len(targets):
        return False
    return all(_assignable(mapping, source, target) for source, target in zip(sources, targets, strict=True))


def _assignable(mapping: Mapping, source: Type, target: Type) -> bool:
    if target.kind is Kind.PARAMETER:
        valid, bound = _substitutes(mapping, source, target)
        if valid or bound:
            return valid
    if source.kind is Kind.PARAMETER:
        return _substitutes(mapping, target, source)[0]
    if source.kind in DYNAMIC_OR_ERROR or target.kind in DYNAMIC_OR_ERROR:
        return True
    if source.kind is Kind.NULL:
        return _nullable(target)
    if target.kind is Kind.NULL:
        return _nullable(source)
    if source.kind is Kind.TYPE:
        return target.kind is Kind.TYPE
    if source.kind in _PARAMETERIZED:
        return (
            source.kind is target.kind
            and source.name == target.name
            and _all_assignable(mapping, source.parameters, target.parameters)
        )
    return is_assignable(target, source)


def _nullable(kind: Type) -> bool:
    return kind.kind in _NULLABLE or kind.wrapper or kind.kind is Kind.NULL


def _substitutes(mapping: Mapping, kind: Type, variable: Type) -> tuple[bool, bool]:
    """Return whether `variable` may stand for `kind`, and whether it already stands for something."""
    if kind == variable:
        return True, True
    bound = mapping.get(variable.name)
    if bound is None:
        if not _free_of(mapping, variable, kind):
            return False, False
        mapping[variable.name] = kind
        return True, False
    if kind == bound:
        return True, True
    if not _assignable(mapping, kind, bound):
        return False, True
    general = most_general(kind, bound)
    if _free_of(mapping, variable, general):
        mapping[variable.name] = general
    return True, True


def _free_of(mapping: Mapping, variable: Type, kind: Type) -> bool:
    """Return whether `variable` does not occur in `kind`."""
    if kind == variable:
        return False
    if kind.kind is Kind.PARAMETER:
        bound = mapping.get(kind.name)
        return bound is None or _free_of(mapping, variable, bound)
    return not kind.generic or all(_free_of(mapping, variable, inner) for inner in kind.parameters)


def most_general(first: Type, second: Type) -> Type:
    """Return the more general of two types that can be assigned to each other."""
    return first if _as_general(first, second) else second


def _as_general(first: Type, second: Type) -> bool:
    if first.kind in DYNAMIC or first.kind is Kind.PARAMETER:
        return True
    if second.kind in DYNAMIC or second.kind is Kind.PARAMETER or first.kind is not second.kind:
        return False
    if first.kind is Kind.TYPE:
        return True
    if first.kind in _PARAMETERIZED:
        return (
            first.name == second.name
            and len(first.parameters) == len(second.parameters)
            and all(map(_as_general, first.parameters, second.parameters))
        )
    return _exactly(first, second)


def _exactly(first: Type, second: Type) -> bool:
    return first.kind is second.kind and first.name == second.name and first.parameters == second.parameters


def substituted(mapping: Mapping, kind: Type) -> Type:
    """Return `kind` with every bound type parameter replaced by what it stands for."""
    return _replaced(mapping, kind, None)


def settled(mapping: Mapping, kind: Type) -> Type:
    """Return `kind` with every type parameter replaced: those that stand for nothing become dyn."""
    return _replaced(mapping, kind, DYN)


def _replaced(mapping: Mapping, kind: Type, unbound: Type | None) -> Type:
    """Replace the type parameters in `kind`; those that stand for nothing by `unbound`, or not at all."""
    if kind.kind is Kind.PARAMETER:
        bound = mapping.get(kind.name, unbound)
        return kind if bound is None else _replaced(mapping, bound, unbound)
    if not kind.generic:
        return kind
    return Type(kind.kind, kind.name, tuple(_replaced(mapping, inner, unbound) for inner in kind.parameters))
