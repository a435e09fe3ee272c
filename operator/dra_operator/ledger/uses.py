"""Uses: which claim holds which device, how, and how much of it.

One claim is one entry: what its status says, or, until the API server has confirmed it, what we decided ourselves (an
assumption). Devices are identified by driver, pool and name, whether a slice publishes them or not. Admin access never
counts: it takes nothing away from anybody.
Source: docs/dra-semantics 4.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from weakref import ref

from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.inventory import PoolKey

DeviceKey = tuple[str, str, str]
"""Driver, pool and device name."""
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""
_NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})


_Use = tuple[PoolKey, str, bool, tuple[tuple[str, int], ...]]
"""A device by pool and name, whether it is a share alone, and the nano-units consumed by capacity name.

One is made for each device of each claim, so it is a plain tuple.
"""


@dataclass(frozen=True, slots=True)
class Collision:
    """A device that several claims hold for themselves alone."""

    device: DeviceKey
    claims: tuple[ClaimKey, ...]


@dataclass(slots=True)
class _Shares:
    """The claims that share a device, and what their shares sum up to."""

    claims: list[ClaimKey] = field(default_factory=list)
    amounts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Holders:
    """Who holds a device: claims that have it alone, and shares, which few devices have."""

    exclusive: tuple[ClaimKey, ...] = ()
    shares: _Shares | None = None

    @property
    def consume(self) -> bool:
        """True if shares consume capacity of the device."""
        return self.shares is not None and bool(self.shares.amounts)


_NOBODY: Final[Mapping[str, Holders]] = MappingProxyType({})


@dataclass(slots=True, eq=False, weakref_slot=True)
class Touched:
    """Devices whose use changed since the owner of this looked, by pool; true if something came back."""

    pools: dict[PoolKey, dict[str, bool]] = field(default_factory=dict)

    def add(self, uses: Iterable["_Use"], *, came_back: bool) -> None:
        """Take note of devices."""
        pools = self.pools
        for pool, device, _, _ in uses:
            if (devices := pools.get(pool)) is None:
                devices = pools[pool] = {}
            devices[device] = came_back or devices.get(device, False)


@dataclass(slots=True)
class Ledger:
    """What is used, by claim and by device. `version` grows with every change.

    With `shares` off, as with consumable capacity switched off, a share counts as the whole device.
    """

    shares: bool = True
    version: int = 0
    _written: dict[ClaimKey, tuple[_Use, ...]] = field(default_factory=dict)
    _assumed: dict[ClaimKey, tuple[_Use, ...]] = field(default_factory=dict)
    _held: dict[PoolKey, dict[str, Holders]] = field(default_factory=dict)
    _contested: set[DeviceKey] = field(default_factory=set)
    """The devices with more than one exclusive use; nearly always none."""
    _subscribers: "tuple[ref[Touched], ...]" = ()

    def subscribe(self) -> Touched:
        """Return an object that collects the devices touched from now on."""
        touched = Touched()
        # Whoever is gone goes now. A call when it goes would come at any time, also while they are walked over.
        alive = [subscriber for subscriber in self._subscribers if subscriber() is not None]
        self._subscribers = (*alive, ref(touched))
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
        if holders is None:
            return ()
        sharing = () if holders.shares is None else holders.shares.claims
        return tuple(sorted({*holders.exclusive, *sharing}))

    def holders(self, pool: PoolKey, devices: Iterable[str]) -> set[ClaimKey]:
        """Return the claims that hold some devices of a pool, or shares of them."""
        found: set[ClaimKey] = set()
        held = self._held.get(pool, {})
        for device in devices:
            if (holders := held.get(device)) is not None:
                found.update(holders.exclusive)
                if holders.shares is not None:
                    found.update(holders.shares.claims)
        return found

    def look(self, pool: PoolKey, devices: Sequence[str]) -> tuple[int, Mapping[int, Mapping[str, int]]]:
        """Return which devices of a list are held exclusively, and what the shares of others consume, by position."""
        taken, shared = 0, dict[int, Mapping[str, int]]()
        if held := self._held.get(pool):
            for position, device in enumerate(devices):
                if (holders := held.get(device)) is not None:
                    if holders.exclusive:
                        taken |= 1 << position
                    if holders.shares is not None:
                        shared[position] = holders.shares.amounts
        return taken, shared

    def collisions(self) -> tuple[Collision, ...]:
        """Return the devices that several claims hold for themselves alone, sorted."""
        found = [
            Collision((driver, pool, device), claims)
            for driver, pool, device in self._contested
            if len(claims := tuple(sorted(set(self._held[driver, pool][device].exclusive)))) > 1
        ]
        return tuple(sorted(found, key=lambda item: item.device))

    def used(self, pool: PoolKey) -> Mapping[str, Holders]:
        """Return the devices of a pool that are in use in any way, by name."""
        return self._held.get(pool, _NOBODY)

    def is_exclusive(self, pool: PoolKey, device: str) -> bool:
        """True if a claim holds the device for itself alone."""
        holders = self._held.get(pool, {}).get(device)
        return holders is not None and bool(holders.exclusive)

    def has_shares(self, pool: PoolKey, device: str) -> bool:
        """True if a claim holds a share of the device."""
        holders = self._held.get(pool, {}).get(device)
        return holders is not None and holders.shares is not None

    def consumed(self, pool: PoolKey, device: str) -> Mapping[str, int]:
        """Return what the shares of a device consume together, in nano-units by capacity name."""
        holders = self._held.get(pool, {}).get(device)
        return _NO_AMOUNTS if holders is None or holders.shares is None else holders.shares.amounts

    def _uses(self, allocation: AllocationResult) -> tuple[_Use, ...]:
        shares = self.shares
        return tuple(
            [
                (
                    (result.driver, result.pool),
                    result.device,
                    shares and bool(result.share_id),
                    tuple([(name, amount.nano) for name, amount in result.consumed_capacity.items()])
                    if result.consumed_capacity
                    else (),
                )
                for result in allocation.devices.results
                if not result.admin_access
            ]
        )

    def _replace(
        self, table: dict[ClaimKey, tuple[_Use, ...]], claim: ClaimKey, uses: tuple[_Use, ...]
    ) -> None:
        old = table.pop(claim, ())
        if uses:
            table[claim] = uses
        if old == uses:
            return
        self.version += 1
        self._take(claim, uses)
        for use in old:
            self._give_back(claim, use)
        for subscriber in self._subscribers:
            if (touched := subscriber()) is not None:
                touched.add(uses, came_back=False)
                if old:
                    touched.add(old, came_back=True)

    def _take(self, claim: ClaimKey, uses: Iterable[_Use]) -> None:
        for pool, device, share, amounts in uses:
            if (devices := self._held.get(pool)) is None:
                devices = self._held[pool] = {}
            if (holders := devices.get(device)) is None:
                holders = devices[device] = Holders()
            if not share:
                holders.exclusive += (claim,)
                if len(holders.exclusive) > 1:
                    self._contested.add((*pool, device))
                continue
            if (shares := holders.shares) is None:
                shares = holders.shares = _Shares()
            shares.claims.append(claim)
            for name, amount in amounts:
                shares.amounts[name] = shares.amounts.get(name, 0) + amount

    def _give_back(self, claim: ClaimKey, use: _Use) -> None:
        pool, device, share, amounts = use
        devices = self._held[pool]
        holders = devices[device]
        if share:
            assert holders.shares is not None
            holders.shares.claims.remove(claim)
            for name, amount in amounts:
                holders.shares.amounts[name] -= amount
            if not holders.shares.claims:
                holders.shares = None
        else:
            position = holders.exclusive.index(claim)
            holders.exclusive = holders.exclusive[:position] + holders.exclusive[position + 1 :]
            if len(holders.exclusive) < 2:
                self._contested.discard((*pool, device))
        if not holders.exclusive and holders.shares is None:
            del devices[device]
            if not devices:
                del self._held[pool]
