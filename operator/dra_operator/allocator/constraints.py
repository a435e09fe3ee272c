"""Constraints: devices that must agree in an attribute, or all differ in it.

Each constraint keeps a stack: a device that joins pushes, an undo pops. So a device that is taken back leaves nothing
behind, and what was agreed on before it holds again.
Source: docs/dra-semantics 3.7.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias

from dra_operator.api.attributes import SCALARS, AttributeType, AttributeValue
from dra_operator.api.semver import is_semver
from dra_operator.api.versions import Rules
from dra_operator.inventory import Features

MATCH: Final = "matchAttribute"
DISTINCT: Final = "distinctAttribute"
"""A kind of constraint is called what its field in the claim is called."""
COUNTED: Final = frozenset((MATCH, DISTINCT))
"""The kinds that `search.domains` counts, by groups of devices with equal values; others are searched exhaustively."""

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


@dataclass(slots=True)
class _Stack:
    """What each device brought in, as sets, the last one on top: a scalar is a set of one.

    Where the feature of lists is off, a list is a value of a type that equals nothing: it can only be the first.
    """

    features: Features
    _stack: list[_Values] = field(default_factory=list)

    def undo(self) -> None:
        """Take the last device out again."""
        self._stack.pop()

    def _values_of(self, value: AttributeValue) -> _Values:
        """Return what a device with this value brings in; nothing if it cannot join."""
        if self.features.list_type_attributes or value.type in SCALARS:
            return _set_of(value, self.features.rules)
        return frozenset(() if self._stack else (value,))

    @property
    def _admits_nothing_at_all(self) -> bool:
        """True if a device may join that brings nothing in: an empty list that is derived (`cannot_be_joined`)."""
        return self.features.rules.unknown_values_fail


@dataclass(slots=True)
class MatchAttribute(_Stack):
    """All values have something in common."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device in, if it has something in common with all before it."""
        common = self._values_of(value)
        if self._stack:
            common &= self._stack[-1]
            if not common:
                return False
        elif not common and not self._admits_nothing_at_all:
            return False
        self._stack.append(common)
        return True


@dataclass(slots=True)
class DistinctAttribute(_Stack):
    """No two values have anything in common."""

    def add(self, value: AttributeValue) -> bool:
        """Take a device in, if it has nothing in common with any before it."""
        own = self._values_of(value)
        if not own and not self._admits_nothing_at_all:
            return False
        if not all(map(own.isdisjoint, self._stack)):
            return False
        self._stack.append(own)
        return True


def elements(value: AttributeValue, rules: Rules) -> tuple[AttributeValue, ...]:
    """Return the values that a value has, each once; none if it is of unknown type or an empty list."""
    if value.type in SCALARS:
        return (_compared(value) if rules.versions_without_build else value,)
    base = _BASE_TYPES.get(value.type)
    if base is None or not isinstance(value.value, tuple):
        return ()
    found = [AttributeValue(base, item) for item in value.value]
    return tuple(dict.fromkeys(map(_compared, found) if rules.versions_without_build else found))


def _compared(value: AttributeValue) -> AttributeValue:
    """Return a value as it is compared with others: a version without its build metadata."""
    if value.type != "version":
        return value
    return AttributeValue("version", str(value.value).partition("+")[0])


@lru_cache(maxsize=4096)
def _set_of(value: AttributeValue, rules: Rules) -> _Values:
    # Searches ask for the same few values again and again.
    return frozenset(elements(value, rules))


def cannot_be_joined(value: AttributeValue, features: Features, *, derived: bool = False) -> bool:
    """True if it is an error that a constraint is asked about this value, published or derived, rather than a no.

    Source: `lookupAttribute` of the allocators of k8s.io/dynamic-resource-allocation 0.38.
    """
    if not features.rules.unknown_values_fail:
        return False
    if value.type == "version":
        return not is_semver(str(value.value))
    if value.type in SCALARS:
        return False
    if not features.list_type_attributes or value.value is None:
        return True
    assert isinstance(value.value, tuple)
    if value.type == "versions" and not all(is_semver(str(item)) for item in value.value):
        return True
    return not value.value and not derived


def fresh(plan: ConstraintPlan, features: Features) -> Constraint:
    """Return a constraint that no device has joined yet."""
    return KINDS[plan.kind](features)


KINDS: Final[dict[str, Callable[[Features], Constraint]]] = {
    MATCH: MatchAttribute,
    DISTINCT: DistinctAttribute,
}
