"""Prices: what a call of a function has cost, and what it can cost at most; a row of the library names one.

A character that is passed over costs 0.1, one of a pattern 0.25, an element 1. The API server's library goes by the
name of a function, cel-go by the overload, so that a call whose overload only the values decide costs 1 there.
Source: k8s.io/apiserver `pkg/cel/library/cost.go`, cel-go `interpreter/runtimecost.go`, `checker/cost.go`,
`ext/lists.go`, `ext/sets.go`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import ceil
from typing import Any, Final, NamedTuple, TypeAlias

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.semver import Semver
from dra_operator.cel.errors import Abort
from dra_operator.cel.types.types import Kind, Type
from dra_operator.cel.values import MISSING, CelMap, Duration, Opaque, Optional_, Timestamp, Uint

# --- Sizes: how large a value can be, as far as the declaration of `device` says, looked up by the way to it (its
# trail).
# The limits that the API sets to names, attributes and their number stand for sizes; what nothing limits is
# unbounded. In cel-go a trail is a slice, and appending to two slices of one array writes the same place:
# `attributes.all(d, m, m.exists(k, m.s == k))` costs as if keys were as long as values. Source: k8s.io/dynamic-
# resource-allocation `cel/compile.go` (`sizeEstimator`), k8s.io/api/resource/v1.


class Trail:
    """A Go slice of strings: the first `length` places of an array that others may share."""

    __slots__ = ("_array", "length")

    def __init__(self, array: list[str | None], length: int) -> None:
        self._array = array
        self.length = length

    def then(self, step: str) -> "Trail":
        """Return the trail with a step more: in the same array where it has room, else in one twice as large."""
        array, length = self._array, self.length
        if length == len(array):
            array = [*array, *([None] * (length or 1))]
        array[length] = step
        return Trail(array, length + 1)

    def alone(self, step: str) -> "Trail":
        """Return the trail with a step more in an array of its own."""
        return Trail([*self._array[: self.length], step], self.length + 1)

    def __iter__(self) -> Iterator[str | None]:
        return iter(self._array[: self.length])

    def __len__(self) -> int:
        return self.length

    @property
    def first(self) -> str | None:
        """The variable that the trail starts from."""
        return self._array[0] if self.length else None


NOWHERE = Trail([], 0)
"""The trail of what is reached from no variable."""


def trail(variable: str) -> Trail:
    """Return the trail of a variable."""
    return Trail([variable], 1)


UNBOUNDED: Final = 2**64 - 1
_MAX_DOMAIN: Final = 63
_MAX_IDENTIFIER: Final = 32
_MAX_ENTRIES: Final = 32
_MAX_VALUE: Final = 64


class Range(NamedTuple):
    """A least and a greatest size or cost; at 2**64 - 1 it is unbounded and stays so."""

    low: int
    high: int

    def plus(self, other: "Range") -> "Range":
        """Return the sum."""
        return Range(min(self.low + other.low, UNBOUNDED), min(self.high + other.high, UNBOUNDED))

    def times(self, other: "Range") -> "Range":
        """Return the product."""
        return Range(min(self.low * other.low, UNBOUNDED), min(self.high * other.high, UNBOUNDED))

    def scaled(self, factor: float) -> "Range":
        """Return this many units at `factor` each, rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: "Range") -> "Range":
        """Return the range that covers both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


class KeptRange(Range):
    """A range of 1.38, in whose estimates a part of something unbounded is unbounded."""

    __slots__ = ()

    def plus(self, other: Range) -> Range:
        """Return the sum."""
        return KeptRange(*super().plus(other))

    def scaled(self, factor: float) -> Range:
        """Return this many units at `factor` each, rounded up."""
        return Range(*[UNBOUNDED if each == UNBOUNDED else _scaled(each, factor) for each in self])


def _scaled(amount: int, factor: float) -> int:
    product = float(amount) * factor
    if product >= 2.0**64:
        return UNBOUNDED
    whole = int(product)
    return whole if whole == product else whole + 1


def exactly(size: int) -> Range:
    """Return the range of one value."""
    return Range(size, size)


UNKNOWN: Final = Range(0, UNBOUNDED)


@fast_dataclass
class AstNode:
    """An expression, or the elements of one, as estimates see it. Source: cel-go `checker.AstNode`.

    It has its path from `device`, its type, its value if it is a literal, and its size if that is known. `is_kept`:
    what the standard library makes of a size that is not known is not known either.
    """

    path: Trail
    type: Type
    constant: Any = None
    size: Range | None = None
    is_kept: bool = False


@fast_dataclass
class _Declared:
    maximum: int = 0
    key: "_Declared | None" = None
    element: "_Declared | None" = None
    fields: "Mapping[str, _Declared]" = field(default_factory=dict)


_DOMAIN: Final = _Declared(_MAX_DOMAIN)
_IDENTIFIER: Final = _Declared(_MAX_IDENTIFIER)
_VALUE: Final = _Declared(_MAX_VALUE)
_CAPACITIES: Final = _Declared(_MAX_ENTRIES, _IDENTIFIER, _Declared())
_ATTRIBUTES: Final = _Declared(_MAX_ENTRIES, _IDENTIFIER, _VALUE)
_DEVICE: Final = _Declared(
    fields={
        "driver": _Declared(_MAX_DOMAIN),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(_MAX_ENTRIES, _DOMAIN, _ATTRIBUTES),
        "capacity": _Declared(_MAX_ENTRIES, _DOMAIN, _CAPACITIES),
    }
)


def declared_size(path: Trail) -> Range | None:
    """Return how large what lies at a path can be, or None if the declaration does not say."""
    if path.first != "device":
        return None
    current: _Declared | None = _DEVICE
    steps = iter(path)
    next(steps)
    for name in steps:
        assert current is not None
        assert name is not None
        if name in ("@items", "@values"):
            current = current.element
        elif name == "@keys":
            current = current.key
        elif current is _ATTRIBUTES:
            current = _VALUE
        else:
            current = current.fields.get(name)
        if current is None:
            return None
    assert current is not None
    return Range(0, current.maximum)


def size_of(node: AstNode) -> Range:
    """Return the size of an expression, unbounded if nothing says it."""
    return node.size or declared_size(node.path) or UNKNOWN


def known_size(node: AstNode) -> Range:
    """Return the size of an expression, unbounded if it is not known; what the declaration says does not count."""
    found = node.size or UNKNOWN
    return KeptRange(*found) if node.is_kept else found


def elements_of(node: AstNode) -> AstNode | None:
    """Return the elements of a list, or None if the type has none."""
    if not node.type.parameters:
        return None
    return AstNode(node.path.alone("@items") if node.path else NOWHERE, node.type.parameters[0])


# --- Prices.


CHARACTER: Final = 0.1
"""The cost of passing over one character."""
PATTERN_CHARACTER: Final = 0.25
LIST_COST: Final = 10
"""The cost of making a list; below, of a map and of a message."""
MAP_COST: Final = 30
MESSAGE_COST: Final = 40
_ONE: Final = exactly(1)


@fast_dataclass
class Estimate:
    """What a call can cost, without its arguments, and how large its result can be, if that is known."""

    cost: Range
    size: Range | None = None


_Spent: TypeAlias = Callable[[list[Any], Any], int]


class Price(NamedTuple):
    """What calls cost: `spent` by the arguments and the result of one, `estimate` at most, by what is known of them.

    Errors may stand among the arguments and as the result, which is MISSING then from 1.38 on. `by_name`: it is that of
    a function and not of an overload.
    """

    spent: _Spent
    estimate: Callable[..., Estimate]
    by_name: bool = False


class Implementation(NamedTuple):
    """The code of an overload, with a price of its own; None where the planner or another overload has the code."""

    code: Callable[..., Any] | None
    price: Price


Row: TypeAlias = Callable[..., Any] | Implementation | None
"""What stands behind a declaration: code and price, code that costs 1, or no code."""


# --- sizes of values ------------------------------------------------------------------------------------------------


def size(value: Any) -> int:
    """Return the size of a value as the API server's library sees it: 1 for what has none."""
    if type(value) is str or type(value) is tuple or type(value) is bytes or isinstance(value, CelMap):
        return len(value)
    return value.cost_size() if isinstance(value, Opaque) else 1


def _standard_size(value: Any) -> int:
    if type(value) is Optional_ and value.value is not MISSING:
        return _standard_size(value.value)
    return size(value)


def traversal_cost(value: Any) -> int:
    """Return the cost of passing over everything in a value."""
    if type(value) is str:
        return int(len(value.encode()) * CHARACTER)
    if type(value) is bytes:
        return int(len(value) * CHARACTER)
    if type(value) is tuple:
        return _inner_cost(value, {})
    return _inner_cost(value, {}) if isinstance(value, CelMap) else 1


_OF_SIZE_ONE: Final = frozenset((bool, int, float, Uint, Duration, Timestamp, type(None)))


def _inner_cost(value: Any, known: dict[int, int]) -> int:
    """Return the cost of passing over a list or map; one that stands in it many times is looked at once."""
    cost = known.get(id(value))
    if cost is None:
        parts = value if type(value) is tuple else [part for entry in value.items() for part in entry]
        if _OF_SIZE_ONE.issuperset(map(type, parts)):
            cost = len(parts)
        else:
            cost = sum(
                _inner_cost(part, known)
                if type(part) is tuple or isinstance(part, CelMap)
                else traversal_cost(part)
                for part in parts
            )
        known[id(value)] = cost
    return cost


def _passed(value: Any, factor: float = 1) -> int:
    """Return the cost of passing over a text so many times."""
    return ceil(size(value) * factor * CHARACTER)


def _scan(node: AstNode, factor: float = 1) -> Range:
    return size_of(node).scaled(factor * CHARACTER)


def matched(subject: int, pattern: int) -> int:
    """Return the cost of searching a text of one size for a pattern of another."""
    return ceil((1 + subject) * CHARACTER) * ceil(pattern * PATTERN_CHARACTER)


def _pattern(subject: Range, pattern: Range) -> Range:
    return subject.plus(_ONE).scaled(CHARACTER).times(pattern.scaled(PATTERN_CHARACTER))


def _one(_arguments: list[Any], _result: Any) -> int:
    return 1


ONE: Final = Price(_one, lambda *_nodes: Estimate(_ONE))


# --- the API server's library ---------------------------------------------------------------------------------------


def _traversed(arguments: list[Any], _result: Any) -> int:
    return traversal_cost(arguments[0]) if arguments else 0


def _element_cost(items: AstNode) -> Range:
    element = elements_of(items)
    texts = element is not None and element.type.kind in (Kind.STRING, Kind.BYTES)
    return _ONE.plus(_scan(element)) if element is not None and texts else _ONE


def _traversal(target: AstNode, *_nodes: AstNode) -> Estimate:
    if elements_of(target) is None:
        return Estimate(_scan(target))
    return Estimate(size_of(target).times(_element_cost(target)))


def _first_passed(factor: float) -> _Spent:
    return lambda arguments, _result: _passed(arguments[0], factor)


def _of_first(factor: float, *, sized: bool = False) -> Callable[..., Estimate]:
    def estimate(text: AstNode, *_nodes: AstNode) -> Estimate:
        return Estimate(_scan(text, factor), size_of(text) if sized else None)

    return estimate


def _selector(_resource: AstNode, selector: AstNode) -> Estimate:
    length = size_of(selector)
    requirements = length.scaled(0.5).scaled(50)
    return Estimate(exactly(LIST_COST).plus(length.scaled(CHARACTER)).plus(requirements))


def _replace(*nodes: AstNode) -> Estimate:
    whole, needle, substitute = map(size_of, nodes[:3])
    if needle.low == 0:
        most, kept_most = min(whole.high + 1, UNBOUNDED), whole.high
    elif substitute.high <= needle.low:
        most, kept_most = 0, whole.high
    else:
        most, kept_most = _quotient(whole.high, needle.low), 0
    if needle.high == 0:
        fewest, kept_fewest = min(whole.low + 1, UNBOUNDED), whole.low
    elif needle.high <= substitute.low:
        fewest, kept_fewest = 0, whole.low
    else:
        fewest, kept_fewest = _quotient(whole.low, needle.high), 0
    result = Range(fewest, most).times(substitute).plus(Range(kept_fewest, kept_most))
    return Estimate(_scan(nodes[0], 2), result)


def _quotient(dividend: int, divisor: int) -> int:
    return min(int(-(-float(dividend) // float(divisor))), UNBOUNDED)


def _split(text: AstNode, _separator: AstNode, *limit: AstNode) -> Estimate:
    most = size_of(text).high
    if limit and type(limit[0].constant) is int:
        most = limit[0].constant % 2**64
    return Estimate(_scan(text, 2), Range(0, most))


def _join(items: AstNode, *separator: AstNode) -> Estimate:
    length = size_of(items)
    element = elements_of(items)
    joined = exactly(0) if element is None else length.times(size_of(element))
    if separator:
        separators = Range(max(length.low - 1, 0), max(length.high - 1, 0))
        joined = joined.plus(size_of(separator[0]).times(separators))
    return Estimate(joined.scaled(CHARACTER), joined)


def _find(text: AstNode, pattern: AstNode, *_limit: AstNode) -> Estimate:
    subject = size_of(text)
    return Estimate(_pattern(subject, size_of(pattern)), Range(0, subject.high))


_ADDRESS: Final = Range(4, 16)
"""The bytes of an address."""


def _containing(*, masked: bool, read: bool, by_name: bool) -> Price:
    """Return the price of looking for an address or a block in a block, which may have to be read from a text."""
    most = _ADDRESS.plus(_ADDRESS).scaled(CHARACTER)
    if masked:
        most = most.plus(_ADDRESS.scaled(CHARACTER)).plus(_ONE)

    def spent(arguments: list[Any], _result: Any) -> int:
        cost = _passed(arguments[0], 2) + (_passed(arguments[0]) + 1 if masked else 0)
        return cost + (_passed(arguments[1]) if read else 0)

    def estimate(_block: AstNode, other: AstNode) -> Estimate:
        return Estimate(most.plus(_scan(other)) if read else most)

    return Price(spent, estimate, by_name)


TRAVERSAL: Final = Price(_traversed, _traversal, by_name=True)
INCLUDES: Final = Price(
    _traversed, lambda items, _value: Estimate(size_of(items).times(_element_cost(items))), by_name=True
)
INCLUDES_136: Final = Price(_traversed, lambda _items, _value: Estimate(Range(0, 48)))
TRANSFORMING: Final = Price(_first_passed(1), _of_first(1, sized=True), by_name=True)
"""Passing over a text once, and returning one that is no longer; below, something else."""
READING: Final = Price(_first_passed(1), _of_first(1), by_name=True)
READING_TWICE: Final = Price(_first_passed(2), _of_first(2), by_name=True)
CHECK: Final = Price(
    lambda _arguments, _result: 350_000, lambda *_nodes: Estimate(exactly(350_000)), by_name=True
)
SELECTOR: Final = Price(_one, _selector, by_name=True)
REPLACE: Final = Price(_first_passed(2), _replace, by_name=True)
SPLIT: Final = Price(_first_passed(2), _split, by_name=True)
JOIN: Final = Price(lambda _arguments, result: _passed(result, 2), _join, by_name=True)
FIND: Final = Price(
    lambda arguments, _result: matched(size(arguments[0]), size(arguments[1])), _find, by_name=True
)
CONTAINS_IP: Final = _containing(masked=False, read=False, by_name=True)
CONTAINS_IP_TEXT: Final = _containing(masked=False, read=True, by_name=False)
CONTAINS_CIDR: Final = _containing(masked=True, read=False, by_name=True)
CONTAINS_CIDR_TEXT: Final = _containing(masked=True, read=True, by_name=False)


# --- the standard library -------------------------------------------------------------------------------------------


def _smaller(arguments: list[Any], _result: Any) -> int:
    """Two values are compared as far as the smaller one goes."""
    return ceil(min(map(_standard_size, arguments)) * CHARACTER)


def _comparison(left: AstNode, right: AstNode) -> Estimate:
    most = min(known_size(left).high, known_size(right).high)
    return Estimate(Range(min(most, 1), most).scaled(CHARACTER))


_UNIT_EQUALITY: Final = frozenset(
    (
        "net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver",
        "kubernetes.authorization.Authorizer", "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck", "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    )
)  # fmt: skip
_LONGEST_FORMAT: Final = 64


def _equality(left: AstNode, right: AstNode) -> Estimate:
    name = left.type.name
    if name == right.type.name:
        if name in _UNIT_EQUALITY:
            return Estimate(_ONE)
        if name == "kubernetes.NamedFormat":
            return Estimate(Range(1, _LONGEST_FORMAT).scaled(CHARACTER))
        if name == "kubernetes.URL":
            return Estimate(Range(1, (right.size or _ONE).high).scaled(CHARACTER))
    return _comparison(left, right)


def _equal(arguments: list[Any], result: Any) -> int:
    return 1 if isinstance(arguments[0], Opaque | Semver) else _smaller(arguments, result)


def _sized(arguments: list[Any], place: int) -> int:
    return ceil(_standard_size(arguments[place]) * CHARACTER)


def _first_sized(result: Callable[[Range], Range] | None = None) -> Price:
    def estimate(text: AstNode, *_nodes: AstNode) -> Estimate:
        known = known_size(text)
        return Estimate(known.scaled(CHARACTER), None if result is None else result(known))

    return Price(lambda arguments, _result: _sized(arguments, 0), estimate)


EQUALITY: Final = Price(_equal, _equality)
COMPARING: Final = Price(_smaller, _comparison)
SUM: Final = Price(
    lambda arguments, _result: ceil(sum(map(_standard_size, arguments)) * CHARACTER), ONE.estimate
)
"""What a sum can cost is said where its size is found."""
TO_BYTES: Final = _first_sized(lambda size: Range(size.low, size.high * 4 % 2**64))
TO_TEXT: Final = _first_sized(lambda size: Range(size.low // 4, size.high))
QUOTED: Final = _first_sized(lambda size: Range((size.low + 2) % 2**64, (size.high * 2 + 2) % 2**64))
FORMATTED: Final = _first_sized()
AFFIX: Final = Price(
    lambda arguments, _result: _sized(arguments, 1),
    lambda _text, affix: Estimate(known_size(affix).scaled(CHARACTER)),
)
MEMBER: Final = Price(
    lambda arguments, _result: _standard_size(arguments[1]),
    lambda _item, items: Estimate(known_size(items).scaled(1)),
)
MATCH: Final = Price(
    lambda arguments, _result: matched(_standard_size(arguments[0]), _standard_size(arguments[1])),
    lambda subject, pattern: Estimate(_pattern(known_size(subject), known_size(pattern))),
)
CONTAINS: Final = Price(
    lambda arguments, _result: _sized(arguments, 0) * _sized(arguments, 1),
    lambda text, part: Estimate(known_size(text).scaled(CHARACTER).times(known_size(part).scaled(CHARACTER))),
)


# --- lists and sets -------------------------------------------------------------------------------------------------


def _made(factor: float, length: int) -> int:
    factor = 1.0 if factor < 0 else factor
    return min(int(length * factor) + 1 + LIST_COST, UNBOUNDED)


def _making(factor: float, length: Range) -> Estimate:
    return Estimate(length.scaled(factor).plus(exactly(1 + LIST_COST)), length)


def _by_output(_arguments: list[Any], result: Any) -> int:
    return _made(1, 0 if result is MISSING else size(result))


def _by_depth(arguments: list[Any], _result: Any) -> int:
    depth = arguments[1] if len(arguments) == 2 else 1
    if type(depth) is not int:
        raise _panic("types.Int")
    return _made(depth, size(arguments[0]))


def _panic(wanted: str) -> Abort:
    """Return the error of an argument that has failed: upstream counts its size as if it had not, and panics."""
    return Abort("runtime", f"internal error: interface conversion: *types.Err is not {wanted}")


def _literal(node: AstNode, default: int) -> int:
    if type(node.constant) is int:
        return max(node.constant, 0)
    return default


def _slice(items: AstNode, start: AstNode, end: AstNode) -> Estimate:
    length = _literal(end, size_of(items).high) - _literal(start, 0)
    return _making(1, exactly(length % 2**64))


def _flatten(items: AstNode, *depth: AstNode) -> Estimate:
    return _making(float(_literal(depth[0], UNBOUNDED) if depth else 1), size_of(items))


def _comparing_all(place: int, factor: float) -> Price:
    """Return the price of comparing each element of an argument with each; the keys of a sort come last."""

    def spent(arguments: list[Any], _result: Any) -> int:
        compared = arguments[place]
        if type(compared) is not tuple:
            raise _panic("traits.Lister: missing method Add")
        texts = bool(compared) and type(compared[0]) in (str, bytes)
        return _made(2.0 + (CHARACTER if texts else 0), len(compared) ** 2)

    def estimate(*nodes: AstNode) -> Estimate:
        length = size_of(nodes[place])
        return _making(factor, length.times(length))

    return Price(spent, estimate)


def sort_price(kind: str, place: int = 0) -> Price:
    """Return the price of sorting by values of a type, which stand at a place among the arguments."""
    return _comparing_all(place, 2.0 + CHARACTER if kind in ("string", "bytes") else 2.0)


def set_price(factor: int) -> Price:
    """Return the price of comparing each element of a list with each of another so many times."""

    def spent(arguments: list[Any], _result: Any) -> int:
        return min(1 + size(arguments[0]) * size(arguments[1]) * factor, UNBOUNDED)

    def estimate(left: AstNode, right: AstNode) -> Estimate:
        return Estimate(size_of(left).times(size_of(right)).scaled(factor).plus(_ONE))

    return Price(spent, estimate)


SLICE: Final = Price(_by_output, _slice)
RANGE: Final = Price(_by_output, lambda count: _making(1, exactly(_literal(count, UNBOUNDED))))
REVERSE: Final = Price(_by_output, lambda items: _making(1, size_of(items)))
FLATTEN: Final = Price(_by_depth, _flatten)
DISTINCT: Final = _comparing_all(0, 2.0)
