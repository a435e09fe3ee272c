"""Call estimates: what one call of a function can cost at most, by the sizes of its arguments.

The factors say what is passed over: a character of text costs 0.1, a character of a pattern 0.25, an element
1.
Source: k8s.io/apiserver `pkg/cel/library/cost.go` (`EstimateCallCost`), cel-go `checker/cost.go`,
`ext/lists.go`, `ext/sets.go`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from dra_operator.cel.call_costs import (
    CHARACTER,
    COMPARING,
    LIST_COST,
    NOMINAL,
    PATTERN_CHARACTER,
    TRAVERSING,
)
from dra_operator.cel.library.lists import COMPARABLE
from dra_operator.cel.nodes import Literal
from dra_operator.cel.record import Record
from dra_operator.cel.sizes import (
    UNBOUNDED,
    Measured,
    Range,
    elements_of,
    exactly,
    known_size,
    size_of,
)
from dra_operator.cel.types import Kind


class Estimate(Record):
    """What a call can cost, without its arguments, and how large its result can be, if that is known."""

    cost: Range
    size: Range | None = None


Target: TypeAlias = Measured | None
Arguments: TypeAlias = list[Measured]

_ONE: Final = exactly(1)
_LONGEST_FORMAT: Final = 64
_LONGEST_FORMAT_PATTERN: Final = 128


def estimate_call(name: str, overload: str, target: Target, arguments: Arguments) -> Estimate:
    """Return the estimate of a call."""
    listed = _LISTS.get(overload)
    found = None if listed is None else listed(target, arguments)
    if found is None:
        found = _kubernetes(name, overload, target, arguments)
    if found is None:
        found = _standard(overload, target, arguments)
    return found or Estimate(_ONE)


def _scan(node: Measured, factor: float = 1) -> Range:
    return size_of(node).scaled(factor * CHARACTER)


def _pattern(subject: Range, pattern: Range) -> Range:
    return subject.plus(_ONE).scaled(CHARACTER).times(pattern.scaled(PATTERN_CHARACTER))


# --- the API server's library ---------------------------------------------------------------------------------------


def _kubernetes(name: str, overload: str, target: Target, arguments: Arguments) -> Estimate | None:
    if name in NOMINAL:
        return Estimate(_ONE)
    if name in TRAVERSING:
        return None if target is None else _traversal(name, target)
    if name in _TRANSFORMING:
        return None if target is None else Estimate(_scan(target), size_of(target))
    if name in _READING and arguments:
        return Estimate(_scan(arguments[0]))
    handler = _BY_NAME.get(name)
    return None if handler is None else handler(overload, target, arguments)


_TRANSFORMING: Final = frozenset(("lowerAscii", "upperAscii", "substring", "trim"))
_READING: Final = frozenset(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"))


def _traversal(name: str, target: Measured) -> Estimate:
    element = elements_of(target)
    if element is None and name != "includes":
        return Estimate(_scan(target))
    cost = _ONE
    if element is not None and element.type.kind in (Kind.STRING, Kind.BYTES):
        cost = cost.plus(_scan(element))
    return Estimate(size_of(target).times(cost))


def _check(_overload: str, _target: Target, _arguments: Arguments) -> Estimate:
    return Estimate(exactly(350_000))


def _selector(_overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    if len(arguments) != 1:
        return None
    length = size_of(arguments[0])
    requirements = length.scaled(0.5).scaled(50)
    return Estimate(exactly(LIST_COST).plus(length.scaled(CHARACTER)).plus(requirements))


def _url(_overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    return Estimate(_scan(arguments[0]), size_of(arguments[0])) if len(arguments) == 1 else None


def _replace(_overload: str, target: Target, arguments: Arguments) -> Estimate | None:
    if target is None or len(arguments) < 2:
        return None
    size, needle, substitute = (size_of(node) for node in (target, arguments[0], arguments[1]))
    if needle.low == 0:
        most, kept_most = min(size.high + 1, UNBOUNDED), size.high
    elif substitute.high <= needle.low:
        most, kept_most = 0, size.high
    else:
        most, kept_most = _quotient(size.high, needle.low), 0
    if needle.high == 0:
        fewest, kept_fewest = min(size.low + 1, UNBOUNDED), size.low
    elif needle.high <= substitute.low:
        fewest, kept_fewest = 0, size.low
    else:
        fewest, kept_fewest = _quotient(size.low, needle.high), 0
    result = Range(fewest, most).times(substitute).plus(Range(kept_fewest, kept_most))
    return Estimate(_scan(target, 2), result)


def _quotient(dividend: int, divisor: int) -> int:
    return min(int(-(-float(dividend) // float(divisor))), UNBOUNDED)


def _split(_overload: str, target: Target, arguments: Arguments) -> Estimate | None:
    if target is None:
        return None
    most = size_of(target).high
    if len(arguments) > 1:
        limit = arguments[1].expr
        if isinstance(limit, Literal) and type(limit.value) is int:
            most = limit.value % 2**64
    return Estimate(_scan(target, 2), Range(0, most))


def _join(_overload: str, target: Target, arguments: Arguments) -> Estimate | None:
    if target is None:
        return None
    length = size_of(target)
    element = elements_of(target)
    size = exactly(0) if element is None else length.times(size_of(element))
    if arguments:
        separators = Range(max(length.low - 1, 0), max(length.high - 1, 0))
        size = size.plus(size_of(arguments[0]).times(separators))
    return Estimate(size.scaled(CHARACTER), size)


def _find(_overload: str, target: Target, arguments: Arguments) -> Estimate | None:
    if target is None or not arguments:
        return None
    size = size_of(target)
    return Estimate(_pattern(size, size_of(arguments[0])), Range(0, size.high))


def _ip(overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    if overload == "cidr_ip":
        return Estimate(_ONE)
    return Estimate(_scan(arguments[0])) if arguments else None


def _canonical(_overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    return Estimate(_scan(arguments[0], 2)) if arguments else None


_ADDRESS: Final = Range(4, 16)
"""The bytes of an address."""


def _contains_ip(overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    if not arguments:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(CHARACTER)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(_scan(arguments[0]))
    return Estimate(cost)


def _contains_cidr(overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    if not arguments:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(CHARACTER).plus(_ADDRESS.scaled(CHARACTER)).plus(_ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(_scan(arguments[0]))
    return Estimate(cost)


def _validate(_overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    if not arguments:
        return None
    return Estimate(_scan(arguments[0]).scaled(_LONGEST_FORMAT_PATTERN * PATTERN_CHARACTER))


_UNIT_EQUALITY: Final = frozenset(
    (
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    )
)


def _equality(_overload: str, _target: Target, arguments: Arguments) -> Estimate | None:
    if len(arguments) != 2 or arguments[0].type.name != arguments[1].type.name:
        return None
    name = arguments[0].type.name
    if name in _UNIT_EQUALITY:
        return Estimate(_ONE)
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, _LONGEST_FORMAT).scaled(CHARACTER))
    if name == "kubernetes.URL":
        size = arguments[1].size or _ONE
        return Estimate(Range(1, size.high).scaled(CHARACTER))
    return None


_BY_NAME: Final[dict[str, Callable[[str, Target, Arguments], Estimate | None]]] = {
    "check": _check,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "url": _url,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip": _ip,
    "ip.isCanonical": _canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equality,
}


# --- the standard library -------------------------------------------------------------------------------------------


def _standard(overload: str, target: Target, arguments: Arguments) -> Estimate | None:
    match overload, arguments:
        case "string_format", _ if target is not None:
            return Estimate(known_size(target).scaled(CHARACTER))
        case "string_to_bytes", [text]:
            size = known_size(text)
            return Estimate(size.scaled(CHARACTER), Range(size.low, size.high * 4 % 2**64))
        case "bytes_to_string", [data]:
            size = known_size(data)
            return Estimate(size.scaled(CHARACTER), Range(size.low // 4, size.high))
        case "strings_quote", [text]:
            size = known_size(text)
            return Estimate(
                size.scaled(CHARACTER), Range((size.low + 2) % 2**64, (size.high * 2 + 2) % 2**64)
            )
        case (("starts_with_string" | "ends_with_string"), [prefix]):
            return Estimate(known_size(prefix).scaled(CHARACTER))
        case "in_list", [_, collection]:
            return Estimate(known_size(collection).scaled(1))
        case "matches", [subject, pattern] if target is None:
            return Estimate(_pattern(known_size(subject), known_size(pattern)))
        case "matches_string", [pattern] if target is not None:
            return Estimate(_pattern(known_size(target), known_size(pattern)))
        case "contains_string", [part] if target is not None:
            return Estimate(known_size(target).scaled(CHARACTER).times(known_size(part).scaled(CHARACTER)))
        case _ if overload in COMPARING and len(arguments) >= 2:
            most = min(known_size(arguments[0]).high, known_size(arguments[1]).high)
            return Estimate(Range(min(most, 1), most).scaled(CHARACTER))
        case _:
            return None


# --- lists and sets -------------------------------------------------------------------------------------------------


def _allocating(factor: float, length: Range) -> Estimate:
    return Estimate(length.scaled(factor).plus(exactly(1 + LIST_COST)), length)


def _literal(node: Measured, default: int) -> int:
    if isinstance(node.expr, Literal) and type(node.expr.value) is int:
        return max(node.expr.value, 0)
    return default


def _slice(target: Target, arguments: Arguments) -> Estimate | None:
    if target is None or len(arguments) != 2:
        return None
    start, end = _literal(arguments[0], 0), _literal(arguments[1], size_of(target).high)
    return _allocating(1, exactly((end - start) % 2**64))


def _range(target: Target, arguments: Arguments) -> Estimate | None:
    if target is not None or len(arguments) != 1:
        return None
    return _allocating(1, exactly(_literal(arguments[0], UNBOUNDED)))


def _reverse(target: Target, arguments: Arguments) -> Estimate | None:
    return None if target is None or arguments else _allocating(1, size_of(target))


def _flatten(target: Target, arguments: Arguments) -> Estimate | None:
    if target is None or len(arguments) > 1:
        return None
    depth = _literal(arguments[0], UNBOUNDED) if arguments else 1
    return _allocating(float(depth), size_of(target))


def _distinct(target: Target, arguments: Arguments) -> Estimate | None:
    return None if target is None or arguments else _quadratic(target, 2.0)


def _quadratic(node: Measured, factor: float) -> Estimate:
    size = size_of(node)
    return _allocating(factor, size.times(size))


def _sort(factor: float) -> Callable[[Target, Arguments], Estimate | None]:
    return lambda target, arguments: None if target is None or arguments else _quadratic(target, factor)


def _sort_by(factor: float) -> Callable[[Target, Arguments], Estimate | None]:
    return lambda target, arguments: (
        None if target is None or len(arguments) != 1 else _quadratic(arguments[0], factor)
    )


def _sets(factor: float) -> Callable[[Target, Arguments], Estimate | None]:
    def estimate(_target: Target, arguments: Arguments) -> Estimate | None:
        if len(arguments) != 2:
            return None
        product = size_of(arguments[0]).times(size_of(arguments[1]))
        return Estimate(product.scaled(factor).plus(_ONE))

    return estimate


def _factor(name: str) -> float:
    return 2.0 + CHARACTER if name in ("string", "bytes") else 2.0


_LISTS: Final[dict[str, Callable[[Target, Arguments], Estimate | None]]] = {
    "dra_includes_dyn_dyn": lambda _target, _arguments: Estimate(Range(0, 48)),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    **{f"list_{name}_sort": _sort(_factor(name)) for name in COMPARABLE},
    **{f"list_{name}_sortByAssociatedKeys": _sort_by(_factor(name)) for name in COMPARABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
