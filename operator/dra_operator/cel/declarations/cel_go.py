"""Functions of CEL itself, and of the libraries of cel-go that Kubernetes turns on, with Kubernetes' own beside them.

Source: cel-go `common/stdlib/standard.go`, `cel/library.go` and `ext/`; k8s.io/apiserver `pkg/cel/library/`.
"""

from typing import Final

DURATION: Final = "google.protobuf.Duration"
TIMESTAMP: Final = "google.protobuf.Timestamp"
_COMPARED: Final = (
    "bool", "int64", "int64_double", "int64_uint64", "uint64", "uint64_double", "uint64_int64", "double",
    "double_int64", "double_uint64", "string", "bytes", "timestamp", "duration",
)  # fmt: skip
"""What an order compares, as the overloads name it: values of one type, or numbers of two."""
_BY_NAME: Final = {"int64": "int", "uint64": "uint", "timestamp": TIMESTAMP, "duration": DURATION}
_ORDERED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""The types whose values have an order, as functions of lists name them."""


def _comparison(operator: str, stem: str) -> str:
    lines = []
    for names in _COMPARED:
        left, _, right = names.partition("_")
        types = (_BY_NAME.get(name, name) for name in (left, right or left))
        lines.append(f"{operator} {stem}_{names}: ({', '.join(types)}) -> bool")
    return "\n".join(lines)


def _part_of_time(function: str, part: str) -> str:
    return (
        f"{function} timestamp_to_{part}: {TIMESTAMP}.() -> int\n"
        f"{function} timestamp_to_{part}_with_tz: {TIMESTAMP}.(string) -> int"
    )


def _of_each(function: str, overload: str) -> str:
    lines = [overload.format(short=short, type=_BY_NAME.get(short, short)) for short in _ORDERED]
    return "\n".join(f"{function} {line}" for line in lines)


OPERATORS: Final = f"""
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
_+_ add_duration_duration: ({DURATION}, {DURATION}) -> {DURATION}
_+_ add_duration_timestamp: ({DURATION}, {TIMESTAMP}) -> {TIMESTAMP}
_+_ add_timestamp_duration: ({TIMESTAMP}, {DURATION}) -> {TIMESTAMP}
_+_ add_int64: (int, int) -> int
_+_ add_list: (list(<A>), list(<A>)) -> list(<A>)
_+_ add_string: (string, string) -> string
_+_ add_uint64: (uint, uint) -> uint
_-_ subtract_double: (double, double) -> double
_-_ subtract_duration_duration: ({DURATION}, {DURATION}) -> {DURATION}
_-_ subtract_int64: (int, int) -> int
_-_ subtract_timestamp_duration: ({TIMESTAMP}, {DURATION}) -> {TIMESTAMP}
_-_ subtract_timestamp_timestamp: ({TIMESTAMP}, {TIMESTAMP}) -> {DURATION}
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
"""
"""Operators: arithmetic, comparison, logic, membership and indexing.

Source: cel-go `common/stdlib/standard.go`.
"""

CONVERSIONS: Final = f"""
bool bool_to_bool: (bool) -> bool
bool string_to_bool: (string) -> bool
bytes bytes_to_bytes: (bytes) -> bytes
bytes string_to_bytes: (string) -> bytes
double double_to_double: (double) -> double
double int64_to_double: (int) -> double
double string_to_double: (string) -> double
double uint64_to_double: (uint) -> double
duration duration_to_duration: ({DURATION}) -> {DURATION}
duration string_to_duration: (string) -> {DURATION}
dyn to_dyn: (<A>) -> dyn
int int64_to_int64: (int) -> int
int double_to_int64: (double) -> int
int duration_to_int64: ({DURATION}) -> int
int string_to_int64: (string) -> int
int timestamp_to_int64: ({TIMESTAMP}) -> int
int uint64_to_int64: (uint) -> int
string string_to_string: (string) -> string
string bool_to_string: (bool) -> string
string bytes_to_string: (bytes) -> string
string double_to_string: (double) -> string
string duration_to_string: ({DURATION}) -> string
string int64_to_string: (int) -> string
string timestamp_to_string: ({TIMESTAMP}) -> string
string uint64_to_string: (uint) -> string
timestamp timestamp_to_timestamp: ({TIMESTAMP}) -> {TIMESTAMP}
timestamp int64_to_timestamp: (int) -> {TIMESTAMP}
timestamp string_to_timestamp: (string) -> {TIMESTAMP}
type type: (<A>) -> type(<A>)
uint uint64_to_uint64: (uint) -> uint
uint double_to_uint64: (double) -> uint
uint int64_to_uint64: (int) -> uint
uint string_to_uint64: (string) -> uint
"""
"""Conversions and type tests.

Source: cel-go `common/stdlib/standard.go`.
"""

STANDARD: Final = f"""
contains contains_string: string.(string) -> bool
endsWith ends_with_string: string.(string) -> bool
{_part_of_time("getDate", "day_of_month_1_based")}
{_part_of_time("getDayOfMonth", "day_of_month")}
{_part_of_time("getDayOfWeek", "day_of_week")}
{_part_of_time("getDayOfYear", "day_of_year")}
{_part_of_time("getFullYear", "year")}
{_part_of_time("getHours", "hours")}
getHours duration_to_hours: {DURATION}.() -> int
{_part_of_time("getMilliseconds", "milliseconds")}
getMilliseconds duration_to_milliseconds: {DURATION}.() -> int
{_part_of_time("getMinutes", "minutes")}
getMinutes duration_to_minutes: {DURATION}.() -> int
{_part_of_time("getMonth", "month")}
getSeconds timestamp_to_seconds: {TIMESTAMP}.() -> int
getSeconds timestamp_to_seconds_tz: {TIMESTAMP}.(string) -> int
getSeconds duration_to_seconds: {DURATION}.() -> int
matches matches: (string, string) -> bool
matches matches_string: string.(string) -> bool
size size_bytes: (bytes) -> int
size bytes_size: bytes.() -> int
size size_list: (list(<A>)) -> int
size list_size: list(<A>).() -> int
size size_map: (map(<A>, <B>)) -> int
size map_size: map(<A>, <B>).() -> int
size size_string: (string) -> int
size string_size: string.() -> int
startsWith starts_with_string: string.(string) -> bool
"""
"""Sizes, strings, regular expressions and times of the standard library.

Source: cel-go `common/stdlib/standard.go`.
"""

LISTS: Final = f"""
{_of_each("@sortByAssociatedKeys", "list_{type}_sortByAssociatedKeys: list(<T>).(list({type})) -> list(<T>)")}
cel.@mapInsert @mapInsert_map_key_value: (map(<K>, <V>), <K>, <V>) -> map(<K>, <V>)
cel.@mapInsert @mapInsert_map_map: (map(<K>, <V>), map(<K>, <V>)) -> map(<K>, <V>)
distinct list_distinct: list(<T>).() -> list(<T>)
flatten list_flatten: list(list(<T>)).() -> list(<T>)
flatten list_flatten_int: list(dyn).(int) -> list(dyn)
includes list_includes_dyn_dyn: dyn.(dyn) -> bool
indexOf list_a_index_of_int: list(<A>).(<A>) -> int
{_of_each("isSorted", "list_{short}_is_sorted_bool: list({type}).() -> bool")}
lastIndexOf list_a_last_index_of_int: list(<A>).(<A>) -> int
lists.range lists_range: (int) -> list(int)
{_of_each("max", "list_{short}_max_{short}: list({type}).() -> {type}")}
{_of_each("min", "list_{short}_min_{short}: list({type}).() -> {type}")}
reverse list_reverse: list(<T>).() -> list(<T>)
sets.contains list_sets_contains_list: (list(<T>), list(<T>)) -> bool
sets.equivalent list_sets_equivalent_list: (list(<T>), list(<T>)) -> bool
sets.intersects list_sets_intersects_list: (list(<T>), list(<T>)) -> bool
slice list_slice: list(<T>).(int, int) -> list(<T>)
{_of_each("sort", "list_{type}_sort: list({type}).() -> list({type})")}
sum list_int_sum_int: list(int).() -> int
sum list_uint_sum_uint: list(uint).() -> uint
sum list_double_sum_double: list(double).() -> double
sum list_duration_sum_duration: list({DURATION}).() -> {DURATION}
"""
"""Lists: Kubernetes' own functions, cel-go's list library version 3, sets, map insertion.

Source: k8s.io/apiserver `pkg/cel/library/lists.go`, cel-go `ext/lists.go`, `ext/sets.go`, `ext/comprehensions.go`.
"""

STRINGS: Final = """
charAt string_char_at_int: string.(int) -> string
find string_find_string: string.(string) -> string
findAll string_find_all_string: string.(string) -> list(string)
findAll string_find_all_string_int: string.(string, int) -> list(string)
format string_format: string.(list(dyn)) -> string
indexOf string_index_of_string: string.(string) -> int
indexOf string_index_of_string_int: string.(string, int) -> int
join list_join: list(string).() -> string
join list_join_string: list(string).(string) -> string
lastIndexOf string_last_index_of_string: string.(string) -> int
lastIndexOf string_last_index_of_string_int: string.(string, int) -> int
lowerAscii string_lower_ascii: string.() -> string
replace string_replace_string_string: string.(string, string) -> string
replace string_replace_string_string_int: string.(string, string, int) -> string
split string_split_string: string.(string) -> list(string)
split string_split_string_int: string.(string, int) -> list(string)
strings.quote strings_quote: (string) -> string
substring string_substring_int: string.(int) -> string
substring string_substring_int_int: string.(int, int) -> string
trim string_trim: string.() -> string
upperAscii string_upper_ascii: string.() -> string
"""
"""Strings, version 2, and Kubernetes' regular expressions.

Source: cel-go `ext/strings.go`, k8s.io/apiserver `pkg/cel/library/regex.go`.
"""

OPTIONALS: Final = """
_?._ select_optional_field: (dyn, string) -> optional_type(<V>)
_[?_] list_optindex_optional_int: (list(<V>), int) -> optional_type(<V>)
_[?_] optional_list_optindex_optional_int: (optional_type(list(<V>)), int) -> optional_type(<V>)
_[?_] map_optindex_optional_value: (map(<K>, <V>), <K>) -> optional_type(<V>)
_[?_] optional_map_optindex_optional_value: (optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)
_[_] optional_list_index_int: (optional_type(list(<V>)), int) -> optional_type(<V>)
_[_] optional_map_index_value: (optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)
first list_first: list(<V>).() -> optional_type(<V>)
hasValue optional_hasValue: optional_type(<V>).() -> bool
last list_last: list(<V>).() -> optional_type(<V>)
optional.none optional_none: () -> optional_type(<V>)
optional.of optional_of: (<V>) -> optional_type(<V>)
optional.ofNonZeroValue optional_ofNonZeroValue: (<V>) -> optional_type(<V>)
optional.unwrap optional_unwrap: (list(optional_type(<V>))) -> list(<V>)
or optional_or_optional: optional_type(<V>).(optional_type(<V>)) -> optional_type(<V>)
orValue optional_orValue_value: optional_type(<V>).(<V>) -> <V>
unwrapOpt optional_unwrapOpt: list(optional_type(<V>)).() -> list(<V>)
value optional_value: optional_type(<V>).() -> <V>
"""
"""Optional values: construction, access and optional indexing.

Source: cel-go `cel/library.go`.
"""
