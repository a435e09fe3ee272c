"""Declarations: which functions there are, on what they work and what they give.

One table a library, one line an overload: `id: (arguments) -> result`, or `id: target.(arguments) -> result` for the
receiver style. The order of the lines is upstream's, and matters: the checker takes the first that fits.
"""

from collections.abc import Mapping
from functools import cache

from dra_operator.api.sealed import sealed
from dra_operator.cel.declarations import cel_go, kubernetes
from dra_operator.cel.types import Type, parameters_in, read_type

_LIBRARIES = (
    cel_go.OPERATORS, cel_go.CONVERSIONS, cel_go.STANDARD, cel_go.LISTS, cel_go.STRINGS, cel_go.OPTIONALS,
    kubernetes.QUANTITY, kubernetes.SEMVER, kubernetes.NETWORK, kubernetes.FORMATS, kubernetes.AUTHORIZATION,
)  # fmt: skip


@sealed
class Overload:
    """One signature of a function. In the receiver style the first argument is the target."""

    id: str
    arguments: tuple[Type, ...]
    result: Type
    member: bool
    parameters: tuple[str, ...]


@cache
def functions() -> Mapping[str, tuple[Overload, ...]]:
    """Return the overloads of every function of Kubernetes 1.37, by the function's name."""
    declared: dict[str, tuple[Overload, ...]] = {}
    for library in _LIBRARIES:
        for name, lines in library.items():
            declared[name] = (*declared.get(name, ()), *map(read_overload, lines))
    return declared


def read_overload(line: str) -> Overload:
    """Return the overload that a line of a declaration states."""
    identity, signature = line.split(": ", 1)
    left, result = signature.rsplit(" -> ", 1)
    target, arguments = _split(left)
    types = tuple(map(read_type, (*target, *arguments)))
    result_type = read_type(result)
    used = dict.fromkeys(name for kind in (*types, result_type) for name in parameters_in(kind))
    return Overload(identity, types, result_type, bool(target), tuple(used))


def _split(left: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the target, if any, and the arguments of `target.(a, b)`."""
    depth = 0
    for start in range(len(left) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(left[start], 0)
        if depth == 0:
            break
    target = (left[: start - 1],) if start else ()
    return target, _arguments(left[start + 1 : -1])


def _arguments(text: str) -> tuple[str, ...]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return (*parts, current.strip()) if current.strip() else tuple(parts)
