"""Whether a node suits a pod: kube-scheduler's filters, in their order, for all but devices.

Left out: affinity to other pods, topology spread, volumes that bind late, limits of attached volumes, preemption.
Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins, 1.37, with the default plugins and feature gates.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from dra_operator.api.core import NodeSelector
from dra_operator.api.names import BETA_CLASS_ANNOTATION, BIND_COMPLETED_ANNOTATION
from dra_operator.api.node_selector import ParsedNodeSelector, describe, named_nodes, parse_terms
from dra_operator.api.quantity import NANO, Family, format_amount
from dra_operator.api.read import PartError, read_part
from dra_operator.inventory.taints import EffectiveTaint, EffectiveTaints, Toleration, taint_text, tolerates
from dra_operator.pods.field_reader import FieldReader
from dra_operator.pods.resource_requests import Requests, read_allocatable, read_requests

# --- Bound volumes: the nodes from which the volume of a claim can be reached, by its node affinity and its zone.
# A volume that is not bound yet, because it is bound when its pod is placed, keeps a pod from no node here. Source:
# kube-scheduler's VolumeBinding and VolumeZone, 1.37.


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
    required = reader.part(reader.part(body, "spec", ""), "nodeAffinity", "spec").get("required")
    affinity = _read_selector(reader, required, "spec.nodeAffinity.required")
    return BoundVolume(reader.name, affinity, _topology(labels))


def _read_selector(reader: FieldReader, wire: Any, path: str) -> NodeSelector | None:
    try:
        return None if wire is None else read_part(NodeSelector, wire)
    except PartError as error:
        reader.reject(f"{path}.{error.path}" if error.path else path, error.value, error.message)
        return None


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


# --- All that a node must have.


_EVICTING: Final = ("NoSchedule", "NoExecute")
_PLENTY: Final = 2**128
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - this is what a port without an address means
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


_UNSCHEDULABLE: Final = EffectiveTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class HostPort(NamedTuple):
    """A port of the node that a pod uses."""

    address: str
    protocol: str
    port: int

    def __str__(self) -> str:
        address = "" if self.address == _ANY_ADDRESS else f"{self.address}:"
        return f"{address}{self.port}/{self.protocol}"

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether two pods with these ports cannot be on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


class VolumeClaimName(NamedTuple):
    """A PersistentVolumeClaim that a pod uses; `owner` is the pod's uid if it must be made for this pod."""

    namespace: str
    name: str
    owner: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodRequirements:
    """What a pod asks of a node. Pods of one workload share one object, as `read_requirements` interns them.

    `requests` are those of containers, init containers and the pod, without zeros, in the order in which they are
    compared: cpu in thousandths, others whole. By `priority` it counts which pods that are nominated for a node come
    first.
    """

    node_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    requests: Requests = ()
    ports: tuple[HostPort, ...] = ()
    volume_claims: tuple[VolumeClaimName, ...] = ()
    features: tuple[str, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodUse:
    """What a pod has of its node, or will have."""

    requests: Requests
    ports: tuple[HostPort, ...]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a node does not suit a pod.

    `condition` is one of nodeName, unschedulable, nodeSelector, affinity, taint, ports, pods, volume, features, or the
    name of a resource, such as cpu. `str` of it is what people read.
    """

    condition: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.condition} {self.detail}" if self.detail else self.condition


@dataclass(slots=True)
class NodeInfo:
    """A node, and what pods on it have; kube-scheduler's `NodeInfo`.

    `taints` are those that keep pods away. `allocatable` and `requested` are by resource, in the units of
    `PodRequirements.requests`; `ports` counts the pods that use each. `nominated` are pods that are to be there, by
    namespace and name, with their priority.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    is_unschedulable: bool = False
    taints: EffectiveTaints = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    pods: int = 0
    requested: dict[str, int] = field(default_factory=dict)
    ports: dict[HostPort, int] = field(default_factory=dict)
    nominated: dict[tuple[str, str], tuple[int, PodUse]] = field(default_factory=dict)

    def add(self, use: PodUse, sign: int) -> None:
        """Add what a pod has to the sums, or take it away if `sign` is -1."""
        self.pods += sign
        for name, amount in use.requests:
            total = self.requested.get(name, 0) + sign * amount
            if total:
                self.requested[name] = total
            else:
                del self.requested[name]
        for port in use.ports:
            count = self.ports.get(port, 0) + sign
            if count:
                self.ports[port] = count
            else:
                del self.ports[port]

    def with_nominated(self, priority: int, pod: tuple[str, str] | None) -> "NodeInfo":
        """Return the node as if the pods were there that are nominated for it and do not yield to this priority.

        `pod` is not counted: it is the one that is asked about.
        """
        if not self.nominated:
            return self
        found = replace(self, requested={**self.requested}, ports={**self.ports})
        for key, (its_priority, use) in self.nominated.items():
            if its_priority >= priority and key != pod:
                found.add(use, 1)
        return found


# --- reading

_interned: WeakValueDictionary[tuple[Any, ...], PodRequirements] = WeakValueDictionary()


def read_requirements(body: Mapping[str, Any]) -> PodRequirements:
    """Return what a pod, `body` as on the wire, asks of a node. Raises ObjectError for what cannot be read."""
    reader = FieldReader("Pod", body)
    found = read_what_is_right(reader, body)
    if reader.problems:
        raise reader.problems[0]
    return found


def read_what_is_right(reader: FieldReader, body: Mapping[str, Any]) -> PodRequirements:
    """Return what a pod asks of a node, without what cannot be read, which the reader reports."""
    spec = reader.part(body, "spec", "")
    parts = (
        reader.text(spec, "nodeName", "spec"),
        tuple(sorted(reader.texts(spec, "nodeSelector", "spec").items())),
        _affinity(reader, spec),
        _tolerations(reader, spec),
        read_requests(reader, body),
        read_ports(reader, spec),
        _volume_claims(reader, body),
        _features(reader, spec),
        read_priority(reader, spec),
    )
    found = _interned.get(parts)
    if found is None:
        found = _interned[parts] = PodRequirements(*parts)
    return found


def read_priority(reader: FieldReader, spec: Mapping[str, Any]) -> int:
    """Return the priority of a pod; 0 if nothing is said."""
    return reader.whole(spec, "priority", "spec") or 0


def _affinity(reader: FieldReader, spec: Mapping[str, Any]) -> NodeSelector | None:
    affinity = reader.part(spec, "affinity", "spec")
    required = reader.part(affinity, "nodeAffinity", "spec.affinity").get(_REQUIRED)
    return _read_selector(reader, required, f"spec.affinity.nodeAffinity.{_REQUIRED}")


def _tolerations(reader: FieldReader, spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    found = [
        Toleration(
            reader.text(item, "key", path),
            reader.text(item, "operator", path),
            reader.text(item, "value", path),
            reader.text(item, "effect", path),
        )
        for path, item in reader.parts(spec, "tolerations", "spec")
    ]
    # Those for PreferNoSchedule keep no node away.
    return tuple(sorted({item for item in found if item.effect in ("", *_EVICTING)}))


def read_ports(reader: FieldReader, spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Return the ports of the node that a pod uses, those of init containers that end aside."""
    found: set[HostPort] = set()
    for containers in ("containers", "initContainers"):
        for path, container in reader.parts(spec, containers, "spec"):
            if not container.get("ports"):
                continue
            if containers == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for path_of_port, item in reader.parts(container, "ports", path):
                port = reader.whole(item, "hostPort", path_of_port)
                if not port and spec.get("hostNetwork") is True:
                    port = reader.whole(item, "containerPort", path_of_port)
                if port and port > 0:
                    address = reader.text(item, "hostIP", path_of_port) or _ANY_ADDRESS
                    protocol = reader.text(item, "protocol", path_of_port) or "TCP"
                    found.add(HostPort(address, protocol, port))
    return tuple(sorted(found)) if found else ()


def _volume_claims(reader: FieldReader, body: Mapping[str, Any]) -> tuple[VolumeClaimName, ...]:
    found: list[VolumeClaimName] = []
    for path, volume in reader.parts(reader.part(body, "spec", ""), "volumes", "spec"):
        if volume.get("persistentVolumeClaim") is not None:
            source = reader.part(volume, "persistentVolumeClaim", path)
            name = reader.text(source, "claimName", f"{path}.persistentVolumeClaim")
            found.append(VolumeClaimName(reader.namespace, name))
        elif volume.get("ephemeral") is not None:
            uid = reader.text(reader.part(body, "metadata", ""), "uid", "metadata")
            # Named by the controller for ephemeral volumes.
            name = f"{reader.name}-{reader.text(volume, 'name', path)}"
            found.append(VolumeClaimName(reader.namespace, name, uid))
    return tuple(dict.fromkeys(found))


def _features(reader: FieldReader, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the features that a node must declare. Source: k8s.io/component-helpers/nodedeclaredfeatures."""
    found: set[str] = set()
    if spec.get("hostNetwork") is True and reader.flag(spec, "hostUsers", "spec") is False:
        found.add("UserNamespacesHostNetworkSupport")
    for containers in ("containers", "initContainers", "ephemeralContainers"):
        for path, container in reader.parts(spec, containers, "spec"):
            if container.get("volumeMounts") and any(
                mount.get("bindMountOptions") for _, mount in reader.parts(container, "volumeMounts", path)
            ):
                found.add("VolumeBindMountOptions")
            if container.get("restartPolicyRules") and any(
                rule.get("action") == "RestartAllContainers"
                for _, rule in reader.parts(container, "restartPolicyRules", path)
            ):
                found.add("RestartAllContainersOnContainerExits")
    return tuple(sorted(found))


def read_whole_node(body: Mapping[str, Any]) -> NodeInfo:
    """Return a node without pods, `body` as on the wire. Raises ObjectError for what cannot be read."""
    reader = FieldReader("Node", body)
    found = NodeInfo(reader.name)
    read_node_info(reader, body, found)
    if reader.problems:
        raise reader.problems[0]
    return found


def read_node_info(reader: FieldReader, body: Mapping[str, Any], into: NodeInfo) -> bool:
    """Enter in a node what `body`, a Node as on the wire, says of it; return whether that changed anything."""
    spec, status = reader.part(body, "spec", ""), reader.part(body, "status", "")
    taints = tuple(
        EffectiveTaint(reader.text(item, "key", path), reader.text(item, "value", path), item["effect"])
        for path, item in reader.parts(spec, "taints", "spec")
        if item.get("effect") in _EVICTING
    )
    found = replace(
        into,
        labels=reader.texts(reader.part(body, "metadata", ""), "labels", "metadata"),
        is_unschedulable=spec.get("unschedulable") is True,
        taints=taints,
        allocatable=read_allocatable(reader, status),
        features=frozenset(reader.items(status, "declaredFeatures", "status")),
    )
    if found == into:
        return False
    into.labels, into.taints, into.is_unschedulable = found.labels, found.taints, found.is_unschedulable
    into.allocatable, into.features = found.allocatable, found.features
    return True


# --- filters

_Filter: TypeAlias = Callable[[NodeInfo], Obstacle | None]


class NodeFit:
    """The filters that some requirements need, made once for many nodes.

    `volumes` are those that the volume claims are bound to, or what keeps the pod from all nodes. Resources in
    `from_classes` are served by DeviceClasses on nodes that have none of them: whether there are enough is for devices
    to say. That set may change, `volumes` not.
    """

    __slots__ = ("_filters", "_from_classes", "_requirements", "_tolerated", "_volumes")

    def __init__(
        self,
        requirements: PodRequirements,
        volumes: Sequence[BoundVolume] | Obstacle = (),
        from_classes: AbstractSet[str] = frozenset(),
    ) -> None:
        self._requirements = requirements
        self._from_classes = from_classes
        self._volumes = volumes
        self._tolerated: dict[EffectiveTaints, Obstacle | None] = {(): None}
        self._filters = tuple(self._make_filters())

    def find_obstacle(self, node: NodeInfo, pod: tuple[str, str] | None = None) -> Obstacle | None:
        """Return the first obstacle on a node, or None if it suits.

        `pod` is the one that is asked about, by namespace and name, if it may be nominated for the node itself.
        """
        node = node.with_nominated(self._requirements.priority, pod)
        for node_filter in self._filters:
            if (found := node_filter(node)) is not None:
                return found
        return None

    def find_all_obstacles(self, node: NodeInfo) -> list[Obstacle]:
        """Return the first obstacle of each filter on a node."""
        node = node.with_nominated(self._requirements.priority, None)
        return [found for node_filter in self._filters if (found := node_filter(node)) is not None]

    def find_obstacle_without(self, node: NodeInfo, condition: str) -> Obstacle | None:
        """Return the first obstacle on a node that is of another condition."""
        node = node.with_nominated(self._requirements.priority, None)
        for node_filter in self._filters:
            found = node_filter(node)
            if found is not None and found.condition == condition:
                # Of resources there may be another one that is short.
                found = node_filter(_with_plenty(node, condition))
            if found is not None and found.condition != condition:
                return found
        return None

    def _make_filters(self) -> Sequence[_Filter]:
        asked = self._requirements
        filters: list[_Filter] = []
        if asked.node_name:
            filters.append(self._filter_node_name)
        by_name, by_terms = (None, None) if asked.affinity is None else _affinity_filters(asked.affinity)
        if by_name is not None:
            # Other nodes are left out before any filter is asked. Source: `NodeAffinity.PreFilter`.
            filters.append(by_name)
        if isinstance(volumes := self._volumes, Obstacle):
            filters.append(lambda _: volumes)
        filters += [self._filter_unschedulable, self._filter_taints]
        if asked.node_selector:
            filters.append(self._filter_node_selector)
        if by_terms is not None:
            filters.append(by_terms)
        if asked.ports:
            filters.append(self._filter_ports)
        filters.append(self._filter_resources)
        if self._volumes and not isinstance(self._volumes, Obstacle):
            filters.append(self._filter_volumes)
        if asked.features:
            filters.append(self._filter_features)
        return filters

    def _filter_node_name(self, node: NodeInfo) -> Obstacle | None:
        wanted = self._requirements.node_name
        return None if node.name == wanted else Obstacle("nodeName", wanted)

    def _filter_unschedulable(self, node: NodeInfo) -> Obstacle | None:
        if not node.is_unschedulable or self._tolerates(_UNSCHEDULABLE):
            return None
        return Obstacle("unschedulable")

    def _filter_taints(self, node: NodeInfo) -> Obstacle | None:
        taints = node.taints
        try:
            return self._tolerated[taints]
        except KeyError:
            first = next((taint for taint in taints if not self._tolerates(taint)), None)
            found = self._tolerated[taints] = None if first is None else Obstacle("taint", taint_text(first))
            return found

    def _tolerates(self, taint: EffectiveTaint) -> bool:
        return any(tolerates(toleration, taint) for toleration in self._requirements.tolerations)

    def _filter_node_selector(self, node: NodeInfo) -> Obstacle | None:
        labels = node.labels
        for key, value in self._requirements.node_selector:
            if labels.get(key) != value:
                return Obstacle("nodeSelector", f"{key}={value}")
        return None

    def _filter_ports(self, node: NodeInfo) -> Obstacle | None:
        if node.ports:
            for port in self._requirements.ports:
                if any(port.conflicts(used) for used in node.ports):
                    return Obstacle("ports", f"{port} (in use)")
        return None

    def _filter_resources(self, node: NodeInfo) -> Obstacle | None:
        allocatable, requested = node.allocatable, node.requested
        allowed = allocatable.get("pods", 0)
        if node.pods >= allowed:
            return _shortage("pods", 0, allowed, 1)
        for name, amount in self._requirements.requests:
            there = allocatable.get(name, 0)
            left = there - requested.get(name, 0)
            if amount > left and (there > 0 or name not in self._from_classes):
                return _shortage(name, max(left, 0), there, amount)
        return None

    def _filter_volumes(self, node: NodeInfo) -> Obstacle | None:
        assert not isinstance(self._volumes, Obstacle)
        for volume in self._volumes:
            if (problem := volume.find_conflict(node.labels)) is not None:
                return Obstacle("volume", problem)
        return None

    def _filter_features(self, node: NodeInfo) -> Obstacle | None:
        missing = [name for name in self._requirements.features if name not in node.features]
        return Obstacle("features", ", ".join(missing)) if missing else None


def _with_plenty(node: NodeInfo, resource: str) -> NodeInfo:
    """Return a node with as much of a resource as anybody asks for."""
    return replace(node, allocatable={**node.allocatable, resource: _PLENTY})


def _affinity_filters(affinity: NodeSelector) -> tuple[_Filter | None, _Filter]:
    """Return the filter by the names of nodes, if there are some, and the one by all that a node affinity says."""
    names, terms = named_nodes(affinity), parse_terms(affinity)
    obstacle = Obstacle("affinity", describe(affinity) or "(no term)")

    def by_terms(node: NodeInfo) -> Obstacle | None:
        return None if any(term.matches(node.name, node.labels) for term in terms) else obstacle

    return None if names is None else lambda node: None if node.name in names else obstacle, by_terms


@lru_cache(maxsize=4096)
def _shortage(name: str, left: int, allocatable: int, requested: int) -> Obstacle:
    if name == "pods":
        return Obstacle(name, f"({left} left of {allocatable})")
    shown = [_amount(name, amount) for amount in (left, allocatable, requested)]
    return Obstacle(name, "({} left of {}, {} requested)".format(*shown))


def _amount(name: str, amount: int) -> str:
    if name == "cpu":
        return format_amount(amount * (NANO // 1000), Family.DECIMAL)
    is_bytes = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    return format_amount(amount * NANO, Family.BINARY if is_bytes else Family.DECIMAL)
