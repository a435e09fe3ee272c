"""The bridge on a real node: what containers get of device plugins by it is what the kubelet's device manager gives.

Kubernetes' own sample plugin, unchanged, moves from the kubelet to the bridge while pods run, and back again.
"""

import json
import os
import secrets
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from bridgefuzz.plugin import Behaviour, DevicePlugin, Listed
from controlplane import UnavailableError
from controlplane.bridge import install_bridge, remove_bridge, write_kubeconfig
from controlplane.node.bridge_agent import BridgeAgent, ContainerDevices
from controlplane.node.images import GUEST
from controlplane.node.programs import find_or_build_sample_plugin
from controlplane.scene import RESOURCE, allocation
from dra_bridge.devices import device_class

NAME, DRIVER = "example.com/resource", "resource.example.com"
DEVICES = {"Dev-1", "Dev-2"}
OWN, SLOW = "example.com/own", "example.com/slow"


class SamplePlugin:
    """The sample plugin in the node's namespaces, as the kubelet's and as the bridge's."""

    def __init__(self, agent, program, environment):
        self.agent, self.node, self.program, self.environment = agent, agent.node, program, environment
        self.process = None

    def start(self, *, bridged):
        """Start it; the one change is what is mounted where it expects the kubelet's folder."""
        folder = "/var/lib/kubelet/device-plugins"
        mounts = f"mkdir -p /var/run/cdi && mount --bind {self.node.folder}/cdi /var/run/cdi"
        if bridged:
            mounts += f" && mount --bind {self.agent.plugins} {folder}"
        environment = " ".join(f"{name}={value}" for name, value in self.environment.items())
        script = f"{mounts} && exec env {environment} {self.program}"
        self.process = self.node.spawn_inside("unshare", "--mount", "sh", "-c", script)

    def stop(self):
        """End it without warning, as its container ends on an update."""
        if self.process is not None:
            subprocess.run(["kill", "-KILL", *self._descendants(self.process.pid)], check=True)
            self.process.wait(30)
            self.node._processes.remove(self.process)
            self.process = None

    def _descendants(self, pid):
        found = subprocess.run(["pgrep", "--parent", str(pid)], capture_output=True, text=True, check=False)
        children = found.stdout.split()
        return [*children, *(each for child in children for each in self._descendants(int(child)))]


@pytest.fixture(scope="module")
def agent(plane, nodes, tmp_path_factory):
    """Run the agent on the first node."""
    folder = tmp_path_factory.mktemp("bridge")
    install_bridge(plane)
    agent = BridgeAgent(nodes[0], write_kubeconfig(plane, nodes[0].name, folder / "agent.kubeconfig"), folder)
    agent.start()
    yield agent
    agent.stop()
    plane.client.delete(f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName={nodes[0].name}")
    remove_bridge(plane)


@pytest.fixture
def plugins(cluster, agent):
    """Return a list of plugins that end after the pods; each resource has its class."""
    started = []
    for name in (NAME, OWN, SLOW):
        cluster.client.create(f"{RESOURCE}/deviceclasses", device_class(name))
    with ContainerDevices(agent.node) as containers:
        yield started
    # A plugin that hangs keeps its pod.
    for each in started:
        if isinstance(each, DevicePlugin):
            each.stop()
    cluster.client.delete(f"{cluster.pods}?gracePeriodSeconds=1")
    cluster.client.wait_for(cluster.pods, lambda found: not found["items"], what="no pods")
    for each in started:
        each.stop()
    assert containers.looks
    assert not containers.twice, "devices in two containers at one moment"


@pytest.fixture
def sample(agent, plugins, request):
    """Return the sample plugin."""
    try:
        program = find_or_build_sample_plugin()
    except UnavailableError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    plugins.append(SamplePlugin(agent, program, request.param))
    return plugins[-1]


def create_pod(cluster, name, node, resource=NAME):
    """Create a pod with `limits`, as pods of device plugins have them."""
    container = {
        "name": "main",
        "image": GUEST,
        "command": ["sleep", "9999"],
        "resources": {"limits": {resource: "1"}},
    }
    spec = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "containers": [container],
    }
    cluster.client.create(cluster.pods, {"metadata": {"name": name}, "spec": spec})


def specification(cluster, node, name):
    """Return the device that a pod's container has, and what its OCI specification says, with DEVICE for its name."""
    pod = cluster.wait_phase(name, "Running")
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    (path,) = node.folder.glob(f"run/state/io.containerd.runtime.v2.task/*/{container}/config.json")
    config = json.loads(path.read_text())
    (mount,) = [each for each in config["mounts"] if "Dev-" in each["destination"]]
    device = mount["destination"].rpartition("/")[2]
    found = {
        "env": sorted(each for each in config["process"]["env"] if not each.startswith("HOSTNAME=")),
        "mounts": [mount],
        "devices": config["linux"].get("devices", []),
        "rules": config["linux"]["resources"]["devices"],
    }
    # The sample's block devices have the number of their device, too.
    for each in [*found["devices"], *found["rules"]]:
        if each.get("type") == "b" and "minor" in each:
            each["minor"] = "DEVICE"
    return device, json.loads(json.dumps(found).replace(device, "DEVICE"))


def bridged(cluster, driver=DRIVER):
    """Return the taints of the bridge's devices by ID."""
    found = cluster.client.get(f"{RESOURCE}/resourceslices?fieldSelector=spec.driver={driver}")["items"]
    return {
        device["attributes"]["id"]["string"]: [taint["value"] for taint in device.get("taints", ())]
        for each in found
        for device in each["spec"]["devices"]
    }


def wait(agent, condition, what):
    """Wait for something on the node; say what the agent has logged if it does not come."""
    try:
        agent.node.wait_until(condition, what=what)
    except AssertionError as error:
        error.add_note(agent.log())
        raise


def wait_offered(agent, count, resource=NAME):
    """Wait until the device manager offers so many devices."""

    def is_offered():
        node = agent.node.client.get(agent.node.path)
        return node["status"]["allocatable"].get(resource, "0") == str(count)

    wait(agent, is_offered, f"{count} devices of the device manager")


def move_to_bridge(cluster, agent, sample):
    """Create a pod of the device manager, then move the plugin; return the pod's device, and what it was given."""
    wait_offered(agent, 0)
    sample.start(bridged=False)
    wait_offered(agent, 2)
    create_pod(cluster, "before", agent.node)
    first, given = specification(cluster, agent.node, "before")
    sample.stop()
    sample.start(bridged=True)
    (second,) = DEVICES - {first}
    wait(agent, lambda: bridged(cluster) == {first: ["in-use"], second: []}, "the slices")
    return first, given


def claim_device(cluster, agent):
    """Create a claim with a selector and a pod that uses it; return its device, and what it was given."""
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].id in ['Dev-1', 'Dev-2']"}}
    cluster.create_claim("claim", DRIVER, selectors=[selector])
    claim = cluster.wait_allocated("claim")
    assert len(allocation(claim)["devices"]["results"]) == 1
    cluster.create_pod("claiming", {"resourceClaimName": "claim"})
    return specification(cluster, agent.node, "claiming")


@pytest.mark.parametrize("sample", [{}], ids=["paths"], indirect=True)
def test_plugin_moves_to_the_bridge_and_back(cluster, agent, sample, plugins):
    """A container is given the same by both, and a plugin that hangs keeps its own pod alone, which says why."""
    node = agent.node
    first, expected = move_to_bridge(cluster, agent, sample)
    slow = DevicePlugin(agent.plugins, SLOW, {"Dev-3": Listed()})
    plugins.append(slow)
    slow.behaviour = Behaviour(seconds=600)
    slow.start()
    create_pod(cluster, "hanging", node, SLOW)
    (second,) = DEVICES - {first}
    wait(agent, lambda: slow.asked, "an Allocate that hangs")

    assert claim_device(cluster, agent) == (second, expected)
    create_pod(cluster, "limited", node)
    cluster.client.wait_for(
        f"{cluster.pods}/limited",
        lambda pod: "cannot allocate" in str(pod["status"].get("conditions")),
        what="a pod that waits",
    )
    cluster.delete_pod("before")
    assert specification(cluster, node, "limited") == (first, expected)

    # Back, as docs/bridge.md says: pods first.
    for name in ("claiming", "limited"):
        cluster.delete_pod(name)
    assert agent.cdi_files() == []
    sample.stop()
    sample.start(bridged=False)
    wait_offered(agent, 2)
    wait(agent, lambda: all("allocatable" in taints for taints in bridged(cluster).values()), "the taints")
    create_pod(cluster, "after", node)
    assert specification(cluster, node, "after")[1] == expected
    why = f"the plugin of {SLOW} failed in Allocate: no answer within 30 s"
    wait(
        agent,
        lambda: any(why in each for each in cluster.pod_events("hanging", "FailedPrepareDynamicResources")),
        "the pod's Event",
    )


@pytest.mark.parametrize("sample", [{"CDI_ENABLED": "1"}], ids=["CDI"], indirect=True)
def test_plugin_with_names_of_cdi(cluster, agent, sample):
    """Where the plugin names CDI devices of its own, a claim, `limits` and the device manager give the same."""
    _, expected = move_to_bridge(cluster, agent, sample)
    cluster.delete_pod("before")
    wait(agent, lambda: not any(bridged(cluster).values()), "the end of a taint")

    claimed, given = claim_device(cluster, agent)
    create_pod(cluster, "limited", agent.node)

    assert given == expected
    assert specification(cluster, agent.node, "limited") == (*(DEVICES - {claimed}), expected)


@pytest.fixture
def folder_of_nodes():
    """Return a folder of the machine's /dev with nodes that are not root's, and a link to one of them."""
    folder = Path("/dev") / f"dra-{secrets.token_hex(4)}"
    (folder / "below").mkdir(parents=True)
    for name in ("null", "below/null"):
        os.mknod(folder / name, 0o660 | stat.S_IFCHR, os.makedev(1, 3))
        os.chown(folder / name, 7, 29)
    (folder / "link").symlink_to(folder / "null")
    yield folder
    shutil.rmtree(folder)


def test_folders_and_links_of_devices(cluster, agent, plugins, folder_of_nodes):
    """A plugin's `devices` that are folders or links are for a container what a runtime makes of them otherwise."""
    node = agent.node
    plugin = DevicePlugin(node.folder / "kubelet" / "device-plugins", OWN, {"Dev-4": Listed()})
    plugins.append(plugin)
    plugin.behaviour = Behaviour(
        paths={str(folder_of_nodes): "/dev/board", f"{folder_of_nodes}/link": "/dev/link"}
    )
    plugin.start()
    wait_offered(agent, 1, OWN)
    create_pod(cluster, "before", node, OWN)
    _, expected = specification(cluster, node, "before")
    assert {"/dev/board/null", "/dev/board/below/null", "/dev/link"} <= {
        each["path"] for each in expected["devices"]
    }
    cluster.delete_pod("before")
    plugin.stop()
    plugin.move(agent.plugins)
    plugin.start()
    wait(agent, lambda: bridged(cluster, "own.example.com") == {"Dev-4": []}, "the slice")

    create_pod(cluster, "after", node, OWN)

    assert specification(cluster, node, "after")[1] == expected
