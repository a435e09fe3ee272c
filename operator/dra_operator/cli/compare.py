"""Comparing a decision with the answer of Kubernetes' own allocator.

Texts of errors and ids of shares are ours and are not compared. Where we decide otherwise on purpose, because
upstream has a defect, the difference has a name, and the scenario must show the defect's cause to get it.
Source: docs/differences.md.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_operator.api.quantity import NANO, parse_quantity

# Go holds an amount of at most 18 digits as an int64, and larger ones in another form, which it treats otherwise.
_PLAIN: Final = 10**18 * NANO


def is_equal(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """True if an outcome is the expected one; both forms of the reference answers are understood."""
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
    policies = _policies(row)
    if any(map(_has_senseless_step, policies)):
        return "capacity-step"
    if any(abs(amount) >= _PLAIN for policy in policies for amount in _amounts(policy)):
        return "policy-beyond-int64"
    if _has_two_generations_with_counters(row):
        return "counters-by-generation"
    return None


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


def _policies(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        capacity.get("requestPolicy") or {}
        for item in row.get("resourceSlices") or ()
        for device in item["spec"].get("devices") or ()
        for capacity in (device.get("capacity") or {}).values()
    ]


def _has_senseless_step(policy: Mapping[str, Any]) -> bool:
    """True for a range with a step of nothing or less, or one without a start: upstream crashes or counts down."""
    span = policy.get("validRange") or {}
    step = span.get("step")
    return step is not None and (parse_quantity(str(step)).nano <= 0 or span.get("min") is None)


def _amounts(policy: Mapping[str, Any]) -> Iterator[int]:
    """Yield the amounts of a policy, in nano-units."""
    span = policy.get("validRange") or {}
    texts = [policy.get("default"), *(policy.get("validValues") or ()), *span.values()]
    return (parse_quantity(str(text)).nano for text in texts if text is not None)
