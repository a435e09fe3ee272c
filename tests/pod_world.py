"""A small cluster in memory for tests of pods: objects as on the wire go in, and what keeps pods waiting comes out."""

import time
from typing import Any

import factories
from dra_operator.allocator.allocator import Allocator
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import Ledger
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.node_fit import read_requirements
from dra_operator.pods.pod_decision import PodDecider, PodDecision
from factories import manifest

DRIVER = "gpu.example.com"
NAMESPACE = "team"


def node(name: str, *, labels: dict[str, str] | None = None, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    """A node that is ready."""
    return manifest(
        "Node",
        name,
        spec,
        status={
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
        labels={"kubernetes.io/hostname": name, **(labels or {})},
    )


def device_class(driver: str = DRIVER) -> dict[str, Any]:
    """A class of all devices of a driver, with its name."""
    return factories.device_class(driver, f'device.driver == "{driver}"')


def resource_slice(on: str, *devices: str, driver: str = DRIVER, taints: Any = ()) -> dict[str, Any]:
    """The devices of a driver on a node."""
    items = [{"name": name, "taints": list(taints)} for name in devices]
    return factories.resource_slice(f"{driver}-{on}", items, driver=driver, pool=on)


def claim(
    name: str, count: int = 1, *, of: str = DRIVER, owner: str = "", status: Any = None, **metadata: Any
) -> dict[str, Any]:
    """A claim for devices of a class; `owner` is the uid of the pod that it was made for."""
    asked = factories.request("gpu", of, allocationMode="ExactCount", count=count)
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}]
    named = {"namespace": NAMESPACE, "uid": name, **({"ownerReferences": owners} if owner else {})}
    return factories.claim(name, asked, status=status or {}, **{**named, **metadata})


def allocation(on: str, *devices: str, driver: str = DRIVER) -> dict[str, Any]:
    """An allocation of devices on a node."""
    return factories.allocation(*[factories.result(name, on, driver=driver) for name in devices], node=on)


def pod(
    name: str, *entries: dict[str, Any], cpu: str = "100m", made: Any = (), **spec: Any
) -> dict[str, Any]:
    """A pod without a node; `made` are the entries of its status, as the claim controller writes them."""
    return manifest(
        "Pod",
        name,
        {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
            "resourceClaims": list(entries),
            **spec,
        },
        status={"phase": "Pending", "resourceClaimStatuses": list(made)},
        namespace=NAMESPACE,
        uid=name,
    )


def named(entry: str, claim_name: str) -> dict[str, Any]:
    """An entry of a pod that names a claim."""
    return {"name": entry, "resourceClaimName": claim_name}


def templated(entry: str, template: str = "gpu") -> dict[str, Any]:
    """An entry of a pod that names a template."""
    return {"name": entry, "resourceClaimTemplateName": template}


class PodWorld:
    """Inventory, ledger and pods of a cluster, and the claims that pods find.

    Where the operator `owns` devices, it may use those that slices say are owned, and no others.
    """

    def __init__(self, *bodies: dict[str, Any], owns: bool = False) -> None:
        self.inventory = Inventory(settlement=Settlement() if owns else None)
        self.ledger, self.cluster = Ledger(), ClusterPods()
        self.pods: dict[str, dict[str, Any]] = {}
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.templates: set[tuple[str, str]] = set()
        allocator = Allocator(self.inventory, self.ledger, clock=time.monotonic, share_ids=lambda: "")
        lookups = self.claims.get, self.templates.__contains__
        explainer = Explainer(allocator)
        self.explainer = PodExplainer(explainer, self.cluster, *lookups)
        self.decider = PodDecider(explainer, self.cluster, *lookups)
        self.put(*bodies)
        if owns:
            self.inventory.settle(set(), self.inventory.pools.keys())

    def put(self, *bodies: dict[str, Any]) -> None:
        """Take in some objects."""
        for body in bodies:
            kind, metadata = body["kind"], body["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            if kind in ("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "DeviceClass"):
                self.cluster.put(kind, body)
            if kind == "Pod":
                self.pods[metadata["name"]] = body
            if kind == "ResourceClaimTemplate":
                self.templates.add(key)
            elif kind == "ResourceClaim":
                found: ResourceClaim = read_object(body, kind)
                self.claims[key] = found
                self.ledger.put(found)
            elif kind not in ("Pod", "PersistentVolume", "PersistentVolumeClaim"):
                self.inventory.put(read_object(body, kind))

    def explain(self, name: str) -> PodExplanation | None:
        """Return why a pod waits."""
        waiting = self.cluster.waiting[NAMESPACE, name]
        return self.explainer.explain(waiting.pod, waiting.requirements)

    def message(self, name: str) -> str:
        """Return reason and message of a pod that waits."""
        found = self.explain(name)
        assert found is not None
        return f"{found.reason}: {found.message}"

    def decide(self, name: str) -> PodDecision | PodExplanation:
        """Return what is decided about a gated pod."""
        body = self.pods[name]
        return self.decider.decide(read_object(body, "Pod"), read_requirements(body))
