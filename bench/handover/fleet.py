"""Nodes with devices of which the first half is the operator's, templates, and pods with and without the gate."""

from dataclasses import dataclass

from coexistence.fleet import CLASSES, SLICES
from coexistence.ownership import rule
from live.objects import API, Body

from dra_operator.api.names import GANG_ANNOTATION, GANG_SIZE_ANNOTATION, GATE

DRIVER = "gpu.example.com"
NAMESPACE = "handover"
CLAIMS = f"{API}/namespaces/{NAMESPACE}/resourceclaims"
TEMPLATES = f"{API}/namespaces/{NAMESPACE}/resourceclaimtemplates"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
TEMPLATE = "gpu"
NODE_CPU = 64


@dataclass(frozen=True, slots=True)
class Fleet:
    """So many nodes with so many devices each, the first half of them owned."""

    nodes: int
    devices: int = 8

    @property
    def owned(self) -> int:
        """How many devices of a node are the operator's."""
        return self.devices // 2

    def rules(self) -> list[Body]:
        """Return the DeviceTaintRules that own the first half of each node's devices."""
        names = [f"gpu-{index}" for index in range(self.owned)]
        return [rule(f"own-{name}", driver=DRIVER, device=name) for name in names]

    def objects(self) -> dict[str, list[Body]]:
        """Return what is there before any pod, by collection."""
        names = [f"node-{index:03}" for index in range(self.nodes)]
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
        return {
            "/api/v1/namespaces": [{"metadata": {"name": NAMESPACE}}],
            CLASSES: [{"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}],
            "/api/v1/nodes": [_node(name) for name in names],
            SLICES: [self._slice(name) for name in names],
            TEMPLATES: [
                {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": {"requests": [request]}}}}
            ],
        }

    def _slice(self, node: str) -> Body:
        devices = [
            {"name": f"gpu-{index}", "attributes": {"kind": {"string": "plain"}}}
            for index in range(self.devices)
        ]
        return {
            "metadata": {"name": node},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }


def _node(name: str) -> Body:
    room = {"cpu": str(NODE_CPU), "memory": "256Gi", "pods": "250"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Benchmark"}],
        },
    }


def gang_pods(gang: str, size: int, *, claims: int) -> list[Body]:
    """Return the gated pods of a gang, with so many claims each."""
    said = {GANG_ANNOTATION: gang, GANG_SIZE_ANNOTATION: str(size)}
    bodies = [pod(f"{gang}-m{number}", claims=claims, is_gated=True) for number in range(size)]
    return [{**body, "metadata": {**body["metadata"], "annotations": said}} for body in bodies]


def pod(name: str, *, claims: int, is_gated: bool, cpu: str = "1") -> Body:
    """Return a pod with so many claims, each made of the template."""
    entries = [f"gpu-{index}" for index in range(claims)]
    spec: Body = {
        "containers": [
            {
                "name": "main",
                "image": "none",
                "resources": {
                    "requests": {"cpu": cpu},
                    "claims": [{"name": entry} for entry in entries],
                },
            }
        ],
        "resourceClaims": [{"name": entry, "resourceClaimTemplateName": TEMPLATE} for entry in entries],
    }
    if is_gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {"metadata": {"name": name}, "spec": spec}


def filler(name: str, node: str, cpu: str) -> Body:
    """Return an ordinary pod without claims that only a node suits."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = {"nodeSelectorTerms": [term]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    body = pod(name, claims=0, is_gated=False, cpu=cpu)
    return {**body, "spec": {**body["spec"], "affinity": affinity}}
