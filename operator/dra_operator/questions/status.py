"""Status: whether an operator decides in a cluster, what it owns, how far its pods are, and what is in its way.

Source: docs/ownership.md; docs/pods.md, "Gated pods".
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.names import (
    GATES_POLICY,
    LEASE_NAME,
    MAINTENANCE_POLICY,
    OWNED_POLICY,
    OWNED_RULES_POLICY,
    OWNED_TOLERATIONS_POLICY,
)
from dra_operator.api.text import listed
from dra_operator.inventory.ownership import has_settled
from dra_operator.pods.gate import SchedulingPod, read_scheduling_pod
from dra_operator.questions.answers import STATUS, Conclusion, conclude
from dra_operator.questions.fault_texts import find_owners
from dra_operator.questions.operator_lease import OperatorLease, find_lease, is_lease_known
from dra_operator.questions.state import ClusterState
from dra_operator.questions.usage import find_usage
from dra_operator.questions.waiting import find_waiting

_MEANINGS: Final = (
    (OWNED_POLICY, "Validating", "keeps others from allocating owned devices"),
    (OWNED_RULES_POLICY, "Validating", "keeps rules that own devices as they were created"),
    (OWNED_TOLERATIONS_POLICY, "Validating", "keeps claims from tolerating the taint of owned devices"),
    (MAINTENANCE_POLICY, "Validating", "keeps everybody from devices that are out of service"),
    (GATES_POLICY, "Validating", "keeps the operator to its gate and the nomination of pods"),
    (GATES_POLICY, "Mutating", "gives pods of managed namespaces the gate"),
)
"""The policies that the project ships: name, sort, what they bring about."""
_LABEL: Final = "app.kubernetes.io/name"
_OPERATOR: Final = "dra-operator"


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """A policy that the project ships; it has an effect if it `is_installed` and `is_bound`."""

    name: str
    sort: str
    meaning: str
    is_installed: bool
    is_bound: bool


@dataclass(frozen=True, slots=True)
class GatedCount:
    """How many pods are so far, and the creation of the oldest, RFC 3339. States are those of the metric."""

    state: str
    count: int
    oldest: str | None


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Who decides, and what for. `decides` is None if it cannot be said; `faults` say what is wrong, and what to do.

    `pods` are the operator's own, `ready` those of them that are. Of the `owners` (rules, slices) `settled` rules are
    marked so by an operator. `waiting` is how many pods and claims wait; `oldest` names the one that has longest.
    """

    decides: bool | None
    operator: str
    pods: int
    ready: int
    policies: tuple[PolicyStatus, ...]
    owners: tuple[str, ...]
    settled: int
    owned_devices: int
    gated: tuple[GatedCount, ...]
    waiting: int
    oldest: str
    oldest_created: str | None
    faults: tuple[str, ...]
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether an operator decides, and nothing is wrong with that."""
        return conclude(
            is_yes=self.decides is True and not self.faults,
            # What is found is wrong, whatever could not be read.
            is_partial=not self.faults and (self.decides is None or bool(self.partial)),
        )


def find_status(state: ClusterState) -> StatusReport:
    """Return the status of the operator in a cluster. Raises QuestionError."""
    missing = STATUS.find_missing(state.unread)
    lease, is_known = find_lease(state), is_lease_known(state)
    decides = lease is not None and not lease.is_stale if is_known else None
    pods = [
        record
        for record in state.objects.of_kind("Pod")
        if record.obj.metadata.labels.get(_LABEL) == _OPERATOR and not record.obj.metadata.deletion_timestamp
    ]
    ready = [record for record in pods if _is_ready(record.body.get("status") or {})]
    policies = tuple(_find_policies(state))
    owners = find_owners(state.objects)
    gated = _count_gated(state)
    waiting = find_waiting(state)
    oldest = waiting.items[0] if waiting.items else None
    return StatusReport(
        decides,
        lease.text if lease else f"there is no Lease {LEASE_NAME}" if is_known else "its Lease is not known",
        len(pods),
        len(ready),
        policies,
        tuple(owners),
        sum(1 for record in state.objects.of_kind("DeviceTaintRule") if has_settled(record.obj)),
        sum(row.owned for row in find_usage(state).rows),
        gated,
        len(waiting.items),
        f"{oldest.kind} {oldest.namespace}/{oldest.name}" if oldest else "",
        oldest.created if oldest else None,
        tuple(_find_faults(lease, policies, owners, gated, len(ready), decides=decides)),
        tuple(dict.fromkeys((*missing, *waiting.partial))),
    )


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions")
    return any(
        isinstance(each, Mapping) and (each.get("type"), each.get("status")) == ("Ready", "True")
        for each in (conditions if isinstance(conditions, list) else ())
    )


def _find_policies(state: ClusterState) -> Iterator[PolicyStatus]:
    found = state.objects.of_operator
    for name, sort, meaning in _MEANINGS:
        kind = f"{sort}AdmissionPolicy"
        if kind not in state.unread:
            keys = (kind, "", name), (f"{kind}Binding", "", name)
            yield PolicyStatus(name, sort, meaning, *(key in found for key in keys))


def _count_gated(state: ClusterState) -> tuple[GatedCount, ...]:
    """Return how many pods wait for a decision, are with kube-scheduler, or were handed back by it."""
    times = defaultdict[str, list[str]](list)
    for record in state.objects.of_kind("Pod"):
        pod = read_scheduling_pod(record.body)
        if pod is None or not pod.is_active or pod.node:
            continue
        if state_name := _find_gated_state(state, pod):
            times[state_name].append(pod.creation)
    return tuple([GatedCount(name, len(found), min(found) or None) for name, found in sorted(times.items())])


def _find_gated_state(state: ClusterState, pod: SchedulingPod) -> str:
    if pod.is_gated:
        return "waiting"
    if pod.let_go is None:
        return ""
    claims = [state.find_claim((pod.namespace, name)) for name in pod.claims]
    is_lost = pod.unschedulable is not None and any(
        claim is not None and claim.status.allocation is None for claim in claims
    )
    return "handed back" if is_lost else "let go"


def _find_faults(
    lease: OperatorLease | None,
    policies: Sequence[PolicyStatus],
    owners: Sequence[str],
    gated: Sequence[GatedCount],
    ready: int,
    *,
    decides: bool | None,
) -> Iterator[str]:
    counts = {each.state: each.count for each in gated}
    needs = [f"pods have its gate ({counts['waiting']})"] if "waiting" in counts else []
    needs += [f"devices are owned by {listed(owners)}"] if owners else []
    if decides is False:
        what = f", though {' and '.join(needs)}" if needs else ""
        if lease is None:
            # With leader_election none there is no Lease.
            yield f"no operator decides{what}: it was never installed, or is uninstalled"
        elif ready:
            yield f"pods of the operator are ready ({ready}) and none decides{what}: see their /readyz and logs"
        else:
            yield f"no operator decides{what}: see why its Deployment has no ready pod"
    installed = {(each.name, each.sort): each.is_installed and each.is_bound for each in policies}
    if owners and decides and installed.get((OWNED_POLICY, "Validating")) is False:
        yield (
            f"devices are owned, and policy {OWNED_POLICY} is not installed: kube-scheduler may store allocations of "
            "them that it decided before; apply components/ownership (Kubernetes 1.37 or newer)"
        )
    for each in policies:
        if each.is_installed and not each.is_bound:
            yield f"{each.sort}AdmissionPolicy {each.name} has no binding, and no effect: apply its component again"
    if "handed back" in counts:
        yield f"pods were handed back ({counts['handed back']}): see their Events, and delete them to try again"
