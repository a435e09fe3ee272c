"""Comparing a decision with the answer of Kubernetes' own allocator.

Texts of errors and ids of shares are ours and are not compared. Where we decide otherwise on purpose, because
upstream has a defect, the difference has a name, and the scenario must show the defect's cause to get it.
Source: docs/differences.md.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_operator.api.quantity import NANO, parse_quantity

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
        return "error" in answer or ("invalid resource pools" in text and "unsatisfiable" in answer)
    if expected.get("unsatisfiable"):
        return "unsatisfiable" in answer
    if "results" not in answer:
        return not expected["results"] and "unsatisfiable" in answer
    wanted = expected["results"]
    return len(wanted) == len(answer["results"]) and all(
        _sorted_if(item["order"] == "any", item["result"]) == _sorted_if(item["order"] == "any", got)
        for item, got in zip(wanted, answer["results"], strict=True)
    )


def _sorted_if(any_order: bool, result: Mapping[str, Any]) -> Any:  # noqa: FBT001 - a fact of the data
    plain = _without_share_ids(result)
    devices = plain.get("devices", {})
    if any_order and "results" in devices:
        devices["results"] = sorted(devices["results"], key=repr)
    return plain


def _without_share_ids(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: "*" if key == "shareID" else _without_share_ids(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_without_share_ids(item) for item in value]
    return value


def difference(row: Mapping[str, Any]) -> str | None:
    """Return the name of the difference that a scenario can show, or None if it has the cause of none."""
    for name, has_cause in _POLICIES.items():
        if any(map(has_cause, _capacities(row))):
            return name
    if _has_two_generations_with_counters(row):
        return "counters-by-generation"
    if any(_nano(amount) < 0 for amounts in consumed_amounts(row) for amount in amounts.values()):
        return "use-below-zero"
    return None


def consumed_amounts(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what the claims in use of a scenario say that their shares consume."""
    for claim in row.get("allocated") or ():
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            yield result.get("consumedCapacity") or {}
    for device in (row.get("allocatedState") or {}).get("consumedCapacity") or ():
        yield device.get("capacity") or {}


def _has_two_generations_with_counters(row: Mapping[str, Any]) -> bool:
    """True if nodes may see different generations of a pool that has counters."""
    generations: dict[tuple[str, str], set[int]] = defaultdict(set)
    counted: set[tuple[str, str]] = set()
    for item in row.get("resourceSlices") or ():
        spec = item["spec"]
        key = (spec["driver"], spec["pool"]["name"])
        generations[key].add(spec["pool"].get("generation", 0))
        if spec.get("sharedCounters") or any(
            device.get("consumesCounters") for device in spec.get("devices") or ()
        ):
            counted.add(key)
    return any(len(generations[key]) > 1 for key in counted)


def _capacities(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the capacities in a scenario whose policy has steps."""
    for item in row.get("resourceSlices") or ():
        for device in item["spec"].get("devices") or ():
            for capacity in (device.get("capacity") or {}).values():
                if _span(capacity).get("step") is not None:
                    yield capacity


def _has_senseless_step(capacity: Mapping[str, Any]) -> bool:
    """True for a step of nothing or less, or one without a start: upstream crashes or counts down."""
    span = _span(capacity)
    return _nano(span["step"]) <= 0 or span.get("min") is None


def _exceeds_int64(capacity: Mapping[str, Any]) -> bool:
    """True if upstream may count in steps with an amount that its integers do not hold."""
    span, policy = _span(capacity), capacity["requestPolicy"]
    unrequested = policy.get("default")
    texts = (span["step"], span.get("min"), capacity["value"] if unrequested is None else unrequested)
    return any(abs(_nano(text)) >= _INT64 for text in texts if text is not None)


def _starts_below_zero(capacity: Mapping[str, Any]) -> bool:
    """True for a range that starts at a negative amount: upstream rounds parts of a unit oddly there, and overflows."""
    start = _span(capacity).get("min")
    return start is not None and _nano(start) < 0


def _span(capacity: Mapping[str, Any]) -> Mapping[str, Any]:
    return (capacity.get("requestPolicy") or {}).get("validRange") or {}


def _nano(text: object) -> int:
    return parse_quantity(str(text)).nano


_POLICIES: Final = {
    "capacity-step": _has_senseless_step,
    "policy-beyond-int64": _exceeds_int64,
    "policy-below-zero": _starts_below_zero,
}
