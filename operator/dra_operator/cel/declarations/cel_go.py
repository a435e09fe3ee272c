"""Functions of CEL itself, and of the libraries of cel-go that Kubernetes turns on, with Kubernetes' own beside them.

Source: cel-go `common/stdlib/standard.go`, `cel/library.go` and `ext/`; k8s.io/apiserver `pkg/cel/library/`.
"""

OPERATORS: dict[str, tuple[str, ...]] = {
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
"""Operators: arithmetic, comparison, logic, membership and indexing.

Source: cel-go `common/stdlib/standard.go`.
"""

CONVERSIONS: dict[str, tuple[str, ...]] = {
    "bool": (
        "bool_to_bool: (bool) -> bool",
        "string_to_bool: (string) -> bool",
    ),
    "bytes": (
        "bytes_to_bytes: (bytes) -> bytes",
        "string_to_bytes: (string) -> bytes",
    ),
    "double": (
        "double_to_double: (double) -> double",
        "int64_to_double: (int) -> double",
        "string_to_double: (string) -> double",
        "uint64_to_double: (uint) -> double",
    ),
    "duration": (
        "duration_to_duration: (google.protobuf.Duration) -> google.protobuf.Duration",
        "string_to_duration: (string) -> google.protobuf.Duration",
    ),
    "dyn": ("to_dyn: (<A>) -> dyn",),
    "int": (
        "int64_to_int64: (int) -> int",
        "double_to_int64: (double) -> int",
        "duration_to_int64: (google.protobuf.Duration) -> int",
        "string_to_int64: (string) -> int",
        "timestamp_to_int64: (google.protobuf.Timestamp) -> int",
        "uint64_to_int64: (uint) -> int",
    ),
    "string": (
        "string_to_string: (string) -> string",
        "bool_to_string: (bool) -> string",
        "bytes_to_string: (bytes) -> string",
        "double_to_string: (double) -> string",
        "duration_to_string: (google.protobuf.Duration) -> string",
        "int64_to_string: (int) -> string",
        "timestamp_to_string: (google.protobuf.Timestamp) -> string",
        "uint64_to_string: (uint) -> string",
    ),
    "timestamp": (
        "timestamp_to_timestamp: (google.protobuf.Timestamp) -> google.protobuf.Timestamp",
        "int64_to_timestamp: (int) -> google.protobuf.Timestamp",
        "string_to_timestamp: (string) -> google.protobuf.Timestamp",
    ),
    "type": ("type: (<A>) -> type(<A>)",),
    "uint": (
        "uint64_to_uint64: (uint) -> uint",
        "double_to_uint64: (double) -> uint",
        "int64_to_uint64: (int) -> uint",
        "string_to_uint64: (string) -> uint",
    ),
}
"""Conversions and type tests.

Source: cel-go `common/stdlib/standard.go`.
"""

STANDARD: dict[str, tuple[str, ...]] = {
    "contains": ("contains_string: string.(string) -> bool",),
    "endsWith": ("ends_with_string: string.(string) -> bool",),
    "getDate": (
        "timestamp_to_day_of_month_1_based: google.protobuf.Timestamp.() -> int",
        "timestamp_to_day_of_month_1_based_with_tz: google.protobuf.Timestamp.(string) -> int",
    ),
    "getDayOfMonth": (
        "timestamp_to_day_of_month: google.protobuf.Timestamp.() -> int",
        "timestamp_to_day_of_month_with_tz: google.protobuf.Timestamp.(string) -> int",
    ),
    "getDayOfWeek": (
        "timestamp_to_day_of_week: google.protobuf.Timestamp.() -> int",
        "timestamp_to_day_of_week_with_tz: google.protobuf.Timestamp.(string) -> int",
    ),
    "getDayOfYear": (
        "timestamp_to_day_of_year: google.protobuf.Timestamp.() -> int",
        "timestamp_to_day_of_year_with_tz: google.protobuf.Timestamp.(string) -> int",
    ),
    "getFullYear": (
        "timestamp_to_year: google.protobuf.Timestamp.() -> int",
        "timestamp_to_year_with_tz: google.protobuf.Timestamp.(string) -> int",
    ),
    "getHours": (
        "timestamp_to_hours: google.protobuf.Timestamp.() -> int",
        "timestamp_to_hours_with_tz: google.protobuf.Timestamp.(string) -> int",
        "duration_to_hours: google.protobuf.Duration.() -> int",
    ),
    "getMilliseconds": (
        "timestamp_to_milliseconds: google.protobuf.Timestamp.() -> int",
        "timestamp_to_milliseconds_with_tz: google.protobuf.Timestamp.(string) -> int",
        "duration_to_milliseconds: google.protobuf.Duration.() -> int",
    ),
    "getMinutes": (
        "timestamp_to_minutes: google.protobuf.Timestamp.() -> int",
        "timestamp_to_minutes_with_tz: google.protobuf.Timestamp.(string) -> int",
        "duration_to_minutes: google.protobuf.Duration.() -> int",
    ),
    "getMonth": (
        "timestamp_to_month: google.protobuf.Timestamp.() -> int",
        "timestamp_to_month_with_tz: google.protobuf.Timestamp.(string) -> int",
    ),
    "getSeconds": (
        "timestamp_to_seconds: google.protobuf.Timestamp.() -> int",
        "timestamp_to_seconds_tz: google.protobuf.Timestamp.(string) -> int",
        "duration_to_seconds: google.protobuf.Duration.() -> int",
    ),
    "matches": (
        "matches: (string, string) -> bool",
        "matches_string: string.(string) -> bool",
    ),
    "size": (
        "size_bytes: (bytes) -> int",
        "bytes_size: bytes.() -> int",
        "size_list: (list(<A>)) -> int",
        "list_size: list(<A>).() -> int",
        "size_map: (map(<A>, <B>)) -> int",
        "map_size: map(<A>, <B>).() -> int",
        "size_string: (string) -> int",
        "string_size: string.() -> int",
    ),
    "startsWith": ("starts_with_string: string.(string) -> bool",),
}
"""Sizes, strings, regular expressions and times of the standard library.

Source: cel-go `common/stdlib/standard.go`.
"""

LISTS: dict[str, tuple[str, ...]] = {
    "@sortByAssociatedKeys": (
        "list_int_sortByAssociatedKeys: list(<T>).(list(int)) -> list(<T>)",
        "list_uint_sortByAssociatedKeys: list(<T>).(list(uint)) -> list(<T>)",
        "list_double_sortByAssociatedKeys: list(<T>).(list(double)) -> list(<T>)",
        "list_bool_sortByAssociatedKeys: list(<T>).(list(bool)) -> list(<T>)",
        "list_google.protobuf.Duration_sortByAssociatedKeys: list(<T>).(list(google.protobuf.Duration)) -> list(<T>)",
        "list_google.protobuf.Timestamp_sortByAssociatedKeys: list(<T>).(list(google.protobuf.Timestamp)) -> list(<T>)",
        "list_string_sortByAssociatedKeys: list(<T>).(list(string)) -> list(<T>)",
        "list_bytes_sortByAssociatedKeys: list(<T>).(list(bytes)) -> list(<T>)",
    ),
    "cel.@mapInsert": (
        "@mapInsert_map_key_value: (map(<K>, <V>), <K>, <V>) -> map(<K>, <V>)",
        "@mapInsert_map_map: (map(<K>, <V>), map(<K>, <V>)) -> map(<K>, <V>)",
    ),
    "distinct": ("list_distinct: list(<T>).() -> list(<T>)",),
    "flatten": (
        "list_flatten: list(list(<T>)).() -> list(<T>)",
        "list_flatten_int: list(dyn).(int) -> list(dyn)",
    ),
    "includes": ("list_includes_dyn_dyn: dyn.(dyn) -> bool",),
    "indexOf": ("list_a_index_of_int: list(<A>).(<A>) -> int",),
    "isSorted": (
        "list_int_is_sorted_bool: list(int).() -> bool",
        "list_uint_is_sorted_bool: list(uint).() -> bool",
        "list_double_is_sorted_bool: list(double).() -> bool",
        "list_bool_is_sorted_bool: list(bool).() -> bool",
        "list_duration_is_sorted_bool: list(google.protobuf.Duration).() -> bool",
        "list_timestamp_is_sorted_bool: list(google.protobuf.Timestamp).() -> bool",
        "list_string_is_sorted_bool: list(string).() -> bool",
        "list_bytes_is_sorted_bool: list(bytes).() -> bool",
    ),
    "lastIndexOf": ("list_a_last_index_of_int: list(<A>).(<A>) -> int",),
    "lists.range": ("lists_range: (int) -> list(int)",),
    "max": (
        "list_int_max_int: list(int).() -> int",
        "list_uint_max_uint: list(uint).() -> uint",
        "list_double_max_double: list(double).() -> double",
        "list_bool_max_bool: list(bool).() -> bool",
        "list_duration_max_duration: list(google.protobuf.Duration).() -> google.protobuf.Duration",
        "list_timestamp_max_timestamp: list(google.protobuf.Timestamp).() -> google.protobuf.Timestamp",
        "list_string_max_string: list(string).() -> string",
        "list_bytes_max_bytes: list(bytes).() -> bytes",
    ),
    "min": (
        "list_int_min_int: list(int).() -> int",
        "list_uint_min_uint: list(uint).() -> uint",
        "list_double_min_double: list(double).() -> double",
        "list_bool_min_bool: list(bool).() -> bool",
        "list_duration_min_duration: list(google.protobuf.Duration).() -> google.protobuf.Duration",
        "list_timestamp_min_timestamp: list(google.protobuf.Timestamp).() -> google.protobuf.Timestamp",
        "list_string_min_string: list(string).() -> string",
        "list_bytes_min_bytes: list(bytes).() -> bytes",
    ),
    "reverse": ("list_reverse: list(<T>).() -> list(<T>)",),
    "sets.contains": ("list_sets_contains_list: (list(<T>), list(<T>)) -> bool",),
    "sets.equivalent": ("list_sets_equivalent_list: (list(<T>), list(<T>)) -> bool",),
    "sets.intersects": ("list_sets_intersects_list: (list(<T>), list(<T>)) -> bool",),
    "slice": ("list_slice: list(<T>).(int, int) -> list(<T>)",),
    "sort": (
        "list_int_sort: list(int).() -> list(int)",
        "list_uint_sort: list(uint).() -> list(uint)",
        "list_double_sort: list(double).() -> list(double)",
        "list_bool_sort: list(bool).() -> list(bool)",
        "list_google.protobuf.Duration_sort: list(google.protobuf.Duration).() -> list(google.protobuf.Duration)",
        "list_google.protobuf.Timestamp_sort: list(google.protobuf.Timestamp).() -> list(google.protobuf.Timestamp)",
        "list_string_sort: list(string).() -> list(string)",
        "list_bytes_sort: list(bytes).() -> list(bytes)",
    ),
    "sum": (
        "list_int_sum_int: list(int).() -> int",
        "list_uint_sum_uint: list(uint).() -> uint",
        "list_double_sum_double: list(double).() -> double",
        "list_duration_sum_duration: list(google.protobuf.Duration).() -> google.protobuf.Duration",
    ),
}
"""Lists: Kubernetes' own functions, cel-go's list library version 3, sets, map insertion.

Source: k8s.io/apiserver `pkg/cel/library/lists.go`, cel-go `ext/lists.go`, `ext/sets.go`, `ext/comprehensions.go`.
"""

STRINGS: dict[str, tuple[str, ...]] = {
    "charAt": ("string_char_at_int: string.(int) -> string",),
    "find": ("string_find_string: string.(string) -> string",),
    "findAll": (
        "string_find_all_string: string.(string) -> list(string)",
        "string_find_all_string_int: string.(string, int) -> list(string)",
    ),
    "format": ("string_format: string.(list(dyn)) -> string",),
    "indexOf": (
        "string_index_of_string: string.(string) -> int",
        "string_index_of_string_int: string.(string, int) -> int",
    ),
    "join": (
        "list_join: list(string).() -> string",
        "list_join_string: list(string).(string) -> string",
    ),
    "lastIndexOf": (
        "string_last_index_of_string: string.(string) -> int",
        "string_last_index_of_string_int: string.(string, int) -> int",
    ),
    "lowerAscii": ("string_lower_ascii: string.() -> string",),
    "replace": (
        "string_replace_string_string: string.(string, string) -> string",
        "string_replace_string_string_int: string.(string, string, int) -> string",
    ),
    "split": (
        "string_split_string: string.(string) -> list(string)",
        "string_split_string_int: string.(string, int) -> list(string)",
    ),
    "strings.quote": ("strings_quote: (string) -> string",),
    "substring": (
        "string_substring_int: string.(int) -> string",
        "string_substring_int_int: string.(int, int) -> string",
    ),
    "trim": ("string_trim: string.() -> string",),
    "upperAscii": ("string_upper_ascii: string.() -> string",),
}
"""Strings, version 2, and Kubernetes' regular expressions.

Source: cel-go `ext/strings.go`, k8s.io/apiserver `pkg/cel/library/regex.go`.
"""

OPTIONALS: dict[str, tuple[str, ...]] = {
    "_?._": ("select_optional_field: (dyn, string) -> optional_type(<V>)",),
    "_[?_]": (
        "list_optindex_optional_int: (list(<V>), int) -> optional_type(<V>)",
        "optional_list_optindex_optional_int: (optional_type(list(<V>)), int) -> optional_type(<V>)",
        "map_optindex_optional_value: (map(<K>, <V>), <K>) -> optional_type(<V>)",
        "optional_map_optindex_optional_value: (optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)",
    ),
    "_[_]": (
        "optional_list_index_int: (optional_type(list(<V>)), int) -> optional_type(<V>)",
        "optional_map_index_value: (optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)",
    ),
    "first": ("list_first: list(<V>).() -> optional_type(<V>)",),
    "hasValue": ("optional_hasValue: optional_type(<V>).() -> bool",),
    "last": ("list_last: list(<V>).() -> optional_type(<V>)",),
    "optional.none": ("optional_none: () -> optional_type(<V>)",),
    "optional.of": ("optional_of: (<V>) -> optional_type(<V>)",),
    "optional.ofNonZeroValue": ("optional_ofNonZeroValue: (<V>) -> optional_type(<V>)",),
    "optional.unwrap": ("optional_unwrap: (list(optional_type(<V>))) -> list(<V>)",),
    "or": ("optional_or_optional: optional_type(<V>).(optional_type(<V>)) -> optional_type(<V>)",),
    "orValue": ("optional_orValue_value: optional_type(<V>).(<V>) -> <V>",),
    "unwrapOpt": ("optional_unwrapOpt: list(optional_type(<V>)).() -> list(<V>)",),
    "value": ("optional_value: optional_type(<V>).() -> <V>",),
}
"""Optional values: construction, access and optional indexing.

Source: cel-go `cel/library.go`.
"""
