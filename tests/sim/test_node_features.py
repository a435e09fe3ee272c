"""Devices that take resources of their nodes are refused where a node does not account for them."""

from typing import Any

import pytest

from dra_operator.sim.node_features import missing_feature
from dra_operator.sim.resources import RESOURCES
from dra_operator.sim.store import Store

BY_KIND = {resource.kind: resource for resource in RESOURCES}
UNSUPPORTED = 'node "old" does not support DRANodeAllocatableResources feature'


@pytest.fixture
def store() -> Store:
    """Return a store with a node that accounts for such devices, and one that does not."""
    made = Store()
    for name, features in (("new", ["DRANodeAllocatableResources"]), ("old", [])):
        metadata = {"name": name, "uid": name, "labels": {"age": name}}
        made.put(
            BY_KIND["Node"], {"metadata": metadata, "spec": {}, "status": {"declaredFeatures": features}}
        )
    return made


def resource_slice(device: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a slice of one device."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": pool, "devices": [{"name": "x", **device}], **spec},
    }


TAKING = {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}


def selected(age: str, operator: str = "In") -> dict[str, Any]:
    """Return a selector of nodes of an age."""
    return {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "age", "operator": operator, "values": [age]}]}]
    }


@pytest.mark.parametrize(
    ("device", "spec", "why"),
    [
        pytest.param({}, {"nodeName": "old"}, "", id="a device that takes nothing"),
        pytest.param(TAKING, {"nodeName": "new"}, "", id="on a node that accounts for it"),
        pytest.param(TAKING, {"nodeName": "old"}, UNSUPPORTED, id="on one that does not"),
        pytest.param(TAKING, {"nodeName": "gone"}, 'node "gone" not found for device "x"', id="on none"),
        pytest.param(TAKING, {"allNodes": True}, UNSUPPORTED, id="on all nodes"),
        pytest.param(TAKING, {"nodeSelector": selected("new")}, "", id="on selected nodes that do"),
        pytest.param(
            TAKING, {"nodeSelector": selected("old")}, UNSUPPORTED, id="on selected nodes that do not"
        ),
        pytest.param(
            TAKING, {"nodeSelector": selected("old", "Near")}, "", id="on nodes that nobody can select"
        ),
        pytest.param(TAKING, {}, "", id="nowhere"),
        pytest.param(
            {**TAKING, "nodeName": "old"},
            {"perDeviceNodeSelection": True},
            UNSUPPORTED,
            id="on a node of its own",
        ),
    ],
)
def test_all_nodes_of_a_device_account_for_it(
    store: Store, device: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    """The nodes that the device is for are asked, each."""
    assert missing_feature(store, BY_KIND["ResourceSlice"], resource_slice(device, **spec)) == why
