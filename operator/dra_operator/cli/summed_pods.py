"""Summed pods: what pods without claims have of each node, as one pod for each, since a snapshot leaves them out.

So that whatever reads the snapshot finds room where there is some. The places of the others, which nodes count, too,
are taken from what the node has of them.
Source: kube-scheduler's `NodeInfo`.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from dra_operator.api.convert import Body
from dra_operator.api.quantity import NANO, Family, format_amount
from dra_operator.api.read import ObjectError
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import NodeInfo

NAMESPACE: Final = "kube-system"
PREFIX: Final = "pods-without-claims-"
_PODS: Final = "pods"


def sum_pods(nodes: Iterable[Body], pods: Iterable[Body]) -> Iterator[Body]:
    """Yield a pod for each node that some pods are on, which has what they have there.

    The nodes get less room for pods, as if all of them were there.
    """
    cluster = ClusterPods()
    bodies: dict[str, Body] = {}
    for body in nodes:
        bodies[body["metadata"]["name"]] = body
        with suppress(ObjectError):
            cluster.put("Node", body)
    for body in pods:
        # Of a pod with a slip the rest counts.
        with suppress(ObjectError):
            cluster.put("Pod", body)
    for number, (name, node) in enumerate(sorted(cluster.nodes.items()), 1):
        if node.pods:
            _take_places(bodies[name], node)
            yield _pod_on(node, number)


def _take_places(body: Any, node: NodeInfo) -> None:
    """Take the places of pods off a node that one pod stands for."""
    if _PODS in node.allocatable:
        allocatable = body["status"]["allocatable"]
        body["status"]["allocatable"] = {
            **allocatable,
            _PODS: str(max(node.allocatable[_PODS] - node.pods + 1, 0)),
        }


def _pod_on(node: NodeInfo, number: int) -> Body:
    requests = {
        name: f"{amount}m" if name == "cpu" else format_amount(amount * NANO, Family.BINARY)
        for name, amount in node.requested.items()
    }
    ports = [
        {
            "containerPort": port.port,
            "hostPort": port.port,
            "protocol": port.protocol,
            "hostIP": port.address,
        }
        for port in node.ports
    ]
    container = {"name": _PODS, "resources": {"requests": requests}, **({"ports": ports} if ports else {})}
    name = f"{PREFIX}{number}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": {"nodeName": node.name, "containers": [container]},
        "status": {"phase": "Running"},
    }
