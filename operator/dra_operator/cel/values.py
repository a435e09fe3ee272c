"""Values: what an expression computes with at run time.

bool, int, double, string, bytes and null are Python's bool, int, float, str, bytes and None; a list is a tuple. The
rest is here: what Python has no type for, or where its own would compare and hash wrongly (`1 == True`, `1 == 1.0`).
Always ask `type(x) is int`, never `isinstance`: a bool and a uint are ints to Python and are not to CEL.
Source: cel-go `common/types`.
"""

import re
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


# --- How Go writes and reads plain values, where an answer or an error text depends on it; and what they have at a
# key.
# The reference is a Go program: `string(1e6)` is `1e+06` because Go's shortest form says so. Each function here is
# one function of Go's standard library, or of cel-go `interpreter/attributes.go` (`refQualify`, the qualifiers by
# type).


_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9](?:_?[0-9])*(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:(?:_?[0-9a-fA-F])+(?:\.(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?)?|\.[0-9a-fA-F](?:_?[0-9a-fA-F])*)"
    r"[pP][+-]?[0-9]{1,6}"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_SPECIAL: Final = {"inf": "inf", "infinity": "inf", "nan": "nan"}
_LONGEST_NUMBER: Final = 4000  # Python refuses to read a whole number of more than 4300 digits


def format_double(value: float) -> str:
    """Return the shortest text that reads as `value`: `strconv.FormatFloat(value, 'g', -1, 64)`."""
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _shortest(value)
    if -4 <= exponent < 6:
        return sign + _positional(digits, exponent)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_double_positional(value: float) -> str:
    """Return the shortest text without an exponent: `strconv.FormatFloat(value, 'f', -1, 64)`."""
    sign, digits, exponent = _shortest(value)
    return sign + _positional(digits, exponent)


def _shortest(value: float) -> tuple[str, str, int]:
    """Return sign, digits (d.ddd) and the exponent of the first digit."""
    mantissa, _, exponent = f"{value!r}".lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return sign, "0", 0
    leading = len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0"))) - 1
    return sign, digits.rstrip("0") or "0", leading + int(exponent or 0)


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]


def parse_double(text: str) -> float | None:
    """Return the number that `text` is for `strconv.ParseFloat`, or None. A number too large is none."""
    special = _SPECIAL.get(text.lstrip("+-").lower() if text[:1] in ("+", "-") else text.lower())
    if special is not None and len(text) <= 9:
        if (special == "nan" and text[0] in "+-") or text[:2] in ("++", "--", "+-", "-+"):
            return None
        return float("-inf") if text.startswith("-") else float(special)
    if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text):
        value = float(text)
    elif len(text) <= _LONGEST_NUMBER and _HEX_FLOAT.fullmatch(text):
        try:
            value = float.fromhex(text.replace("_", ""))
        except OverflowError:
            return None
    else:
        return None
    return value if abs(value) != float("inf") else None


def parse_integer(text: str) -> int | None:
    """Return the whole number that `text` is in decimal, of any size; None if it is none."""
    if len(text) > _LONGEST_NUMBER or not _INTEGER.fullmatch(text):
        return None
    return int(text)


def key_text(key: Any) -> str:
    """Return a key, or another value, as it stands in messages: `%v`.

    Of a list or a map the type is enough: what is short to write can be endless to read. So it is of a time.
    """
    if type(key) is bool:
        return "true" if key else "false"
    if type(key) is float:
        return format_double(key)
    if type(key) in (tuple, type(None), Optional_, Duration, Timestamp) or isinstance(key, CelMap):
        return type_name(key)
    return str(int(key)) if type(key) is Uint else str(key)


KEYS: Final = frozenset((str, int, Uint, bool, float))
"""The types of what can stand in brackets."""


def qualify(value: Any, key: Any) -> Any:
    """Return the entry or element of `value` at `key`; raises CelError if there is none."""
    found = look_up(value, key)
    if found is not MISSING:
        return found
    if type(value) is tuple:
        raise runtime_error(f"index out of bounds: {key_text(key)}")
    raise runtime_error(f"no such key: {key_text(key)}")


def look_up(value: Any, key: Any) -> Any:
    """Return the entry or element of `value` at `key`, or MISSING; what has no entries has none at any key."""
    if isinstance(value, CelMap):
        return value.find(key)
    if type(value) is tuple:
        index = _index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def _index(key: Any) -> int:
    kind = type(key)
    if kind is int or (kind is Uint and key <= INT_MAX):
        return int(key)
    if kind is float and key.is_integer() and -(2**63) < key < 2**63:
        return int(key)
    if kind is float or kind is Uint:
        raise runtime_error(f"unsupported index value {key_text(key)} in list")
    raise runtime_error(f"unsupported index type '{type_name(key)}' in list")


def check_key(key: Any) -> Any:
    """Return `key` if it is of a type that can be a key; raises CelError if not."""
    if type(key) in KEYS:
        return key
    raise runtime_error(f"invalid qualifier type: {go_type(key)}")
