"""Recorded scenarios: a cluster and the claims to allocate in it, as plain JSON, and how answers are compared."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final

import orjson

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.api import types
from dra_operator.api.convert import apply_defaults
from dra_operator.api.core import Metadata
from dra_operator.api.names import share_id
from dra_operator.api.quantity import NANO, parse_quantity
from dra_operator.api.read import read_object
from dra_operator.api.text import shown
from dra_operator.api.versions import RELEASED, RULES
from dra_operator.inventory import Features, Inventory
from dra_operator.ledger import Ledger
from dra_operator.questions.documents import TOO_DEEP

_KINDS = {
    "nodes": "Node",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
}
_FIELDS = {
    *_KINDS, "node", "claims", "allocated", "allocatedState", "features", "noDefaults", "mode", "expected",
    "kubernetes",
}  # fmt: skip
"""What a scenario may have beside its name."""
_STATE = ("devices", "sharedDevices", "consumedCapacity")
"""What a scenario may say of what is in use without saying by whom."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, the claims that are allocated in it, and those to be allocated."""

    allocator: Allocator
    claims: tuple[types.ResourceClaim, ...]


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
    version = row.get("kubernetes", RELEASED)
    if version not in RULES:
        raise ValueError(f"kubernetes {version!r} is not known; {', '.join(RULES)} are")
    features = replace(features, rules=RULES[version])
    full_names = features.rules.full_names
    inventory, ledger = Inventory(full_names=full_names), Ledger(full_names=full_names)
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
        # A busy machine decides as any other.
        limits=Limits(seconds=100.0),
        clock=time.monotonic,
        share_ids=partial(share_id, ids.getrandbits),
        admin_access=AdminAccess.ANY_NAMESPACE,
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


def _without_shares(claim: types.ResourceClaim) -> types.ResourceClaim:
    """Return a claim whose shares are whole devices, as they count with consumable capacity switched off."""
    if (allocation := claim.status.allocation) is None:
        return claim
    results = tuple(replace(item, share_id=None, consumed_capacity={}) for item in allocation.devices.results)
    devices = replace(allocation.devices, results=results)
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def state_as_claim(row: Mapping[str, Any]) -> types.ResourceClaim:
    """Return a claim that holds what a scenario says is in use without saying by whom.

    Shares in it are shares even with consumable capacity switched off: they use up counters, and block nobody.
    Raises ValueError for what cannot be read.
    """
    state = _object("allocatedState", row.get("allocatedState") or {})
    if unknown := sorted(state.keys() - _STATE):
        raise ValueError(f"allocatedState: {', '.join(unknown)}: none of {', '.join(_STATE)}")
    entries = [(name, entry) for name in _STATE for entry in _list(f"allocatedState.{name}", state.get(name))]
    results = tuple(_used(name, entry, number) for number, (name, entry) in enumerate(entries))
    allocation = types.AllocationResult(types.DeviceAllocationResult(results))
    return types.ResourceClaim(Metadata(name="allocatedState"), status=types.ResourceClaimStatus(allocation))


def _used(name: str, entry: Any, number: int) -> types.DeviceRequestAllocationResult:
    path = f"allocatedState.{name}"
    device = _object(path, entry)
    if missing := [part for part in ("driver", "pool", "device") if not isinstance(device.get(part), str)]:
        raise ValueError(f"{path}: {', '.join(missing)} is required, as text")
    capacity = _object(f"{path}.capacity", device.get("capacity") or {})
    return types.DeviceRequestAllocationResult(
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


_INT64: Final = 2**63 * NANO


def is_equal(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """True if an outcome is the expected one; both forms of the reference answers are understood."""
    if answer == expected:
        return True
    if "errorContains" in expected or (
        isinstance(expected.get("unsatisfiable"), bool) and "results" in expected
    ):
        return _equals_table_answer(answer, expected)
    if "error" in expected:
        return bool("error" in answer and answer.get("errorKind") == expected.get("errorKind", "fatal"))
    return bool(_without_share_ids(answer) == _without_share_ids(expected))


def _equals_table_answer(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    if text := expected.get("errorContains"):
        # An error of that kind lets the next node be tried, so that it ends as "no node fits".
        return "error" in answer or ("invalid resource pools" in str(text) and "unsatisfiable" in answer)
    if expected.get("unsatisfiable"):
        return "unsatisfiable" in answer
    wanted = expected.get("results")
    if "results" not in answer:
        return not wanted and "unsatisfiable" in answer
    return (
        isinstance(wanted, list)
        and len(wanted) == len(answer["results"])
        and all(map(_equals_table_result, answer["results"], wanted))
    )


def _equals_table_result(result: Any, expected: Any) -> bool:
    if not isinstance(expected, Mapping):
        return False
    found = [_without_share_ids(item) for item in (result, expected.get("result"))]
    ours, theirs = map(_sorted_devices, found) if expected.get("order") == "any" else found
    return bool(ours == theirs)


def _sorted_devices(result: Any) -> Any:
    """Return a result with its devices sorted; what is none, as it is."""
    try:
        devices = sorted(result["devices"]["results"], key=repr)
    except (TypeError, KeyError):
        return result
    return {**result, "devices": {**result["devices"], "results": devices}}


def _without_share_ids(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: "*" if key == "shareID" else _without_share_ids(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_without_share_ids(item) for item in value]
    return value


def difference(row: Mapping[str, Any]) -> str | None:
    """Return the name of the difference that a scenario can show, or None if it has the cause of none.

    Raises ValueError for a scenario that cannot be read.
    """
    slices = [read_object(body, "ResourceSlice") for body in row.get("resourceSlices") or ()]
    capacities = [
        capacity
        for item in slices
        for device in item.spec.devices
        for capacity in device.capacity.values()
        if _span(capacity).step is not None
    ]
    for name, has_cause in _POLICIES.items():
        if any(map(has_cause, capacities)):
            return name
    if _has_two_generations_with_counters(slices):
        return "counters-by-generation"
    claims = [read_object(body, "ResourceClaim") for body in row.get("allocated") or ()]
    claims.append(state_as_claim(row))
    if shared_and_not_shareable(slices, claims):
        return "exclusive-over-share"
    if any(map(_consumes_less_than_nothing, claims)):
        return "use-below-zero"
    return None


def shared_and_not_shareable(
    slices: Iterable[types.ResourceSlice], claims: Iterable[types.ResourceClaim]
) -> set[tuple[str, str, str]]:
    """Return the devices (driver, pool, name) of which claims have shares though a slice says no."""
    exclusive = {
        (item.spec.driver, item.spec.pool.name, device.name)
        for item in slices
        for device in item.spec.devices
        if not device.allow_multiple_allocations
    }
    allocations = [claim.status.allocation for claim in claims]
    return exclusive & {
        (result.driver, result.pool, result.device)
        for allocation in allocations
        if allocation is not None
        for result in allocation.devices.results
        if result.share_id and not result.admin_access
    }


def _consumes_less_than_nothing(claim: types.ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(
        amount.nano < 0
        for result in allocation.devices.results
        for amount in result.consumed_capacity.values()
    )


def _has_two_generations_with_counters(slices: Iterable[types.ResourceSlice]) -> bool:
    """True if nodes may see different generations of a pool that has counters."""
    generations: dict[tuple[str, str], set[int]] = defaultdict(set)
    counted: set[tuple[str, str]] = set()
    for spec in (item.spec for item in slices):
        key = (spec.driver, spec.pool.name)
        generations[key].add(spec.pool.generation)
        if spec.shared_counters or any(device.consumes_counters for device in spec.devices):
            counted.add(key)
    return any(len(generations[key]) > 1 for key in counted)


def _has_senseless_step(capacity: types.DeviceCapacity) -> bool:
    """True for a step of nothing or less, or one without a start: upstream crashes or counts down."""
    span = _span(capacity)
    return (span.step is not None and span.step.nano <= 0) or span.min is None


def _exceeds_int64(capacity: types.DeviceCapacity) -> bool:
    """True if upstream may count in steps with an amount that its integers do not hold."""
    span, policy = _span(capacity), capacity.request_policy
    unrequested = (policy and policy.default) or capacity.value
    return any(
        abs(amount.nano) >= _INT64 for amount in (span.step, span.min, unrequested) if amount is not None
    )


def _starts_below_zero(capacity: types.DeviceCapacity) -> bool:
    """True for a range that starts at a negative amount: upstream rounds parts of a unit oddly there, and overflows."""
    start = _span(capacity).min
    return start is not None and start.nano < 0


def _span(capacity: types.DeviceCapacity) -> types.CapacityRequestPolicyRange:
    policy = capacity.request_policy
    return (policy and policy.valid_range) or types.CapacityRequestPolicyRange()


_POLICIES: Final = {
    "capacity-step": _has_senseless_step,
    "policy-beyond-int64": _exceeds_int64,
    "policy-below-zero": _starts_below_zero,
}
