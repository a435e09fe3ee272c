"""The way of the kinds to the cluster, and to what the operator knows of it.

Questions about the state are answered by the thread of cycles, between two of them.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import GROUP, GROUP_VERSION
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.delivery import Permit
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.events import Subject
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import RuleStatus
from dra_operator.kinds.changes import Body, Change, Create, Delete, PlanEvent
from dra_operator.ledger import Breakage, ClaimKey, Ledger

T = TypeVar("T")
_ANSWER_SECONDS: Final = 30.0
_ASK_SECONDS: Final = 10.0
_GONE: Final = 404
_EXISTS: Final = 409
_CONFLICTS: Final = frozenset((404, 409, 422))
"""What a write is answered whose object is another by now: the next reconciliation sees it."""


@dataclass(frozen=True, slots=True)
class State:
    """What the operator knows of the cluster, in the thread of cycles alone."""

    inventory: Inventory
    ledger: Ledger
    explainer: Explainer
    find_rule: Callable[[str, str], RuleStatus] = lambda *_: RuleStatus()
    """Returns how far a rule is, by name and uid."""
    find_claim: Callable[[ClaimKey], ResourceClaim | None] = lambda _: None
    find_allocated: Callable[[], Iterable[ResourceClaim]] = tuple
    """Returns the claims that have devices."""
    find_pending: Callable[[], Iterable[ResourceClaim]] = tuple
    """Returns the claims that have none, and may get some."""
    find_reason: Callable[[ClaimKey], tuple[str, str]] = lambda _: ("", "")
    """Returns why a claim waits, as reason and text; nothing where nothing was said yet."""
    find_broken: Callable[[], Mapping[ClaimKey, Sequence[Breakage]]] = dict
    """Returns the claims whose allocation is known to be broken."""
    is_foreign: Callable[[ResourceClaim], bool] = lambda _: False
    """Whether it is known that somebody else allocated a claim."""


class KindMetrics(Protocol):
    """What the kinds measure."""

    maintenance_safe_seconds: Histogram
    maintenance_broken: Counter
    reservations: Gauge
    reallocations: Counter


@dataclass(slots=True)
class Inquiry:
    """A question about the state, which the thread of cycles answers."""

    ask: Callable[[State], Any]
    future: "concurrent.futures.Future[Any]"

    def refuse(self) -> None:
        """Say that nothing is known now: not all claims are listed, or nothing is heard of them."""
        if self.future.set_running_or_notify_cancel():
            why = "claims are being listed or not heard of, so nobody knows who holds devices"
            self.future.set_exception(ApiUnreachable(why))

    def answer(self, state: State) -> None:
        """Answer it, unless nobody waits any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.ask(state))
        except Exception as error:  # noqa: BLE001 - it is the asker's
            self.future.set_exception(error)


def path(plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of objects of a kind of our own, or of one."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{GROUP_VERSION}{scope}/{plural}" + (f"/{name}" if name else "")


@dataclass(slots=True)
class World:
    """What the kinds read and write, on the loop of the operator.

    `put` queues an inquiry for the next cycle; `may_write` waits until the Lease is held; `find_served` returns how a
    kind, such as `DeviceTaintRule`, is served, None where it is not; `record` records an Event about an object: type,
    reason and message.
    """

    session: ApiSession
    put: Callable[[Inquiry], None]
    may_write: Permit
    find_served: Callable[[str], Served | None]
    record: Callable[[Subject, str, str, str], None]
    metrics: KindMetrics

    async def find_verbs(self, plural: str) -> frozenset[str] | None:
        """Return what can be done with a kind of our own.

        Nothing where it is not served, or may not be listed; None if nobody answers.
        """
        try:
            # Asked first, as everybody may: where no kind is installed, nothing is refused.
            answer = await self.session.request("GET", f"/apis/{GROUP}/{GROUP_VERSION}", timeout=_ASK_SECONDS)
            there = {each["name"]: frozenset(each["verbs"]) for each in answer.get("resources") or ()}
            if plural in there:
                await self.session.request("GET", path(plural), params={"limit": "1"}, timeout=_ASK_SECONDS)
            return there.get(plural, frozenset())
        except ApiError as error:
            return frozenset() if error.status in (403, 404) else None
        except ApiUnreachable:
            return None

    def record_events(self, subject: Subject, events: Iterable[PlanEvent]) -> None:
        """Record Events about an object."""
        for each in events:
            self.record(subject, "Warning" if each.is_warning else "Normal", each.reason, each.message)

    def served(self, kind: str) -> Served:
        """Return how a kind is served. Raises ApiUnreachable if it is not."""
        found = self.find_served(kind)
        if found is None:
            raise ApiUnreachable(f"the API server does not serve {kind}")
        return found

    async def find(self, where: str) -> Body | None:
        """Return the object at a path, None if there is none. Raises ApiError, ApiUnreachable."""
        try:
            return await self.session.request("GET", where)
        except ApiError as error:
            if error.status != _GONE:
                raise
            return None

    async def find_template(self, namespace: str, name: str) -> Body | None:
        """Return a ResourceClaimTemplate, None if there is none. Raises ApiError, ApiUnreachable."""
        # It is served as claims are, and need not be watched.
        served = replace(self.served("ResourceClaim"), kind=KINDS["ResourceClaimTemplate"])
        return await self.find(served.path(namespace, name))

    async def list(self, where: str) -> list[Body]:
        """Return the objects at a path. Raises ApiError, ApiUnreachable."""
        found: list[Body] = (await self.session.request("GET", where)).get("items") or []
        return found

    async def ask(self, ask: Callable[[State], T]) -> T:
        """Return what the thread of cycles answers. Raises ApiUnreachable if no cycle runs in time."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.put(Inquiry(ask, future))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise ApiUnreachable("the operator is busy, and did not say who holds devices") from None

    async def write(self, change: Change) -> bool:
        """Send one change; return False if it is refused as its object is another by now: the next reconciliation sees.

        Raises ApiError, ApiUnreachable.
        """
        served = self.served(change.kind)
        await self.may_write()
        try:
            match change:
                case Create():
                    await self.session.request("POST", served.path(change.namespace), body=change.body)
                case Delete():
                    where = served.path(change.namespace, change.name)
                    await self.session.request("DELETE", where, body=change.wire)
                case _:
                    where = served.path(change.namespace, change.name, change.subresource)
                    await self.session.request("PATCH", where, body=change.wire, content_type=MERGE_PATCH)
        except ApiError as error:
            is_stale = error.status == _EXISTS if isinstance(change, Create) else error.status in _CONFLICTS
            if not is_stale:
                raise
            return False
        return True
