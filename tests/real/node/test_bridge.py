"""The bridge on a real node: Kubernetes' own sample device plugin, unchanged, by the device manager and by the bridge.

The plugin moves from the kubelet to the bridge while a pod of the device manager runs, and back again.
"""

import json
import os
import subprocess
import sys

import pytest

from controlplane import UnavailableError
from controlplane.bridge import install_bridge, remove_bridge, write_kubeconfig
from controlplane.node.images import GUEST
from controlplane.node.programs import find_or_build_sample_plugin
from controlplane.processes import Process
from controlplane.scene import RESOURCE, allocation
from dra_bridge.devices import device_class

NAME = "example.com/resource"
DRIVER = "resource.example.com"
DEVICES = {"Dev-1", "Dev-2"}


class Bridge:
    """The agent of a node as a process of this machine, and the sample plugin in the node's namespaces."""

    def __init__(self, node, program, kubeconfig, logs, environment):
        self.node, self.program, self.logs = node, program, logs
        self.environment = environment
        self.own = node.folder / "kubelet" / "plugins" / "dra-bridge" / "device-plugins"
        self.plugin = None
        self.agent = None
        self.kubeconfig = kubeconfig

    def start_agent(self):
        """Start the agent and wait until it serves plugins."""
        flags = {
            "--node": self.node.name,
            "--kubelet": self.node.folder / "kubelet",
            "--cdi": self.node.folder / "cdi",
            "--listen": "127.0.0.1:0",
            "--kubeconfig": self.kubeconfig,
        }
        command = [sys.executable, "-m", "dra_bridge", "run"]
        command += [str(part) for pair in flags.items() for part in pair]
        self.agent = Process("bridge", command, log=self.logs / "bridge.log", env=dict(os.environ))
        self.agent.wait_until((self.own / "kubelet.sock").exists, seconds=60)

    def start_plugin(self, *, bridged):
        """Start the plugin; the one change is what is mounted where it expects the kubelet's folder."""
        folder = "/var/lib/kubelet/device-plugins"
        mounts = f"mkdir -p /var/run/cdi && mount --bind {self.node.folder}/cdi /var/run/cdi"
        if bridged:
            mounts += f" && mount --bind {self.own} {folder}"
        environment = " ".join(f"{name}={value}" for name, value in self.environment.items())
        script = f"{mounts} && exec env {environment} {self.program}"
        self.plugin = self.node.spawn_inside("unshare", "--mount", "sh", "-c", script)

    def stop_plugin(self):
        """End the plugin without warning, as its container ends on an update."""
        subprocess.run(["kill", "-KILL", *self._descendants(self.plugin.pid)], check=True)
        self.plugin.wait(30)
        self.node._processes.remove(self.plugin)
        self.plugin = None

    def stop(self):
        """End both."""
        if self.plugin is not None:
            self.stop_plugin()
        if self.agent is not None:
            self.agent.stop()

    def _descendants(self, pid):
        found = subprocess.run(["pgrep", "--parent", str(pid)], capture_output=True, text=True, check=False)
        children = found.stdout.split()
        return [*children, *(each for child in children for each in self._descendants(int(child)))]


@pytest.fixture
def bridge(cluster, nodes, tmp_path, request):
    """Return what serves the plugin of the first node, and the class as the command prints it."""
    try:
        program = find_or_build_sample_plugin()
    except UnavailableError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    install_bridge(cluster.plane)
    kubeconfig = write_kubeconfig(cluster.plane, nodes[0].name, tmp_path / "kubeconfig")
    bridge = Bridge(nodes[0], program, kubeconfig, tmp_path, request.param)
    try:
        yield bridge
    finally:
        cluster.client.delete(f"{cluster.pods}?gracePeriodSeconds=1")
        cluster.client.wait_for(cluster.pods, lambda found: not found["items"], seconds=60, what="no pods")
        bridge.stop()
        cluster.client.delete(f"{RESOURCE}/resourceslices?fieldSelector=spec.driver={DRIVER}")
        remove_bridge(cluster.plane)


def create_pod(cluster, name, node):
    """Create a pod with `limits`, as pods of device plugins have them."""
    container = {
        "name": "main",
        "image": GUEST,
        "command": ["sleep", "9999"],
        "resources": {"limits": {NAME: "1"}},
    }
    spec = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
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


def allocatable(node):
    """Return what the device manager offers."""
    return node.client.get(node.path)["status"]["allocatable"].get(NAME, "0")


def bridged(cluster):
    """Return the taints of the bridge's devices by ID."""
    found = cluster.client.get(f"{RESOURCE}/resourceslices?fieldSelector=spec.driver={DRIVER}")["items"]
    return {
        device["attributes"]["id"]["string"]: [taint["value"] for taint in device.get("taints", ())]
        for each in found
        for device in each["spec"]["devices"]
    }


def wait(bridge, condition, what):
    """Wait for something on the node; say what the agent has logged if it does not come."""
    try:
        bridge.node.wait_until(condition, what=what, seconds=90)
    except AssertionError as error:
        error.add_note(bridge.agent.log_text()[-4000:] if bridge.agent else "no agent")
        raise


@pytest.mark.parametrize("bridge", [{}, {"CDI_ENABLED": "1"}], ids=["paths", "CDI"], indirect=True)
def test_plugin_moves_to_the_bridge_and_back(cluster, nodes, bridge):
    """Whoever has it allocated, a container is given the same, and no device is in two running pods."""
    node = nodes[0]
    # The node may still say what the plugin of a test before had.
    wait(bridge, lambda: allocatable(node) != "2", "the end of an earlier plugin's devices")
    bridge.start_plugin(bridged=False)
    wait(bridge, lambda: allocatable(node) == "2", "the device manager's devices")
    create_pod(cluster, "before", node.name)
    first, expected = specification(cluster, node, "before")

    # To the bridge, while the pod runs.
    cluster.client.create(f"{RESOURCE}/deviceclasses", device_class(NAME))
    bridge.start_agent()
    bridge.stop_plugin()
    bridge.start_plugin(bridged=True)
    (second,) = DEVICES - {first}
    wait(bridge, lambda: bridged(cluster) == {first: ["in-use"], second: []}, "the slices")
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].id in ['Dev-1', 'Dev-2']"}}
    cluster.create_claim("claim", DRIVER, selectors=[selector])
    claim = cluster.wait_allocated("claim", seconds=60)
    assert len(allocation(claim)["devices"]["results"]) == 1
    cluster.create_pod("claiming", {"resourceClaimName": "claim"})
    assert specification(cluster, node, "claiming") == (second, expected)
    create_pod(cluster, "limited", node.name)
    cluster.client.wait_for(
        f"{cluster.pods}/limited",
        lambda pod: "cannot allocate" in str(pod["status"].get("conditions")),
        seconds=60,
        what="a pod that waits",
    )
    cluster.delete_pod("before")
    assert specification(cluster, node, "limited") == (first, expected)

    # Back, as docs/bridge.md says: pods first.
    for name in ("claiming", "limited"):
        cluster.delete_pod(name)
    assert not [path.name for path in (node.folder / "cdi").glob("dra-bridge-*")]
    bridge.stop_plugin()
    bridge.start_plugin(bridged=False)
    wait(bridge, lambda: allocatable(node) == "2", "the device manager's devices")
    wait(bridge, lambda: all("allocatable" in taints for taints in bridged(cluster).values()), "the taints")
    create_pod(cluster, "after", node.name)
    assert specification(cluster, node, "after")[1] == expected
