"""Leading: whether this operator is the one that decides, and what the runtime says about it.

An operator that stands by watches nothing. A cache kept warm would cost every replica the memory and the watches of the
first, to save, once in a while, the seconds that a list takes; and it would have to be read anew from what is stored
now in any case, since the operator before may have written more than a watch has told so far.

One that finds its Lease with somebody else ends. It has decided on a state that another has gone on from, and to begin
anew is what a process does best.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from dra_operator.cluster.access import Access
from dra_operator.cluster.lease import LEASE_NAME, Lease
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.reports import Notice, Subject
from dra_operator.controller.settings import Settings

GIVE_UP_SECONDS: Final = 5.0
"""How long the end waits for the Lease to be given up."""

log = get_logger()


class Leading:
    """Whether this operator decides. Without leader election it always does.

    `record` has an Event recorded; `told` says whether all Events have been sent.
    """

    def __init__(
        self,
        settings: Settings,
        access: Access,
        record: Callable[[Notice], None],
        told: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ended = ""
        """Why this operator decides no more; empty before. Another one does, what it decided on is gone, or there is no
        namespace for the Lease."""
        self._settings = settings
        self._access = access
        self._record = record
        self._told = told
        self._elects = settings.leader_election == "lease"
        self._lease: Lease | None = None

    async def win(self, session: ApiSession) -> None:
        """Wait until this operator is the one that decides, or `ended` says why it cannot become that."""
        if not self._elects:
            return
        settings = self._settings
        lease = self._lease = Lease(
            session,
            settings.lease_namespace or self._access.namespace,
            settings.lease_identity or f"{socket.gethostname()}_{uuid4()}",
            seconds=settings.lease_seconds,
            events_delivered=self._told,
        )
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
                if not settings.lease_namespace and _has_no_namespace(error):
                    self.ended = messages.no_namespace(lease.namespace)
                    log.critical(messages.LEASE_REFUSED, lease=lease.name, why=self.ended)
                    return
                if trouble != str(error) and self.forbidden is None:
                    self._tell(error)
                holder, trouble = "", str(error)
            await asyncio.sleep(lease.period)
        log.info(messages.LEADING, lease=lease.name, identity=lease.identity)
        subject = Subject("Lease", lease.namespace, LEASE_NAME, lease.uid)
        self._record(Notice(subject, "Normal", messages.EVENT_LEADING, messages.leading(lease.identity)))

    def _tell(self, error: ApiError | ApiUnreachable) -> None:
        why, server = self._trouble(), self._access.server
        if _is_refusal(error):
            log.warning(messages.LEASE_REFUSED, why=why, server=server)
        else:
            log.warning(messages.API_UNAVAILABLE, why=why, server=server)

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
    def events_delivered_up_to(self) -> str | None:
        """The version up to which the operator before this one had sent its Events; None if nobody knows."""
        return self._lease.events_delivered_up_to if self._lease is not None else None

    @property
    def is_leader(self) -> bool:
        """Whether this operator decides, and nobody else can."""
        return not self._elects or (self._lease is not None and self._lease.valid)

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
