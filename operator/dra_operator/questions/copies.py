"""Copies of a template: what a Pod, a workload, a claim, a ResourceClaimTemplate or a DeviceClass asks for, N times.

Each copy of a pod gets claims of its own from its templates, as in a cluster; claims that it names are used by all
copies. Copies have names that no object can have, so that they take nobody's place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from dra_operator.allocator.decision import Decider
from dra_operator.allocator.extended import classes_by_resource, extended_resources
from dra_operator.api.core import Metadata, Pod
from dra_operator.api.kinds import KINDS, OWN_KINDS
from dra_operator.api.names import GATE, POD_CLAIM_NAME, SYSTEM_PRIORITIES
from dra_operator.api.read import ObjectError
from dra_operator.api.text import did_you_mean, listed, near_object
from dra_operator.api.types import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dra_operator.inventory import Inventory
from dra_operator.pods.claims import make_claims
from dra_operator.pods.gate import gets_gate, is_managed
from dra_operator.pods.objects import Manifest, ObjectRecord, ObjectSet, Place
from dra_operator.pods.special_claims import find_problem
from dra_operator.pods.workloads import (
    PodTemplate,
    Workload,
    asks_for_claims,
    daemon_pods,
    describe_unknown,
    find_known,
    find_workload,
    may_make_pods,
    part,
)
from dra_operator.questions.answers import (
    QuestionError,
    UnknownObjectError,
    find_decision_kinds,
    find_unchecked,
)
from dra_operator.questions.contents import DEFAULT_NAMESPACE, PRIORITY_CLASS
from dra_operator.questions.device_table import DeviceTable, HolderQuery
from dra_operator.questions.load import gather
from dra_operator.questions.manifests import Source, read_source, sort_found
from dra_operator.questions.state import ClusterState

Subject: TypeAlias = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any] | Manifest]
"""What is asked about: `KIND/NAMESPACE/NAME` or `KIND/NAME` of an object that is there, a file, or a mapping; objects
that stand beside it in the file lie over those of the cluster."""
_KINDS: Final = {
    **{
        name: kind.kind
        for kind in KINDS.values()
        if kind not in OWN_KINDS
        for name in (kind.kind.lower(), kind.plural)
    },
    "class": "DeviceClass",
    "claim": "ResourceClaim",
    "template": "ResourceClaimTemplate",
}
_OF_CLAIMS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
_SUBJECTS: Final = ("Pod", *_OF_CLAIMS)
_HARMLESS: Final = frozenset(("Pod", "ResourceClaimTemplate"))
"""Kinds of which a new object changes nothing for others, as long as it is not placed."""
_NAMED: Final = ("ResourceClaim", "ResourceClaimTemplate", "PodGroup")
"""What a pod names."""
_REQUEST: Final = "device"
_FIRST: Final = '0"'
"""With what the name of the first pod of a workload ends."""
_NO_PLACE: Final = Place("", 0, 0)
_ALL_OWNED: Final = (
    "the operator owns all devices of the class, so claims are asked that no pod uses, which it decides"
)


@dataclass(frozen=True, slots=True)
class Template:
    """What copies are made of.

    `claims` are those that each copy has of its own, by entry of the pod, or by the name of what was asked about;
    `named` those that all copies use. With `asks` the pod asks classes for devices by the name of a resource. `decider`
    decides the claims; `assumed` are lines about what that follows from. `origin` is of which workload the pod is.
    """

    subject: str
    decider: Decider
    claims: Mapping[str, ObjectRecord]
    named: Mapping[str, ObjectRecord]
    pod: ObjectRecord | None = None
    asks: bool = False
    assumed: tuple[str, ...] = ()
    origin: tuple[Workload, PodTemplate] | None = None

    def name(self, number: int) -> str:
        """Return what a pod of a workload is called: of equal ones, the first is number 0."""
        return self.subject if number == 1 else f'{self.subject.removesuffix(_FIRST)}{number - 1}"'

    def build_claims(self, number: int) -> dict[str, ResourceClaim]:
        """Return the claims that a copy has of its own, by entry."""
        return {entry: _numbered(record.obj, number) for entry, record in self.claims.items()}

    def build_all(self, number: int) -> dict[str, ResourceClaim]:
        """Return all claims of a copy, by entry: those that all copies use, and its own."""
        named = {entry: record.obj for entry, record in self.named.items()}
        return {**named, **self.build_claims(number)}

    def build_created(self, number: int) -> list[ResourceClaim]:
        """Return the claims that are created with a copy; one of a class may be in any namespace."""
        is_of_class = self.subject.startswith("DeviceClass")
        return [] if is_of_class else [*self.build_claims(number).values()]

    def find_kinds(self, inventory: Inventory) -> tuple[str, ...]:
        """Return the optional kinds on which its placement depends."""
        claims = [record.obj for record in (*self.claims.values(), *self.named.values())]
        kinds = find_decision_kinds(inventory, claims, () if self.pod is None else (self.pod.body,))
        kinds = (*kinds, *(("ResourceQuota",) if self.build_created(1) else ()))
        return (*kinds, PRIORITY_CLASS) if self.priority_class else kinds

    @property
    def priority_class(self) -> str:
        """The PriorityClass that must be there when its pod is created; empty for one that always is."""
        name = "" if self.pod is None else self.pod.obj.spec.priority_class_name
        return "" if name in SYSTEM_PRIORITIES else name

    def find_unchecked(self) -> tuple[str, ...]:
        """Return a line for each condition of its pod that is not looked at."""
        return find_unchecked(() if self.pod is None else (self.pod.body,))

    def build_pod(self, number: int) -> ObjectRecord | None:
        """Return the pod of a copy."""
        if self.pod is None:
            return None
        obj = _numbered(self.pod.obj, number)
        metadata = {**self.pod.body["metadata"], "name": obj.metadata.name}
        return replace(self.pod, obj=obj, body={**self.pod.body, "metadata": metadata})


def _numbered(obj: Any, number: int) -> Any:
    """Return a pod or a claim as a copy of some number has it."""
    # The spec stays one object, by which its plan is known.
    return replace(obj, metadata=replace(obj.metadata, name=f"{obj.metadata.name}#{number}"))


@dataclass(frozen=True, slots=True)
class Pods:
    """What is asked about: templates, how many copies of each are wanted, and what they are called together.

    `are_of_workload`: they are the pods of a workload, or several pods, and not copies of one object.
    """

    subject: str
    templates: tuple[tuple[Template, int], ...]
    are_of_workload: bool = False


def find_template(state: ClusterState, subject: Subject) -> tuple[ClusterState, Template]:
    """Return what is asked about, if it has one template, and the state with what stands beside it.

    Raises QuestionError if it is not there, nothing of it can be placed, or its pods differ.
    """
    state, pods = find_pods(state, subject)
    return state, only_template(pods)


def only_template(pods: Pods) -> Template:
    """Return the one template of some pods. Raises QuestionError if they differ."""
    if len(pods.templates) > 1:
        raise QuestionError(
            f"{pods.subject}: its pods differ: `fit` asks about all of them, or ask about one"
        )
    return pods.templates[0][0]


def find_pods(state: ClusterState, subject: Subject) -> tuple[ClusterState, Pods]:
    """Return what is asked about, with as many pods as a workload has at a time, and the state with what is beside it.

    A workload counts as if it were not suspended; of one without pods there is one of each template. Raises
    QuestionError if it is not there, or nothing of it can be placed.
    """
    if isinstance(subject, str) and (reference := _parse_reference(subject)) is not None:
        template = _template_of(state, _find_referenced(state, *reference), {})
        return state, Pods(template.subject, ((template, 1),))
    chosen, others = _choose_subjects(_read_bodies(subject))
    read = [_read_subject(state, manifest) for manifest in chosen]
    beside = gather([*others, *(group for _, _, groups in read for group in groups)])
    if beside.errors:
        raise QuestionError(beside.errors[0])
    given: Mapping[Any, ObjectRecord] = beside.records
    if beside.volumes or not all(key[0] in _HARMLESS for key in given):
        state, given = state.overlaid(beside), {}
        if state.objects.errors:
            raise QuestionError(state.objects.errors[-1])
    templates = [
        (replace(_template_of(state, record, given), origin=origin), count)
        for records, _, _ in read
        for record, count, origin in records
    ]
    are_of_workload = len(read) > 1 or bool(read[0][1])
    titles = [title or _full_title(records[0][0]) for records, title, _ in read]
    return state, Pods(listed(titles), tuple(templates), are_of_workload)


def find_subject(state: ClusterState, subject: Subject) -> ObjectRecord | None:
    """Return the object that is asked about, if it is named. Raises QuestionError if it is not there."""
    if isinstance(subject, str) and (reference := _parse_reference(subject)) is not None:
        return _find_named(state, *reference)
    return None


# --- what is asked about


def _parse_reference(text: str) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of a text that names an object; None for another, as the path of a file."""
    kind, slash, rest = text.partition("/")
    found = _KINDS.get(kind.lower())
    if not slash or found is None:
        return None
    namespace, slash, name = rest.rpartition("/")
    if not KINDS[found].namespaced:
        namespace = ""
    elif not slash:
        namespace = DEFAULT_NAMESPACE
    return found, namespace, name


def _find_referenced(state: ClusterState, kind: str, namespace: str, name: str) -> ObjectRecord:
    """Return an object of which there can be copies."""
    record = _find_named(state, kind, namespace, name)
    # What a pod of the cluster got from the scheduler is not what it asks for.
    return _read_copied(_as_new(Manifest(record.place, record.body))) if kind == "Pod" else record


def _find_named(state: ClusterState, kind: str, namespace: str, name: str) -> ObjectRecord:
    title = f'{kind} "{namespace}/{name}"' if namespace else f'{kind} "{name}"'
    if kind not in _SUBJECTS:
        raise QuestionError(f"{title}: is none of {', '.join(_SUBJECTS)}")
    record = state.find_record(kind, namespace, name)
    if record is not None:
        return record
    if kind in state.unread:
        raise QuestionError(f"{title}: {kind} cannot be read ({state.unread[kind]})")
    names = [key[2] for key in state.objects.records if key[:2] == (kind, namespace)]
    raise UnknownObjectError(f"there is no {title}{did_you_mean(near_object(name, names))}")


def _read_bodies(source: Source) -> list[Manifest]:
    found, problems = sort_found(read_source(source))
    if problems:
        raise QuestionError(problems[0])
    if not found:
        raise QuestionError("nothing is asked about: there is no object in what is given")
    return found


def _choose_subjects(manifests: list[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """Return the manifests that are asked about, and the others: pods and workloads, or the one other object."""
    pods = [each for each in manifests if _is_pod(each)]
    claims = [each for each in manifests if each.body.get("kind") in _OF_CLAIMS]
    # Classes mostly stand beside what asks for them, as templates beside pods do.
    narrow = [each for each in claims if each.body.get("kind") != "DeviceClass"]
    found = pods or narrow or claims
    # What may make pods is not left out of the answer.
    for each in manifests:
        is_known = _is_pod(each) or find_known(each.body) is not None
        if not is_known and (asks_for_claims(each.body) or (not pods and may_make_pods(each.body))):
            raise QuestionError(f"{each.place}: {describe_unknown(each.body)}")
    if not found:
        kinds = ", ".join(sorted({str(each.body.get("kind")) for each in manifests}))
        raise QuestionError(
            f"nothing is asked about: what is given has {kinds}, and no Pod, workload, {', '.join(_OF_CLAIMS)}"
        )
    if len(found) > 1 and not pods:
        names = ", ".join(_title(each) for each in found[:3])
        raise QuestionError(f"several objects are asked about: {names}; give one, or name it")
    return found, [each for each in manifests if not any(each is one for one in found)]


def _title(manifest: Manifest) -> str:
    name = part(manifest.body, "metadata").get("name") or ""
    return f"{manifest.body.get('kind')} {name}".rstrip()


def _is_pod(manifest: Manifest) -> bool:
    return manifest.body.get("kind") == "Pod" or find_workload(_as_new(manifest)) is not None


def _as_new(manifest: Manifest) -> Manifest:
    """Return an object as if no API server had taken it yet, and nothing had become of it."""
    body, metadata = manifest.body, part(manifest.body, "metadata")
    if not metadata.get("uid"):
        return manifest
    kept = {
        name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if name in metadata
    }
    spec = body.get("spec")
    if body.get("kind") == "Pod" and isinstance(spec, Mapping):
        spec = {name: value for name, value in spec.items() if name != "nodeName"}
    new = {name: value for name, value in body.items() if name not in ("status", "spec", "metadata")}
    return replace(manifest, body={**new, "metadata": kept, "spec": spec})


_Copied: TypeAlias = tuple[ObjectRecord, int, tuple[Workload, PodTemplate] | None]
"""Of what copies are made, how many, and of which workload."""


def _read_subject(state: ClusterState, manifest: Manifest) -> tuple[list[_Copied], str, list[Manifest]]:
    """Return what copies are made of: pods for a workload, with its title, and the PodGroup that a Job makes.

    Raises QuestionError.
    """
    manifest = _as_new(manifest)
    workload = find_workload(manifest)
    if workload is None:
        return [(_read_copied(manifest), 1, None)], "", []
    try:
        group = workload.group()
        if workload.known.is_for_each_node:
            made = daemon_pods(workload, state.objects, state.nodes)
            pods: list[Any] = [(pod, 1, None) for pod in made]
        else:
            templates = [*workload.templates()]
            has_pods = any(each.count for each in templates)
            pods = [
                (workload.pod(each, "0", is_in_group=group is not None), each.count or 1, (workload, each))
                for each in templates
                if each.count or not has_pods
            ]
    except ObjectError as error:
        raise QuestionError(f"{manifest.place}: {error}") from None
    if not pods:
        raise QuestionError(
            f"{manifest.place}: {_title(manifest)}: no node that can be used is one for its pods"
        )
    records = [(_read_copied(pod), count, origin) for pod, count, origin in pods]
    metadata = records[0][0].obj.metadata
    title = f'{workload.known.kind} "{metadata.namespace}/{workload.name}"'
    return records, title, [] if group is None else [group]


def _read_copied(manifest: Manifest) -> ObjectRecord:
    """Return an object of which there are to be copies. Raises QuestionError."""
    gathered = gather([manifest])
    if gathered.errors:
        raise QuestionError(gathered.errors[0])
    for record in gathered.records.values():
        if type(record.obj).__name__ in _SUBJECTS:
            return record
    raise QuestionError(f"{manifest.place}: {_title(manifest)}: nothing of it can be placed")


# --- what copies are made of


def _template_of(state: ClusterState, record: ObjectRecord, beside: Mapping[Any, ObjectRecord]) -> Template:
    obj = record.obj
    metadata: Metadata = obj.metadata
    title = _full_title(record)
    match type(obj).__name__:
        case "Pod":
            return _template_of_pod(state, record, beside, title)
        case "ResourceClaim":
            plain = ResourceClaim(replace(metadata, owner_references=()), obj.spec)
            return Template(title, Decider.OPERATOR, {metadata.name: replace(record, obj=plain)}, {})
        case "ResourceClaimTemplate":
            named = Metadata(name=metadata.name, namespace=metadata.namespace)
            claim = replace(record, obj=ResourceClaim(named, obj.spec.spec))
            assumed = (_gated(metadata.namespace),) if is_managed(state.objects, metadata.namespace) else ()
        case _:
            exactly = ExactDeviceRequest(
                device_class_name=metadata.name, allocation_mode="ExactCount", count=1
            )
            spec = ResourceClaimSpec(DeviceClaim((DeviceRequest(_REQUEST, exactly),)))
            named = Metadata(name=metadata.name, namespace=DEFAULT_NAMESPACE)
            claim = ObjectRecord(_NO_PLACE, {}, ResourceClaim(named, spec))
            assumed = (_ALL_OWNED,) if _is_all_owned(state, metadata.name) else ()
    decider = Decider.OPERATOR if assumed else Decider.KUBE_SCHEDULER
    return Template(title, decider, {metadata.name: claim}, {}, assumed=assumed)


def _full_title(record: ObjectRecord) -> str:
    metadata: Metadata = record.obj.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return f'{type(record.obj).__name__} "{name}"'


def _gated(namespace: str) -> str:
    return f"namespace {namespace} is managed: its new pods with claims get the gate {GATE}, and the operator decides"


def _is_all_owned(state: ClusterState, name: str) -> bool:
    """Return whether a class has devices, and the operator owns all of them."""
    if state.inventory.settlement is None:
        return False
    rows = list(DeviceTable(state).select(HolderQuery(device_class=name)))
    return bool(rows) and all(row.is_owned for row in rows)


def _template_of_pod(
    state: ClusterState, record: ObjectRecord, beside: Mapping[Any, ObjectRecord], title: str
) -> Template:
    pod: Pod = record.obj
    namespace = pod.metadata.namespace
    names = {entry.resource_claim_name for entry in pod.spec.resource_claims}
    group = pod.spec.scheduling_group
    groups = () if group is None else (group.pod_group_name,)
    relevant = {"ResourceClaim": names, "PodGroup": groups}
    known = {
        key: each
        for key, each in state.objects.records.items()
        if key[1] == namespace and (key[0] == "ResourceClaimTemplate" or key[2] in relevant.get(key[0], ()))
    }
    own = ("Pod", namespace, pod.metadata.name)
    objects = ObjectSet({**known, **beside, own: record})
    made, problems = make_claims(objects)
    if problems:
        unread = [f"{kind} ({state.unread[kind]})" for kind in _NAMED if kind in state.unread]
        rest = f"; it may be there, as not all can be read of {', '.join(unread)}" if unread else ""
        raise QuestionError(f"{problems[0]}{rest}")
    claims: dict[str, ObjectRecord] = {}
    named: dict[str, ObjectRecord] = {}
    for claim in made:
        entry = claim.obj.metadata.annotations[POD_CLAIM_NAME]
        is_own = any(owner.kind == "Pod" for owner in claim.obj.metadata.owner_references)
        (claims if is_own else named)[entry] = claim
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            named[entry.name] = objects.records["ResourceClaim", namespace, entry.resource_claim_name]
    pod_record = objects.records[own]
    asks = _asks_for_devices(state, beside, pod_record)
    assumed: tuple[str, ...] = ()
    decider = Decider.OPERATOR if GATE in find_gates(pod_record) else Decider.KUBE_SCHEDULER
    if decider is Decider.KUBE_SCHEDULER and gets_gate(pod_record, state.objects):
        decider, assumed = Decider.OPERATOR, (_gated(namespace),)
    return Template(title, decider, claims, named, pod_record, asks, assumed)


def find_gates(record: ObjectRecord) -> list[str]:
    """Return the names of the scheduling gates of a pod."""
    gates = part(record.body, "spec").get("schedulingGates") or ()
    return [str(gate.get("name")) for gate in gates if isinstance(gate, Mapping)]


def _asks_for_devices(state: ClusterState, beside: Mapping[Any, ObjectRecord], record: ObjectRecord) -> bool:
    """Return whether a pod asks classes for devices by the name of a resource. Raises QuestionError."""
    wanted = extended_resources(record.obj)
    records = (*state.objects.of_kind("DeviceClass"), *beside.values())
    classes = classes_by_resource(each.obj for each in records if isinstance(each.obj, DeviceClass))
    if problem := find_problem(record.obj, classes, wanted):
        raise QuestionError(f"{record.place}: {problem}")
    return any(name in classes for name in wanted)
