"""Authorization: declared as upstream does, and unusable, since no variable has these types.

They are there for the messages: a function that is known is another error than one that is not.
Source: k8s.io/apiserver `pkg/cel/library/authz.go`.
"""

from typing import Any, Final

from dra_operator.cel.costs.prices import CHECK, SELECTOR, Implementation, Row
from dra_operator.cel.errors import runtime_error


def unreachable(*_values: Any) -> Any:
    """There is no authorizer: none of its values gets here."""
    raise runtime_error("no such overload")


_A: Final = "kubernetes.authorization"
_RESOURCE: Final = f"{_A}.ResourceCheck"
FUNCTIONS: Final[dict[str, Row]] = {
    f"allowed decision_allowed: {_A}.Decision.() -> bool": unreachable,
    f"check pathcheck_check: {_A}.PathCheck.(string) -> {_A}.Decision": Implementation(unreachable, CHECK),
    f"check resourcecheck_check: {_RESOURCE}.(string) -> {_A}.Decision": Implementation(unreachable, CHECK),
    f"error decision_error: {_A}.Decision.() -> string": unreachable,
    f"errored decision_errored: {_A}.Decision.() -> bool": unreachable,
    f"fieldSelector authorizer_fieldselector: {_RESOURCE}.(string) -> {_RESOURCE}": Implementation(
        unreachable, SELECTOR
    ),
    f"group authorizer_group: {_A}.Authorizer.(string) -> {_A}.GroupCheck": unreachable,
    f"labelSelector authorizer_labelselector: {_RESOURCE}.(string) -> {_RESOURCE}": Implementation(
        unreachable, SELECTOR
    ),
    f"name resourcecheck_name: {_RESOURCE}.(string) -> {_RESOURCE}": unreachable,
    f"namespace resourcecheck_namespace: {_RESOURCE}.(string) -> {_RESOURCE}": unreachable,
    f"path authorizer_path: {_A}.Authorizer.(string) -> {_A}.PathCheck": unreachable,
    f"reason decision_reason: {_A}.Decision.() -> string": unreachable,
    f"resource groupcheck_resource: {_A}.GroupCheck.(string) -> {_RESOURCE}": unreachable,
    f"serviceAccount authorizer_serviceaccount: {_A}.Authorizer.(string, string) -> {_A}.Authorizer": unreachable,
    f"subresource resourcecheck_subresource: {_RESOURCE}.(string) -> {_RESOURCE}": unreachable,
}
