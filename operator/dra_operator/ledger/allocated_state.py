"""Allocated state: which claim holds which device, how, and how much of it.

One claim is one entry: the results in its status, or, until the API server has confirmed them, those we decided
ourselves (an assumption). Devices are identified by driver, pool and name, whether a slice publishes them or not. Admin
access never counts: it takes nothing away from anybody.
Source: docs/dra-semantics 4.1.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final
from weakref import WeakSet

from dra_operator.api.attributes import by_short_name
from dra_operator.api.types import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from dra_operator.inventory import PoolKey, bits

DeviceKey = tuple[str, str, str]
"""Driver, pool and device name."""
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""
_NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})
Results = tuple[DeviceRequestAllocationResult, ...]
_Changes = Mapping[PoolKey, Mapping[str, bool]]
"""Devices by pool; true if something came back."""


@dataclass(frozen=True, slots=True)
class Collision:
    """A device that a claim holds for itself alone, and other claims as well, alone or by shares."""

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
class ChangedDevices:
    """Devices whose use changed since the owner of this emptied it, by pool; true if something came back.

    Only the ledger says what has become of a device.
    """

    by_pool: dict[PoolKey, dict[str, bool]] = field(default_factory=dict)

    def add(self, touches: _Changes) -> None:
        """Add some devices."""
        for pool, devices in touches.items():
            known = self.by_pool.setdefault(pool, {})
            for device, came_back in devices.items():
                known[device] = came_back or known.get(device, False)


@dataclass(slots=True)
class Ledger:
    """What is used, by claim and by device. `version` grows with every change.

    With `shares` off, as with consumable capacity switched off, a share counts as the whole device. With `full_names` a
    capacity in the driver's domain is the one without domain (`Rules.full_names`).
    """

    shares: bool = True
    full_names: bool = False
    version: int = 0
    _tried: int = 0
    """How much of `version` is of what was only tried and taken back."""
    _written: dict[ClaimKey, Results] = field(default_factory=dict)
    _assumed: dict[ClaimKey, Results] = field(default_factory=dict)
    _held: defaultdict[PoolKey, dict[str, tuple[ClaimKey, ...]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _shared: dict[PoolKey, dict[str, Shares]] = field(default_factory=dict)
    _contested: set[DeviceKey] = field(default_factory=set)
    """The devices with an exclusive use beside another use; nearly always none."""
    _arrived: set[ClaimKey] = field(default_factory=set)
    """The claims whose allocation came in, and was no decision of ours, since somebody asked."""
    _subscribers: WeakSet[ChangedDevices] = field(default_factory=WeakSet)

    def subscribe(self) -> ChangedDevices:
        """Return an object that collects the devices changed from now on."""
        changed = ChangedDevices()
        self._subscribers.add(changed)
        return changed

    def put(self, claim: ResourceClaim) -> bool:
        """Record what a claim's status says; an allocation in it supersedes an assumption of ours.

        Return whether it has an allocation that was not known and is no decision of ours.
        """
        key = (claim.metadata.namespace, claim.metadata.name)
        allocation = claim.status.allocation
        if allocation is None:
            self._replace(self._written, key, ())
            return False
        results, assumed = self._named(allocation), self._assumed.get(key)
        if assumed and key not in self._written and self._uses(results) == self._uses(assumed):
            # The API server confirms our decision: nothing is taken and nothing comes back.
            del self._assumed[key]
            self._written[key] = results
            return False
        version = self.version
        self._replace(self._written, key, results)
        has_arrived = self.version != version
        if has_arrived:
            self._arrived.add(key)
        self._replace(self._assumed, key, ())
        return has_arrived

    def remove(self, namespace: str, name: str) -> None:
        """Forget a claim that is gone, and what we assumed for it."""
        self._arrived.discard((namespace, name))
        self._replace(self._written, (namespace, name), ())
        self._replace(self._assumed, (namespace, name), ())

    def assume(self, namespace: str, name: str, allocation: AllocationResult) -> None:
        """Count a decision that the API server has not confirmed yet."""
        self._replace(self._assumed, (namespace, name), self._named(allocation))

    def withdraw(self, namespace: str, name: str) -> None:
        """Drop an assumption: the decision will not be written."""
        self._replace(self._assumed, (namespace, name), ())

    @property
    def lasting_version(self) -> int:
        """Return `version` without what was only tried: it stays where the same is in use as before."""
        return self.version - self._tried

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back at the end what is assumed meanwhile, in its order, as shares are searched from the first one."""
        before, version, tried = {*self._assumed}, self.version, self._tried
        try:
            yield
        finally:
            for key in [key for key in self._assumed if key not in before]:
                self.withdraw(*key)
            self._tried = tried + self.version - version

    def assumed(self) -> Iterable[Results]:
        """Return what our decisions that the API server has not confirmed yet take, a claim each."""
        return self._assumed.values()

    def holders(self, pool: PoolKey, devices: Iterable[str]) -> set[ClaimKey]:
        """Return the claims that hold some devices of a pool, or shares of them."""
        found: set[ClaimKey] = set()
        held, shared = self.held(pool), self.shared(pool)
        for device in devices:
            found.update(held.get(device, ()))
            if (shares := shared.get(device)) is not None:
                found.update(shares.claims)
        return found

    def results(self, claim: ClaimKey) -> tuple[DeviceRequestAllocationResult, ...]:
        """Return what a claim has, written or assumed, admin access included."""
        return (*self._written.get(claim, ()), *self._assumed.get(claim, ()))

    def pop_arrived(self) -> set[ClaimKey]:
        """Return the claims whose allocation came in since the last call, and was no decision of ours."""
        arrived, self._arrived = self._arrived, set()
        return arrived

    def in_use(self, pool: PoolKey, devices: Sequence[str]) -> tuple[int, Mapping[int, Mapping[str, int]]]:
        """Return which devices of a list are held exclusively, and what the shares of others consume, by position."""
        held, shared = self.held(pool), self.shared(pool)
        if not held and not shared:
            return 0, {}
        taken = bits.from_positions(position for position, device in enumerate(devices) if device in held)
        return taken, {
            position: shared[device].amounts for position, device in enumerate(devices) if device in shared
        }

    def collisions(self) -> tuple[Collision, ...]:
        """Return the devices that a claim holds for itself alone beside other claims, sorted."""
        found = [
            Collision((driver, pool, device), claims)
            for driver, pool, device in self._contested
            if len(claims := tuple(sorted(self.holders((driver, pool), [device])))) > 1
        ]
        return tuple(sorted(found, key=lambda item: item.device))

    def other_holders(self, claim: ClaimKey) -> set[ClaimKey]:
        """Return the other claims that hold a device of a claim although one of them has it for itself alone."""
        found: set[ClaimKey] = set()
        for result in self.results(claim) if self._contested else ():
            if not result.admin_access and (result.driver, result.pool, result.device) in self._contested:
                found |= self.holders((result.driver, result.pool), [result.device])
        return found - {claim}

    def shares_a_device(self, claim: ClaimKey) -> bool:
        """True if another claim holds a device of a claim although one of them has it for itself alone."""
        return bool(self.other_holders(claim))

    def pools(self) -> set[PoolKey]:
        """Return the pools of which devices, or shares of devices, are held."""
        return {key for each in (self._held, self._shared) for key, devices in each.items() if devices}

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

    def _named(self, allocation: AllocationResult) -> Results:
        """Return what a claim holds, with capacities by the names that slices are kept with."""
        results = allocation.devices.results
        if not self.full_names:
            return results
        return tuple(
            [
                replace(result, consumed_capacity=dict(named))
                if (named := by_short_name(result.consumed_capacity, result.driver))
                is not result.consumed_capacity
                else result
                for result in results
            ]
        )

    def _uses(self, results: Results) -> list[tuple[object, ...]]:
        """Return what results take away from others, to be compared."""
        return [
            (
                result.driver,
                result.pool,
                result.device,
                _amounts(result) if result.share_id and self.shares else None,
            )
            for result in results
            if not result.admin_access
        ]

    def _replace(self, table: dict[ClaimKey, Results], claim: ClaimKey, results: Results) -> None:
        old = table.pop(claim, ())
        if results:
            table[claim] = results
        if old and results and self._uses(old) == self._uses(results):
            return
        entered = self._enter(claim, results)
        returned = self._give_back(claim, old)
        if not entered and not returned:
            return
        self.version += 1
        for changed in self._subscribers:
            changed.add(entered)
            changed.add(returned)

    def _enter(self, claim: ClaimKey, results: Results) -> _Changes:
        """Enter what a claim holds, and return that; true of what it left more."""
        touches: defaultdict[PoolKey, dict[str, bool]] = defaultdict(dict)
        alone = (claim,)
        for result in results:
            if result.admin_access:
                continue
            pool, device = (result.driver, result.pool), result.device
            touches[pool].setdefault(device, False)
            if result.share_id and self.shares:
                shares = self._shared.setdefault(pool, {}).setdefault(device, Shares())
                shares.claims.append(claim)
                if device in self._held.get(pool, _NOBODY):
                    self._contested.add((*pool, device))
                for name, amount in result.consumed_capacity.items():
                    shares.amounts[name] = shares.amounts.get(name, 0) + amount.nano
                    if amount.nano < 0:
                        # The API server admits it, and so there is more for others.
                        touches[pool][device] = True
                continue
            held = self._held[pool]
            if device in held:
                held[device] += alone
                self._contested.add((*pool, device))
            else:
                held[device] = alone
                if device in self._shared.get(pool, _NO_SHARES):
                    self._contested.add((*pool, device))
        return touches

    def _give_back(self, claim: ClaimKey, results: Results) -> _Changes:
        touches: defaultdict[PoolKey, dict[str, bool]] = defaultdict(dict)
        for result in results:
            if result.admin_access:
                continue
            pool, device = (result.driver, result.pool), result.device
            touches[pool][device] = True
            if result.share_id and self.shares:
                self._unshare(claim, result)
                continue
            held = self._held[pool]
            holders = held.pop(device)
            if len(holders) > 1:
                position = holders.index(claim)
                held[device] = holders[:position] + holders[position + 1 :]
            elif not held:
                del self._held[pool]
            self._settle(pool, device)
        return touches

    def _settle(self, pool: PoolKey, device: str) -> None:
        """Forget that a device is contested once it has one exclusive use, or only shares."""
        if self._contested:
            holders = self.held(pool).get(device, ())
            if len(holders) + (bool(holders) and device in self.shared(pool)) < 2:
                self._contested.discard((*pool, device))

    def _unshare(self, claim: ClaimKey, result: DeviceRequestAllocationResult) -> None:
        pool, device = (result.driver, result.pool), result.device
        shared = self._shared[pool]
        shares = shared[device]
        shares.claims.remove(claim)
        for name, amount in result.consumed_capacity.items():
            shares.amounts[name] -= amount.nano
        if not shares.claims:
            del shared[device]
            if not shared:
                del self._shared[pool]
            self._settle(pool, device)


def _amounts(result: DeviceRequestAllocationResult) -> dict[str, int]:
    return {name: amount.nano for name, amount in result.consumed_capacity.items()}
