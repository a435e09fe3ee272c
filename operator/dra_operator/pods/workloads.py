"""The pods that workloads of known kinds would have, and of a DaemonSet one on each node.

A workload with a uid comes from an API server, where its pods are made already. Of a CronJob one Job counts. A pod of a
DaemonSet runs on its node or not at all, and says so by its node affinity; a node that cannot be used gets none.
Source: k8s.io/kubernetes/pkg/controller/daemon, `nodeShouldRunDaemonPod` and `ReplaceDaemonSetPodNodeNameNodeAffinity`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Final

from dra_operator.api.core import Node, NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches, pinned_to
from dra_operator.api.read import ObjectError, PartError, read_part
from dra_operator.api.text import shown
from dra_operator.inventory.nodes import read_node
from dra_operator.inventory.taints import EffectiveTaint, Toleration, tolerates
from dra_operator.pods.objects import Manifest, ObjectRecord, ObjectSet

# --- Known workloads: where each kind has its pod templates, and the fields that say how many pods it makes. Data
# alone.
# Paths are dotted; `*` is each item of a list, or each value of a map, and the same one in all paths of a pod set.
# Sources: the API types of Kubernetes 1.37, JobSet v1alpha2, LeaderWorkerSet v1, KubeRay v1, Kubeflow Training v1 and
# MPI v2beta1, Volcano batch v1alpha1, Grove v1alpha1.


@dataclass(frozen=True, slots=True)
class Factor:
    """A number that multiplies pods: that of a field or its default, within those of other fields, less some."""

    path: str
    default: int = 1
    at_least: str = ""
    at_most: str = ""
    less: int = 0


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template: where it is, or where else if it is absent; in it `spec` has the spec of the pods.

    `role` is what tells the pods of a workload apart: a word, `*` for the key of a map, or the path of a field.
    """

    template: str
    factors: tuple[Factor, ...]
    role: str = ""
    instead: str = ""
    spec: str = "spec"


@dataclass(frozen=True, slots=True)
class GangRule:
    """Which pods of a workload are a gang: all of it, or those of each of `replicas`, the path of their number.

    If the `field` has the value `staged` (a default counts as one, if it is that), the controller makes pods only once
    others are ready: each role is a stage by itself. `replica` and `role` are the labels that say which a pod is of.
    """

    replicas: str = ""
    field: str = ""
    staged: str = ""
    default: str = ""
    replica: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class KnownWorkload:
    """A kind of workload: where it is served, what kubectl calls it, and its pods.

    `short` are other names. `suspended` is the field that keeps it from having pods. `between` are
    the kinds of the objects that own its pods, if it does not itself. With `is_for_each_node` each node gets a pod.
    `gang` says which of its pods run together or not at all.
    """

    kind: str
    group: str
    pod_sets: tuple[PodSet, ...]
    versions: tuple[str, ...] = ("v1",)
    _: KW_ONLY
    short: tuple[str, ...] = ()
    suspended: str = "spec.suspend"
    between: tuple[str, ...] = ()
    is_for_each_node: bool = False
    gang: GangRule | None = None

    @property
    def plural(self) -> str:
        """What paths and kubectl call several of it."""
        return f"{self.kind.lower()}s"

    @property
    def name(self) -> str:
        """The kind with its group, as `kubectl get` takes it."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()


def _job(path: str, *factors: Factor, role: str = "") -> PodSet:
    """Return the pods of a Job whose spec is at a path."""
    parallel = Factor(f"{path}.parallelism", at_most=f"{path}.completions")
    return PodSet(f"{path}.template", (*factors, parallel), role)


_REPLICAS: Final = Factor("spec.replicas")
_REPLICATED: Final = (PodSet("spec.template", (_REPLICAS,)),)


def _ray(path: str) -> tuple[PodSet, ...]:
    """Return the pods of a Ray cluster whose spec is at a path."""
    workers = f"{path}.workerGroupSpecs.*"
    replicas = Factor(f"{workers}.replicas", 0, f"{workers}.minReplicas", f"{workers}.maxReplicas")
    return (
        PodSet(f"{path}.headGroupSpec.template", (), "head"),
        PodSet(
            f"{workers}.template",
            (replicas, Factor(f"{workers}.numOfHosts")),
            f"{workers}.groupName",
        ),
    )


def _kubeflow(kind: str, field: str, version: str = "v1", between: tuple[str, ...] = ()) -> KnownWorkload:
    """Return a job of Kubeflow, whose pods are in a map by their role."""
    path = f"spec.{field}.*"
    return KnownWorkload(
        kind,
        "kubeflow.org",
        (PodSet(f"{path}.template", (Factor(f"{path}.replicas"),), "*"),),
        (version,),
        suspended="spec.runPolicy.suspend",
        between=between,
    )


_LWS: Final = "spec.leaderWorkerTemplate"

_ALL: Final = (
    KnownWorkload("Deployment", "apps", _REPLICATED, short=("deploy",), between=("ReplicaSet",)),
    KnownWorkload("ReplicaSet", "apps", _REPLICATED, short=("rs",)),
    KnownWorkload(
        "StatefulSet",
        "apps",
        _REPLICATED,
        short=("sts",),
        gang=GangRule(
            "", "spec.podManagementPolicy", "OrderedReady", "OrderedReady", "apps.kubernetes.io/pod-index"
        ),
    ),
    KnownWorkload("ReplicationController", "", _REPLICATED, short=("rc",)),
    KnownWorkload(
        "DaemonSet",
        "apps",
        (PodSet("spec.template", ()),),
        short=("ds",),
        is_for_each_node=True,
    ),
    KnownWorkload("Job", "batch", (_job("spec"),), gang=GangRule()),
    # Whether it is suspended or not, a Job of it is what there is to know about.
    KnownWorkload(
        "CronJob",
        "batch",
        (_job("spec.jobTemplate.spec"),),
        short=("cj",),
        suspended="",
        between=("Job",),
    ),
    KnownWorkload(
        "JobSet",
        "jobset.x-k8s.io",
        (
            _job(
                "spec.replicatedJobs.*.template.spec",
                Factor("spec.replicatedJobs.*.replicas"),
                role="spec.replicatedJobs.*.name",
            ),
        ),
        versions=("v1alpha2",),
        between=("Job",),
        gang=GangRule(
            field="spec.startupPolicy.startupPolicyOrder",
            staged="InOrder",
            role="jobset.sigs.k8s.io/replicatedjob-name",
        ),
    ),
    KnownWorkload(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io",
        (
            PodSet(f"{_LWS}.leaderTemplate", (_REPLICAS,), "leader", instead=f"{_LWS}.workerTemplate"),
            PodSet(f"{_LWS}.workerTemplate", (_REPLICAS, Factor(f"{_LWS}.size", less=1)), "worker"),
        ),
        short=("lws",),
        suspended="",
        between=("StatefulSet",),
        gang=GangRule(
            "spec.replicas",
            "spec.startupPolicy",
            "LeaderReady",
            replica="leaderworkerset.sigs.k8s.io/group-index",
            role="leaderworkerset.sigs.k8s.io/worker-index",
        ),
    ),
    KnownWorkload("RayCluster", "ray.io", _ray("spec"), ("v1", "v1alpha1")),
    KnownWorkload(
        "RayJob",
        "ray.io",
        _ray("spec.rayClusterSpec"),
        ("v1", "v1alpha1"),
        between=("RayCluster",),
    ),
    KnownWorkload(
        "RayService",
        "ray.io",
        _ray("spec.rayClusterConfig"),
        ("v1", "v1alpha1"),
        between=("RayCluster",),
    ),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs"),
    _kubeflow("TFJob", "tfReplicaSpecs"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    _kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", ("Job",)),
    KnownWorkload(
        "Job",
        "batch.volcano.sh",
        (
            PodSet(
                "spec.tasks.*.template", (Factor("spec.tasks.*.replicas", default=0),), "spec.tasks.*.name"
            ),
        ),
        ("v1alpha1",),
        short=("vcjob", "vj"),
        suspended="",
    ),
    KnownWorkload(
        "PodClique",
        "grove.io",
        (PodSet("spec", (_REPLICAS,), spec="podSpec"),),
        ("v1alpha1",),
        short=("pclq",),
        suspended="",
    ),
)

KNOWN_WORKLOADS: Final = MappingProxyType({(each.group, each.kind): each for each in _ALL})
"""The kinds of workloads, by group and kind."""

GANG_LABELS: Final = tuple(
    [
        name
        for known in _ALL
        if known.gang is not None
        for name in (known.gang.replica, known.gang.role)
        if name
    ]
)
"""The labels of pods by which the gangs of a workload are told apart."""


def find_known(body: Mapping[str, Any]) -> KnownWorkload | None:
    """Return the kind of workload that an object is of, or None."""
    group = str(body.get("apiVersion")).rpartition("/")[0]
    return KNOWN_WORKLOADS.get((group, str(body.get("kind"))))


def find_named(word: str) -> KnownWorkload | None:
    """Return the kind of workload that a word names, as kubectl has them: job, jobs, jobs.batch, deploy; or None.

    Of a name without a group that several have, it is that of Kubernetes.
    """
    name, _, group = word.lower().partition(".")
    for known in KNOWN_WORKLOADS.values():
        if name in (known.kind.lower(), known.plural, *known.short) and group in ("", known.group):
            return known
    return None


# --- Their pods.


_MOST_PODS = 10_000
_Steps = tuple[str | int, ...]
"""Where something is in an object: keys of maps, and places in lists."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A template of a workload, how many pods of it there are at a time, and their role.

    They are of so many `gangs`, in equal parts, 0 for none. Those of a later `stage` are made once those before are
    ready; 0: all are made at once.
    """

    path: str
    body: Mapping[str, Any]
    spec: Mapping[str, Any]
    count: int
    role: str = ""
    gangs: int = 0
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that makes pods: an object of a known kind."""

    manifest: Manifest
    known: KnownWorkload
    name: str

    @property
    def is_suspended(self) -> bool:
        """Whether it has no pods for now."""
        return _at(self.manifest.body, _split(self.known.suspended)) is True

    def error(self, path: str, value: Any, message: str) -> ObjectError:
        """Return what is wrong with a field of it."""
        metadata = part(self.manifest.body, "metadata")
        place = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        return ObjectError(self.known.kind, *place, path, value=value, message=message)

    def templates(self) -> Iterator[PodTemplate]:
        """Yield its templates, as if it were not suspended. Raises ObjectError."""
        body, number = self.manifest.body, 1
        for pods in self.known.pod_sets:
            for steps, keys in _find(body, _split(pods.template)):
                is_absent = pods.instead and _at(body, steps) is None
                place = _split(pods.instead) if is_absent else steps
                found, path = _at(body, place), _shown(place)
                spec = part(found, pods.spec) if isinstance(found, Mapping) else {}
                if not spec:
                    raise self.error(path, found, "is no template of pods")
                count = prod(self._read(factor, keys) for factor in pods.factors)
                if count > _MOST_PODS:
                    problem = f"{count} pods are more than the {_MOST_PODS:,} that are looked at"
                    raise self.error(_shown(_filled(pods.factors[0].path, keys)), count, problem)
                role = self._read_role(pods.role, keys)
                yield PodTemplate(path, found, spec, count, role, *self._read_gangs(count, number))
                number += 1

    def _read(self, factor: Factor, keys: _Steps) -> int:
        """Return the number that a factor is. Raises ObjectError."""

        def number(path: str, default: int) -> int:
            steps = _filled(path, keys)
            value = _at(self.manifest.body, steps) if path else None
            if value is None:
                return default
            if type(value) is not int or value < 0:
                raise self.error(_shown(steps), value, f"{shown(value)} is not a whole number")
            return int(value)

        found = max(number(factor.path, factor.default), number(factor.at_least, 0))
        return max(min(found, number(factor.at_most, found)) - factor.less, 0)

    def _read_gangs(self, count: int, number: int) -> tuple[int, int]:
        """Return of how many gangs some pods are, and of which stage those of the template with this number."""
        rule = self.known.gang
        if rule is None:
            return 0, 0
        is_staged = (_at(self.manifest.body, _split(rule.field)) or rule.default) == rule.staged != ""
        if rule.replicas:
            return self._read(Factor(rule.replicas), ()), number if is_staged else 0
        # Without replicas and roles, each pod is a stage.
        return (count, 0) if is_staged and not rule.role else (1, number if is_staged else 0)

    def _read_role(self, role: str, keys: _Steps) -> str:
        if role == "*":
            return str(keys[-1]).lower()
        return str(_at(self.manifest.body, _filled(role, keys)) or "") if "." in role else role

    def pods(self) -> Iterator[Manifest]:
        """Yield the pods that it has at a time, and before them the group that a Job makes of them. Raises ObjectError.

        They are named as those of a StatefulSet, since the ends of other names are random; a group has the Job's name.
        """
        if self.is_suspended:
            return
        group = self.group()
        if group is not None:
            yield group
        for template in self.templates():
            for number in range(template.count):
                yield self.pod(template, str(number), is_in_group=group is not None)

    def group(self) -> Manifest | None:
        """Return the PodGroup that a Job makes of its pods, if it says which claims they share. Raises ObjectError."""
        claims = part(self.manifest.body, "spec", "scheduling").get("resourceClaims")
        # The Jobs of a CronJob get no group.
        if (self.known.group, self.known.kind) != ("batch", "Job") or not claims:
            return None
        (template,) = self.templates()
        if not template.count or template.spec.get("schedulingGroup"):
            return None
        body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
        metadata, spec = self._metadata(self.name), {"resourceClaims": claims}
        return Manifest(self.manifest.place, {**body, "metadata": metadata, "spec": spec})

    def pod(self, template: PodTemplate, end: str, *, is_in_group: bool = False, **spec: Any) -> Manifest:
        """Return a pod whose name ends like this; `spec` takes the place of what the template says."""
        metadata = part(template.body, "metadata")
        given = {name: value for name in ("labels", "annotations") if (value := metadata.get(name))}
        role = f"-{template.role}" if template.role else ""
        own = {**given, **self._metadata(f"{self.name}{role}-{end}")}
        group = {"schedulingGroup": {"podGroupName": self.name}} if is_in_group else {}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": own}
        return Manifest(self.manifest.place, {**body, "spec": {**template.spec, **group, **spec}})

    def _metadata(self, name: str) -> dict[str, Any]:
        """Return the name of an object of the workload, with its namespace."""
        namespace = part(self.manifest.body, "metadata").get("namespace")
        return {"name": name, **({"namespace": namespace} if namespace else {})}


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")) if path else ()


def _filled(path: str, keys: _Steps) -> _Steps:
    """Return a path with these keys in the place of each `*`."""
    rest = iter(keys)
    return tuple([next(rest) if name == "*" else name for name in _split(path)])


def _shown(steps: _Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _at(value: Any, steps: _Steps) -> Any:
    """Return what is at a place, or None."""
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _find(value: Any, path: tuple[str, ...]) -> Iterator[tuple[_Steps, _Steps]]:
    """Yield the places that a path leads to: one for each item where it has `*`, and the keys of these."""
    if "*" not in path:
        yield path, ()
        return
    start = path.index("*")
    items = _at(value, path[:start])
    keys: _Steps = tuple(range(len(items))) if isinstance(items, list) else ()
    for key in tuple(items) if isinstance(items, Mapping) else keys:
        for rest, others in _find(_at(items, (key,)), path[start + 1 :]):
            yield (*path[:start], key, *rest), (key, *others)


def find_workload(manifest: Manifest) -> Workload | None:
    """Return the workload that a manifest is, or None if it is none, has no template, or its pods exist."""
    known, metadata = find_known(manifest.body), part(manifest.body, "metadata")
    name = metadata.get("name")
    if known is None or not name or metadata.get("uid"):
        return None
    has_pods = any(
        part(found, pods.spec)
        for pods in known.pod_sets
        for steps, _ in _find(manifest.body, _split(pods.template))
        if isinstance(found := _at(manifest.body, steps), Mapping)
    )
    return Workload(manifest, known, str(name)) if has_pods else None


def may_make_pods(body: Mapping[str, Any]) -> bool:
    """True for an object that may make pods: of Kubernetes' own kinds few do, of others nobody knows here."""
    group = str(body.get("apiVersion")).rpartition("/")[0]
    is_own = "." not in group or group.endswith(".k8s.io")
    return find_known(body) is not None or not is_own


def describe_unknown(body: Mapping[str, Any]) -> str:
    """Return that nobody knows the pods of an object, and what to write instead."""
    kinds = ", ".join(sorted({known.kind for known in KNOWN_WORKLOADS.values()}))
    name = part(body, "metadata").get("name")
    return (
        f'{body.get("kind")} "{name}": which pods it makes is not known here (of workloads {kinds} are known): write '
        "its pods as Pod or Job"
    )


def asks_for_claims(value: Any) -> bool:
    """True for an object of any kind in which something stands like the spec of a pod with claims."""
    if isinstance(value, list):
        return any(map(asks_for_claims, value))
    if not isinstance(value, Mapping):
        return False
    is_pod = isinstance(value.get("containers"), list) and bool(value.get("resourceClaims"))
    return is_pod or any(map(asks_for_claims, value.values()))


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
    except PartError:
        return None


def daemon_pods(workload: Workload, objects: ObjectSet, nodes: Mapping[str, Node]) -> Iterator[Manifest]:
    """Yield a pod for each node that it fits. Raises ObjectError."""
    (template,) = workload.templates()
    for name, node in nodes.items():
        stored = objects.records.get(("Node", "", name))
        taints = _maps(part(stored.body, "spec"), "taints") if stored is not None else ()
        if read_node(node).unusable is None and _fits(workload, template.spec, node, taints):
            # A pod of it tolerates what the controller adds, and what the template says.
            only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [only]}}}
            tolerations = [*_maps(template.spec, "tolerations"), *_added_tolerations(template.spec)]
            yield workload.pod(template, name, affinity=affinity, tolerations=tolerations)


def _fits(
    workload: Workload, spec: Mapping[str, Any], node: Node, taints: Iterable[Mapping[str, Any]]
) -> bool:
    labels = node.metadata.labels
    if not part(spec, "nodeSelector").items() <= labels.items():
        return False
    try:
        affinity = _affinity(spec)
        if affinity is not None and not matches(affinity, node.metadata.name, labels):
            return False
    except (PartError, NodeSelectorError):
        path = "spec.template.spec.affinity.nodeAffinity"
        raise workload.error(path, None, "is no affinity that selects nodes") from None
    tolerations = [
        Toleration(*[item.get(name) or "" for name in Toleration._fields])
        for item in (*_maps(spec, "tolerations"), *_added_tolerations(spec))
    ]
    keeping = [
        EffectiveTaint(*[taint.get(name) or "" for name in EffectiveTaint._fields])
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    ]
    return all(any(tolerates(item, taint) for item in tolerations) for taint in keeping)


def _added_tolerations(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tolerations that the controller gives to a pod of a DaemonSet."""
    tolerated = _TOLERATED_ON_HOST_NETWORK if spec.get("hostNetwork") is True else _TOLERATED
    pairs = [item.split(":") for item in sorted(tolerated)]
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in pairs]


def _affinity(spec: Mapping[str, Any]) -> NodeSelector | None:
    """Return the node affinity that the spec of a pod requires. Raises PartError."""
    required = part(spec, "affinity", "nodeAffinity").get(_REQUIRED)
    return None if required is None else read_part(NodeSelector, required)


def _maps(owner: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = owner.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
