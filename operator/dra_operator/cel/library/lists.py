"""Lists: Kubernetes' own functions, those of CEL's lists extension, version 3, and lists as sets.

Elements that cannot be compared for equality count as different here, whatever `==` would say of them. As sets, order
and repetition do not count.
Source: k8s.io/apiserver/pkg/cel/library/lists.go, cel-go `ext/lists.go`, `ext/sets.go`.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from dra_operator.cel.cost.prices import (
    DISTINCT,
    FLATTEN,
    INCLUDES,
    INCLUDES_136,
    RANGE,
    REVERSE,
    SLICE,
    TRAVERSAL,
    Implementation,
    Row,
    set_price,
    sort_price,
)
from dra_operator.cel.errors import CelError, check_comparisons, check_elements, runtime_error
from dra_operator.cel.values import (
    AS_PYTHON,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    cel_compare,
    surely_equal,
)


def contains_all(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether every element of `others` is in `items`."""
    if only_type(items, others) is not None:
        return set(others) <= set(items)
    check_comparisons(len(items) * len(others))
    return all(any(surely_equal(other, item) for item in items) for other in others)


def equivalent(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether each list has every element of the other."""
    return contains_all(items, others) and contains_all(others, items)


def intersects(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether the lists have an element in common."""
    if only_type(items, others) is not None:
        return not set(items).isdisjoint(others)
    check_comparisons(len(items) * len(others))
    return any(surely_equal(other, item) for other in others for item in items)


_SETS: Final[dict[str, Row]] = {
    "sets.contains list_sets_contains_list: (list(<T>), list(<T>)) -> bool": Implementation(
        contains_all, set_price(1)
    ),
    "sets.equivalent list_sets_equivalent_list: (list(<T>), list(<T>)) -> bool": Implementation(
        equivalent, set_price(2)
    ),
    "sets.intersects list_sets_intersects_list: (list(<T>), list(<T>)) -> bool": Implementation(
        intersects, set_price(1)
    ),
}


_DURATION: Final = "google.protobuf.Duration"
_MOST_INCLUDED: Final = 48
"""So many values a device may have; 1.36 looks through no more."""
_INT: Final = (INT_MIN, INT_MAX)
_UINT: Final = (0, UINT_MAX)
_LONGEST_RANGE: Final = 1_000_000
_DEEPEST: Final = 200
_ORDERED: Final = frozenset((bool, int, Uint, float, str, bytes, Duration, Timestamp))


def only_type(*lists: tuple[Any, ...]) -> type | None:
    """Return the type of all elements if Python compares values of it as CEL does, else None."""
    kinds = {type(item) for items in lists for item in items}
    return next(iter(kinds)) if len(kinds) == 1 and kinds <= AS_PYTHON else None


def is_sorted(items: tuple[Any, ...]) -> bool:
    """Return whether no element is greater than the next; neighbours that cannot be compared are passed over."""
    for i, item in enumerate(items):
        if type(item) not in _ORDERED:
            raise runtime_error("no such overload")
        if i and _compares_as(items[i - 1], item, 1):
            return False
    return True


def _compares_as(left: Any, right: Any, expected: int) -> bool:
    try:
        return cel_compare(left, right) == expected
    except CelError:
        return False


def minimum(items: tuple[Any, ...]) -> Any:
    """Return the least element."""
    return _extreme("min", items, 1)


def maximum(items: tuple[Any, ...]) -> Any:
    """Return the greatest element."""
    return _extreme("max", items, -1)


def _extreme(name: str, items: tuple[Any, ...], worse: int) -> Any:
    if not items:
        raise runtime_error(f"{name} called on empty list")
    best = items[0]
    for item in items:
        if type(item) not in _ORDERED:
            raise runtime_error("no such overload")
        # An element that cannot be compared is passed over, as upstream does.
        if _compares_as(best, item, worse):
            best = item
    return best


def _checked_sum(items: tuple[Any, ...], kind: type[int], bounds: tuple[int, int], message: str) -> int:
    total = 0
    low, high = bounds
    for item in items:
        if type(item) is not kind:
            raise runtime_error("no such overload")
        total += item
        if not low <= total <= high:
            raise runtime_error(message)
    return total


def sum_ints(items: tuple[Any, ...]) -> int:
    """Return the sum of ints."""
    return _checked_sum(items, int, _INT, "integer overflow")


def sum_uints(items: tuple[Any, ...]) -> Uint:
    """Return the sum of uints."""
    return Uint(_checked_sum(items, Uint, _UINT, "unsigned integer overflow"))


def sum_doubles(items: tuple[Any, ...]) -> float:
    """Return the sum of doubles, added one after the other."""
    total = 0.0
    for item in items:
        if type(item) is not float:
            raise runtime_error("no such overload")
        total += item
    return total


def sum_durations(items: tuple[Any, ...]) -> Duration:
    """Return the sum of durations."""
    for item in items:
        if type(item) is not Duration:
            raise runtime_error("no such overload")
    nanos = tuple(item.nanos for item in items)
    return Duration(_checked_sum(nanos, int, _INT, "integer overflow"))


def index_of(items: tuple[Any, ...], value: Any) -> int:
    """Return the position of the first element that equals `value`, or -1."""
    return next((i for i, item in enumerate(items) if surely_equal(item, value)), -1)


def last_index_of(items: tuple[Any, ...], value: Any) -> int:
    """Return the position of the last element that equals `value`, or -1."""
    return next((i for i in range(len(items) - 1, -1, -1) if surely_equal(items[i], value)), -1)


def includes(value: Any, other: Any) -> bool:
    """Return whether a list has an element equal to `other`, or a single value equals it."""
    if type(value) is not tuple:
        return surely_equal(value, other)
    return any(surely_equal(item, other) for item in value)


def _includes_few(target: Any, value: Any) -> bool:
    """1.36 refuses to look through more values than a device may have."""
    if type(target) is not tuple or len(target) <= _MOST_INCLUDED:
        return includes(target, value)
    if includes(target[:_MOST_INCLUDED], value):
        return True
    raise runtime_error(f"'includes' function cannot be applied to lists longer than {_MOST_INCLUDED} values")


def slice_between(items: tuple[Any, ...], start: int, end: int) -> tuple[Any, ...]:
    """Return the elements from `start` to before `end`."""
    if start < 0 or end < 0:
        raise runtime_error(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise runtime_error(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise runtime_error(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def flatten(items: tuple[Any, ...], depth: int = 1) -> tuple[Any, ...]:
    """Return the elements of nested lists, down to `depth` levels."""
    if depth < 0:
        raise runtime_error("level must be non-negative")
    result: list[Any] = []
    _flatten(items, min(depth, _DEEPEST), result, [0])
    return tuple(result)


def _flatten(items: tuple[Any, ...], depth: int, result: list[Any], seen: list[int]) -> None:
    # Lists are counted as they are met: empty ones may be without number and add nothing to the result.
    seen[0] += len(items)
    check_elements(seen[0])
    for item in items:
        if type(item) is tuple and depth > 0:
            _flatten(item, depth - 1, result, seen)
        else:
            result.append(item)


def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the elements without those that equal an earlier one."""
    if only_type(items) is not None:
        return tuple(dict.fromkeys(items))
    kept: list[Any] = []
    for item in items:
        check_comparisons(len(kept) * len(items))
        if not any(surely_equal(item, each) for each in kept):
            kept.append(item)
    return tuple(kept)


def reverse(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the elements in reverse order."""
    return items[::-1]


def numbers_below(size: int) -> tuple[int, ...]:
    """Return the numbers from 0 to before `size`."""
    if size < 0:
        raise runtime_error(f"lists.range: size must be non-negative, got {size}")
    if size > _LONGEST_RANGE:
        raise runtime_error(f"lists.range: size {size} exceeds maximum allowed ({_LONGEST_RANGE})")
    check_elements(size)
    return tuple(range(size))


def sort(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the elements in order; all must be of one type that has an order."""
    return sort_by_keys(items, items)


def sort_by_keys(items: tuple[Any, ...], keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the elements in the order of their keys; what `sortBy` comes to."""
    if len(items) != len(keys):
        raise runtime_error(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    kind = type(keys[0])
    if kind not in _ORDERED:
        raise runtime_error("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        raise runtime_error("list elements must have the same type")
    pairs = zip(keys, items, strict=True)
    # Python's sort asks `<` alone, which holds for NaN on neither side, as upstream's comparison.
    return tuple(item for _, item in sorted(pairs, key=itemgetter(0)))


_COMPARABLE: Final = (
    "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string",
    "bytes",
)  # fmt: skip
"""The types whose values have an order, by their names; below, as overloads of older functions name them."""
_SHORT_TYPES: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _of_each(row: str, of_type: Callable[[str], Row]) -> dict[str, Row]:
    """Return a row for each type whose values have an order; `short` is how overloads name it."""
    names = zip(_SHORT_TYPES, _COMPARABLE, strict=True)
    return {row.format(short=short, type=name): of_type(name) for short, name in names}


FUNCTIONS: Final[dict[str, Row]] = {
    **_of_each(
        "@sortByAssociatedKeys list_{type}_sortByAssociatedKeys: list(<T>).(list({type})) -> list(<T>)",
        lambda kind: Implementation(None, sort_price(kind, 1)),
    ),
    "cel.@mapInsert @mapInsert_map_key_value: (map(<K>, <V>), <K>, <V>) -> map(<K>, <V>)": None,
    "cel.@mapInsert @mapInsert_map_map: (map(<K>, <V>), map(<K>, <V>)) -> map(<K>, <V>)": None,
    "distinct list_distinct: list(<T>).() -> list(<T>)": Implementation(distinct, DISTINCT),
    "flatten list_flatten: list(list(<T>)).() -> list(<T>)": Implementation(flatten, FLATTEN),
    "flatten list_flatten_int: list(dyn).(int) -> list(dyn)": Implementation(flatten, FLATTEN),
    "includes list_includes_dyn_dyn: dyn.(dyn) -> bool": Implementation(includes, INCLUDES),
    "indexOf list_a_index_of_int: list(<A>).(<A>) -> int": Implementation(index_of, TRAVERSAL),
    **_of_each(
        "isSorted list_{short}_is_sorted_bool: list({type}).() -> bool",
        lambda _: Implementation(is_sorted, TRAVERSAL),
    ),
    "lastIndexOf list_a_last_index_of_int: list(<A>).(<A>) -> int": Implementation(last_index_of, TRAVERSAL),
    "lists.range lists_range: (int) -> list(int)": Implementation(numbers_below, RANGE),
    **_of_each(
        "max list_{short}_max_{short}: list({type}).() -> {type}",
        lambda _: Implementation(maximum, TRAVERSAL),
    ),
    **_of_each(
        "min list_{short}_min_{short}: list({type}).() -> {type}",
        lambda _: Implementation(minimum, TRAVERSAL),
    ),
    "reverse list_reverse: list(<T>).() -> list(<T>)": Implementation(reverse, REVERSE),
    "slice list_slice: list(<T>).(int, int) -> list(<T>)": Implementation(slice_between, SLICE),
    **_of_each(
        "sort list_{type}_sort: list({type}).() -> list({type})",
        lambda kind: Implementation(None, sort_price(kind)),
    ),
    "sum list_int_sum_int: list(int).() -> int": Implementation(sum_ints, TRAVERSAL),
    "sum list_uint_sum_uint: list(uint).() -> uint": Implementation(sum_uints, TRAVERSAL),
    "sum list_double_sum_double: list(double).() -> double": Implementation(sum_doubles, TRAVERSAL),
    f"sum list_duration_sum_duration: list({_DURATION}).() -> {_DURATION}": Implementation(
        sum_durations, TRAVERSAL
    ),
    **_SETS,
}
OLDER: Final[dict[str, dict[str, Row]]] = {
    "any_list_is_searched": {
        "includes dra_includes_dyn_dyn: dyn.(dyn) -> bool": Implementation(_includes_few, INCLUDES_136)
    },
}
"""What stands in the place of the overloads with these arguments, by the rule that must not hold."""
