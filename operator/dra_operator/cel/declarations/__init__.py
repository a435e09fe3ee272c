"""Declarations: which functions there are, on what they work and what they give.

One table a library, one line an overload: `function id: (arguments) -> result`, or in the receiver style
`function id: target.(arguments) -> result`. The order is upstream's, and matters: the first that fits is taken.
"""

from collections.abc import Mapping
from functools import cache

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.cel.declarations import cel_go, kubernetes
from dra_operator.cel.types import Type, parameters_in, read_type

_LIBRARIES = (
    cel_go.OPERATORS, cel_go.CONVERSIONS, cel_go.STANDARD, cel_go.LISTS, cel_go.STRINGS, cel_go.OPTIONALS,
    kubernetes.QUANTITY, kubernetes.SEMVER, kubernetes.NETWORK, kubernetes.FORMATS, kubernetes.AUTHORIZATION,
)  # fmt: skip


@fast_dataclass
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
    for line in "".join(_LIBRARIES).split("\n"):
        name, _, overload = line.partition(" ")
        if overload:
            declared[name] = (*declared.get(name, ()), read_overload(overload))
    return declared


def read_overload(line: str) -> Overload:
    """Return the overload that a line states, behind the name of its function."""
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
