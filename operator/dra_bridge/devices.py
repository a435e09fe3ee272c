"""What a plugin lists, as devices of DRA: names, attributes and taints. Pure.

Names depend on nothing but what they stand for, so that they are the same after every restart and on every node.
Source: the limits of k8s.io/api/resource/v1; k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

import hashlib
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.validation.checks import problems_of_qualified_name

NUMA_ATTRIBUTE: Final = "resource.kubernetes.io/numaNode"
ATTRIBUTE_BYTES: Final = 64
"""An attribute of a device takes no longer text."""
UNHEALTHY_TAINT: Final = "bridge.dra-operator.io/unhealthy"
"""The plugin says that the device is unhealthy, or the plugin is gone."""
DEVICE_MANAGER_TAINT: Final = "bridge.dra-operator.io/device-manager"
"""The kubelet's device manager has given the device to a container, or might."""
MOST_DEVICES: Final = 10_000
"""More are rubbish: a node with so many would fill the API server with slices."""
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_CHARACTERS: Final = 63
_DRIVER_CHARACTERS: Final = 63


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device as its plugin lists it; `numa` is the one NUMA node that it is on, or None."""

    id: str
    is_healthy: bool
    numa: int | None = None

    @property
    def name(self) -> str:
        """Its name in slices."""
        return device_name(self.id)


def read_devices(listed: Iterable[Any]) -> tuple[tuple[PluginDevice, ...], tuple[str, ...]]:
    """Return the devices of a message of ListAndWatch by name, and in words what of it was left out.

    Of an ID that is listed twice the last one counts, as with the kubelet.
    """
    found: dict[str, PluginDevice] = {}
    problems = []
    for each in listed:
        if not each.ID:
            problems.append("a device without an ID")
            continue
        device = _read_device(each)
        known = found.get(device.name)
        if known is not None and known.id != device.id:
            problems.append(f"device {device.id!r} has the name of {known.id!r}")
        elif known is None and len(found) >= MOST_DEVICES:
            problems.append(f"device {device.id!r} is one of more than {MOST_DEVICES}")
        else:
            if known is not None:
                problems.append(f"device {device.id!r} is listed twice")
            found[device.name] = device
    return tuple(found[name] for name in sorted(found)), tuple(problems)


def _read_device(listed: Any) -> PluginDevice:
    nodes = {node.ID for node in listed.topology.nodes}
    # Those that know no node say -1.
    numa = nodes.pop() if len(nodes) == 1 else None
    return PluginDevice(
        listed.ID, listed.health == "Healthy", numa if numa is not None and numa >= 0 else None
    )


def device_name(plugin_id: str) -> str:
    """Return the name of a device in slices: its ID, or what is left of it as a DNS label, and a hash."""
    if _LABEL.fullmatch(plugin_id):
        return plugin_id
    tail = f"-{_digest(plugin_id)}"
    head = re.sub(r"[^a-z0-9]+", "-", plugin_id.lower())[: _LABEL_CHARACTERS - len(tail)].strip("-")
    return f"{head or 'device'}{tail}"


def driver_name(resource: str, taken: AbstractSet[str] = frozenset()) -> str:
    """Return the driver, and DeviceClass, of a resource: `foo.vendor.com` for `vendor.com/foo`.

    It has a hash if it would be no DNS subdomain of 63 characters, if another resource would be called so as well
    (`vendor.com/Foo`, `com/foo.vendor`), or if the name is taken.
    """
    domain, _, name = resource.partition("/")
    plain = f"{name}.{domain}"
    is_own = plain == plain.lower() and "." not in name
    if is_own and _DOMAIN.fullmatch(plain) and len(plain) <= _DRIVER_CHARACTERS and plain not in taken:
        return plain
    tail = f"-{_digest(resource)}"
    head = re.sub(r"[^a-z0-9]+", "-", name.lower())[: _LABEL_CHARACTERS - len(tail)].strip("-") or "resource"
    hashed = f"{head}{tail}.{domain.lower()}"
    if len(hashed) <= _DRIVER_CHARACTERS and _DOMAIN.fullmatch(hashed):
        return hashed
    return f"{head[:20].strip('-')}{tail}.bridge.dra-operator.io"


def problem_of_resource(resource: str) -> str:
    """Return why a resource name is none that a plugin may register, or nothing. Source: the kubelet's Register."""
    if "/" not in resource:
        return f"resource name {resource!r} has no domain, as in vendor.com/foo"
    if resource.partition("/")[0].endswith("kubernetes.io") or resource.startswith("requests."):
        return f"resource name {resource!r} is one of Kubernetes' own"
    return "; ".join(f"resource name {resource!r}: {each}" for each in problems_of_qualified_name(resource))


def slice_device(device: PluginDevice, taints: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return a device as it is written in a slice, with taints of these keys and values."""
    attributes: dict[str, Any] = {}
    if len(device.id.encode()) <= ATTRIBUTE_BYTES:
        attributes["id"] = {"string": device.id}
    if device.numa is not None:
        attributes[NUMA_ATTRIBUTE] = {"int": device.numa}
    written = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in sorted(taints)]
    return {
        "name": device.name,
        **({"attributes": attributes} if attributes else {}),
        **({"taints": written} if written else {}),
    }


def device_class(resource: str, driver: str = "") -> dict[str, Any]:
    """Return the DeviceClass by which pods ask for a resource, by claims and by `limits`."""
    name = driver or driver_name(resource)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {
            "selectors": [{"cel": {"expression": f'device.driver == "{name}"'}}],
            "extendedResourceName": resource,
        },
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
