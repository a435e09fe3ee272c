"""Placed pods: what the pods of some objects have of nodes, and which volume claims count."""

from collections.abc import Callable, Mapping
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
) -> tuple[ClusterPods, Callable[[tuple[str, str]], bool]]:
    """Return what pods have of nodes, and which volume claims count.

    What a node does not say to have of each, it has enough of. A volume claim that nobody had the time to bind counts
    for nothing. Where all were listed, one that is not among them is missing; else it may be there.
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
    claims: dict[tuple[str, str], bool] = {}
    for (kind, namespace, name), body in gathered.volumes.items():
        is_claim = kind == "PersistentVolumeClaim"
        counts = bool(body["metadata"].get("uid") or part(body, "spec").get("volumeName"))
        if is_claim:
            claims[namespace, name] = counts
        if counts or not is_claim:
            cluster.put(kind, body)
    is_listed = "PersistentVolumeClaim" in gathered.listed
    return cluster, lambda key: claims.get(key, is_listed)
