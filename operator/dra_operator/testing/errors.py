"""Refusals in the words of kube-apiserver: a Status object with its reason, message, details and code.

Clients decide by these fields (a Conflict is tried again, an Invalid is not), and people read the messages, so both are
upstream's. Source: k8s.io/apimachinery/pkg/api/errors and pkg/util/validation/field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from dra_operator.testing.resources import Resource


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that validation refuses; `reason` is a cause type such as FieldValueInvalid."""

    field: str
    reason: str
    message: str


class StatusError(Exception):
    """A request that is answered by a Status object instead of a result."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def status(self) -> dict[str, Any]:
        """Return the Status object of the wire."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        details = dict(self.details) if self.details is not None else None
        if self.retry_after is not None:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after}
        if details is not None:
            body["details"] = details
        body["code"] = self.code
        return body


def _about(resource: Resource, name: str) -> dict[str, Any]:
    details = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> StatusError:
    """404: the object is not there."""
    return StatusError(404, "NotFound", f'{resource.qualified} "{name}" not found', _about(resource, name))


def already_exists(resource: Resource, name: str) -> StatusError:
    """409: the name is taken."""
    message = f'{resource.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _about(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> StatusError:
    """409: the object is not the one that the client has seen."""
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", message, _about(resource, name))


def precondition_failed(resource: Resource, name: str, why: str) -> StatusError:
    """409: a deletion names another uid or resourceVersion than the object has."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = _about(resource, name) | {"kind": resource.kind}
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return StatusError(409, "Conflict", message, details)


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    """403: admission or authorization says no."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _about(resource, name))


def namespace_terminating(resource: Resource, name: str, namespace: str) -> StatusError:
    """403: nothing is created in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _about(resource, name) | {"causes": [cause]})


def invalid(resource: Resource, name: str, errors: Sequence[FieldError], *, about: str = "") -> StatusError:
    """422: validation found at least one field wrong. `about` replaces the kind where upstream names the plural."""
    described = about or resource.kind
    texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{described}.{resource.group}" if resource.group else described
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = described
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field} for error in errors
    ]
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> StatusError:
    """400: the request makes no sense."""
    return StatusError(400, "BadRequest", message)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415: the body is in a format that is not read here."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def protobuf_is_not_read() -> StatusError:
    """415: the one format that a real API server reads and this one does not, said with what to do."""
    message = (
        "this API server in memory reads no protobuf, which some kubectl commands send; use kubectl apply -f"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def unsupported_patch_type() -> StatusError:
    """415: a patch in a format that is no patch."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def rejected_patch() -> StatusError:
    """422 without a useful word, which is how the real server answers a JSON patch that cannot be applied."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})


def no_resource() -> StatusError:
    """404: there is no such kind, version or subresource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """405: the path is there, the verb is not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def expired_watch(resource_version: int, oldest: int) -> StatusError:
    """410: events after `resource_version` are no longer all remembered."""
    return StatusError(410, "Expired", f"too old resource version: {resource_version} ({oldest})")


def expired_continue() -> StatusError:
    """410: the list that a continue token belongs to is no longer remembered."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter."
    )
    return StatusError(410, "Expired", message)


def too_large_resource_version(resource_version: int, current: int) -> StatusError:
    """504: the client has seen a future that this server has not."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {resource_version}, current: {current}",
        {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        retry_after=1,
    )


# --- causes of a 422 --------------------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    if isinstance(value, str) and '"' not in value:
        return f'"{value}"'
    shown = orjson.dumps(value).decode()
    return shown if isinstance(value, str) else shown.translate(_ESCAPED)


# As Go writes JSON, which may become part of HTML.
_ESCAPED = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})


def invalid_value(field: str, value: Any, why: str) -> FieldError:
    """The value is malformed."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {why}")


def required(field: str, why: str = "") -> FieldError:
    """The value is missing."""
    return FieldError(field, "FieldValueRequired", "Required value" + (f": {why}" if why else ""))


def duplicate(field: str, value: Any) -> FieldError:
    """The value must be unique, and is not."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def unsupported(field: str, value: Any, allowed: Sequence[str]) -> FieldError:
    """The value is none of an enumeration."""
    supported = ", ".join(f'"{item}"' for item in sorted(allowed))
    message = f"Unsupported value: {_shown(value)}: supported values: {supported}"
    return FieldError(field, "FieldValueNotSupported", message)


def forbidden_field(field: str, why: str) -> FieldError:
    """The value may not be set, or not be changed, in this state."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {why}")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    """The list is too long."""
    return FieldError(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items")


def too_long(field: str, limit: int, unit: str) -> FieldError:
    """The text is too long, in bytes or in characters."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def invalid_options(kind: str, error: FieldError) -> StatusError:
    """422: parameters that contradict each other or are unknown; `kind` is ListOptions, CreateOptions and the like."""
    details = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [{"reason": error.reason, "message": error.message, "field": error.field}],
    }
    message = f'{kind}.meta.k8s.io "" is invalid: {error.field}: {error.message}'
    return StatusError(422, "Invalid", message, details)


def invalid_version_match(why: str) -> StatusError:
    """422: the resourceVersionMatch of a list or watch does not go with its other parameters."""
    return invalid_options("ListOptions", forbidden_field("resourceVersionMatch", why))


def invalid_patch(patched: Mapping[str, Any], why: str) -> StatusError:
    """422: what a patch makes of the object does not fit its Go struct."""
    shown = orjson.dumps(orjson.dumps(patched).decode()).decode()
    message = f"Invalid value: {shown}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return StatusError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": [cause]})
