"""`dra-operator replay`: recorded allocator scenarios, decided again.

A scenario is a cluster and the claims to allocate in it, as plain JSON; what comes out is the decision, and
where the scenario carries the answer of Kubernetes' own allocator, whether it is the same. Source:
docs/cli.md and the scenario format it refers to.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from uuid import UUID

from dra_operator.allocator import AdminAccess, Allocator, Features, Limits
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.read import read_object
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    Metadata,
    ResourceClaim,
    ResourceClaimStatus,
)
from dra_operator.cel import STORED_137
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

_KINDS = {
    "nodes": "Node",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, the claims that are allocated in it, and those to be allocated."""

    name: str
    allocator: Allocator
    claims: tuple[ResourceClaim, ...]


def load(row: Mapping[str, Any], *, seed: int = 0) -> Scenario:
    """Return the scenario of a row, ready to be decided; share ids come from the seed.

    Raises ValueError, of which ObjectError is one, for what cannot be read.
    """
    mode = row.get("mode", "firstNodeThatFits")
    if mode != "firstNodeThatFits":
        raise ValueError(f"mode {mode!r} is not known; firstNodeThatFits is")
    features = Features.named(row.get("features") or {})
    defaults: Callable[[Any], Any] = (lambda item: item) if row.get("noDefaults") else apply_defaults
    inventory, ledger = Inventory(), Ledger(shares=features.consumable_capacity)
    for item in _objects(row, defaults):
        inventory.put(item)
    for claim in _read_all(row.get("allocated"), "ResourceClaim", defaults):
        ledger.put(claim)
    ledger.put(_state_as_claim(row.get("allocatedState") or {}, features))
    ids = Random(seed)  # noqa: S311 - the ids need to be the same each time, not secret
    allocator = Allocator(
        inventory,
        ledger,
        features=features,
        limits=Limits(),
        clock=time.monotonic,
        share_ids=lambda: str(UUID(int=ids.getrandbits(128), version=4)),
        admin_access=AdminAccess.ANY_NAMESPACE,
        environment=replace(
            STORED_137,
            consumable_capacity=features.consumable_capacity,
            list_type_attributes=features.list_type_attributes,
        ),
    )
    claims = tuple(_read_all(row.get("claims"), "ResourceClaim", defaults))
    return Scenario(str(row.get("name", "")), allocator, claims)


def _objects(row: Mapping[str, Any], defaults: Callable[[Any], Any]) -> Iterator[Any]:
    nodes = [row["node"]] if row.get("node") else row.get("nodes")
    names: set[str] = set()
    for name, kind in _KINDS.items():
        for item in _read_all(nodes if name == "nodes" else row.get(name), kind, defaults):
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


def _read_all(rows: Any, kind: str, defaults: Callable[[Any], Any]) -> Iterator[Any]:
    for row in rows or ():
        yield defaults(read_object(row, kind))


def _state_as_claim(state: Mapping[str, Any], features: Features) -> ResourceClaim:
    """Return a claim that holds what a scenario says is in use without saying by whom; shares only with the feature."""
    results: list[DeviceRequestAllocationResult] = []
    kinds = [name for name in state if name == "devices" or features.consumable_capacity]
    entries = [(name, entry) for name in kinds for entry in state[name]]
    for number, (name, entry) in enumerate(entries):
        amounts = {
            capacity: parse_quantity(str(text)) for capacity, text in entry.get("capacity", {}).items()
        }
        results.append(
            DeviceRequestAllocationResult(
                driver=entry["driver"],
                pool=entry["pool"],
                device=entry["device"],
                share_id=None if name == "devices" else entry.get("shareID", f"state-{number}"),
                consumed_capacity=amounts,
            )
        )
    allocation = AllocationResult(DeviceAllocationResult(tuple(results)))
    return ResourceClaim(Metadata(name="allocatedState"), status=ResourceClaimStatus(allocation))
