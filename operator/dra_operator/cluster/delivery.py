"""Delivery: one write, from its first request until its outcome is known.

Nothing is concluded from silence: a patch without an answer, or with a 5xx, may be stored yet; a 409 or 422 can mean
that an earlier try was stored. So the object is read back by a quorum read and compared, until it has changed or has
been as it was for a while. Preconditions make it safe to repeat a patch. A claim that takes no patch of its metadata
gets the change as an update in protobuf.
"""

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from dra_operator.api.names import FIELD_MANAGER, FINALIZER
from dra_operator.api.text import shown
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable
from dra_operator.cluster.writes import (
    Body,
    Denied,
    Patch,
    Stale,
    Stored,
    Unclear,
    Write,
    WriteOutcome,
    allocation_of,
    finalizers_of,
)

# --- Protobuf: the metadata of an object changed in the API server's own encoding, every other byte left as it is.
# A claim's opaque parameters are compacted and escaped on any way through JSON, and then its spec, which is
# immutable, has changed. In protobuf they are bytes like any others, and fields that are not known pass through
# unharmed. Source: k8s.io/apimachinery, runtime/serializer/protobuf, generated.proto of runtime and meta/v1;
# encoding/json.


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\0"
_RAW: Final = 2
"""The object itself in `runtime.Unknown`, which is its envelope; beside it stand version and kind."""
_METADATA: Final = 1
_UID: Final = 5
_RESOURCE_VERSION: Final = 6
_ANNOTATIONS: Final = 12
_FINALIZERS: Final = 14
_KEY: Final = 1
_VALUE: Final = 2

_BYTES: Final = 2
"""The wire type of text and messages."""
_NUMBER: Final = 0
_WIDTHS: Final[Mapping[int, int]] = {1: 8, 5: 4}
"""How many bytes a field of fixed length has, by its wire type."""
_LONGEST_VARINT: Final = 10


class MalformedError(ValueError):
    """This is no object in protobuf; the text says where it breaks off."""


class _Field(NamedTuple):
    """One field of a message: its number, all its bytes, and what it holds if that is text or a message."""

    number: int
    whole: bytes
    content: bytes | None


def identity_of(encoded: bytes) -> tuple[str, str]:
    """Return uid and resourceVersion of an object in its envelope. Raises MalformedError."""
    metadata = _only(_only(_opened(encoded), _RAW), _METADATA)
    uid, version = _only(metadata, _UID), _only(metadata, _RESOURCE_VERSION)
    return uid.decode(errors="replace"), version.decode(errors="replace")


def patched(encoded: bytes, metadata: Mapping[str, Any]) -> bytes:
    """Return an object in its envelope after a merge-patch of its metadata; it may name finalizers and annotations.

    Finalizers are replaced as a whole; an annotation that is None is taken off. Raises MalformedError.
    """
    assert metadata.keys() <= {"finalizers", "annotations"}
    opened = _opened(encoded)
    there = _only(opened, _RAW)
    changed = _metadata_patched(_only(there, _METADATA), metadata)
    return _MAGIC + _with(opened, _RAW, _with(there, _METADATA, changed))


def _metadata_patched(message: bytes, metadata: Mapping[str, Any]) -> bytes:
    annotations: dict[bytes, str | None] = {
        key.encode(): text for key, text in metadata.get("annotations", {}).items()
    }
    finalizers: list[str] | None = metadata.get("finalizers")
    kept = []
    for field in _fields(message):
        if field.number == _FINALIZERS and finalizers is not None:
            continue
        if field.number == _ANNOTATIONS and _key(field) in annotations:
            continue
        kept.append(field.whole)
    kept += [
        _encoded(_ANNOTATIONS, _encoded(_KEY, key) + _encoded(_VALUE, text.encode()))
        for key, text in annotations.items()
        if text is not None
    ]
    kept += [_encoded(_FINALIZERS, name.encode()) for name in finalizers or ()]
    return b"".join(kept)


def _key(entry: _Field) -> bytes:
    """Return the key of an entry of a map; one that is left out is empty, and of two the last one counts."""
    keys = [_content(field) for field in _fields(_content(entry)) if field.number == _KEY]
    return keys[-1] if keys else b""


def _opened(encoded: bytes) -> bytes:
    if not encoded.startswith(_MAGIC):
        raise MalformedError("it does not begin as an object in protobuf does")
    return encoded[len(_MAGIC) :]


def _only(message: bytes, number: int) -> bytes:
    """Return what the one field of this number holds."""
    found = [field for field in _fields(message) if field.number == number]
    if len(found) != 1:
        raise MalformedError(f"field {number} is there {len(found)} times, not once")
    return _content(found[0])


def _with(message: bytes, number: int, content: bytes) -> bytes:
    """Return a message whose one field of this number holds something else."""
    changed = _encoded(number, content)
    return b"".join(changed if field.number == number else field.whole for field in _fields(message))


def _content(field: _Field) -> bytes:
    if field.content is None:
        raise MalformedError(f"field {field.number} is a number, neither text nor a message")
    return field.content


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        content = None
        if kind == _BYTES:
            length, begin = _varint(message, at)
            at = begin + length
            content = message[begin:at]
        elif kind == _NUMBER:
            _, at = _varint(message, at)
        elif kind in _WIDTHS:
            at += _WIDTHS[kind]
        else:
            raise MalformedError(f"field {number} is of wire type {kind}, which is not known")
        if at > len(message):
            raise MalformedError(f"field {number} is cut short")
        yield _Field(number, message[start:at], content)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, seven bits in each byte, and where it ends."""
    value = 0
    for index, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise MalformedError("a number is cut short or too long")


def _encoded(number: int, content: bytes) -> bytes:
    """Return a field that holds text or a message."""
    return _encoded_varint(number << 3 | _BYTES) + _encoded_varint(len(content)) + content


def _encoded_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# --- One write to its outcome.


ATTEMPTS: Final = 6
"""How often one patch is sent while reading back says that it was not stored; then the object is decided anew."""
UNCHANGED_SECONDS: Final = 15.0
"""For how long an object must have been as it was, after a patch without a clear answer, to be decided anew; and for
how long reading it must have been forbidden: an API server that is back permits nobody anything until it has read its
roles."""
PARAMS: Mapping[str, str] = {"fieldManager": FIELD_MANAGER}

UNPATCHABLE: Final = (
    "spec: field is immutable, although nothing of it was to be changed: where a webhook changes a claim, the API "
    "server serializes its opaque parameters again, without spaces and with <, > and & escaped; create the "
    "claim again with parameters in compact JSON, as kubectl sends them, or leave claims out of the webhook"
)
_NOT_STORED: Final = ("failed calling webhook", "etcdserver: request is too large")
_DEMAND: Final = re.compile(r'requires resource="(?P<resource>[^"]+)", verb="(?P<verb>[^"]+)" permission')

Permit = Callable[[], Awaitable[None]]
"""Waits until something may be written: two operators at once must not."""
Wait: TypeAlias = Literal["away", "server", "object"]
"""What a pause is for: a server that is away, one that says when to come again, or trouble with one object."""
_Error = ApiError | ApiUnreachable


@dataclass(frozen=True, slots=True)
class Delivery:
    """How writes reach the API server.

    `may_write` is awaited before each patch and update. `pause` has a write wait for so many seconds; it raises
    CancelledError when the writer stops. `clock` is monotonic, in seconds, `random` gives numbers from 0 up to 1;
    `timeout` is the limit for one request, in seconds.
    """

    session: ApiSession
    served: Served
    may_write: Permit
    pause: Callable[[Write, float, Wait], Awaitable[None]]
    clock: Callable[[], float]
    random: Callable[[], float]
    backoff: Backoff
    timeout: float

    async def deliver(self, write: Write) -> WriteOutcome:
        """Send the patches of a write, which has at least one, and return what came of it."""
        version = write.version
        body: Body = {}
        for patch in write.patches:
            answer = await self._send(write, patch, version)
            if not isinstance(answer, dict):
                return answer
            body = answer
            version = body["metadata"]["resourceVersion"]
        return Stored(write, body)

    async def _send(self, write: Write, patch: Patch, version: str) -> Body | WriteOutcome:
        """Send one patch until its outcome is known. Return the object if the next patch may follow."""
        invalid, clear_at = False, -math.inf
        for attempt in count(1):
            if attempt <= ATTEMPTS:
                answer = await self._patch(write, patch, version)
                if isinstance(answer, dict):
                    is_done = patch.holds(answer) or _suffices(write, patch, answer)
                    return answer if is_done else _not_made(write, patch, answer)
                error, verdict = answer, _verdict(write, answer, invalid=invalid)
                if _may_be_stored(error):
                    clear_at = self.clock() + UNCHANGED_SECONDS
                elif isinstance(verdict, Stale) or (verdict and self.clock() >= clear_at):
                    return verdict
                invalid = isinstance(error, ApiError) and error.status == 422
            if attempt > 1 or not isinstance(error, ApiError) or error.status not in (409, 422):
                await self._wait(write, min(attempt, ATTEMPTS), error, is_first=attempt == 1)
            is_last = attempt >= ATTEMPTS and self.clock() >= clear_at
            current = await self._read_back(write)
            if outcome := _settled(write, patch, version, current, error):
                return outcome
            if is_last:
                return verdict or Denied(write, f"not accepted in {ATTEMPTS} attempts; {error}")
        raise AssertionError

    async def _patch(self, write: Write, patch: Patch, version: str) -> Body | _Error:
        body = patch.to_wire(write.uid, version)
        path = self.served.path(*write.key, patch.subresource)
        await self.may_write()
        try:
            return await self._request("PATCH", path, params=PARAMS, body=body, content_type=MERGE_PATCH)
        except ApiUnreachable as error:
            return error
        except ApiError as error:
            if patch.subresource or "spec" not in error.immutable:
                return error
        return await self._update(write, patch, version)

    async def _update(self, write: Write, patch: Patch, version: str) -> Body | _Error:
        """Do what a patch of metadata does to a claim that takes none: see `cluster.protobuf`."""
        path = self.served.path(*write.key)
        try:
            current = await self.session.read(path, accept=PROTOBUF, timeout=self.timeout)
            if identity_of(current) != (write.uid, version):
                return ApiError(409, "Conflict", "it has changed", verb="get", resource="resourceclaims")
            body = patched(current, patch.body["metadata"])
            await self.may_write()
            return await self._request("PUT", path, params=PARAMS, body=body, content_type=PROTOBUF)
        except MalformedError as error:
            return ApiError(200, "Malformed", str(error), verb="get", resource="resourceclaims")
        except (ApiError, ApiUnreachable) as error:
            return error

    async def _read_back(self, write: Write) -> Body | Stale | Unclear:
        """Read the object back, for as long as it takes: until then nobody knows what it holds."""
        path = self.served.path(*write.key)
        forbidden_since: float | None = None
        for attempt in count(1):
            try:
                return await self._request("GET", path)
            except ApiError as error:
                if error.status == 404 and error.is_status:
                    return Stale(write, None, "it is gone")
                if error.status != 403:
                    forbidden_since = None
                elif forbidden_since is None:
                    forbidden_since = self.clock()
                elif self.clock() >= forbidden_since + UNCHANGED_SECONDS:
                    return Unclear(write, error)
                trouble: _Error = error
            except ApiUnreachable as error:
                trouble = error
            await self._wait(write, attempt, trouble, is_first=True)
        raise AssertionError

    async def _request(self, method: str, path: str, **options: Any) -> Body:
        """Send a request and return the object that is the answer. Raises ApiError, or else ApiUnreachable."""
        answer = await self.session.request(method, path, timeout=self.timeout, **options)
        if "metadata" not in answer:
            # From something between: whether it was stored is as unknown as without an answer.
            raise ApiUnreachable(f"{method} {path}: the answer is no object, but {shown(answer)}")
        return answer

    async def _wait(self, write: Write, attempt: int, error: _Error, *, is_first: bool) -> None:
        """Wait after an error. A server that is away or overloaded is so for all; else it is this object, by a webhook.

        After the first attempt it is the object: the server has just been there to read it back.
        """
        asked = error.retry_after if isinstance(error, ApiError) else None
        wait: Wait = "object"
        if is_first and (isinstance(error, ApiUnreachable) or error.status in (401, 429, 503)):
            wait = "away" if asked is None else "server"
        await self.pause(write, self.backoff.delay(attempt, self.random, asked), wait)


def _may_be_stored(answer: _Error) -> bool:
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
    write: Write, patch: Patch, version: str, current: Body | Stale | Unclear, answer: _Error
) -> WriteOutcome | None:
    """Return what the object, read back, says of a patch; None while it is as it was, and the patch may come yet."""
    if not isinstance(current, dict):
        return current
    metadata = current["metadata"]
    if metadata["uid"] == write.uid and patch.holds(current):
        # Between the patches of a write others may have been at work: what follows is decided anew.
        is_last = write.patches[-1] == patch
        return Stored(write, current) if is_last else Stale(write, current, str(answer))
    changed = metadata["uid"] != write.uid or metadata["resourceVersion"] != version
    return Stale(write, current, str(answer)) if changed or _taken(patch, current) else None


def _verdict(write: Write, error: _Error, *, invalid: bool) -> Stale | Denied | None:
    """Return what a refusal means by itself, or None if the object must be read back to know.

    `invalid` says that the same patch was called so before: once that may be about an object that has changed.
    """
    if isinstance(error, ApiUnreachable):
        return None
    if error.is_missing_right:
        return Denied(write, error.message, error)
    if error.status == 404:
        # A proxy that does not find the API server says 404, too; whether the object exists it does not know.
        return Stale(write, None, "it is gone") if error.is_status else None
    if error.status == 409 and write.kind == "mark":
        # Single rules need not be read: the watch tells of the newer version.
        return Stale(write, None, error.message)
    if error.status == 422 and (missing := _missing_permission(error)):
        return Denied(write, error.message, missing)
    if error.status == 422 and invalid:
        return Denied(write, _in_words(error))
    if error.status in (401, 408, 409, 422, 429) or error.status >= 500:
        return None
    return Denied(write, str(error))


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


def _taken(patch: Patch, body: Body) -> bool:
    """Return whether a claim that was to be allocated has devices already, which nothing can change."""
    return patch.allocates and allocation_of(body) is not None


def _suffices(write: Write, patch: Patch, body: Body) -> bool:
    """Return whether a claim may get its devices although a policy keeps our annotation on it.

    A text that is not true any more is no reason to wait. It is told when it is to be taken off by itself.
    """
    return write.kind == "allocate" and not patch.subresource and FINALIZER in finalizers_of(body)


def _not_made(write: Write, patch: Patch, body: Body) -> WriteOutcome:
    """Return what an accepted patch means that changed nothing or something else: a webhook, probably."""
    if _taken(patch, body):
        return Stale(write, body, "another allocation was stored than the one sent")
    target = f"{write.resource}/{patch.subresource}" if patch.subresource else write.resource
    return Denied(
        write,
        f"the patch of {target} was accepted, but {patch.place} is not as sent: "
        "a mutating webhook or admission policy changes it",
    )
