"""Older: what functions were before a rule of a version of Kubernetes held.

Source: k8s.io/dynamic-resource-allocation 0.36 `cel/compile.go`, k8s.io/apimachinery 0.37 `pkg/api/resource`.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra_operator.cel.cost.prices import INCLUDES_136, Implementation, Row
from dra_operator.cel.errors import runtime_error
from dra_operator.cel.library.lists import includes
from dra_operator.cel.library.quantities import sub_wrapping, sub_wrapping_int

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


FUNCTIONS: Final[Mapping[str, Mapping[str, Row]]] = {
    "any_list_is_searched": {
        "includes dra_includes_dyn_dyn: dyn.(dyn) -> bool": Implementation(_includes, INCLUDES_136)
    },
    "durations_of_texts": {"duration int64_to_duration: (int) -> google.protobuf.Duration": _duration},
    "least_int_is_subtracted": {
        "sub quantity_sub: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity": sub_wrapping,
        "sub quantity_sub_int: kubernetes.Quantity.(int) -> kubernetes.Quantity": sub_wrapping_int,
    },
}
"""What stands in the place of the overloads with these arguments, by the rule that must not hold."""
