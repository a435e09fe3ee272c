"""Core: the operators, and the functions for which one implementation serves all overloads, or a step of the plan.

`FUNCTIONS` declares them, `SINGLETONS` has the code by name. Numbers of different types compare by value; what a
function cannot take is an error with upstream's words. Authorization is declared as upstream does, and unusable, since
no variable has its types: a function that is known is another error than one that is not.
Source: cel-go `common/stdlib/standard.go`, `common/types`; k8s.io/apiserver `pkg/cel/library/authz.go`.
"""

from collections.abc import Callable
from math import inf, nan
from typing import Any, Final

from dra_operator.cel.cost.prices import (
    CHECK,
    COMPARING,
    EQUALITY,
    MEMBER,
    SELECTOR,
    SUM,
    Implementation,
    Row,
)
from dra_operator.cel.errors import Abort, CelError, check_elements, check_length, runtime_error
from dra_operator.cel.library import lists
from dra_operator.cel.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    UINT_MAX,
    CelMap,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    cel_compare,
    cel_equal,
    key_text,
    surely_equal,
    type_name,
)


def unreachable(*_values: Any) -> Any:
    """There is no authorizer: none of its values gets here."""
    raise runtime_error("no such overload")


_A: Final = "kubernetes.authorization"
_RESOURCE: Final = f"{_A}.ResourceCheck"
_AUTHORIZATION: Final[dict[str, Row]] = {
    f"allowed decision_allowed: {_A}.Decision.() -> bool": unreachable,
    f"check pathcheck_check: {_A}.PathCheck.(string) -> {_A}.Decision": Implementation(unreachable, CHECK),
    f"check resourcecheck_check: {_RESOURCE}.(string) -> {_A}.Decision": Implementation(unreachable, CHECK),
    f"error decision_error: {_A}.Decision.() -> string": unreachable,
    f"errored decision_errored: {_A}.Decision.() -> bool": unreachable,
    f"fieldSelector authorizer_fieldselector: {_RESOURCE}.(string) -> {_RESOURCE}": Implementation(
        unreachable, SELECTOR
    ),
    f"group authorizer_group: {_A}.Authorizer.(string) -> {_A}.GroupCheck": unreachable,
    f"labelSelector authorizer_labelselector: {_RESOURCE}.(string) -> {_RESOURCE}": Implementation(
        unreachable, SELECTOR
    ),
    f"name resourcecheck_name: {_RESOURCE}.(string) -> {_RESOURCE}": unreachable,
    f"namespace resourcecheck_namespace: {_RESOURCE}.(string) -> {_RESOURCE}": unreachable,
    f"path authorizer_path: {_A}.Authorizer.(string) -> {_A}.PathCheck": unreachable,
    f"reason decision_reason: {_A}.Decision.() -> string": unreachable,
    f"resource groupcheck_resource: {_A}.GroupCheck.(string) -> {_RESOURCE}": unreachable,
    f"serviceAccount authorizer_serviceaccount: {_A}.Authorizer.(string, string) -> {_A}.Authorizer": unreachable,
    f"subresource resourcecheck_subresource: {_RESOURCE}.(string) -> {_RESOURCE}": unreachable,
}


_FIRST_MOMENT: Final = -62135596800 * 10**9
_LAST_MOMENT: Final = 253402300800 * 10**9 - 1


def no_overload() -> CelError:
    """Return the error of operands that an operator has no meaning for."""
    return runtime_error("no such overload")


# --- arithmetic -----------------------------------------------------------------------------------------------------


def whole(value: int) -> int:
    """Return an int if it fits into 64 bits; raises CelError if not."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise runtime_error("integer overflow")


def unsigned(value: int) -> Uint:
    """Return a uint if it fits into 64 bits; raises CelError if not."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise runtime_error("unsigned integer overflow")


def moment(nanos: int, offset: int) -> Timestamp:
    """Return a timestamp within the years 1 to 9999; raises CelError outside of them."""
    if _FIRST_MOMENT <= nanos <= _LAST_MOMENT:
        return Timestamp(nanos, offset)
    raise runtime_error("timestamp overflow")


def add(left: Any, right: Any) -> Any:
    """Return the sum of numbers and times, or the concatenation of strings, bytes and lists."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return whole(left + right)
        if kind is float:
            return left + right
        if kind is str or kind is bytes:
            check_length(len(left) + len(right))
            return left + right
        if kind is tuple:
            check_elements(len(left) + len(right))
            return left + right
        if kind is Uint:
            return unsigned(int(left) + int(right))
        if kind is Duration:
            return Duration(whole(left.nanos + right.nanos))
    elif kind is Timestamp and type(right) is Duration:
        return moment(left.nanos + right.nanos, left.offset)
    elif kind is Duration and type(right) is Timestamp:
        return moment(left.nanos + right.nanos, right.offset)
    raise no_overload()


def subtract(left: Any, right: Any) -> Any:
    """Return the difference of numbers and times."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return whole(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return unsigned(int(left) - int(right))
        if kind is Duration or kind is Timestamp:
            return Duration(whole(left.nanos - right.nanos))
    elif kind is Timestamp and type(right) is Duration:
        return moment(left.nanos - right.nanos, left.offset)
    raise no_overload()


def multiply(left: Any, right: Any) -> Any:
    """Return the product of two numbers of one type."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return whole(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return unsigned(int(left) * int(right))
    raise no_overload()


def divide(left: Any, right: Any) -> Any:
    """Return the quotient of two numbers of one type; ints are cut off towards zero."""
    kind = type(left)
    if kind is not type(right):
        raise no_overload()
    if kind is float:
        return _divide_doubles(left, right)
    if kind is not int and kind is not Uint:
        raise no_overload()
    if right == 0:
        raise runtime_error("division by zero")
    if kind is Uint:
        return Uint(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return whole(-quotient if (left < 0) != (right < 0) else quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:  # noqa: PLR0124 - NaN
        return nan
    negative = (left < 0) != (str(right).startswith("-"))
    return -inf if negative else inf


def modulo(left: Any, right: Any) -> Any:
    """Return the remainder of two ints or uints; it has the sign of the dividend."""
    kind = type(left)
    if kind is not type(right) or (kind is not int and kind is not Uint):
        raise no_overload()
    if right == 0:
        raise runtime_error("modulus by zero")
    if kind is Uint:
        return Uint(int(left) % int(right))
    if left == INT_MIN and right == -1:
        raise runtime_error("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def negate(value: Any) -> Any:
    """Return the negative of an int, a double or a duration."""
    kind = type(value)
    if kind is int:
        return whole(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(whole(-value.nanos))
    raise no_overload()


# --- logic, comparison ----------------------------------------------------------------------------------------------


def negation(value: Any) -> bool:
    """Return the opposite of a bool."""
    if value is True:
        return False
    if value is False:
        return True
    raise no_overload()


def not_equal(left: Any, right: Any) -> bool:
    """Return whether two values are not known to be equal: what cannot be compared is different."""
    try:
        return not cel_equal(left, right)
    except Abort:
        raise
    except CelError:
        return True


def less(left: Any, right: Any) -> bool:
    """Return whether `left` comes before `right`."""
    return cel_compare(left, right) < 0


def less_or_equal(left: Any, right: Any) -> bool:
    """Return whether `left` does not come after `right`."""
    return cel_compare(left, right) <= 0


def greater(left: Any, right: Any) -> bool:
    """Return whether `left` comes after `right`."""
    return cel_compare(left, right) > 0


def greater_or_equal(left: Any, right: Any) -> bool:
    """Return whether `left` does not come before `right`."""
    return cel_compare(left, right) >= 0


# --- collections ----------------------------------------------------------------------------------------------------


def contained(value: Any, collection: Any) -> bool:
    """Return whether a list has an element equal to `value`, or a map a key."""
    if type(collection) is tuple:
        return any(surely_equal(value, element) for element in collection)
    if isinstance(collection, CelMap):
        return collection.contains(value)
    raise no_overload()


def size(value: Any) -> int:
    """Return the number of characters, bytes, elements or entries."""
    kind = type(value)
    if kind is str or kind is tuple or kind is bytes or isinstance(value, CelMap):
        return len(value)
    raise runtime_error("no such overload: size")


def sort(value: Any) -> Any:
    """Return the elements of a list in order."""
    if type(value) is tuple:
        return lists.sort(value)
    raise runtime_error("no such overload: sort")


def sort_by_keys(value: Any, keys: Any) -> Any:
    """Return the elements of a list in the order of their keys."""
    if type(value) is tuple:
        return lists.sort_by_keys(value, keys)
    raise runtime_error("no such overload: @sortByAssociatedKeys")


def insert(target: Any, *entry: Any) -> CelMap:
    """Return a map with a key and its value added, or with all entries of another map; keys must be new."""
    if not isinstance(target, CelMap) or (len(entry) == 1 and not isinstance(entry[0], CelMap)):
        raise no_overload()
    made = CelMap(target.items())
    for key, value in [entry] if len(entry) == 2 else entry[0].items():
        if made.find(key) is not MISSING:
            raise runtime_error(f"insert failed: key {key_text(key)} already exists")
        made.put(key, value)
    return made


SINGLETONS: Final[dict[str, Callable[..., Any]]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": negation,
    "@not_strictly_false": lambda value: value is not False,
    "_<_": less,
    "_<=_": less_or_equal,
    "_>_": greater,
    "_>=_": greater_or_equal,
    "@in": contained,
    "size": size,
    "sort": sort,
    "@sortByAssociatedKeys": sort_by_keys,
    "dyn": lambda value: value,
    "type": lambda value: TypeValue(type_name(value)),
    "cel.@mapInsert": insert,
}
"""The functions with one implementation for all their overloads, by name."""


_DURATION: Final = "google.protobuf.Duration"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_COMPARED: Final = (
    "bool", "int64", "int64_double", "int64_uint64", "uint64", "uint64_double", "uint64_int64", "double",
    "double_int64", "double_uint64", "string", "bytes", "timestamp", "duration",
)  # fmt: skip
"""What an order compares, as the overloads name it: values of one type, or numbers of two."""
_BY_NAME: Final = {
    "int64": "int",
    "uint64": "uint",
    "timestamp": _TIMESTAMP,
    "duration": _DURATION,
}


def _comparison(operator: str, stem: str) -> str:
    lines = []
    for names in _COMPARED:
        left, _, right = names.partition("_")
        types = (_BY_NAME.get(name, name) for name in (left, right or left))
        lines.append(f"{operator} {stem}_{names}: ({', '.join(types)}) -> bool")
    return "\n".join(lines)


_PRICES: Final = {
    "equals": EQUALITY,
    "not_equals": COMPARING,
    "in_list": MEMBER,
    "add_string": SUM,
    "add_bytes": SUM,
    **{
        f"{order}_{kind}": COMPARING
        for order in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}
"""The prices of overloads that do not cost 1."""
_ROWS: Final = f"""
!_ logical_not: (bool) -> bool
-_ negate_double: (double) -> double
-_ negate_int64: (int) -> int
@in in_list: (<A>, list(<A>)) -> bool
@in in_map: (<A>, map(<A>, <B>)) -> bool
@not_strictly_false not_strictly_false: (bool) -> bool
_!=_ not_equals: (<A>, <A>) -> bool
_%_ modulo_int64: (int, int) -> int
_%_ modulo_uint64: (uint, uint) -> uint
_&&_ logical_and: (bool, bool) -> bool
_*_ multiply_double: (double, double) -> double
_*_ multiply_int64: (int, int) -> int
_*_ multiply_uint64: (uint, uint) -> uint
_+_ add_bytes: (bytes, bytes) -> bytes
_+_ add_double: (double, double) -> double
_+_ add_duration_duration: ({_DURATION}, {_DURATION}) -> {_DURATION}
_+_ add_duration_timestamp: ({_DURATION}, {_TIMESTAMP}) -> {_TIMESTAMP}
_+_ add_timestamp_duration: ({_TIMESTAMP}, {_DURATION}) -> {_TIMESTAMP}
_+_ add_int64: (int, int) -> int
_+_ add_list: (list(<A>), list(<A>)) -> list(<A>)
_+_ add_string: (string, string) -> string
_+_ add_uint64: (uint, uint) -> uint
_-_ subtract_double: (double, double) -> double
_-_ subtract_duration_duration: ({_DURATION}, {_DURATION}) -> {_DURATION}
_-_ subtract_int64: (int, int) -> int
_-_ subtract_timestamp_duration: ({_TIMESTAMP}, {_DURATION}) -> {_TIMESTAMP}
_-_ subtract_timestamp_timestamp: ({_TIMESTAMP}, {_TIMESTAMP}) -> {_DURATION}
_-_ subtract_uint64: (uint, uint) -> uint
_/_ divide_double: (double, double) -> double
_/_ divide_int64: (int, int) -> int
_/_ divide_uint64: (uint, uint) -> uint
{_comparison("_<=_", "less_equals")}
{_comparison("_<_", "less")}
_==_ equals: (<A>, <A>) -> bool
{_comparison("_>=_", "greater_equals")}
{_comparison("_>_", "greater")}
_?_:_ conditional: (bool, <A>, <A>) -> <A>
_[_] index_list: (list(<A>), int) -> <A>
_[_] index_map: (map(<A>, <B>), <A>) -> <B>
_||_ logical_or: (bool, bool) -> bool
dyn to_dyn: (<A>) -> dyn
type type: (<A>) -> type(<A>)
size size_bytes: (bytes) -> int
size bytes_size: bytes.() -> int
size size_list: (list(<A>)) -> int
size list_size: list(<A>).() -> int
size size_map: (map(<A>, <B>)) -> int
size map_size: map(<A>, <B>).() -> int
size size_string: (string) -> int
size string_size: string.() -> int
"""


def _priced(row: str) -> Row:
    price = _PRICES.get(row.split(" ")[1].rstrip(":"))
    return None if price is None else Implementation(None, price)


FUNCTIONS: Final[dict[str, Row]] = {row: _priced(row) for row in _ROWS.strip().split("\n")} | _AUTHORIZATION
