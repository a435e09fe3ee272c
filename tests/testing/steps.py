"""The requests that scenarios are made of.

`NAMESPACE` stands for the test's namespace, `${name.field}` for a field of an answer that a step remembered.
"""

from dataclasses import dataclass
from typing import Any

import factories
from factories import manifest

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/NAMESPACE/resourceclaims"
TEMPLATES = f"{DRA}/namespaces/NAMESPACE/resourceclaimtemplates"
CLASSES = f"{DRA}/deviceclasses"
SLICES = f"{DRA}/resourceslices"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
PODS = "/api/v1/namespaces/NAMESPACE/pods"
EVENTS = "/api/v1/namespaces/NAMESPACE/events"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases"


@dataclass(frozen=True, slots=True)
class Step:
    """One request; `remember` names its answer for later steps."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    remember: str = ""


def request(name: str = "gpu", **fields: Any) -> dict[str, Any]:
    """Return a device request for class c."""
    return factories.request(name, "c", **fields)


def claim(name: str, *requests: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a claim with one request, or those given."""
    return factories.claim(name, *(requests or [request()]), **metadata)


def create(body: Any, path: str = CLAIMS, **options: Any) -> Step:
    """Return the creation of an object."""
    return Step("POST", path, body, **options)


def get(path: str, **options: Any) -> Step:
    """Return a read."""
    return Step("GET", path, **options)


def put(path: str, body: Any) -> Step:
    """Return a replacement."""
    return Step("PUT", path, body)


def merge(path: str, body: Any) -> Step:
    """Return a merge-patch."""
    return Step("PATCH", path, body, MERGE)


def delete(path: str, body: Any = None) -> Step:
    """Return a deletion."""
    return Step("DELETE", path, body)


def allocation(device: str = "gpu-0", of: str = "gpu") -> dict[str, Any]:
    """Return an allocation of one device."""
    result = {"request": of, "driver": "gpu.example.com", "pool": "node-1", "device": device}
    return {"devices": {"results": [result]}}


def resource_slice(name: str, **spec: Any) -> dict[str, Any]:
    """Return a slice of one device on node-1; `spec` replaces fields, None leaves them out."""
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    fields = {
        "driver": "gpu.example.com",
        "pool": pool,
        "nodeName": "node-1",
        "devices": [{"name": "gpu-0"}],
        **spec,
    }
    return manifest(
        "ResourceSlice", name, {field: value for field, value in fields.items() if value is not None}
    )


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod with one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


FINALIZER = "resource.kubernetes.io/delete-protection"
