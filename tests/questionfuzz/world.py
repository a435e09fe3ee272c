"""Clusters at random in wire form, with something to ask about: devices, claims that hold some, pods that use these."""

from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from changefuzz.cluster import make_case
from factories import V1, manifest

Body = dict[str, Any]
NAMESPACE = "ns"
_CREATED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class World:
    """All objects of a cluster, a claim of which there are to be copies, how many, and what a pod with one requests."""

    objects: tuple[Body, ...]
    claim: Body
    copies: int
    cpu: str

    def claims(self, count: int) -> list[Body]:
        """Return copies of the claim, as somebody would create them one after the other."""
        return [self._copy(f"c-{number}") for number in range(1, count + 1)]

    def _copy(self, name: str) -> Body:
        body = deepcopy(self.claim)
        body["metadata"] = {"name": name, "namespace": NAMESPACE, "creationTimestamp": _CREATED}
        return body

    def template(self) -> Body:
        """Return a template of such claims."""
        metadata = {"name": "c", "namespace": NAMESPACE}
        spec = {"spec": self.claim["spec"]}
        return {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}

    def pod(self, name: str = "copy") -> Body:
        """Return a pod with a claim of the template."""
        entry = {"name": "c", "resourceClaimTemplateName": "c"}
        return pod(name, "", self.cpu, resourceClaims=[entry])

    def names(self, kind: str) -> list[str]:
        """Return the objects of a kind, as `namespace/name` where they have a namespace."""
        found = [body["metadata"] for body in self.objects if body["kind"] == kind]
        return [
            f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
            for metadata in found
        ]


def pod(name: str, node: str, cpu: str, **spec: Any) -> Body:
    """A pod that asks for cpu."""
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]
    where = {"nodeName": node} if node else {}
    return manifest(
        "Pod",
        name,
        {"containers": containers, **where, **spec},
        status={"phase": "Running" if node else "Pending"},
        namespace=NAMESPACE,
        **({"uid": name} if node else {}),
    )


def make_world(seed: object) -> World:
    """Return the world of a seed."""
    random = Random(f"questionfuzz {seed}")  # noqa: S311 - a seed makes a world repeatable
    case = make_case(seed)
    objects: list[Body] = []
    nodes: list[str] = []
    for kind, body in case.objects:
        found = {"apiVersion": "v1" if kind == "Node" else V1, "kind": kind, **deepcopy(body)}
        # As an API server that takes what ours would refuse.
        found["metadata"]["uid"] = body["metadata"]["name"]
        if kind == "Node":
            nodes.append(body["metadata"]["name"])
            found["status"] = {
                "allocatable": {"cpu": "16", "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            if random.random() < 0.1:
                found["spec"] = {"unschedulable": True}
        objects.append(found)
    for node in nodes:
        objects += [
            pod(f"p-{node}-{number}", node, str(random.choice([1, 2, 4])))
            for number in range(random.randrange(4))
        ]
    pods = [body for body in objects if body["kind"] == "Pod"]
    holders = [*case.holders.values()] or [*_more_holders(objects, random)]
    objects += [_holder(body, random, pods) for body in holders]
    (claim, *_) = case.claims.values()
    asked = {"apiVersion": V1, "kind": "ResourceClaim", **deepcopy(claim)}
    asked["metadata"] = {"name": "c", "namespace": NAMESPACE}
    return World(tuple(objects), asked, random.randint(1, 9), random.choice(["1", "4", "7"]))


def _more_holders(objects: list[Body], random: Random) -> Iterator[Body]:
    """Yield claims that hold some of the devices."""
    for body in objects:
        spec = body.get("spec", {})
        for device in spec.get("devices", ()) if body["kind"] == "ResourceSlice" else ():
            if random.random() < 0.4:
                result = {
                    "request": "r",
                    "driver": spec["driver"],
                    "pool": spec["pool"]["name"],
                    "device": device["name"],
                }
                metadata = {"name": f"more-{result['pool']}-{device['name']}", "namespace": NAMESPACE}
                status = {"allocation": {"devices": {"results": [result]}}}
                yield {"metadata": metadata, "spec": {}, "status": status}


def _holder(body: Body, random: Random, pods: list[Body]) -> Body:
    """Return a claim that holds devices: nobody's, of a pod, or used by some."""
    found = {"apiVersion": V1, "kind": "ResourceClaim", **deepcopy(body)}
    found["metadata"]["uid"] = found["metadata"]["name"]
    found["status"].pop("reservedFor", None)
    if pods and found["metadata"]["namespace"] == NAMESPACE and random.random() < 0.7:
        users = random.sample(pods, random.choice([1, 1, min(2, len(pods))]))
        names = [user["metadata"]["name"] for user in users]
        found["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": name} for name in names]
        if len(users) == 1 and random.random() < 0.8:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": names[0], "uid": names[0], "controller": True}
            found["metadata"]["ownerReferences"] = [owner]
            if random.random() < 0.5:
                del found["status"]["reservedFor"]
    return found


def without(
    world: World,
    *,
    claims: Collection[str] = (),
    pods: Collection[str] = (),
    nodes: Collection[str] = (),
) -> tuple[Body, ...]:
    """Return the objects that are left when some are gone, as Kubernetes' controllers would leave them."""
    left: list[Body] = []
    gone_pods = {
        body["metadata"]["name"]
        for body in world.objects
        if body["kind"] == "Pod"
        and (f"{NAMESPACE}/{body['metadata']['name']}" in pods or body["spec"].get("nodeName") in nodes)
    }
    for body in world.objects:
        kind, metadata = body["kind"], body["metadata"]
        if kind == "Node" and metadata["name"] in nodes:
            continue
        if kind == "ResourceSlice" and body["spec"].get("nodeName") in nodes:
            continue
        if kind == "Pod" and metadata["name"] in gone_pods:
            continue
        if kind == "ResourceClaim":
            if f"{metadata['namespace']}/{metadata['name']}" in claims:
                continue
            if any(owner["name"] in gone_pods for owner in metadata.get("ownerReferences", ())):
                continue
            users = body["status"].get("reservedFor", ())
            kept = [user for user in users if user["name"] not in gone_pods]
            if users and not kept:
                left.append({**body, "status": {}})
                continue
        left.append(body)
    return tuple(left)
