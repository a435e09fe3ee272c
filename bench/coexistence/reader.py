"""An independent reader of the watch: who holds which device at each event, and what is held beyond what there is.

It shares no code with the operator: devices come from the published slices, holders from the claims as they are
watched, amounts are its own arithmetic. Admin access holds nothing.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from live.objects import Body, allocation_of

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")
_UNITS = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
}


class DeviceId(NamedTuple):
    """A device of the cluster."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


class Counter(NamedTuple):
    """A counter that devices of a pool share."""

    driver: str
    pool: str
    counter_set: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class Device:
    """What a slice publishes about a device."""

    id: DeviceId
    node: str
    kind: str
    is_shared: bool
    capacity: Mapping[str, Fraction]
    consumes: Mapping[Counter, Fraction]


@dataclass(frozen=True, slots=True)
class Published:
    """All devices of the cluster, and the counters that they share."""

    devices: Mapping[DeviceId, Device]
    counters: Mapping[Counter, Fraction]


@dataclass(frozen=True, slots=True)
class Violation:
    """More held than there is: `kind` is `device`, `counter` or `capacity`."""

    kind: str
    subject: str
    is_owned: bool
    holders: tuple[str, ...]
    version: str

    def __str__(self) -> str:
        side = "owned" if self.is_owned else "other"
        return f"{side} {self.kind} {self.subject} at version {self.version}: {', '.join(self.holders)}"


def amount(text: str) -> Fraction:
    """Return a quantity as a number."""
    found = _AMOUNT.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no quantity that the fleet publishes")
    return Fraction(found[1]) * _UNITS[found[2]]


def published(slices: Iterable[Body]) -> Published:
    """Return what slices publish."""
    devices: dict[DeviceId, Device] = {}
    counters: dict[Counter, Fraction] = {}
    for spec in (body["spec"] for body in slices):
        driver, pool = spec["driver"], spec["pool"]["name"]
        for shared in spec.get("sharedCounters") or ():
            for name, counter in shared["counters"].items():
                counters[Counter(driver, pool, shared["name"], name)] = amount(counter["value"])
        for device in spec.get("devices") or ():
            consumes = {
                Counter(driver, pool, draw["counterSet"], name): amount(counter["value"])
                for draw in device.get("consumesCounters") or ()
                for name, counter in draw["counters"].items()
            }
            key = DeviceId(driver, pool, device["name"])
            devices[key] = Device(
                id=key,
                node=spec["nodeName"],
                kind=device["attributes"]["kind"]["string"],
                is_shared=device.get("allowMultipleAllocations", False),
                capacity={name: amount(one["value"]) for name, one in (device.get("capacity") or {}).items()},
                consumes=consumes,
            )
    return Published(devices, counters)


@dataclass(frozen=True, slots=True)
class _Held:
    claim: str
    device: DeviceId
    consumed: Mapping[str, Fraction]


class Reader:
    """Who holds what, after each event.

    `owned` says at any time which devices are the operator's. `allocations` counts by whether a device is owned,
    `by_others` those of owned devices that are not the operator's.
    """

    def __init__(self, stock: Published, owned: set[DeviceId]) -> None:
        self._stock = stock
        self.owned = owned
        self.violations: list[Violation] = []
        self.events = 0
        self.allocations: dict[bool, int] = {True: 0, False: 0}
        self.by_others = 0
        self._claims: dict[str, list[_Held]] = {}
        self._devices: dict[DeviceId, dict[str, list[_Held]]] = defaultdict(dict)
        self._on_counter: dict[Counter, list[DeviceId]] = defaultdict(list)
        for device in stock.devices.values():
            for counter in device.consumes:
                self._on_counter[counter].append(device.id)

    def apply(self, kind: str, claim: Body) -> None:
        """Take in one event of the watch of claims."""
        self.events += 1
        uid = claim["metadata"]["uid"]
        held = [] if kind == "DELETED" else _held(claim)
        before = self._claims.pop(uid, [])
        for one in before:
            self._devices[one.device].pop(uid, None)
        if not held:
            return
        self._claims[uid] = held
        for one in held:
            self._devices[one.device].setdefault(uid, []).append(one)
        if before != held:
            self._count(claim, held)
            self._judge(held, claim["metadata"]["resourceVersion"])

    def holders(self, device: DeviceId) -> list[str]:
        """Return the claims that hold a device, each once for each of its results."""
        return [one.claim for held in self._devices[device].values() for one in held]

    def remaining_capacity(self, device: Device) -> dict[str, Fraction]:
        """Return what a shared device has left."""
        shares = [one for held in self._devices[device.id].values() for one in held]
        return {
            name: value - sum(share.consumed.get(name, Fraction(0)) for share in shares)
            for name, value in device.capacity.items()
        }

    def remaining_counter(self, counter: Counter) -> Fraction:
        """Return what the devices in use leave of a counter."""
        used = (
            self._stock.devices[device].consumes[counter]
            for device in self._on_counter[counter]
            if self._devices[device]
        )
        return self._stock.counters[counter] - sum(used)

    def _count(self, claim: Body, held: list[_Held]) -> None:
        owned = any(one.device in self.owned for one in held)
        self.allocations[owned] += 1
        # kube-scheduler reserves in the same write in which it allocates; the operator never reserves.
        self.by_others += owned and bool(claim["status"].get("reservedFor"))

    def _judge(self, held: list[_Held], version: str) -> None:
        for one in {one.device: one for one in held}.values():
            device = self._stock.devices.get(one.device)
            if device is None:
                self._report("device", f"{one.device} that no slice has", one.device, version)
                continue
            if device.is_shared:
                for name, left in self.remaining_capacity(device).items():
                    if left < 0:
                        self._report("capacity", f"{one.device}/{name}", one.device, version)
            elif len(self.holders(one.device)) > 1:
                self._report("device", str(one.device), one.device, version)
            for counter in device.consumes:
                if self.remaining_counter(counter) < 0:
                    self._report("counter", str(counter), one.device, version)

    def _report(self, kind: str, subject: str, device: DeviceId, version: str) -> None:
        holders = tuple(self.holders(device))
        self.violations.append(Violation(kind, subject, device in self.owned, holders, version))


def _held(claim: Body) -> list[_Held]:
    metadata = claim["metadata"]
    results = (allocation_of(claim) or {}).get("devices", {}).get("results") or []
    return [
        _Held(
            f"{metadata['namespace']}/{metadata['name']}",
            DeviceId(result["driver"], result["pool"], result["device"]),
            {name: amount(value) for name, value in (result.get("consumedCapacity") or {}).items()},
        )
        for result in results
        if not result.get("adminAccess")
    ]
