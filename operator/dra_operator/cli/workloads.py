"""Workloads: the pods that a Deployment, a Job and the like would have, made in memory.

Few people write bare pods: what stands beside a template is a workload, and what they want to know is whether the
claims of all its pods fit. One with a uid comes from an API server, where its pods are made already: they are among the
manifests, or have been left out. Of a CronJob one Job counts; the pods of a DaemonSet are made once the nodes are known
(`daemons`). What makes pods in a way of its own is left to the note about ignored kinds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.read import ObjectError
from dra_operator.api.text import shown
from dra_operator.cli.manifests import Manifest

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
