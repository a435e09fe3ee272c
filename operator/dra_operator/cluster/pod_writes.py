"""Writes to pods that our scheduling gate holds, or held: the gate off, the node nominated. All else is not ours.

Each is one merge-patch with uid and resourceVersion of the pod that was decided on, so the gates that it leaves are
those that the pod has. They are delivered as writes to claims are (`writes`, `delivery`), by a `writer.Writer` for
pods: with slots of its own, so that the pod that is ready never waits behind the allocations of others.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from dra_operator.api.names import GATE, LET_GO_ANNOTATION
from dra_operator.cluster.patches import Patch


@dataclass(frozen=True, slots=True)
class ConditionalWrite:
    """What each write names: the version of the object that it was decided on."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class GateWrite(ConditionalWrite):
    """Take our gate off a pod, which hands it over to kube-scheduler. `gates` are all that the pod has.

    Nothing is sent for a pod without our gate. Gates of others stay. `mark` is the annotation by which it is known
    later that the pod was decided; empty for one that was not.
    """

    kind: ClassVar[str] = "gate"
    resource: ClassVar[str] = "pods"
    gates: tuple[str, ...]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class NominateWrite(ConditionalWrite):
    """Set `status.nominatedNodeName` of a pod, or clear it (`node` None). `current` is what it is now.

    Nothing is sent where that is so already.
    """

    kind: ClassVar[str] = "nominate"
    resource: ClassVar[str] = "pods"
    current: str | None
    node: str | None


PodWrite: TypeAlias = GateWrite | NominateWrite


def steps_for_pod(write: PodWrite) -> tuple[Patch, ...]:
    """Return the patch of a write to a pod; none if there is nothing to change."""
    match write:
        case GateWrite():
            gates = [{"name": name} for name in write.gates if name != GATE]
            marked = {"metadata": {"annotations": {LET_GO_ANNOTATION: write.mark}}} if write.mark else {}
            patch = Patch("spec.schedulingGates", {"spec": {"schedulingGates": gates}, **marked})
            return (patch,) if GATE in write.gates else ()
        case NominateWrite():
            node = write.node or None
            patch = Patch("status.nominatedNodeName", {"status": {"nominatedNodeName": node}})
            return () if node == (write.current or None) else (patch,)
