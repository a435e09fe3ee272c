"""`manifests/bridge` on the real API server: an agent's token is good for the slices of its own node alone."""

import pytest
import yaml

from controlplane import Client
from controlplane.bridge import ACCOUNT, BRIDGE, NAMESPACE, install_bridge, remove_bridge, token_on_node
from controlplane.scene import RESOURCE
from dra_bridge.slices import plan_slices

SLICES = f"{RESOURCE}/resourceslices"
HERE, ELSEWHERE = "bridge-here", "bridge-elsewhere"


@pytest.fixture
def agent(control_plane):
    """Return a client with the token of the agent on one of two nodes, and the nodes by name."""
    install_bridge(control_plane)
    nodes = {
        name: control_plane.client.create("/api/v1/nodes", {"metadata": {"name": name}})
        for name in (HERE, ELSEWHERE)
    }
    client = Client(control_plane.server, token_on_node(control_plane, HERE), control_plane.ca)

    def status(node):
        return client.request("POST", f"{SLICES}?dryRun=All", a_slice(nodes[node])).status

    # The rights first: who has none is refused as by the policy.
    control_plane.client.wait_for(
        "/healthz", lambda _: (status(HERE), status(ELSEWHERE)) == (201, 403), what="rights and policy"
    )
    yield client, nodes
    control_plane.client.delete(f"{SLICES}?fieldSelector=spec.driver=foo.vendor.com")
    for name in nodes:
        control_plane.client.delete(f"/api/v1/nodes/{name}")
    remove_bridge(control_plane)


def a_slice(node):
    """Return a slice as the bridge writes it."""
    plan = plan_slices(
        node=node, resource="vendor.com/foo", driver="foo.vendor.com", devices=[{"name": "dev"}], present=[]
    )
    return dict(plan.create[0])


def test_agent_writes_slices_of_its_own_node(agent, control_plane):
    """It creates, changes and deletes them; those of another node, and those that are not the bridge's, it cannot."""
    client, nodes = agent
    here, elsewhere = a_slice(nodes[HERE]), a_slice(nodes[ELSEWHERE])
    foreign = {**here, "metadata": {"name": "foreign"}}

    stored = client.create(SLICES, here)
    path = f"{SLICES}/{stored['metadata']['name']}"
    stored["spec"]["pool"]["generation"] = 2
    assert client.request("PUT", path, stored).status == 200
    assert client.request("DELETE", path).status == 200

    refused = client.request("POST", SLICES, elsewhere)
    assert refused.status == 403
    assert f"slices of its own node alone, which is {HERE}" in str(refused.body)
    assert client.request("POST", SLICES, foreign).status == 403
    there = control_plane.client.create(SLICES, elsewhere)
    path = f"{SLICES}/{there['metadata']['name']}"
    assert client.request("PUT", path, there).status == 403
    assert client.request("DELETE", path).status == 403
    anywhere = control_plane.client_for(ACCOUNT, NAMESPACE)
    assert anywhere.request("POST", SLICES, here).status == 403


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("PATCH", f"{RESOURCE}/namespaces/default/resourceclaims/x"),
        ("GET", f"{RESOURCE}/namespaces/default/resourceclaims"),
        ("GET", "/api/v1/namespaces/default/pods"),
        ("GET", "/api/v1/namespaces/default/secrets"),
        ("PATCH", f"/api/v1/nodes/{HERE}"),
    ],
)
def test_agent_may_do_nothing_else(agent, verb, path):
    """What it does not use it has no right to."""
    client, _ = agent

    assert client.request(verb, path, {} if verb == "PATCH" else None).status == 403


def test_manifests_are_taken_as_they_are(control_plane):
    """The API server takes all of them without a warning, the DaemonSet in its namespace, too."""
    text = control_plane.kubectl("kustomize", str(BRIDGE))

    control_plane.kubectl("apply", "-f", "-", "--warnings-as-errors", input=text)
    lines = control_plane.kubectl("apply", "-f", "-", "--warnings-as-errors", input=text).splitlines()

    assert {line.rpartition(" ")[2] for line in lines} == {"unchanged"}
    (daemon,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "DaemonSet"]
    container = daemon["spec"]["template"]["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "privileged" not in container["securityContext"]
    control_plane.kubectl("delete", "daemonset", "dra-bridge", f"--namespace={NAMESPACE}")
    remove_bridge(control_plane)
