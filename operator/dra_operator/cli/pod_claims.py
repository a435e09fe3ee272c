"""Pod claims: what the claim controller makes of templates, made in memory.

A pod that names a template has a claim of its own, and the claim controller makes it, in a cluster that runs. In
a file nobody did, so it is made here by the same rules; only the random end of its name is not random, since the
same files must give the same answer. Source: docs/dra-semantics 8.1, kube-controller-manager's `resourceclaim`.
"""

import hashlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from dra_operator.api.core import OwnerReference, Pod, PodResourceClaim
from dra_operator.api.names import OVER, POD_CLAIM_NAME, RANDOM_LETTERS
from dra_operator.api.patterns import LABEL
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim, ResourceClaimSpec
from dra_operator.api.write import to_wire
from dra_operator.cli.gather import Gathered, Thing
from dra_operator.cli.manifests import Place

_LONGEST = 57
"""Bytes of the part of a name before the random end."""
_LONGEST_PREFIX = 58
"""Bytes of a `generateName` that the API server leaves in front of the random end."""
SPECIAL = "extended-resources"
"""What the name of a pod's special claim says, and what its random end depends on."""


def make_claims(gathered: Gathered) -> tuple[list[Thing], list[str]]:
    """Return the claims that pods are still missing, and a line for each that cannot be made or is not there."""
    claims: list[Thing] = []
    # Pods of one workload have the same problems: they are told of the first.
    problems: dict[tuple[Place, str], str] = {}
    _adopt(gathered)
    owned = _owned(gathered)
    for thing in gathered.of("Pod"):
        pod: Pod = thing.obj
        if is_over(pod):
            continue
        slips = [*_odd_entries(thing), *_unknown_entries(thing)]
        # Of entries of one name the last is left, as what is made for an entry is known by its name.
        for entry in {entry.name: entry for entry in pod.spec.resource_claims}.values():
            missing = _missing(gathered, pod, entry, owned)
            if isinstance(missing, str):
                slips.append(missing)
            elif missing is not None:
                claims.append(_make(thing, entry, missing))
        for slip in slips:
            problems.setdefault((thing.place, slip), f"{thing.place}: {subject(pod)}: {slip}")
    return claims, [*problems.values()]


def find_unused_templates(gathered: Gathered) -> Iterator[str]:
    """Yield a line for each template that no pod uses: nothing is decided of it. Those of a cluster are many."""
    used = {
        (thing.obj.metadata.namespace, entry.resource_claim_template_name)
        for thing in gathered.of("Pod")
        for entry in thing.obj.spec.resource_claims
    }
    for thing in gathered.of("ResourceClaimTemplate"):
        metadata = thing.obj.metadata
        if not metadata.uid and (metadata.namespace, metadata.name) not in used:
            name = f'ResourceClaimTemplate "{metadata.namespace}/{metadata.name}"'
            yield f"{thing.place}: {name}: no pod here uses it, so no claim is made of it"


def subject(pod: Pod) -> str:
    """Return how lines name a pod."""
    return f'Pod "{pod.metadata.namespace}/{pod.metadata.name}"'


def _odd_entries(thing: Thing) -> Iterator[str]:
    """Yield what is wrong with the name of each entry, or what it names; the API server refuses such a pod."""
    pod: Pod = thing.obj
    seen: set[str] = set()
    written = (thing.body.get("spec") or {}).get("resourceClaims") or ()
    for entry, fields in zip(pod.spec.resource_claims, written, strict=True):
        if not LABEL.fullmatch(entry.name):
            yield f'entry "{entry.name}": is no name: use lower case letters, digits and -, at most 63 of them'
        elif entry.name in seen:
            yield f'entry "{entry.name}": is the name of two entries: give each a name of its own'
        seen.add(entry.name)
        if entry.resource_claim_name and entry.resource_claim_template_name:
            yield f'entry "{entry.name}": {" and ".join(_FIELDS.values())} are both set: keep one of them'
        elif not (entry.resource_claim_name or entry.resource_claim_template_name or pod.metadata.uid):
            # What an API server has taken may be newer, and name a claim in another way.
            old = (
                "; since Kubernetes 1.31 it stands next to the name, without source"
                if "source" in fields
                else ""
            )
            yield f'entry "{entry.name}": neither {" nor ".join(_FIELDS.values())} is set: set one of them{old}'


def _unknown_entries(thing: Thing) -> Iterator[str]:
    """Yield a line for each claim that a container names and the pod has not; the API server refuses such a pod."""
    known = [entry.name for entry in thing.obj.spec.resource_claims]
    spec = thing.body.get("spec") or {}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            claims = (container.get("resources") or {}).get("claims")
            for number, item in enumerate(claims if isinstance(claims, list) else ()):
                name = item.get("name") if isinstance(item, Mapping) else None
                if isinstance(name, str) and name not in known:
                    path = f"spec.{field}[{index}].resources.claims[{number}].name"
                    has = ", ".join(known) or "none"
                    yield f'{path}: "{name}" is not in spec.resourceClaims, which has {has}'


def is_over(pod: Pod) -> bool:
    """True for a pod that needs no devices any more."""
    return bool(pod.metadata.deletion_timestamp) or pod.status.phase in OVER


def named_claims(pod: Pod) -> list[str]:
    """Return the names of the claims that a pod names, and of those that were made for its entries."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return [name for name in names if name]


def _missing(
    gathered: Gathered, pod: Pod, entry: PodResourceClaim, owned: AbstractSet[tuple[str, str, str, str]]
) -> Thing | str | None:
    """Return the template of which a claim must be made, or what is wrong, or None if there is nothing to do."""
    namespace = pod.metadata.namespace
    template = entry.resource_claim_template_name
    if template is None:
        name = entry.resource_claim_name
        if name is None or ("ResourceClaim", namespace, name) in gathered.things:
            return None
        return _nothing(gathered, entry, "ResourceClaim", namespace, name)
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    if entry.name in made:
        name = made[entry.name]
        # An entry without a name says that no claim is needed.
        if name is None or ("ResourceClaim", namespace, name) in gathered.things:
            return None
    if (namespace, pod.metadata.name, pod.metadata.uid, entry.name) in owned:
        return None
    found = gathered.things.get(("ResourceClaimTemplate", namespace, template))
    return found or _nothing(gathered, entry, "ResourceClaimTemplate", namespace, template)


_FIELDS = {"ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName"}


def _nothing(gathered: Gathered, entry: PodResourceClaim, kind: str, namespace: str, name: str) -> str:
    """Return that there is no object of a kind and name; one of the other kind is often what was meant."""
    text = f'entry "{entry.name}": there is no {kind} "{namespace}/{name}"'
    for other, field in _FIELDS.items():
        if (other, namespace, name) in gathered.things:
            return f"{text}, but a {other} of that name; {field} names one"
    return text


def _adopt(gathered: Gathered) -> None:
    """Give claims that were made here for pods without a uid back to them.

    An owner has a uid, so no owner is written into such a claim; its name, which depends on the pod, says whose it is.
    """
    for thing in gathered.of("Pod"):
        pod = thing.obj.metadata
        if pod.uid:
            continue
        purposes = {
            entry.name: generate_name(pod.name, entry.name) for entry in thing.obj.spec.resource_claims
        }
        for purpose, prefix in (*purposes.items(), (SPECIAL, special_prefix(pod.name))):
            key = "ResourceClaim", pod.namespace, prefix + _end(pod.namespace, pod.name, pod.uid, purpose)
            claim = gathered.things.get(key)
            if claim is not None and not claim.obj.metadata.owner_references:
                owner = OwnerReference(kind="Pod", name=pod.name, controller=True)
                metadata = replace(claim.obj.metadata, owner_references=(owner,))
                gathered.things[key] = replace(claim, obj=replace(claim.obj, metadata=metadata))


def _owned(gathered: Gathered) -> set[tuple[str, str, str, str]]:
    """Return for which pods claims were made: namespace, name and uid of the pod, and its entry."""
    return {
        (claim.metadata.namespace, owner.name, owner.uid, entry)
        for thing in gathered.of("ResourceClaim")
        for claim in (thing.obj,)
        if (entry := claim.metadata.annotations.get(POD_CLAIM_NAME)) is not None
        for owner in claim.metadata.owner_references
        if owner.controller
    }


def generate_name(pod: str, entry: str) -> str:
    """Return what the name of a claim made for an entry of a pod begins with."""
    name = f"{pod}-{entry}-"
    length = len(name)
    if length <= _LONGEST:
        return name
    return f"{pod[: len(pod) * _LONGEST // length]}-{entry[: len(entry) * _LONGEST // length]}"


def special_prefix(pod: str) -> str:
    """Return what the name of a special claim made for a pod begins with."""
    return f"{pod}-{SPECIAL}-"[:_LONGEST_PREFIX]


def _make(thing: Thing, entry: PodResourceClaim, template: Thing) -> Thing:
    wanted = template.obj.spec
    labels, annotations = wanted.metadata.labels, wanted.metadata.annotations
    prefix = generate_name(thing.obj.metadata.name, entry.name)
    return claim_of(
        thing,
        prefix,
        purpose=entry.name,
        spec=wanted.spec,
        labels=labels,
        annotations={**annotations, POD_CLAIM_NAME: entry.name},
    )


def claim_of(
    thing: Thing,
    prefix: str,
    *,
    purpose: str,
    spec: ResourceClaimSpec,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Thing:
    """Return a claim that belongs to a pod; its name is `prefix` with an end that depends on pod and purpose.

    What is written of it names no owner if the pod has no uid: the API server would refuse it.
    """
    pod = thing.obj.metadata
    metadata: dict[str, Any] = {
        "name": prefix + _end(pod.namespace, pod.name, pod.uid, purpose),
        "generateName": prefix,
        "namespace": pod.namespace,
        "annotations": dict(annotations),
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        ],
    }
    if labels:
        metadata["labels"] = dict(labels)
    if pod.creation_timestamp:
        metadata["creationTimestamp"] = pod.creation_timestamp
    body = {**to_wire(ResourceClaim(spec=spec)), "metadata": metadata}
    claim = read_object(body)
    if not pod.uid:
        del metadata["ownerReferences"]
    return Thing(thing.place, body, claim)


def _end(*parts: str) -> str:
    """Return five letters that look random and depend on the parts alone."""
    number = int.from_bytes(hashlib.sha256("/".join(parts).encode()).digest()[:8], "big")
    return "".join(_digits(number))


def _digits(number: int) -> Iterator[str]:
    for _ in range(5):
        number, digit = divmod(number, len(RANDOM_LETTERS))
        yield RANDOM_LETTERS[digit]
