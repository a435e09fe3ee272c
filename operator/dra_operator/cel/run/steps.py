"""Steps: what an evaluation is made of (the intermediate representation behind the planner), and what calls call.

Some of upstream's answers follow from its plan alone, so ours has the same shape: a chain such as `a.b[c].?d` is one
attribute with qualifiers (so one `?` makes all after it optional). Where the checker settled on one overload, its code
is called after a look at the run-time types; where several remained, the first whose signature fits the values.
Source: cel-go `interpreter/planner.go`, `interpreter/attributes.go`, `common/decls/decls.go` (`Bindings`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from dra_operator.cel.errors import CelError, compile_error, runtime_error
from dra_operator.cel.library.core import SINGLETONS
from dra_operator.cel.types.environment import Environment, Overload
from dra_operator.cel.types.types import DYN, Kind, Type, list_of
from dra_operator.cel.values import CelMap, held, type_name


@dataclass(frozen=True, slots=True)
class Function:
    """Something to call: its name, what to call, and whether all arguments are evaluated before an error counts."""

    name: str
    call: Callable[..., Any]
    eager: bool


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
        return Function(name, _dispatched(name, (chosen,)), arguments <= 2)
    candidates = tuple(overload for overload in declared if len(overload.arguments) == arguments)
    return Function(name, _dispatched(name, candidates), eager=False)


def with_known_pattern(function: Function) -> Function:
    """Return what stands for a function of `regex.SEARCHING` if its pattern is written in the expression.

    Upstream puts another call in its place, one that stops at the first argument that fails and searches whatever Go
    holds as a text.
    Source: cel-go `interpreter/optimizations.go`, k8s.io/apiserver `pkg/cel/library/regex.go`.
    """
    search = function.call

    def call(*values: Any) -> Any:
        wanted = (str, str, int)[: len(values)]
        if tuple(map(type, values)) == wanted:
            return search(*values)
        contents = tuple(map(held, values))
        if tuple(map(type, contents)) == wanted:
            return search(*contents)
        raise no_such_overload(function.name, values)

    return replace(function, call=call, eager=False)


def _dispatched(name: str, candidates: tuple[Overload, ...]) -> Callable[..., Any]:
    """Return what chooses among overloads by the values."""
    choices = [
        (_own_types(overload) if name in _UNGUARDED else overload.arguments, _implementation(overload))
        for overload in candidates
    ]
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

    return call


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


# --- Paths: which parts of a device an expression reads, where that is plain from its plan.
# `device.attributes["d"].x` is a path, and so is `dra.x` where `dra` is bound to `device.attributes["d"]`. An
# expression that reads by paths alone gives the same answer on all devices that agree in them, which is what lets one
# evaluation answer for thousands of equal devices.


Aliases: TypeAlias = dict[int, tuple[Qualifier, ...]]
"""The slots of variables that are bound to a part of the device, with the way to it."""
MAPS = ("attributes", "capacity")
"""The maps of a device, by domain and name."""
_FIELDS = ("driver", "allowMultipleAllocations")
LEVELS = 3
"""A map, a domain and a name."""


def way(attribute: Attribute, aliases: Aliases) -> tuple[Qualifier, ...] | None:
    """Return the qualifiers from the device to what an attribute means, or None if it does not start at the device."""
    root = attribute.root
    if not isinstance(root, Variable):
        return None
    if root.slot == DEVICE:
        return tuple(attribute.qualifiers)
    before = aliases.get(root.slot)
    return None if before is None else (*before, *attribute.qualifiers)


def bound_way(fold: Fold, aliases: Aliases) -> tuple[Qualifier, ...] | None:
    """Return the way of what a `cel.bind` binds, or None if the fold is none, or binds something else."""
    if not is_binding(fold) or not isinstance(fold.init, Attribute) or fold.init.test_id is not None:
        return None
    found = way(fold.init, aliases)
    if found is None or any(qualifier.step is not None or qualifier.optional for qualifier in found):
        return None
    return found


def is_binding(fold: Fold) -> bool:
    """Return whether a fold is a `cel.bind`: over nothing, with a condition that never holds."""
    return (
        isinstance(fold.range, Const)
        and fold.range.value == ()
        and isinstance(fold.condition, Const)
        and fold.condition.value is False
    )


def table_entry(qualifiers: tuple[Qualifier, ...]) -> tuple[str, str] | None:
    """Return the table of a prepared device and the key in it for a constant way to an attribute or a capacity.

    Only the first three qualifiers count, of which the last may be optional or a test; None for all other ways.
    """
    if len(qualifiers) < LEVELS or any(part.optional or part.test_only for part in qualifiers[:2]):
        return None
    keys = _named(qualifiers[:LEVELS])
    return (keys[0], f"{keys[1]}/{keys[2]}") if keys is not None and keys[0] in MAPS else None


def _named(qualifiers: tuple[Qualifier, ...]) -> tuple[str, ...] | None:
    """Return the keys of a way, or None if one is not a constant text or stands for two levels."""
    keys = [qualifier.key for qualifier in qualifiers]
    if any(qualifier.step is not None or type(qualifier.key) is not str for qualifier in qualifiers):
        return None
    return None if len(keys) >= 2 and "/" in keys[1] else tuple(keys)


def reads(plan: Plan) -> frozenset[str] | None:
    """Return what a plan reads.

    That is `driver`, `allowMultipleAllocations`, `attributes/<domain>/<id>` and `capacity/<domain>/<id>`; None if it
    reads more than such parts: a map as a whole, or by a key that is computed.
    """
    found = {_part(qualifiers) for qualifiers in _ways(plan.step, {})}
    return None if None in found else frozenset(part for part in found if part is not None)


def _ways(step: Step, aliases: Aliases) -> Iterator[tuple[Qualifier, ...]]:
    """Yield the way to each part of the device that a step reads."""
    match step:
        case Attribute():
            found = way(step, aliases)
            if found is not None:
                yield found
            yield from _ways_inside(step, aliases)
        case Invoke(arguments=(Const(value=str() as key), Attribute() as attribute)) if (
            step.function.name == "@in" and (found := way(attribute, aliases)) is not None
        ):
            yield (*found, Qualifier(0, key))
        case Fold():
            bound = bound_way(step, aliases)
            if bound is not None:
                yield from _ways(step.result, {**aliases, step.accumulator: bound})
            else:
                yield from _ways_inside(step, aliases)
        case _:
            yield from _ways_inside(step, aliases)


def _ways_inside(step: Step, aliases: Aliases) -> Iterator[tuple[Qualifier, ...]]:
    for inner in parts_of(step):
        yield from _ways(inner, aliases)


def _part(qualifiers: tuple[Qualifier, ...]) -> str | None:
    keys = _named(qualifiers[:LEVELS])
    if not keys:
        return None
    if keys[0] in _FIELDS:
        return keys[0]
    return "/".join(keys) if keys[0] in MAPS and len(keys) == LEVELS else None
