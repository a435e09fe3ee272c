"""Paths: which parts of a device an expression reads, where that is plain from its plan.

`device.attributes["d"].x` is a path, and so is `dra.x` where `dra` is bound to `device.attributes["d"]`. An
expression that reads by paths alone gives the same answer on all devices that agree in them, which is what
lets one evaluation answer for thousands of equal devices.
"""

from collections.abc import Iterator
from typing import TypeAlias

from dra_operator.cel.run import steps as ir

Aliases: TypeAlias = dict[int, tuple[ir.Qualifier, ...]]
"""The slots of variables that are bound to a part of the device, with the way to it."""
MAPS = ("attributes", "capacity")
"""The maps of a device, by domain and name."""
_FIELDS = ("driver", "allowMultipleAllocations")
LEVELS = 3
"""A map, a domain and a name."""


def way(attribute: ir.Attribute, aliases: Aliases) -> tuple[ir.Qualifier, ...] | None:
    """Return the qualifiers from the device to what an attribute means, or None if it does not start at the device."""
    root = attribute.root
    if not isinstance(root, ir.Variable):
        return None
    if root.slot == ir.DEVICE:
        return tuple(attribute.qualifiers)
    before = aliases.get(root.slot)
    return None if before is None else (*before, *attribute.qualifiers)


def bound_way(fold: ir.Fold, aliases: Aliases) -> tuple[ir.Qualifier, ...] | None:
    """Return the way of what a `cel.bind` binds, or None if the fold is none, or binds something else."""
    if not is_binding(fold) or not isinstance(fold.init, ir.Attribute) or fold.init.test_id is not None:
        return None
    found = way(fold.init, aliases)
    if found is None or any(qualifier.step is not None or qualifier.optional for qualifier in found):
        return None
    return found


def is_binding(fold: ir.Fold) -> bool:
    """Return whether a fold is a `cel.bind`: over nothing, with a condition that never holds."""
    return (
        isinstance(fold.range, ir.Const)
        and fold.range.value == ()
        and isinstance(fold.condition, ir.Const)
        and fold.condition.value is False
    )


def table_entry(qualifiers: tuple[ir.Qualifier, ...]) -> tuple[str, str] | None:
    """Return the table of a prepared device and the key in it for a constant way to an attribute or a capacity.

    Only the first three qualifiers count, of which the last may be optional or a test; None for all other ways.
    """
    if len(qualifiers) < LEVELS or any(part.optional or part.test_only for part in qualifiers[:2]):
        return None
    keys = _named(qualifiers[:LEVELS])
    return (keys[0], f"{keys[1]}/{keys[2]}") if keys is not None and keys[0] in MAPS else None


def _named(qualifiers: tuple[ir.Qualifier, ...]) -> tuple[str, ...] | None:
    """Return the keys of a way, or None if one is not a constant text or stands for two levels."""
    keys = [qualifier.key for qualifier in qualifiers]
    if any(qualifier.step is not None or type(qualifier.key) is not str for qualifier in qualifiers):
        return None
    return None if len(keys) >= 2 and "/" in keys[1] else tuple(keys)


def reads(plan: ir.Plan) -> frozenset[str] | None:
    """Return what a plan reads.

    That is `driver`, `allowMultipleAllocations`, `attributes/<domain>/<id>` and `capacity/<domain>/<id>`; None if it
    reads more than such parts: a map as a whole, or by a key that is computed.
    """
    found = {_part(qualifiers) for qualifiers in _ways(plan.step, {})}
    return None if None in found else frozenset(part for part in found if part is not None)


def _ways(step: ir.Step, aliases: Aliases) -> Iterator[tuple[ir.Qualifier, ...]]:
    """Yield the way to each part of the device that a step reads."""
    match step:
        case ir.Attribute():
            found = way(step, aliases)
            if found is not None:
                yield found
            yield from _ways_inside(step, aliases)
        case ir.Invoke(arguments=(ir.Const(value=str() as key), ir.Attribute() as attribute)) if (
            step.function.name == "@in" and (found := way(attribute, aliases)) is not None
        ):
            yield (*found, ir.Qualifier(0, key))
        case ir.Fold():
            bound = bound_way(step, aliases)
            if bound is not None:
                yield from _ways(step.result, {**aliases, step.accumulator: bound})
            else:
                yield from _ways_inside(step, aliases)
        case _:
            yield from _ways_inside(step, aliases)


def _ways_inside(step: ir.Step, aliases: Aliases) -> Iterator[tuple[ir.Qualifier, ...]]:
    for inner in ir.parts_of(step):
        yield from _ways(inner, aliases)


def _part(qualifiers: tuple[ir.Qualifier, ...]) -> str | None:
    keys = _named(qualifiers[:LEVELS])
    if not keys:
        return None
    if keys[0] in _FIELDS:
        return keys[0]
    return "/".join(keys) if keys[0] in MAPS and len(keys) == LEVELS else None
