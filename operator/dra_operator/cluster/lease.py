"""Leader election by a Lease of coordination.k8s.io, on client-go's terms, by each one's own monotonic clock.

The holder stops writing ten seconds after sending the last renewal that was answered (`may_write` waits), others take
over after fifteen; time without a view of the Lease does not count. A Lease older than the one that was answered means
that etcd was restored: the holder ends. The same identity takes over at once. Source: docs/kopf.md;
k8s.io/client-go/tools/leaderelection.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from dra_operator.api.kinds import LEASE
from dra_operator.api.names import LEASE_NAME
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable

log = structlog.get_logger(__name__)

_LEASES: Final = Served(LEASE, "v1")
_PERIOD: Final = 2.0
_REQUEST: Final = 5.0
# The monotonic clock of Linux stands still while a machine sleeps; others go on counting meanwhile.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

Body = dict[str, Any]


def _elapsed() -> float:
    return time.clock_gettime(_CLOCK)


def _now() -> datetime:
    return datetime.now(UTC)


class Lease:
    """The Lease of all operators of a cluster, as one of them sees it; `identity` is its name there.

    `seconds` is how long it lasts without a renewal. `clock` is in seconds and never goes back, nor does it stand still
    while the machine sleeps; `wall` tells the time of day in UTC, which stands in the Lease for people. `pause` waits
    after a renewal that failed, and less where the server answers somebody else; None: as its outage says.
    """

    def __init__(
        self,
        session: ApiSession,
        namespace: str,
        identity: str,
        *,
        seconds: int,
        clock: Callable[[], float] = _elapsed,
        wall: Callable[[], datetime] = _now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self.name = f"{namespace}/{LEASE_NAME}"
        """Namespace and name, as texts have them."""
        self.namespace = namespace
        self.identity = identity
        self.holder = ""
        """Who held it when it was last read; empty for nobody."""
        self.period = min(_PERIOD, seconds * 2 / 15)
        """Seconds from one renewal, or one attempt to take it, to the next."""
        self.won = False
        """Whether it has become ours; once lost it does not again."""
        self.went_back = False
        """Whether it was found in an older version than it had: etcd was restored."""
        self.error: ApiError | ApiUnreachable | None = None
        """Why it could not be read or written the last time; None if it could."""
        self._session = session
        self._seconds = seconds
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._pause = session.outage.pause if pause is None else pause
        self._body: Body = {}
        """The Lease as it was last read or written."""
        self._sight: str | None = None
        """The version of it that was last seen, empty for none; None if nothing was seen, or could be."""
        self._free_at = 0.0
        """When whoever holds it may be taken for dead, by the clock."""
        self._permitted_until = 0.0
        self._acquired = ""
        self._is_slow = False
        """Whether the last answer took longer than there is time for two, or did not come."""
        self._renewed = asyncio.Event()

    @property
    def uid(self) -> str:
        """Its uid as an object; empty before it was written."""
        return str(self._body["metadata"]["uid"]) if self._body else ""

    # --- for writes

    @property
    def valid(self) -> bool:
        """Whether nobody else can hold it now."""
        return self.won and self._clock() < self._permitted_until

    async def may_write(self) -> None:
        """Wait until something may be written: at once while the Lease is valid, for ever when it is lost."""
        while not self.valid:
            self._renewed.clear()
            await self._renewed.wait()

    @property
    def overdue(self) -> float:
        """For how many seconds it has been held without being valid; 0 while it is, is not ours, or went back."""
        return max(0.0, self._clock() - self._permitted_until) if self.won and not self.went_back else 0.0

    # --- for its life

    async def acquire(self) -> bool:
        """Take it if it is free; return whether it is ours now. Raises ApiError, ApiUnreachable."""
        try:
            self.won = await self._acquire()
        except (ApiError, ApiUnreachable) as error:
            self.error = error
            # The holder may be renewing it all the time, which cannot be seen.
            self._sight = None
            raise
        self.error = None
        return self.won

    async def keep(self) -> None:
        """Renew it until somebody else holds it, or etcd was restored, which is when this returns."""
        begun, is_late = self._clock(), False
        while True:
            wait = self._sleep if self.error is None else self._pause
            await wait(max(0.0, begun + self.period - self._clock()))
            begun = self._clock()
            try:
                self.won = await self._renew()
            except (ApiError, ApiUnreachable) as error:
                self.error = error
                if not is_late and not self.valid:
                    is_late = True
                    log.warning("lease not renewed, writes wait", lease=self.name, why=str(error))
                continue
            self.error = None
            if not self.won or self.went_back:
                return
            if is_late:
                is_late = False
                log.info("lease renewed, writes go on", lease=self.name)

    async def give_up(self) -> None:
        """Let the next one take it at once. Nothing may be on its way any more that needs it."""
        if not self.won:
            return
        self.won = False
        terms = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _micro_time(self._wall())}
        try:
            # A renewal may have been cut short, and stored all the same.
            found = await self._read()
            if found is not None and self._is_ours(found):
                await self._write(found, terms)
        except (ApiError, ApiUnreachable) as error:
            log.info("lease not given up", lease=self.name, why=str(error))

    async def _acquire(self) -> bool:
        sent = self._clock()
        found = await self._read()
        self._observe(found)
        if not self._is_free(found):
            return False
        acquired = _micro_time(self._wall())
        spec = (found or {}).get("spec") or {}
        transitions = spec.get("leaseTransitions") or 0
        if found is not None and spec.get("holderIdentity") != self.identity:
            transitions += 1
        terms = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._seconds,
            "acquireTime": acquired,
            "renewTime": acquired,
            "leaseTransitions": transitions,
        }
        try:
            await self._write(found, terms)
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        self._acquired = acquired
        self._extend(sent)
        return True

    def _is_free(self, found: Body | None) -> bool:
        if self.holder == "" or self._clock() >= self._free_at:
            return True
        # One that was deleted may have been anybody's by then.
        return self.holder == self.identity and found is not None

    async def _renew(self) -> bool:
        """Renew it; return whether it is still ours. Raises ApiError, ApiUnreachable."""
        sent = self._clock()
        terms = {"leaseDurationSeconds": self._seconds, "renewTime": _micro_time(self._wall())}
        try:
            await self._write(self._body, terms)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            # Written by somebody else, or by a renewal of ours that got no answer; or deleted by somebody.
            found = await self._read()
            known, sent = self._body, self._clock()
            if found is None and self.valid:
                await self._write(None, {**known["spec"], **terms})
            elif found is None or not self._is_ours(found):
                self.holder = _holder(found or {})
                return False
            elif not _is_older(found, known):
                await self._write(found, terms)
            if _is_older(found or self._body, known):
                # It stays ours until it is given up, so that whoever comes next need not wait for its end.
                self.went_back, self._permitted_until = True, 0.0
                return True
        self._extend(sent)
        return True

    def _extend(self, sent: float) -> None:
        """Count from the moment at which what was answered now was sent."""
        self._permitted_until = sent + self._seconds * 2 / 3
        self._renewed.set()

    def _is_ours(self, found: Body) -> bool:
        return _holder(found) == self.identity and found["spec"].get("acquireTime") == self._acquired

    def _observe(self, found: Body | None) -> None:
        """Note who holds it. Whoever changes it is alive; one that is deleted lasts as long as if it were not."""
        sight = "" if found is None else found["metadata"]["resourceVersion"]
        if sight != self._sight:
            lasts = ((found or {}).get("spec") or {}).get("leaseDurationSeconds") or self._seconds
            self._sight, self._free_at = sight, self._clock() + lasts
        if found is not None:
            self.holder = _holder(found)

    async def _read(self) -> Body | None:
        """Return it, or None if there is none."""
        try:
            return await self._request("GET", LEASE_NAME)
        except ApiError as error:
            if error.status == 404 and error.is_status:
                return None
            raise

    async def _write(self, found: Body | None, terms: Body) -> None:
        """Store it with other terms, in place of the one that was found."""
        method, name = ("PUT", LEASE_NAME) if found else ("POST", "")
        body = found or {
            "apiVersion": _LEASES.api_version,
            "kind": LEASE.kind,
            "metadata": {"namespace": self.namespace, "name": LEASE_NAME},
        }
        spec = {**(body.get("spec") or {}), **terms}
        self._body = await self._request(method, name, {**body, "spec": spec})
        self.holder = _holder(self._body)

    async def _request(self, method: str, name: str, body: Body | None = None) -> Body:
        path, sent = _LEASES.path(self.namespace, name), self._clock()
        # There is time for another one while the Lease is valid. But a server that always takes longer would never have
        # renewed it: from the first request that got no answer in time on they get the time of two.
        patience = min(_REQUEST, self._seconds / 3)
        try:
            timeout = patience * 2 if self._is_slow else patience
            answer = await self._session.request(method, path, body=body, timeout=timeout)
        finally:
            self._is_slow = self._clock() - sent >= patience
        if answer.get("kind") != "Lease":
            raise ApiUnreachable(f"{method} {path}: the answer is no Lease")
        return answer


def _holder(lease: Body) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _is_older(found: Body, known: Body) -> bool:
    try:
        return int(found["metadata"]["resourceVersion"]) < int(known["metadata"]["resourceVersion"])
    except ValueError:
        return False


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
