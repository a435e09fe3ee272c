"""The side of the kubelet: a DRA driver for one resource, which registers, prepares claims and tells of health.

Source: k8s.io/kubelet/pkg/apis/pluginregistration/v1, dra/v1 and dra-health/v1.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from dra_bridge.preparation import ClaimReference, Preparation, PreparationError, prepared_requests
from dra_bridge.protocols import dra_pb2 as dra
from dra_bridge.protocols import dra_pb2_grpc as dra_services
from dra_bridge.protocols import health_pb2 as health
from dra_bridge.protocols import health_pb2_grpc as health_services
from dra_bridge.protocols import registration_pb2 as registration
from dra_bridge.protocols import registration_pb2_grpc as registration_services
from dra_bridge.resources import Resource

log = structlog.get_logger("dra_bridge")

VERSIONS: Final = ("v1.DRAPlugin", "v1.DRAResourceHealth")
HEALTH_SECONDS: Final = 10.0
"""The kubelet takes health for unknown that it has not heard of for 30 seconds."""


class DriverServer(
    dra_services.DRAPluginServicer,  # type: ignore[misc]
    health_services.DRAResourceHealthServicer,  # type: ignore[misc]
    registration_services.RegistrationServicer,  # type: ignore[misc]
):
    """The driver of a resource at two sockets: `socket` for claims and `registrar` for the kubelet's registration."""

    def __init__(
        self, resource: Resource, preparation: Preparation, *, node: str, socket: Path, registrar: Path
    ) -> None:
        self._resource = resource
        self._preparation = preparation
        self._node = node
        self._socket = socket
        self._registrar = registrar
        self._server = grpc.aio.server()
        dra_services.add_DRAPluginServicer_to_server(self, self._server)
        health_services.add_DRAResourceHealthServicer_to_server(self, self._server)
        registration_services.add_RegistrationServicer_to_server(self, self._server)

    async def start(self) -> None:
        """Listen. Raises OSError, or RuntimeError if a socket cannot be had."""
        for path in (self._socket, self._registrar):
            path.parent.mkdir(parents=True, exist_ok=True)
            # The kubelet sees that a driver is there by a new socket.
            path.unlink(missing_ok=True)
            self._server.add_insecure_port(f"unix:{path}")
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening, and remove the sockets: the kubelet sees by that that the driver is gone."""
        await self._server.stop(0)
        for path in (self._registrar, self._socket):
            path.unlink(missing_ok=True)

    async def GetInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - as the protocol has it
        """Say who is there."""
        return registration.PluginInfo(
            type="DRAPlugin",
            name=self._resource.driver,
            endpoint=str(self._socket),
            supported_versions=VERSIONS,
        )

    async def NotifyRegistrationStatus(self, request: Any, _context: Any) -> Any:  # noqa: N802 - as above
        """Log what the kubelet says."""
        if request.plugin_registered:
            log.info("driver registered", driver=self._resource.driver, resource=self._resource.name)
        else:
            log.error("driver refused by the kubelet", driver=self._resource.driver, why=request.error)
        return registration.RegistrationStatusResponse()

    async def NodePrepareResources(self, request: Any, _context: Any) -> Any:  # noqa: N802 - as above
        """Prepare claims, each for itself."""
        answer = dra.NodePrepareResourcesResponse()
        found = await asyncio.gather(*(self._prepare(each) for each in request.claims))
        for claim, prepared in zip(request.claims, found, strict=True):
            answer.claims[claim.uid].CopyFrom(prepared)
        return answer

    async def NodeUnprepareResources(self, request: Any, _context: Any) -> Any:  # noqa: N802 - as above
        """End the preparation of claims."""
        answer = dra.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].SetInParent()
            try:
                await self._preparation.unprepare(
                    self._resource.driver, ClaimReference(claim.namespace, claim.name, claim.uid)
                )
                log.info("claim unprepared", claim=f"{claim.namespace}/{claim.name}", uid=claim.uid)
            except PreparationError as error:
                answer.claims[claim.uid].error = str(error)
        return answer

    async def NodeWatchResources(  # noqa: N802 - as above
        self, _request: Any, _context: Any
    ) -> AsyncIterator[Any]:
        """Tell of the health of all devices, at every change and again and again."""
        while True:
            # Asked for first: no change is lost while the answer is sent.
            changed = self._resource.changed
            yield self._health()
            with suppress(TimeoutError):
                async with asyncio.timeout(HEALTH_SECONDS):
                    await changed.wait()

    async def _prepare(self, claim: Any) -> Any:
        answer = dra.NodePrepareResourceResponse()
        reference = ClaimReference(claim.namespace, claim.name, claim.uid)
        named = {"claim": f"{claim.namespace}/{claim.name}", "uid": claim.uid}
        try:
            record = await self._preparation.prepare(self._resource, reference)
        except PreparationError as error:
            log.warning("claim not prepared", driver=self._resource.driver, why=str(error), **named)
            answer.error = str(error)
            return answer
        except Exception as error:
            # The other claims of the call keep their answers.
            log.exception("claim not prepared", driver=self._resource.driver, **named)
            answer.error = f"the bridge has failed, its log says where: {error!r}"
            return answer
        log.info("claim prepared", driver=self._resource.driver, **named)
        cdi = prepared_requests(record)
        for request, stored in record.requests.items():
            for number, device in enumerate(stored.devices):
                answer.devices.add(
                    # A container names the request of a subrequest.
                    request_names=[request.partition("/")[0]],
                    pool_name=device.pool,
                    device_name=device.name,
                    # All devices of a request were allocated together, and a container gets them together.
                    cdi_device_ids=cdi[request].cdi_devices if number == 0 else (),
                )
        return answer

    def _health(self) -> Any:
        now = int(time.time())
        has_plugin = self._resource.has_plugin(time.monotonic())
        answer = health.NodeWatchResourcesResponse()
        for device in self._resource.devices:
            is_healthy = has_plugin and device.is_healthy
            told = answer.devices.add(
                health=health.HealthStatus.HEALTHY if is_healthy else health.HealthStatus.UNHEALTHY,
                last_updated_time=now,
                message="" if has_plugin else f"no plugin of {self._resource.name} is there",
            )
            told.device.pool_name, told.device.device_name = self._node, device.name
        return answer
