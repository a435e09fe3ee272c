"""A resource of a plugin as the agent knows it now: its devices, its plugin, and what keeps devices from claims.

While its plugin is gone a resource stays as it is, every device unhealthy, as with the kubelet.
Source: k8s.io/kubernetes/pkg/kubelet/cm/devicemanager, `endpointStopGracePeriod`.
"""

import asyncio
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from dra_bridge.cdi import Answer
from dra_bridge.devices import DEVICE_MANAGER_TAINT, UNHEALTHY_TAINT, PluginDevice, slice_device

RETURN_SECONDS: Final = 30.0
"""How long after the agent's start a plugin may take to register again before its devices count as gone: Kubernetes'
own stub for plugins waits ten seconds after it has seen the new socket."""
GONE_SECONDS: Final = 300.0
"""How long after its plugin has gone a resource is kept."""


class Plugin(Protocol):
    """A device plugin that answers."""

    async def allocate(self, ids: list[str]) -> Answer:
        """Return what Allocate answers for these devices. Raises PluginError, UnusableAnswerError."""

    async def pre_start(self, ids: list[str]) -> None:
        """Call PreStartContainer if the plugin wants that. Raises PluginError."""


class PluginError(Exception):
    """A plugin has refused, or has not answered; the text says who and what."""


class Resource:
    """A resource name with its driver; `now` is a monotonic time in seconds."""

    def __init__(self, name: str, driver: str, devices: tuple[PluginDevice, ...] | None, now: float) -> None:
        self.name = name
        self.driver = driver
        self.devices = devices or ()
        self.is_known = devices is not None
        """Whether the devices are known: of a resource whose slices alone are left they are not."""
        self.plugin: Plugin | None = None
        """What listed the devices; None while no plugin is there."""
        self.gone_at = now
        """Since when there is none."""
        self.is_listed = False
        """Whether a plugin has listed its devices since the agent's start."""
        self.changed = asyncio.Event()
        """Set at the next change."""

    def list_devices(self, plugin: Plugin, devices: tuple[PluginDevice, ...]) -> None:
        """Take what a plugin lists."""
        self.plugin, self.devices = plugin, devices
        self.is_known = self.is_listed = True
        self.wake()

    def lose(self, plugin: Plugin, now: float) -> None:
        """Know that a plugin is gone; if another has taken its place already, nothing changes."""
        if self.plugin is plugin:
            self.plugin, self.gone_at = None, now
            self.wake()

    def has_plugin(self, now: float) -> bool:
        """Return whether a plugin is there, or may still come back after the agent's start."""
        return self.plugin is not None or not (self.is_listed or self.is_abandoned(now, RETURN_SECONDS))

    def is_publishable(self, now: float) -> bool:
        """Return whether what is known says more than the slices that are there."""
        return self.is_known or self.is_abandoned(now, RETURN_SECONDS)

    def is_abandoned(self, now: float, seconds: float = GONE_SECONDS) -> bool:
        """Return whether no plugin has been there for so long."""
        return self.plugin is None and now - self.gone_at >= seconds

    def device(self, name: str) -> PluginDevice | None:
        """Return the device with a name of slices."""
        return next((each for each in self.devices if each.name == name), None)

    def slice_devices(
        self, held: AbstractSet[str], now: float, *, is_offered: bool, is_known: bool = True
    ) -> list[dict[str, Any]]:
        """Return the devices as slices should have them.

        `held` are the IDs that containers have by the kubelet's device manager, `is_offered` says that it may give them
        others. `is_known` is false while it is not known which devices are prepared.
        """
        has_plugin = self.has_plugin(now)
        written = []
        for device in self.devices:
            taints = []
            if device.id in held:
                taints.append((DEVICE_MANAGER_TAINT, "in-use"))
            elif is_offered:
                taints.append((DEVICE_MANAGER_TAINT, "allocatable"))
            if not has_plugin:
                taints.append((UNHEALTHY_TAINT, "plugin-gone"))
            elif not device.is_healthy:
                taints.append((UNHEALTHY_TAINT, "unhealthy"))
            elif not is_known:
                taints.append((UNHEALTHY_TAINT, "holder-unknown"))
            written.append(slice_device(device, taints))
        return written

    def wake(self) -> None:
        """Let all that wait for a change go on."""
        self.changed.set()
        self.changed = asyncio.Event()
