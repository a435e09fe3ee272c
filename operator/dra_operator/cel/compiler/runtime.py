"""Fast: what generated code calls for the few things that are not an operator of Python.

Each of these raises as soon as anything is unusual; the interpreter then says what the answer is. What it calls as well
(`elements`, `pairs`) raises upstream's error itself.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dra_operator.cel.errors import runtime_error
from dra_operator.cel.operators import add, no_overload
from dra_operator.cel.qualify import check_key, look_up, qualify
from dra_operator.cel.values import MISSING, NONE, CelMap, Optional_, go_type, hashed_key


def truth(value: Any) -> bool:
    """Return a value that must be a bool."""
    if value is True or value is False:
        return value
    raise no_overload()


def elements(collection: Any) -> Iterable[Any]:
    """Return what a fold with one variable runs over: the elements of a list, the keys of a map."""
    if type(collection) is tuple:
        return collection
    if isinstance(collection, CelMap):
        return collection
    raise runtime_error(f"got '{go_type(collection)}', expected iterable type")


def pairs(collection: Any) -> Iterator[tuple[Any, Any]]:
    """Return what a fold with two variables runs over: indices and elements, or keys and values."""
    if type(collection) is tuple:
        return enumerate(collection)
    if isinstance(collection, CelMap):
        return collection.items()
    raise runtime_error("unsupported comprehension range type")


def at(value: Any, key: Any) -> Any:
    """Return the entry of `value` at a computed key."""
    return qualify(value, check_key(key))


def along(value: Any, *steps: tuple[Any, bool, bool]) -> Any:
    """Return what lies at the end of steps (key, optional, test only), as an optional value if one was optional."""
    optional = type(value) is Optional_
    if optional:
        if value.value is MISSING:
            return value
        value = value.value
    for key, may_be_absent, test_only in steps:
        optional = optional or may_be_absent
        check_key(key)
        if test_only:
            present = look_up(value, key) is not MISSING
            if optional and not present:
                return NONE
            value = present
        elif optional:
            value = look_up(value, key)
            if value is MISSING:
                return NONE
        else:
            value = qualify(value, key)
    return Optional_(value) if optional else value


def tested(value: Any) -> bool:
    """Return the answer of a presence test."""
    return value.value is not MISSING if type(value) is Optional_ else truth(value)


def or_value(value: Any, other: Callable[[], Any]) -> Any:
    """Return what an optional value holds, or the other value if it holds nothing."""
    if type(value) is not Optional_:
        raise no_overload()
    return other() if value.value is MISSING else value.value


def or_optional(value: Any, other: Callable[[], Any]) -> Any:
    """Return an optional value if it holds something, or the other one."""
    if type(value) is not Optional_:
        raise no_overload()
    return other() if value.value is MISSING else value


def member(value: Any, keys: frozenset[Any]) -> bool:
    """Return whether a value is one of the constants of a set."""
    return hashed_key(value) in keys


def added(left: Any, right: Any) -> Any:
    """Return a sum of anything but lists: adding those again and again is for the interpreter, which counts it."""
    if type(left) is tuple:
        raise runtime_error("lists are added elsewhere")
    return add(left, right)


def made_map(*entries: tuple[Any, Any]) -> CelMap:
    """Return a map with these entries; one with an optional value as a key is for the interpreter."""
    if any(type(key) is Optional_ for key, _ in entries):
        raise TypeError
    return CelMap(entries)
