"""Uses: which claim holds which device, how, and how much of it.

One claim is one entry: what its status says, or, until the API server has confirmed it, what we decided ourselves (an
assumption). Devices are identified by driver, pool and name, whether a slice publishes them or not. Admin access never
counts: it takes nothing away from anybody.
Source: docs/dra-semantics 4.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakSet

from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.inventory import PoolKey

DeviceKey = tuple[str, str, str]
"""Driver, pool and device name."""
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""


@dataclass(frozen=True, slots=True)
class Use:
    """A device, or a share of it with the amounts it consumes, in nano-units by capacity name."""

    device: DeviceKey
    share: bool
    amounts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Collision:
    """A device that several claims hold for themselves alone."""

    device: DeviceKey
    claims: tuple[ClaimKey, ...]


@dataclass(slots=True)
class _Holders:
    """Who holds a device: claims that have it alone, claims that share it, and what the shares sum up to."""

    exclusive: list[ClaimKey] = field(default_factory=list)
    shares: list[ClaimKey] = field(default_factory=list)
    amounts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Touched:
    """Devices whose use changed since the owner of this looked; the value says whether something came back."""

    devices: dict[DeviceKey, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """What is used, by claim and by device. `version` grows with every change.

    With `shares` off, as with consumable capacity switched off, a share counts as the whole device.
    """

    shares: bool = True
    version: int = 0
    _written: dict[ClaimKey, tuple[Use, ...]] = field(default_factory=dict)
    _assumed: dict[ClaimKey, tuple[Use, ...]] = field(default_factory=dict)
    _held: dict[PoolKey, dict[str, _Holders]] = field(default_factory=dict)
    _subscribers: "WeakSet[Touched]" = field(default_factory=WeakSet)

    def subscribe(self) -> Touched:
        """Return an object that collects the devices touched from now on."""
        touched = Touched()
        self._subscribers.add(touched)
        return touched

    def put(self, claim: ResourceClaim) -> None:
        """Record what a claim's status says; an allocation in it supersedes an assumption of ours."""
        key = (claim.metadata.namespace, claim.metadata.name)
        allocation = claim.status.allocation
        if allocation is None:
            self._replace(self._written, key, ())
            return
        uses = self._uses(allocation)
        if uses == self._assumed.get(key) and key not in self._written:
            # The API server confirms our decision: nothing is taken and nothing comes back.
            self._written[key] = self._assumed.pop(key)
            return
        self._replace(self._written, key, uses)
        self._replace(self._assumed, key, ())

    def remove(self, namespace: str, name: str) -> None:
        """Forget a claim that is gone, and what we assumed for it."""
        self._replace(self._written, (namespace, name), ())
        self._replace(self._assumed, (namespace, name), ())

    def assume(self, namespace: str, name: str, allocation: AllocationResult) -> None:
        """Count a decision that the API server has not confirmed yet."""
        self._replace(self._assumed, (namespace, name), self._uses(allocation))

    def withdraw(self, namespace: str, name: str) -> None:
        """Drop an assumption: the decision will not be written."""
        self._replace(self._assumed, (namespace, name), ())

    def owners(self, driver: str, pool: str, device: str) -> tuple[ClaimKey, ...]:
        """Return the claims that hold a device or a share of it, sorted."""
        holders = self._held.get((driver, pool), {}).get(device)
        return () if holders is None else tuple(sorted({*holders.exclusive, *holders.shares}))

    def collisions(self) -> tuple[Collision, ...]:
        """Return the devices that several claims hold for themselves alone, sorted."""
        found = [
            Collision((*pool, device), claims)
            for pool, devices in self._held.items()
            for device, holders in devices.items()
            if len(holders.exclusive) > 1 and len(claims := tuple(sorted(set(holders.exclusive)))) > 1
        ]
        return tuple(sorted(found, key=lambda item: item.device))

    def used(self, pool: PoolKey) -> Mapping[str, object]:
        """Return the devices of a pool that are in use in any way, by name."""
        return self._held.get(pool, {})

    def is_exclusive(self, pool: PoolKey, device: str) -> bool:
        """True if a claim holds the device for itself alone."""
        holders = self._held.get(pool, {}).get(device)
        return holders is not None and bool(holders.exclusive)

    def has_shares(self, pool: PoolKey, device: str) -> bool:
        """True if a claim holds a share of the device."""
        holders = self._held.get(pool, {}).get(device)
        return holders is not None and bool(holders.shares)

    def consumed(self, pool: PoolKey, device: str) -> Mapping[str, int]:
        """Return what the shares of a device consume together, in nano-units by capacity name."""
        holders = self._held.get(pool, {}).get(device)
        return {} if holders is None else holders.amounts

    def _uses(self, allocation: AllocationResult) -> tuple[Use, ...]:
        return tuple(
            Use(
                (result.driver, result.pool, result.device),
                share=self.shares and bool(result.share_id),
                amounts=tuple((name, amount.nano) for name, amount in result.consumed_capacity.items()),
            )
            for result in allocation.devices.results
            if not result.admin_access
        )

    def _replace(
        self, table: dict[ClaimKey, tuple[Use, ...]], claim: ClaimKey, uses: tuple[Use, ...]
    ) -> None:
        old = table.pop(claim, ())
        if uses:
            table[claim] = uses
        if old == uses:
            return
        self.version += 1
        for use in uses:
            self._take(claim, use)
        for use in old:
            self._give_back(claim, use)

    def _take(self, claim: ClaimKey, use: Use) -> None:
        driver, pool, device = use.device
        holders = self._held.setdefault((driver, pool), {}).setdefault(device, _Holders())
        if use.share:
            holders.shares.append(claim)
            for name, amount in use.amounts:
                holders.amounts[name] = holders.amounts.get(name, 0) + amount
        else:
            holders.exclusive.append(claim)
        for touched in self._subscribers:
            touched.devices.setdefault(use.device, False)

    def _give_back(self, claim: ClaimKey, use: Use) -> None:
        driver, pool, device = use.device
        devices = self._held[driver, pool]
        holders = devices[device]
        if use.share:
            holders.shares.remove(claim)
            for name, amount in use.amounts:
                holders.amounts[name] -= amount
            if not holders.shares:
                holders.amounts.clear()
        else:
            holders.exclusive.remove(claim)
        if not holders.shares and not holders.exclusive:
            del devices[device]
            if not devices:
                del self._held[driver, pool]
        for touched in self._subscribers:
            touched.devices[use.device] = True
