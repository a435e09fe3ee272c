"""Core: the operators and the functions for which one implementation serves all overloads, or a step of the plan.

Their code is in `cel/operators.py`, by name.
Source: cel-go `common/stdlib/standard.go`.
"""

from typing import Final

from dra_operator.cel.costs.prices import COMPARING, EQUALITY, MEMBER, SUM, Implementation, Row

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


FUNCTIONS: Final[dict[str, Row]] = {row: _priced(row) for row in _ROWS.strip().split("\n")}
