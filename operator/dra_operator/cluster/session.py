"""The session: one HTTP client for everything that we ask the API server.

A thin layer over aiohttp, since writes bound the operator: a PATCH costs a fifth of that of the generated clients
(docs/kopf.md). Credentials are renewed when due and once after a 401; a refusal becomes an `ApiError` that names
verb and resource in RBAC's words, every other failure `ApiUnreachable`: the outcome is unknown.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

import aiohttp
import orjson
import structlog

from dra_operator._version import __version__
from dra_operator.cluster.backoff import Outage
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.decoding import decode, encode

log = structlog.get_logger(__name__)

MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = f"dra-operator/{__version__}"
CONNECT_SECONDS = 10.0
RENEWAL_SECONDS = 15.0
"""How long a request waits for credentials to be read again before it goes out with the old ones."""

NO_ANSWER = "none"
"""Stands for the status of an answer where none came."""

Answered: TypeAlias = Callable[[str, str, str, float], None]
"""Is told of each request: verb and resource in RBAC's words, the status of the answer, seconds until it began."""

_AUTHORIZER = re.compile(r'User "[^"]*" cannot ')
_NO_HEADERS: Mapping[str, str] = {}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ApiError(Exception):
    """The API server refused a request. `retry_after` is in seconds, None if it gave none.

    `verb` and `resource` are those of RBAC: `patch`, `resourceclaims/status`. `is_status` says that the answer was a
    Status, as every refusal of the API server for an object is, and not a page of a proxy; `is_namespace_gone` that
    nothing can be made in the namespace any more, which is deleted or being deleted. `immutable` are the fields that
    would change and must not.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        verb: str = "",
        resource: str = "",
        is_status: bool = True,
        is_namespace_gone: bool = False,
        immutable: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(f"{verb} {resource}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.verb = verb
        self.resource = resource
        self.is_status = is_status
        self.is_namespace_gone = is_namespace_gone
        self.immutable = immutable

    @property
    def is_missing_right(self) -> bool:
        """True if the authorizer says no, and not admission, which answers 403 as well.

        A webhook that denies one user's claim, or a namespace that is being terminated, is no right that the
        operator lacks. Source: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters, `forbiddenMessage`.
        """
        return self.status == 403 and _AUTHORIZER.search(self.message) is not None


class ApiUnreachable(Exception):  # noqa: N818 - it says what is known
    """No answer that could be understood came back; whether the request took effect is unknown."""


class ApiSilent(ApiUnreachable):
    """A stream that was accepted said nothing for too long: it is dead, or there was nothing to say."""


class Trouble(NamedTuple):
    """Why something cannot be had: of what sort that is, in a word, and what was said.

    What one outage brings about is of one sort, whatever was asked.
    """

    sort: str
    why: str

    @classmethod
    def from_error(cls, error: Exception, why: str = "") -> Self:
        """Return the trouble that an error tells of, in its own words or in others."""
        if isinstance(error, ApiUnreachable) or (isinstance(error, ApiError) and error.status >= 500):
            sort = "away"
        else:
            sort = str(error.status) if isinstance(error, ApiError) else type(error).__name__
        return cls(sort, why or str(error))


def _nobody(_verb: str, _resource: str, _status: str, _seconds: float) -> None:
    """Be told of a request, and do nothing about it."""


class ApiSession:
    """Requests to one API server. Create it inside a running event loop and close it, or use `async with`."""

    def __init__(
        self,
        access: Access,
        user_agent: str = USER_AGENT,
        *,
        renewal_timeout: float = RENEWAL_SECONDS,
        answered: Answered = _nobody,
    ) -> None:
        self.access = access
        self.outage = Outage()
        """Whether the server has answered of late, as all requests have seen it."""
        self._answered = answered
        self._renewal = asyncio.Lock()
        self._renewals = 0
        self._renewal_timeout = renewal_timeout
        self._reload: asyncio.Task[None] | None = None
        self._http = aiohttp.ClientSession(
            # Watches hold a connection each; concurrency is bounded where it is decided, not here.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=open_socket),
            # Compressing lists costs both sides more time than a cluster's network saves.
            headers={"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, and wait for credentials no more."""
        if self._reload is not None:
            # Kopf waits five seconds for tasks that go on when all is stopped.
            self._reload.cancel()
            await asyncio.wait({self._reload})
        await self._http.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = 60,  # noqa: ASYNC109 - it is the limit of one exchange
    ) -> dict[str, Any]:
        """Send one request and return the answer, decoded from JSON. A body of bytes is sent as it is.

        `timeout` is in seconds, for the whole exchange.
        Raises ApiError if the server refused, ApiUnreachable if no readable answer came.
        """
        data = body if body is None or isinstance(body, bytes) else encode(body)
        headers = {} if body is None else {"Content-Type": content_type}
        content = await self._exchange(method, path, params, timeout, data=data, headers=headers)
        return _decode(method, path, content)

    async def read(self, path: str, *, accept: str, timeout: float = 60) -> bytes:  # noqa: ASYNC109 - as above
        """Get an object in the encoding that `accept` names, and return its bytes.

        Raises as `request` does; but a Status in another encoding than JSON is only known by its code.
        """
        return await self._exchange("GET", path, None, timeout, headers={"Accept": accept})

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        timeout: float,  # noqa: ASYNC109 - as above
        *,
        data: bytes | None = None,
        headers: Mapping[str, str],
    ) -> bytes:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        with _network_faults(method, path):
            # Of credentials, too, that are read again, which may be a program that hangs.
            async with (
                asyncio.timeout(timeout),
                self._accepted(method, path, params, limits, data=data, headers=headers) as response,
            ):
                return await response.read()

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; the block gets the lines of the answer as they come.

        Raises ApiError if the server refused, ApiUnreachable if the connection breaks, ApiSilent if `idle_timeout`
        seconds pass without a byte. The lines simply end where the server ends the watch.
        """
        # A proxy that is asked for a connection may be silent as well.
        limits = aiohttp.ClientTimeout(
            connect=idle_timeout, sock_connect=CONNECT_SECONDS, sock_read=idle_timeout
        )
        with _network_faults("GET", path):
            async with self._accepted("GET", path, params, limits) as response:
                yield _lines(path, response.content, idle_timeout)

    @contextlib.asynccontextmanager
    async def _accepted(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        limits: aiohttp.ClientTimeout,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, once more with fresh credentials after a 401, and yield a good answer."""
        if self.access.due():
            await self._renew(self._renewals)
        renewals = self._renewals
        verb, resource = describe(method, path, params or {})
        for attempt in (1, 2):
            status, begun = NO_ANSWER, time.monotonic()
            try:
                async with self._http.request(
                    method,
                    f"{self.access.server}{path}",
                    params=params,
                    data=data,
                    headers={**headers, **self.access.headers()},
                    timeout=limits,
                    allow_redirects=False,
                    # Of connections that wait to be used again it gets one that was made with the same context.
                    ssl=True if self.access.ssl is None else self.access.ssl,
                    server_hostname=self.access.server_name,
                    proxy=self.access.proxy,
                ) as response:
                    status = str(response.status)
                    self._answered(verb, resource, status, time.monotonic() - begun)
                    if response.status < 300:
                        self.outage.answered()
                        yield response
                        return
                    if response.status >= 500:
                        self.outage.lost()
                    if response.status != 401 or attempt == 2:
                        raise _refusal(verb, resource, response, await response.read())
            except aiohttp.ClientSSLError:
                # An authority may have been replaced, on both sides, and here not been read yet.
                self.access.hasten()
                raise
            finally:
                if status == NO_ANSWER:
                    self.outage.lost()
                    self._answered(verb, resource, status, time.monotonic() - begun)
            await self._renew(renewals)

    async def _renew(self, renewals: int) -> None:
        """Read the credentials again, unless another request did so since it saw `renewals` of them.

        An exec plugin may hang. It is waited for once; then requests go on with the old credentials, and no
        second one is started beside it, as long as it hangs.
        """
        async with self._renewal:
            if self._renewals != renewals or (self._reload is not None and not self._reload.done()):
                return
            if self.access.has_failed():
                # With credentials that have expired each request gets a 401, and would start a plugin.
                return
            self._reload = asyncio.create_task(in_thread("credentials", self.access.reload))
            # Whoever waits may have no time left before it is done.
            self._reload.add_done_callback(_check_answer)
            await asyncio.wait({self._reload}, timeout=self._renewal_timeout)
            self._renewals += 1
            if not self._reload.done() and not self.access.has_failed():
                log.warning("credentials take long to read, the old ones stay in use")


def _check_answer(reload: asyncio.Task[None]) -> None:
    """Take note of how a reading ended, or asyncio would complain; what it has to say it has said."""
    if not reload.cancelled():
        reload.exception()


@contextlib.contextmanager
def _network_faults(method: str, path: str, idle: float | None = None) -> Iterator[None]:
    """Turn everything that can go wrong on a network into ApiUnreachable; a stream is silent after `idle` seconds."""
    try:
        yield
    except TimeoutError as error:
        if idle is not None:
            raise ApiSilent(f"{method} {path}: silent for {idle:g} s") from error
        raise ApiUnreachable(f"{method} {path}: no answer in time") from error
    except aiohttp.ClientPayloadError as error:
        # Its own words are those of the parser ("400, ..."), and read as if the server had refused something.
        raise ApiUnreachable(
            f"{method} {path}: the connection was cut in the middle of the answer"
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ApiUnreachable(f"{method} {path}: {_words(error)}") from error


def _words(error: Exception) -> str:
    """Return what a fault of the network says.

    Where there is no connection aiohttp's own words show an object in memory, and leave out why that is.
    """
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__
    cause = error.os_error
    if cause.errno and not isinstance(cause, ssl.SSLError | socket.gaierror):
        why = os.strerror(cause.errno)
    else:
        why = cause.strerror or str(cause)
    return f"cannot connect to {error.host}:{error.port}: {why}"


async def _lines(path: str, content: aiohttp.StreamReader, idle_timeout: float) -> AsyncIterator[bytes]:
    """Cut a stream into lines of any length; aiohttp's own limit is shorter than a slice of many devices."""
    with _network_faults("GET", path, idle_timeout):
        head: list[bytes] = []
        async for chunk in content.iter_any():
            first, *others = chunk.split(b"\n")
            head.append(first)
            if not others:
                continue
            yield b"".join(head)
            *whole, last = others
            for line in whole:
                yield line
            head = [last]
        if rest := b"".join(head):
            yield rest


def _decode(method: str, path: str, content: bytes) -> dict[str, Any]:
    try:
        answer = decode(content)
    except orjson.JSONDecodeError as error:
        # A proxy's page, or an answer cut short: the request may well have taken effect.
        raise ApiUnreachable(f"{method} {path}: the answer is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise ApiUnreachable(f"{method} {path}: the answer is not a JSON object")
    return answer


def _refusal(verb: str, resource: str, response: aiohttp.ClientResponse, content: bytes) -> ApiError:
    try:
        status = orjson.loads(content)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):
        status = {"message": content[:500].decode(errors="replace").strip()}
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    return ApiError(
        response.status,
        str(status.get("reason") or response.reason or ""),
        str(status.get("message") or ""),
        retry_after=_retry_after(response, details),
        verb=verb,
        resource=resource,
        is_status=status.get("kind") == "Status",
        is_namespace_gone=_is_namespace_gone(response.status, details),
        immutable=frozenset(
            str(cause.get("field"))
            for cause in _causes(details)
            if str(cause.get("message")).endswith("field is immutable")
        ),
    )


def _causes(details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    causes = details.get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


def _is_namespace_gone(code: int, details: Mapping[str, Any]) -> bool:
    """Return whether a refusal says that the namespace is being terminated (403), or is not there (404).

    Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
    """
    if code == 404:
        return details.get("kind") == "namespaces"
    return any(cause.get("reason") == "NamespaceTerminating" for cause in _causes(details))


def _retry_after(response: aiohttp.ClientResponse, details: Mapping[str, Any]) -> float | None:
    """Return how many seconds the server asks us to wait, in its header or in the details of its Status."""
    given = response.headers.get("Retry-After") or details.get("retryAfterSeconds")
    try:
        return max(0.0, float(given)) if given else None
    except (TypeError, ValueError):
        return None  # the header may also be a date, which API servers never send


def describe(method: str, path: str, params: Mapping[str, str]) -> tuple[str, str]:
    """Return verb and resource of a request as RBAC names them, e.g. `("patch", "resourceclaims/status")`."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if not rest:
        return "get", path
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
    if method != "GET":
        return _VERBS.get(method, method.lower()), resource
    if len(rest) > 1:
        return "get", resource
    return ("watch" if params.get("watch") else "list"), resource


# --- Connections that notice when the other end has gone, and threads that the end of the process does not wait for.
# A node of the control plane that loses its power says nothing to anybody. So the kernel asks every few seconds whether
# somebody is there, and waits no longer for what is sent to be acknowledged.
# Source: tcp(7); Go's net.Dialer and client-go ask in the same way, every 15 and 30 seconds.

ASK_SECONDS: Final = 5
"""How long a connection is silent before it is asked, and how long from one time to the next."""
GONE_SECONDS: Final = 15
"""How long nothing is acknowledged before the connection is given up."""
_OPTIONS: Final = {
    "TCP_KEEPIDLE": ASK_SECONDS,
    "TCP_KEEPINTVL": ASK_SECONDS,
    "TCP_KEEPCNT": GONE_SECONDS // ASK_SECONDS,
    "TCP_USER_TIMEOUT": GONE_SECONDS * 1000,
}
"""Each system has some of these, and may refuse what it has: then it is as slow to notice as its kernel is."""


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a new socket for an address as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:
            with contextlib.suppress(OSError):
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


_T = TypeVar("_T")


async def in_thread(name: str, work: Callable[[], _T]) -> _T:
    """Do some work in a thread of its own, which has that name, and return or raise what comes of it.

    Who is cancelled here waits no more; the thread goes on.
    """
    done = concurrent.futures.Future[_T]()
    # Whoever is not interested any more must not take the place away where the answer goes.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where this is awaited
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(done)
