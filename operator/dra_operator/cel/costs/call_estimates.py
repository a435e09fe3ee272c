"""Call estimates: what one call of a function can cost at most, by the sizes of its arguments.

The factors say what is passed over: a character of text costs 0.1, a character of a pattern 0.25, an element
1.
Source: k8s.io/apiserver `pkg/cel/library/cost.go` (`EstimateCallCost`), cel-go `checker/cost.go`,
`ext/lists.go`, `ext/sets.go`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.cel.costs.call_costs import (
    CHARACTER,
    COMPARING,
    LIST_COST,
    NOMINAL,
    PATTERN_CHARACTER,
    READING,
    TRANSFORMING,
    TRAVERSING,
)
from dra_operator.cel.costs.sizes import (
    UNBOUNDED,
    Measured,
    Range,
    elements_of,
    exactly,
    known_size,
    size_of,
)
from dra_operator.cel.library.lists import COMPARABLE
from dra_operator.cel.syntax.nodes import Literal
from dra_operator.cel.types import Kind


@fast_dataclass
class Estimate:
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
    nodes = arguments if target is None else [target, *arguments]
    listed = _LISTS.get(overload)
    found = _kubernetes(name, overload, nodes) if listed is None else listed(*nodes)
    if found is None:
        found = _standard(overload, target, arguments)
    return found or Estimate(_ONE)


def _scan(node: Measured, factor: float = 1) -> Range:
    return size_of(node).scaled(factor * CHARACTER)


def _pattern(subject: Range, pattern: Range) -> Range:
    return subject.plus(_ONE).scaled(CHARACTER).times(pattern.scaled(PATTERN_CHARACTER))


# --- the API server's library ---------------------------------------------------------------------------------------


def _kubernetes(name: str, overload: str, nodes: Arguments) -> Estimate | None:
    if name in NOMINAL:
        return Estimate(_ONE)
    if name in TRAVERSING:
        return _traversal(name, nodes[0])
    if name in TRANSFORMING:
        return Estimate(_scan(nodes[0]), size_of(nodes[0]))
    if name in READING:
        return Estimate(_scan(nodes[0]))
    handler = _BY_NAME.get(name)
    return None if handler is None else handler(overload, *nodes)


def _traversal(name: str, target: Measured) -> Estimate:
    element = elements_of(target)
    if element is None and name != "includes":
        return Estimate(_scan(target))
    cost = _ONE
    if element is not None and element.type.kind in (Kind.STRING, Kind.BYTES):
        cost = cost.plus(_scan(element))
    return Estimate(size_of(target).times(cost))


def _check(_overload: str, *_nodes: Measured) -> Estimate:
    return Estimate(exactly(350_000))


def _selector(_overload: str, _resource: Measured, selector: Measured) -> Estimate:
    length = size_of(selector)
    requirements = length.scaled(0.5).scaled(50)
    return Estimate(exactly(LIST_COST).plus(length.scaled(CHARACTER)).plus(requirements))


def _url(_overload: str, text: Measured) -> Estimate:
    return Estimate(_scan(text), size_of(text))


def _replace(_overload: str, *nodes: Measured) -> Estimate:
    size, needle, substitute = map(size_of, nodes[:3])
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
    return Estimate(_scan(nodes[0], 2), result)


def _quotient(dividend: int, divisor: int) -> int:
    return min(int(-(-float(dividend) // float(divisor))), UNBOUNDED)


def _split(_overload: str, text: Measured, _separator: Measured, *limit: Measured) -> Estimate:
    most = size_of(text).high
    if limit and isinstance(limit[0].expr, Literal) and type(limit[0].expr.value) is int:
        most = limit[0].expr.value % 2**64
    return Estimate(_scan(text, 2), Range(0, most))


def _join(_overload: str, items: Measured, *separator: Measured) -> Estimate:
    length = size_of(items)
    element = elements_of(items)
    size = exactly(0) if element is None else length.times(size_of(element))
    if separator:
        separators = Range(max(length.low - 1, 0), max(length.high - 1, 0))
        size = size.plus(size_of(separator[0]).times(separators))
    return Estimate(size.scaled(CHARACTER), size)


def _find(_overload: str, text: Measured, pattern: Measured, *_limit: Measured) -> Estimate:
    size = size_of(text)
    return Estimate(_pattern(size, size_of(pattern)), Range(0, size.high))


def _ip(overload: str, node: Measured) -> Estimate:
    return Estimate(_ONE if overload == "cidr_ip" else _scan(node))


def _canonical(_overload: str, text: Measured) -> Estimate:
    return Estimate(_scan(text, 2))


_ADDRESS: Final = Range(4, 16)
"""The bytes of an address."""


def _contains_ip(overload: str, _block: Measured, other: Measured) -> Estimate:
    cost = _ADDRESS.plus(_ADDRESS).scaled(CHARACTER)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(_scan(other))
    return Estimate(cost)


def _contains_cidr(overload: str, _block: Measured, other: Measured) -> Estimate:
    cost = _ADDRESS.plus(_ADDRESS).scaled(CHARACTER).plus(_ADDRESS.scaled(CHARACTER)).plus(_ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(_scan(other))
    return Estimate(cost)


def _validate(_overload: str, _format: Measured, text: Measured) -> Estimate:
    return Estimate(_scan(text).scaled(_LONGEST_FORMAT_PATTERN * PATTERN_CHARACTER))


_UNIT_EQUALITY: Final = frozenset(
    (
        "net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver",
        "kubernetes.authorization.Authorizer", "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck", "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    )
)  # fmt: skip


def _equality(_overload: str, left: Measured, right: Measured) -> Estimate | None:
    name = left.type.name
    if name != right.type.name:
        return None
    if name in _UNIT_EQUALITY:
        return Estimate(_ONE)
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, _LONGEST_FORMAT).scaled(CHARACTER))
    if name == "kubernetes.URL":
        size = right.size or _ONE
        return Estimate(Range(1, size.high).scaled(CHARACTER))
    return None


_BY_NAME: Final[dict[str, Callable[..., Estimate | None]]] = {
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


def _slice(items: Measured, start: Measured, end: Measured) -> Estimate:
    length = _literal(end, size_of(items).high) - _literal(start, 0)
    return _allocating(1, exactly(length % 2**64))


def _range(size: Measured) -> Estimate:
    return _allocating(1, exactly(_literal(size, UNBOUNDED)))


def _reverse(items: Measured) -> Estimate:
    return _allocating(1, size_of(items))


def _flatten(items: Measured, *depth: Measured) -> Estimate:
    return _allocating(float(_literal(depth[0], UNBOUNDED) if depth else 1), size_of(items))


def _distinct(items: Measured) -> Estimate:
    return _quadratic(items, 2.0)


def _quadratic(node: Measured, factor: float) -> Estimate:
    size = size_of(node)
    return _allocating(factor, size.times(size))


def _sort(factor: float) -> Callable[..., Estimate]:
    """Sorting costs by its keys, which come last: of `sort` they are the list itself."""
    return lambda *nodes: _quadratic(nodes[-1], factor)


def _sets(factor: float) -> Callable[..., Estimate]:
    def estimate(left: Measured, right: Measured) -> Estimate:
        return Estimate(size_of(left).times(size_of(right)).scaled(factor).plus(_ONE))

    return estimate


def _factor(name: str) -> float:
    return 2.0 + CHARACTER if name in ("string", "bytes") else 2.0


_LISTS: Final[dict[str, Callable[..., Estimate]]] = {
    "dra_includes_dyn_dyn": lambda _items, _value: Estimate(Range(0, 48)),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    **{f"list_{name}_sort": _sort(_factor(name)) for name in COMPARABLE},
    **{f"list_{name}_sortByAssociatedKeys": _sort(_factor(name)) for name in COMPARABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
