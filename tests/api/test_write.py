"""Writing: the inverse of reading."""

import pytest

from dra_operator.api.convert import from_v1
from dra_operator.api.read import read_object
from dra_operator.api.write import to_wire
from recordings import recorded

KINDS_OF = {
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
    "claims": "ResourceClaim",
    "nodes": "Node",
}

ALLOCATION = {
    "devices": {
        "results": [
            {
                "request": "r/s",
                "driver": "d",
                "pool": "p",
                "device": "gpu-0",
                "adminAccess": True,
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
                "shareID": "8b0b1f8e-0000-4000-8000-000000000000",
                "consumedCapacity": {"memory": "1.50Gi"},
            }
        ],
        "config": [{"source": "FromClass", "opaque": {"driver": "d", "parameters": {"a": [None, 1.5]}}}],
    },
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    },
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_recorded_objects_survive_a_round_trip(version):
    """Every recorded object is equal after writing, converting and reading."""
    count = 0
    for scenario in recorded("allocator_upstream_table"):
        for field, kind in KINDS_OF.items():
            for body in scenario.get(field) or ():
                obj = read_object(body, kind)
                assert read_object(from_v1(to_wire(obj), version)) == obj
                count += 1
    assert count > 800
