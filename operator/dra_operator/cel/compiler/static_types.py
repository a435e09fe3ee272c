"""Certainty: which types of the checker can be relied on at run time.

The checker lets dyn stand for anything: `dyn([3]).last().orValue(true)` is a bool to it, and 3 in the evaluation.
Code that uses Python's own operators, to which 1 and true are the same, must know better.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from dra_operator.cel import interpretable as ir
from dra_operator.cel.declarations import functions
from dra_operator.cel.paths import Aliases, is_binding, way
from dra_operator.cel.types import BOOL, DYN, INT, STRING, Type

_TYPES_OF_CONSTANTS: Final = {bool: BOOL, int: INT, str: STRING}
_ARITHMETIC: Final = frozenset(("_+_", "_-_", "_*_", "_/_", "_%_", "-_"))
"""Operators that go by the types of their operands alone."""


def certain_type(
    step: ir.Step,
    types: Mapping[int, Type],
    aliases: Aliases,
    variables: Mapping[int, Type],
    known: dict[int, Type],
) -> Type:
    """Return the type that the value of a step is certain to have; dyn if there is none.

    `types` are those of the checker by node, `variables` those that are certain by slot; `known` keeps what was found
    of arithmetic, by node, so that a long sum is looked through once.
    """

    def certain(step: ir.Step) -> Type:
        match step:
            case ir.Const():
                return _TYPES_OF_CONSTANTS.get(type(step.value), DYN)
            case ir.Attribute():
                return of_attribute(step)
            case ir.Logic() | ir.Equality() | ir.Members():
                return BOOL
            case ir.Otherwise():
                return DYN
            case ir.Fold() if is_binding(step):
                return certain(step.result)
            case ir.Invoke() if step.function.name in _ARITHMETIC:
                found = known.get(step.id)
                if found is None:
                    sure = all(certain(part) is not DYN for part in step.arguments)
                    found = known[step.id] = types.get(step.id, DYN) if sure else DYN
                return found
            case ir.Invoke() if not _makes_its_result(step.function.name):
                return DYN
            case _:
                return types.get(step.id, DYN)

    def of_attribute(step: ir.Attribute) -> Type:
        root = step.root
        if step.test_id is not None:
            return BOOL
        if isinstance(root, ir.Choice):
            chosen, other = certain(root.chosen), certain(root.other)
            return chosen if chosen == other else DYN
        if way(step, aliases) is not None:
            return types.get(step.id, DYN)
        if step.qualifiers:
            return DYN
        return variables.get(root.slot, DYN) if isinstance(root, ir.Variable) else certain(root.step)

    return certain(step)


@cache
def _makes_its_result(name: str) -> bool:
    """Return whether a function, by its declaration, cannot give what one of its arguments holds, whatever that is."""
    overloads = functions().get(name, ())
    return bool(overloads) and not any(
        overload.result.generic or overload.result in _held(overload.arguments) for overload in overloads
    )


def _held(kinds: tuple[Type, ...]) -> Iterator[Type]:
    """Yield the types of what values of these types hold."""
    for kind in kinds:
        yield from kind.parameters
        yield from _held(kind.parameters)


def type_of_elements(elements: tuple[Any, ...]) -> Type:
    """Return the type that all elements of a constant list have; dyn if they have none in common."""
    kinds = {_TYPES_OF_CONSTANTS.get(type(element), DYN) for element in elements}
    return kinds.pop() if len(kinds) == 1 else DYN
