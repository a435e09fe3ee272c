"""Placed pods: what the pods of some objects have of nodes, and which volume claims count."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from dra_operator.api.core import Node
from dra_operator.api.read import ObjectError
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.workloads import part
from dra_operator.questions.contents import LoadResult

_ENOUGH: Final = MappingProxyType(dict.fromkeys(("cpu", "memory", "ephemeral-storage", "pods"), "1P"))


def read_placed_pods(
    gathered: LoadResult, nodes: Mapping[str, Node]
) -> tuple[ClusterPods, frozenset[tuple[str, str]]]:
    """Return what pods have of nodes, and the volume claims that count.

    What a node does not say to have of each, it has enough of. A volume claim that is not given counts for nothing, nor
    does one that nobody had the time to bind.
    """
    cluster = ClusterPods()
    for kind in ("DeviceClass", "Pod"):
        for record in gathered.of_kind(kind):
            # Of a pod with a slip in its status the rest counts.
            with suppress(ObjectError):
                cluster.put(kind, record.body)
    bodies = {record.obj.metadata.name: record.body for record in gathered.of_kind("Node")}
    for name, node in nodes.items():
        body = bodies.get(name, {"metadata": {"name": name, "labels": node.metadata.labels}})
        status = body.get("status") or {}
        allocatable = {**_ENOUGH, **(status.get("allocatable") or {})}
        cluster.put("Node", {**body, "status": {**status, "allocatable": allocatable}})
    claims: set[tuple[str, str]] = set()
    for (kind, namespace, name), body in gathered.volumes.items():
        is_claim = kind == "PersistentVolumeClaim"
        if is_claim and not (body["metadata"].get("uid") or part(body, "spec").get("volumeName")):
            continue
        cluster.put(kind, body)
        if is_claim:
            claims.add((namespace, name))
    return cluster, frozenset(claims)
