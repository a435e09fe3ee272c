"""Authorization: declared as upstream does, and unusable, since no variable has these types.

They are there for the messages: a function that is known is another error than one that is not.
Source: k8s.io/apiserver `pkg/cel/library/authz.go`.
"""

from collections.abc import Callable
from typing import Any, Final

from dra_operator.cel.errors import runtime_error


def unreachable(*_values: Any) -> Any:
    """There is no authorizer: none of its values gets here."""
    raise runtime_error("no such overload")


_A: Final = "kubernetes.authorization"
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = dict.fromkeys(
    (
        f"allowed decision_allowed: {_A}.Decision.() -> bool",
        f"check pathcheck_check: {_A}.PathCheck.(string) -> {_A}.Decision",
        f"check resourcecheck_check: {_A}.ResourceCheck.(string) -> {_A}.Decision",
        f"error decision_error: {_A}.Decision.() -> string",
        f"errored decision_errored: {_A}.Decision.() -> bool",
        f"fieldSelector authorizer_fieldselector: {_A}.ResourceCheck.(string) -> {_A}.ResourceCheck",
        f"group authorizer_group: {_A}.Authorizer.(string) -> {_A}.GroupCheck",
        f"labelSelector authorizer_labelselector: {_A}.ResourceCheck.(string) -> {_A}.ResourceCheck",
        f"name resourcecheck_name: {_A}.ResourceCheck.(string) -> {_A}.ResourceCheck",
        f"namespace resourcecheck_namespace: {_A}.ResourceCheck.(string) -> {_A}.ResourceCheck",
        f"path authorizer_path: {_A}.Authorizer.(string) -> {_A}.PathCheck",
        f"reason decision_reason: {_A}.Decision.() -> string",
        f"resource groupcheck_resource: {_A}.GroupCheck.(string) -> {_A}.ResourceCheck",
        f"serviceAccount authorizer_serviceaccount: {_A}.Authorizer.(string, string) -> {_A}.Authorizer",
        f"subresource resourcecheck_subresource: {_A}.ResourceCheck.(string) -> {_A}.ResourceCheck",
    ),
    unreachable,
)
