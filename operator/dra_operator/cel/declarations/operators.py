"""Operators: arithmetic, comparison, logic, membership and indexing.

Source: cel-go `common/stdlib/standard.go`.
"""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "!_": ("logical_not: (bool) -> bool",),
    "-_": (
        "negate_double: (double) -> double",
        "negate_int64: (int) -> int",
    ),
    "@in": (
        "in_list: (<A>, list(<A>)) -> bool",
        "in_map: (<A>, map(<A>, <B>)) -> bool",
    ),
    "@not_strictly_false": ("not_strictly_false: (bool) -> bool",),
    "_!=_": ("not_equals: (<A>, <A>) -> bool",),
    "_%_": (
        "modulo_int64: (int, int) -> int",
        "modulo_uint64: (uint, uint) -> uint",
    ),
    "_&&_": ("logical_and: (bool, bool) -> bool",),
    "_*_": (
        "multiply_double: (double, double) -> double",
        "multiply_int64: (int, int) -> int",
        "multiply_uint64: (uint, uint) -> uint",
    ),
    "_+_": (
        "add_bytes: (bytes, bytes) -> bytes",
        "add_double: (double, double) -> double",
        (
            "add_duration_duration: (google.protobuf.Duration, google.protobuf.Duration) "
            "-> google.protobuf.Duration"
        ),
        (
            "add_duration_timestamp: (google.protobuf.Duration, google.protobuf.Timestamp) "
            "-> google.protobuf.Timestamp"
        ),
        (
            "add_timestamp_duration: (google.protobuf.Timestamp, google.protobuf.Duration) "
            "-> google.protobuf.Timestamp"
        ),
        "add_int64: (int, int) -> int",
        "add_list: (list(<A>), list(<A>)) -> list(<A>)",
        "add_string: (string, string) -> string",
        "add_uint64: (uint, uint) -> uint",
    ),
    "_-_": (
        "subtract_double: (double, double) -> double",
        (
            "subtract_duration_duration: (google.protobuf.Duration, google.protobuf.Duration) "
            "-> google.protobuf.Duration"
        ),
        "subtract_int64: (int, int) -> int",
        (
            "subtract_timestamp_duration: (google.protobuf.Timestamp, google.protobuf.Duration) "
            "-> google.protobuf.Timestamp"
        ),
        (
            "subtract_timestamp_timestamp: (google.protobuf.Timestamp, google.protobuf.Timestamp) "
            "-> google.protobuf.Duration"
        ),
        "subtract_uint64: (uint, uint) -> uint",
    ),
    "_/_": (
        "divide_double: (double, double) -> double",
        "divide_int64: (int, int) -> int",
        "divide_uint64: (uint, uint) -> uint",
    ),
    "_<=_": (
        "less_equals_bool: (bool, bool) -> bool",
        "less_equals_int64: (int, int) -> bool",
        "less_equals_int64_double: (int, double) -> bool",
        "less_equals_int64_uint64: (int, uint) -> bool",
        "less_equals_uint64: (uint, uint) -> bool",
        "less_equals_uint64_double: (uint, double) -> bool",
        "less_equals_uint64_int64: (uint, int) -> bool",
        "less_equals_double: (double, double) -> bool",
        "less_equals_double_int64: (double, int) -> bool",
        "less_equals_double_uint64: (double, uint) -> bool",
        "less_equals_string: (string, string) -> bool",
        "less_equals_bytes: (bytes, bytes) -> bool",
        "less_equals_timestamp: (google.protobuf.Timestamp, google.protobuf.Timestamp) -> bool",
        "less_equals_duration: (google.protobuf.Duration, google.protobuf.Duration) -> bool",
    ),
    "_<_": (
        "less_bool: (bool, bool) -> bool",
        "less_int64: (int, int) -> bool",
        "less_int64_double: (int, double) -> bool",
        "less_int64_uint64: (int, uint) -> bool",
        "less_uint64: (uint, uint) -> bool",
        "less_uint64_double: (uint, double) -> bool",
        "less_uint64_int64: (uint, int) -> bool",
        "less_double: (double, double) -> bool",
        "less_double_int64: (double, int) -> bool",
        "less_double_uint64: (double, uint) -> bool",
        "less_string: (string, string) -> bool",
        "less_bytes: (bytes, bytes) -> bool",
        "less_timestamp: (google.protobuf.Timestamp, google.protobuf.Timestamp) -> bool",
        "less_duration: (google.protobuf.Duration, google.protobuf.Duration) -> bool",
    ),
    "_==_": ("equals: (<A>, <A>) -> bool",),
    "_>=_": (
        "greater_equals_bool: (bool, bool) -> bool",
        "greater_equals_int64: (int, int) -> bool",
        "greater_equals_int64_double: (int, double) -> bool",
        "greater_equals_int64_uint64: (int, uint) -> bool",
        "greater_equals_uint64: (uint, uint) -> bool",
        "greater_equals_uint64_double: (uint, double) -> bool",
        "greater_equals_uint64_int64: (uint, int) -> bool",
        "greater_equals_double: (double, double) -> bool",
        "greater_equals_double_int64: (double, int) -> bool",
        "greater_equals_double_uint64: (double, uint) -> bool",
        "greater_equals_string: (string, string) -> bool",
        "greater_equals_bytes: (bytes, bytes) -> bool",
        "greater_equals_timestamp: (google.protobuf.Timestamp, google.protobuf.Timestamp) -> bool",
        "greater_equals_duration: (google.protobuf.Duration, google.protobuf.Duration) -> bool",
    ),
    "_>_": (
        "greater_bool: (bool, bool) -> bool",
        "greater_int64: (int, int) -> bool",
        "greater_int64_double: (int, double) -> bool",
        "greater_int64_uint64: (int, uint) -> bool",
        "greater_uint64: (uint, uint) -> bool",
        "greater_uint64_double: (uint, double) -> bool",
        "greater_uint64_int64: (uint, int) -> bool",
        "greater_double: (double, double) -> bool",
        "greater_double_int64: (double, int) -> bool",
        "greater_double_uint64: (double, uint) -> bool",
        "greater_string: (string, string) -> bool",
        "greater_bytes: (bytes, bytes) -> bool",
        "greater_timestamp: (google.protobuf.Timestamp, google.protobuf.Timestamp) -> bool",
        "greater_duration: (google.protobuf.Duration, google.protobuf.Duration) -> bool",
    ),
    "_?_:_": ("conditional: (bool, <A>, <A>) -> <A>",),
    "_[_]": (
        "index_list: (list(<A>), int) -> <A>",
        "index_map: (map(<A>, <B>), <A>) -> <B>",
    ),
    "_||_": ("logical_or: (bool, bool) -> bool",),
}
