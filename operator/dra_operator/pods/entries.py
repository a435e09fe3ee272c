"""The claims of a pod by entry of `spec.resourceClaims`, and what is wrong with an entry before anything is decided.

Source: k8s.io/dynamic-resource-allocation/resourceclaim, `Name` and `IsForPod`; docs/dra-semantics 8.1 and 8.10.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dra_operator.allocator import Explanation, Reason
from dra_operator.api.core import Pod, PodResourceClaim
from dra_operator.api.types import ResourceClaim

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
