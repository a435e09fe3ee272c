"""Pods: where they can run counts for their claims, and those that cannot use what they share are named."""

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.cli.simulate import app
from factories import manifest
from simulation import states

V1 = "resource.k8s.io/v1"
CLASS = manifest("DeviceClass", "any")


def node(name, **fields):
    """A node with a label."""
    metadata = {"name": name, "labels": {"zone": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, **fields}


N1, N2 = node("n1"), node("n2")


def device(driver, name="p", **where):
    """A slice with one device."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "devices": [{"name": "d"}], **where}
    return manifest("ResourceSlice", f"{driver}-{name}", spec)


def objects_for(driver):
    """A claim and a template for a device of a driver, both named after it."""
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    exactly = {"deviceClassName": "any", "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    yield manifest("ResourceClaim", driver, spec)
    yield manifest("ResourceClaimTemplate", driver, {"spec": spec})


GPU, _ = objects_for("gpu")
_, NIC = objects_for("nic")


def pod(name="p", **spec):
    """A pod with a claim that it names, and one that is made for it."""
    entries = [
        {"name": "a", "resourceClaimName": "gpu"},
        {"name": "b", "resourceClaimTemplateName": "nic"},
    ]
    spec = {"containers": [{"name": "c"}], "resourceClaims": entries, **spec}
    return manifest("Pod", name, spec)


@pytest.fixture
def simulate(tmp_path):
    """Simulate a claim `gpu`, a template `nic`, a class for both and what is given."""

    def run(*bodies):
        file = tmp_path / "state.yaml"
        file.write_text(yaml.safe_dump_all([CLASS, GPU, NIC, *bodies]))
        return CliRunner().invoke(app, ["-f", str(file)])

    return run


def notes(result):
    """Return the notes about pods."""
    return [line for line in result.stderr.splitlines() if "cannot use its claims" in line]


def test_labels_of_nodes_that_are_assumed_do_not_count(simulate):
    """Nobody knows them; so the pod is named instead."""
    slices = [device("gpu", nodeName="n1"), device("nic", nodeName="n1")]
    result = simulate(*slices, pod(nodeSelector={"zone": "n2"}))

    assert result.exit_code == 0
    (note,) = notes(result)
    assert note == (
        "note: pod default/p cannot use its claims, which are on node n1: its nodeName, nodeSelector or node affinity "
        "does not admit it"
    )


def test_a_pod_that_shares_a_claim_that_leads_elsewhere_is_named(simulate):
    """The first pod has decided it; what is left of the second waits."""
    slices = [
        device("gpu", nodeName="n1"),
        device("nic", "a", nodeName="n1"),
        device("nic", "b", nodeName="n2"),
    ]
    entries = [{"name": "a", "resourceClaimName": "gpu"}]
    result = simulate(N1, N2, *slices, pod(), pod("q", nodeName="n2", resourceClaims=entries))

    assert set(states(result).values()) == {"allocated"}
    (note,) = notes(result)
    assert note == (
        'note: pod default/q cannot use its claims: claim "a" is allocated on n1, where the pod cannot run: '
        "1 nodeName n2 (n1)"
    )


def test_a_device_without_a_node_goes_where_the_others_are(simulate):
    """A device of the network goes with one of a node."""
    slices = [device("gpu", nodeName="n2"), device("nic", allNodes=True)]
    result = simulate(N1, N2, *slices, pod())

    assert (result.exit_code, set(states(result).values()), notes(result)) == (0, {"allocated"}, [])
