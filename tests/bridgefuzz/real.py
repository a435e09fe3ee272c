"""`python -m bridgefuzz.real [--cases N] [--steps N] [--seed S]`: random histories of the bridge on a real node.

A plugin of 200 devices moves between kubelet and bridge while pods run; kubelet, agent and plugin are restarted.
After each step it is checked that no device is in two containers, that no plugin was asked again for what is prepared,
and that slices say what plugin and kubelet do; a restarted kubelet has them back within two seconds.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from bridgefuzz.plugin import DevicePlugin, Listed
from bridgefuzz.run import SLACK_SECONDS, SLICES_SECONDS, BrokenError
from controlplane import find_or_build, fresh_namespace, running_full_control_plane
from controlplane.bridge import install_bridge, write_kubeconfig
from controlplane.node.bridge_agent import BridgeAgent, ContainerDevices
from controlplane.node.cluster_node import Containerd, running_node
from controlplane.node.images import GUEST
from controlplane.node.programs import find_or_build_kubelet, find_or_build_runtime
from controlplane.scene import RESOURCE
from dra_bridge.devices import device_class
from fuzz_command import Counts, run

NAME, DRIVER = "vendor.com/foo", "foo.vendor.com"
_NODE = "node-1"
_SECONDS = 90
_MOST_PODS = 6


class RealWorld:
    """A control plane with one node, on which the agent runs."""

    def __init__(self, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bridge-", dir="/tmp")))
        self.plane = stack.enter_context(running_full_control_plane(find_or_build(), folder))
        self.node = stack.enter_context(
            running_node(
                _NODE,
                kubeconfig=self.plane.admin_kubeconfig,
                kubelet=find_or_build_kubelet(),
                runtime=Containerd(find_or_build_runtime()),
                logs=folder,
            )
        )
        self.client = self.plane.client
        install_bridge(self.plane)
        self.client.create(f"{RESOURCE}/deviceclasses", device_class(NAME))
        kubeconfig = write_kubeconfig(self.plane, _NODE, folder / "agent.kubeconfig")
        self.agent = BridgeAgent(self.node, kubeconfig, folder)
        stack.callback(self.agent.stop)
        self.agent.start()

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for something; say what the agent has logged if it does not come."""
        deadline = time.monotonic() + _SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise BrokenError(f"waited {_SECONDS} s for {what}\n{self.agent.log()}")
            time.sleep(0.05)

    def slices(self) -> list[dict[str, Any]]:
        """Return the driver's slices."""
        found: list[dict[str, Any]] = self.client.get(
            f"{RESOURCE}/resourceslices?fieldSelector=spec.driver={DRIVER}"
        )["items"]
        return found

    def allocatable(self) -> int:
        """Return how many devices the device manager offers."""
        return int(self.client.get(self.node.path)["status"]["allocatable"].get(NAME, "0"))


class RealHistory:
    """The steps of one history, drawn from a seed. By the bridge are the pods `claiming`, by the kubelet `limited`."""

    def __init__(self, world: RealWorld, seed: str, namespace: str, devices: ContainerDevices) -> None:
        self.world = world
        self.random = random.Random(seed)  # noqa: S311 - a seed makes a history repeatable
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.templates = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
        self.containers = devices
        self.claiming: dict[str, list[str]] = {}
        self.limited: dict[str, list[str]] = {}
        self.number = 0
        self.slowest = 0.0
        self.restarts = 0
        self.is_bridged = True
        listed = {f"dev-{number}": Listed(numa=(number % 2,)) for number in range(200)}
        self.plugin = DevicePlugin(world.agent.plugins, NAME, listed)
        for count in range(1, 4):
            requests = [{"name": "devices", "exactly": {"deviceClassName": DRIVER, "count": count}}]
            world.client.create(
                self.templates,
                {"metadata": {"name": f"of-{count}"}, "spec": {"spec": {"devices": {"requests": requests}}}},
            )

    def begin(self) -> None:
        """Start on a side at random."""
        self.is_bridged = self.random.random() < 0.5
        self.start_plugin()

    def step(self) -> None:
        """Do something at random, and check what must be then."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (6, self.create_pod),
            (3, self.delete_pod),
            (2, self.change_devices),
            (3, self.restart_kubelet),
            (2, self.restart_agent),
            (1, self.start_plugin),
            (2, self.move),
            (2, self.restart_while_preparing),
        ]
        weights, actions = zip(*steps, strict=True)
        self.random.choices(actions, weights)[0]()
        self.check()

    def end(self) -> None:
        """Delete the pods: nothing is left."""
        for name in [*self.claiming, *self.limited]:
            self.delete(name)
        if left := self.world.agent.cdi_files():
            raise BrokenError(f"CDI files are left: {left}")
        claims = self.world.node.folder / "kubelet" / "plugins" / "dra-bridge" / "claims"
        if left := [path.name for path in claims.iterdir()]:
            raise BrokenError(f"checkpoints are left: {left}")
        self.plugin.stop()

    # Steps

    def start_plugin(self) -> None:
        """Start the plugin where it belongs, or start it again."""
        self.plugin.stop()
        kubelet = self.world.node.folder / "kubelet" / "device-plugins"
        folder = self.world.agent.plugins if self.is_bridged else kubelet
        self.plugin.move(folder)
        self.world.wait(self.try_plugin, "the plugin to register")
        expected = 0 if self.is_bridged else len(self.healthy())
        self.world.wait(lambda: self.world.allocatable() == expected, f"allocatable to be {expected}")

    def move(self) -> None:
        """The plugin moves; before it goes back to the kubelet, the pods with claims have ended (docs/bridge.md)."""
        if self.is_bridged:
            for name in [*self.claiming]:
                self.delete(name)
        self.is_bridged = not self.is_bridged
        self.start_plugin()

    def change_devices(self) -> None:
        """Health turns, devices come and go; what a pod has stays."""
        used = self.used()
        free = sorted(name for name in self.plugin.devices if name not in used)
        for name in self.random.sample(free, 4):
            self.plugin.devices[name].healthy ^= True
        for name in self.random.sample(free, 2):
            del self.plugin.devices[name]
        self.number += 1
        self.plugin.devices[f"new-{self.number}"] = Listed()
        self.plugin.change()

    def create_pod(self) -> None:
        """A pod with `limits` or, by the bridge, with a claim."""
        name = self.create()
        if name:
            self.wait_running(name)

    def restart_while_preparing(self) -> None:
        """Kubelet or agent is restarted while it prepares a pod."""
        name = self.create()
        time.sleep(self.random.random())
        self.random.choice([self.restart_kubelet, self.restart_agent])()
        if name:
            self.wait_running(name, restarted=True)

    def delete_pod(self) -> None:
        """A pod ends."""
        if pods := [*self.claiming, *self.limited]:
            self.delete(self.random.choice(sorted(pods)))

    def restart_kubelet(self) -> None:
        """A kubelet that starts deletes the slices of its node, and forgets the plugins."""
        before = {each["metadata"]["uid"] for each in self.world.slices()}
        self.world.node.stop_kubelet()
        self.world.node.start_kubelet()
        missing_since, deadline = None, time.monotonic() + _SECONDS
        while True:
            now, found = time.monotonic(), {each["metadata"]["uid"] for each in self.world.slices()}
            if missing_since is None and (not before or not before <= found):
                missing_since = now
            if missing_since is not None and (not before or len(found - before) == len(before)):
                break
            if now > deadline:
                raise BrokenError(f"after the kubelet's restart the slices are not back: {found} of {before}")
            time.sleep(0.02)
        took = now - missing_since
        self.restarts += 1
        self.slowest = max(self.slowest, took)
        if took > SLICES_SECONDS:
            published = [line for line in self.world.agent.log().splitlines() if '"published"' in line][-3:]
            gone = datetime.fromtimestamp(time.time() - took, UTC)
            print(f"late by {took:.2f} s, gone at {gone:%T.%f}, load {os.getloadavg()[0]:.1f}:", *published)  # noqa: T201 - shows what was late
        if took > SLICES_SECONDS + SLACK_SECONDS:
            raise BrokenError(f"slices came back {took:.1f} s after the kubelet had deleted them")
        self.world.node.wait_ready()
        if not self.is_bridged:
            self.start_plugin()

    def restart_agent(self) -> None:
        """The agent ends without warning."""
        self.world.agent.kill()
        self.world.agent.start()
        if self.is_bridged:
            self.start_plugin()

    # What they use

    def create(self) -> str:
        """Create a pod, if there are not too many; return its name."""
        if len(self.claiming) + len(self.limited) >= _MOST_PODS:
            return ""
        self.number += 1
        name, count = f"pod-{self.number}", self.random.randint(1, 3)
        container: dict[str, Any] = {"name": "main", "image": GUEST, "command": ["sleep", "9999"]}
        spec = {
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        if self.is_bridged and self.random.random() < 0.5:
            container["resources"] = {"claims": [{"name": "devices"}]}
            spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": f"of-{count}"}]
        else:
            container["resources"] = {"limits": {NAME: str(count)}}
        self.world.client.create(self.pods, {"metadata": {"name": name}, "spec": spec})
        (self.claiming if self.is_bridged else self.limited)[name] = []
        return name

    def wait_running(self, name: str, *, restarted: bool = False) -> None:
        """Wait until a pod runs, and find out what it has."""
        self.world.wait(
            lambda: self.pod(name)["status"].get("phase") in ("Running", "Failed"), f"{name} to run"
        )
        pod = self.pod(name)
        if pod["status"]["phase"] == "Failed":
            # A kubelet that ends takes with it what is being started; its device manager refuses pods between its own
            # start and the plugin's.
            if not restarted and name not in self.limited:
                raise BrokenError(f"{name}: {pod['status']}")
            self.delete(name)
            return
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        ids = self.containers.by_container()[container]
        if not ids:
            raise BrokenError(f"{name} runs without devices")
        (self.claiming if name in self.claiming else self.limited)[name] = ids
        if restarted:
            # What was being prepared may have been asked for twice.
            kept = [each for each in self.plugin.allocated if not set(each) & set(ids)]
            self.plugin.allocated[:] = [*kept, ids]

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        found: dict[str, Any] = self.world.client.get(f"{self.pods}/{name}")
        return found

    def delete(self, name: str) -> None:
        """Delete a pod and wait for its end."""
        path = f"{self.pods}/{name}"
        self.world.client.delete(path)
        self.world.wait(lambda: self.world.client.request("GET", path).status == 404, f"the end of {name}")
        self.claiming.pop(name, None)
        self.limited.pop(name, None)

    def try_plugin(self) -> bool:
        """Register, if somebody is there."""
        try:
            self.plugin.start()
        except grpc.RpcError:
            self.plugin.stop()
            return False
        return True

    def used(self) -> set[str]:
        """Return what pods have."""
        return {each for pods in (self.claiming, self.limited) for ids in pods.values() for each in ids}

    def healthy(self) -> list[str]:
        """Return the devices that the plugin finds healthy."""
        return [name for name, listed in self.plugin.devices.items() if listed.healthy]

    # What must be

    def check(self) -> None:
        """No device is in two pods, nothing prepared was asked for again, and slices are what they should be."""
        if self.containers.twice:
            raise BrokenError(f"in two containers at one moment: {sorted(self.containers.twice)}")
        asked = [tuple(ids) for ids in self.plugin.allocated]
        for ids in [*self.claiming.values(), *self.limited.values()]:
            others = [each for each in asked if set(each) & set(ids)]
            if len(others) > 1:
                raise BrokenError(f"the plugin was asked {others} while a pod had {ids}")
        held = {each for ids in self.limited.values() for each in ids}
        if both := held & {each for ids in self.claiming.values() for each in ids}:
            raise BrokenError(f"of a claim and of the device manager: {sorted(both)}")
        # Of what has ended nothing is asked any more.
        used = self.used()
        self.plugin.allocated[:] = [ids for ids in self.plugin.allocated if set(ids) & used]
        if self.is_bridged:
            self.world.wait(
                lambda: self.taints() == self.expected(held), "slices as the plugin lists devices"
            )

    def taints(self) -> dict[str, set[str]]:
        """Return the values of the taints of all devices."""
        return {
            device["attributes"]["id"]["string"]: {taint["value"] for taint in device.get("taints", ())}
            for each in self.world.slices()
            for device in each["spec"]["devices"]
        }

    def expected(self, held: set[str]) -> dict[str, set[str]]:
        """Return what these should be."""
        return {
            name: {*(["in-use"] if name in held else []), *([] if listed.healthy else ["unhealthy"])}
            for name, listed in self.plugin.devices.items()
        }


def _checked(world: RealWorld) -> Callable[[str, argparse.Namespace, Counts], list[object]]:
    def check(seed: str, arguments: argparse.Namespace, counts: Counts) -> list[object]:
        with fresh_namespace(world.plane) as namespace, ContainerDevices(world.node) as containers:
            history = RealHistory(world, seed, namespace, containers)
            try:
                history.begin()
                for _ in range(arguments.steps):
                    history.step()
                history.end()
            except BrokenError as error:
                return [error]
            finally:
                history.plugin.stop()
                counts["looks at containers"] += containers.looks
                counts["in which slices took more than two seconds"] += history.slowest > SLICES_SECONDS
                counts["restarts of the kubelet"] += history.restarts
        return []

    return check


if __name__ == "__main__":
    with ExitStack() as stack:
        steps = (15, "how many steps each has")
        sys.exit(
            run("bridgefuzz.real", __doc__, _checked(RealWorld(stack)), cases=20, options={"steps": steps})
        )
