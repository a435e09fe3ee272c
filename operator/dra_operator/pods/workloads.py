"""The pods that workloads would have: those of a Deployment, a Job and the like, and of a DaemonSet one on each node.

A workload with a uid comes from an API server, where its pods are made already. Of a CronJob one Job counts. A pod of a
DaemonSet runs on its node or not at all, and says so by its node affinity; a node that cannot be used gets none.
Source: k8s.io/kubernetes/pkg/controller/daemon, `nodeShouldRunDaemonPod` and `ReplaceDaemonSetPodNodeNameNodeAffinity`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dra_operator.api.core import Node, NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches, pinned_to
from dra_operator.api.read import ObjectError
from dra_operator.api.text import shown
from dra_operator.inventory.nodes import read_node
from dra_operator.pods.node_fit import Taint, Toleration
from dra_operator.pods.objects import Manifest, ObjectRecord, ObjectSet

DAEMON_SET = "DaemonSet"
_REPLICATED = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps"}
_GROUPS = {**_REPLICATED, "Job": "batch", "CronJob": "batch", DAEMON_SET: "apps"}
_MAKERS = {*_GROUPS, "ReplicationController"}
_MOST_PODS = 10_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that makes pods; `spec` is what says how many there are, and has the template."""

    manifest: Manifest
    kind: str
    name: str
    spec: Mapping[str, Any]

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """What its pods are to be."""
        return part(self.spec, "template", "spec")

    def error(self, path: str, value: Any, message: str) -> ObjectError:
        """Return what is wrong with a field of it."""
        metadata = part(self.manifest.body, "metadata")
        place = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        path = f"spec.jobTemplate.{path}" if self.kind == "CronJob" else path
        return ObjectError(self.kind, *place, path, value=value, message=message)

    def pods(self) -> Iterator[Manifest]:
        """Yield the pods that it has at a time, and before them the group that a Job makes of them. Raises ObjectError.

        They are named as those of a StatefulSet, since the ends of other names are random; a group has the Job's name.
        """
        count = _at_a_time(self)
        claims = part(self.spec, "scheduling").get("resourceClaims")
        # The Jobs of a CronJob get no group.
        if self.kind != "Job" or not claims or not count or self.pod_spec.get("schedulingGroup"):
            yield from (self.pod(str(number)) for number in range(count))
            return
        group = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": self._metadata(self.name),
        }
        yield Manifest(self.manifest.place, {**group, "spec": {"resourceClaims": claims}})
        yield from (
            self.pod(str(number), schedulingGroup={"podGroupName": self.name}) for number in range(count)
        )

    def pod(self, end: str, **spec: Any) -> Manifest:
        """Return a pod whose name ends like this; `spec` takes the place of what the template says."""
        template = part(self.spec, "template", "metadata")
        given = {name: value for name in ("labels", "annotations") if (value := template.get(name))}
        metadata = {**given, **self._metadata(f"{self.name}-{end}")}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**self.pod_spec, **spec}}
        return Manifest(self.manifest.place, body)

    def _metadata(self, name: str) -> dict[str, Any]:
        """Return the name of an object of the workload, with its namespace."""
        namespace = part(self.manifest.body, "metadata").get("namespace")
        return {"name": name, **({"namespace": namespace} if namespace else {})}


def find_workload(manifest: Manifest) -> Workload | None:
    """Return the workload that a manifest is, or None if it is none, or one whose pods exist."""
    body = manifest.body
    kind, version = body.get("kind"), str(body.get("apiVersion"))
    if not isinstance(kind, str) or version.rpartition("/")[0] != _GROUPS.get(kind):
        return None
    metadata, spec = part(body, "metadata"), part(body, "spec")
    if kind == "CronJob":
        # Whether it is suspended or not, a Job of it is what there is to know about.
        spec = part(spec, "jobTemplate", "spec")
    name = metadata.get("name")
    found = Workload(manifest, kind, str(name), spec)
    return found if name and not metadata.get("uid") and found.pod_spec else None


def may_make_pods(body: Mapping[str, Any]) -> bool:
    """True for an object that may make pods: of Kubernetes' own kinds few do, of others nobody knows here."""
    group = str(body.get("apiVersion")).rpartition("/")[0]
    is_own = "." not in group or group.endswith(".k8s.io")
    return body.get("kind") in _MAKERS or not is_own


def _at_a_time(workload: Workload) -> int:
    """Return how many pods a workload has at a time. Raises ObjectError."""
    spec = workload.spec

    def count(field: str, default: int) -> int:
        value = spec.get(field)
        if value is None:
            return default
        problem = ""
        if type(value) is not int or value < 0:
            problem = f"{shown(value)} is not a whole number"
        elif value > _MOST_PODS:
            problem = f"{value} pods are more than the {_MOST_PODS:,} that are looked at"
        if problem:
            raise workload.error(f"spec.{field}", value, problem)
        return int(value)

    if workload.kind in _REPLICATED:
        return count("replicas", 1)
    if spec.get("suspend") is True:
        return 0
    parallel = count("parallelism", 1)
    return min(parallel, count("completions", parallel))


def part(owner: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the map that stands somewhere in another, or an empty one."""
    for name in path:
        value = owner.get(name)
        owner = value if isinstance(value, Mapping) else {}
    return owner


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


def node_of(pod: ObjectRecord) -> str | None:
    """Return the only node that a pod of a DaemonSet can run on; None for any other pod."""
    try:
        return pinned_to(_affinity(part(pod.body, "spec")))
    except ValidationError:
        return None


def daemon_pods(workload: Workload, objects: ObjectSet, nodes: Mapping[str, Node]) -> Iterator[Manifest]:
    """Yield a pod for each node that it fits. Raises ObjectError."""
    for name, node in nodes.items():
        stored = objects.records.get(("Node", "", name))
        taints = _maps(part(stored.body, "spec"), "taints") if stored is not None else ()
        if read_node(node).unusable is None and _fits(workload, node, taints):
            # A pod of it tolerates what the controller adds, and what the template says.
            only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [only]}}}
            tolerations = [*_maps(workload.pod_spec, "tolerations"), *_added_tolerations(workload.pod_spec)]
            yield workload.pod(name, affinity=affinity, tolerations=tolerations)


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
    tolerations = [
        Toleration(*[item.get(name) or "" for name in Toleration._fields])
        for item in (*_maps(spec, "tolerations"), *_added_tolerations(spec))
    ]
    return all(
        any(item.tolerates(Taint(*[taint.get(name) or "" for name in Taint._fields])) for item in tolerations)
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def _added_tolerations(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tolerations that the controller gives to a pod of a DaemonSet."""
    tolerated = _TOLERATED_ON_HOST_NETWORK if spec.get("hostNetwork") is True else _TOLERATED
    pairs = [item.split(":") for item in sorted(tolerated)]
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in pairs]


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
