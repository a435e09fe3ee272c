"""What the package says of nodes and pods, and what kube-scheduler does: 500 pods, each held to one of four nodes."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Queue
from random import Random

import pytest

from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import read_requirements
from node_fit_scenarios import REQUIRED, ZONE, random_node, random_pod

NODES = ("fit-1", "fit-2", "fit-3", "fit-4")
PODS = 500
SAID = {
    "unschedulable": "node(s) were unschedulable",
    "taint": "node(s) had untolerated taint(s)",
    "nodeSelector": "node(s) didn't match Pod's node affinity/selector",
    "affinity": "node(s) didn't match Pod's node affinity/selector",
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "pods": "Too many pods",
    "features": "node(s) didn't match Pod's required features",
}
"""What kube-scheduler says for each condition; for resources it is `Insufficient` and the name."""
VOLUME_SAID = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) had no available volume zone",
)


class Run:
    """A cluster of four nodes and three volumes, as the API server has it and as the package has it."""

    def __init__(self, scene, random):
        self.client, self.random = scene.client, random
        self.path = f"/api/v1/namespaces/{scene.namespace}"
        self.namespace = scene.namespace
        self.cluster = ClusterPods()
        self.volumes = []
        self.verdicts = Queue()
        self.executor = ThreadPoolExecutor(len(NODES))
        for name in NODES:
            self.cluster.put("Node", self.client.create("/api/v1/nodes", random_node(random, name)))

    def bind_volumes(self):
        """Make volumes with their claims and wait until each is bound to the other."""
        local = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", ""]}]}]
        for name, labels, affinity in (
            ("zonal", {ZONE: "a"}, None),
            ("zones", {ZONE: "a__b"}, None),
            ("local", {}, {"required": {"nodeSelectorTerms": local}}),
        ):
            common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
            claim = {
                **common,
                "volumeName": f"{self.namespace}-{name}",
                "resources": {"requests": {"storage": "1"}},
            }
            volume = {
                **common,
                "capacity": {"storage": "1"},
                "hostPath": {"path": "/none"},
                "claimRef": {"namespace": self.namespace, "name": name},
                **({"nodeAffinity": affinity} if affinity else {}),
            }
            metadata = {"name": f"{self.namespace}-{name}", "labels": labels}
            self.volumes.append(metadata["name"])
            self.client.create("/api/v1/persistentvolumes", {"metadata": metadata, "spec": volume})
            path = f"{self.path}/persistentvolumeclaims"
            self.client.create(path, {"metadata": {"name": name}, "spec": claim})
            bound = self.client.wait_for(
                f"{path}/{name}", lambda found: found["status"].get("phase") == "Bound"
            )
            self.cluster.put("PersistentVolumeClaim", bound)
            self.cluster.put(
                "PersistentVolume", self.client.get(f"/api/v1/persistentvolumes/{metadata['name']}")
            )

    def watch(self):
        """Keep what kube-scheduler says of each pod, until the watch ends."""
        for _, pod in self.client.watch(f"{self.path}/pods", seconds=250):
            conditions = {item["type"]: item for item in pod["status"].get("conditions", [])}
            if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable" or pod["spec"].get(
                "nodeName"
            ):
                self.verdicts.put(pod)

    def decide_wave(self, number):
        """Create a pod for each node, and return for each what the package and what kube-scheduler say."""
        bodies, expected = {}, {}
        for node in NODES:
            body = random_pod(self.random, f"{node}-{number}", self.namespace, ("zonal", "zones", "local"))
            bodies[node] = hold(body, node)
        created = self.executor.map(partial(self.client.create, f"{self.path}/pods"), bodies.values())
        for (node, body), stored in zip(bodies.items(), created, strict=True):
            # The defaults of the API server are known here, for pods from files.
            assert read_requirements(stored).requests == read_requirements(body).requests
            found = self.cluster.find_obstacle(read_requirements(stored), node)
            expected[stored["metadata"]["name"]] = None if found is None else found.condition
        decided = {}
        while decided.keys() != expected.keys():
            pod = self.verdicts.get(timeout=60)
            if (name := pod["metadata"]["name"]) in expected and "deletionTimestamp" not in pod["metadata"]:
                decided[name] = pod
        # In the order of nodes, so that chance is the same each time.
        ending = [name for name in expected if not self.keeps(decided[name])]
        self.delete(ending)
        return {name: (expected[name], pod) for name, pod in decided.items()}

    def keeps(self, pod):
        """Keep some of the pods that are bound, and return whether. Those that wait go: nothing is decided twice."""
        is_kept = bool(pod["spec"].get("nodeName")) and self.random.random() < 0.7
        if is_kept:
            self.cluster.put("Pod", pod)
        return is_kept

    def delete(self, names):
        """Delete pods at once; kube-scheduler sees that before it sees newer pods."""
        paths = [f"{self.path}/pods/{name}?gracePeriodSeconds=0" for name in names]
        assert len([*self.executor.map(self.client.delete, paths)]) == len(names)

    def remove_some(self):
        """Delete bound pods, so that there is room again."""
        names = [pod["metadata"]["name"] for pod in self.client.get(f"{self.path}/pods")["items"]]
        ending = [name for name in names if self.random.random() < 0.5]
        self.delete(ending)
        for name in ending:
            self.cluster.remove("Pod", self.namespace, name)


def hold(pod, node):
    """Let a pod run on one node alone, besides all else that it asks for, and return it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    for term in affinity.setdefault(REQUIRED, {"nodeSelectorTerms": [{}]})["nodeSelectorTerms"]:
        term["matchFields"] = [field]
    return pod


def is_as_said(condition, pod):
    """Return whether what kube-scheduler says of a pod is what the package says."""
    if condition is None or pod["spec"].get("nodeName"):
        return condition is None and bool(pod["spec"].get("nodeName"))
    (message,) = [item["message"] for item in pod["status"]["conditions"] if item["type"] == "PodScheduled"]
    if condition == "volume":
        return any(text in message for text in VOLUME_SAID)
    return f"1 {SAID.get(condition, f'Insufficient {condition}')}" in message


@pytest.fixture
def run(full_scene):
    """A cluster whose volumes are bound, and a watch on its pods."""
    run = Run(full_scene, Random(35))  # noqa: S311 - the same each time
    run.bind_volumes()
    watch = threading.Thread(target=run.watch, daemon=True)
    watch.start()
    yield run
    run.executor.shutdown()
    for name in run.volumes:
        run.client.delete(f"/api/v1/persistentvolumes/{name}")


def test_kube_scheduler_decides_as_the_package_says(run):
    """Each pod is bound, or refused for the condition that the package finds first, on a quiet cluster."""
    wrong, conditions = [], Counter()
    for number in range(PODS // len(NODES)):
        if number % 10 == 9:
            run.remove_some()
        for name, (condition, pod) in run.decide_wave(number).items():
            conditions[condition] += 1
            if not is_as_said(condition, pod):
                wrong.append((name, condition, pod["spec"].get("nodeName"), pod["status"].get("conditions")))

    assert wrong == []
    assert conditions.total() == PODS
    assert conditions.keys() >= {
        None,
        "taint",
        "nodeSelector",
        "affinity",
        "ports",
        "pods",
        "cpu",
        "memory",
        "volume",
    }
