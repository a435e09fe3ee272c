"""What the server sets by itself."""

from typing import Any

import pytest

from dra_operator.testing import strategy
from dra_operator.testing.resources import RESOURCES

BY_KIND = {resource.kind: resource for resource in RESOURCES}
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:1", "IfNotPresent"),
        ("registry:5000/i", "Always"),
        ("i@sha256:0", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    """An image that may change under its name is always pulled."""
    body: dict[str, Any] = {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "image": image}]},
        "status": {},
    }

    strategy.apply_defaults(BY_KIND["Pod"], body, NOW)

    assert body["spec"]["containers"][0]["imagePullPolicy"] == policy


AMOUNT = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": AMOUNT}], "Burstable"),
        ([{"limits": AMOUNT}], "Guaranteed"),
        ([{"limits": AMOUNT, "requests": AMOUNT}], "Guaranteed"),
        ([{"limits": AMOUNT}, {}], "Burstable"),
    ],
)
def test_the_quality_of_service(resources: list[dict[str, Any]], expected: str) -> None:
    """All limits: guaranteed; nothing asked for: best effort; else burstable."""
    containers = [{"name": "c", "image": "i", "resources": item} for item in resources]
    body: dict[str, Any] = {"metadata": {}, "spec": {"containers": containers}}

    strategy.prepare_create(BY_KIND["Pod"], body)

    assert body["status"]["qosClass"] == expected


def test_taints_of_devices_get_their_time() -> None:
    """A taint without a time was added now; one with a time keeps it."""
    taints = [{"key": "a"}, {"key": "b", "timeAdded": "2025-01-01T00:00:00Z"}]
    body: dict[str, Any] = {"metadata": {}, "spec": {"devices": [{"name": "d", "taints": taints}]}}

    strategy.apply_defaults(BY_KIND["ResourceSlice"], body, NOW)

    assert [taint["timeAdded"] for taint in taints] == [NOW, "2025-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("changed", "time"),
    [
        ({"effect": "NoExecute"}, NOW),
        ({"effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}, "2024-01-01T00:00:00Z"),
        ({"value": "v"}, "2025-01-01T00:00:00Z"),
    ],
)
def test_a_taint_counts_from_the_change_of_its_effect(changed: dict[str, str], time: str) -> None:
    """A new effect restarts the time, unless the client gives one; nothing else does."""
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "2025-01-01T00:00:00Z"}
    old = {"metadata": {"generation": 1}, "spec": {"taint": taint}, "status": {}}
    body: dict[str, Any] = {"metadata": {}, "spec": {"taint": {**taint, **changed}}}

    strategy.prepare_update(BY_KIND["DeviceTaintRule"], body, old, NOW)

    assert body["spec"]["taint"]["timeAdded"] == time
    assert body["metadata"]["generation"] == 2


def test_deallocation_drops_the_devices_that_are_gone() -> None:
    """What drivers reported of a device goes with its allocation."""
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "x"}
    reported = {"driver": "d", "pool": "p", "device": "x"}
    old = {
        "metadata": {},
        "spec": {},
        "status": {"allocation": {"devices": {"results": [result]}}, "devices": [reported]},
    }
    body: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"devices": [reported]}}

    strategy.prepare_status_update(BY_KIND["ResourceClaim"], body, old)

    assert body["status"] == {}


def test_who_nominated_a_pod_is_recorded_for_as_long_as_that_stands() -> None:
    """A write of somebody else to another field changes nothing of it; a new nomination, or none, does."""

    def written(node: str | None, old: dict[str, Any], manager: str) -> dict[str, Any]:
        body: dict[str, Any] = {"metadata": {}, "status": {} if node is None else {"nominatedNodeName": node}}
        strategy.record_nomination(BY_KIND["Pod"], body, old, manager)
        return body

    nobody: dict[str, Any] = {"metadata": {}, "status": {}}
    first = written("node-1", nobody, "first")
    (entry,) = first["metadata"]["managedFields"]
    assert (entry["manager"], entry["fieldsV1"]) == ("first", {"f:status": {"f:nominatedNodeName": {}}})
    assert written("node-1", first, "second")["metadata"] == first["metadata"]
    assert written("node-2", first, "second")["metadata"]["managedFields"][0]["manager"] == "second"
    assert written(None, first, "second")["metadata"] == {}
