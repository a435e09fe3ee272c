"""Types: what the checker reasons with, and whether one can stand for another (unification).

A type is a kind, a name and parameters. Types without parameters exist once, so most comparisons are identity.
Where unification looks arbitrary (which of two types is taken as the more general, what null may be assigned to) it is
upstream's answer, and selectors in clusters depend on it.
Source: cel-go `common/types/types.go`, `checker/types.go`, function by function.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from dra_operator.cel.errors import compile_error

MOST_WEIGHT: Final = 100
"""Far more than anybody needs: lists within lists to this depth."""


class Kind(Enum):
    """What sort of type it is; decides how it is compared and assigned."""

    DYN = auto()
    ANY = auto()
    ERROR = auto()
    NULL = auto()
    BOOL = auto()
    BYTES = auto()
    DOUBLE = auto()
    INT = auto()
    STRING = auto()
    UINT = auto()
    DURATION = auto()
    TIMESTAMP = auto()
    LIST = auto()
    MAP = auto()
    OPAQUE = auto()
    STRUCT = auto()
    TYPE = auto()
    PARAMETER = auto()

    # A kind is looked up in sets and tables at every step, and an Enum hashes its name in Python.
    __hash__ = object.__hash__


class Type:
    """A type; `wrapper` marks the nullable variants of primitives (`google.protobuf.Int64Value` and its like).

    `weight` says how many types it consists of, `generic` whether there is a type parameter in it. Nobody changes one.
    """

    __slots__ = ("digest", "generic", "kind", "name", "parameters", "weight", "wrapper")

    def __init__(
        self, kind: Kind, name: str, parameters: tuple["Type", ...] = (), *, wrapper: bool = False
    ) -> None:
        weight, generic = 1, kind is Kind.PARAMETER
        for part in parameters:
            weight += part.weight
            generic = generic or part.generic
        # `{x: x}`, where x is `{y: y}` and so on, has a type that nobody can look through.
        if weight > MOST_WEIGHT:
            raise compile_error("expression has a type that nests too deep")
        self.kind: Kind = kind
        self.name: str = name
        self.parameters: tuple[Type, ...] = parameters
        self.wrapper: bool = wrapper
        self.weight: int = weight
        self.generic: bool = generic
        self.digest: int = hash((kind, name, parameters, wrapper))

    def __hash__(self) -> int:
        return self.digest

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Type)
            and self.digest == other.digest
            and self.kind is other.kind
            and self.name == other.name
            and self.wrapper == other.wrapper
            and self.parameters == other.parameters
        )

    def __repr__(self) -> str:
        return f"Type({self})"

    def __str__(self) -> str:
        if self.kind is Kind.PARAMETER:
            return f"<{self.name}>"
        name = f"wrapper({self.name})" if self.wrapper else self.name
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name


DYN: Final = Type(Kind.DYN, "dyn")
ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
ERROR: Final = Type(Kind.ERROR, "error")
NULL: Final = Type(Kind.NULL, "null_type")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
INT: Final = Type(Kind.INT, "int")
STRING: Final = Type(Kind.STRING, "string")
UINT: Final = Type(Kind.UINT, "uint")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(Kind.TYPE, "type")
QUANTITY: Final = Type(Kind.STRUCT, "kubernetes.Quantity")
SEMVER: Final = Type(Kind.STRUCT, "kubernetes.Semver")

DYNAMIC: Final = frozenset((Kind.DYN, Kind.ANY))
DYNAMIC_OR_ERROR: Final = frozenset((Kind.DYN, Kind.ANY, Kind.ERROR))


def list_of(element: Type) -> Type:
    """Return the type of lists of `element`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps from `key` to `value`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of optional values of `value`."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(instance: Type) -> Type:
    """Return the type of the type `instance` when it is used as a value."""
    return Type(Kind.TYPE, "type", (instance,))


def parameter(name: str) -> Type:
    """Return a type parameter."""
    return Type(Kind.PARAMETER, name)


def unwrapped_optional(kind: Type) -> tuple[Type, bool]:
    """Return the type inside an optional one and True, or the type itself and False."""
    if kind.kind is Kind.OPAQUE and kind.name == "optional_type":
        return kind.parameters[0], True
    return kind, False


def is_assignable(target: Type, source: Type) -> bool:
    """Return whether a value of type `source` may stand where `target` is wanted; type parameters are wildcards.

    Source: cel-go `Type.IsAssignableType`.
    """
    if target is source or target.kind in DYNAMIC or target.kind is Kind.PARAMETER:
        return True
    if target.wrapper:
        return source.kind is Kind.NULL or source.kind is target.kind
    return (
        target.kind is source.kind
        and target.name == source.name
        and len(target.parameters) == len(source.parameters)
        and all(map(is_assignable, target.parameters, source.parameters))
    )


def is_equivalent(left: Type, right: Type) -> bool:
    """Return whether two types are the same but for the names of type parameters."""
    if left is right:
        return True
    return (
        left.kind is right.kind
        and len(left.parameters) == len(right.parameters)
        and (left.kind is Kind.PARAMETER or left.name == right.name)
        and all(map(is_equivalent, left.parameters, right.parameters))
    )


def parameters_in(kind: Type) -> Iterator[str]:
    """Yield the names of the type parameters that occur in a type."""
    if kind.kind is Kind.PARAMETER:
        yield kind.name
    for inner in kind.parameters:
        yield from parameters_in(inner)


_SHOWN: Final = {
    Kind.ANY: "any", Kind.DURATION: "duration", Kind.TIMESTAMP: "timestamp", Kind.NULL: "null", Kind.ERROR: "!error!",
}  # fmt: skip


def shown(kind: Type) -> str:
    """Return a type as upstream writes it in messages."""
    name = _SHOWN.get(kind.kind)
    if name is not None:
        return name
    if not kind.parameters:
        return f"wrapper({kind.name})" if kind.wrapper else kind.name
    return f"{kind.name}({', '.join(map(shown, kind.parameters))})"


_SIMPLE: Final = {
    simple.name: simple
    for simple in (
        DYN, ANY, ERROR, NULL, BOOL, BYTES, DOUBLE, INT, STRING, UINT, DURATION, TIMESTAMP, TYPE, QUANTITY, SEMVER,
    )
}  # fmt: skip
_OPAQUE: Final = frozenset(("optional_type", "net.IP", "net.CIDR"))


def read_type(text: str) -> Type:
    """Return the type that a declaration names, e.g. `map(string, list(<A>))`."""
    kind, rest = _read(text)
    if rest:
        raise ValueError(f"{text!r} is not a type")
    return kind


def _read(text: str) -> tuple[Type, str]:
    if text.startswith("<"):
        name, rest = text[1:].split(">", 1)
        return parameter(name), rest
    end = next((index for index, character in enumerate(text) if character in "(),"), len(text))
    name, rest = text[:end], text[end:]
    inner: list[Type] = []
    if rest.startswith("("):
        while not rest.startswith(")"):
            kind, rest = _read(rest[1:].lstrip())
            inner.append(kind)
        rest = rest[1:]
    return _named(name, tuple(inner)), rest


def _named(name: str, inner: tuple[Type, ...]) -> Type:
    if not inner and name in _SIMPLE:
        return _SIMPLE[name]
    kinds = {"list": Kind.LIST, "map": Kind.MAP, "type": Kind.TYPE}
    kind = kinds.get(name, Kind.OPAQUE if name in _OPAQUE else Kind.STRUCT)
    return Type(kind, name, inner)


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
    return first.name == second.name and first.parameters == second.parameters


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
