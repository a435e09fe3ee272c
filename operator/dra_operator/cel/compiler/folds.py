"""Folds: what a comprehension was before its macro was expanded.

The plan knows one kind of fold. Python has words for the usual ones (`all`, `any`, a generator), and they are much
faster than a loop that does the same by steps.
"""

from dataclasses import dataclass

from dra_operator.cel.interpretable import (
    Attribute,
    Choice,
    Const,
    Equality,
    Fold,
    Invoke,
    Logic,
    MakeList,
    Operand,
    Step,
    Variable,
)


@dataclass(frozen=True, slots=True)
class Pieces:
    """A fold as what it was written as: all, any (exists), sum (exists_one) or tuple (map, filter)."""

    kind: str
    element: Step
    tests: tuple[Step, ...] = ()


def pieces_of(fold: Fold) -> Pieces | None:
    """Return what a fold was written as, or None if it is none of these."""
    step = fold.step
    if isinstance(step, Logic) and _is_accumulator(step.terms[0], fold):
        return Pieces("any" if step.absorbing else "all", step.terms[1])
    tests: tuple[Step, ...] = ()
    if isinstance(step, Attribute) and isinstance(step.root, Choice):
        tests = (step.root.condition,)
        chosen = step.root.chosen
        if chosen.qualifiers or not isinstance(chosen.root, Operand):
            return None
        step = chosen.root.step
    if not (
        isinstance(step, Invoke) and step.function.name == "_+_" and _is_accumulator(step.arguments[0], fold)
    ):
        return None
    added = step.arguments[1]
    if isinstance(added, MakeList) and not added.optional and len(added.elements) == 1:
        return Pieces("tuple", added.elements[0], tests)
    if isinstance(added, Const) and type(added.value) is tuple:
        return Pieces("tuple", Const(added.id, added.value[0]), tests)
    if isinstance(added, Const) and isinstance(fold.result, Equality) and tests:
        return Pieces("sum", added, tests)
    return None


def _is_accumulator(step: Step, fold: Fold) -> bool:
    return (
        isinstance(step, Attribute) and isinstance(step.root, Variable) and step.root.slot == fold.accumulator
    )
