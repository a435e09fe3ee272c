"""Authorization: declared as upstream does, and unusable, since no variable has these types.

They are there for the messages: a function that is known is another error than one that is not.
Source: k8s.io/apiserver `pkg/cel/library/authz.go`.
"""

from typing import Final

_METHODS: Final = (
    ("allowed", "decision_allowed", "Decision", "", "bool"),
    ("check", "pathcheck_check", "PathCheck", "string", "Decision"),
    ("check", "resourcecheck_check", "ResourceCheck", "string", "Decision"),
    ("error", "decision_error", "Decision", "", "string"),
    ("errored", "decision_errored", "Decision", "", "bool"),
    ("fieldSelector", "authorizer_fieldselector", "ResourceCheck", "string", "ResourceCheck"),
    ("group", "authorizer_group", "Authorizer", "string", "GroupCheck"),
    ("labelSelector", "authorizer_labelselector", "ResourceCheck", "string", "ResourceCheck"),
    ("name", "resourcecheck_name", "ResourceCheck", "string", "ResourceCheck"),
    ("namespace", "resourcecheck_namespace", "ResourceCheck", "string", "ResourceCheck"),
    ("path", "authorizer_path", "Authorizer", "string", "PathCheck"),
    ("reason", "decision_reason", "Decision", "", "string"),
    ("resource", "groupcheck_resource", "GroupCheck", "string", "ResourceCheck"),
    ("serviceAccount", "authorizer_serviceaccount", "Authorizer", "string, string", "Authorizer"),
    ("subresource", "resourcecheck_subresource", "ResourceCheck", "string", "ResourceCheck"),
)
"""Name, overload, and the types of what it is called on, of its arguments and of its result."""


def _declared() -> dict[str, tuple[str, ...]]:
    domain = "kubernetes.authorization."
    functions: dict[str, tuple[str, ...]] = {}
    for name, overload, target, arguments, result in _METHODS:
        returned = result if result in ("bool", "string") else domain + result
        functions[name] = (
            *functions.get(name, ()),
            f"{overload}: {domain}{target}.({arguments}) -> {returned}",
        )
    return functions


FUNCTIONS: Final = _declared()
