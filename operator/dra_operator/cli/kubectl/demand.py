"""Demands: what a question has to read of a cluster."""

from dataclasses import dataclass
from typing import Self


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

    @classmethod
    def for_decisions(cls, *required: str, engine: str) -> Self:
        """Return what decisions about a claim, or a pod's, depend on."""
        return cls(
            cluster=(
                *(
                    "Pod",
                    "ResourceSlice",
                    "ResourceClaim",
                    "Node",
                    "DeviceClass",
                    "DeviceTaintRule",
                    "Namespace",
                ),
                *("PersistentVolume", "PersistentVolumeClaim"),
            ),
            namespaced=("ResourceClaimTemplate", "PodGroup"),
            required=required,
            engine=engine,
        )
