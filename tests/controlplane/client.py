"""A plain client for tests: one request, one answer, nothing hidden.

kubectl takes a tenth of a second a call and prints for people; the operator's own session is what is being
tested. So tests read and write objects with this: the standard library's HTTP client, the status code beside
the body.
"""

import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_operator.cluster.decoding import decode

MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""What comes of a request on a connection that the server had closed: it has not seen the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """True for a status code of success."""
        return 200 <= self.status < 300


class RefusedError(AssertionError):
    """A request that had to succeed did not."""


class Client:
    """Requests to one API server in the name of one user.

    Connections are kept: to open one takes longer than most requests. One that the server has closed meanwhile, as when
    it was restarted, is opened anew.
    """

    def __init__(self, server: str, token: str, authority: Path) -> None:
        self._address = urllib.parse.urlsplit(server)
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._idle: list[http.client.HTTPSConnection] = []

    def __del__(self) -> None:
        """Close what is open."""
        for connection in self._idle:
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        seconds: float = 90,
    ) -> Answer:
        """Send one request and return the answer whatever it is; network faults are raised as they come."""
        status, content = self._ask(
            method, path, body, content_type=content_type, query=query, seconds=seconds
        )
        for read in (json.loads, decode):
            try:
                return Answer(status, read(content) if content else None)
            except (ValueError, RecursionError):
                continue
        return Answer(status, content.decode(errors="replace"))

    def get(self, path: str, **query: str) -> Any:
        """Return an object or a list; raise `RefusedError` when there is none."""
        return self._succeed("GET", path, None, query=query)

    def create(self, path: str, body: Any) -> Any:
        """Create an object in the collection at `path` and return it as stored."""
        return self._succeed("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        """Merge-patch the object at `path` and return it as stored."""
        return self._succeed("PATCH", path, body, content_type=MERGE_PATCH)

    def replace(self, path: str, body: Any) -> Any:
        """Put `body` in the place of the object at `path` and return it as stored."""
        return self._succeed("PUT", path, body)

    def bytes_of(self, path: str) -> bytes:
        """Return an object in protobuf, with every byte as it is stored; raise `RefusedError` when there is none."""
        return self._exchange("GET", path, None)

    def replace_bytes(self, path: str, encoded: bytes) -> None:
        """Put an object in protobuf in the place of the one at `path`."""
        self._exchange("PUT", path, encoded)

    def delete(self, path: str) -> None:
        """Delete the object or the collection at `path`; one that is not there is no error."""
        answer = self.request("DELETE", path)
        if not answer.ok and answer.status != 404:
            raise RefusedError(f"DELETE {path}: {answer.status} {answer.body}")

    def watch(self, path: str, *, seconds: float, **query: str) -> Iterator[tuple[str, Any]]:
        """Yield (type, object) of the changes at `path` until the server ends the watch after `seconds`."""
        parameters = {"watch": "true", "timeoutSeconds": str(max(1, int(seconds))), **query}
        connection = self._connection(seconds + 10)
        try:
            response = self._send(connection, "GET", path, query=parameters)
            if response.status != 200:
                raise RefusedError(f"watch {path}: {response.status} {response.read().decode()}")
            while line := response.readline():
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def wait_for(
        self, path: str, condition: Callable[[Any], Any], *, seconds: float = 90, what: str = "the condition"
    ) -> Any:
        """Read the object at `path` until `condition(object)` is true and return the object.

        An object that does not exist is None. Raises `AssertionError` with the last state when time is up.
        """
        deadline = time.monotonic() + seconds
        while True:
            answer = self.request("GET", path)
            found = answer.body if answer.ok else None
            if (answer.ok or answer.status == 404) and condition(found):
                return found
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{path}: {what} did not come true in {seconds:g} s:\n{json.dumps(found, indent=1)}"
                )
            time.sleep(0.05)

    def _succeed(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        answer = self.request(method, path, body, content_type=content_type, query=query)
        if not answer.ok:
            raise RefusedError(f"{method} {path}: {answer.status} {answer.body}")
        return answer.body

    def _exchange(self, method: str, path: str, encoded: bytes | None) -> bytes:
        """Send and take protobuf."""
        status, answer = self._ask(
            method, path, encoded, content_type=PROTOBUF, accept=PROTOBUF, query=None, seconds=30
        )
        if status != 200:
            raise RefusedError(f"{method} {path}: {status} {answer!r}")
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str,
        accept: str = JSON,
        query: Mapping[str, str] | None,
        seconds: float,
    ) -> tuple[int, bytes]:
        """Return status and content of the answer to a request."""
        while True:
            kept = self._idle.pop() if self._idle else None
            connection = kept or self._connection(seconds)
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(seconds)
                response = self._send(
                    connection, method, path, body, content_type=content_type, accept=accept, query=query
                )
                answer = response.status, response.read()
            except BaseException as error:
                connection.close()
                if kept is not None and isinstance(error, _CLOSED):
                    continue
                raise
            if response.will_close:
                connection.close()
            else:
                self._idle.append(connection)
            return answer

    def _connection(self, seconds: float) -> http.client.HTTPSConnection:
        assert self._address.hostname is not None
        return http.client.HTTPSConnection(
            self._address.hostname, self._address.port, timeout=seconds, context=self._tls
        )

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        if query:
            path = f"{path}?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, sent, headers)
        return connection.getresponse()
