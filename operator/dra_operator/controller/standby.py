"""Standing by: whether this operator may read what it will have to decide by, asked before it has to.

An operator that stands by watches nothing, so that a right which it lacks would show when the one that decides has
ended: when nobody decides any more. So it asks what a reflector asks first, for a list and a watch of each kind, but
takes one object of each list, and hangs up on each watch. An update of the operator that brings too small a role stops
there, with the old one still at work. Whether it may write shows only by writing.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from dra_operator.api.kinds import Kind
from dra_operator.cluster.discovery import Served, list_version, served
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.controller import messages

AGAIN_SECONDS: Final = 300.0
"""How often is asked again: a right may be withdrawn."""
RETRY_SECONDS: Final = 10.0
"""How soon, while one is missing or nothing is known."""
ANSWERS_SECONDS: Final = 20.0
"""How long all answers together may take: whoever looks after the operator waits for them."""


class Standby:
    """What an operator that stands by knows of its rights to read `kinds`. `clock` is monotonic, in seconds."""

    def __init__(self, kinds: Mapping[str, Kind], clock: Callable[[], float]) -> None:
        self.forbidden: dict[str, ApiError | None] = {}
        """The refusal of each kind that is served; None where it may be listed and watched."""
        self._kinds = kinds
        self._clock = clock
        self._due_at = float("-inf")
        self._trouble = "not known yet what this operator is permitted to list"
        self._ended = False

    async def look(self, session: ApiSession) -> None:
        """Ask for each kind, if it is time to."""
        if self._clock() < self._due_at:
            return
        try:
            async with asyncio.timeout(ANSWERS_SECONDS):
                found = await served(session, self._kinds)
                refusals = {name: await _refusal(session, kind) for name, kind in found.items()}
            if not self._ended:
                self.forbidden = refusals
        except (ApiError, ApiUnreachable) as error:
            self._trouble = f"API server: {error}"
        except TimeoutError:
            self._trouble = (
                f"API server: no answer in {ANSWERS_SECONDS:g} s to what this operator is permitted to list"
            )
        self._due_at = self._clock() + (RETRY_SECONDS if self.texts() else AGAIN_SECONDS)

    def texts(self) -> list[str]:
        """Return what keeps the operator from taking over, one line for each right; empty if nothing is known to."""
        if not self.forbidden:
            return [self._trouble]
        refusals = (error for error in self.forbidden.values() if error is not None)
        return [messages.forbidden(error) for error in refusals]

    def end(self) -> None:
        """Know nothing more: it is the operator that decides from now on, and its reflectors know better."""
        self.forbidden = {}
        self._ended = True


async def _refusal(session: ApiSession, kind: Served) -> ApiError | None:
    """Return why a kind may not be listed and watched, or None if it may be. Raises ApiError, ApiUnreachable."""
    try:
        page = await session.request("GET", kind.path(), params={"limit": "1"}, timeout=ANSWERS_SECONDS)
        # From here on, or the API server would send all that there is.
        watch = {"watch": "1", "resourceVersion": list_version(kind.path(), page), "timeoutSeconds": "1"}
        async with session.stream(kind.path(), params=watch, idle_timeout=ANSWERS_SECONDS):
            return None
    except ApiError as error:
        if error.is_missing_right:
            return error
        raise
