"""A namespace of a cluster with real nodes: drivers, pods that use claims, and what their containers see."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.node.cluster_node import ClusterNode
from controlplane.node.driver import Driver
from controlplane.node.images import GUEST
from controlplane.plane import ControlPlane
from controlplane.scene import RESOURCE, Scene

# A pod may wait for the kubelet's next attempt: its authorizer learns of pod and claim a moment later than it does.
POD_SECONDS = 60
_STANDARD_DEVICES = {"full", "null", "ptmx", "random", "tty", "urandom", "zero"}


@dataclass(frozen=True, slots=True)
class Report:
    """What a container has been given; `devices` are names below /dev besides those that every container has."""

    environment: Mapping[str, str]
    devices: frozenset[str]
    metadata: Mapping[str, str]


class PodScene(Scene):
    """A namespace with a driver of its own name, `driver`, which is also the name of its DeviceClass."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane, namespace)
        self.driver = f"gpu-{secrets.token_hex(3)}.example.com"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self._drivers: list[Driver] = []
        self.create_class(self.driver)

    def create_class(self, driver: str) -> None:
        """Create a DeviceClass of all devices of a driver, with the driver's name."""
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        self.client.create(
            f"{RESOURCE}/deviceclasses", {"metadata": {"name": driver}, "spec": {"selectors": [selector]}}
        )

    def start_driver(
        self, node: ClusterNode, devices: Sequence[Mapping[str, Any]], *, name: str = "", **spec: Any
    ) -> Driver:
        """Start the driver on a node with these devices; `spec` is what its slice has besides."""
        driver = Driver(node, name or self.driver, devices, **spec)
        self._drivers.append(driver)
        driver.start()
        return driver

    def allocate_claim(self, name: str, **exactly: Any) -> dict[str, Any]:
        """Create a claim of the scene's class and return it once the operator has allocated it.

        A pod must not name it before: then it would be kube-scheduler's.
        """
        self.create_claim(name, self.driver, **exactly)
        return self.wait_allocated(name)

    def create_template(self, name: str, **exactly: Any) -> None:
        """Create a ResourceClaimTemplate with the one request `devices`."""
        request = {"name": "devices", "exactly": {"deviceClassName": self.driver, **exactly}}
        self.client.create(
            f"{RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates",
            {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}},
        )

    def create_pod(
        self,
        name: str,
        source: Mapping[str, str],
        command: Sequence[str] = ("sleep", "9999"),
        request: str | None = None,
    ) -> None:
        """Create a pod whose one container uses a claim, or one request of it.

        `source` is what the pod's entry of the claim has besides its name.
        """
        used = {"name": "devices", **({"request": request} if request else {})}
        container = {
            "name": "main",
            "image": GUEST,
            "command": list(command),
            "resources": {"claims": [used]},
        }
        self.client.create(
            self.pods,
            {
                "metadata": {"name": name},
                "spec": {
                    "restartPolicy": "Never",
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 1,
                    "resourceClaims": [{"name": "devices", **source}],
                    "containers": [container],
                },
            },
        )

    def wait_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait until a pod is in a phase and return it."""
        pod: dict[str, Any] = self._wait_for_pod(
            name, f"{self.pods}/{name}", lambda found: found and found["status"].get("phase") == phase
        )
        return pod

    def report(self, name: str, container: str = "main") -> Report:
        """Return what a container has been given, as it has written to its log."""
        path = f"{self.pods}/{name}/log?container={container}"
        found = self._wait_for_pod(name, path, lambda log: isinstance(log, dict))
        devices = frozenset(found["devices"]) - _STANDARD_DEVICES
        return Report(found["environment"], devices, found["metadata"])

    def delete_pod(self, name: str) -> None:
        """Delete a pod and wait until its node has ended it."""
        self.client.delete(f"{self.pods}/{name}")
        self.client.wait_for(
            f"{self.pods}/{name}", lambda pod: pod is None, seconds=POD_SECONDS, what="the end of the pod"
        )

    def pod_events(self, name: str, reason: str) -> list[str]:
        """Return the messages of a pod's Events with a reason."""
        events = self.client.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return [
            event["message"]
            for event in events
            if (event["involvedObject"]["name"], event["reason"]) == (name, reason)
        ]

    def _wait_for_pod(self, name: str, path: str, condition: Callable[[Any], Any]) -> Any:
        """Wait for a condition of what is at `path`; if it does not come, say what kubectl says about the pod."""
        try:
            return self.client.wait_for(path, condition, seconds=POD_SECONDS)
        except AssertionError as error:
            error.add_note(self.plane.kubectl("describe", "pod", name, f"--namespace={self.namespace}"))
            raise

    def close(self) -> None:
        """End pods and drivers, in the order in which a kubelet can release what they hold; remove classes."""
        self.client.delete(f"/apis/batch/v1/namespaces/{self.namespace}/jobs?propagationPolicy=Background")
        self.client.delete(f"{self.pods}?gracePeriodSeconds=1")
        try:
            self.client.wait_for(
                self.pods, lambda found: not found["items"], seconds=POD_SECONDS, what="the end of all pods"
            )
        finally:
            for driver in self._drivers:
                driver.stop()
            self.client.delete(f"{RESOURCE}/deviceclasses")
