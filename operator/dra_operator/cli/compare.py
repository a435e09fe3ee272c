"""Comparing a decision with the answer of Kubernetes' own allocator.

Texts of errors and ids of shares are ours and are not compared. Where we decide otherwise on purpose, because
upstream has a defect, the difference has a name, and the scenario must show the defect's cause to get it.
Source: docs/differences.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dra_operator.api.quantity import NANO
from dra_operator.api.read import read_object
from dra_operator.api.types import CapacityRequestPolicyRange, DeviceCapacity, ResourceClaim, ResourceSlice
from dra_operator.cli.scenarios import state_as_claim

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
    slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]
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


def _consumes_less_than_nothing(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(
        amount.nano < 0
        for result in allocation.devices.results
        for amount in result.consumed_capacity.values()
    )


def _has_two_generations_with_counters(slices: Iterable[ResourceSlice]) -> bool:
    """True if nodes may see different generations of a pool that has counters."""
    generations: dict[tuple[str, str], set[int]] = defaultdict(set)
    counted: set[tuple[str, str]] = set()
    for spec in (item.spec for item in slices):
        key = (spec.driver, spec.pool.name)
        generations[key].add(spec.pool.generation)
        if spec.shared_counters or any(device.consumes_counters for device in spec.devices):
            counted.add(key)
    return any(len(generations[key]) > 1 for key in counted)


def _has_senseless_step(capacity: DeviceCapacity) -> bool:
    """True for a step of nothing or less, or one without a start: upstream crashes or counts down."""
    span = _span(capacity)
    return (span.step is not None and span.step.nano <= 0) or span.min is None


def _exceeds_int64(capacity: DeviceCapacity) -> bool:
    """True if upstream may count in steps with an amount that its integers do not hold."""
    span, policy = _span(capacity), capacity.request_policy
    unrequested = (policy and policy.default) or capacity.value
    return any(
        abs(amount.nano) >= _INT64 for amount in (span.step, span.min, unrequested) if amount is not None
    )


def _starts_below_zero(capacity: DeviceCapacity) -> bool:
    """True for a range that starts at a negative amount: upstream rounds parts of a unit oddly there, and overflows."""
    start = _span(capacity).min
    return start is not None and start.nano < 0


def _span(capacity: DeviceCapacity) -> CapacityRequestPolicyRange:
    policy = capacity.request_policy
    return (policy and policy.valid_range) or CapacityRequestPolicyRange()


_POLICIES: Final = {
    "capacity-step": _has_senseless_step,
    "policy-beyond-int64": _exceeds_int64,
    "policy-below-zero": _starts_below_zero,
}
