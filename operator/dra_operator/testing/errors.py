"""Refusals: a Status object with the reason, details and code of kube-apiserver, and words of our own.

Clients decide by reason and code: a Conflict is tried again, an Invalid is not.
Source: k8s.io/apimachinery/pkg/api/errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.testing.discovery import Resource


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
        self.details = dict(details or {})
        self.retry_after = retry_after
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after

    def status(self) -> dict[str, Any]:
        """Return the Status object of the wire."""
        reason = {"reason": self.reason} if self.reason else {}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **reason,
            "details": self.details,
            "code": self.code,
        }


def _about(  # noqa: PLR0917 - what a Status says
    resource: Resource, name: str, code: int, reason: str, why: str, causes: Mapping[str, str] | None = None
) -> StatusError:
    details: dict[str, Any] = {"name": name, "group": resource.group, "kind": resource.plural}
    if causes:
        details["causes"] = [
            {"reason": "FieldValueInvalid", "message": message, "field": field}
            for field, message in causes.items()
        ]
    return StatusError(code, reason, f'{resource.qualified} "{name}" {why}', details)


def not_found(resource: Resource, name: str) -> StatusError:
    """404: the object is not there."""
    return _about(resource, name, 404, "NotFound", "not found")


def already_exists(resource: Resource, name: str) -> StatusError:
    """409: the name is taken."""
    return _about(resource, name, 409, "AlreadyExists", "already exists")


def conflict(resource: Resource, name: str, why: str) -> StatusError:
    """409: the object is not the one that the client has seen."""
    return _about(resource, name, 409, "Conflict", f"cannot be written: {why}")


def invalid(resource: Resource, name: str, problems: Mapping[str, str]) -> StatusError:
    """422: validation found at least one field wrong; `problems` says by field why."""
    text = ", ".join(f"{field}: {why}" for field, why in problems.items())
    return _about(resource, name, 422, "Invalid", f"is invalid: {text}", problems)


def bad_request(message: str) -> StatusError:
    """400: the request makes no sense."""
    return StatusError(400, "BadRequest", message)


def no_resource() -> StatusError:
    """404: there is no such kind, version or subresource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> StatusError:
    """405: the path is there, the verb is not."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the resource")


def unsupported_media_type(wanted: str) -> StatusError:
    """415: the body is in a format that is not read here."""
    return StatusError(415, "UnsupportedMediaType", f"this API server in memory reads {wanted} only")


def expired(message: str) -> StatusError:
    """410: what a watch or a continue token goes on from is no longer remembered."""
    return StatusError(410, "Expired", message)


def future_version(revision: int, current: int) -> StatusError:
    """504: the client has seen a future that this server has not."""
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return StatusError(504, "Timeout", message, retry_after=1)


# --- Interceptors: what may come between a request and its answer. The server's own lets all pass.
# Tests derive from it to inject faults: delays, errors, lost answers, watches that break or keep silent.


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request is about, in RBAC's verbs; `subresource` is empty for the object itself."""

    verb: str
    kind: str
    subresource: str = ""
    name: str = ""


class DroppedError(Exception):
    """The connection is closed instead of an answer."""


class Interceptor:
    """Lets every request pass, and every watch live."""

    cuts = 0
    """How often watches were cut so far; a watch remembers the number it began with."""

    async def admit(self, request: RequestInfo) -> None:
        """Let a request pass. Raises StatusError to answer with that, DroppedError to answer nothing."""

    def drops_answer(self, request: RequestInfo) -> bool:  # noqa: ARG002
        """True if what was asked is done, and the answer lost."""
        return False

    def events_until_cut(self, watch: RequestInfo) -> int | None:  # noqa: ARG002
        """Return the number of events after which a watch breaks; None for never."""
        return None

    def is_cut(self, kind: str, since: int) -> bool:  # noqa: ARG002
        """True if watches of the kind were cut after there had been `since` cuts."""
        return False

    def is_stalled(self, kind: str) -> bool:  # noqa: ARG002
        """True if watches of the kind are to keep silent."""
        return False
