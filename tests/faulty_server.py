"""An API server in memory with faults on demand: what a test does to its clients.

A fault applies to requests chosen by verb, kind and subresource, a number of times, in the order in which they were
added. Verbs are RBAC's (get, list, watch, create, update, patch, delete, deletecollection); None means any.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict, Unpack

from dra_operator.testing.errors import DroppedError, Interceptor, RequestInfo, StatusError
from dra_operator.testing.server import ApiServer


class Effect(Enum):
    """What a fault does to a request."""

    ANSWER = "answer"
    DELAY = "delay"
    REFUSE = "refuse"
    LOSE_ANSWER = "lose answer"
    CUT_WATCH = "cut watch"


class Which(TypedDict, total=False):
    """Which requests meet a fault, and how many of them: the first one unless `times` says otherwise."""

    times: int | None
    verb: str | None
    kind: str | None
    subresource: str | None
    name: str | None


@dataclass(slots=True)
class Fault:
    """A fault and the requests it is for; `times` counts down, None means for ever."""

    effect: Effect
    times: int | None = 1
    verb: str | None = None
    kind: str | None = None
    subresource: str | None = None
    name: str | None = None
    code: int = 0
    reason: str = ""
    message: str = ""
    retry_after: int | None = None
    seconds: float = 0.0
    events: int = 0
    met: int = 0
    """How many requests met it so far."""

    def applies(self, request: RequestInfo) -> bool:
        """True if the fault is for this request and not used up."""
        wanted = (
            (self.verb, request.verb),
            (self.kind, request.kind),
            (self.subresource, request.subresource),
            (self.name, request.name),
        )
        return self.times != 0 and all(want in (None, have) for want, have in wanted)


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Faults(Interceptor):
    """The switches of one server. `wake_watches` is called when open watches must look at them."""

    expire_history: Callable[[], None] = lambda: None
    wake_watches: Callable[[], None] = lambda: None
    faults: list[Fault] = field(default_factory=list)
    _stalled: set[str | None] = field(default_factory=set)
    _cut: dict[str | None, int] = field(default_factory=dict)
    cuts: int = 0

    # --- switches ---------------------------------------------------------------------------------------------------

    def answer(
        self,
        code: int,
        *,
        reason: str = "",
        message: str = "",
        retry_after: int | None = None,
        **which: Unpack[Which],
    ) -> Fault:
        """Answer with a Status of this code and do nothing else. A watch gets 410 inside its stream."""
        reason = reason or _REASONS.get(code, "")
        return self._add(
            Fault(
                Effect.ANSWER,
                code=code,
                reason=reason,
                message=message or reason,
                retry_after=retry_after,
                **which,
            )
        )

    def delay(self, seconds: float, **which: Unpack[Which]) -> Fault:
        """Wait before the request is looked at; unless `times` is given, each time."""
        which.setdefault("times", None)
        return self._add(Fault(Effect.DELAY, seconds=seconds, **which))

    def refuse(self, **which: Unpack[Which]) -> Fault:
        """Close the connection without doing or answering anything."""
        return self._add(Fault(Effect.REFUSE, **which))

    def lose_answer(self, **which: Unpack[Which]) -> Fault:
        """Do what was asked, then close the connection instead of answering."""
        return self._add(Fault(Effect.LOSE_ANSWER, **which))

    def cut_watch_after(self, events: int) -> Fault:
        """Break the next watch that starts, after this many events."""
        return self._add(Fault(Effect.CUT_WATCH, verb="watch", events=events))

    def cut_watches(self, kind: str | None = None) -> None:
        """Break all open watches of a kind (of all kinds) in the middle of the stream."""
        self.cuts += 1
        self._cut[kind] = self.cuts
        self.wake_watches()

    def stall_watches(self, kind: str | None = None) -> None:
        """Keep the watches of a kind (of all kinds) open and send nothing on them, not even bookmarks."""
        self._stalled.add(kind)

    def resume_watches(self, kind: str | None = None) -> None:
        """Undo `stall_watches`: what was held back is sent."""
        self._stalled.discard(kind)
        self.wake_watches()

    def expire(self) -> None:
        """Forget all history: watches from any earlier resourceVersion, and continue tokens, get 410."""
        self.expire_history()

    def clear(self) -> None:
        """Take all faults back."""
        self.faults.clear()
        self._stalled.clear()
        self.wake_watches()

    def _add(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    # --- what the server asks ---------------------------------------------------------------------------------------

    def first(self, effect: Effect, request: RequestInfo) -> Fault | None:
        """Return the first fault of this effect for the request, used once more; None if there is none."""
        if not self.faults:
            return None
        for fault in self.faults:
            if fault.effect is effect and fault.applies(request):
                fault.met += 1
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    async def admit(self, request: RequestInfo) -> None:
        """Wait as long as a delay says; then close the connection or answer, if a fault says so."""
        if (fault := self.first(Effect.DELAY, request)) is not None:
            await asyncio.sleep(fault.seconds)
        if self.first(Effect.REFUSE, request) is not None:
            raise DroppedError
        if (fault := self.first(Effect.ANSWER, request)) is not None:
            raise StatusError(fault.code, fault.reason, fault.message, retry_after=fault.retry_after)

    def drops_answer(self, request: RequestInfo) -> bool:
        """True if a fault loses the answer."""
        return self.first(Effect.LOSE_ANSWER, request) is not None

    def events_until_cut(self, watch: RequestInfo) -> int | None:
        """Return the number of events after which a fault breaks a watch."""
        fault = self.first(Effect.CUT_WATCH, watch)
        return None if fault is None else fault.events

    def is_cut(self, kind: str, since: int) -> bool:
        """True if watches of the kind were cut after there had been `since` cuts."""
        return max(self._cut.get(kind, 0), self._cut.get(None, 0)) > since

    def is_stalled(self, kind: str) -> bool:
        """True if watches of the kind are to keep silent."""
        return None in self._stalled or kind in self._stalled


class FaultyServer(ApiServer):
    """An API server in memory, and the switches for what it does to its clients."""

    def __init__(self, port: int = 0, **options: Any) -> None:
        self.faults = Faults(self.expire_history, self.wake_watches)
        super().__init__(port, self.faults, **options)
