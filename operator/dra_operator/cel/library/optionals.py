"""Optional values. What chooses without looking at every argument (`or`, `orValue`, `?.`) is the compiler's.

Source: cel-go `cel/library.go`, `common/types/optional.go`.
"""

from typing import Any, Final

from dra_operator.cel.cost.prices import Row
from dra_operator.cel.errors import runtime_error
from dra_operator.cel.values import MISSING, NONE, CelMap, Duration, Optional_, Timestamp, Uint, key_text

# Go's zero time is the first moment of the year 1, not that of 1970.
_ZERO_TIMESTAMP: Final = Timestamp(-62135596800 * 10**9)
_FALSY: Final = (bool, int, Uint, float, str, bytes, tuple, CelMap)


def is_zero(value: Any) -> bool:
    """Return whether `value` is the zero of its type; values of Kubernetes' types never are."""
    if value is None:
        return True
    if isinstance(value, _FALSY):
        return not value
    return value in (Duration(0), _ZERO_TIMESTAMP) if isinstance(value, Duration | Timestamp) else False


def of_non_zero(value: Any) -> Optional_:
    """Return `value`, or none if it is the zero of its type."""
    return NONE if is_zero(value) else Optional_(value)


def has_value(optional: Optional_) -> bool:
    """Return whether there is a value."""
    return optional.value is not MISSING


def value_of(optional: Optional_) -> Any:
    """Return the value. Raises CelError if there is none."""
    if optional.value is MISSING:
        raise runtime_error("optional.none() dereference")
    return optional.value


def unwrap(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of those optionals of a list that have one."""
    for item in items:
        if type(item) is not Optional_:
            raise runtime_error(f"value {key_text(item)} is not optional")
    return tuple(item.value for item in items if item.value is not MISSING)


def first(items: tuple[Any, ...]) -> Optional_:
    """Return the first element of a list, if there is one."""
    return Optional_(items[0]) if items else NONE


def last(items: tuple[Any, ...]) -> Optional_:
    """Return the last element of a list, if there is one."""
    return Optional_(items[-1]) if items else NONE


FUNCTIONS: Final[dict[str, Row]] = {
    "optional.none optional_none: () -> optional_type(<V>)": lambda: NONE,
    "optional.of optional_of: (<V>) -> optional_type(<V>)": Optional_,
    "optional.ofNonZeroValue optional_ofNonZeroValue: (<V>) -> optional_type(<V>)": of_non_zero,
    "hasValue optional_hasValue: optional_type(<V>).() -> bool": has_value,
    "value optional_value: optional_type(<V>).() -> <V>": value_of,
    "optional.unwrap optional_unwrap: (list(optional_type(<V>))) -> list(<V>)": unwrap,
    "unwrapOpt optional_unwrapOpt: list(optional_type(<V>)).() -> list(<V>)": unwrap,
    "first list_first: list(<V>).() -> optional_type(<V>)": first,
    "last list_last: list(<V>).() -> optional_type(<V>)": last,
    # What the planner has steps of its own for.
    "_?._ select_optional_field: (dyn, string) -> optional_type(<V>)": None,
    "_[?_] list_optindex_optional_int: (list(<V>), int) -> optional_type(<V>)": None,
    "_[?_] optional_list_optindex_optional_int: (optional_type(list(<V>)), int) -> optional_type(<V>)": None,
    "_[?_] map_optindex_optional_value: (map(<K>, <V>), <K>) -> optional_type(<V>)": None,
    "_[?_] optional_map_optindex_optional_value: (optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)": None,
    "_[_] optional_list_index_int: (optional_type(list(<V>)), int) -> optional_type(<V>)": None,
    "_[_] optional_map_index_value: (optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)": None,
    "or optional_or_optional: optional_type(<V>).(optional_type(<V>)) -> optional_type(<V>)": None,
    "orValue optional_orValue_value: optional_type(<V>).(<V>) -> <V>": None,
}
