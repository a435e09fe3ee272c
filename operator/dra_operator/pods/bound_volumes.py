"""Bound volumes: the nodes from which the volume of a claim can be reached, by its node affinity and its zone.

A volume that is not bound yet, because it is bound when its pod is placed, keeps a pod from no node here.
Source: kube-scheduler's VolumeBinding and VolumeZone, 1.37.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from dra_operator.api.core import NodeSelector
from dra_operator.api.names import BETA_CLASS_ANNOTATION, BIND_COMPLETED_ANNOTATION
from dra_operator.api.node_selector import ParsedNodeSelector, describe, parse_terms
from dra_operator.api.read import PartError, read_part
from dra_operator.pods.field_reader import FieldReader

_BETA: Final = "failure-domain.beta.kubernetes.io/"
_STABLE: Final = "topology.kubernetes.io/"
_TOPOLOGY_LABELS: Final = tuple(
    f"{prefix}{name}" for prefix in (_BETA, _STABLE) for name in ("zone", "region")
)
_DELIMITER: Final = "__"


@dataclass(frozen=True, slots=True)
class BoundVolume:
    """A PersistentVolume: its node affinity, and the zones and regions that its labels name."""

    name: str
    affinity: NodeSelector | None = None
    topology: tuple[tuple[str, frozenset[str]], ...] = ()

    def find_conflict(self, labels: Mapping[str, str]) -> str | None:
        """Return what keeps the volume from a node with these labels, or None."""
        if self.affinity is not None and not any(
            term.matches("", labels) for term in _terms_of_volume(self.affinity)
        ):
            return f"{self.name} ({describe(self.affinity) or 'no term'})"
        if self.topology and any(label in labels for label in _TOPOLOGY_LABELS):
            for key, values in self.topology:
                value = labels.get(key, labels.get(key.replace(_BETA, _STABLE)))
                if value not in values:
                    return f"{self.name} ({key.rpartition('/')[2]} {', '.join(sorted(values))})"
        return None


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim: the volume it names, and how far it is.

    `owner` is the uid of its controller. Without `has_class` it cannot wait for a pod to be placed.
    """

    volume: str = ""
    is_bound: bool = False
    is_lost: bool = False
    is_ending: bool = False
    has_class: bool = False
    owner: str = ""

    def find_problem(self, owner: str) -> str | None:
        """Return why no node suits a pod with this claim; `owner` is the uid of the pod it must be made for, or ""."""
        if self.is_lost:
            return f"is bound to the volume {self.volume}, which is lost"
        if self.is_ending:
            return "is being deleted"
        if owner and owner != self.owner:
            return "is not made for this pod"
        if not self.is_bound and (self.volume or not self.has_class):
            return "is not bound"
        return None


def read_volume(reader: FieldReader, body: Mapping[str, Any]) -> BoundVolume:
    """Return what counts of a PersistentVolume, without what cannot be read."""
    labels = reader.texts(reader.part(body, "metadata", ""), "labels", "metadata")
    affinity = reader.part(reader.part(body, "spec", ""), "nodeAffinity", "spec").get("required")
    found = BoundVolume(reader.name, None, _topology(labels))
    if affinity is None:
        return found
    try:
        return replace(found, affinity=read_part(NodeSelector, affinity))
    except PartError as error:
        path = "spec.nodeAffinity.required"
        reader.reject(f"{path}.{error.path}" if error.path else path, error.value, error.message)
        return found


def _topology(labels: Mapping[str, str]) -> tuple[tuple[str, frozenset[str]], ...]:
    found: list[tuple[str, frozenset[str]]] = []
    for key in _TOPOLOGY_LABELS:
        if key in labels:
            values = frozenset(item.strip() for item in labels[key].split(_DELIMITER))
            # An empty part makes the whole label count for nothing.
            if "" not in values:
                found.append((key, values))
    return tuple(found)


def read_volume_claim(reader: FieldReader, body: Mapping[str, Any]) -> VolumeClaim:
    """Return what counts of a PersistentVolumeClaim, without what cannot be read."""
    metadata, spec = reader.part(body, "metadata", ""), reader.part(body, "spec", "")
    annotations = reader.texts(metadata, "annotations", "metadata")
    volume = reader.text(spec, "volumeName", "spec")
    owners = [
        reader.text(item, "uid", path)
        for path, item in reader.parts(metadata, "ownerReferences", "metadata")
        if item.get("controller") is True
    ]
    return VolumeClaim(
        volume,
        is_bound=bool(volume) and BIND_COMPLETED_ANNOTATION in annotations,
        is_lost=reader.part(body, "status", "").get("phase") == "Lost",
        is_ending=metadata.get("deletionTimestamp") is not None,
        has_class=bool(
            annotations.get(BETA_CLASS_ANNOTATION) or reader.text(spec, "storageClassName", "spec")
        ),
        owner=owners[0] if owners else "",
    )


@lru_cache(maxsize=1024)
def _terms_of_volume(affinity: NodeSelector) -> tuple[ParsedNodeSelector, ...]:
    """Return the terms without fields of nodes: kube-scheduler asks volumes about labels only."""
    return tuple(
        ParsedNodeSelector(tuple((expressions, ()) for expressions, _ in parsed.terms))
        for parsed in parse_terms(affinity)
    )
