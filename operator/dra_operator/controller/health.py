"""Health: an HTTP server for the kubelet and Prometheus, of our own, as Kopf serves one path only.

`/healthz` is red when nothing but a restart would help; `/readyz` while the operator cannot do its work, which a
restart would not change; `/leaderz` while another operator decides, which is as it should be. All answer plain text,
for people who ask with curl: of a failed probe the kubelet shows only the status.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web, web_response

from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.session import Trouble
from dra_operator.controller import messages
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
