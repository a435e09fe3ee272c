"""Contents: the objects of a cluster that were read, and lines about those that could not be.

As an API server sends objects they are taken here; what passed none is loaded by `load`, which checks it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dra_operator.api.convert import apply_defaults, to_v1
from dra_operator.api.core import Metadata, Node, NodeSelector
from dra_operator.api.kinds import KINDS, LEASE, OWN_KINDS, POLICIES
from dra_operator.api.names import LEASE_NAME
from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.text import did_you_mean, listed, near_object
from dra_operator.api.types import (
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from dra_operator.pods.objects import Key, Manifest, ObjectRecord, ObjectSet, Place
from dra_operator.pods.workloads import find_known, part
from dra_operator.questions.answers import UnknownObjectError

if TYPE_CHECKING:
    from dra_operator.pods.workloads import Workload


DEFAULT_NAMESPACE: Final = "default"
NAMELESS: Final = "is required, or a text in metadata.generateName"
"""What is said of a name that is missing."""
VOLUME_KINDS: Final = ("PersistentVolume", "PersistentVolumeClaim")
PRIORITY_CLASS: Final = "PriorityClass"
_AS_WRITTEN: Final = {
    (kind.api_version(kind.versions[0]), kind.kind): kind.kind
    for kind in (KINDS["ResourceQuota"], KINDS[PRIORITY_CLASS], *OWN_KINDS)
}
_CLUSTER_WIDE: Final = frozenset(name for name in _AS_WRITTEN.values() if not KINDS[name].namespaced)
KINDS_OF_OPERATOR: Final = (LEASE.kind, *(kind.kind for kind in POLICIES))
"""Kinds of which only the objects of an operator are of interest. No set: a kind in a file may be any value."""
_NO_PLACE: Final = Place("", 0, 0)


@dataclass(slots=True)
class LoadResult(ObjectSet):
    """The objects of some manifests; lines about those that cannot be read; lines about what is worth knowing.

    `refused` has the kinds of which one is wrong, `volumes` the PersistentVolumes and their claims. `listed` are the
    kinds of which all objects are there, be it none: an API server listed them, and files do not say so; one with a
    namespace behind it (`Pod/team`) was listed there. `of_operator`
    are the Leases of operators and the admission policies that the project ships, with their bindings.
    `bodies` are objects that are kept as they are written: quotas, PriorityClasses, the project's own kinds, and
    workloads by what kubectl calls their kind. `replaced` are lines about objects that are written again later.
    The pods of DaemonSets are made later, when it is known which nodes there are.
    """

    daemon_sets: "list[Workload]" = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    volumes: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    of_operator: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    bodies: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    def copied(self) -> "LoadResult":
        """Return a result that can be changed without this one."""
        return self.overlaid(LoadResult())

    def overlaid(self, other: "LoadResult") -> "LoadResult":
        """Return both together; where both have an object, that of the other counts, and stands last."""
        return LoadResult(
            {key: record for key, record in self.records.items() if key not in other.records} | other.records,
            daemon_sets=[*self.daemon_sets, *other.daemon_sets],
            errors=[*self.errors, *other.errors],
            notes=[*self.notes, *other.notes],
            refused=self.refused | other.refused,
            volumes={**self.volumes, **other.volumes},
            listed=self.listed | other.listed,
            of_operator={**self.of_operator, **other.of_operator},
            bodies={**self.bodies, **other.bodies},
            replaced=[*self.replaced, *other.replaced],
        )


def gather_stored(bodies: Iterable[Mapping[str, Any]]) -> LoadResult:
    """Return objects as an API server sends them.

    It has accepted them, so neither unknown fields nor values that it would refuse are sought, which takes longer than
    reading them. One that cannot be read is a line in `errors`.
    """
    gathered = LoadResult()
    for body in bodies:
        kind = str(body.get("kind"))
        if kind in VOLUME_KINDS:
            add_volume(gathered, Manifest(_NO_PLACE, body))
            continue
        if add_of_operator(gathered, body) or add_body(gathered, body) or kind in KINDS_OF_OPERATOR:
            continue
        try:
            obj = apply_defaults(read_object(body))
        except ObjectError as error:
            gathered.errors.append(str(error))
            gathered.refused.add(kind)
            continue
        key = kind, obj.metadata.namespace, obj.metadata.name
        gathered.records[key] = ObjectRecord(_NO_PLACE, to_v1(body), obj)
    return gathered


def add_of_operator(gathered: LoadResult, body: Mapping[str, Any]) -> bool:
    """Take a Lease or a policy, if it is that of an operator; return whether it is."""
    if body.get("kind") not in KINDS_OF_OPERATOR:
        return False
    kind, metadata = KINDS[str(body.get("kind"))], part(body, "metadata")
    name = str(metadata.get("name"))
    is_named_so = name == LEASE_NAME if kind is LEASE else name.startswith(f"{LEASE_NAME}-")
    is_of_operator = is_named_so and str(body.get("apiVersion")).startswith(kind.group)
    if is_of_operator:
        namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else ""
        gathered.of_operator[kind.kind, namespace, name] = body
    return is_of_operator


def add_body(gathered: LoadResult, body: Mapping[str, Any]) -> bool:
    """Take an object that is kept as it is written; return whether it is one."""
    kind = _AS_WRITTEN.get((str(body.get("apiVersion")), str(body.get("kind"))))
    if kind is None and (known := find_known(body)) is not None:
        kind = known.name
    if kind is None:
        return False
    metadata = part(body, "metadata")
    namespace = "" if kind in _CLUSTER_WIDE else str(metadata.get("namespace") or DEFAULT_NAMESPACE)
    gathered.bodies[kind, namespace, str(metadata.get("name"))] = body
    return True


def add_volume(gathered: LoadResult, manifest: Manifest) -> None:
    """Take a PersistentVolume, or a claim of one; what is wrong with it is a line in `errors`."""
    from dra_operator.pods.field_reader import FieldReader  # noqa: PLC0415
    from dra_operator.pods.node_fit import read_volume, read_volume_claim  # noqa: PLC0415 - few are asked about

    kind = str(manifest.body["kind"])
    reader = FieldReader(kind, manifest.body)
    if kind == "PersistentVolume":
        read_volume(reader, manifest.body)
        namespace = ""
    else:
        read_volume_claim(reader, manifest.body)
        namespace = reader.namespace or DEFAULT_NAMESPACE
    if not reader.name:
        reader.reject("metadata.name", None, NAMELESS)
    if reader.problems:
        gathered.errors.append(f"{manifest.place}: {reader.problems[0]}")
        return
    metadata = {**manifest.body["metadata"], "namespace": namespace}
    gathered.volumes[kind, namespace, reader.name] = {**manifest.body, "metadata": metadata}


# --- Removal: the objects of a cluster without some of them, and without what ends with them.
# As Kubernetes does it: the claims made for a pod end with it, and a claim is deallocated when no pod uses it any
# more. Source: kube-controller-manager's `resourceclaim`, docs/dra-semantics 8.10.


_Name: TypeAlias = tuple[str, str]


def remove_objects(
    objects: LoadResult,
    *,
    claims: Iterable[str] = (),
    pods: Iterable[str] = (),
    nodes: Iterable[str] = (),
    drivers: Iterable[str] = (),
) -> LoadResult:
    """Return the objects without some of them; claims and pods are named `namespace/name`. Raises UnknownObjectError.

    Slices and pods of a node are gone with it. An allocation that can be used only there is not: it stays until its
    claim is deallocated.
    """
    gone: set[Key] = {_find(objects, "ResourceClaim", name) for name in claims}
    gone_pods = {_find(objects, "Pod", name) for name in pods}
    gone_nodes = {_find(objects, "Node", name)[2] for name in nodes}
    gone_drivers = set(drivers)
    slices: list[ResourceSlice] = [record.obj for record in objects.of_kind("ResourceSlice")]
    known = {item.spec.driver for item in slices}
    if unknown := gone_drivers - known:
        name = min(unknown)
        hint = did_you_mean(near_object(name, known))
        raise UnknownObjectError(f'no ResourceSlice is of driver "{name}"{hint}')
    gone |= {("Node", "", name) for name in gone_nodes}
    gone |= {
        ("ResourceSlice", "", item.metadata.name)
        for item in slices
        if item.spec.driver in gone_drivers or item.spec.node_name in gone_nodes
    }
    gone_pods |= {
        ("Pod", record.obj.metadata.namespace, record.obj.metadata.name)
        for record in objects.of_kind("Pod")
        if record.obj.spec.node_name in gone_nodes
    }
    records = {key: record for key, record in objects.records.items() if key not in gone | gone_pods}
    if gone_pods:
        ended = {key[1:]: objects.records[key].obj.metadata.uid for key in gone_pods}
        for record in objects.of_kind("ResourceClaim"):
            key = "ResourceClaim", record.obj.metadata.namespace, record.obj.metadata.name
            if key not in records:
                continue
            if _is_of_any(record.obj, ended):
                del records[key]
            else:
                records[key] = _without_users(record, ended)
    # Where the last node or pod is gone, there is none; where none was given, nothing is known of the others.
    listed = {kind for kind, names in (("Node", gone_nodes), ("Pod", gone_pods)) if names}
    return replace(objects, records=records, listed=objects.listed | listed)


def _is_of_any(claim: ResourceClaim, pods: Mapping[_Name, str]) -> bool:
    """Return whether a claim was made for one of some pods, which have these uids."""
    return any(
        owner.controller
        and owner.kind == "Pod"
        and pods.get((claim.metadata.namespace, owner.name)) == owner.uid
        for owner in claim.metadata.owner_references
    )


def _without_users(record: ObjectRecord, pods: Mapping[_Name, str]) -> ObjectRecord:
    """Return a claim that some pods do not use any more; if nobody else does, it is deallocated."""
    claim: ResourceClaim = record.obj
    users, namespace = claim.status.reserved_for, claim.metadata.namespace
    gone = [
        each
        for each in users
        if (each.api_group, each.resource) == ("", "pods") and (namespace, each.name) in pods
    ]
    left = tuple([each for each in users if each not in gone])
    if left == users:
        return record
    if not left:
        body = {name: value for name, value in record.body.items() if name != "status"}
        return replace(record, body=body, obj=replace(claim, status=ResourceClaimStatus()))
    return replace(record, obj=replace(claim, status=replace(claim.status, reserved_for=left)))


def split_name(text: str) -> _Name:
    """Return namespace and name of a text `namespace/name`; without a namespace it is the default one."""
    namespace, slash, name = text.rpartition("/")
    return (namespace, name) if slash else (DEFAULT_NAMESPACE, name)


def _find(objects: LoadResult, kind: str, text: str) -> Key:
    key = (kind, "", text) if kind == "Node" else (kind, *split_name(text))
    if key in objects.records:
        return key
    names = [each[2] for each in objects.records if each[:2] == key[:2]]
    raise UnknownObjectError(f'there is no {kind} "{text}"{did_you_mean(near_object(key[2], names))}')


# --- Nodes: those that are given, or else those that slices name, which are assumed to be ready.
# What files leave open is settled here: without Nodes nobody knows more of them than their names. Where an API server
# has listed none, there is none, and nothing is assumed.


_HOSTNAME = "kubernetes.io/hostname"
_MADE_UP = "node-1"
_NO_SLICES = "no ResourceSlice is given: add what `kubectl get deviceclasses,resourceslices -o yaml` prints"


def choose_nodes(gathered: LoadResult, wanted: Sequence[str]) -> tuple[dict[str, Node], bool, list[str]]:
    """Return all nodes by name, sorted, whether none was given so that they are assumed, and lines about that.

    `wanted` are those that claims may go to, all if empty.

    Raises UnknownObjectError for one of these that is not there.
    """
    notes: list[str] = []
    nodes: dict[str, Node] = {record.obj.metadata.name: record.obj for record in gathered.of_kind("Node")}
    named = _named_nodes(gathered)
    asked = gathered.of_kind("ResourceClaim") or gathered.of_kind("Pod") or gathered.of_kind("PodGroup")
    # What comes from a cluster comes with its slices, if it has any.
    is_new = gathered.daemon_sets or any(not record.obj.metadata.uid for record in asked)
    if is_new and not gathered.of_kind("ResourceSlice") and "ResourceSlice" not in gathered.refused:
        notes.append(_NO_SLICES)
    are_assumed = not nodes and "Node" not in gathered.listed
    if are_assumed:
        names = sorted({*named, *wanted}) or [_MADE_UP]
        nodes = {name: Node(Metadata(name=name, labels={_HOSTNAME: name})) for name in names}
        if asked or gathered.daemon_sets:
            notes.append(_assumed(names, named, wanted))
    elif missing := [name for name in named if name not in nodes]:
        notes.append(f"slices name nodes that are not given: {listed(missing)}")
    if unknown := [name for name in wanted if name not in nodes]:
        there_is = listed(sorted(nodes)) or "none"
        raise UnknownObjectError(f"there is no node {listed(unknown)}; there is {there_is}")
    if wanted:
        notes.append(f"only {listed(sorted(set(wanted)))} may be chosen; other nodes count as unusable")
    return dict(sorted(nodes.items())), are_assumed, notes


def _named_nodes(gathered: LoadResult) -> list[str]:
    """Return the nodes that slices and devices name, or select by name, sorted."""
    slices: list[ResourceSlice] = [record.obj for record in gathered.of_kind("ResourceSlice")]
    names = {item.spec.node_name for item in slices}
    names |= {device.node_name for item in slices for device in item.spec.devices}
    selectors = [item.spec.node_selector for item in slices]
    selectors += [device.node_selector for item in slices for device in item.spec.devices]
    for selector in selectors:
        names |= _selected_by_name(selector)
    return sorted(name for name in names if name)


def _selected_by_name(selector: NodeSelector | None) -> set[str | None]:
    return {
        value
        for term in (selector.node_selector_terms if selector is not None else ())
        for item in (*term.match_fields, *term.match_expressions)
        if item.key in ("metadata.name", _HOSTNAME) and item.operator == "In"
        for value in item.values
    }


def _assumed(names: Sequence[str], named: Sequence[str], wanted: Sequence[str]) -> str:
    """Return what is assumed about some nodes, given those that slices name and those that are asked for."""
    text = f"no Node is given: {listed(names)} assumed, ready and with no label but {_HOSTNAME}"
    if only_wanted := sorted({*wanted} - {*named}):
        return f"{text}; only --node names {listed(only_wanted)}, no slice does"
    return text if named else f"{text}; no slice names a node"
