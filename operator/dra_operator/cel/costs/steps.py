"""Steps: how many steps of the interpreter a call counts as, beside what it costs upstream.

Upstream's costs are not times: `isURL` costs a tenth for each character and takes a quarter of a microsecond for it
here. So sizes are counted, one step for what takes a microsecond or less (`bench/slowest_cel.py`); no clock is looked
at, and the same expression ends in the same way on every machine.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from dra_operator.cel.errors import CelError
from dra_operator.cel.interpretable import Invoke
from dra_operator.cel.library import regex
from dra_operator.cel.library.limits import MOST_ELEMENTS
from dra_operator.cel.library.lists import only_type
from dra_operator.cel.library.quantities import Quantity_
from dra_operator.cel.library.urls import URL
from dra_operator.cel.operators import SINGLETONS
from dra_operator.cel.values import CelMap, Optional_, held

_PARTS: Final = 4
"""So many characters, or elements of a list, are passed over in a step."""
_BITS: Final = 64
_CALL: Final = 2
_LONG_CALL: Final = 12
"""What a call takes that reads an address, a time or a format; its zone is looked for among files."""
_LONG_CALLS: Final = frozenset(
    (
        "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR", "url", "isURL", "getQuery",
        "timestamp", "duration", "quantity", "isQuantity", "semver", "isSemver", "format", "validate", "string",
    )
)  # fmt: skip
_IN_A_ZONE: Final = 40
_MATCH: Final = 5
"""What a match takes; there can be one at each character."""
_PAIRED: Final = frozenset(("sets.contains", "sets.intersects", "sets.equivalent", "distinct"))
_COPIED: Final = 128
"""So many elements of a list are copied in a step, and `_PARTS` times as many characters."""
_SEARCHED: Final = frozenset(("@in", "includes", "indexOf", "lastIndexOf"))
SHORT: Final = SINGLETONS.keys() - {"_+_", "@in", "cel.@mapInsert", "sort", "@sortByAssociatedKeys"}
"""The operators that count as nothing but their own step: their time does not depend on what they are given."""
_SEQUENCES: Final = (str, bytes, tuple)
_NANOSECONDS: Final = 1_000


def steps_of_call(call: Invoke, values: Sequence[Any]) -> int:
    """Return what a call counts as before it is made; errors may stand among its arguments."""
    name = call.function.name
    if name == "_+_":
        return sum(map(_copied, values)) // _COPIED
    steps = _CALL + sum(map(size, values))
    if name in _LONG_CALLS:
        steps += _LONG_CALL
    elif name.startswith("get") and len(values) == 2:
        steps += _IN_A_ZONE
    elif name in _PAIRED:
        steps += _pairs(values)
    elif name in _SEARCHED:
        steps += _searched(values if name != "@in" else values[::-1])
    elif name == "flatten":
        steps += min(_met(values[0], {}), MOST_ELEMENTS) // _PARTS
    elif name in regex.FUNCTIONS:
        steps += _matching(call, values)
    return steps


def _copied(value: Any) -> int:
    kind = type(value)
    return len(value) if kind is tuple else len(value) // _PARTS if kind in _SEQUENCES else 0


def steps_of_result(call: Invoke, value: Any) -> int:
    """Return what having made a value counts as, which the arguments of a call do not tell."""
    return len(value) // _PARTS if type(value) in _SEQUENCES and call.function.name != "_+_" else 0


def steps_of_comparison(left: Any, right: Any) -> int:
    """Return what finding out whether two values that hold others are equal counts as."""
    if type(left) is type(right) is tuple and len(left) != len(right):
        return 0
    return size(left) * 2


def size(value: Any) -> int:
    """Return what passing over a value counts as; what stands in it many times is passed over once."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) // _PARTS
    if kind is Quantity_:
        return int(value.nano.bit_length()) // _BITS
    if kind is URL:
        return len(value.query or "") // _PARTS
    return _inside(value, set()) // _PARTS if kind is tuple or isinstance(value, CelMap | Optional_) else 0


def _inside(value: Any, seen: set[int]) -> int:
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, CelMap):
        parts: Sequence[Any] = [part for entry in value.items() for part in entry]
    else:
        parts = value if type(value) is tuple else (value.value,)
    count = len(parts)
    kinds = set(map(type, parts))
    if str in kinds or bytes in kinds:
        count += sum(len(part) for part in parts if type(part) is str or type(part) is bytes) // _BITS
    for kind in kinds:
        if kind is tuple or issubclass(kind, CelMap | Optional_):
            count += sum(_PARTS + _inside(part, seen) for part in parts if type(part) is kind)
    return count


def _pairs(values: Sequence[Any]) -> int:
    """Elements of one plain type are looked up, all others compared in pairs."""
    lists = [value for value in (values[0], values[-1]) if type(value) is tuple]
    if len(lists) < 2 or only_type(*lists) is not None:
        return 0
    return len(lists[0]) * (len(lists[1]) + size(lists[1]))


def _searched(values: Sequence[Any]) -> int:
    collection, value = values[0], values[1]
    return len(collection) * size(value) if type(collection) is tuple else 0


def _met(value: Any, known: dict[int, int]) -> int:
    """Return how many elements are met on the way through lists; what stands there many times is met each time."""
    if type(value) is not tuple:
        return 1
    met = known.get(id(value))
    if met is None:
        met = known[id(value)] = 1 + sum(_met(part, known) for part in value)
    return met


def _matching(call: Invoke, values: Sequence[Any]) -> int:
    """What RE2 takes: the product of text and program, and compiling a pattern that is made in the evaluation."""
    text, expression = held(values[0]), values[1]
    if type(expression) is not str:
        return 0
    nanoseconds = 0 if call.known_pattern else regex.compiling(expression)
    if type(text) is not str:
        return nanoseconds // _NANOSECONDS
    with suppress(CelError):
        nanoseconds += regex.pattern(expression).work(len(text))
    matches = len(text) * _MATCH if call.function.name == "findAll" else 0
    return nanoseconds // _NANOSECONDS + matches
