"""Pods whose claims, decided each by itself, do not go together are named."""

import pytest
import yaml
from typer.testing import CliRunner

from dra_operator.cli.simulate import app

V1 = "resource.k8s.io/v1"
CLASS = {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "any"}}
EACH_BY_ITSELF = "note: claims of pod default/p were decided each by itself, on "


def node(name):
    """A node with a label."""
    metadata = {"name": name, "labels": {"zone": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def device(driver, **where):
    """A slice with one device."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "devices": [{"name": "d"}], **where}
    return {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": driver}, "spec": spec}


def objects_for(driver):
    """A claim and a template for a device of a driver, both named after it."""
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    exactly = {"deviceClassName": "any", "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    yield {"apiVersion": V1, "kind": "ResourceClaim", "metadata": {"name": driver}, "spec": spec}
    yield {
        "apiVersion": V1,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": driver},
        "spec": {"spec": spec},
    }


def pod(**spec):
    """A pod with a claim that it names, and one that is made for it."""
    entries = [
        {"name": "a", "resourceClaimName": "gpu"},
        {"name": "b", "resourceClaimTemplateName": "nic"},
    ]
    spec = {"containers": [{"name": "c"}], "resourceClaims": entries, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def notes(tmp_path, *bodies):
    """Return the notes about pods."""
    gpu, _ = objects_for("gpu")
    _, nic = objects_for("nic")
    file = tmp_path / "state.yaml"
    file.write_text(yaml.safe_dump_all([CLASS, node("n1"), node("n2"), gpu, nic, *bodies]))
    result = CliRunner().invoke(app, ["-f", str(file)])
    assert "2 allocated" in result.stderr
    return [line for line in result.stderr.splitlines() if "claims of pod" in line]


def test_claims_on_different_nodes_are_told(tmp_path):
    """Of a pod whose claims can be used on no node together, both nodes are named."""
    slices = [device("gpu", nodeName="n1"), device("nic", nodeName="n2")]

    assert notes(tmp_path, *slices, pod()) == [
        f"{EACH_BY_ITSELF}nodes n1 and n2; kube-scheduler puts a pod's claims on one node"
    ]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"nodeName": "n2"}, "the pod is bound to node n2"),
        ({"nodeSelector": {"zone": "n2"}}, "the nodeSelector of the pod selects node n2"),
        ({"nodeSelector": {"zone": "n3"}}, "the nodeSelector of the pod selects no node"),
    ],
)
def test_claims_where_the_pod_cannot_run_are_told(tmp_path, spec, why):
    """A pod that is bound, or selects its nodes, can use claims there alone."""
    slices = [device("gpu", nodeName="n1"), device("nic", nodeName="n1")]

    assert notes(tmp_path, *slices, pod(**spec)) == [f"{EACH_BY_ITSELF}node n1; {why}"]


def test_claims_that_skip_node_operations_where_the_pod_cannot_are_told(tmp_path):
    """A device of every node is only used on those that declare the feature, which is not where the other device is."""
    able = {**node("n1"), "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    slices = [device("gpu", allNodes=True, skipNodeOperations=["*"]), device("nic", nodeName="n2")]

    assert notes(tmp_path, able, *slices, pod()) == [
        f"{EACH_BY_ITSELF}nodes n1 and n2; kube-scheduler puts a pod's claims on one node"
    ]


@pytest.mark.parametrize(
    "spec", [{}, {"nodeName": "n1"}, {"nodeSelector": {"zone": "n1"}}, {"nodeSelector": None}]
)
def test_claims_that_go_together_are_not_told(tmp_path, spec):
    """A device of the network goes with one of a node, and the pod may be bound to that node."""
    slices = [device("gpu", nodeName="n1"), device("nic", allNodes=True)]

    assert notes(tmp_path, *slices, pod(**spec)) == []
