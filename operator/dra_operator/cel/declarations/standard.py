"""Sizes, strings, regular expressions and times of the standard library.

Source: cel-go `common/stdlib/standard.go`.
"""

FUNCTIONS: dict[str, tuple[str, ...]] = {
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
