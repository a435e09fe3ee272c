"""Work: how many nanoseconds things take, whatever they cost upstream.

Upstream's costs are not times. `isURL` costs a tenth for each character and takes a quarter of a microsecond for it
here; adding two lists costs 1 and copies both. So whatever evaluates counts work beside the cost, by the sizes of what
it works on, before it starts on it, and gives up where the operator would be held up. It looks at no clock: the same
expression ends in the same way on every machine, however busy that is.

The numbers are measured (`bench/slowest_cel.py`): the worst use of each function, errors included.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from dra_operator.cel.errors import CelError
from dra_operator.cel.library import regex
from dra_operator.cel.library.limits import MOST_ELEMENTS
from dra_operator.cel.library.network import CIDR, IP
from dra_operator.cel.library.quantities import Quantity_
from dra_operator.cel.library.urls import URL
from dra_operator.cel.paths import is_binding
from dra_operator.cel.plan import Attribute, Const, Fold, Invoke, Plan, Step, Variable, parts_of
from dra_operator.cel.values import CelMap, Duration, Optional_, Timestamp, Uint, held

WORK_LIMIT: Final = 60_000_000
"""The most work of one evaluation: with what is not counted, it ends within 100 ms, whatever it costs upstream."""
STEP: Final = 25
"""What a step of code takes."""
LONG: Final = frozenset(("_+_", "@in", "cel.@mapInsert", "sort", "@sortByAssociatedKeys"))
"""The operators whose time depends on what they are given."""
_CALL: Final = 1_000
"""What a call takes of which nothing else is known."""
_ADDRESSES: Final = ("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR")
_URLS: Final = ("url", "isURL", "getQuery")
_ACCESSORS: Final = (
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
)
_CALLS: Final = {
    "_+_": 150,
    "@in": 250,
    "size": 150,
    "string": 400,
    "cel.@mapInsert": 700,
    **dict.fromkeys(("replace", "int", "uint", "double"), 2_000),
    **dict.fromkeys(("sort", "distinct", "slice", "add", "sub", "join"), 4_000),
    **dict.fromkeys(("timestamp", "duration", "quantity", "isQuantity", "semver", "isSemver"), 5_000),
    **dict.fromkeys(("format", "validate", "find"), 8_000),
    **dict.fromkeys(_ACCESSORS, 2_000),
    **dict.fromkeys((*_URLS, *_ADDRESSES, "findAll"), 12_000),
}
"""What a call takes, at least."""
_CHARACTER: Final = 3
_CHARACTERS: Final = {
    **dict.fromkeys(("split", "replace"), 10),
    **dict.fromkeys(("upperAscii", "lowerAscii", "strings.quote", "format"), 60),
    "duration": 500,
    "validate": 150,
    **dict.fromkeys((*_URLS, *_ADDRESSES), 300),
}
"""What each character of a text adds."""
_ELEMENTS: Final = {
    **dict.fromkeys(("sum", "join"), 6),
    **dict.fromkeys(("min", "max", "isSorted", "sort", "@sortByAssociatedKeys", "format"), 12),
}
"""What passing over a list or a map is to be multiplied by."""
_PLAIN: Final = 25
"""What an element takes in a list of one plain type, which Python passes over by itself."""
_MIXED: Final = 200
"""What another element takes."""
_CONTAINER: Final = 1_500
"""What a list or a map takes as an element."""
_COPIED: Final = 10
"""So many characters, or bytes, are copied or compared in a nanosecond."""
_KNOWN_PATTERNS: Final = {name: f"{name} known" for name in regex.FUNCTIONS}
_OCCURRENCE: Final = 4_500
"""What a match takes; there can be one at each character."""
_ENTRY: Final = 250
"""What an entry of a map takes that is copied; below, one whose key is no plain value."""
_HASHED: Final = 1_000
_READ: Final = 10
"""What a character of a quantity takes; below, the digits of one with a large exponent, to make and to compute with."""
_LARGE_EXPONENT: Final = re.compile("[eE][+]?0*[1-9][0-9]{3}")
_MOST_READ: Final = 5_000_000
_BIT: Final = 15
_FEW_BITS: Final = 4_000
_SCALARS: Final = frozenset((bool, int, Uint, float, str, bytes, type(None), Duration, Timestamp))

_BUILDING: Final = frozenset(
    ("flatten", "lists.range", "findAll", "format", "join", "replace", "isURL", "url", "duration")
)
_QUANTITIES: Final = frozenset(("quantity", "isQuantity"))
_NUMBERS: Final = frozenset(("add_int64", "add_uint64", "add_double"))


def builds(plan: Plan) -> bool:
    """Return whether a plan can make large values at little cost, or look long at one value.

    Adding doubles a text or a list with each name that it is bound to; the sum of an accumulator is that of a macro,
    and grows by an element with each round, which has its cost.
    """
    waiting = [plan.step]
    accumulators: set[int] = set()
    reads_quantities = False
    while waiting:
        step = waiting.pop()
        if isinstance(step, Fold) and not is_binding(step):
            accumulators.add(step.accumulator)
        elif isinstance(step, Invoke):
            if step.function.name in _BUILDING or _is_slow(step):
                return True
            if step.function.name == "_+_":
                if step.overload not in _NUMBERS and not _is_one_of(accumulators, step.arguments[0]):
                    return True
            elif step.function.name in _QUANTITIES:
                reads_quantities |= not isinstance(step.arguments[0], Const)
        waiting.extend(parts_of(step))
    return reads_quantities and bool(accumulators)


def _is_slow(call: Invoke) -> bool:
    """Return whether a call may take long by itself: a pattern not known yet, an amount of many digits."""
    name = call.function.name
    if name in regex.FUNCTIONS:
        return not call.known_pattern
    if name not in _QUANTITIES:
        return False
    text = call.arguments[0]
    return isinstance(text, Const) and type(text.value) is str and bool(_LARGE_EXPONENT.search(text.value))


def _is_one_of(slots: set[int], step: Step) -> bool:
    root = step.root if isinstance(step, Attribute) else None
    return isinstance(root, Variable) and root.slot in slots


def passing(value: Any) -> int:
    """Return what it takes to pass over a value; what stands in it many times is passed over once."""
    return _passing(value, {}) if type(value) is tuple or isinstance(value, CelMap | Optional_) else 0


def _passing(value: Any, known: dict[int, int]) -> int:
    work = known.get(id(value))
    if work is not None:
        return 0
    if isinstance(value, CelMap):
        parts: Sequence[Any] = [part for entry in value.items() for part in entry]
    else:
        parts = value if type(value) is tuple else (value.value,)
    kinds = set(map(type, parts))
    if len(kinds) <= 1 and kinds <= _SCALARS:
        work = len(parts) * _PLAIN
    else:
        work = len(parts) * _MIXED
        known[id(value)] = work
        for part in parts:
            if type(part) is tuple or isinstance(part, CelMap | Optional_):
                work += _CONTAINER + _passing(part, known)
    if str in kinds or bytes in kinds:
        work += sum(len(part) for part in parts if type(part) is str or type(part) is bytes) // _COPIED
    known[id(value)] = work
    return work


def comparing(left: Any, right: Any) -> int:
    """Return what it takes to find out whether two values are equal."""
    if type(left) is tuple and type(right) is tuple and len(left) != len(right):
        return 0
    return (
        _CONTAINER + passing(left) * 2 if type(left) in (tuple, Optional_) or isinstance(left, CelMap) else 0
    )


def least(call: Invoke) -> int:
    """Return what a call takes whatever its arguments are."""
    return _CALLS.get(call.function.name, _CALL)


def counted_as(call: Invoke) -> str:
    """Return the name under which a call's work is counted: a pattern that is known is compiled already."""
    name = call.function.name
    return _KNOWN_PATTERNS[name] if call.known_pattern else name


def calling(name: str, values: Sequence[Any]) -> int:
    """Return what a call takes more than `least`, by its name (`counted_as`) and the sizes of its arguments.

    Errors may stand among those.
    """
    measured = _MEASURED.get(name)
    if measured is not None:
        return measured(values)
    work = 0
    for value in values:
        kind = type(value)
        if kind is str or kind is bytes:
            work += len(value) * _CHARACTERS.get(name, _CHARACTER)
        elif kind is tuple or isinstance(value, CelMap | Optional_):
            work += passing(value) * _ELEMENTS.get(name, 1)
        elif kind is Quantity_:
            work += _amount(value)
        elif kind is URL:
            work += len(value.query or "") * _CHARACTERS[name] if name in _CHARACTERS else 0
    return work


def _amount(quantity: Quantity_) -> int:
    bits = quantity.nano.bit_length()
    return bits * _BIT if bits > _FEW_BITS else 0


def _reading(values: Sequence[Any]) -> int:
    """A large exponent is a number of so many digits."""
    text = values[0]
    if type(text) is not str:
        return 0
    exponent = _LARGE_EXPONENT.search(text)
    return len(text) * _READ + (_MOST_READ if exponent else 0)


def _adding(values: Sequence[Any]) -> int:
    return sum(
        len(value) * 2 if type(value) is tuple else len(value) // _COPIED
        for value in values
        if type(value) in (tuple, str, bytes)
    )


def _inserting(values: Sequence[Any]) -> int:
    """Both maps are copied, entry by entry."""
    maps = [value for value in values[:2] if isinstance(value, CelMap)]
    return sum(len(each) * (_HASHED if each.originals else _ENTRY) for each in maps)


def _flattening(values: Sequence[Any]) -> int:
    """What stands in a list many times is passed over each time."""
    return min(_met(values[0], {}), MOST_ELEMENTS) * _MIXED


def _met(value: Any, known: dict[int, int]) -> int:
    if type(value) is not tuple:
        return 1
    met = known.get(id(value))
    if met is None:
        met = known[id(value)] = 1 + sum(_met(part, known) for part in value)
    return met


def _showing(values: Sequence[Any]) -> int:
    value = values[0]
    if type(value) in (str, bytes):
        return len(value) // _COPIED
    return {int: 0, bool: 0, IP: 12_000, CIDR: 14_000}.get(type(value), 2_500)


def _in_a_zone(values: Sequence[Any]) -> int:
    """The name of a zone is looked for among files."""
    if len(values) < 2:
        return 0
    return 20_000 + (len(values[1]) * _CHARACTERS["validate"] if type(values[1]) is str else 0)


def _each_with_each(values: Sequence[Any]) -> int:
    """Elements of one plain type are looked up, all others compared in pairs."""
    lists = [value for value in (values[0], values[-1]) if type(value) is tuple]
    if len(lists) < 2:
        return 0
    kinds = {type(element) for value in lists for element in value}
    if len(kinds) == 1 and kinds <= _SCALARS:
        return sum(map(len, lists)) * _MIXED
    least_each = _MIXED if kinds <= _SCALARS else _CONTAINER
    return len(lists[0]) * len(lists[1]) * least_each + sum(map(passing, lists)) * 4


def _looking_through(name: str) -> Callable[[Sequence[Any]], int]:
    def work(values: Sequence[Any]) -> int:
        collection, value = (values[1], values[0]) if name == "@in" else (values[0], values[1])
        if type(collection) is str and type(value) is str:
            return (len(collection) + len(value)) * _CHARACTER
        if type(collection) is not tuple:
            return passing(value)
        each = _MIXED if type(value) in _SCALARS else _CONTAINER + passing(value)
        return len(collection) * each

    return work


def _matching(values: Sequence[Any]) -> int:
    text, expression = held(values[0]), values[1]
    if type(text) is not str or type(expression) is not str:
        return 0
    try:
        return regex.pattern(expression).work(len(text))
    except CelError:
        return 0


def _matching_all(values: Sequence[Any]) -> int:
    text = held(values[0])
    return _matching(values) + len(text) * _OCCURRENCE if type(text) is str else 0


def _after_compiling(matching: Callable[[Sequence[Any]], int]) -> Callable[[Sequence[Any]], int]:
    def work(values: Sequence[Any]) -> int:
        first = regex.compiling(values[1]) if type(values[1]) is str else 0
        return first if first > WORK_LIMIT else first + matching(values)

    return work


_MEASURED: Final[dict[str, Callable[[Sequence[Any]], int]]] = {
    "_+_": _adding,
    "cel.@mapInsert": _inserting,
    "flatten": _flattening,
    "string": _showing,
    **dict.fromkeys(("quantity", "isQuantity"), _reading),
    **dict.fromkeys(_ACCESSORS, _in_a_zone),
    **dict.fromkeys(("sets.contains", "sets.intersects", "sets.equivalent", "distinct"), _each_with_each),
    **{name: _looking_through(name) for name in ("@in", "includes", "indexOf", "lastIndexOf")},
    "matches known": _matching,
    "find known": _matching,
    "findAll known": _matching_all,
    "matches": _after_compiling(_matching),
    "find": _after_compiling(_matching),
    "findAll": _after_compiling(_matching_all),
}
