"""Steps: what an evaluation is made of, the intermediate representation between planner and evaluator.

Some of upstream's answers follow from its plan alone, so ours has the same shape: a chain such as `a.b[c].?d` is one
attribute with qualifiers (so one `?` makes all after it optional), conversions of constants are done while planning and
fail there, `in` over constant primitives becomes a set.
Source: cel-go `interpreter/planner.go`, `interpreter/attributes.go`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dra_operator.cel.run.dispatch import Function

DEVICE, METER, FIRST_VARIABLE = 0, 1, 2
"""The slots of an evaluation: the device, the meter, and from there on the variables of folds."""


@dataclass(slots=True)
class Const:
    """A value that is known before evaluation."""

    id: int
    value: Any


@dataclass(slots=True)
class Qualifier:
    """One step along an attribute: a constant `key`, or the value of a step.

    `optional` was written with `?`, `test_only` asks for presence. `fresh` marks an index that is neither a
    constant nor an attribute (it matters for costs alone).
    """

    id: int
    key: Any = None
    step: "Step | None" = None
    optional: bool = False
    test_only: bool = False
    fresh: bool = False


@dataclass(slots=True)
class Variable:
    """The root of an attribute: `device` or a variable of a fold."""

    id: int
    name: str
    slot: int


@dataclass(slots=True)
class Operand:
    """The root of an attribute: the value of another step."""

    id: int
    step: "Step"


@dataclass(slots=True)
class Choice:
    """The root of an attribute: one of two attributes, by a condition."""

    id: int
    condition: "Step"
    chosen: "Attribute"
    other: "Attribute"


@dataclass(slots=True)
class Attribute:
    """A root and the qualifiers applied to it in turn."""

    root: "Variable | Operand | Choice"
    qualifiers: list[Qualifier] = field(default_factory=list)
    test_id: int | None = None
    """The id of the presence test, where the last qualifier only tests."""

    inner_id: int = field(init=False, repr=False, compare=False)
    """The id without regard to a presence test."""

    def __post_init__(self) -> None:
        self._identify()

    @property
    def id(self) -> int:
        """The id under which its value is known: that of the last qualifier."""
        return self.inner_id if self.test_id is None else self.test_id

    def _identify(self) -> None:
        root = self.root
        if isinstance(root, Choice):
            chosen, other = root.chosen.inner_id, root.other.inner_id
            self.inner_id = chosen if chosen == other else root.id
        else:
            self.inner_id = self.qualifiers[-1].id if self.qualifiers else root.id

    def qualify(self, qualifier: Qualifier) -> None:
        """Add a step at the end; a choice adds it to both of its attributes."""
        if isinstance(self.root, Choice):
            self.root.chosen.qualify(qualifier)
            self.root.other.qualify(qualifier)
        else:
            self.qualifiers.append(qualifier)
        self._identify()


@dataclass(slots=True)
class Logic:
    """`&&` or `||`; `absorbing` is the answer that decides without the other side: False or True."""

    id: int
    absorbing: bool
    terms: tuple["Step", "Step"]


@dataclass(slots=True)
class Equality:
    """`==`, or `!=` with `negated`."""

    id: int
    negated: bool
    arguments: tuple["Step", ...]


@dataclass(slots=True)
class Invoke:
    """A call of a function with the overload that was settled on, empty where only the values decide.

    `known_pattern` marks a regular expression that is written in the expression, and compiled already.
    """

    id: int
    function: Function
    overload: str
    arguments: tuple["Step", ...]
    known_pattern: bool = False


@dataclass(slots=True)
class Members:
    """`in` over a list of constant primitives, as a set of what is equal to one of them."""

    id: int
    argument: "Step"
    keys: frozenset[Any]


@dataclass(slots=True)
class Otherwise:
    """`or` and `orValue`: the right side is evaluated only if the left is absent; `unwrap` marks `orValue`."""

    id: int
    unwrap: bool
    left: "Step"
    right: "Step"


@dataclass(slots=True)
class MakeList:
    """A list with elements that are not all constant."""

    id: int
    elements: tuple["Step", ...]
    optional: frozenset[int]


@dataclass(slots=True)
class MakeMap:
    """A map with entries that are not all constant: key, value, whether the value is optional."""

    id: int
    entries: tuple[tuple["Step", "Step", bool], ...]


@dataclass(slots=True)
class MakeMessage:
    """A message: field, value, whether the value is optional."""

    id: int
    name: str
    fields: tuple[tuple[str, "Step", bool], ...]


@dataclass(slots=True)
class Fold:
    """A comprehension; the accumulator and the one or two variables have their slots."""

    id: int
    range: "Step"
    accumulator: int
    first: int
    second: int | None
    init: "Step"
    condition: "Step"
    step: "Step"
    result: "Step"


Step: TypeAlias = (
    Const
    | Attribute
    | Logic
    | Equality
    | Invoke
    | Members
    | Otherwise
    | MakeList
    | MakeMap
    | MakeMessage
    | Fold
)


@dataclass(slots=True)
class Plan:
    """A whole plan: its last step and how many slots it needs."""

    step: Step
    slots: int


def parts_of(step: Step) -> Iterator[Step]:
    """Yield the steps that a step is directly made of."""
    match step:
        case Attribute(root=root):
            yield from (qualifier.step for qualifier in step.qualifiers if qualifier.step is not None)
            if isinstance(root, Operand):
                yield root.step
            elif isinstance(root, Choice):
                yield from (root.condition, root.chosen, root.other)
        case Logic():
            yield from step.terms
        case Equality() | Invoke():
            yield from step.arguments
        case Members():
            yield step.argument
        case Otherwise():
            yield from (step.left, step.right)
        case MakeList():
            yield from step.elements
        case MakeMap():
            yield from (part for key, value, _ in step.entries for part in (key, value))
        case MakeMessage():
            yield from (value for _, value, _ in step.fields)
        case Fold():
            yield from (step.range, step.init, step.condition, step.step, step.result)
