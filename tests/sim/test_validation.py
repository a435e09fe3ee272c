"""Rules that no recorded scenario asks about."""

from typing import Any

import pytest

from dra_operator.sim import validation
from dra_operator.sim.resources import RESOURCES

BY_KIND = {resource.kind: resource for resource in RESOURCES}
CLAIM, POD = BY_KIND["ResourceClaim"], BY_KIND["Pod"]


def claim_of(**devices: Any) -> dict[str, Any]:
    """Return a claim with this content of spec.devices."""
    return {"metadata": {"name": "c"}, "spec": {"devices": devices}, "status": {}}


def request(name: str) -> dict[str, Any]:
    """Return a request with all defaults."""
    return {"name": name, "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}


def fields(found: list[Any]) -> list[str]:
    """Return the fields that are refused."""
    return [error.field for error in found]


def test_a_sound_claim_is_not_refused() -> None:
    """A claim with a request, a constraint and configuration for it passes."""
    body = claim_of(
        requests=[request("gpu")],
        constraints=[{"requests": ["gpu"], "matchAttribute": "a/b"}],
        config=[{"requests": ["gpu"]}],
    )
    body["spec"]["devices"]["requests"][0]["exactly"]["derivedAttributes"] = [
        {"name": "a/b", "expression": "1"}
    ]

    assert validation.create_errors(CLAIM, body) == []


def test_there_are_32_requests_at_most() -> None:
    """More are not looked at; that they are too many is declared."""
    body = claim_of(requests=[request(f"A_{number}") for number in range(33)])

    assert validation.create_errors(CLAIM, body) == []


@pytest.mark.parametrize("part", ["constraints", "config"])
def test_references_must_name_a_request(part: str) -> None:
    """Constraints and configuration refer to a request or to `request/subrequest`."""
    alternatives = {"name": "any", "firstAvailable": [{**request("x")["exactly"], "name": "x"}]}
    named = ["any", "any/x", "any/y", "x"]
    body = claim_of(**{"requests": [alternatives], part: [{"requests": named, "matchAttribute": "a/b"}]})

    assert fields(validation.create_errors(CLAIM, body)) == [
        f"spec.devices.{part}[0].requests[2]",
        f"spec.devices.{part}[0].requests[3]",
    ]


def status_errors(status: dict[str, Any], before: dict[str, Any], **metadata: Any) -> list[str]:
    """Return the refused fields of a claim's status that was another before."""
    body = claim_of(requests=[request("gpu")])
    old = {**body, "metadata": {"name": "c", **metadata}, "status": before}
    return fields(validation.status_errors(CLAIM, {**body, "status": status}, old))


RESULT = {"request": "gpu", "driver": "d", "pool": "p", "device": "x"}
ALLOCATED = {"allocation": {"devices": {"results": [RESULT]}}}


def consumers(*uids: str) -> list[dict[str, str]]:
    """Return entries of reservedFor."""
    return [{"resource": "pods", "name": f"p{uid}", "uid": uid} for uid in uids]


@pytest.mark.parametrize(
    ("status", "before", "metadata", "refused"),
    [
        pytest.param(ALLOCATED, {}, {}, [], id="an allocation is new"),
        pytest.param({}, ALLOCATED, {}, [], id="an allocation is cleared"),
        pytest.param(
            {"allocation": {"devices": {"results": [{**RESULT, "device": ""}]}}},
            {},
            {},
            ["status.allocation.devices.results[0].device"],
            id="a result names its device",
        ),
        pytest.param(
            {**ALLOCATED, "reservedFor": consumers("1")},
            {**ALLOCATED, "reservedFor": consumers("1", "2")},
            {"deletionTimestamp": "now"},
            [],
            id="a consumer leaves a claim that is being deleted",
        ),
        pytest.param(
            {**ALLOCATED, "reservedFor": consumers("1")},
            ALLOCATED,
            {"deletionTimestamp": "now"},
            ["status.reservedFor"],
            id="no consumer joins a claim that is being deleted",
        ),
    ],
)
def test_the_status_of_a_claim(
    status: dict[str, Any], before: dict[str, Any], metadata: dict[str, Any], refused: list[str]
) -> None:
    """Allocation and consumers change only in the ways that keep them consistent."""
    assert status_errors(status, before, **metadata) == refused


def test_a_container_needs_name_and_image() -> None:
    """The least that a pod's container says."""
    assert fields(validation.create_errors(POD, {"metadata": {}, "spec": {"containers": [{}]}})) == [
        "spec.containers[0].name",
        "spec.containers[0].image",
    ]


@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        ({"name": "a" * 254}, ["metadata.name"]),
        ({"name": "a", "labels": {"k": "v" * 64}}, ["metadata.labels"]),
        ({"name": "a", "labels": {"/k": "v"}}, ["metadata.labels"]),
        ({"name": "a", "finalizers": ["x/" + "y" * 64]}, ["metadata.finalizers"]),
        ({"name": "a.b-c", "labels": {"a.b/c_d": "e.f"}, "finalizers": ["a/b"]}, []),
    ],
)
def test_metadata(metadata: dict[str, Any], refused: list[str]) -> None:
    """Names, labels and finalizers have lengths and letters."""
    assert fields(validation.metadata_errors(CLAIM, metadata)) == refused
