"""Writes to pods that our scheduling gate holds, or held: the gate off, the node nominated. All else is not ours.

Each is one merge-patch with uid and resourceVersion of the pod that was decided on, so the gates that it leaves are
those that the pod has. They are delivered as writes to claims are (`writes`, `delivery`), by a `writer.Writer` for
pods: with slots of its own, so that the pod that is ready never waits behind the allocations of others.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from dra_operator.api.names import GATE, LET_GO_ANNOTATION


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


@dataclass(frozen=True, slots=True)
class NoGate:
    """The patch that takes our gate off. `others` are the gates that stay, `mark` is the annotation or empty."""

    others: tuple[str, ...]
    mark: str
    subresource: ClassVar[str] = ""
    place: ClassVar[str] = "spec.schedulingGates"

    def patch(self) -> dict[str, Any]:
        """Return the merge-patch, without its preconditions. A merge-patch replaces a list as a whole."""
        patch: dict[str, Any] = {"spec": {"schedulingGates": [{"name": name} for name in self.others]}}
        if self.mark:
            patch["metadata"] = {"annotations": {LET_GO_ANNOTATION: self.mark}}
        return patch

    def holds(self, body: dict[str, Any]) -> bool:
        """Return whether a pod is without our gate."""
        return GATE not in gates_of(body)


@dataclass(frozen=True, slots=True)
class Nomination:
    """The patch that nominates a pod to a node, or to none."""

    node: str | None
    subresource: ClassVar[str] = "status"
    place: ClassVar[str] = "status.nominatedNodeName"

    def patch(self) -> dict[str, Any]:
        """Return the merge-patch, without its preconditions."""
        return {"status": {"nominatedNodeName": self.node}}

    def holds(self, body: dict[str, Any]) -> bool:
        """Return whether a pod is nominated so."""
        return nominated_node(body) == self.node


def steps_for_pod(write: PodWrite) -> tuple[NoGate | Nomination, ...]:
    """Return the patch of a write to a pod; none if there is nothing to change."""
    match write:
        case GateWrite():
            others = tuple([name for name in write.gates if name != GATE])
            return (NoGate(others, write.mark),) if GATE in write.gates else ()
        case NominateWrite():
            node = write.node or None
            return () if node == (write.current or None) else (Nomination(node),)


def gates_of(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the scheduling gates of a pod as on the wire, by name."""
    return tuple([gate["name"] for gate in (body.get("spec") or {}).get("schedulingGates") or ()])


def nominated_node(body: dict[str, Any]) -> str | None:
    """Return the node that a pod as on the wire is nominated to."""
    return (body.get("status") or {}).get("nominatedNodeName") or None
