"""What counted code may call: its whole scope, with the few things that are not an operator of Python."""

from dataclasses import dataclass
from typing import Any, Final

from dra_operator.cel import operators
from dra_operator.cel.costs.call_costs import call_cost, equality_cost, inequality_cost
from dra_operator.cel.errors import Abort, CelError
from dra_operator.cel.generation import fast
from dra_operator.cel.library.limits import cost_exceeded
from dra_operator.cel.operators import contained, inserted
from dra_operator.cel.qualify import check_key, look_up, no_such_key, qualify
from dra_operator.cel.values import MISSING, NONE, CelMap, Optional_, cel_equal, hashed_key
from dra_operator.cel.work import WORK_LIMIT, calling, comparing

_ERROR: Final = 1_000
"""What catching an error takes, in work."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error kept in a variable: the accumulator of a fold, or a binding."""

    error: CelError


def start(work: int, name: str, values: tuple[Any, ...]) -> int:
    """Return the work with that of a call added; raises CelError if that is too much."""
    work += calling(name, values)
    if work > WORK_LIMIT:
        raise cost_exceeded()
    return work


def compare(work: int, left: Any, right: Any) -> int:
    """Return the work with that of a comparison added; raises CelError if that is too much."""
    work += comparing(left, right)
    if work > WORK_LIMIT:
        raise cost_exceeded()
    return work


def absorb(work: int, error: CelError) -> int:
    """Return the work with that of catching an error added; one that ends the evaluation is raised again."""
    if type(error) is Abort:
        raise error
    return work + _ERROR


def own(value: Any) -> Any:
    """Return a value that may be changed: a map is copied."""
    return CelMap(value.items()) if isinstance(value, CelMap) else value


def built(target: CelMap, *entry: Any) -> CelMap:
    """Return a map with an entry put into it; one with an optional value as a key is left to the interpreter.

    Such a key is another one wherever it is read, which only the interpreter keeps track of.
    """
    if len(entry) == 2 and type(entry[0]) is Optional_:
        raise TypeError
    return inserted(target, *entry)


def contained_text(text: Any, collection: Any) -> bool:
    """Return whether a text is in a list or a map; nothing but an equal text is equal to it."""
    return (
        text in collection if type(collection) is tuple and type(text) is str else contained(text, collection)
    )


SCOPE: Final[dict[str, Any]] = {
    "__builtins__": {},
    "TypeError": TypeError, "type": type, "tuple": tuple, "CelError": CelError, "Abort": Abort, "Failure": Failure,
    "MISSING": MISSING, "NONE": NONE, "Optional_": Optional_, "qualify": qualify, "look_up": look_up,
    "check_key": check_key, "no_such_key": no_such_key, "no_overload": operators.no_overload,
    "cost_exceeded": cost_exceeded, "call_cost": call_cost, "equality_cost": equality_cost,
    "inequality_cost": inequality_cost,
    "start": start, "compare": compare, "absorb": absorb,
    "equal": cel_equal, "not_equal": operators.not_equal, "elements": fast.elements, "pairs": fast.pairs,
    "hashed_key": hashed_key, "CelMap": CelMap, "built": built, "made_map": fast.made_map, "own": own,
    "contained_text": contained_text,
}  # fmt: skip
