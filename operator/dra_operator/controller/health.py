"""Health: an HTTP server for the kubelet and Prometheus, of our own, as Kopf serves one path only.

`/healthz` is red when nothing but a restart would help; `/readyz` while the operator cannot do its work, which a
restart would not change; `/leaderz` while another operator decides, which is as it should be. All answer plain text,
for people who ask with curl: of a failed probe the kubelet shows only the status.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field

from aiohttp import web, web_response

from dra_operator.cluster.events import Subject
from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.session import ApiError, Trouble
from dra_operator.cluster.writes import Write, WriteKind
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.facts import EventRequest, Facts
from dra_operator.controller.logs import get_logger

MOST_CONNECTIONS = 100
"""One more, and the oldest is closed: whoever opens them and asks nothing must not keep the kubelet out."""
SILENT_SECONDS = 15.0
"""How long a connection may be open without a whole request."""
# Else each answer tells the versions of aiohttp and Python, also to what is no request. There is no setting for it.
web_response.SERVER_SOFTWARE = "dra-operator"  # type: ignore[attr-defined]

Reasons = Callable[[], Sequence[str]]


class HealthServer:
    """Serves `/healthz`, `/readyz`, `/leaderz` and `/metrics`.

    `stuck`, `unready` and `following` return the reasons why the operator is not alive, not ready, or not the one that
    decides; none means it is. `notes` returns what is amiss although it is ready. `metrics` returns the text for
    Prometheus.
    """

    def __init__(
        self,
        listen: str,
        *,
        stuck: Reasons,
        unready: Reasons,
        notes: Reasons,
        following: Reasons,
        metrics: Callable[[], bytes],
    ) -> None:
        self._listen = listen
        self._probes = {
            "/healthz": _probe(stuck, red=500),
            "/readyz": _probe(unready, red=503, notes=notes),
            "/leaderz": _probe(following, red=503),
        }
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Start to listen; return HOST:PORT with the port that was taken. Raises OSError."""
        app = web.Application()
        for path, probe in self._probes.items():
            app.router.add_get(path, probe)
        app.router.add_get("/metrics", self._get_metrics)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1, keepalive_timeout=SILENT_SECONDS
        )
        await self._runner.setup()
        host, _, port = self._listen.rpartition(":")
        loop = asyncio.get_running_loop()
        if host in ("0.0.0.0", "[::]") and socket.has_dualstack_ipv6():  # noqa: S104 - whoever set it wants it
            # Every address is meant, of both families, as in Go: the kubelet asks a pod by the one that it has.
            every = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
            self._server = await loop.create_server(self._accept, sock=every)
        else:
            self._server = await loop.create_server(self._accept, host.strip("[]"), int(port))
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop to listen."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _accept(self) -> asyncio.BaseProtocol:
        """Return what answers on a new connection, and close the oldest of too many."""
        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        for oldest in server.connections[:-MOST_CONNECTIONS]:
            oldest.force_close()
        return server()

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )


def _probe(
    reasons: Reasons, *, red: int, notes: Reasons = tuple
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return what answers `ok` and the notes, or the reasons why not with the status `red`; each on a line."""

    async def answer(_request: web.Request) -> web.Response:
        found = reasons()
        lines = found or ["ok", *notes()]
        return web.Response(status=red if found else 200, text="".join(f"{line}\n" for line in lines))

    return answer


# --- Health of watches: which kinds are not up to date.
# An outage meets each of seven watches in several ways. So reflectors keep their troubles to the level `debug`, and all
# are checked every few seconds: one line for those that are interrupted alike, and one when they are heard of again.

log = get_logger()


@dataclass(slots=True)
class WatchHealth:
    """Keeps track of what is not heard of. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    _failures: dict[str, int] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)
    """When the interruption of each kind was logged that is not over."""

    def check(self, reflectors: Mapping[str, Reflector]) -> None:
        """Log what has changed since the last check. `reflectors` are by kind."""
        now = self.clock()
        alike, over = dict[str, tuple[str, list[str]]](), list[str]()
        for kind, reflector in reflectors.items():
            has_failed = reflector.counters.failures > self._failures.get(kind, 0)
            if has_failed and kind not in self._began:
                self._began[kind] = now
                trouble = reflector.last_trouble
                alike.setdefault(trouble.sort, (trouble.why, []))[1].append(kind)
            elif kind in self._began and not has_failed and reflector.trouble is None:
                over.append(kind)
        self._failures = {kind: reflector.counters.failures for kind, reflector in reflectors.items()}
        for why, kinds in alike.values():
            log.warning(messages.WATCH_INTERRUPTED, kinds=", ".join(kinds), why=why)
        if over:
            seconds = round(now - min(self._began[kind] for kind in over))
            log.info(messages.WATCHING_AGAIN, kinds=", ".join(over), seconds=seconds)
        self._began = {
            kind: at for kind, at in self._began.items() if kind in reflectors and kind not in over
        }


def unready_kinds(reflectors: Mapping[str, Reflector], stale_seconds: float) -> list[str]:
    """Return a line for each reason why kinds are not up to date; kinds with the same one, as in an outage, share it.

    `reflectors` are by kind.
    """
    denied: list[str] = []
    alike: dict[str, tuple[str, list[str]]] = {}
    for name, reflector in reflectors.items():
        if (error := reflector.forbidden) is not None:
            denied.append(messages.forbidden(error))
        elif (found := find_trouble(reflector, stale_seconds)) is not None:
            alike.setdefault(found.sort, (found.why, []))[1].append(name)
    return denied + [f"{', '.join(names)}: {why}" for why, names in alike.values()]


def find_trouble(reflector: Reflector, stale_seconds: float) -> Trouble | None:
    """Return why a kind is not up to date, or None if it is."""
    if reflector.trouble is not None:
        return reflector.trouble
    if not reflector.synced.is_set() or reflector.halfway:
        return Trouble("unlisted", "not listed yet")
    silence = reflector.silence or 0.0
    if silence > stale_seconds:
        return Trouble("silent", f"nothing heard from the API server for {silence:.0f} s")
    return None


# --- Permissions: which rights the operator lacks, by what the API server answers.
# `/readyz` names a right to write for as long as a claim suffers from it: until a write that needs it succeeds, or
# nobody wants that write any more. Rights to list and watch, and to the Lease, get a line of the log and an Event if
# they are missing for long: an API server that was just started permits nothing until it has read its roles.
# `write_results` says when denied claims are tried again.


_FOR_METADATA = "resourceclaims"
_TO_BIND = "patch", "resourceclaims/binding"
_FOR_STATUS = "patch", "resourceclaims/status"
_TO_UPDATE = "update", "resourceclaims"
_OF_POD_WRITES: Mapping[WriteKind, str] = {"gate": "pods", "nominate": "pods/status"}


class WriteAccess:
    """Rights that were denied, and the claims whose writes were; pods have one of their own.

    Written in the thread of cycles; `reasons` may be called in any.
    """

    def __init__(self) -> None:
        self._denied: dict[tuple[str, str], tuple[str, set[Key]]] = {}
        """By verb and resource: what is said of that, and the claims that suffer from it."""

    def deny(self, verb: str, resource: str, key: Key, text: str) -> bool:
        """State that a claim could not be written, e.g. for want of `patch` on `resourceclaims/status`.

        Return whether that is news of the right, and not only of one more claim. Whether it may bind devices is asked
        of one who may write the status: validation comes after the authorizer.
        Source: k8s.io/kubernetes/pkg/registry/resource/resourceclaim, since 1.36.
        """
        if (verb, resource) == _TO_BIND:
            self._drop(_FOR_STATUS)
        is_news = (verb, resource) not in self._denied
        _, keys = self._denied.get((verb, resource), ("", set[Key]()))
        keys.add(key)
        self._denied[verb, resource] = text, keys
        return is_news

    def grant(self, write: Write) -> dict[tuple[str, str], frozenset[Key]]:
        """State that a write succeeded, so every right that it needs is there.

        Return those that were not, each with the claims whose writes were denied.
        """
        before = {right: frozenset(keys) for right, (_, keys) in self._denied.items()}
        for right in before:
            if write.kind in _OF_POD_WRITES:
                # Each needs one right of its own.
                if right[1] == _OF_POD_WRITES[write.kind]:
                    self._drop(right)
            elif right == _TO_UPDATE:
                # Only claims that take no patch need it, so only those can show that it is there.
                self._excuse(right, write.key)
            elif write.kind not in ("annotate", "fence") or right[1] == _FOR_METADATA:
                self._drop(right)
        return {right: keys for right, keys in before.items() if right not in self._denied}

    def forget(self, key: Key) -> None:
        """State that a claim is gone, or that we want nothing of it any more."""
        for right in tuple(self._denied):
            self._excuse(right, key)

    def forget_allocation(self, key: Key) -> bool:
        """State that a claim gets no devices now: only why it waits is to be written; return if that may be."""
        for right in tuple(self._denied):
            if right[1] != _FOR_METADATA:
                self._excuse(right, key)
        return not any(key in keys for _, keys in self._denied.values())

    def reasons(self) -> tuple[str, ...]:
        """Return what is not permitted, one line for each right."""
        return tuple([text for text, _ in tuple(self._denied.values())])

    def _excuse(self, right: tuple[str, str], key: Key) -> None:
        """State that a claim does not suffer from a missing right; drop it if none does."""
        keys = self._denied[right][1]
        keys.discard(key)
        if not keys:
            self._drop(right)

    def _drop(self, right: tuple[str, str]) -> None:
        self._denied.pop(right, None)


LASTING_SECONDS = 5.0
"""How long a right has to be missing, in seconds, before that is reported."""


@dataclass(slots=True)
class ReadAccess:
    """Keeps track of rights that are missing.

    `subject` stands for the operator; `record` has an Event recorded, which is repeated every `refresh` seconds.
    `clock` is monotonic, in seconds.
    """

    subject: Subject
    record: InitVar[Callable[[EventRequest], None]]
    refresh: InitVar[float]
    clock: Callable[[], float]
    _events: Facts = field(init=False)
    _since: dict[str, float] = field(default_factory=dict)
    _reported: dict[str, ApiError] = field(default_factory=dict)

    def __post_init__(self, record: Callable[[EventRequest], None], refresh: float) -> None:
        self._events = Facts(refresh, self.clock, record)

    def check(
        self, denied: Mapping[str, ApiError | None], unanswered: AbstractSet[str] = frozenset()
    ) -> None:
        """Report what has been denied for long; `denied` has the refusal, or None, by what the right is needed for.

        What was reported of those that are `unanswered` stands. All others are needed no more, and refreshed no more.
        """
        now = self.clock()
        for name in self._since.keys() - denied.keys() - unanswered:
            self._forget(name)
        for name, error in denied.items():
            if error is None:
                if (granted := self._forget(name)) is not None:
                    log.info(messages.PERMITTED, verb=granted.verb, resource=granted.resource)
            elif now >= self._since.setdefault(name, now) + LASTING_SECONDS:
                self._report(name, error)
        self._events.record_due()

    def _forget(self, name: str) -> ApiError | None:
        """Keep nothing of a right; return the refusal that was reported."""
        self._since.pop(name, None)
        self._events.clear(name)
        return self._reported.pop(name, None)

    def _report(self, name: str, error: ApiError) -> None:
        def log_event(_: EventRequest) -> None:
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
            self._reported[name] = error

        event = EventRequest(self.subject, "Warning", messages.EVENT_FORBIDDEN, messages.forbidden(error))
        self._events.report(name, event, (error.verb, error.resource), log_event=log_event)
