"""What is refused of values: by the rules that the structs declare, by formats, and by the written rules."""

from typing import Any

import pytest

from dra_operator.testing import validation
from dra_operator.testing.resources import RESOURCES
from dra_operator.testing.validation import declared_errors

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


SLICE = BY_KIND["ResourceSlice"]


def claim(*requests: dict[str, Any], **status: Any) -> dict[str, Any]:
    """Return a claim in the stored shape."""
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests)}}, "status": status}


def alternatives(*classes: str) -> dict[str, Any]:
    """Return a request for the first of some classes."""
    listed = [{"name": f"n-{index}", "deviceClassName": name} for index, name in enumerate(classes)]
    return {"name": "any", "firstAvailable": listed}


def resource_slice(*devices: dict[str, Any]) -> dict[str, Any]:
    """Return a slice in the stored shape."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": pool, "devices": list(devices)}}


def device(name: str, *counter_sets: str) -> dict[str, Any]:
    """Return a device that consumes from counter sets."""
    counters = {"m": {"value": "1"}}
    return {
        "name": name,
        "consumesCounters": [{"counterSet": each, "counters": counters} for each in counter_sets],
    }


def refused(kind: str, body: Any, old: Any = None, version: str = "v1") -> list[str]:
    """Return the fields that are refused."""
    return [error.field for error in declared_errors(BY_KIND[kind], version, body, old)]


def test_kinds_of_other_groups_declare_nothing() -> None:
    """Only the structs of resource.k8s.io are asked."""
    assert refused("Pod", {"metadata": {"name": "p"}, "spec": {}, "status": {}}) == []


def test_a_required_value_that_is_empty_is_missing() -> None:
    """An empty text is no text; its format is not looked at."""
    (error,) = declared_errors(CLAIM, "v1", claim(alternatives("")))

    assert error.field == "spec.devices.requests[0].firstAvailable[0].deviceClassName"
    assert error.reason == "FieldValueRequired"


def test_the_path_is_that_of_the_version() -> None:
    """In v1beta1 the content of a device is below `basic`."""
    body = resource_slice(device("d", "s", "s"))

    assert refused("ResourceSlice", body) == ["spec.devices[0].consumesCounters[1]"]
    assert refused("ResourceSlice", body, version="v1beta1") == ["spec.devices[0].basic.consumesCounters[1]"]


def test_too_many_items_are_not_looked_at() -> None:
    """A list that is too long is refused once."""
    assert refused("ResourceSlice", resource_slice(device("d", "A_", "A_", "A_"))) == [
        "spec.devices[0].consumesCounters"
    ]


def test_what_an_update_leaves_is_not_asked_about() -> None:
    """Values from before a rule stay valid until they change."""
    old = resource_slice(device("d", "A_"))

    assert refused("ResourceSlice", {**old, "metadata": {"name": "s", "labels": {"a": "b"}}}, old) == []


def test_items_without_keys_are_all_asked_about_when_their_list_changes() -> None:
    """Devices are an atomic list: a new one makes all of them new."""
    old = resource_slice(device("d", ""))

    assert refused("ResourceSlice", resource_slice(device("d", ""), device("e")), old) == [
        "spec.devices[0].consumesCounters[0].counterSet"
    ]


def test_items_with_keys_are_compared_one_by_one() -> None:
    """A counter set is the one from before, though another joined it."""
    old = {"metadata": {"name": "s"}, "spec": {"sharedCounters": _sets("A_")}}
    new = {"metadata": {"name": "s"}, "spec": {"sharedCounters": _sets("b", "A_")}}

    assert refused("ResourceSlice", new, old) == []


def _sets(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "counters": {"m": {"value": "1"}}} for name in names]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, {"devices": {}}, [], id="set"),
        pytest.param({"devices": {}}, None, [], id="cleared"),
        pytest.param({"devices": {}}, {"devices": {"results": []}}, ["status.allocation"], id="changed"),
    ],
)
def test_an_allocation_is_set_and_cleared_but_not_changed(
    before: Any, after: Any, expected: list[str]
) -> None:
    """`update=NoModify`: the same field again needs a deallocation in between."""
    old, new = ({} if value is None else {"allocation": value} for value in (before, after))

    assert refused("ResourceClaim", claim(**new), claim(**old)) == expected


@pytest.mark.parametrize(
    ("values", "refuses"), [({"int": 0}, False), ({}, True), ({"int": 1, "bool": False}, True)]
)
def test_one_member_of_a_union_is_set(values: dict[str, Any], refuses: bool) -> None:  # noqa: FBT001
    """Zero and false are values, too."""
    body = resource_slice({"name": "d", "attributes": {"a": values}})

    assert (refused("ResourceSlice", body) == ["spec.devices[0].attributes[a]"]) is refuses


def test_a_duplicate_is_shown_as_go_writes_it() -> None:
    """Fields stand in the order of the struct, whatever order the client sent."""
    exactly = {"count": 1, "allocationMode": "ExactCount", "deviceClassName": "c"}
    request = {"exactly": exactly, "name": "gpu"}

    (error,) = declared_errors(CLAIM, "v1", claim(request, request))

    assert error.message == (
        'Duplicate value: {"name":"gpu","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}'
    )


QUALIFIED = "k8s-resource-fully-qualified-name"
