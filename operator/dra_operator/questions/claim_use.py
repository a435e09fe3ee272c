"""Claim use: what keeps a pod from devices that are allocated, or from ever having them allocated.

A pod that is bound without kube-scheduler waits in its kubelet until somebody allocates and reserves its claims. One
whose claims are allocated waits for their binding conditions, or is evicted again if an allocation is broken.
Source: k8s.io/kubernetes/pkg/kubelet/cm/dra, PrepareResources; KEP-5007.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra_operator.allocator import Explanation
from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Pod
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceRequestAllocationResult, ResourceClaim
from dra_operator.ledger import ClaimKey
from dra_operator.pods.entries import ClaimLookup, TemplateLookup, resolve_entries
from dra_operator.questions.holders import is_pod_group

_PENDING: Final = "Pending"
_BY_SCHEDULER: Final = (
    "kube-scheduler has that done for pods that it binds, and this one was bound without it; "
    "make the pod anew without spec.nodeName"
)


def find_unprepared(
    pod: Pod, find_claim: ClaimLookup, has_template: TemplateLookup
) -> Explanation | str | None:
    """Return why the kubelet of a bound pod cannot prepare its claims; None if it can, or if the pod runs.

    A text where that is said by the claims themselves, whatever else could be read.
    """
    if pod.status.phase not in ("", _PENDING):
        return None
    for entry in resolve_entries(pod, find_claim, has_template):
        if entry.claim is None:
            if entry.problem is not None:
                return entry.problem
            continue
        problem = _problem_of_use(entry.claim, pod)
        if problem:
            return f'claim "{entry.claim.metadata.name}" is not {problem}: {_BY_SCHEDULER}'
    return None


def _problem_of_use(claim: ResourceClaim, pod: Pod) -> str:
    if claim.status.allocation is None:
        return "allocated"
    # A claim of a group of pods is reserved for the group.
    is_reserved = any(
        each.uid == pod.metadata.uid or is_pod_group(each) for each in claim.status.reserved_for
    )
    return "" if is_reserved else "reserved for it"


def find_obstructed(
    claims: Iterable[ResourceClaim], broken: Mapping[ClaimKey, str]
) -> tuple[str, str] | None:
    """Return what the first allocated claim that a pod cannot use yet comes to, and why: `broken` or `waits`."""
    for claim in claims:
        name = claim.metadata.name
        if (why := broken.get(claim_key(claim))) is not None:
            return "broken", f'claim "{name}": {why}'
        if why := ", ".join(find_unbound(claim)):
            return "waits", f'claim "{name}": {why}'
    return None


def find_unbound(claim: ResourceClaim) -> Iterator[str]:
    """Yield, for each device of an allocation, its binding conditions that are not met, or that its binding failed."""
    if claim.status.allocation is None:
        return
    for result in claim.status.allocation.devices.results:
        conditions = dict(_conditions_of(claim, result))
        path = f"{result.driver}/{result.pool}/{result.device}"
        if failed := [name for name in result.binding_failure_conditions if conditions.get(name) == "True"]:
            yield f"binding device {path} failed ({listed(failed)}), so the claim is to be decided anew"
        elif left := [name for name in result.binding_conditions if conditions.get(name) != "True"]:
            yield f"its driver is to say {listed(left)} of device {path} before the pod is bound"


def _conditions_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> Iterator[tuple[str, str]]:
    """Yield type and status of the conditions of a device, as its driver wrote them."""
    for device in claim.status.devices:
        if isinstance(device, Mapping) and _key(device) == (result.driver, result.pool, result.device):
            conditions = device.get("conditions")
            for each in conditions if isinstance(conditions, list | tuple) else ():
                if isinstance(each, Mapping):
                    yield str(each.get("type")), str(each.get("status"))


def _key(device: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return device.get("driver"), device.get("pool"), device.get("device")
