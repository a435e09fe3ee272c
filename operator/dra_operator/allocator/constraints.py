"""Constraints: devices that must agree in an attribute, or all differ in it.

Each constraint keeps a stack: a device that joins pushes, an undo pops. So a device that is taken back leaves nothing
behind, and what was agreed on before it holds again.
Source: docs/dra-semantics 3.7.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from dra_operator.api.attributes import SCALARS, AttributeType, AttributeValue

MATCH: Final = "matchAttribute"
DISTINCT: Final = "distinctAttribute"
"""A kind of constraint is called what its field in the claim is called."""
COUNTED: Final = frozenset((MATCH, DISTINCT))
"""The kinds that fast searches know, as groups of devices with equal values; others are searched exhaustively."""

_T = TypeVar("_T")
_Values: TypeAlias = frozenset[AttributeValue]
_BASE_TYPES: dict[str, AttributeType] = {
    "ints": "int",
    "bools": "bool",
    "strings": "string",
    "versions": "version",
}


class ConstraintPlan(NamedTuple):
    """What a constraint asks for; as a text, how it stands in the claim."""

    kind: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.kind} {self.attribute}"


class Constraint(Protocol):
    """The state of one constraint during a search."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device with this value in, or return False and stay as before."""
        ...

    def undo(self) -> None:
        """Take the last device out again."""
        ...

    @property
    def state(self) -> object:
        """What the answers for devices to come depend on."""
        ...


@dataclass(slots=True)
class _Stack(Generic[_T]):
    """What each device brought in, the last one on top."""

    _stack: list[_T] = field(default_factory=list)

    @property
    def state(self) -> object:
        """What all of them brought in, in no order."""
        return frozenset(self._stack)

    def undo(self) -> None:
        """Take the last device out again."""
        self._stack.pop()


@dataclass(slots=True)
class MatchScalar(_Stack[AttributeValue]):
    """All values equal in type and value; lists have a type that equals nothing."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device in. The first one fixes the value, whatever its type."""
        if self._stack and (value.type not in SCALARS or value != self._stack[0]):
            return False
        self._stack.append(value)
        return True

    @property
    def state(self) -> object:
        """The value that is fixed, or None."""
        return self._stack[0] if self._stack else None


@dataclass(slots=True)
class MatchSets(_Stack[_Values]):
    """All values, as sets, have something in common; a scalar is a set of one."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device in, if it has something in common with all before it."""
        common = _set_of(value)
        if self._stack:
            common &= self._stack[-1]
        if not common:
            return False
        self._stack.append(common)
        return True

    @property
    def state(self) -> object:
        """What all have in common, or None."""
        return self._stack[-1] if self._stack else None


@dataclass(slots=True)
class DistinctScalar(_Stack[AttributeValue]):
    """No two values equal in type and value; a list is accepted as the first only."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device in, if its value differs from all before it."""
        if self._stack and (value.type not in SCALARS or value in self._stack):
            return False
        self._stack.append(value)
        return True


@dataclass(slots=True)
class DistinctSets(_Stack[_Values]):
    """No two values, as sets, have anything in common."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device in, if it has nothing in common with any before it."""
        own = _set_of(value)
        if not own or not all(map(own.isdisjoint, self._stack)):
            return False
        self._stack.append(own)
        return True


def elements(value: AttributeValue) -> tuple[AttributeValue, ...]:
    """Return the values that a value has, each once; none if it is of unknown type or an empty list."""
    if value.type in SCALARS:
        return (value,)
    base = _BASE_TYPES.get(value.type)
    if base is None or not isinstance(value.value, tuple):
        return ()
    return tuple([AttributeValue(base, item) for item in dict.fromkeys(value.value)])


@lru_cache(maxsize=4096)
def _set_of(value: AttributeValue) -> _Values:
    # Searches ask for the same few values again and again.
    return frozenset(elements(value))


def fresh(plan: ConstraintPlan, *, lists: bool) -> Constraint:
    """Return a constraint that no device has joined yet; `lists` is the feature ListTypeAttributes."""
    scalar, sets = KINDS[plan.kind]
    return sets() if lists else scalar()


KINDS: Final[dict[str, tuple[type[Constraint], type[Constraint]]]] = {
    MATCH: (MatchScalar, MatchSets),
    DISTINCT: (DistinctScalar, DistinctSets),
}
