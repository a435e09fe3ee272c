"""Gangs: which pods run together or not at all, of those that exist and of those that are still to be made.

A PodGroup comes before an annotation, and that before the workload. Source: docs/gangs.md, "What a gang is".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from dra_operator.allocator.decision import Decider, Explanation
from dra_operator.allocator.extended import extended_resources
from dra_operator.allocator.reasons import Reason
from dra_operator.api.names import (
    GANG_ANNOTATION,
    GANG_MATCH_ANNOTATION,
    GANG_TOPOLOGY_ANNOTATION,
    GATE,
    POD_GROUP_WORDS,
)
from dra_operator.pods.claims import is_over, resolve_entries
from dra_operator.pods.gang_assignment import Gang, GangMatch, Member
from dra_operator.pods.objects import Manifest, ObjectRecord, Place
from dra_operator.pods.workloads import PodTemplate, Workload, find_known, part
from dra_operator.questions.answers import QuestionError, UnknownObjectError
from dra_operator.questions.contents import DEFAULT_NAMESPACE
from dra_operator.questions.copies import Pods, Subject, Template, find_gates, find_pods
from dra_operator.questions.state import ClusterState

NO_GROUP_DEVICES: Final = Explanation(
    Reason.NOT_SCHEDULED, "it asks for devices by the name of a resource, which is not decided for gangs"
)
_DROPPED: Final = (
    "counts here; an API server drops it unless its feature gate {} is on, which it is not by default"
)
Wanted: TypeAlias = tuple[Template, Sequence[int]]
"""Pods that are still to be made: their template, and the numbers of the copies, from 1 on."""


@dataclass(frozen=True, slots=True)
class _GangKey:
    """Which gang a pod is of, by what says so, with its title; those of an earlier stage are made first."""

    title: str
    group: tuple[str, str] | None = None
    label: tuple[str, str] | None = None
    stage: int = 0
    replica: int = 0


def find_gang(state: ClusterState, subject: Subject, copies: int | None = None) -> tuple[ClusterState, Gang]:
    """Return a gang, and the state with what stands beside it in a file.

    `podgroup/NAMESPACE/NAME` and `pod/NAMESPACE/NAME`, of a member, name one that is there; else it is that of a file,
    or all of its pods if it has none, or so many copies. Raises QuestionError, also for several.
    """
    if isinstance(subject, str) and copies is None:
        word, _, rest = subject.partition("/")
        namespace, _, name = rest.rpartition("/")
        namespace = namespace or DEFAULT_NAMESPACE
        if word.lower() in POD_GROUP_WORDS:
            return state, gang_of_group(state, namespace, name)
        record = state.find_record("Pod", namespace, name) if word.lower() in ("pod", "pods") else None
        if record is not None and (found := gang_of_pod(state, record)) is not None:
            return state, found
    state, pods = find_pods(state, subject)
    gangs = find_gangs(state, all_of(pods)) if copies is None else ()
    if len(gangs) > 1:
        raise QuestionError(f"{pods.subject}: it has {len(gangs)} gangs: ask what becomes of the workload")
    return state, gangs[0] if gangs else gang_of_all(pods, copies)


def all_of(pods: Pods) -> list[Wanted]:
    """Return all pods of what is asked about."""
    return [(template, range(1, count + 1)) for template, count in pods.templates]


def build_gangs(state: ClusterState, pods: Pods, number: int) -> tuple[Gang, ...]:
    """Return the gangs of a further copy of what is asked about, with new pods alone; of equal replicas one.

    Copies are numbered from 0 on.
    """
    wanted: list[Wanted] = []
    for template, count in pods.templates:
        gangs = max(1, 1 if template.origin is None else template.origin[1].gangs)
        wanted.append((template, range(number * count // gangs + 1, (number + 1) * count // gangs + 1)))
    found = find_gangs(state, wanted)
    return tuple([replace(gang, members=tuple(filter(_is_new, gang.members))) for gang in found])


def _is_new(member: Member) -> bool:
    return "#" in member.pod.obj.metadata.name


def find_all_gangs(state: ClusterState) -> Iterator[Gang]:
    """Yield the gangs of the pods of a state, and of its workloads of which no pod was made. Raises QuestionError."""
    yield from find_gangs(state, (), state.objects.of_kind("Pod"))
    for body in state.objects.bodies.values():
        if (known := find_known(body)) is not None and known.gang and not part(body, "metadata").get("uid"):
            _, pods = find_pods(state, [Manifest(Place("", 0, 0), body)])
            yield from find_gangs(
                state,
                [
                    each
                    for each in all_of(pods)
                    if each[0].pod is not None and _key_of(state, each[0].pod) is None
                ],
            )


def gang_of_group(state: ClusterState, namespace: str, name: str, more: Sequence[Member] = ()) -> Gang:
    """Return the gang of a PodGroup of the cluster, with more members. Raises QuestionError."""
    title = f'PodGroup "{namespace}/{name}"'
    record = state.find_record("PodGroup", namespace, name)
    if record is None:
        raise UnknownObjectError(f"there is no {title}")
    spec = part(record.body, "spec")
    if spec.get("parentCompositePodGroupName"):
        raise QuestionError(
            f"{title}: spec.parentCompositePodGroupName: groups of groups are not decided: ask about each group"
        )
    members = _members(state, _others(state, namespace, more, lambda each: _group_of(each) == name), more)
    if not members:
        raise QuestionError(f"{title}: it has no pods")
    at_least = part(spec, "schedulingPolicy", "gang").get("minCount") or 0
    keys = part(spec, "schedulingConstraints").get("topology") or ()
    topology = next((str(each.get("key")) for each in keys if isinstance(each, Mapping)), "")
    dropped: list[tuple[str, str]] = []
    if not all(each.pod.obj.metadata.uid for each in members):
        dropped.append(("spec.schedulingGroup of its pods", "GenericWorkload"))
    if topology and not record.obj.metadata.uid:
        dropped.append(("spec.schedulingConstraints", "TopologyAwareWorkloadScheduling"))
    return replace(
        build_gang(title, members, record.body, topology),
        at_least=at_least,
        assumed=tuple([f"{title}: {name} {_DROPPED.format(gate)}" for name, gate in dropped]),
    )


def gang_of_pod(state: ClusterState, record: ObjectRecord) -> Gang | None:
    """Return the gang of a pod of the cluster, by its PodGroup or its annotation; None if it has none."""
    key = _key_of(state, record)
    return None if key is None else _gang_of(state, key, ())


def find_gangs(
    state: ClusterState, wanted: Iterable[Wanted], records: Iterable[ObjectRecord] = ()
) -> tuple[Gang, ...]:
    """Return the gangs of pods that exist, and of those that are still to be made, in the order in which they start.

    Pods of no gang are left out. Where each gang is one pod of a workload there is none: its pod says it all. Raises
    QuestionError.
    """
    wanted = [*wanted]
    groups: dict[_GangKey, tuple[list[ObjectRecord], list[Member]]] = {}
    for record in records:
        key = _key_of(state, record) or _key_by_labels(record, wanted)
        if key is not None and not is_over(record.obj):
            groups.setdefault(key, ([], []))[0].append(record)
    for template, numbers in wanted:
        if template.pod is None:
            continue
        for number in numbers:
            key = _key_of(state, template.pod) or _key_of_new(template, number)
            if key is not None:
                groups.setdefault(key, ([], []))[1].append(_member_of(template, number))
    found = []
    for key in sorted(groups, key=lambda each: (each.stage, each.replica)):
        existing, new = groups[key]
        is_named = bool(key.group or key.label)
        members = () if is_named else _members(state, existing, new)
        found.append(_gang_of(state, key, new) if is_named else build_gang(key.title, members))
    has_several = any(key.group or key.label for key in groups) or any(
        len(each.members) > 1 for each in found
    )
    return tuple(found) if has_several else ()


def is_of_gang(state: ClusterState, template: Template) -> bool:
    """Return whether pods of a template are of a gang."""
    return template.pod is not None and bool(_key_of(state, template.pod) or _key_of_new(template, 1))


def gang_of_all(pods: Pods, copies: int | None) -> Gang:
    """Return the gang of all pods of a file, or of so many copies. Raises QuestionError for what is no pod."""
    members = []
    for template, count in pods.templates:
        for number in range(1, (copies or count) + 1):
            member = _member_of(template, number)
            members.append(member if pods.are_of_workload else replace(member, name=f"copy {number}"))
    return build_gang(pods.subject, tuple(members))


def choose_missing(
    template: Template, total: int, missing: int, records: Iterable[ObjectRecord]
) -> Sequence[int]:
    """Return the numbers of the pods of a template that are missing, of `total`: those that its gangs lack."""
    if template.origin is None or not template.origin[1].gangs:
        return range(total - missing + 1, total + 1)
    workload, made = template.origin
    there = Counter(_place(workload, each) for each in records if not is_over(each.obj))
    each_has, found = max(1, total // made.gangs), list[int]()
    for replica in range(made.gangs):
        last = (replica + 1) * each_has
        found += range(replica * each_has + there[replica, made.role] + 1, last + 1)
    return found[:missing]


# --- which gang a pod is of


def _key_of(state: ClusterState, record: ObjectRecord) -> _GangKey | None:
    """Return the gang of a pod by its PodGroup, if that is there, or its annotation."""
    namespace = record.obj.metadata.namespace
    name = _group_of(record)
    if name and state.find_record("PodGroup", namespace, name) is not None:
        return _GangKey(f'PodGroup "{namespace}/{name}"', group=(namespace, name))
    label = _annotation(record, GANG_ANNOTATION)
    return _GangKey(f'gang "{namespace}/{label}"', label=(namespace, label)) if label else None


def _key_of_new(template: Template, number: int) -> _GangKey | None:
    """Return the gang of a pod that is still to be made, by its workload."""
    if template.origin is None or template.pod is None or not template.origin[1].gangs:
        return None
    workload, made = template.origin
    replica = (number - 1) // max(1, made.count // made.gangs)
    return _key_of_workload(template.pod.obj.metadata.namespace, workload, made, replica)


def _key_by_labels(record: ObjectRecord, wanted: Iterable[Wanted]) -> _GangKey | None:
    """Return the gang of a pod that exists, by the labels that its workload gave it."""
    for template, _ in wanted:
        if template.origin is not None and template.origin[1].gangs:
            workload, made = template.origin
            replica, role = _place(workload, record)
            if role == made.role:
                return _key_of_workload(record.obj.metadata.namespace, workload, made, replica)
    return None


def _place(workload: Workload, record: ObjectRecord) -> tuple[int, str]:
    """Return of which replica of a workload a pod is, and in which role, as far as its labels say so."""
    rule, labels = workload.known.gang, record.obj.metadata.labels
    replica, role = (labels.get(name, "") for name in (rule.replica, rule.role)) if rule else ("", "")
    if role.isdigit():
        role = "worker" if int(role) else "leader"
    return int(replica) if replica.isdigit() else 0, role


def _key_of_workload(namespace: str, workload: Workload, made: PodTemplate, replica: int) -> _GangKey:
    title = f'{workload.known.kind} "{namespace}/{workload.name}"'
    replica = replica if made.gangs > 1 else 0
    title += f", replica {replica}" if made.gangs > 1 else ""
    return _GangKey(title + (f", {made.role}" if made.stage else ""), stage=made.stage, replica=replica)


def _gang_of(state: ClusterState, key: _GangKey, more: Sequence[Member]) -> Gang:
    """Return the gang of a PodGroup or an annotation, with more members. Raises QuestionError."""
    if key.group is not None:
        return gang_of_group(state, *key.group, more)
    assert key.label is not None
    namespace, label = key.label
    others = _others(state, namespace, more, lambda each: _annotation(each, GANG_ANNOTATION) == label)
    return build_gang(key.title, _members(state, others, more))


def build_gang(
    subject: str, members: tuple[Member, ...], group: Mapping[str, Any] | None = None, topology: str = ""
) -> Gang:
    """Return a gang with what the annotations of its objects say. Raises QuestionError."""
    said = [
        part(body, "metadata", "annotations") for body in (group or {}, *(each.pod.body for each in members))
    ]
    match = find_common(subject, GANG_MATCH_ANNOTATION, said)
    of_pods = find_common(subject, GANG_TOPOLOGY_ANNOTATION, said)
    return Gang(subject, members, read_match(subject, match), topology or of_pods)


def find_common(subject: str, name: str, annotations: Iterable[Mapping[str, Any]]) -> str:
    """Return what those objects of a gang say that have an annotation. Raises QuestionError if they differ."""
    texts = {str(text) for each in annotations if (text := each.get(name))}
    if len(texts) > 1:
        found = " and ".join(sorted(texts))
        raise QuestionError(f"{subject}: {name}: {found}: all its pods must say the same")
    return texts.pop() if texts else ""


def read_match(subject: str, text: str) -> GangMatch | None:
    """Return what the annotation says: `ATTRIBUTE` or `ATTRIBUTE;class=CLASS,CLASS`. Raises QuestionError."""
    if not text:
        return None
    attribute, _, rest = text.partition(";")
    word, _, names = rest.partition("=")
    if not re.fullmatch(r"[^/\s\"]+/[A-Za-z_]\w*", attribute) or (rest and (word != "class" or not names)):
        raise QuestionError(
            f"{subject}: {GANG_MATCH_ANNOTATION}: {text}: write DOMAIN/ATTRIBUTE, or DOMAIN/ATTRIBUTE;class=CLASS,CLASS"
        )
    return GangMatch(attribute, tuple(sorted(filter(None, names.split(",")))))


def _others(
    state: ClusterState, namespace: str, more: Iterable[Member], belongs: Callable[[ObjectRecord], bool]
) -> Iterator[ObjectRecord]:
    """Yield the pods of a namespace that belong to a gang and have not ended, but those that are written anew."""
    written = {each.pod.obj.metadata.name.partition("#")[0] for each in more}
    for record in state.objects.of_kind("Pod"):
        metadata = record.obj.metadata
        is_ending = metadata.deletion_timestamp and not record.obj.spec.node_name
        is_there = metadata.namespace == namespace and metadata.name not in written
        if is_there and belongs(record) and not is_over(record.obj) and not is_ending:
            yield record


def _group_of(record: ObjectRecord) -> str:
    group = record.obj.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def _annotation(record: ObjectRecord, name: str) -> str:
    return str(record.obj.metadata.annotations.get(name) or "")


# --- members


def _members(
    state: ClusterState, records: Iterable[ObjectRecord], more: Sequence[Member] = ()
) -> tuple[Member, ...]:
    """Return members in order: pods that are bound, others by name, in which numbers count as such, and new ones."""
    members = [_read_member(state, each) for each in records]
    return (*sorted(members, key=lambda each: (not each.node, natural_order(each.name))), *more)


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return what names are sorted by, in which numbers count as such."""
    return [(int(each or 0), "") if each.isdigit() else (0, each) for each in re.split(r"(\d+)", name)]


def _read_member(state: ClusterState, record: ObjectRecord) -> Member:
    metadata = record.obj.metadata
    if not metadata.uid and not record.obj.spec.node_name:
        # It stands in a file, and nobody has made its claims.
        _, pods = find_pods(state, f"Pod/{metadata.namespace}/{metadata.name}")
        return _member_of(pods.templates[0][0], 1)
    entries = list(resolve_entries(record.obj, state.find_claim, state.has_template))
    claims = [entry.claim for entry in entries if entry.claim is not None]
    node = record.obj.spec.node_name
    problem = next((entry.problem for entry in entries if entry.problem is not None), None)
    problem = NO_GROUP_DEVICES if extended_resources(record.obj) else problem
    return Member(
        record.obj.metadata.name,
        record,
        tuple([each for each in claims if each.status.allocation is None]),
        tuple([each for each in claims if each.status.allocation is not None]),
        Decider.OPERATOR if GATE in find_gates(record) else Decider.KUBE_SCHEDULER,
        None if node else problem,
        node,
    )


def _member_of(template: Template, number: int) -> Member:
    """Return a pod that is still to be made as a member. Raises QuestionError for what is no pod."""
    pod = template.build_pod(number)
    if pod is None:
        raise QuestionError(f"{template.subject}: only pods make a gang")
    claims = template.build_all(number).values()
    return Member(
        template.name(number).partition("/")[2].rstrip('"'),
        pod,
        tuple([each for each in claims if each.status.allocation is None]),
        tuple([each for each in claims if each.status.allocation is not None]),
        template.decider,
        NO_GROUP_DEVICES if template.asks else None,
    )
