"""Older: what Kubernetes 1.36 has instead of the functions of 1.37.

Source: k8s.io/dynamic-resource-allocation 0.36 `cel/compile.go`.
"""

from typing import Any, Final

from dra_operator.cel.cost.prices import INCLUDES_136, Implementation, Row
from dra_operator.cel.errors import runtime_error
from dra_operator.cel.library.lists import includes

_MOST_INCLUDED: Final = 48


def _includes(target: Any, value: Any) -> bool:
    """1.36 refuses to look through more values than a device may have."""
    if type(target) is not tuple or len(target) <= _MOST_INCLUDED:
        return includes(target, value)
    if includes(target[:_MOST_INCLUDED], value):
        return True
    raise runtime_error(f"'includes' function cannot be applied to lists longer than {_MOST_INCLUDED} values")


def _duration(_value: int) -> Any:
    """1.36 declares this conversion and has none."""
    raise runtime_error("type conversion error from 'int' to 'google.protobuf.Duration'")


FUNCTIONS: Final[dict[str, Row]] = {
    "includes dra_includes_dyn_dyn: dyn.(dyn) -> bool": Implementation(_includes, INCLUDES_136),
    "duration int64_to_duration: (int) -> google.protobuf.Duration": _duration,
}
