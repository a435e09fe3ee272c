"""Workloads: the pods that a Deployment, a Job and the like would have, made in memory.

Few people write bare pods: what stands beside a template is a workload, and what they want to know is whether the
claims of all its pods fit. One with a uid comes from an API server, where its pods are made already: they are among the
manifests, or have been left out. A DaemonSet has a pod on each node, whose claims are decided for that node; here no
claim is, and it is left to the note about ignored kinds, as is what makes its pods later or in a way of its own.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.api.read import ObjectError
from dra_operator.api.shortened import shown
from dra_operator.cli.manifests import Manifest

_REPLICATED = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps"}
_GROUPS = {**_REPLICATED, "Job": "batch"}
_MOST_PODS = 10_000


def pods_of(manifest: Manifest) -> list[Manifest] | None:
    """Return the pods that a workload has at a time, or None if it is none, or one whose pods exist.

    They are named as those of a StatefulSet, since the ends of other names are random. Raises ObjectError.
    """
    body = manifest.body
    kind, version = body.get("kind"), str(body.get("apiVersion"))
    if not isinstance(kind, str) or version.rpartition("/")[0] != _GROUPS.get(kind):
        return None
    metadata, spec = _mapping(body, "metadata"), _mapping(body, "spec")
    template = _mapping(spec, "template")
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    if not name or metadata.get("uid") or not _mapping(template, "spec"):
        return None
    namespace = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
    own = {
        key: value
        for key, value in _mapping(template, "metadata").items()
        if key in ("labels", "annotations")
    }
    return [
        Manifest(
            manifest.place,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**own, **namespace, "name": f"{name}-{number}"},
                "spec": template["spec"],
            },
        )
        for number in range(_at_a_time(kind, metadata, spec))
    ]


def _at_a_time(kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    """Return how many pods a workload has at a time. Raises ObjectError."""

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
            place = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
            raise ObjectError(kind, *place, f"spec.{field}", value=value, message=problem)
        return int(value)

    if kind in _REPLICATED:
        return count("replicas", 1)
    if spec.get("suspend") is True:
        return 0
    parallel = count("parallelism", 1)
    return min(parallel, count("completions", parallel))


def _mapping(owner: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = owner.get(field)
    return value if isinstance(value, Mapping) else {}
