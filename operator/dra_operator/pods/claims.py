"""The claims of pods and PodGroups: what the claim controller makes of templates, made in memory by the same rules.

Only the random end of a name is not random. A PodGroup may have claims, too, one for each entry, and its pods share
those that they name exactly as the group does.
Source: docs/dra-semantics 8.1 and 8.10, kube-controller-manager's `resourceclaim`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dra_operator.allocator.decision import Explanation
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import (
    OwnerReference,
    Pod,
    PodGroup,
    PodResourceClaim,
    PodResourceClaimStatus,
)
from dra_operator.api.kinds import KINDS
from dra_operator.api.names import ENDED_PHASES, POD_CLAIM_NAME, RANDOM_LETTERS
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.read import read_object
from dra_operator.api.text import did_you_mean, near_object
from dra_operator.api.types import AllocationResult, ResourceClaim, ResourceClaimSpec
from dra_operator.api.validation.checks import LABEL, SUBDOMAIN
from dra_operator.api.validation.refusals import find_container_claims
from dra_operator.api.write import to_wire
from dra_operator.inventory.nodes import NodeRecord
from dra_operator.pods.objects import Manifest, ObjectRecord, ObjectSet, Place

_LONGEST = 57
"""Bytes of the part of a name before the random end."""
SPECIAL = "extended-resources"
"""What the name of a pod's special claim says, and what its random end depends on."""
_MIRROR = "kubernetes.io/config.mirror"
"""What the kubelet writes on a static pod."""
_MOST_OF_GROUP = 4
"""Claims that a PodGroup can have. Source: k8s.io/api/scheduling, `MaxPodGroupResourceClaims`."""

Owner: TypeAlias = Pod | PodGroup
"""What claims are made for."""
PodKey: TypeAlias = tuple[str, str, str]
"""Namespace, name and uid."""
_EntryKey: TypeAlias = tuple[str, str, str, str, str]
"""Kind, namespace, name and uid of an owner, and the name of its entry."""


def make_claims(objects: ObjectSet) -> tuple[list[ObjectRecord], list[str]]:
    """Return the claims that pods and groups are still missing, and a line for each that cannot be made or found.

    Pods get to know the claims of their groups.
    """
    claims: list[ObjectRecord] = []
    # Pods of one workload have the same problems: they are told of the first.
    problems: dict[tuple[Place, str], str] = {}
    _adopt(objects)
    made = _made(objects)
    for record in (*objects.of_kind("PodGroup"), *objects.of_kind("Pod")):
        owner: Owner = record.obj
        if is_over(owner):
            continue
        slips = [*_odd_entries(record), *find_unknown_entries(objects, record)]
        for entry in () if _is_static(owner) else _own_entries(objects, owner):
            missing = _missing(objects, owner, entry, made)
            if isinstance(missing, str):
                slips.append(missing)
            elif missing is not None:
                claim = _make(record, entry, missing)
                name = claim.obj.metadata.name
                if SUBDOMAIN.fullmatch(name):
                    claims.append(claim)
                    made[_entry_key(owner, entry.name)] = name
                elif LABEL.fullmatch(entry.name):
                    slips.append(_unnamed(entry, name))
        for slip in slips:
            problems.setdefault((record.place, slip), f"{record.place}: {subject(owner)}: {slip}")
    _share(objects, made)
    return claims, [*problems.values()]


def _unnamed(entry: PodResourceClaim, name: str) -> str:
    """Return that a claim cannot have its name: the claim controller cuts long ones, and may cut at a dot."""
    text = f'entry "{entry.name}": its claim cannot be made, as "{name}" is no name of an object'
    return f"{text}: change the name of the entry, or of what it belongs to"


def _own_entries(objects: ObjectSet, owner: Owner) -> Iterator[PodResourceClaim]:
    """Yield the entries of a pod or group that are not those of its group.

    Of entries of one name the last is left, as what is made for an entry is known by its name.
    """
    group = _find_group(objects, owner)
    shared = group.spec.resource_claims if group is not None else ()
    for entry in {entry.name: entry for entry in owner.spec.resource_claims}.values():
        if entry not in shared:
            yield entry


def _find_group(objects: ObjectSet, owner: Owner) -> PodGroup | None:
    name = _group_name(owner)
    record = objects.records.get(("PodGroup", owner.metadata.namespace, name)) if name else None
    return None if record is None else record.obj


def _group_name(owner: Owner) -> str | None:
    group = owner.spec.scheduling_group if isinstance(owner, Pod) else None
    return None if group is None else group.pod_group_name


def _share(objects: ObjectSet, made: Mapping[_EntryKey, str]) -> None:
    """Record the claims made for a group in the status of its pods, as the claim controller does."""
    for record in objects.of_kind("Pod"):
        pod: Pod = record.obj
        group = _find_group(objects, pod)
        if group is None:
            continue
        statuses = {status.name: status for status in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name and entry in group.spec.resource_claims:
                name = _claim_made(objects, group, entry.name, made)
                statuses.setdefault(entry.name, PodResourceClaimStatus(entry.name, name))
        status = replace(pod.status, resource_claim_statuses=tuple(statuses.values()))
        key = "Pod", pod.metadata.namespace, pod.metadata.name
        objects.records[key] = replace(record, obj=replace(pod, status=status))


def find_unused_templates(objects: ObjectSet) -> Iterator[str]:
    """Yield a line for each template that no pod uses: nothing is decided of it. Those of a cluster are many."""
    used = {
        (record.obj.metadata.namespace, entry.resource_claim_template_name)
        for kind in ("Pod", "PodGroup")
        for record in objects.of_kind(kind)
        for entry in record.obj.spec.resource_claims
    }
    for record in objects.of_kind("ResourceClaimTemplate"):
        metadata = record.obj.metadata
        if not metadata.uid and (metadata.namespace, metadata.name) not in used:
            name = f'ResourceClaimTemplate "{metadata.namespace}/{metadata.name}"'
            yield f"{record.place}: {name}: no pod here uses it, so no claim is made of it"


def subject(owner: Owner) -> str:
    """Return how lines name a pod or a group."""
    return f'{type(owner).__name__} "{owner.metadata.namespace}/{owner.metadata.name}"'


def _odd_entries(record: ObjectRecord) -> Iterator[str]:
    """Yield what is wrong with the name of each entry, or what it names; the API server refuses such an object."""
    owner: Owner = record.obj
    entries = owner.spec.resource_claims
    if isinstance(owner, PodGroup) and len(entries) > _MOST_OF_GROUP:
        yield f"spec.resourceClaims: {len(entries)} are more than the {_MOST_OF_GROUP} that a PodGroup can have"
    if entries and _is_static(owner):
        yield "static pods do not support resource claims: the API server refuses it"
    seen: set[str] = set()
    for entry in entries:
        if not LABEL.fullmatch(entry.name):
            yield f'entry "{entry.name}": is no name: use lower case letters, digits and -, at most 63 of them'
        elif entry.name in seen:
            yield f'entry "{entry.name}": is the name of two entries: give each a name of its own'
        seen.add(entry.name)
        if entry.resource_claim_name and entry.resource_claim_template_name:
            yield f'entry "{entry.name}": {" and ".join(_FIELDS.values())} are both set: keep one of them'
        elif not (entry.resource_claim_name or entry.resource_claim_template_name or owner.metadata.uid):
            # What an API server has taken may be newer, and name a claim in another way.
            yield f'entry "{entry.name}": neither {" nor ".join(_FIELDS.values())} is set: set one of them'


def _is_static(owner: Owner) -> bool:
    return _MIRROR in owner.metadata.annotations


def find_unknown_entries(objects: ObjectSet, record: ObjectRecord) -> Iterator[str]:
    """Yield a line for each claim, or request of one, that a container names and there is not.

    The API server refuses a pod with another claim. A request that is not there is taken: the kubelet gives the
    container no device, and says nothing.
    """
    owner: Owner = record.obj
    entries = {entry.name: entry for entry in owner.spec.resource_claims}
    for path, name, request in find_container_claims(record.body):
        if isinstance(name, str) and name not in entries:
            yield f'{path}.name: "{name}" is not in spec.resourceClaims, which has {", ".join(entries) or "none"}'
        elif isinstance(name, str) and isinstance(request, str) and request:
            known = _find_requests(objects, owner, entries[name])
            if problem := _request_problem(request, known):
                yield f"{path}.request: {problem}"


def _find_requests(objects: ObjectSet, owner: Owner, entry: PodResourceClaim) -> list[str] | None:
    """Return the names of the requests of an entry's claim, or of its template; None if nobody knows."""
    namespace = owner.metadata.namespace
    made = {
        each.name: each.resource_claim_name for each in getattr(owner.status, "resource_claim_statuses", ())
    }
    name = entry.resource_claim_name or made.get(entry.name) or ""
    if (found := objects.records.get(("ResourceClaim", namespace, name))) is not None:
        spec = found.obj.spec
    else:
        template = entry.resource_claim_template_name or ""
        found = objects.records.get(("ResourceClaimTemplate", namespace, template))
        spec = None if found is None else found.obj.spec.spec
    return None if spec is None else [request.name for request in spec.devices.requests]


def _request_problem(name: str, known: Collection[str] | None) -> str:
    """Return what is wrong with the name of a request in a container, or nothing."""
    if known is None or name in known:
        return ""
    has, hint = ", ".join(known) or "none", did_you_mean(near_object(name, known))
    return f'"{name}" is no request of its claim, which has {has}, so the container gets no device{hint}'


def find_unknown_mappings(
    record: ObjectRecord, find_claim: Callable[[tuple[str, str]], ResourceClaim | None]
) -> Iterator[str]:
    """Yield a line for each resource of a pod that its status maps to a request which the claim made for it lacks."""
    pod: Pod = record.obj
    status = (record.body.get("status") or {}).get("extendedResourceClaimStatus") or {}
    claim = find_claim((pod.metadata.namespace, str(status.get("resourceClaimName") or "")))
    known = [] if claim is None else [request.name for request in claim.spec.devices.requests]
    for item in status.get("requestMappings") or () if claim is not None else ():
        name = str(item.get("requestName")) if isinstance(item, Mapping) else ""
        if name and name not in known:
            yield (
                f'{item.get("resourceName")} of container {item.get("containerName")} is mapped to request "{name}", '
                f'which claim "{status["resourceClaimName"]}" does not have: the container gets no device'
            )


def can_use(allocation: AllocationResult, node: NodeRecord) -> bool:
    """Return whether pods on a node can use an allocation. Source: kube-scheduler's Filter, docs/dra-semantics 8.2."""
    if allocation.skips_node_operations and not node.skips_operations:
        return False
    try:
        return allocation.node_selector is None or matches(allocation.node_selector, node.name, node.labels)
    except NodeSelectorError:
        return False


def is_over(owner: Owner) -> bool:
    """True for a pod that needs no devices any more, and for a group that gets no claims any more."""
    return bool(owner.metadata.deletion_timestamp) or (
        isinstance(owner, Pod) and owner.status.phase in ENDED_PHASES
    )


def named_claims(pod: Pod) -> list[str]:
    """Return the names of the claims that a pod names, and of those that were made for its entries."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return [name for name in names if name]


def pod_key(pod: Pod) -> PodKey:
    """Return what a pod is known by. One of a file may have no uid, and then the owner of its claim has none either."""
    return pod.metadata.namespace, pod.metadata.name, pod.metadata.uid


def _missing(
    objects: ObjectSet, owner: Owner, entry: PodResourceClaim, made: Mapping[_EntryKey, str]
) -> ObjectRecord | str | None:
    """Return the template of which a claim must be made, or what is wrong, or None if there is nothing to do."""
    namespace = owner.metadata.namespace
    template = entry.resource_claim_template_name
    if template is None:
        name = entry.resource_claim_name
        if name is None or ("ResourceClaim", namespace, name) in objects.records:
            return None
        return _nothing(objects, entry, "ResourceClaim", namespace, name)
    # An entry of the status without a name says that no claim is needed.
    if PodResourceClaimStatus(entry.name) in owner.status.resource_claim_statuses:
        return None
    if _claim_made(objects, owner, entry.name, made) is not None:
        return None
    if (group := _group_name(owner)) and _find_group(objects, owner) is None:
        # The claim controller makes no claim either, as it may be the one of the group.
        text = f'spec.schedulingGroup.podGroupName: there is no PodGroup "{namespace}/{group}"'
        return text + _meant(objects, "PodGroup", namespace, group)
    found = objects.records.get(("ResourceClaimTemplate", namespace, template))
    return found or _nothing(objects, entry, "ResourceClaimTemplate", namespace, template)


def _claim_made(objects: ObjectSet, owner: Owner, entry: str, made: Mapping[_EntryKey, str]) -> str | None:
    """Return the name of the claim that was made for an entry, or None if there is none."""
    for status in owner.status.resource_claim_statuses:
        name = status.resource_claim_name
        if status.name == entry and ("ResourceClaim", owner.metadata.namespace, name) in objects.records:
            return name
    return made.get(_entry_key(owner, entry))


_FIELDS = {"ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName"}


def _nothing(objects: ObjectSet, entry: PodResourceClaim, kind: str, namespace: str, name: str) -> str:
    """Return that there is no object of a kind and name; one of the other kind is often what was meant."""
    text = f'entry "{entry.name}": there is no {kind} "{namespace}/{name}"'
    for other, named_by in _FIELDS.items():
        if (other, namespace, name) in objects.records:
            return f"{text}, but a {other} of that name; {named_by} names one"
    return text + _meant(objects, kind, namespace, name)


def _meant(objects: ObjectSet, kind: str, namespace: str, name: str) -> str:
    """Return the name that was probably meant, in the words of messages about classes, or nothing."""
    names = [
        record.obj.metadata.name
        for record in objects.of_kind(kind)
        if record.obj.metadata.namespace == namespace
    ]
    return did_you_mean(near_object(name, names))


def _adopt(objects: ObjectSet) -> None:
    """Give claims that were made here for pods and groups without a uid back to them.

    An owner has a uid, so no owner is written into such a claim; its name, which depends on the owner, says whose it
    is.
    """
    for record in (*objects.of_kind("Pod"), *objects.of_kind("PodGroup")):
        owner: Owner = record.obj
        metadata = owner.metadata
        if metadata.uid:
            continue
        purposes = {
            entry.name: generate_name(metadata.name, entry.name) for entry in owner.spec.resource_claims
        }
        for purpose, prefix in (*purposes.items(), (SPECIAL, special_prefix(metadata.name))):
            key = "ResourceClaim", metadata.namespace, _name(owner, prefix, purpose)
            claim = objects.records.get(key)
            if claim is not None and not claim.obj.metadata.owner_references:
                reference = OwnerReference(type(owner).__name__, metadata.name, controller=True)
                adopted = replace(claim.obj.metadata, owner_references=(reference,))
                objects.records[key] = replace(claim, obj=replace(claim.obj, metadata=adopted))


def _entry_key(owner: Owner, entry: str) -> _EntryKey:
    metadata = owner.metadata
    return type(owner).__name__, metadata.namespace, metadata.name, metadata.uid, entry


def _made(objects: ObjectSet) -> dict[_EntryKey, str]:
    """Return the names of the claims that were made, by what they were made for."""
    return {
        (owner.kind, claim.metadata.namespace, owner.name, owner.uid, entry): claim.metadata.name
        for record in objects.of_kind("ResourceClaim")
        for claim in (record.obj,)
        if (entry := claim.metadata.annotations.get(POD_CLAIM_NAME)) is not None
        for owner in claim.metadata.owner_references
        if owner.controller
    }


def generate_name(owner: str, entry: str) -> str:
    """Return what the name of a claim made for an entry of a pod or a group begins with."""
    name = f"{owner}-{entry}-"
    length = len(name)
    if length <= _LONGEST:
        return name
    return f"{owner[: len(owner) * _LONGEST // length]}-{entry[: len(entry) * _LONGEST // length]}"


def special_prefix(pod: str) -> str:
    """Return what the name of a special claim made for a pod begins with."""
    return f"{pod}-{SPECIAL}-"[:MOST_OF_PREFIX]


def _make(record: ObjectRecord, entry: PodResourceClaim, template: ObjectRecord) -> ObjectRecord:
    wanted = template.obj.spec
    labels, annotations = wanted.metadata.labels, wanted.metadata.annotations
    prefix = generate_name(record.obj.metadata.name, entry.name)
    return build_claim(
        record,
        prefix,
        purpose=entry.name,
        spec=wanted.spec,
        labels=labels,
        annotations={**annotations, POD_CLAIM_NAME: entry.name},
    )


def build_claim(
    record: ObjectRecord,
    prefix: str,
    *,
    purpose: str,
    spec: ResourceClaimSpec,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> ObjectRecord:
    """Return a claim that belongs to a pod or a group; its name is `prefix` with an end that depends on both.

    What is written of it names no owner if that has no uid: the API server would refuse it.
    """
    owner = record.obj.metadata
    kind = KINDS[type(record.obj).__name__]
    reference = {
        "apiVersion": kind.api_version(kind.versions[0]),
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    metadata: dict[str, Any] = {
        "name": _name(record.obj, prefix, purpose),
        "generateName": prefix,
        "namespace": owner.namespace,
        "annotations": dict(annotations),
        "ownerReferences": [reference],
    }
    if labels:
        metadata["labels"] = dict(labels)
    if owner.creation_timestamp:
        metadata["creationTimestamp"] = owner.creation_timestamp
    body = {**to_wire(ResourceClaim(spec=spec)), "metadata": metadata}
    claim = read_object(body)
    if not owner.uid:
        del metadata["ownerReferences"]
    return ObjectRecord(record.place, body, claim)


def _name(owner: Owner, prefix: str, purpose: str) -> str:
    """Return the name of a claim for a purpose; for a pod and a group of one name there are two."""
    metadata = owner.metadata
    kind = () if isinstance(owner, Pod) else (type(owner).__name__,)
    return name_from(prefix, *kind, metadata.namespace, metadata.name, metadata.uid, purpose)


# --- Generated names: what the API server makes of a `generateName`, with an end that only looks random.
# The same objects must give the same answer, so the end depends on what the name is for, and on nothing else.

MOST_OF_PREFIX = 58
"""Bytes of a `generateName` that the API server leaves in front of the random end."""


def name_from(prefix: str, *parts: str) -> str:
    """Return a name that begins with a `generateName` and ends with five letters that depend on some parts."""
    number = int.from_bytes(
        hashlib.sha256("/".join(parts).encode(errors="surrogatepass")).digest()[:8], "big"
    )
    count = len(RANDOM_LETTERS)
    return prefix[:MOST_OF_PREFIX] + "".join(
        RANDOM_LETTERS[number // count**place % count] for place in range(5)
    )


def with_name(manifest: Manifest, given: Counter[tuple[str, ...]]) -> Manifest:
    """Return a manifest that has only a `generateName` with a name, if it can have one.

    `given` counts how many names there are for each kind, namespace and `generateName`: each is another one.
    """
    metadata = manifest.body.get("metadata")
    # A name of another type is for the reader to refuse.
    if not isinstance(metadata, Mapping) or metadata.get("name") not in (None, ""):
        return manifest
    prefix = metadata.get("generateName")
    if not isinstance(prefix, str) or not prefix:
        return manifest
    key = str(manifest.body.get("kind")), str(metadata.get("namespace") or ""), prefix
    given[key] += 1
    name = name_from(prefix, *key, str(given[key]))
    return replace(manifest, body={**manifest.body, "metadata": {**metadata, "name": name}})


# --- The claims of a pod by entry of `spec.resourceClaims`, and what is wrong with an entry before anything is
# decided.
# Source: k8s.io/dynamic-resource-allocation/resourceclaim, `Name` and `IsForPod`; docs/dra-semantics 8.1 and 8.10.


MOST_CONSUMERS = 256
"""Source: k8s.io/api/resource/v1, `ResourceClaimReservedForMaxSize`."""
ClaimLookup = Callable[[tuple[str, str]], ResourceClaim | None]
"""Returns the claim of a namespace and name, or None."""
TemplateLookup = Callable[[tuple[str, str]], bool | None]
"""Tells whether there is a template of a namespace and name; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class PodEntry:
    """An entry of a pod: its name, its claim, and what is wrong with it.

    Without claim and problem it needs no claim: the claim controller found no template to make one of.
    """

    name: str
    claim: ResourceClaim | None = None
    problem: Explanation | None = None


def resolve_entries(pod: Pod, find_claim: ClaimLookup, has_template: TemplateLookup) -> Iterator[PodEntry]:
    """Yield the entries of a pod, each claim once: an entry that names a claim again adds nothing."""
    seen: set[str] = set()
    for entry in pod.spec.resource_claims:
        found = _resolve(pod, entry, find_claim, has_template)
        if found.claim is not None:
            if found.claim.metadata.name in seen:
                continue
            seen.add(found.claim.metadata.name)
        yield found


def _resolve(
    pod: Pod, entry: PodResourceClaim, find_claim: ClaimLookup, has_template: TemplateLookup
) -> PodEntry:
    namespace = pod.metadata.namespace
    name = entry.resource_claim_name
    if name is None:
        status = next((item for item in pod.status.resource_claim_statuses if item.name == entry.name), None)
        if status is None:
            return PodEntry(entry.name, problem=_not_created(namespace, entry, has_template))
        if status.resource_claim_name is None:
            return PodEntry(entry.name)
        name = status.resource_claim_name
    claim = find_claim((namespace, name))
    if claim is None:
        text = f'there is no ResourceClaim "{name}"'
        return PodEntry(entry.name, problem=Explanation(Reason.CLAIM_NOT_FOUND, text))
    return PodEntry(entry.name, claim, _problem_of(pod, entry, claim))


def _not_created(namespace: str, entry: PodResourceClaim, has_template: TemplateLookup) -> Explanation:
    """Return why an entry has no claim yet: kube-controller-manager makes it, where it can."""
    template = entry.resource_claim_template_name
    if template is None:
        text = "it names neither a ResourceClaim nor a ResourceClaimTemplate"
        return Explanation(Reason.CLAIM_NOT_FOUND, text)
    if has_template((namespace, template)) is False:
        return Explanation(Reason.TEMPLATE_NOT_FOUND, f'there is no ResourceClaimTemplate "{template}"')
    text = (
        f'no claim has been created from ResourceClaimTemplate "{template}": a quota or an admission policy refuses it '
        "(then the pod has an Event FailedResourceClaimCreation), or kube-controller-manager does not run"
    )
    return Explanation(Reason.CLAIM_NOT_CREATED, text)


def _problem_of(pod: Pod, entry: PodResourceClaim, claim: ResourceClaim) -> Explanation | None:
    metadata = claim.metadata
    if entry.resource_claim_name is None and not _is_for(pod, claim):
        text = f'ResourceClaim "{metadata.name}" was not created for this pod; delete the pod, or that claim'
        return Explanation(Reason.CLAIM_NOT_FOR_POD, text)
    if metadata.deletion_timestamp is not None:
        text = f'ResourceClaim "{metadata.name}" is being deleted'
        return Explanation(Reason.CLAIM_NOT_FOUND, text)
    consumers = claim.status.reserved_for
    if len(consumers) >= MOST_CONSUMERS and all(each.uid != pod.metadata.uid for each in consumers):
        text = (
            f'ResourceClaim "{metadata.name}" is reserved for {len(consumers)} pods, and no more can use it'
        )
        return Explanation(Reason.CLAIM_RESERVED_TOO_OFTEN, text)
    return None


def _is_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether a claim was made for a pod, or for its group."""
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    if owner is None:
        return False
    if owner.kind == "PodGroup":
        group = pod.spec.scheduling_group
        return group is not None and group.pod_group_name == owner.name
    return owner.uid == pod.metadata.uid
