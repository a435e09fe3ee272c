"""Leader election: whether this operator decides, and whether one that stands by could.

An operator that stands by watches nothing: it would read all again in any case. So it asks what a reflector asks first,
a list and a watch of each kind, cut after one object: an update of the operator that brings too small a role stops
there, with the old one still at work. One that finds its Lease with somebody else ends. Why: docs/decisions.md.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from dra_operator.api.kinds import Kind
from dra_operator.api.names import LEASE_NAME
from dra_operator.cluster.discovery import Served, list_version, served
from dra_operator.cluster.events import Subject
from dra_operator.cluster.lease import Lease
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.controller import messages
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.logs import get_logger
from dra_operator.controller.settings import Settings, Tuning

GIVE_UP_SECONDS: Final = 5.0
"""How long the end waits for the Lease to be given up."""

log = get_logger()


POD_NAME: Final = "POD_NAME"
"""The variable of the environment with the name of the operator's own pod (downward API)."""
_POD_UID: Final = "POD_UID"


def _identity() -> str:
    """Return a name that no other operator has, and that a container keeps when it is started anew in its pod."""
    pod, uid = os.environ.get(POD_NAME), os.environ.get(_POD_UID)
    return f"{pod}_{uid}" if pod and uid else f"{socket.gethostname()}_{uuid4()}"


@dataclass(slots=True)
class LeaderElection:
    """Whether this operator decides. Without leader election it always does.

    `record` has an Event recorded.
    """

    session: ApiSession
    settings: Settings
    record: Callable[[EventRequest], None]
    tuning: Tuning = Tuning()  # noqa: RUF009 - it is frozen
    ended: str = ""
    """Why this operator decides no more; empty before. Another one does, what it decided on is gone, or there is no
    namespace for the Lease."""
    _lease: Lease | None = None
    """None without leader election."""

    def __post_init__(self) -> None:
        if self.settings.leader_election == "lease":
            self._lease = Lease(
                self.session,
                self.settings.lease_namespace or self.session.access.namespace,
                self.tuning.identity or _identity(),
                seconds=self.tuning.lease_seconds,
            )

    async def win(self) -> None:
        """Wait until this operator is the one that decides, or `ended` says why it cannot become that."""
        if (lease := self._lease) is None:
            return
        holder, trouble = "", ""
        while True:
            try:
                if await lease.acquire():
                    break
                if lease.holder not in (holder, lease.identity):
                    log.info(
                        messages.STANDING_BY, lease=lease.name, holder=lease.holder, identity=lease.identity
                    )
                holder, trouble = lease.holder, ""
            except (ApiError, ApiUnreachable) as error:
                if not self.settings.lease_namespace and _has_no_namespace(error):
                    self.ended = messages.no_namespace(lease.namespace)
                    log.critical(messages.LEASE_REFUSED, lease=lease.name, why=self.ended)
                    return
                if trouble != str(error) and self.forbidden is None:
                    said = messages.LEASE_REFUSED if _is_refusal(error) else messages.API_UNAVAILABLE
                    log.warning(said, why=self._trouble(), server=self.session.access.server)
                holder, trouble = "", str(error)
            await asyncio.sleep(lease.period)
        log.info(messages.LEADING, lease=lease.name, identity=lease.identity)
        subject = Subject("Lease", lease.namespace, LEASE_NAME, lease.uid)
        self.record(EventRequest(subject, "Normal", messages.EVENT_LEADING, messages.leading(lease.identity)))

    async def keep(self) -> None:
        """Remain the one that decides; return when another one is."""
        if self._lease is None:
            await asyncio.Event().wait()
            return
        lease = self._lease
        await lease.keep()
        if lease.went_back:
            self.ended = f"{messages.WENT_BACK}: {messages.RESTORED}"
            log.critical(messages.WENT_BACK, lease=lease.name, why=messages.RESTORED)
            return
        self.ended = f"{messages.LEASE_LOST}: {lease.holder or 'nobody yet'} holds the Lease {lease.name}"
        log.critical(messages.LEASE_LOST, lease=lease.name, holder=lease.holder)

    async def give_up(self) -> None:
        """Let another one decide, in a few seconds or not at all. Nothing may be written any more."""
        if self._lease is not None:
            try:
                await asyncio.wait_for(self._lease.give_up(), GIVE_UP_SECONDS)
            except TimeoutError:
                why = f"no answer in {GIVE_UP_SECONDS:g} s"
                log.info("lease not given up", lease=self._lease.name, why=why)

    async def may_write(self) -> None:
        """Wait until something may be written."""
        if self._lease is not None:
            await self._lease.may_write()

    @property
    def is_leader(self) -> bool:
        """Whether this operator decides, and nobody else can."""
        return self._lease is None or self._lease.valid

    @property
    def stands_by(self) -> bool:
        """Whether another operator decides, which is no trouble."""
        lease = self._lease
        if lease is None or lease.won or lease.error is not None:
            return False
        return lease.holder not in ("", lease.identity)

    @property
    def forbidden(self) -> ApiError | None:
        """The refusal of the Lease for lack of a right, until it is granted."""
        error = self._lease.error if self._lease is not None else None
        return error if isinstance(error, ApiError) and error.is_missing_right else None

    def denials(self) -> dict[str, ApiError | None]:
        """Return the refusal of the Lease, or None where it is granted, by its name.

        Empty while the API server is in trouble: then it says nothing of rights.
        """
        error = self._lease.error if self._lease is not None else None
        return {"Lease": self.forbidden} if error is None or _is_refusal(error) else {}

    def following(self) -> list[str]:
        """Return why this operator is not the one that decides, for `/leaderz`; empty while it is."""
        if self.is_leader:
            return []
        if self.ended:
            return [self.ended]
        if self._lease is not None and self.stands_by:
            return [messages.standing_by(self._lease.name, self._lease.holder)]
        return self.unready() or [messages.NOT_CONNECTED]

    def unready(self) -> list[str]:
        """Return what keeps this operator from deciding, or from standing by, for `/readyz`."""
        lease = self._lease
        if lease is None:
            return []
        if (seconds := lease.overdue) > 0:
            return [messages.overdue(lease.name, seconds, self._trouble())]
        return [] if lease.won or lease.error is None else [self._trouble()]

    def _trouble(self) -> str:
        """Return in a few words why the Lease cannot be read or written."""
        if self.forbidden is not None:
            return messages.forbidden(self.forbidden)
        lease, error = self._lease, self._lease.error if self._lease is not None else None
        if lease is None or error is None:
            return "no answer yet"
        return f"Lease {lease.name}: {error}" if _is_refusal(error) else f"API server: {error}"


def _has_no_namespace(error: ApiError | ApiUnreachable) -> bool:
    return isinstance(error, ApiError) and error.status == 404 and error.is_namespace_gone


def _is_refusal(error: ApiError | ApiUnreachable) -> bool:
    """True if the API server is there and does not take the Lease, mostly as there is no such namespace."""
    return isinstance(error, ApiError) and error.status < 500 and error.status not in (401, 408, 429)


AGAIN_SECONDS: Final = 300.0
"""How often is asked again: a right may be withdrawn."""
RETRY_SECONDS: Final = 10.0
"""How soon, while one is missing or nothing is known."""
ANSWERS_SECONDS: Final = 20.0
"""How long all answers together may take: whoever looks after the operator waits for them."""


@dataclass(slots=True)
class StandbyAccess:
    """What an operator that stands by knows of its rights to read `kinds`. `clock` is monotonic, in seconds."""

    kinds: Mapping[str, Kind]
    clock: Callable[[], float]
    forbidden: dict[str, ApiError | None] = field(default_factory=dict)
    """The refusal of each kind that is served; None where it may be listed and watched."""
    _due_at: float = float("-inf")
    _trouble: str = "not known yet what this operator is permitted to list"
    _ended: bool = False

    async def check(self, session: ApiSession) -> None:
        """Ask for each kind, if it is time to."""
        if self.clock() < self._due_at:
            return
        try:
            async with asyncio.timeout(ANSWERS_SECONDS):
                found = await served(session, self.kinds)
                refusals = {name: await _refusal(session, kind) for name, kind in found.items()}
            if not self._ended:
                self.forbidden = refusals
        except (ApiError, ApiUnreachable) as error:
            self._trouble = f"API server: {error}"
        except TimeoutError:
            self._trouble = (
                f"API server: no answer in {ANSWERS_SECONDS:g} s to what this operator is permitted to list"
            )
        self._due_at = self.clock() + (RETRY_SECONDS if self.reasons() else AGAIN_SECONDS)

    def reasons(self) -> list[str]:
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
