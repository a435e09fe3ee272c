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
from dra_operator.inventory import PoolKey, bits

DeviceKey = tuple[str, str, str]
"""Driver, pool and device name."""
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""
_NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})


_Share = tuple[PoolKey, str, tuple[tuple[str, int], ...]]
"""A shared device by pool and name, and the nano-units consumed by capacity name."""
_Uses = tuple[tuple[tuple[PoolKey, tuple[str, ...]], ...], tuple[_Share, ...]]
"""What a claim holds: by pool the devices that it has for itself alone, and its shares.

One is made for each claim, so it is a plain tuple.
"""
_NO_USES: Final[_Uses] = ((), ())


@dataclass(frozen=True, slots=True)
class Collision:
    """A device that several claims hold for themselves alone."""

    device: DeviceKey
    claims: tuple[ClaimKey, ...]


@dataclass(slots=True)
class Shares:
    """The claims that share a device, and what their shares sum up to."""

    claims: list[ClaimKey] = field(default_factory=list)
    amounts: dict[str, int] = field(default_factory=dict)


_NOBODY: Final[Mapping[str, tuple[ClaimKey, ...]]] = MappingProxyType({})
_NO_SHARES: Final[Mapping[str, Shares]] = MappingProxyType({})


@dataclass(slots=True, eq=False, weakref_slot=True)
class Touched:
    """Devices whose use changed since the owner of this looked, by pool; true if something came back."""

    pools: dict[PoolKey, dict[str, bool]] = field(default_factory=dict)

    def add(self, uses: _Uses, *, came_back: bool) -> None:
        """Take note of devices."""
        whole, shares = uses
        for pool, devices in whole:
            self._add(pool, dict.fromkeys(devices, came_back))
        for pool, device, _ in shares:
            self._add(pool, {device: came_back})

    def _add(self, pool: PoolKey, devices: dict[str, bool]) -> None:
        if (known := self.pools.get(pool)) is None:
            self.pools[pool] = devices
            return
        for device, came_back in devices.items():
            known[device] = came_back or known.get(device, False)


@dataclass(slots=True)
class Ledger:
    """What is used, by claim and by device. `version` grows with every change.

    With `shares` off, as with consumable capacity switched off, a share counts as the whole device.
    """

    shares: bool = True
    version: int = 0
    _written: dict[ClaimKey, _Uses] = field(default_factory=dict)
    _assumed: dict[ClaimKey, _Uses] = field(default_factory=dict)
    _held: dict[PoolKey, dict[str, tuple[ClaimKey, ...]]] = field(default_factory=dict)
    _shared: dict[PoolKey, dict[str, Shares]] = field(default_factory=dict)
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
            self._replace(self._written, key, _NO_USES)
            return
        uses = self._uses(allocation)
        if uses == self._assumed.get(key) and key not in self._written:
            # The API server confirms our decision: nothing is taken and nothing comes back.
            self._written[key] = self._assumed.pop(key)
            return
        self._replace(self._written, key, uses)
        self._replace(self._assumed, key, _NO_USES)

    def remove(self, namespace: str, name: str) -> None:
        """Forget a claim that is gone, and what we assumed for it."""
        self._replace(self._written, (namespace, name), _NO_USES)
        self._replace(self._assumed, (namespace, name), _NO_USES)

    def assume(self, namespace: str, name: str, allocation: AllocationResult) -> None:
        """Count a decision that the API server has not confirmed yet."""
        self._replace(self._assumed, (namespace, name), self._uses(allocation))

    def withdraw(self, namespace: str, name: str) -> None:
        """Drop an assumption: the decision will not be written."""
        self._replace(self._assumed, (namespace, name), _NO_USES)

    def owners(self, driver: str, pool: str, device: str) -> tuple[ClaimKey, ...]:
        """Return the claims that hold a device or a share of it, sorted."""
        return tuple(sorted(self.holders((driver, pool), (device,))))

    def holders(self, pool: PoolKey, devices: Iterable[str]) -> set[ClaimKey]:
        """Return the claims that hold some devices of a pool, or shares of them."""
        found: set[ClaimKey] = set()
        held, shared = self.held(pool), self.shared(pool)
        for device in devices:
            found.update(held.get(device, ()))
            if (shares := shared.get(device)) is not None:
                found.update(shares.claims)
        return found

    def look(self, pool: PoolKey, devices: Sequence[str]) -> tuple[int, Mapping[int, Mapping[str, int]]]:
        """Return which devices of a list are held exclusively, and what the shares of others consume, by position."""
        held, shared = self.held(pool), self.shared(pool)
        if not held and not shared:
            return 0, {}
        taken = bits.of_positions(position for position, device in enumerate(devices) if device in held)
        return taken, {
            position: shared[device].amounts for position, device in enumerate(devices) if device in shared
        }

    def collisions(self) -> tuple[Collision, ...]:
        """Return the devices that several claims hold for themselves alone, sorted."""
        found = [
            Collision((driver, pool, device), claims)
            for driver, pool, device in self._contested
            if len(claims := tuple(sorted(set(self._held[driver, pool][device])))) > 1
        ]
        return tuple(sorted(found, key=lambda item: item.device))

    def held(self, pool: PoolKey) -> Mapping[str, tuple[ClaimKey, ...]]:
        """Return the devices of a pool that claims have for themselves alone, by name."""
        return self._held.get(pool, _NOBODY)

    def shared(self, pool: PoolKey) -> Mapping[str, Shares]:
        """Return the devices of a pool that are shared, by name."""
        return self._shared.get(pool, _NO_SHARES)

    def consumed(self, pool: PoolKey, device: str) -> Mapping[str, int]:
        """Return what the shares of a device consume together, in nano-units by capacity name."""
        shares = self.shared(pool).get(device)
        return _NO_AMOUNTS if shares is None else shares.amounts

    def _uses(self, allocation: AllocationResult) -> _Uses:
        whole: dict[PoolKey, list[str]] = {}
        shares: list[_Share] = []
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            pool = (result.driver, result.pool)
            if result.share_id and self.shares:
                amounts = [(name, amount.nano) for name, amount in result.consumed_capacity.items()]
                shares.append((pool, result.device, tuple(amounts)))
            elif pool in whole:
                whole[pool].append(result.device)
            else:
                whole[pool] = [result.device]
        return tuple([(pool, tuple(devices)) for pool, devices in whole.items()]), tuple(shares)

    def _replace(self, table: dict[ClaimKey, _Uses], claim: ClaimKey, uses: _Uses) -> None:
        old = table.pop(claim, _NO_USES)
        if uses != _NO_USES:
            table[claim] = uses
        if old == uses:
            return
        self.version += 1
        self._take(claim, uses)
        if old is not _NO_USES:
            self._give_back(claim, old)
        for subscriber in self._subscribers:
            if (touched := subscriber()) is not None:
                touched.add(uses, came_back=False)
                if old is not _NO_USES:
                    touched.add(old, came_back=True)

    def _take(self, claim: ClaimKey, uses: _Uses) -> None:
        whole, shares = uses
        alone = (claim,)
        for pool, devices in whole:
            if (held := self._held.get(pool)) is None:
                held = self._held[pool] = {}
            for device in devices:
                if device in held:
                    held[device] += alone
                    self._contested.add((*pool, device))
                else:
                    held[device] = alone
        for pool, device, amounts in shares:
            shared = self._shared.setdefault(pool, {})
            if (sharing := shared.get(device)) is None:
                sharing = shared[device] = Shares()
            sharing.claims.append(claim)
            for name, amount in amounts:
                sharing.amounts[name] = sharing.amounts.get(name, 0) + amount

    def _give_back(self, claim: ClaimKey, uses: _Uses) -> None:
        whole, shares = uses
        for pool, devices in whole:
            held = self._held[pool]
            for device in devices:
                holders = held[device]
                if len(holders) == 1:
                    del held[device]
                    continue
                position = holders.index(claim)
                held[device] = holders[:position] + holders[position + 1 :]
                if len(holders) == 2:
                    self._contested.discard((*pool, device))
            if not held:
                del self._held[pool]
        for pool, device, amounts in shares:
            shared = self._shared[pool]
            sharing = shared[device]
            sharing.claims.remove(claim)
            for name, amount in amounts:
                sharing.amounts[name] -= amount
            if not sharing.claims:
                del shared[device]
                if not shared:
                    del self._shared[pool]
