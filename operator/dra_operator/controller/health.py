"""Health: the answers for the kubelet and Prometheus, from an HTTP server of our own.

Kopf serves one path, and only after its start-up handlers returned. The operator has more to say: `/healthz`
is red when nothing but a restart would help, `/readyz` is red, with the reasons, while the operator cannot do
its work, which a restart would not change, and `/leaderz` is red while another operator decides, which is as it
should be. All speak plain text, for people who ask with curl; of a failed probe the kubelet shows the status
code alone.
"""

import socket
from collections.abc import Callable, Sequence

from aiohttp import web

Reasons = Callable[[], Sequence[str]]


class HealthServer:
    """Serves `/healthz`, `/readyz`, `/leaderz` and `/metrics`.

    `stuck`, `unready` and `following` return the reasons why the operator is not alive, not ready, or not the one that
    decides; none means it is. `metrics` returns the text for Prometheus.
    """

    def __init__(
        self,
        listen: str,
        *,
        stuck: Reasons,
        unready: Reasons,
        following: Reasons,
        metrics: Callable[[], bytes],
    ) -> None:
        self._listen = listen
        self._stuck = stuck
        self._unready = unready
        self._following = following
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Start to listen; return HOST:PORT with the port that was taken. Raises OSError."""
        app = web.Application()
        app.router.add_get("/healthz", self._get_healthz)
        app.router.add_get("/readyz", self._get_readyz)
        app.router.add_get("/leaderz", self._get_leaderz)
        app.router.add_get("/metrics", self._get_metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        host, _, port = self._listen.rpartition(":")
        site: web.BaseSite
        if host in ("0.0.0.0", "[::]") and socket.has_dualstack_ipv6():  # noqa: S104 - whoever set it wants it
            # Every address is meant, of both families, as in Go: the kubelet asks a pod by the one that it has.
            every = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
            site = web.SockSite(self._runner, every)
        else:
            site = web.TCPSite(self._runner, host.strip("[]"), int(port))
        await site.start()
        bound = self._runner.addresses[0]
        return f"{host}:{bound[1]}"

    async def stop(self) -> None:
        """Stop to listen."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _get_healthz(self, _request: web.Request) -> web.Response:
        return _answer(self._stuck(), red=500)

    async def _get_readyz(self, _request: web.Request) -> web.Response:
        return _answer(self._unready(), red=503)

    async def _get_leaderz(self, _request: web.Request) -> web.Response:
        return _answer(self._following(), red=503)

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )


def _answer(reasons: Sequence[str], *, red: int) -> web.Response:
    if not reasons:
        return web.Response(text="ok\n")
    return web.Response(status=red, text="".join(f"{reason}\n" for reason in reasons))
