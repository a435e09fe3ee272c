"""Demands: what a question has to read of a cluster."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Self

from dra_operator.questions.partial import KindsRead


@dataclass(frozen=True, slots=True)
class Demand:
    """What a question has to read: kinds of the whole cluster, and kinds of the namespace that is asked about alone.

    Without those `required` there is no answer; without the others there is one with a restriction. `engine` is the
    module that answers, which is imported while the server does its part.
    """

    cluster: tuple[str, ...] = ()
    namespaced: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    engine: str = "dra_operator.questions.state"

    @property
    def kinds(self) -> AbstractSet[str]:
        """The kinds that are read."""
        return {*self.cluster, *self.namespaced}

    @classmethod
    def for_question(cls, *questions: KindsRead, required: tuple[str, ...], engine: str) -> Self:
        """Return what the answers to some questions depend on."""
        cluster = dict.fromkeys(kind for each in questions for kind in each.kinds)
        named = dict.fromkeys(kind for each in questions for kind in each.named)
        return cls(
            tuple(sorted(cluster, key=_LARGEST_FIRST.index)),
            tuple([kind for kind in named if kind not in cluster]),
            required,
            engine,
        )


_LARGEST_FIRST = (
    *("Pod", "ResourceSlice", "ResourceClaim", "Node", "DeviceClass", "DeviceTaintRule", "Namespace"),
    *("PersistentVolume", "PersistentVolumeClaim", "ResourceClaimTemplate", "PodGroup", "Lease"),
)
"""The kinds, those first that take longest to read."""
