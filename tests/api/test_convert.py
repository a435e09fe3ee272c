"""Conversion: v1beta1, v1beta2 and v1alpha3 against v1."""

import copy

import pytest

from dra_operator.api.convert import from_v1, to_v1


def claim(request, version):
    """Return a claim with one request."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [request]}},
    }


def resource_slice(version, **spec):
    """Return a slice."""
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "spec": spec}


FLAT = {
    "name": "r",
    "deviceClassName": "gpu",
    "allocationMode": "ExactCount",
    "count": 2,
    "tolerations": [{"operator": "Exists"}],
}
NESTED = {"name": "r", "exactly": {name: value for name, value in FLAT.items() if name != "name"}}
ALTERNATIVES = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": 1}]}

PAIRS = [
    (claim(FLAT, "v1beta1"), claim(NESTED, "v1")),
    (claim(NESTED, "v1beta2"), claim(NESTED, "v1")),
    (claim(ALTERNATIVES, "v1beta1"), claim(ALTERNATIVES, "v1")),
    (
        {
            "apiVersion": "resource.k8s.io/v1beta1",
            "kind": "ResourceClaimTemplate",
            "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [FLAT]}}},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [NESTED]}}},
        },
    ),
    (
        resource_slice(
            "v1beta1", devices=[{"name": "a", "basic": {"capacity": {"m": {"value": "1"}}, "nodeName": "n"}}]
        ),
        resource_slice("v1", devices=[{"name": "a", "capacity": {"m": {"value": "1"}}, "nodeName": "n"}]),
    ),
    (
        {
            "apiVersion": "resource.k8s.io/v1alpha3",
            "kind": "DeviceTaintRule",
            "spec": {"taint": {"key": "k"}},
        },
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "spec": {"taint": {"key": "k"}}},
    ),
    (
        {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "spec": {"selectors": []}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {"selectors": []}},
    ),
]
IDS = [
    "flat request",
    "v1beta2",
    "alternatives",
    "template",
    "basic device",
    "taint rule",
    "class",
]


@pytest.mark.parametrize(("older", "newer"), PAIRS, ids=IDS)
def test_an_older_version_reads_as_v1(older, newer):
    """An object of an older version becomes the same object of v1, and the argument stays as it was."""
    before = copy.deepcopy(older)

    assert to_v1(older) == newer
    assert older == before


@pytest.mark.parametrize(("older", "newer"), PAIRS, ids=IDS)
def test_v1_is_written_in_an_older_version(older, newer):
    """An object of v1 becomes the same object of an older version."""
    assert from_v1(newer, older["apiVersion"].partition("/")[2]) == older


@pytest.mark.parametrize(
    "spec", [{"nodeName": ""}, {"allNodes": False}, {"nodeName": "", "allNodes": False}, {"nodeName": None}]
)
def test_unset_node_fields_of_v1beta1_are_absent_in_v1(spec):
    """v1beta1 writes what is not set as an empty text and false."""
    assert to_v1(resource_slice("v1beta1", **spec))["spec"] == {}


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ({}, False),
        ({"count": 0}, False),
        ({"selectors": []}, False),
        ({"deviceClassName": ""}, False),
        ({"count": 1}, True),
        ({"adminAccess": False}, True),
        ({"capacity": {}}, True),
    ],
)
def test_exactly_appears_with_the_first_field_that_is_not_zero(flat, nested):
    """A request of zero fields has no `exactly`; a pointer counts as soon as it is there."""
    (request,) = to_v1(claim({"name": "r", **flat}, "v1beta1"))["spec"]["devices"]["requests"]

    assert ("exactly" in request) is nested
