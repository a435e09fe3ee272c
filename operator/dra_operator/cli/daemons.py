"""Daemons: the pods of DaemonSets, one on each node that it fits, made once it is known which nodes there are.

Such a pod runs on its node or not at all, and says so by its node affinity; so the claims that are made for it are
decided for that node. A node that cannot be used gets none: the pod would run there, but no claim is allocated there.
Source: k8s.io/kubernetes/pkg/controller/daemon, `nodeShouldRunDaemonPod` and `ReplaceDaemonSetPodNodeNameNodeAffinity`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dra_operator.api.core import Node, NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.cli.load import Gathered, Thing, take_pods
from dra_operator.cli.manifests import Manifest
from dra_operator.cli.offline import pinned_to
from dra_operator.cli.workloads import Workload, part
from dra_operator.inventory.nodes import read_node

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = frozenset(
    {
        "node.kubernetes.io/not-ready:NoExecute",
        "node.kubernetes.io/unreachable:NoExecute",
        "node.kubernetes.io/disk-pressure:NoSchedule",
        "node.kubernetes.io/memory-pressure:NoSchedule",
        "node.kubernetes.io/pid-pressure:NoSchedule",
        "node.kubernetes.io/unschedulable:NoSchedule",
    }
)
"""The taints that the controller lets all pods of DaemonSets tolerate. Source: `AddOrUpdateDaemonPodTolerations`."""
_TOLERATED_ON_HOST_NETWORK = _TOLERATED | {"node.kubernetes.io/network-unavailable:NoSchedule"}


def take_daemons(gathered: Gathered, nodes: Mapping[str, Node]) -> None:
    """Take the pods that DaemonSets have on some nodes instead of them."""
    for workload in gathered.daemon_sets:
        take_pods(gathered, workload, _pods(workload, gathered, nodes))


def node_of(pod: Thing) -> str | None:
    """Return the only node that a pod of a DaemonSet can run on; None for any other pod."""
    try:
        return pinned_to(_affinity(part(pod.body, "spec")))
    except ValidationError:
        return None


def _pods(workload: Workload, gathered: Gathered, nodes: Mapping[str, Node]) -> Iterator[Manifest]:
    """Yield a pod for each node that it fits. Raises ObjectError."""
    for name, node in nodes.items():
        stored = gathered.things.get(("Node", "", name))
        taints = _maps(part(stored.body, "spec"), "taints") if stored is not None else ()
        if read_node(node).unusable is None and _fits(workload, node, taints):
            only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            yield workload.pod(name, affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [only]}}})


def _fits(workload: Workload, node: Node, taints: Iterable[Mapping[str, Any]]) -> bool:
    spec, labels = workload.pod_spec, node.metadata.labels
    if not part(spec, "nodeSelector").items() <= labels.items():
        return False
    try:
        affinity = _affinity(spec)
        if affinity is not None and not matches(affinity, node.metadata.name, labels):
            return False
    except (ValidationError, NodeSelectorError):
        path = "spec.template.spec.affinity.nodeAffinity"
        raise workload.error(path, None, "is no affinity that selects nodes") from None
    tolerated = _TOLERATED_ON_HOST_NETWORK if spec.get("hostNetwork") is True else _TOLERATED
    return all(
        any(_tolerates(toleration, taint) for toleration in _maps(spec, "tolerations"))
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and f"{taint.get('key')}:{taint['effect']}" not in tolerated
    )


def _affinity(spec: Mapping[str, Any]) -> NodeSelector | None:
    """Return the node affinity that the spec of a pod requires. Raises ValidationError."""
    required = part(spec, "affinity", "nodeAffinity").get(_REQUIRED)
    return None if required is None else _selectors().validate_python(required)


def _maps(owner: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = owner.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


@cache
def _selectors() -> TypeAdapter[NodeSelector]:
    return TypeAdapter(NodeSelector)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if any(toleration.get(name) and toleration[name] != taint.get(name) for name in ("key", "effect")):
        return False
    is_equal = (toleration.get("value") or "") == (taint.get("value") or "")
    return (
        is_equal if toleration.get("operator") in (None, "", "Equal") else toleration["operator"] == "Exists"
    )
