"""Known workloads: where each kind has its pod templates, and the fields that say how many pods it makes. Data alone.

Paths are dotted; `*` is each item of a list, or each value of a map, and the same one in all paths of a pod set.
Sources: the API types of Kubernetes 1.37, JobSet v1alpha2, LeaderWorkerSet v1, KubeRay v1, Kubeflow Training v1 and
MPI v2beta1, Volcano batch v1alpha1, Grove v1alpha1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


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
    versions: tuple[str, ...]
    plural: str
    pod_sets: tuple[PodSet, ...]
    short: tuple[str, ...] = ()
    suspended: str = "spec.suspend"
    between: tuple[str, ...] = ()
    is_for_each_node: bool = False
    gang: GangRule | None = None

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
        (version,),
        f"{kind.lower()}s",
        (PodSet(f"{path}.template", (Factor(f"{path}.replicas"),), "*"),),
        suspended="spec.runPolicy.suspend",
        between=between,
    )


_LWS: Final = "spec.leaderWorkerTemplate"

_ALL: Final = (
    KnownWorkload(
        "Deployment", "apps", ("v1",), "deployments", _REPLICATED, ("deploy",), between=("ReplicaSet",)
    ),
    KnownWorkload("ReplicaSet", "apps", ("v1",), "replicasets", _REPLICATED, ("rs",)),
    KnownWorkload(
        "StatefulSet",
        "apps",
        ("v1",),
        "statefulsets",
        _REPLICATED,
        ("sts",),
        gang=GangRule(
            "", "spec.podManagementPolicy", "OrderedReady", "OrderedReady", "apps.kubernetes.io/pod-index"
        ),
    ),
    KnownWorkload("ReplicationController", "", ("v1",), "replicationcontrollers", _REPLICATED, ("rc",)),
    KnownWorkload(
        "DaemonSet",
        "apps",
        ("v1",),
        "daemonsets",
        (PodSet("spec.template", ()),),
        ("ds",),
        is_for_each_node=True,
    ),
    KnownWorkload("Job", "batch", ("v1",), "jobs", (_job("spec"),), gang=GangRule()),
    # Whether it is suspended or not, a Job of it is what there is to know about.
    KnownWorkload(
        "CronJob",
        "batch",
        ("v1",),
        "cronjobs",
        (_job("spec.jobTemplate.spec"),),
        ("cj",),
        suspended="",
        between=("Job",),
    ),
    KnownWorkload(
        "JobSet",
        "jobset.x-k8s.io",
        ("v1alpha2",),
        "jobsets",
        (
            _job(
                "spec.replicatedJobs.*.template.spec",
                Factor("spec.replicatedJobs.*.replicas"),
                role="spec.replicatedJobs.*.name",
            ),
        ),
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
        ("v1",),
        "leaderworkersets",
        (
            PodSet(f"{_LWS}.leaderTemplate", (_REPLICAS,), "leader", instead=f"{_LWS}.workerTemplate"),
            PodSet(f"{_LWS}.workerTemplate", (_REPLICAS, Factor(f"{_LWS}.size", less=1)), "worker"),
        ),
        ("lws",),
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
    KnownWorkload("RayCluster", "ray.io", ("v1", "v1alpha1"), "rayclusters", _ray("spec")),
    KnownWorkload(
        "RayJob",
        "ray.io",
        ("v1", "v1alpha1"),
        "rayjobs",
        _ray("spec.rayClusterSpec"),
        between=("RayCluster",),
    ),
    KnownWorkload(
        "RayService",
        "ray.io",
        ("v1", "v1alpha1"),
        "rayservices",
        _ray("spec.rayClusterConfig"),
        between=("RayCluster",),
    ),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs"),
    _kubeflow("TFJob", "tfReplicaSpecs"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    _kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", ("Job",)),
    KnownWorkload(
        "Job",
        "batch.volcano.sh",
        ("v1alpha1",),
        "jobs",
        (
            PodSet(
                "spec.tasks.*.template", (Factor("spec.tasks.*.replicas", default=0),), "spec.tasks.*.name"
            ),
        ),
        ("vcjob", "vj"),
        suspended="",
    ),
    KnownWorkload(
        "PodClique",
        "grove.io",
        ("v1alpha1",),
        "podcliques",
        (PodSet("spec", (_REPLICAS,), spec="podSpec"),),
        ("pclq",),
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
