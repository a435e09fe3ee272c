"""Recorded scenarios: a cluster and the claims to allocate in it, as plain JSON, made ready to be decided."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import orjson

from dra_operator.allocator import AdminAccess, Allocator, Features, Limits
from dra_operator.api.core import Metadata
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.read import read_object
from dra_operator.api.share_ids import share_id
from dra_operator.api.shortened import shown
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from dra_operator.cel import STORED
from dra_operator.cli.bounds import TOO_DEEP
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

_KINDS = {
    "nodes": "Node",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
}
_FIELDS = {
    *_KINDS,
    "node",
    "claims",
    "allocated",
    "allocatedState",
    "features",
    "noDefaults",
    "mode",
    "expected",
}
"""What a scenario may have beside its name."""
_STATE = ("devices", "sharedDevices", "consumedCapacity")
"""What a scenario may say of what is in use without saying by whom."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, the claims that are allocated in it, and those to be allocated."""

    allocator: Allocator
    claims: tuple[ResourceClaim, ...]


def read_row(line: bytes) -> Mapping[str, Any]:
    """Return the row that a line of a file is. Raises ValueError if it is none."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error}") from None
    try:
        # What is written may nest 254 levels deep, what is read 1,024, which nobody gets through.
        orjson.dumps(row)
    except orjson.JSONEncodeError:
        raise ValueError(TOO_DEEP) from None
    return _object("the line", row)


def load(row: Mapping[str, Any], *, seed: int = 0) -> Scenario:
    """Return the scenario of a row, ready to be decided; share ids come from the seed.

    Raises ValueError, of which ObjectError is one, for what cannot be read.
    """
    if _FIELDS.isdisjoint(row):
        # An object of Kubernetes, say, would be answered with "unsatisfiable", as it asks for nothing of nobody.
        raise ValueError("the line is no scenario: it has neither claims nor anything else that one has")
    mode = row.get("mode", "firstNodeThatFits")
    if mode != "firstNodeThatFits":
        raise ValueError(f"mode {mode!r} is not known; firstNodeThatFits is")
    switches = _object("features", row.get("features") or {})
    features = Features.named({name: _flag(f"features.{name}", on) for name, on in switches.items()})
    defaults: Callable[[Any], Any] = (
        (lambda item: item) if _flag("noDefaults", row.get("noDefaults", False)) else apply_defaults
    )
    inventory, ledger = Inventory(), Ledger()
    for item in _objects(row, defaults):
        inventory.put(item)
    for claim in _read_all(row, "allocated", "ResourceClaim", defaults):
        ledger.put(claim if features.consumable_capacity else _without_shares(claim))
    ledger.put(state_as_claim(row))
    ids = Random(seed)  # noqa: S311 - the ids need to be the same each time, not secret
    allocator = Allocator(
        inventory,
        ledger,
        features=features,
        limits=Limits(),
        clock=time.monotonic,
        share_ids=partial(share_id, ids.getrandbits),
        admin_access=AdminAccess.ANY_NAMESPACE,
        environment=replace(
            STORED,
            consumable_capacity=features.consumable_capacity,
            list_type_attributes=features.list_type_attributes,
        ),
    )
    if row.get("expected") is not None:
        _object("expected", row["expected"])
    claims = tuple(_read_all(row, "claims", "ResourceClaim", defaults))
    return Scenario(allocator, claims)


def _objects(row: Mapping[str, Any], defaults: Callable[[Any], Any]) -> Iterator[Any]:
    if row.get("node"):
        row = {**row, "nodes": [row["node"]]}
    names: set[str] = set()
    for name, kind in _KINDS.items():
        for item in _read_all(row, name, kind, defaults):
            yield _with_unique_name(item, names) if kind == "ResourceSlice" else item


def _with_unique_name(item: Any, names: set[str]) -> Any:
    """Return a slice under a name of its own; recorded ones may share a name, which a cluster cannot have."""
    name, number = item.metadata.name, 0
    while name in names:
        number += 1
        # Sorts directly behind the name it stands for.
        name = f"{item.metadata.name}\x00{number}"
    names.add(name)
    return item if not number else replace(item, metadata=replace(item.metadata, name=name))


def _read_all(row: Mapping[str, Any], name: str, kind: str, defaults: Callable[[Any], Any]) -> Iterator[Any]:
    for body in _list(name, row.get(name)):
        yield defaults(read_object(body, kind))


def _without_shares(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim whose shares are whole devices, as they count with consumable capacity switched off."""
    if (allocation := claim.status.allocation) is None:
        return claim
    results = tuple(replace(item, share_id=None, consumed_capacity={}) for item in allocation.devices.results)
    devices = replace(allocation.devices, results=results)
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def state_as_claim(row: Mapping[str, Any]) -> ResourceClaim:
    """Return a claim that holds what a scenario says is in use without saying by whom.

    Shares in it are shares even with consumable capacity switched off: they use up counters, and block nobody.
    Raises ValueError for what cannot be read.
    """
    state = _object("allocatedState", row.get("allocatedState") or {})
    if unknown := sorted(state.keys() - _STATE):
        raise ValueError(f"allocatedState: {', '.join(unknown)}: none of {', '.join(_STATE)}")
    entries = [(name, entry) for name in _STATE for entry in _list(f"allocatedState.{name}", state.get(name))]
    results = tuple(_used(name, entry, number) for number, (name, entry) in enumerate(entries))
    allocation = AllocationResult(DeviceAllocationResult(results))
    return ResourceClaim(Metadata(name="allocatedState"), status=ResourceClaimStatus(allocation))


def _used(name: str, entry: Any, number: int) -> DeviceRequestAllocationResult:
    path = f"allocatedState.{name}"
    device = _object(path, entry)
    if missing := [part for part in ("driver", "pool", "device") if not isinstance(device.get(part), str)]:
        raise ValueError(f"{path}: {', '.join(missing)} is required, as text")
    capacity = _object(f"{path}.capacity", device.get("capacity") or {})
    return DeviceRequestAllocationResult(
        driver=device["driver"],
        pool=device["pool"],
        device=device["device"],
        share_id=None if name == "devices" else str(device.get("shareID") or f"state-{number}"),
        consumed_capacity={item: parse_quantity(str(text)) for item, text in capacity.items()},
    )


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{name}: {shown(value)} is not true or false")


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"{name}: {shown(value)} is not an object")


def _list(name: str, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    raise ValueError(f"{name}: {shown(value)} is not a list")
