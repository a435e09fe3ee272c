"""Requests to the API server: get, lists page by page.

The standard library's HTTP client, as importing aiohttp takes longer than `--help` may take (docs/decisions.md). An
answer that is cut, is not JSON or is no list is an error: it never counts as a whole one.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

import orjson

from dra_operator._version import __version__
from dra_operator.api.text import printable, shown
from dra_operator.cli.kubectl.access import UserAccess
from dra_operator.cli.kubectl.errors import RefusedError, RequestError
from dra_operator.cluster.decoding import decode

PAGE: Final = 500
"""Objects asked for at a time."""
JSON: Final = "application/json"
ATTEMPTS: Final = 3
"""How often a list is begun anew if the server forgets it, and a request sent again that it puts off."""
_LONGEST_DELAY: Final = 10.0
_LEAST_SECONDS: Final = 0.001
_MOST_BYTES: Final = 1 << 20
"""Read at once."""


class ApiClient:
    """Requests to one API server, safe to use from several threads: each has a connection of its own.

    `timeout` is in seconds, for one exchange; None waits for ever.
    """

    def __init__(self, access: UserAccess, timeout: float | None) -> None:
        self.access = access
        self._timeout = timeout
        self._address = urlsplit(access.server)
        self._local = threading.local()

    def get(self, path: str, params: Mapping[str, str] | None = None, accept: str = JSON) -> dict[str, Any]:
        """Return what is at a path. Raises RefusedError, RequestError."""
        target = f"{path}?{urlencode(params)}" if params else path
        content = self._read(target, path, accept)
        try:
            answer = decode(content)
        except orjson.JSONDecodeError as error:
            raise RequestError(
                f"{self._subject(path)}: the answer is not JSON, or was cut: {error}"
            ) from error
        if not isinstance(answer, dict):
            raise RequestError(f"{self._subject(path)}: the answer is not a JSON object")
        return answer

    def pages(
        self, path: str, params: Mapping[str, str] | None = None, accept: str = JSON
    ) -> Iterator[tuple[list[dict[str, Any]], int, str]]:
        """Yield the objects of each page of a list, how many are still to come, and the list's version.

        Raises RefusedError, with 410 if the server has forgotten the list and it has to be begun anew; RequestError.
        """
        first = {"limit": str(PAGE), **(params or {})}
        asked = first
        while True:
            page = self.get(path, asked, accept)
            metadata, items = page.get("metadata"), page.get("items")
            if (
                not isinstance(metadata, dict)
                or not metadata.get("resourceVersion")
                or "items" not in page
                or not isinstance(items, list | None)
            ):
                raise RequestError(
                    f"{self._subject(path)}: the answer is no list of objects, but {shown(page)}"
                )
            proceed = metadata.get("continue")
            yield items or [], int(metadata.get("remainingItemCount") or 0), str(metadata["resourceVersion"])
            if not proceed:
                return
            asked = {**first, "continue": proceed}

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _read(self, target: str, path: str, accept: str) -> bytes:
        for attempt in range(1, ATTEMPTS + 1):
            until = None if self._timeout is None else time.monotonic() + self._timeout
            try:
                response = self._exchange(target, path, accept)
                content = self._read_body(response, until)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                raise self._fault(path, error) from error
            if response.status == HTTPStatus.OK:
                return content
            delay = _retry_after(response)
            if delay is None or attempt == ATTEMPTS:
                raise self._refusal(path, response.status, content)
            time.sleep(min(delay, _LONGEST_DELAY))
        raise AssertionError("the last attempt returns or raises")

    def _read_body(self, response: http.client.HTTPResponse, until: float | None) -> bytes:
        """Return the whole body. Raises TimeoutError if it is not there by then, IncompleteRead if it was cut."""
        sock, parts = self._local.connection.sock, []
        while True:
            if until is not None and sock is not None:
                # A server that sends a byte now and then is waited for no longer than one that sends nothing.
                sock.settimeout(max(until - time.monotonic(), _LEAST_SECONDS))
                if time.monotonic() > until:
                    raise TimeoutError
            if not (part := response.read1(_MOST_BYTES)):
                break
            parts.append(part)
        if response.length:
            raise http.client.IncompleteRead(b"".join(parts), response.length)
        response.close()
        if sock is not None:
            sock.settimeout(self._timeout)
        return b"".join(parts)

    def _exchange(self, target: str, path: str, accept: str) -> http.client.HTTPResponse:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            try:
                return self._send(connection, target, accept)
            except (http.client.RemoteDisconnected, ConnectionError):
                # The server has closed it meanwhile, which is no fault of this request.
                connection.close()
        connection = self._local.connection = self._connect(path, self._timeout)
        return self._send(connection, target, accept)

    def _send(
        self, connection: http.client.HTTPConnection, target: str, accept: str
    ) -> http.client.HTTPResponse:
        connection.putrequest("GET", f"{self._address.path}{target}", skip_accept_encoding=True)
        for name, value in (
            ("Accept", accept),
            ("Accept-Encoding", "identity"),
            ("User-Agent", f"kubectl-dra/{__version__}"),
            *self.access.headers,
        ):
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()

    def _connect(self, path: str, timeout: float | None) -> http.client.HTTPConnection:
        """Return a new connection. Raises RequestError."""
        host, port = self._address.hostname or "", self._address.port
        tls, proxy = self.access.tls, self.access.proxy
        try:
            if proxy:
                connection = self._by_proxy(proxy, timeout)
            elif tls is not None:
                connection = _TlsConnection(host, port or 443, timeout, tls, self.access.server_name)
            else:
                connection = http.client.HTTPConnection(host, port or 80, timeout=timeout)
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            raise self._fault(path, error) from error
        except ValueError as error:
            # A name that is too long, or begins with a dot.
            text = "the name of the server, or its tls-server-name, is none that a host can have"
            raise RequestError(f"{self.access.server}: {text}") from error
        return connection

    def _by_proxy(self, proxy: str, timeout: float | None) -> http.client.HTTPConnection:
        """Return a connection by the tunnel of a proxy. Raises RequestError for one that nobody here speaks to."""
        scheme, mark, rest = proxy.partition("://")
        try:
            address = urlsplit(f"//{rest if mark else proxy}")
            port_of_proxy = address.port or 80
        except ValueError:
            # What follows a colon may be a password.
            raise RequestError("proxy-url is no address such as http://proxy:3128") from None
        if (mark and scheme.lower() != "http") or not address.hostname:
            # What follows may be a password.
            raise RequestError(
                f"a proxy that begins with {scheme}:// is not supported: name one with http://"
            )
        host, port = self._address.hostname or "", self._address.port
        if self.access.tls is None:
            raise RequestError("a server without https is not asked by a proxy: leave out proxy-url")
        server_name = self.access.server_name or host
        connection = _TlsConnection(address.hostname, port_of_proxy, timeout, self.access.tls, server_name)
        headers = {}
        if address.username:
            from base64 import b64encode

            pair = f"{unquote(address.username)}:{unquote(address.password or '')}".encode()
            headers["Proxy-Authorization"] = f"Basic {b64encode(pair).decode()}"
        connection.set_tunnel(host, port or 443, headers)
        return connection

    def _subject(self, path: str) -> str:
        return f"{self.access.server}{path}"

    def _refusal(self, path: str, status: int, content: bytes) -> Exception:
        try:
            answer = json.loads(content)
        except (ValueError, UnicodeDecodeError):
            answer = None
        is_status = isinstance(answer, dict) and answer.get("kind") == "Status"
        if is_status:
            message = str(answer.get("message") or answer.get("reason") or status)
        else:
            text = " ".join(content[:200].decode(errors="replace").split())
            message = f"{self._subject(path)}: {status}: {printable(text) or 'an empty answer'}"
        if status == HTTPStatus.UNAUTHORIZED:
            server = self.access.server
            message = f"{server}: the credentials are not accepted (401): log in again, or choose a --context"
        return RefusedError(status, message, is_status=is_status)

    def _fault(self, path: str, error: Exception) -> RequestError:
        subject = self._subject(path)
        if isinstance(error, TimeoutError):
            seconds = f"{self._timeout:g} s" if self._timeout else "the time that the system gives"
            return RequestError(
                f"{subject}: no answer in {seconds}: try again, or give it longer with --request-timeout"
            )
        if isinstance(error, http.client.IncompleteRead):
            return RequestError(f"{subject}: the connection was cut in the middle of the answer: try again")
        if isinstance(error, ssl.SSLCertVerificationError):
            return RequestError(
                f"{self.access.server}: its certificate is not trusted: {error.verify_message}"
            )
        if isinstance(error, socket.gaierror):
            return RequestError(f"{self.access.server}: no such host: {error.strerror}")
        if isinstance(error, ConnectionRefusedError):
            return RequestError(
                f"{self.access.server}: connection refused: is it running, and is it the right --context?"
            )
        return RequestError(
            f"{subject}: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
        )


class _TlsConnection(http.client.HTTPSConnection):
    """A connection by TLS to a server that may have another name in its certificate."""

    def __init__(
        self, host: str, port: int, timeout: float | None, context: ssl.SSLContext, server_name: str | None
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._server_name = server_name

    def connect(self) -> None:
        """Connect, by the tunnel of a proxy if there is one."""
        http.client.HTTPConnection.connect(self)
        name = self._server_name or self.host
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=name)


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    """Return how many seconds the server asks us to wait before the same request, None if it does not."""
    if response.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return None
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return None
