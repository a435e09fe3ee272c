"""Values: what an expression computes with at run time.

bool, int, double, string, bytes and null are Python's bool, int, float, str, bytes and None; a list is a tuple. The
rest is here: what Python has no type for, or where its own would compare and hash wrongly (`1 == True`, `1 == 1.0`).
Always ask `type(x) is int`, never `isinstance`: a bool and a uint are ints to Python and are not to CEL.
Source: cel-go `common/types`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from dra_operator.api.semver import Semver
from dra_operator.cel.errors import Abort, CelError, runtime_error

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Uint(int):
    """An unsigned 64-bit integer. Arithmetic of Python gives plain ints; wrap the result again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment: nanoseconds since 1970-01-01T00:00:00Z.

    `offset` is the distance to UTC, in seconds, in which it was written: it shows when a moment becomes text,
    and nowhere else.
    """

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, e.g. what `type(1)` gives; equal by name."""

    name: str

    def __str__(self) -> str:
        return self.name


class Optional_:  # noqa: N801 - `Optional` is taken, and this one is no type hint
    """A value that may be absent; `value` is MISSING then."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "optional.none()" if self.value is MISSING else f"optional.of({self.value!r})"


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""Stands for "no value here"; None is CEL's null."""
NONE: Final = Optional_(MISSING)
"""`optional.none()`; there is only this one."""


class Opaque:
    """A value of a type that Kubernetes adds; `type_name` is its name in CEL."""

    __slots__ = ()
    type_name: ClassVar[str]
    hashable: ClassVar[bool] = True
    """Whether Go could use it as a map key; looking one up that it could not is an error of its own."""

    def cost_size(self) -> int:
        """Return how large it counts as where that costs."""
        return 1

    def equals(self, other: Any) -> bool:
        """Return whether it equals `other`; raises CelError if the two cannot be compared."""
        if type(other) is not type(self):
            raise runtime_error("no such overload")
        return self == other


class CelMap:
    """A map. Keys keep their type: 1, 1u and 1.0 are three keys, though a lookup of one finds the others.

    Strings and ints are their own keys in `index`; others are paired with their type, since Python takes True
    for 1.
    """

    __slots__ = ("index", "originals")
    is_strict: ClassVar[bool] = False
    """Whether values that cannot be compared make it an error to compare it."""

    def __init__(self, items: Iterable[tuple[Any, Any]] = ()) -> None:
        self.index: dict[Any, Any] = {}
        self.originals: dict[Any, Any] = {}
        for key, value in items:
            self.put(key, value)

    def put(self, key: Any, value: Any) -> None:
        """Add or replace an entry, while the map is being made; raises CelError if Go could not hash the key."""
        hashed = hashed_key(key)
        if hashed is not key:
            self.originals[hashed] = key
        self.index[hashed] = value

    def drop(self, key: Any) -> None:
        """Take an entry out again, while the map is being made."""
        self.index.pop(hashed_key(key), None)

    def find(self, key: Any) -> Any:
        """Return the value of `key`, or MISSING. Equal numbers of other types find each other as in cel-go."""
        index = self.index
        kind = type(key)
        if not index:
            return MISSING
        value = index.get(hashed_key(key), MISSING)
        if value is not MISSING:
            return value
        if kind is int:
            return index.get((Uint, key), MISSING)
        if kind is Uint:
            return index.get(int(key), MISSING)
        if kind is float and key.is_integer():
            whole = int(key)
            value = index.get(whole, MISSING)
            return index.get((Uint, whole), MISSING) if value is MISSING else value
        return MISSING

    def contains(self, key: Any) -> bool:
        """Return whether there is an entry for `key`."""
        return self.find(key) is not MISSING

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Any]:
        originals = self.originals
        if not originals:
            return iter(self.index)
        return iter([originals.get(key, key) for key in self.index])

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the entries in the order in which they were put in."""
        originals = self.originals
        return iter([(originals.get(key, key), value) for key, value in self.index.items()])

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in self.items()) + "}"


class StringMap(CelMap):
    """A map whose keys are all strings, such as those of a device: what is no string is never found in it."""

    __slots__ = ()

    def __init__(self, index: dict[str, Any]) -> None:
        super().__init__()
        self.index = index

    def find(self, key: Any) -> Any:
        """Return the value of `key`, or MISSING."""
        return self.index.get(key, MISSING) if type(key) is str else MISSING


class DefaultMap(StringMap):
    """A map that answers every lookup, with an empty map where it has no entry.

    `in` and iteration see real entries.
    Source: k8s.io/dynamic-resource-allocation `newStringInterfaceMapWithDefault`.
    """

    __slots__ = ()

    def find(self, key: Any) -> Any:
        """Return the value of `key`, or an empty map."""
        value = super().find(key)
        return EMPTY_MAP if value is MISSING else value

    def contains(self, key: Any) -> bool:
        """Return whether there is a real entry for `key`."""
        return type(key) is str and key in self.index


EMPTY_MAP: Final = CelMap()

TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    tuple: "list",
    CelMap: "map",
    StringMap: "map",
    DefaultMap: "map",
    TypeValue: "type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional_: "optional_type",
    Semver: "kubernetes.Semver",
}
_GO_TYPES: Final = {
    "null_type": "types.Null",
    "type": "*types.Type",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "optional_type": "*types.Optional",
}
_COMPARABLE: Final = frozenset(("net.IP", "net.CIDR"))
"""The types of Kubernetes that Go holds by value; the others are pointers, each a key of its own."""
_HASHED_BY_VALUE: Final = frozenset((bool, float, Uint, type(None), Duration, Timestamp, TypeValue))


def legal_text(text: Any) -> Any:
    """Return a text without halves of surrogate pairs, which JSON can hold and Go reads as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def type_name(value: Any) -> str:
    """Return the name of the run-time type of a value, e.g. `google.protobuf.Duration`."""
    name = TYPE_NAMES.get(type(value))
    return name if name is not None else value.type_name


def go_type(value: Any) -> str:
    """Return the type that Go holds a value in, as upstream's messages name it."""
    name = type_name(value)
    if name in _GO_TYPES:
        return _GO_TYPES[name]
    domain, _, short = name.rpartition(".")
    own = domain in ("", "google.protobuf")
    return f"types.{short.capitalize()}" if own else f"cel.{short.removeprefix('Named')}"


def held(value: Any) -> Any:
    """Return what Go holds a value as, for the few functions that ask for that instead of the type.

    An optional value is held as what is in it, a type as its name.
    Source: cel-go `Optional.Value`, `Type.Value`.
    """
    while type(value) is Optional_ and value.value is not MISSING:
        value = value.value
    return value.name if type(value) is TypeValue else value


def hashed_key(key: Any) -> Any:
    """Return what stands for `key` in a Python dict: equal exactly where Go's keys are.

    Raises CelError for what Go cannot hash.
    """
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind in _HASHED_BY_VALUE:
        return kind, key if key == key else object()  # noqa: PLR0124 - NaN is not even equal to itself
    custom = isinstance(key, Opaque)
    if kind is bytes or kind is Semver or (custom and not key.hashable):
        raise Abort("runtime", f"internal error: runtime error: hash of unhashable type {go_type(key)}")
    return kind, key if custom and key.type_name in _COMPARABLE else id(key)


# --- equality and order ---------------------------------------------------------------------------------------------


def cel_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal, of whatever types; raises CelError if they cannot be compared.

    Numbers are equal across types; an int and a double compare as doubles. Values of different types are
    unequal, but a value of a Kubernetes type on the left refuses to be compared with anything else.
    Source: cel-go `types.Equal` and the `Equal` of each type.
    """
    kind = type(left)
    if kind is type(right):
        if kind is tuple:
            return _lists_equal(left, right, {})
        if kind in _MAPS:
            return _maps_equal(left, right, {})
        if kind is Optional_:
            return _optionals_equal(left, right, {})
        if isinstance(left, Opaque):
            return left.equals(right)
        if kind is Semver:
            return bool(left.key == right.key)
        return bool(left == right)
    if left is None or right is None:
        return False
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return compare_numbers(left, right) == 0 if left == left and right == right else False  # noqa: PLR0124
    if isinstance(left, CelMap):
        return isinstance(right, CelMap) and _maps_equal(left, right, {})
    if isinstance(left, Opaque):
        return left.equals(right)
    if kind is Semver:
        raise runtime_error("no such overload")
    return False


def surely_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal; if they cannot be compared, they are not."""
    try:
        return cel_equal(left, right)
    except Abort:
        raise
    except CelError:
        return False


_NUMBERS: Final = frozenset((int, Uint, float))
_MAPS: Final = frozenset((CelMap, StringMap, DefaultMap))
AS_PYTHON: Final = frozenset((bool, int, Uint, str, bytes, Duration))
"""Types whose values Python compares, and hashes, as CEL does, as long as both are of one (NaN is not even itself)."""


Known: TypeAlias = dict[tuple[int, int], bool]
"""Which lists and maps, by their identities, have been found equal or unequal while two values are compared."""


def _lists_equal(left: tuple[Any, ...], right: tuple[Any, ...], known: Known) -> bool:
    if len(left) != len(right):
        return False
    kinds = {*map(type, left), *map(type, right)}
    if len(kinds) == 1 and kinds <= AS_PYTHON:
        return left == right
    return all(_not_unequal(one, other, known) for one, other in zip(left, right, strict=True))


def _maps_equal(left: CelMap, right: CelMap, known: Known) -> bool:
    if len(left) != len(right):
        return False
    compare = _within if left.is_strict else _not_unequal
    for key, value in left.items():
        if isinstance(value, CelError):
            raise value
        try:
            other = right.find(key)
        except Abort:
            raise
        except CelError:
            return False
        if other is MISSING or not compare(value, other, known):
            return False
    return True


def _not_unequal(left: Any, right: Any, known: Known) -> bool:
    """Elements that cannot be compared do not make their lists unequal: cel-go looks for a clear "no" only."""
    try:
        return _within(left, right, known)
    except Abort:
        raise
    except CelError:
        return True


def _within(left: Any, right: Any, known: Known) -> bool:
    """Return whether two values inside of others are equal; the same two lists or maps are compared only once.

    `[x, x]`, where `x` is `[y, y]` and so on, is short to write and endless to walk through.
    """
    kind = type(left)
    if kind is Optional_ and type(right) is Optional_:
        return _optionals_equal(left, right, known)
    both_lists = kind is tuple and type(right) is tuple
    if not both_lists and not (kind in _MAPS and type(right) in _MAPS):
        return cel_equal(left, right)
    pair = id(left), id(right)
    answer = known.get(pair)
    if answer is None:
        compare = _lists_equal if both_lists else _maps_equal
        answer = known[pair] = compare(left, right, known)
    return answer


def _optionals_equal(left: Optional_, right: Optional_, known: Known) -> bool:
    if left.value is MISSING or right.value is MISSING:
        return left.value is right.value
    return _within(left.value, right.value, known)


def compare_numbers(left: Any, right: Any) -> int:
    """Return -1, 0 or 1 for numbers of any type but NaN.

    With a double in it, the other number is turned into one first, unless the double is beyond what the
    other's type can hold.
    Source: cel-go `common/types/compare.go`.
    """
    if type(left) is float and type(right) is not float:
        limits = (0, UINT_MAX) if type(right) is Uint else (INT_MIN, INT_MAX)
        return _compare_double(left, float(right), limits)
    if type(right) is float and type(left) is not float:
        limits = (0, UINT_MAX) if type(left) is Uint else (INT_MIN, INT_MAX)
        return -_compare_double(right, float(left), limits)
    return int(left > right) - int(left < right)


def _compare_double(double: float, other: float, limits: tuple[int, int]) -> int:
    low, high = limits
    if double < float(low):
        return -1
    if double > float(high):
        return 1
    return (double > other) - (double < other)


_ORDERED: Final = frozenset((bool, str, bytes, Duration, Timestamp))


def cel_compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raises CelError if the two have no order.

    Numbers compare across types. Strings compare by code point.
    Source: cel-go, `Compare` of each type.
    """
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:  # noqa: PLR0124
            raise runtime_error("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if kind is other and kind in _ORDERED:
        return int(left > right) - int(left < right)
    raise runtime_error("no such overload")
