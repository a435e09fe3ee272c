"""Delivery: one write, from its first request until its outcome is known.

Nothing is concluded from silence: a patch without an answer, or with a 5xx, may be stored yet; a 409 or 422 can mean
that an earlier try was stored. So the claim is read back by a quorum read and compared. Preconditions make it safe to
repeat a patch until it is answered, or can no longer be stored. A claim that takes no patch of its metadata gets the
change as an update in protobuf.
"""

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import structlog

from dra_operator.api.names import FIELD_MANAGER, FINALIZER
from dra_operator.api.text import shown
from dra_operator.cluster import writes
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.patches import Body, Patch, allocation_of, finalizers_of
from dra_operator.cluster.protobuf import PROTOBUF, MalformedError, identity_of, patched
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 6
"""How often one patch is sent while reading back says that it was not stored; then the claim is decided
anew."""
TOLD_SECONDS: Final = 600.0
"""How often it is told from then on that a patch gets no clear answer."""
DOUBT_SECONDS: Final = 120.0
"""How long a patch without a clear answer may still be stored after we have given it up: a minute that a proxy may hold
it for, and one that the API server may take (`--request-timeout`, 60 s), however short our own limit is. For as long
one that gets nothing but errors is repeated."""
ROLES_SECONDS: Final = 30.0
"""How long an API server that is back may take to read its roles; until then it permits nobody anything."""
PARAMS: Mapping[str, str] = {"fieldManager": FIELD_MANAGER}


UNPATCHABLE: Final = (
    "spec: field is immutable, although nothing of it was to be changed: where a webhook changes a claim, the API "
    "server serializes its opaque parameters again, without spaces and with <, > and & escaped; create the "
    "claim again with parameters in compact JSON, as kubectl sends them, or leave claims out of the webhook"
)
_NOT_STORED: Final = ("failed calling webhook", "etcdserver: request is too large")
_DEMAND: Final = re.compile(r'requires resource="(?P<resource>[^"]+)", verb="(?P<verb>[^"]+)" permission')


class Wait(Enum):
    """What a pause is for: a server that is away for everybody, one that asks us to wait, or trouble with one claim.

    Where a claim cannot be read, that may be due to either.
    """

    AWAY = "away"
    SERVER = "server"
    CLAIM = "claim"
    UNREAD = "unread"

    @property
    def is_of_all(self) -> bool:
        """True if writes to other claims would fare no better."""
        return self in (Wait.AWAY, Wait.SERVER)

    @property
    def ends_with_outage(self) -> bool:
        """True if the pause is over when the server has answered somebody."""
        return self in (Wait.AWAY, Wait.UNREAD)


Pause = Callable[[writes.Write, float, Wait], Awaitable[None]]
"""Has a write wait for so many seconds; raises CancelledError when the writer stops."""
Permit = Callable[[], Awaitable[None]]
"""Waits until something may be written: two operators at once must not."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How writes reach the API server.

    `may_write` is awaited before each patch and update. `tell` is told what does not settle a write. `pause` waits,
    `clock` is monotonic, in seconds, `random` gives numbers from 0 up to 1; `timeout` is the limit for one request, in
    seconds.
    """

    session: ApiSession
    served: Served
    may_write: Permit
    tell: Callable[[writes.WriteOutcome], None]
    pause: Pause
    clock: Callable[[], float]
    random: Callable[[], float]
    backoff: Backoff
    timeout: float

    async def deliver(self, write: writes.Write) -> writes.WriteOutcome:
        """Send the patches of a write, which has at least one, and return what came of it."""
        version = write.resource_version
        body: Body = {}
        for step in writes.steps(write):
            answer = await self._send(write, step, version)
            if not isinstance(answer, dict):
                return answer
            body = answer
            version = body["metadata"]["resourceVersion"]
        return writes.Written(write, body)

    async def _send(self, write: writes.Write, step: Patch, version: str) -> Body | writes.WriteOutcome:
        """Send one patch until its outcome is known. Return the claim if the next patch may follow."""
        attempt = 0
        invalid, verdict = False, None
        begun, doubtful_until, told_at = self.clock(), -math.inf, -math.inf
        while True:
            attempt += 1
            answer = await self._patch(write, step, version)
            if isinstance(answer, dict):
                return (
                    answer
                    if step.holds(answer) or _suffices(write, step, answer)
                    else _not_made(write, step, answer)
                )
            if isinstance(answer, ApiError):
                verdict = _verdict(write, answer, invalid=invalid)
                if isinstance(verdict, writes.Gone) or (verdict and self.clock() >= doubtful_until):
                    return verdict
                if answer.status == 429 and attempt < ATTEMPTS:
                    await self.pause(write, self._delay(attempt, answer), Wait.SERVER)
                    continue
                invalid = answer.status == 422
            else:
                # It may still be on its way, and be stored after we have read the claim: it is repeated until it is
                # answered, as it can succeed but once. How long that is in error counts from then on.
                begun = self.clock()
            if doubtful := _may_be_stored(answer):
                doubtful_until = self.clock() + DOUBT_SECONDS
            if attempt > 1 or not isinstance(answer, ApiError) or answer.status not in (409, 422):
                await self.pause(write, self._delay(attempt, answer), _reason_to_wait(answer, attempt))
            current = await self._read_back(write, doubtful_until)
            if outcome := _settled(write, step, version, current, answer):
                return outcome
            if attempt >= ATTEMPTS and isinstance(answer, ApiError):
                if self.clock() >= doubtful_until:
                    return verdict or _given_up(write, current, answer)
                if doubtful and self.clock() >= begun + DOUBT_SECONDS:
                    return await self._wait_out(write, step, version, doubtful_until, answer)
            if attempt >= ATTEMPTS and self.clock() >= told_at + TOLD_SECONDS:
                told_at = self.clock()
                log.warning(
                    "write without an answer",
                    resource=write.resource,
                    object=f"{write.namespace}/{write.name}",
                    why=str(answer),
                )
                self.tell(writes.Unanswered(write, str(answer)))

    async def _wait_out(
        self,
        write: writes.Write,
        step: Patch,
        version: str,
        until: float,
        answer: ApiError | ApiUnreachable,
    ) -> writes.WriteOutcome:
        """Send the patch no more, and read the claim until none that was sent may be stored any more."""
        while True:
            await self.pause(write, self._delay(ATTEMPTS, answer), Wait.CLAIM)
            over = self.clock() >= until
            current = await self._read_back(write, until)
            if outcome := _settled(write, step, version, current, answer):
                return outcome
            if over:
                return _given_up(write, current, answer)

    async def _patch(
        self, write: writes.Write, step: Patch, version: str
    ) -> Body | ApiError | ApiUnreachable:
        patch = step.to_wire(write.uid, version)
        path = self.served.path(write.namespace, write.name, step.subresource)
        await self.may_write()
        try:
            return await self._request("PATCH", path, params=PARAMS, body=patch, content_type=MERGE_PATCH)
        except ApiUnreachable as error:
            return error
        except ApiError as error:
            if step.subresource or "spec" not in error.immutable:
                return error
        return await self._update(write, step, version)

    async def _update(
        self, write: writes.Write, step: Patch, version: str
    ) -> Body | ApiError | ApiUnreachable:
        """Do what a patch of metadata does to a claim that takes none: see `cluster.protobuf`."""
        path = self.served.path(write.namespace, write.name)
        try:
            current = await self.session.read(path, accept=PROTOBUF, timeout=self.timeout)
            if identity_of(current) != (write.uid, version):
                return ApiError(409, "Conflict", "it has changed", verb="get", resource="resourceclaims")
            body = patched(current, step.body["metadata"])
            await self.may_write()
            return await self._request("PUT", path, params=PARAMS, body=body, content_type=PROTOBUF)
        except MalformedError as error:
            return ApiError(200, "Malformed", str(error), verb="get", resource="resourceclaims")
        except (ApiError, ApiUnreachable) as error:
            return error

    async def _read_back(self, write: writes.Write, doubtful_until: float) -> Body | writes.WriteOutcome:
        """Read the claim back, for as long as it takes: until then nobody knows what it holds.

        That it may not be read is an answer, but not while a patch may still be stored. So says an API server, too,
        that was just started and has not read its roles yet, which it does in a moment; however long it was away, what
        was stored before is not known either.
        """
        path = self.served.path(write.namespace, write.name)
        attempt, away, until = 0, False, doubtful_until
        while True:
            attempt += 1
            try:
                return await self._request("GET", path)
            except ApiError as error:
                if error.status == 404 and error.is_status:
                    return writes.Gone(write)
                if error.status == 403 and away:
                    attempt, away, until = 1, False, max(until, self.clock() + ROLES_SECONDS)
                if error.status == 403 and self.clock() >= until:
                    return writes.Forbidden(write, error)
                trouble: ApiError | ApiUnreachable = error
            except ApiUnreachable as error:
                trouble = error
            away = away or _may_be_away(trouble)
            await self.pause(write, self._delay(attempt, trouble), _reason_to_read_later(trouble))

    async def _request(self, method: str, path: str, **options: Any) -> Body:
        """Send a request and return the object that is the answer. Raises ApiError, or else ApiUnreachable."""
        answer = await self.session.request(method, path, timeout=self.timeout, **options)
        if "metadata" not in answer:
            # From something between: whether it was stored is as unknown as without an answer.
            raise ApiUnreachable(f"{method} {path}: the answer is no object, but {shown(answer)}")
        return answer

    def _delay(self, attempt: int, error: ApiError | ApiUnreachable) -> float:
        asked = error.retry_after if isinstance(error, ApiError) else None
        return self.backoff.delay(attempt, self.random, asked)


def _may_be_stored(answer: ApiError | ApiUnreachable) -> bool:
    """Return whether a patch with this answer, or none, may have been stored, or may be yet.

    Errors of the server may come from a proxy, or from an API server that gave up waiting for etcd. Only of a webhook
    that failed it is known that it is called before anything is stored, and of etcd that it looks at the size first.
    Source: k8s.io/apiserver, admission webhooks; go.etcd.io/etcd/server, v3_server.
    """
    if isinstance(answer, ApiUnreachable):
        return True
    is_known = any(text in answer.message for text in _NOT_STORED)
    return answer.status == 408 or (answer.status >= 500 and not is_known)


def _settled(
    write: writes.Write,
    step: Patch,
    version: str,
    current: Body | writes.WriteOutcome,
    answer: ApiError | ApiUnreachable,
) -> writes.WriteOutcome | None:
    """Return what the claim, read back, says of a patch; None while it is as it was, and the patch may come yet."""
    if not isinstance(current, dict):
        return current
    metadata = current["metadata"]
    if metadata["uid"] == write.uid and step.holds(current):
        # Between the patches of a write others may have been at work: what follows is decided anew.
        last = writes.steps(write)[-1] == step
        return writes.Written(write, current) if last else writes.Conflict(write, current, str(answer))
    changed = metadata["uid"] != write.uid or metadata["resourceVersion"] != version
    return writes.Conflict(write, current, str(answer)) if changed or _taken(step, current) else None


def _given_up(
    write: writes.Write, current: Body | writes.WriteOutcome, answer: ApiError | ApiUnreachable
) -> writes.Unaccepted:
    """Return what a patch is that was not accepted and cannot be stored any more, of a claim that is as it was."""
    body = current if isinstance(current, dict) else None
    return writes.Unaccepted(write, body, f"not accepted in {ATTEMPTS} attempts or more; {answer}")


def _verdict(
    write: writes.Write, error: ApiError, *, invalid: bool
) -> writes.Gone | writes.Forbidden | writes.Refused | None:
    """Return what a refusal means by itself, or None if the claim must be read back to know.

    `invalid` says that the same patch was called so before: once that may be about a claim that has changed.
    """
    if error.is_missing_right:
        return writes.Forbidden(write, error)
    if error.status == 404:
        # A proxy that does not find the API server says 404, too; whether the claim exists it does not know.
        return writes.Gone(write) if error.is_status else None
    if error.status == 422 and (missing := _missing_permission(error)):
        return writes.Forbidden(write, missing)
    if error.status == 422 and invalid:
        return writes.Refused(write, _in_words(error))
    if error.status in (401, 408, 409, 422, 429) or error.status >= 500:
        return None
    return writes.Refused(write, str(error))


def _in_words(error: ApiError) -> str:
    """Return what a refusal says, or what it means where that is long and does not say it.

    No write of ours touches the spec. But a webhook that changes a claim makes JSON of an update, too, and then the API
    server finds the spec changed; before 1.37 it shows all of it. Source: k8s.io/apiserver,
    admission/plugin/webhook/mutating.
    """
    if "spec" in error.immutable:
        return UNPATCHABLE
    return error.message or str(error)


def _missing_permission(error: ApiError) -> ApiError | None:
    """Return a 422 for lack of a permission as what it is.

    Who may write `status` but not bind claims to devices is told so by validation, in words, and not by a
    403. Source: k8s.io/kubernetes/pkg/registry/resource/resourceclaim, authorization of status updates, since
    1.36.
    """
    demanded = _DEMAND.search(error.message)
    if demanded is None:
        return None
    return ApiError(403, "Forbidden", error.message, verb=demanded["verb"], resource=demanded["resource"])


def _taken(step: Patch, body: Body) -> bool:
    """Return whether a claim that was to be allocated has devices already, which nothing can change."""
    return step.allocates and allocation_of(body) is not None


def _suffices(write: writes.Write, step: Patch, body: Body) -> bool:
    """Return whether a claim may get its devices although a policy keeps our annotation on it.

    A text that is not true any more is no reason to wait. It is told when it is to be taken off by itself.
    """
    is_first = isinstance(write, writes.AllocateWrite) and not step.subresource
    return is_first and FINALIZER in finalizers_of(body)


def _not_made(write: writes.Write, step: Patch, body: Body) -> writes.WriteOutcome:
    """Return what an accepted patch means that changed nothing or something else: a webhook, probably."""
    if _taken(step, body):
        return writes.Conflict(write, body, "another allocation was stored than the one sent")
    target = f"{write.resource}/{step.subresource}" if step.subresource else write.resource
    return writes.Refused(
        write,
        f"the patch of {target} was accepted, but {step.place} is not as sent: "
        "a mutating webhook or admission policy changes it",
    )


def _reason_to_wait(error: ApiError | ApiUnreachable, attempt: int) -> Wait:
    """Tell a server that is away or overloaded from one that fails on this claim, e.g. by a webhook.

    From the second attempt on it is the claim: the server has just been there to read it back.
    """
    if attempt > 1 or (isinstance(error, ApiError) and error.status not in (401, 429, 503)):
        return Wait.CLAIM
    return Wait.AWAY if _may_be_away(error) else Wait.SERVER


def _reason_to_read_later(error: ApiError | ApiUnreachable) -> Wait:
    """Tell the same of a claim that cannot be read back.

    A server whose etcd is away answers 500, and so does one that cannot decode what is stored of this claim.
    """
    wait = _reason_to_wait(error, 1)
    return Wait.UNREAD if wait is Wait.CLAIM and _may_be_away(error) else wait


def _may_be_away(error: ApiError | ApiUnreachable) -> bool:
    """True if an error may end with an outage. A server that says when to come again means it."""
    return isinstance(error, ApiUnreachable) or (error.status >= 500 and error.retry_after is None)
