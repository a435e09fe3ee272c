"""Leading: whether this operator is the one that decides, and what the runtime says about it.

An operator that stands by watches nothing. A cache kept warm would cost every replica the memory and the watches of the
first, to save, once in a while, the seconds that a list takes; and it would have to be read anew from what is stored
now in any case, since the operator before may have written more than a watch has told so far.

One that finds its Lease with somebody else ends. It has decided on a state that another has gone on from, and to begin
anew is what a process does best.
"""

import asyncio
import socket
from random import random
from uuid import uuid4

from dra_operator.cluster.access import Access
from dra_operator.cluster.backoff import DEFAULT_BACKOFF
from dra_operator.cluster.lease import Lease
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.settings import Settings

log = get_logger()


class Leading:
    """Whether this operator decides. Without leader election it always does."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self.forbidden: ApiError | None = None
        """The last refusal of the Lease for lack of a right, until it is read again."""
        self.lost = False
        """Whether another operator decides where this one did."""
        self._settings = settings
        self._access = access
        self._lease: Lease | None = None
        self._trouble: str | None = None

    async def win(self, session: ApiSession) -> None:
        """Wait until this operator is the one that decides."""
        if self._settings.leader_election == "none":
            return
        settings = self._settings
        lease = self._lease = Lease(
            session,
            settings.lease_namespace or self._access.namespace,
            settings.lease_identity or f"{socket.gethostname()}_{uuid4()}",
            seconds=settings.lease_seconds,
        )
        failures, holder = 0, ""
        while True:
            try:
                won = await lease.take()
            except (ApiError, ApiUnreachable) as error:
                failures += 1
                self._note(error)
                await asyncio.sleep(DEFAULT_BACKOFF.delay(failures, random))
                continue
            failures, self._trouble, self.forbidden = 0, None, None
            if won:
                break
            if lease.holder != holder:
                holder = lease.holder
                log.info(messages.STANDING_BY, lease=lease.name, holder=holder, identity=lease.identity)
            await asyncio.sleep(lease.period)
        log.info(messages.LEADING, lease=lease.name, identity=lease.identity)

    async def keep(self) -> None:
        """Remain the one that decides; return when another one is."""
        if self._lease is None:
            await asyncio.Event().wait()
            return
        await self._lease.keep()
        self.lost = True
        log.critical(messages.LEASE_LOST, lease=self._lease.name, holder=self._lease.holder)

    async def give_up(self) -> None:
        """Let another one decide. Nothing may be written any more."""
        if self._lease is not None:
            await self._lease.give_up()

    async def permit(self) -> None:
        """Wait until something may be written."""
        if self._lease is not None:
            await self._lease.permit()

    @property
    def is_leader(self) -> bool:
        """Whether this operator decides, and nobody else can."""
        if self._settings.leader_election == "none":
            return True
        return self._lease is not None and self._lease.valid

    @property
    def stands_by(self) -> bool:
        """Whether another operator decides, which is no trouble."""
        lease = self._lease
        return lease is not None and not lease.won and bool(lease.holder) and self._trouble is None

    def following(self) -> list[str]:
        """Return why this operator is not the one that decides, for `/leaderz`; empty while it is."""
        if self.is_leader:
            return []
        if self._lease is None or self._lease.won or self._trouble is not None:
            return self.unready() or ["not connected yet"]
        return [messages.standing_by(self._lease.name, self._lease.holder)]

    def unready(self) -> list[str]:
        """Return what keeps this operator from deciding, or from standing by, for `/readyz`."""
        if self._trouble is not None:
            return [self._trouble]
        if self._lease is not None and (seconds := self._lease.overdue) > 0:
            return [messages.overdue(self._lease.name, seconds)]
        return []

    def _note(self, error: ApiError | ApiUnreachable) -> None:
        is_refusal = isinstance(error, ApiError) and error.is_missing_right
        self.forbidden = error if isinstance(error, ApiError) and is_refusal else None
        trouble = f"API server: {error}"
        if self.forbidden is not None:
            trouble = messages.forbidden(self.forbidden.verb, self.forbidden.resource, self.forbidden.message)
        elif trouble != self._trouble:
            log.warning(messages.API_UNAVAILABLE, why=trouble, server=self._access.server)
        self._trouble = trouble
