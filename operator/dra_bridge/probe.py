"""The probe and the metrics of the agent, at one address."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Metrics:
    """What the agent counts."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.plugins: Final = Gauge(
            "dra_bridge_plugins", "Plugins that are registered and answer.", registry=self.registry
        )
        self.devices: Final = Gauge(
            "dra_bridge_devices",
            "Devices by resource, and by whether claims can get them: free of taints, or tainted.",
            ("resource", "state"),
            registry=self.registry,
        )
        self.failed_allocates: Final = Counter(
            "dra_bridge_failed_allocates_total",
            "Allocate and PreStartContainer of plugins that failed, or came too late.",
            ("resource",),
            registry=self.registry,
        )


class Probe:
    """Serves `/healthz`, `/readyz` and `/metrics`; `unready` returns why the agent is not ready, or nothing."""

    def __init__(self, listen: str, metrics: Metrics, unready: Callable[[], str]) -> None:
        self._listen = listen
        self._metrics = metrics
        self._unready = unready
        app = web.Application()
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/readyz", self._get_readiness)
        app.router.add_get("/metrics", self._get_metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    async def start(self) -> None:
        """Start to listen. Raises OSError."""
        await self._runner.setup()
        host, _, port = self._listen.rpartition(":")
        await web.TCPSite(self._runner, host.strip("[]") or None, int(port)).start()

    async def stop(self) -> None:
        """Stop to listen."""
        await self._runner.cleanup()

    async def _get_health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _get_readiness(self, _request: web.Request) -> web.Response:
        why = self._unready()
        return web.Response(status=503 if why else 200, text=f"{why or 'ok'}\n")

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=generate_latest(self._metrics.registry), headers=headers)
