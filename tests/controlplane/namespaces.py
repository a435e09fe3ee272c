"""A cluster that is as empty after a test as before.

Without the controller manager nobody empties a namespace that is being deleted, nor removes the finalizers of
a claim. So both are done here, the same way on either control plane.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from controlplane.client import MERGE_PATCH, Client, RefusedError
from controlplane.plane import ControlPlane
from dra_operator.cluster.delivery import patched

RESOURCE = "/apis/resource.k8s.io/v1"
# In the order of deletion: what uses others goes first.
NAMESPACED = (
    ("/apis/batch/v1", "jobs"),
    ("/api/v1", "pods"),
    (RESOURCE, "resourceclaims"),
    (RESOURCE, "resourceclaimtemplates"),
    ("/api/v1", "events"),
)
CLUSTER_WIDE = (
    (RESOURCE, "resourceslices"),
    (RESOURCE, "deviceclasses"),
    ("/apis/resource.k8s.io/v1beta2", "devicetaintrules"),
    ("/api/v1", "nodes"),
)


@contextmanager
def fresh_namespace(plane: ControlPlane) -> Iterator[str]:
    """Make a namespace for the `with` block and remove it with all it holds."""
    name = f"test-{secrets.token_hex(4)}"
    plane.client.create(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    try:
        yield name
    finally:
        remove_namespace(plane.client, name)


def remove_namespace(client: Client, name: str) -> None:
    """Delete a namespace and what tests put into it."""
    path = f"/api/v1/namespaces/{name}"
    # First the namespace: from then on nothing new can be made in it.
    client.delete(path)
    for prefix, plural in NAMESPACED:
        empty(client, f"{prefix}/namespaces/{name}/{plural}")
    answer = client.request("GET", path)
    if answer.ok:
        answer.body["spec"]["finalizers"] = []
        client.request("PUT", f"{path}/finalize", answer.body)


def clear_cluster(plane: ControlPlane) -> None:
    """Delete every cluster-wide object of the kinds that the operator reads, Namespaces apart."""
    for prefix, plural in CLUSTER_WIDE:
        empty(plane.client, f"{prefix}/{plural}")


def empty(client: Client, collection: str) -> None:
    """Delete every object of a collection, at once and whatever finalizers it has."""
    items: list[dict[str, Any]] = client.get(collection)["items"]
    if not items:
        return
    client.delete(f"{collection}?gracePeriodSeconds=0&propagationPolicy=Background")
    for item in client.get(collection)["items"]:
        # What is still there waits for a finalizer, or for a grace period that a kubelet would end.
        name = item["metadata"]["name"]
        if item["metadata"].get("finalizers"):
            _release(client, f"{collection}/{name}")
        client.delete(f"{collection}/{name}?gracePeriodSeconds=0")


def _release(client: Client, path: str) -> None:
    """Take all finalizers off an object that is being deleted, and may be gone already."""
    for _ in range(10):
        answer = client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        if answer.ok or answer.status == 404:
            return
        if answer.status == 422:
            # A claim with opaque parameters that JSON does not carry unharmed takes no patch. An operator that runs may
            # have written to it meanwhile, or let it go.
            with suppress(RefusedError):
                client.replace_bytes(path, patched(client.bytes_of(path), {"finalizers": []}))
                return
    raise RefusedError(f"PATCH {path}: {answer.status} {answer.body}")
