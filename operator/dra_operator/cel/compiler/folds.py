"""Folds: what a comprehension was before its macro was expanded.

The plan knows one kind of fold. Python has words for the usual ones (`all`, `any`, a generator), and they are much
faster than a loop that does the same by steps.
"""

from dataclasses import dataclass

from dra_operator.cel import interpretable as ir


@dataclass(frozen=True, slots=True)
class Pieces:
    """A fold as what it was written as: all, any (exists), sum (exists_one) or tuple (map, filter)."""

    kind: str
    element: ir.Step
    tests: tuple[ir.Step, ...] = ()


def pieces_of(fold: ir.Fold) -> Pieces | None:
    """Return what a fold was written as, or None if it is none of these."""
    step = fold.step
    if isinstance(step, ir.Logic) and _is_accumulator(step.terms[0], fold):
        return Pieces("any" if step.absorbing else "all", step.terms[1])
    tests: tuple[ir.Step, ...] = ()
    if isinstance(step, ir.Attribute) and isinstance(step.root, ir.Choice):
        tests = (step.root.condition,)
        chosen = step.root.chosen
        if chosen.qualifiers or not isinstance(chosen.root, ir.Operand):
            return None
        step = chosen.root.step
    if not (
        isinstance(step, ir.Invoke)
        and step.function.name == "_+_"
        and _is_accumulator(step.arguments[0], fold)
    ):
        return None
    added = step.arguments[1]
    if isinstance(added, ir.MakeList) and not added.optional and len(added.elements) == 1:
        return Pieces("tuple", added.elements[0], tests)
    if isinstance(added, ir.Const) and type(added.value) is tuple:
        return Pieces("tuple", ir.Const(added.id, added.value[0]), tests)
    if isinstance(added, ir.Const) and isinstance(fold.result, ir.Equality) and tests:
        return Pieces("sum", added, tests)
    return None


def _is_accumulator(step: ir.Step, fold: ir.Fold) -> bool:
    return (
        isinstance(step, ir.Attribute)
        and isinstance(step.root, ir.Variable)
        and step.root.slot == fold.accumulator
    )
