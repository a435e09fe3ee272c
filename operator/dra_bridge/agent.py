"""The agent of a node: brings together plugins, kubelet and API server.

One loop compares what should be with what is, whenever something has changed: resources have drivers, drivers have
slices. Nothing is published before it is known what the kubelet's device manager has given to containers.
"""

import asyncio
import random
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from dra_bridge.checkpoint import Checkpoint, ResourceRecord
from dra_bridge.cluster import EVENT_OFFERED, EVENT_UNBRIDGED, NodeView, TaintsDroppedError
from dra_bridge.device_manager import (
    POLL_SECONDS,
    DeviceManagerClient,
    HeldDevices,
    UnknownHoldersError,
    is_offered,
)
from dra_bridge.device_nodes import HostDevices
from dra_bridge.devices import PluginDevice, driver_name
from dra_bridge.driver import DriverServer
from dra_bridge.plugins import PluginClient, PluginServer
from dra_bridge.preparation import ClaimReference, Preparation
from dra_bridge.probe import Metrics, Probe
from dra_bridge.resources import Resource
from dra_bridge.slices import SlicePlan, plan_slices
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.events import Subject
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable

log = structlog.get_logger("dra_bridge")

_TICK_SECONDS: Final = 1.0
_REPEAT_SECONDS: Final = 15.0
_FREE_REPEATS: Final = 4
"""How often in a row the same is written at once: a kubelet that starts deletes the slices, and may start twice."""
_BACKOFF: Final = Backoff(base=0.1, cap=10.0)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Where things are: `kubelet` is the kubelet's folder, at the path at which the kubelet itself sees it."""

    node: str
    kubelet: Path
    cdi: Path
    devices: Path
    """Where the host's /dev is seen."""
    listen: str

    @property
    def state(self) -> Path:
        """The folder of the agent's own."""
        return self.kubelet / "plugins" / "dra-bridge"

    @property
    def plugins(self) -> Path:
        """The folder that plugins are given in place of the kubelet's."""
        return self.state / "device-plugins"

    def driver_socket(self, driver: str) -> Path:
        """Return where a driver answers."""
        return self.state / f"{driver}.sock"

    def registrar(self, driver: str) -> Path:
        """Return where the kubelet finds a driver."""
        return self.kubelet / "plugins_registry" / f"{driver}-reg.sock"


@dataclass(frozen=True, slots=True)
class _Written:
    """Devices that were written at a time, and how often the same ones had been, one write soon after another."""

    devices: list[dict[str, Any]]
    repeats: int
    at: float


class Agent:
    """The agent, until `run` is cancelled."""

    def __init__(self, options: AgentOptions, session: ApiSession) -> None:
        self._options = options
        self._session = session
        self._metrics = Metrics()
        self._wake = asyncio.Event()
        self._view = NodeView(session, options.node, self._wake.set)
        self._checkpoint = Checkpoint(options.state)
        self._device_manager = DeviceManagerClient(options.kubelet / "pod-resources" / "kubelet.sock")
        self._held: HeldDevices | None = None
        self._trouble = "the API server has not been asked yet"
        self._preparation = Preparation(
            self._checkpoint,
            options.cdi,
            options.node,
            host_devices=HostDevices(options.devices),
            get_claim=self._view.get_claim,
            held=self._device_manager.held,
            may_be_offered=self._may_be_offered,
            warn=self._warn_of_claim,
            count_failure=lambda resource: self._metrics.failed_allocates.labels(resource).inc(),
        )
        self._plugins = PluginServer(options.plugins, listed=self._listed, lost=self._lost)
        self._resources: dict[str, Resource] = {}
        self._drivers: dict[str, DriverServer] = {}
        self._new: dict[str, tuple[PluginClient, tuple[PluginDevice, ...]]] = {}
        self._offered: set[str] = set()
        self._displaced: set[str] = set()
        """Drivers of whose name there is another one."""
        self._written: dict[str, _Written] = {}
        """What was written last, by driver."""

    async def run(self) -> None:
        """Serve plugins and kubelet until cancelled. Raises OSError, and what `NodeView.run` raises."""
        self._checkpoint.load()
        self._preparation.restore()
        probe = Probe(self._options.listen, self._metrics, self._unready)
        await probe.start()
        try:
            for trouble in await self._adopt():
                log.warning("not published", why=trouble)
            await self._plugins.start()
            log.info("agent started", node=self._options.node, plugins=str(self._options.plugins))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._view.run())
                tasks.create_task(self._poll_device_manager())
                tasks.create_task(self._reconcile())
        finally:
            # The slices stay: the kubelet deletes them if nobody comes back.
            await self._plugins.stop()
            for driver in self._drivers.values():
                await driver.stop()
            await self._device_manager.close()
            await probe.stop()

    def _listed(self, plugin: PluginClient, devices: tuple[PluginDevice, ...]) -> None:
        resource = self._resources.get(plugin.resource)
        if resource is None:
            self._new[plugin.resource] = (plugin, devices)
        else:
            resource.list_devices(plugin, devices)
        self._wake.set()

    def _lost(self, plugin: PluginClient) -> None:
        if plugin.resource in self._resources:
            self._resources[plugin.resource].lose(plugin, time.monotonic())
        elif plugin.resource in self._new and self._new[plugin.resource][0] is plugin:
            del self._new[plugin.resource]
        self._wake.set()

    async def _poll_device_manager(self) -> None:
        while True:
            try:
                held = await self._device_manager.held()
            except UnknownHoldersError as error:
                # One that does not answer gives nothing away either.
                if self._held is None:
                    self._trouble = str(error)
            else:
                if held != self._held:
                    self._held = held
                    self._wake.set()
            await asyncio.sleep(POLL_SECONDS)

    async def _reconcile(self) -> None:
        failures = 0
        while True:
            with suppress(TimeoutError):
                # Not `wait_for`, which before Python 3.12 may lose that the task is to end.
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            if not self._view.is_synced or self._held is None:
                continue
            troubles = await self._adopt()
            for resource in [*self._resources.values()]:
                troubles += await _troubles(resource.name, self._publish(resource))
            if troubles:
                trouble = "; ".join(troubles)
                if failures == 0 or trouble != self._trouble:
                    log.warning("not published", why=trouble)
                failures += 1
                self._trouble = trouble
                self._wake.set()
                await self._session.outage.pause(_BACKOFF.delay(failures, random.random))
            else:
                failures, self._trouble = 0, ""
            self._count()

    async def _adopt(self) -> list[str]:
        """Give a driver to each resource that is stored, has slices, or is new; return what has failed."""
        troubles: list[str] = []
        taken = self._view.foreign_drivers()
        known: dict[str, tuple[str, tuple[PluginDevice, ...] | None]] = {
            each.resource: (each.driver, each.devices) for each in self._checkpoint.resources.values()
        }
        for name, driver in self._view.bridged().items():
            known.setdefault(name, (driver, None))
        for name in self._new.keys() - known.keys() - self._resources.keys():
            driver = driver_name(name, taken)
            if driver != driver_name(name):
                log.warning("driver name taken", resource=name, taken=driver_name(name), driver=driver)
            known[name] = (driver, ())
        for name, (driver, devices) in known.items():
            if name not in self._resources:
                resource = Resource(name, driver, devices, time.monotonic())
                troubles += await _troubles(name, self._serve(resource))
        for name in self._new.keys() & self._resources.keys():
            self._resources[name].list_devices(*self._new.pop(name))
        return troubles

    async def _serve(self, resource: Resource) -> None:
        server = DriverServer(
            resource,
            self._preparation,
            node=self._options.node,
            socket=self._options.driver_socket(resource.driver),
            registrar=self._options.registrar(resource.driver),
        )
        await server.start()
        self._drivers[resource.name] = server
        self._resources[resource.name] = resource

    async def _publish(self, resource: Resource) -> None:
        now, node = time.monotonic(), self._view.node
        if node is None or self._held is None or not resource.is_publishable(now):
            return
        offered = is_offered(node, resource.name)
        self._report_offer(resource, node, offered=offered)
        is_abandoned = resource.is_abandoned(now)
        record = ResourceRecord(resource=resource.name, driver=resource.driver, devices=resource.devices)
        if not is_abandoned and record != self._checkpoint.resources.get(resource.name):
            self._checkpoint.store_resource(record)
        held = self._held.get(resource.name, frozenset())
        is_displaced = self._is_displaced(resource)
        is_known = not self._checkpoint.unreadable(resource.driver)
        devices = resource.slice_devices(held, now, is_offered=offered, is_known=is_known)
        if is_abandoned or is_displaced:
            devices = []
        elif self._view.drops_taints:
            devices = [each for each in devices if "taints" not in each]
        if not self._plan(resource, node, devices).is_empty:
            await self._hold_back(resource.driver, devices)
            # By what is there now: a kubelet that starts deletes one slice after the other.
            try:
                await self._view.write(self._plan(resource, node, devices))
            except TaintsDroppedError as error:
                log.error("taints dropped", why=str(error))  # noqa: TRY400 - where it was found says nothing
                self._wake.set()
                return
            self._count_write(resource.driver, devices)
            log.info("published", driver=resource.driver, devices=len(devices))
        free = sum("taints" not in each for each in devices)
        self._metrics.devices.labels(resource.name, "free").set(free)
        self._metrics.devices.labels(resource.name, "tainted").set(len(devices) - free)
        # Its plugin may have come while the slices were written.
        is_abandoned = is_abandoned and resource.is_abandoned(time.monotonic())
        if is_abandoned and not any(driver == resource.driver for driver, _ in self._checkpoint.claims):
            await self._forget(resource)

    def _plan(self, resource: Resource, node: dict[str, Any], devices: list[dict[str, Any]]) -> SlicePlan:
        return plan_slices(
            node=node,
            resource=resource.name,
            driver=resource.driver,
            devices=devices,
            present=self._view.slices(resource.driver),
        )

    async def _hold_back(self, driver: str, devices: list[dict[str, Any]]) -> None:
        """Wait longer and longer before the same is written again: somebody changes it as often as it is written."""
        last = self._written.get(driver)
        if last is not None and last.devices == devices and last.repeats > _FREE_REPEATS:
            delay = _BACKOFF.delay(last.repeats - _FREE_REPEATS, random.random)
            await asyncio.sleep(max(0.0, last.at + delay - time.monotonic()))

    def _count_write(self, driver: str, devices: list[dict[str, Any]]) -> None:
        last, now = self._written.get(driver), time.monotonic()
        is_again = last is not None and last.devices == devices and now - last.at < _REPEAT_SECONDS
        self._written[driver] = _Written(devices, last.repeats + 1 if last and is_again else 0, now)

    async def _forget(self, resource: Resource) -> None:
        """Let go of a resource that has neither plugin nor claims."""
        # First: a plugin that comes while the driver stops is a new one.
        del self._resources[resource.name]
        await self._drivers.pop(resource.name).stop()
        if record := self._checkpoint.resources.get(resource.name):
            self._checkpoint.remove_resource(record)
        for state in ("free", "tainted"):
            self._metrics.devices.remove(resource.name, state)
        log.info("resource given up", resource=resource.name, driver=resource.driver)

    def _is_displaced(self, resource: Resource) -> bool:
        """Return whether another driver of this name publishes on the node; say so once."""
        foreign = resource.driver in self._view.foreign_drivers()
        if foreign and resource.driver not in self._displaced:
            self._displaced.add(resource.driver)
            log.error("driver displaced", resource=resource.name, why=_displaced(resource.driver))
        elif not foreign:
            self._displaced.discard(resource.driver)
        return foreign

    def _report_offer(self, resource: Resource, node: dict[str, Any], *, offered: bool) -> None:
        if offered == (resource.name in self._offered):
            return
        if not offered:
            self._offered.discard(resource.name)
            log.info("device manager offers none", resource=resource.name)
            return
        self._offered.add(resource.name)
        text = (
            f"the node's allocatable of {resource.name} is not 0, so the kubelet's device manager may give its devices"
            f" away: no claim gets one, until the plugin is with the bridge alone"
        )
        log.warning("device manager offers devices", resource=resource.name, why=text)
        name = node["metadata"]["name"]
        # As the kubelet's own Events: the name stands for the uid.
        self._view.warn(Subject("Node", "", name, name), EVENT_OFFERED, text)

    def _warn_of_claim(self, claim: ClaimReference, text: str) -> None:
        log.warning("not bridged", claim=f"{claim.namespace}/{claim.name}", why=text)
        self._view.warn(
            Subject("ResourceClaim", claim.namespace, claim.name, claim.uid), EVENT_UNBRIDGED, text
        )

    def _count(self) -> None:
        self._metrics.plugins.set(sum(each.plugin is not None for each in self._resources.values()))

    def _unready(self) -> str:
        if not self._view.is_synced:
            return f"node {self._options.node} and its slices are not known yet"
        return self._trouble or "; ".join(_displaced(each) for each in sorted(self._displaced))

    def _may_be_offered(self, resource: str) -> bool:
        return self._view.node is None or is_offered(self._view.node, resource)


def _displaced(driver: str) -> str:
    return f"another driver of the name {driver} has slices on this node: the bridge has none, until they are gone"


async def _troubles(resource: str, step: Awaitable[None]) -> list[str]:
    """Return what has failed in a step for a resource: the others go on."""
    try:
        await step
    except (ApiError, ApiUnreachable, OSError, RuntimeError) as error:
        return [f"{resource}: {error}"]
    return []
