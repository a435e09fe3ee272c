"""Call costs: what one call of a function has cost, by its arguments and its result.

Source: k8s.io/apiserver `pkg/cel/library/cost.go` (`CallCost`), cel-go `interpreter/runtimecost.go`
(`costCall`), `ext/lists.go` and `ext/sets.go` (trackers).
"""

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from dra_operator.api.semver import Semver
from dra_operator.cel.errors import Abort
from dra_operator.cel.library.lists import COMPARABLE
from dra_operator.cel.library.named_formats import Format
from dra_operator.cel.library.network import CIDR, IP
from dra_operator.cel.values import MISSING, CelMap, Duration, Opaque, Optional_, Timestamp, Uint

CHARACTER: Final = 0.1
"""The cost of passing over one character."""
PATTERN_CHARACTER: Final = 0.25
LIST_COST: Final = 10
"""The cost of making a list; below, of a map and of a message."""
MAP_COST: Final = 30
MESSAGE_COST: Final = 40
_MAXIMUM: Final = 2**64 - 1

NOMINAL: Final = frozenset(
    [
        "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed",
        "reason", "error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
        "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign",
        "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add",
        "sub", "major", "minor", "patch", "getScheme", "getHostname", "getHost", "getPort",
        "getEscapedPath", "getQuery",
    ]
)  # fmt: skip
TRAVERSING: Final = frozenset(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"])
TRANSFORMING: Final = frozenset(["lowerAscii", "upperAscii", "substring", "trim"])
"""Functions that pass over a text once, and return one that is no longer."""
READING: Final = frozenset(["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"])
"""Functions that pass over a text once, and return something else."""
_SCANNING: Final = TRANSFORMING | READING | {"url"}


def call_cost(name: str, overload: str, arguments: list[Any], result: Any) -> int:
    """Return what a call cost. Errors may stand among the arguments and as the result; they have size 1."""
    tracker = _TRACKERS.get(overload)
    if tracker is not None:
        return tracker(arguments, result)
    cost = _kubernetes_cost(name, overload, arguments, result)
    return _standard_cost(overload, arguments) if cost is None else cost


def size(value: Any) -> int:
    """Return the size of a value as the API server's library sees it: 1 for what has none."""
    if type(value) is str or type(value) is tuple or type(value) is bytes or isinstance(value, CelMap):
        return len(value)
    if type(value) is IP:
        return 4 if value.version == 4 else 16
    return -(-value.length // 8) if type(value) is CIDR else 1


def _standard_size(value: Any) -> int:
    if type(value) is Optional_ and value.value is not MISSING:
        return _standard_size(value.value)
    return size(value)


def traversal_cost(value: Any) -> int:
    """Return the cost of passing over everything in a value."""
    if type(value) is str:
        return int(len(value.encode()) * CHARACTER)
    if type(value) is bytes:
        return int(len(value) * CHARACTER)
    if type(value) is tuple:
        return _inner_cost(value, {})
    return _inner_cost(value, {}) if isinstance(value, CelMap) else 1


_OF_SIZE_ONE: Final = frozenset((bool, int, float, Uint, Duration, Timestamp, type(None)))


def _inner_cost(value: Any, known: dict[int, int]) -> int:
    """Return the cost of passing over a list or map; one that stands in it many times is looked at once."""
    cost = known.get(id(value))
    if cost is None:
        parts = value if type(value) is tuple else [part for entry in value.items() for part in entry]
        if _OF_SIZE_ONE.issuperset(map(type, parts)):
            cost = len(parts)
        else:
            cost = sum(
                _inner_cost(part, known)
                if type(part) is tuple or isinstance(part, CelMap)
                else traversal_cost(part)
                for part in parts
            )
        known[id(value)] = cost
    return cost


def _scan(value: Any, factor: float = 1) -> int:
    return ceil(size(value) * factor * CHARACTER)


def _kubernetes_cost(name: str, overload: str, arguments: list[Any], result: Any) -> int | None:
    if name in NOMINAL:
        return 1
    if name in TRAVERSING:
        return traversal_cost(arguments[0]) if arguments else 0
    if name in _SCANNING:
        return _scan(arguments[0])
    match name:
        case "check":
            return 350_000
        case "replace" | "split" | "ip.isCanonical":
            return _scan(arguments[0], 2)
        case "join":
            return _scan(result, 2)
        case "find" | "findAll":
            return _pattern_cost(size(arguments[0]), size(arguments[1]))
        case "ip":
            return 1 if overload == "cidr_ip" else _scan(arguments[0])
        case "containsIP":
            return _contains_cost(arguments, parsed=overload == "cidr_contains_ip_string")
        case "containsCIDR":
            masked = _scan(arguments[0]) + 1
            return _contains_cost(arguments, parsed=overload == "cidr_contains_cidr_string") + masked
        case "validate":
            if type(arguments[0]) is not Format:
                return None
            return _pattern_cost(size(arguments[1]), _FORMAT_PATTERNS[arguments[0].name])
        case "_==_" if isinstance(arguments[0], Opaque | Semver):
            return 1
        case _:
            return None


_FORMAT_PATTERNS: Final = {
    "dns1123Label": 30, "dns1123Subdomain": 60, "dns1035Label": 30, "qualifiedName": 60, "dns1123LabelPrefix": 30,
    "dns1123SubdomainPrefix": 60, "dns1035LabelPrefix": 30, "labelValue": 40, "uri": 1103, "uuid": 70, "byte": 84,
    "date": 71, "datetime": 71,
}  # fmt: skip
"""How long the pattern behind a named format is taken to be."""


def _pattern_cost(subject: int, pattern: int) -> int:
    return ceil((1 + subject) * CHARACTER) * ceil(pattern * PATTERN_CHARACTER)


def _contains_cost(arguments: list[Any], *, parsed: bool) -> int:
    return _scan(arguments[0], 2) + (_scan(arguments[1]) if parsed else 0)


COMPARING: Final = frozenset(
    [
        "less_string", "greater_string", "less_equals_string", "greater_equals_string", "less_bytes",
        "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals",
    ]
)  # fmt: skip
"""The overloads that pass over as much as the smaller of two values has."""
_SUM_OF_SIZES: Final = frozenset(("add_string", "add_bytes"))
_SIZE_OF_FIRST: Final = frozenset(("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"))


_BY_SIZE: Final = (
    COMPARING
    | _SUM_OF_SIZES
    | _SIZE_OF_FIRST
    | frozenset(
        ("starts_with_string", "ends_with_string", "in_list", "matches", "matches_string", "contains_string")
    )
)


def _standard_cost(overload: str, arguments: list[Any]) -> int:
    if overload not in _BY_SIZE:
        return 1
    sizes = list(map(_standard_size, arguments))
    if overload in COMPARING:
        return ceil(min(sizes[0], sizes[1]) * CHARACTER)
    if overload in ("starts_with_string", "ends_with_string"):
        return ceil(sizes[1] * CHARACTER)
    if overload in _SIZE_OF_FIRST:
        return ceil(sizes[0] * CHARACTER)
    if overload == "in_list":
        return sizes[1]
    if overload in _SUM_OF_SIZES:
        return ceil((sizes[0] + sizes[1]) * CHARACTER)
    if overload in ("matches", "matches_string"):
        return _pattern_cost(sizes[0], sizes[1])
    # What is left is the search of a text in another one.
    return ceil(sizes[0] * CHARACTER) * ceil(sizes[1] * CHARACTER)


# --- trackers of the list and set libraries -------------------------------------------------------------------------


def _allocating(factor: float, length: int) -> int:
    factor = 1.0 if factor < 0 else factor
    return min(int(length * factor) + 1 + LIST_COST, _MAXIMUM)


def _by_output(_arguments: list[Any], result: Any) -> int:
    return _allocating(1, size(result))


def _by_depth(arguments: list[Any], _result: Any) -> int:
    depth = arguments[1] if len(arguments) == 2 else 1
    if type(depth) is not int:
        raise _panic("types.Int")
    return _allocating(depth, size(arguments[0]))


def _panic(wanted: str) -> Abort:
    """Return the error of an argument that has failed: upstream counts its size as if it had not, and panics."""
    return Abort("runtime", f"internal error: interface conversion: *types.Err is not {wanted}")


def _by_comparisons(index: int) -> Callable[[list[Any], Any], int]:
    def cost(arguments: list[Any], _result: Any) -> int:
        compared = arguments[index]
        if type(compared) is not tuple:
            raise _panic("traits.Lister: missing method Add")
        factor = 2.0 + (CHARACTER if compared and type(compared[0]) in (str, bytes) else 0)
        return _allocating(factor, len(compared) ** 2)

    return cost


def _by_product(factor: int) -> Callable[[list[Any], Any], int]:
    def cost(arguments: list[Any], _result: Any) -> int:
        return min(1 + size(arguments[0]) * size(arguments[1]) * factor, _MAXIMUM)

    return cost


_TRACKERS: Final[dict[str, Callable[[list[Any], Any], int]]] = {
    "list_slice": _by_output,
    "list_flatten": _by_depth,
    "list_flatten_int": _by_depth,
    "lists_range": _by_output,
    "list_reverse": _by_output,
    "list_distinct": _by_comparisons(0),
    **{f"list_{name}_sort": _by_comparisons(0) for name in COMPARABLE},
    **{f"list_{name}_sortByAssociatedKeys": _by_comparisons(1) for name in COMPARABLE},
    "list_sets_contains_list": _by_product(1),
    "list_sets_intersects_list": _by_product(1),
    "list_sets_equivalent_list": _by_product(2),
}
