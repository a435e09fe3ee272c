"""What is published, and who holds it: the devices of a cluster, beside its rules, classes and claims.

Of each pool the newest generation counts; what cannot be read is left out and named.
Source: ResourceSlice of resource.k8s.io/v1.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dra_operator.api import types
from dra_operator.api.convert import Body
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import ObjectError, read_object
from dra_operator.inventory.ownership import is_owned_taint, owns
from dra_operator.inventory.taints import names_device, touches


class DeviceKey(NamedTuple):
    """What an allocation names a device by."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device, the slice that has it, and the one node that it is on, if it is on one."""

    key: DeviceKey
    device: types.Device
    slice_name: str
    node: str | None

    @property
    def counter_sets(self) -> frozenset[str]:
        """The counter sets of its pool that it draws on."""
        return frozenset(each.counter_set for each in self.device.consumes_counters)

    @property
    def is_owned_by_slice(self) -> bool:
        """True if its slice has the taint by which it is ours."""
        return any(map(is_owned_taint, self.device.taints))


@dataclass(slots=True)
class ClusterDevices:
    """Devices by their key, the objects that have to do with them, and lines about what is not among them."""

    devices: dict[DeviceKey, PublishedDevice] = field(default_factory=dict)
    rules: dict[str, types.DeviceTaintRule] = field(default_factory=dict)
    classes: dict[str, types.DeviceClass] = field(default_factory=dict)
    templates: list[types.ResourceClaimTemplate] = field(default_factory=list)
    claims: list[types.ResourceClaim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def owning_rules(self) -> dict[str, types.DeviceTaintRule]:
        """Return the rules that own devices, by their names in order."""
        return {name: self.rules[name] for name in sorted(self.rules) if owns(self.rules[name])}

    def matched(self, rule: types.DeviceTaintRule) -> list[PublishedDevice]:
        """Return the devices that a rule names."""
        return [device for key, device in self.devices.items() if names(rule, key)]

    def owned(self) -> set[DeviceKey]:
        """Return the devices that have the taint by now, by a rule or by their slice."""
        rules = self.owning_rules().values()
        return {
            key
            for key, device in self.devices.items()
            if device.is_owned_by_slice or any(names(rule, key) for rule in rules)
        }

    def holders(self) -> dict[DeviceKey, list[types.ResourceClaim]]:
        """Return the claims that hold each device; admin access holds nothing."""
        found = defaultdict[DeviceKey, list[types.ResourceClaim]](list)
        for claim in self.claims:
            for key in dict.fromkeys(held_devices(claim)):
                found[key].append(claim)
        return dict(found)


def names(rule: types.DeviceTaintRule, key: DeviceKey) -> bool:
    """True if a rule sets its taint on a device."""
    return touches(rule, key.driver, key.pool) and names_device(rule, key.name)


def held_devices(claim: types.ResourceClaim) -> Iterator[DeviceKey]:
    """Yield the devices that a claim holds, once for each result."""
    for result in results(claim):
        if not result.admin_access:
            yield DeviceKey(result.driver, result.pool, result.device)


def results(claim: types.ResourceClaim) -> tuple[types.DeviceRequestAllocationResult, ...]:
    """Return the results of a claim's allocation; none if it has no allocation."""
    allocation = claim.status.allocation
    return allocation.devices.results if allocation else ()


def gather_devices(bodies: Iterable[Body]) -> ClusterDevices:
    """Return the devices that some objects, as on the wire, publish and hold."""
    objects: list[Any] = []
    notes: list[str] = []
    for body in bodies:
        try:
            objects.append(apply_defaults(read_object(body)))
        except ObjectError as error:
            notes.append(f"{error}: left out")
    found = build_table(objects)
    found.notes += notes
    return found


def build_table(objects: Iterable[Any]) -> ClusterDevices:
    """Return the devices that some objects publish and hold; objects of other kinds are passed over."""
    found = ClusterDevices()
    slices: list[types.ResourceSlice] = []
    for item in objects:
        match item:
            case types.DeviceClass():
                found.classes[item.metadata.name] = item
            case types.DeviceTaintRule():
                found.rules[item.metadata.name] = item
            case types.ResourceClaimTemplate():
                found.templates.append(item)
            case types.ResourceClaim():
                found.claims.append(item)
            case types.ResourceSlice():
                slices.append(item)
    found.devices = {device.key: device for device in published(slices)}
    return found


def published(slices: Iterable[types.ResourceSlice]) -> Iterator[PublishedDevice]:
    """Yield the devices of the newest generation of each pool, in the order of their keys."""
    pools = defaultdict[tuple[str, str], list[types.ResourceSlice]](list)
    for item in slices:
        pools[item.spec.driver, item.spec.pool.name].append(item)
    for (driver, pool), those in sorted(pools.items()):
        newest = max(item.spec.pool.generation for item in those)
        devices = [
            PublishedDevice(
                DeviceKey(driver, pool, device.name), device, item.metadata.name, _node(item, device)
            )
            for item in those
            if item.spec.pool.generation == newest
            for device in item.spec.devices
        ]
        yield from sorted(devices, key=lambda device: device.key)


def _node(item: types.ResourceSlice, device: types.Device) -> str | None:
    return (device.node_name if item.spec.per_device_node_selection else item.spec.node_name) or None
