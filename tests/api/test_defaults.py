"""The API's defaults."""

import pytest

from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object


def claim(**request):
    """Return a claim of one request."""
    return read_object(
        {"kind": "ResourceClaim", "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}}}
    )


@pytest.mark.parametrize(
    ("request_", "mode", "count"),
    [
        ({}, "ExactCount", 1),
        ({"count": 3}, "ExactCount", 3),
        ({"allocationMode": "ExactCount"}, "ExactCount", 1),
        ({"allocationMode": "All"}, "All", 0),
        ({"allocationMode": "Other"}, "Other", 0),
    ],
)
def test_a_request_asks_for_one_device_unless_it_says_otherwise(request_, mode, count):
    """The mode is ExactCount, and its count 1."""
    exactly = apply_defaults(claim(**request_)).spec.devices.requests[0].exactly

    assert (exactly.allocation_mode, exactly.count) == (mode, count)


def test_a_toleration_compares_for_equality_unless_it_says_otherwise():
    """The operator is Equal."""
    tolerations = apply_defaults(claim(tolerations=[{"key": "a"}, {"operator": "Exists"}]))

    assert [each.operator for each in tolerations.spec.devices.requests[0].exactly.tolerations] == [
        "Equal",
        "Exists",
    ]


def test_applying_twice_changes_nothing():
    """Defaults are only for what is absent."""
    once = apply_defaults(claim(tolerations=[{}]))

    assert apply_defaults(once) == once
