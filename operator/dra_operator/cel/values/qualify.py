"""Qualifying: what `value.key` and `value[key]` give, and what asking for presence says.

Source: cel-go `interpreter/attributes.go`, `refQualify` and the qualifiers by type of key.
"""

from typing import Any, Final

from dra_operator.cel.errors import runtime_error
from dra_operator.cel.values.golang import key_text
from dra_operator.cel.values.values import INT_MAX, MISSING, CelMap, Uint, go_type, type_name

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
