"""Contents: the objects of a cluster that were read, and lines about those that could not be.

As an API server sends objects they are taken here; what passed none is loaded by `load`, which checks it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dra_operator.api.convert import apply_defaults, to_v1
from dra_operator.api.kinds import KINDS, LEASE, OWN_KINDS, POLICIES
from dra_operator.api.names import LEASE_NAME
from dra_operator.api.read import ObjectError, read_object
from dra_operator.pods.known_workloads import find_known
from dra_operator.pods.objects import Key, Manifest, ObjectRecord, ObjectSet, Place

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
    kind, metadata = KINDS[str(body.get("kind"))], body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
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
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    namespace = "" if kind in _CLUSTER_WIDE else str(metadata.get("namespace") or DEFAULT_NAMESPACE)
    gathered.bodies[kind, namespace, str(metadata.get("name"))] = body
    return True


def add_volume(gathered: LoadResult, manifest: Manifest) -> None:
    """Take a PersistentVolume, or a claim of one; what is wrong with it is a line in `errors`."""
    from dra_operator.pods.bound_volumes import read_volume, read_volume_claim  # noqa: PLC0415 - few are asked about
    from dra_operator.pods.field_reader import FieldReader  # noqa: PLC0415

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
