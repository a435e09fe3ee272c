"""All nodes, what the pods on them have, and the pods that wait for a node and name claims, gated by us or not.

Of a pod that has a node only its requests and ports are kept, which pods of one workload share; of each node the sums.
What was found out for some requirements is kept, and only nodes that changed since are asked again.
Source: kube-scheduler's cache.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from dra_operator.allocator.extended import CLASS_PREFIX
from dra_operator.api.core import Pod
from dra_operator.api.names import ENDED_PHASES, GANG_ANNOTATION, GATE
from dra_operator.api.read import ObjectError, read_object
from dra_operator.pods.field_reader import FieldReader
from dra_operator.pods.node_fit import (
    BoundVolume,
    NodeFit,
    NodeInfo,
    Obstacle,
    PodRequirements,
    PodUse,
    VolumeClaim,
    read_node_info,
    read_ports,
    read_priority,
    read_volume,
    read_volume_claim,
    read_what_is_right,
)
from dra_operator.pods.resource_requests import read_requests_on_node

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""
_MOST_KEPT: Final = 32
"""So many requirements are kept with their obstacles, each with an entry for every unsuitable node."""
_LEAST_JOURNAL: Final = 1024


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that has no node yet, may be scheduled, and names claims, has our gate, or is of a gang.

    `condition` are status and reason of its condition PodScheduled; `owner` is its controller, by kind, name and uid.
    """

    pod: Pod
    requirements: PodRequirements
    nominated_node: str = ""
    priority: int = 0
    condition: tuple[str, str] | None = None
    owner: tuple[str, str, str] | None = None

    @property
    def is_gated(self) -> bool:
        """Whether our gate keeps it from kube-scheduler."""
        return any(gate.name == GATE for gate in self.pod.spec.scheduling_gates)


@dataclass(slots=True)
class _KnownObstacles:
    """What was found for some requirements: up to a place in the journal of nodes, and for a state of volumes."""

    fit: NodeFit
    volumes_version: int
    position: int
    obstacles: dict[str, Obstacle] = field(default_factory=dict)


class ClusterPods:
    """Takes Pod, Node, PersistentVolume, PersistentVolumeClaim and DeviceClass, bodies as on the wire.

    `version` grows with each change that could alter whether a node suits a pod. `changed` collects the pods whose
    waiting changed, by namespace and name, until the reader clears it. `gated` are those that our gate holds, which are
    not among `waiting`.
    """

    def __init__(self) -> None:
        self.version = 0
        self.waiting: dict[Key, WaitingPod] = {}
        self.gated: dict[Key, WaitingPod] = {}
        self.changed: set[Key] = set()
        self._assumed: dict[Key, str] = {}
        """The nodes that pods will be nominated for by us, and may not be yet."""
        self._gated_uses: dict[Key, tuple[int, PodUse]] = {}
        self._pods: dict[Key, tuple[NodeInfo, PodUse]] = {}
        self._nominated: dict[Key, tuple[str, int, PodUse]] = {}
        self._uses: WeakValueDictionary[tuple[Any, ...], PodUse] = WeakValueDictionary()
        self._nodes: dict[str, NodeInfo] = {}
        self._absent: dict[str, NodeInfo] = {}
        """Nodes that are not there, or not yet, but pods name them."""
        self._namespaces: dict[str, str] = {}
        self._claims: dict[Key, VolumeClaim] = {}
        self._volumes: dict[str, BoundVolume] = {}
        self._volumes_version = 0
        self._are_volumes_known = True
        self._classes: dict[str, str] = {}
        self._from_classes: set[str] = set()
        self._known: dict[PodRequirements, _KnownObstacles] = {}
        self._journal: list[str] = []
        self._journal_start = 0
        self._put: dict[str, Callable[[FieldReader, Mapping[str, Any]], None]] = {
            "Pod": self._put_pod,
            "Node": self._put_node,
            "PersistentVolume": self._put_volume,
            "PersistentVolumeClaim": self._put_claim,
            "DeviceClass": self._put_class,
        }

    def put(self, kind: str, body: Mapping[str, Any]) -> None:
        """Add an object, or replace the one of its name. Raises ObjectError, naming what cannot be read.

        An object that cannot be read counts as absent; a pod counts as one that asks for what could be read.
        """
        reader = FieldReader(kind, body)
        self._put[kind](reader, body)
        if reader.problems:
            if kind != "Pod":
                self.remove(kind, reader.namespace, reader.name)
            raise reader.problems[0]

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object, if it is there."""
        match kind:
            case "Pod":
                key = namespace, name
                self._assumed.pop(key, None)
                self._gated_uses.pop(key, None)
                self._set_use(key, "", None)
                self._set_nominated(key, "", 0, None)
                self._set_waiting(self.waiting, key, None)
                self._set_waiting(self.gated, key, None)
            case "Node":
                self._remove_node(name)
            case "PersistentVolume":
                self._count_volumes(self._volumes.pop(name, None) is not None)
            case "PersistentVolumeClaim":
                self._count_volumes(self._claims.pop((namespace, name), None) is not None)
            case "DeviceClass":
                if self._classes.pop(name, None) is not None:
                    self._set_classes()
            case _:
                raise ValueError(f"pods do not depend on objects of kind {kind}")

    def set_volumes_known(self, *, known: bool) -> None:
        """Say whether all volumes and their claims have come in; until then they keep no pod from a node."""
        self._count_volumes(known is not self._are_volumes_known)
        self._are_volumes_known = known

    def find_obstacle(
        self, requirements: PodRequirements, node: str, pod: Key | None = None
    ) -> Obstacle | None:
        """Return the first reason by kube-scheduler's order why a node does not suit, or None if it does.

        `pod` is the one that is asked about, if it may be nominated itself. Raises KeyError if there is no such node.
        """
        return self.fit(requirements).find_obstacle(self._nodes[node], pod)

    def find_obstacles(self, requirements: PodRequirements) -> Mapping[str, Obstacle]:
        """Return the nodes that do not suit, each with its first reason; the mapping holds until the next change.

        A pod that is nominated for a node counts there against itself: ask `find_obstacle` about that one.
        """
        position = self._journal_start + len(self._journal)
        known = self._known.pop(requirements, None)
        if known is None or not self._is_current(known, requirements):
            known = _KnownObstacles(self.fit(requirements), self._volumes_version, position)
            for node in self._nodes.values():
                if (found := known.fit.find_obstacle(node)) is not None:
                    known.obstacles[node.name] = found
        else:
            for name in set(self._journal[known.position - self._journal_start :]):
                node_info = self._nodes.get(name)
                found = None if node_info is None else known.fit.find_obstacle(node_info)
                if found is None:
                    known.obstacles.pop(name, None)
                else:
                    known.obstacles[name] = found
            known.position = position
        # The one that was asked for last comes last.
        self._known[requirements] = known
        if len(self._known) > _MOST_KEPT:
            del self._known[next(iter(self._known))]
        return known.obstacles

    def find_all_obstacles(self, requirements: PodRequirements, node: str) -> list[Obstacle]:
        """Return all that is in the way on a node, one of each kind. Raises KeyError if there is no such node."""
        return self.fit(requirements).find_all_obstacles(self._nodes[node])

    def find_obstacle_together(
        self, pods: Sequence[tuple[Key, PodRequirements]], node: str
    ) -> Obstacle | None:
        """Return the first reason why a node does not suit all of some pods at once, or None if it does.

        None of them is nominated for it as far as that goes. Raises KeyError if there is no such node.
        """
        info = self._nodes[node]
        keys = {key for key, _ in pods}
        nominated = {key: each for key, each in info.nominated.items() if key not in keys}
        info = replace(info, requested={**info.requested}, ports={**info.ports}, nominated=nominated)
        fits: dict[PodRequirements, NodeFit] = {}
        for _, requirements in pods:
            fit = fits.get(requirements) or fits.setdefault(requirements, self.fit(requirements))
            if (found := fit.find_obstacle(info)) is not None:
                return found
            info.add(PodUse(requirements.requests, requirements.ports), 1)
        return None

    def find_admitted(self, requirements: PodRequirements) -> list[str] | None:
        """Return the nodes that nodeName, nodeSelector and affinity of a pod admit; None if it has none of these."""
        name, selector, affinity = requirements.node_name, requirements.node_selector, requirements.affinity
        if not name and not selector and affinity is None:
            return None
        fit = NodeFit(PodRequirements(name, selector, affinity))
        conditions = ("nodeName", "nodeSelector", "affinity")
        return [
            node.name
            for node in self._nodes.values()
            if not any(each.condition in conditions for each in fit.find_all_obstacles(node))
        ]

    def find_obstacles_without(self, requirements: PodRequirements, condition: str) -> Mapping[str, Obstacle]:
        """Return the nodes that do not suit although one condition is ignored, each with its first other reason."""
        fit = self.fit(requirements)
        found = {name: fit.find_obstacle_without(node, condition) for name, node in self._nodes.items()}
        return {name: obstacle for name, obstacle in found.items() if obstacle is not None}

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """The nodes by name, with the sums of what their pods request."""
        return self._nodes

    def assume(self, key: Key, node: str) -> None:
        """Count a gated pod on a node that it will be nominated for, until that is withdrawn or it has a node."""
        self._assumed[key] = node
        if key in self._gated_uses:
            self._set_nominated(key, node, *self._gated_uses[key])

    def withdraw(self, key: Key) -> None:
        """Count a pod no more on a node that it was assumed for, unless it is nominated for it."""
        if self._assumed.pop(key, None) is None or key not in self._gated_uses:
            return
        found = self.gated.get(key) or self.waiting.get(key)
        node = "" if found is None else found.nominated_node
        priority, use = self._gated_uses[key]
        self._set_nominated(key, node, priority, use if node else None)

    # --- pods

    def add_use(self, node: str, use: PodUse, number: int) -> None:
        """Let so many pods of which only the use is known be on a node, or take them away if it is negative."""
        self._add_use(self._info(node), use, number)

    def _info(self, node: str) -> NodeInfo:
        """Return a node, or what stands for one that is not there."""
        info = self._nodes.get(node)
        return self._absent.setdefault(node, NodeInfo(node)) if info is None else info

    def _put_pod(self, reader: FieldReader, body: Mapping[str, Any]) -> None:
        namespace = self._namespaces.setdefault(reader.namespace, reader.namespace)
        key = namespace, reader.name
        spec, status = reader.part(body, "spec", ""), reader.part(body, "status", "")
        is_over = reader.text(status, "phase", "status") in ENDED_PHASES
        node = "" if is_over else reader.text(spec, "nodeName", "spec")
        nominated = "" if is_over or node else reader.text(status, "nominatedNodeName", "status")
        gates = {item.get("name") for _, item in reader.parts(spec, "schedulingGates", "spec")}
        metadata = reader.part(body, "metadata", "")
        is_waiting = (
            not (node or is_over)
            and (
                bool(spec.get("resourceClaims") or status.get("extendedResourceClaimStatus"))
                or GATE in gates
                or _is_in_gang(metadata, spec)
            )
            and not metadata.get("deletionTimestamp")
        )
        is_gated = is_waiting and GATE in gates
        if not is_waiting:
            self._assumed.pop(key, None)
        nominated = nominated or self._assumed.get(key, "")
        priority = read_priority(reader, spec)
        use = self._read_use(reader, body) if node or nominated or is_gated else None
        if is_gated and use is not None:
            self._gated_uses[key] = priority, use
        elif key not in self._assumed:
            self._gated_uses.pop(key, None)
        self._set_use(key, node, use if node else None)
        self._set_nominated(key, nominated, priority, use if nominated else None)
        found = _read_waiting(reader, body) if is_gated or (is_waiting and not gates) else None
        self._set_waiting(self.waiting, key, None if is_gated else found)
        self._set_waiting(self.gated, key, found if is_gated else None)

    def read_use(self, body: Mapping[str, Any]) -> PodUse:
        """Return what a pod has of a node. Raises ObjectError."""
        reader = FieldReader("Pod", body)
        use = self._read_use(reader, body)
        if reader.problems:
            raise reader.problems[0]
        return use

    def _read_use(self, reader: FieldReader, body: Mapping[str, Any]) -> PodUse:
        parts = read_requests_on_node(reader, body), read_ports(reader, reader.part(body, "spec", ""))
        use = self._uses.get(parts)
        if use is None:
            use = self._uses[parts] = PodUse(*parts)
        return use

    def _set_nominated(self, key: Key, node: str, priority: int, use: PodUse | None) -> None:
        old = self._nominated.pop(key, None)
        if old is not None and (info := self._nodes.get(old[0])) is not None:
            del info.nominated[key]
            self._count_node(old[0])
        if use is not None:
            self._nominated[key] = node, priority, use
            if (info := self._nodes.get(node)) is not None:
                info.nominated[key] = priority, use
                self._count_node(node)

    def _set_use(self, key: Key, node: str, use: PodUse | None) -> None:
        old = self._pods.get(key)
        if old is not None:
            if old[1] is use and old[0].name == node:
                return
            del self._pods[key]
            self._add_use(*old, -1)
        if use is not None:
            info = self._info(node)
            self._pods[key] = info, use
            self._add_use(info, use, 1)

    def _add_use(self, node: NodeInfo, use: PodUse, sign: int) -> None:
        """Add what a pod has to the sums of its node, or take it away."""
        node.add(use, sign)
        if node.name in self._nodes:
            self._count_node(node.name)
        elif not node.pods:
            self._absent.pop(node.name, None)

    def _set_waiting(self, table: dict[Key, WaitingPod], key: Key, waiting: WaitingPod | None) -> None:
        old = table.get(key)
        if waiting is None:
            if old is not None:
                del table[key]
                self.changed.add(key)
            return
        table[key] = waiting
        if old is None or not _is_same(old, waiting):
            self.changed.add(key)

    # --- nodes

    def _put_node(self, reader: FieldReader, body: Mapping[str, Any]) -> None:
        name = reader.name
        info = self._nodes.get(name)
        is_new = info is None
        if info is None:
            info = self._nodes[name] = self._absent.pop(name, NodeInfo(name))
            for key, (node, priority, use) in self._nominated.items():
                if node == name:
                    info.nominated[key] = priority, use
        if read_node_info(reader, body, info) or is_new:
            self._count_node(name)

    def _remove_node(self, name: str) -> None:
        info = self._nodes.pop(name, None)
        if info is None:
            return
        if info.pods:
            self._absent[name] = info
            info.labels, info.taints, info.allocatable, info.features = {}, (), {}, frozenset()
            info.is_unschedulable = False
            info.nominated = {}
        self._count_node(name)

    def _count_node(self, name: str) -> None:
        """Record that a node changed."""
        self.version += 1
        if self._known:
            self._journal.append(name)
            if len(self._journal) > max(_LEAST_JOURNAL, 2 * len(self._nodes)):
                self._journal_start += len(self._journal)
                self._journal.clear()

    # --- volumes and classes

    def _put_volume(self, reader: FieldReader, body: Mapping[str, Any]) -> None:
        found = read_volume(reader, body)
        self._count_volumes(self._volumes.get(reader.name) != found)
        self._volumes[reader.name] = found

    def _put_claim(self, reader: FieldReader, body: Mapping[str, Any]) -> None:
        found = read_volume_claim(reader, body)
        key = self._namespaces.setdefault(reader.namespace, reader.namespace), reader.name
        self._count_volumes(self._claims.get(key) != found)
        self._claims[key] = found

    def _count_volumes(self, is_changed: bool) -> None:  # noqa: FBT001
        self.version += is_changed
        self._volumes_version += is_changed

    def _put_class(self, reader: FieldReader, body: Mapping[str, Any]) -> None:
        served = reader.text(reader.part(body, "spec", ""), "extendedResourceName", "spec")
        if self._classes.get(reader.name) != served:
            self._classes[reader.name] = served
            self._set_classes()

    def _set_classes(self) -> None:
        self._from_classes = {CLASS_PREFIX + name for name in self._classes}
        self._from_classes.update(filter(None, self._classes.values()))
        self._known.clear()
        self.version += 1

    # --- obstacles

    def _is_current(self, known: _KnownObstacles, requirements: PodRequirements) -> bool:
        """True if only nodes changed since, and the journal says which."""
        if requirements.volume_claims and known.volumes_version != self._volumes_version:
            return False
        return known.position >= self._journal_start

    def fit(self, requirements: PodRequirements) -> NodeFit:
        """Return the filters that some requirements need; they hold until volumes or classes change."""
        return NodeFit(requirements, self._find_volumes(requirements), self._from_classes)

    def _find_volumes(self, requirements: PodRequirements) -> tuple[BoundVolume, ...] | Obstacle:
        """Return the volumes that claims are bound to, or why there is no node for a pod with these claims."""
        found: list[BoundVolume] = []
        for item in requirements.volume_claims if self._are_volumes_known else ():
            claim = self._claims.get((item.namespace, item.name))
            problem = "is not there" if claim is None else claim.find_problem(item.owner)
            if problem is None and claim is not None and claim.is_bound:
                volume = self._volumes.get(claim.volume)
                if volume is not None:
                    found.append(volume)
                    continue
                problem = f"is bound to the volume {claim.volume}, which is not there"
            if problem is not None:
                return Obstacle("volume", f"(claim {item.name} {problem})")
        return tuple(found)


def _is_in_gang(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """True if a pod waits with others, which may be for claims."""
    return bool(spec.get("schedulingGroup")) or GANG_ANNOTATION in (metadata.get("annotations") or {})


def _read_waiting(reader: FieldReader, body: Mapping[str, Any]) -> WaitingPod | None:
    requirements = read_what_is_right(reader, body)
    try:
        pod: Pod = read_object(body, "Pod")
    except ObjectError as error:
        reader.problems.append(error)
        return None
    scheduled = next((item for item in pod.status.conditions if item.type == "PodScheduled"), None)
    owner = next((item for item in pod.metadata.owner_references if item.controller), None)
    return WaitingPod(
        pod,
        requirements,
        pod.status.nominated_node_name,
        pod.spec.priority or 0,
        None if scheduled is None else (scheduled.status, scheduled.reason),
        None if owner is None else (owner.kind, owner.name, owner.uid),
    )


def _is_same(old: WaitingPod, new: WaitingPod) -> bool:
    """True if two states of a pod differ in nothing but what each write to it changes."""
    return (
        old.pod.metadata.uid == new.pod.metadata.uid
        and old.requirements is new.requirements
        and old.pod.spec == new.pod.spec
        and old.pod.status == new.pod.status
        and old.owner == new.owner
    )
