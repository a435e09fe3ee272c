"""Interceptors: what may come between a request and its answer. The server's own lets all pass.

Tests derive from it to inject faults: delays, errors, lost answers, watches that break or keep silent.
"""

from dataclasses import dataclass


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
