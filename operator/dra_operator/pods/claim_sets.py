"""Claim sets: the claims that are decided together, all of them on one node or none.

kube-scheduler decides the claims of a pod so, for a node on which the pod can run and can use those that are allocated
already. A claim that several pods use belongs to the first of them that gets its claims. One that no pod uses is a set
of its own, which the operator decides.
Source: docs/dra-semantics 8.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decider, Decision, Explanation, Unsatisfied
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod, PodResourceClaimStatus
from dra_operator.api.names import GATE, POD_CLAIM_NAME
from dra_operator.api.types import ResourceClaim, ResourceClaimSpec
from dra_operator.pods.claims import ClaimsOfPods, is_over
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.gate import gets_gate
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.nodes import usable
from dra_operator.pods.objects import ObjectRecord, ObjectSet, by_age, by_priority
from dra_operator.pods.scheduler import Outcome, Scheduler, by_name, pending
from dra_operator.pods.workloads import node_of

_Key: TypeAlias = tuple[str, str]
"""Namespace and name of a claim."""


@dataclass(frozen=True, slots=True)
class ClaimSet:
    """Claims, and the pod that uses them, which is None for a claim that no pod uses.

    `is_gated`: the pod has the operator's gate, or gets it.
    """

    claims: tuple[ObjectRecord, ...]
    pod: ObjectRecord | None = None
    is_gated: bool = False

    @property
    def decider(self) -> Decider:
        """Who decides it: the operator, if its pod is gated, or no pod uses it and no controller owns it.

        Its pod may not be here.
        """
        if self.is_gated:
            return Decider.OPERATOR
        is_of_pod = self.pod is not None or any(
            record.obj.metadata.is_made_for_pods for record in self.claims
        )
        return Decider.KUBE_SCHEDULER if is_of_pod else Decider.OPERATOR


def make_sets(objects: ObjectSet, claims: Sequence[ObjectRecord]) -> list[ClaimSet]:
    """Return the sets in the order in which they are decided: by priority, then by the age of the pod or of the claim.

    So kube-scheduler sorts pods; a claim that no pod uses has the priority of a pod without one. Pods of DaemonSets
    come last: they have a node, and the others may choose.
    """
    by_pod = ClaimsOfPods(claims, lambda record: record.obj)
    sets: list[ClaimSet] = []
    used: set[_Key] = set()
    for pod in objects.of_kind("Pod"):
        of_pod = () if is_over(pod.obj) else sorted(by_pod.of_pod(pod.obj), key=by_age)
        used.update(map(_key, of_pod))
        if of_pod:
            has_gate = any(gate.name == GATE for gate in pod.obj.spec.scheduling_gates)
            sets.append(ClaimSet(tuple(of_pod), pod, has_gate or gets_gate(pod, objects)))
    sets += [ClaimSet((record,)) for record in claims if _key(record) not in used]
    return sorted(sets, key=_order)


def _order(item: ClaimSet) -> tuple[object, ...]:
    if item.pod is None:
        return False, 0, by_age(item.claims[0])
    return node_of(item.pod) is not None, *by_priority(item.pod)


def decide(sets: Iterable[ClaimSet], scheduler: Scheduler) -> list[Outcome]:
    """Decide some sets one after the other and return what their claims come to, by namespace and name.

    As in the operator, those that wait are explained when all are decided: what an older claim waits for may have
    gone to a younger one that asks for less.
    """
    return _SetDecider(scheduler).decide(sets)


class _SetDecider:
    """What claims have come to so far."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._are_nodes_given = bool(scheduler.objects.of_kind("Node"))
        self._outcomes: dict[_Key, Outcome] = {}
        self._records: dict[_Key, ObjectRecord] = {}
        self._explainers = {
            decider: PodExplainer(
                explainer,
                scheduler.placement.cluster,
                self._find_claim,
                lambda _: True,
                decider,
                limits=Limits(),
            )
            for decider, explainer in scheduler.explainers.items()
        }
        self._explained: dict[object, tuple[Outcome, object]] = {}
        """Of claims that ask for the same one is explained; beside it is what its key goes by."""

    def decide(self, sets: Iterable[ClaimSet]) -> list[Outcome]:
        sets = list(sets)
        self._records = {_key(record): record for item in sets for record in item.claims}
        waiting: dict[_Key, tuple[ClaimSet, Decision]] = {}
        for item in sets:
            for record in item.claims:
                if (found := self._scheduler.settled(record)) is not None:
                    self._outcomes[_key(record)] = found
            if not (open_claims := self._open(item)):
                self._place(item)
                continue
            decision = self._allocate(item, open_claims)
            if isinstance(decision, Allocated):
                self._outcomes |= {
                    _key(outcome.record): outcome for outcome in self._scheduler.accept(open_claims, decision)
                }
                if item.pod is not None and not self._scheduler.placement.is_placed(item.pod):
                    self._scheduler.placement.place(item.pod, decision.node)
            else:
                for record in open_claims:
                    waiting.setdefault(_key(record), (item, decision))
        told: dict[_Key, Outcome] = {}
        for key, (item, decision) in waiting.items():
            if key not in self._outcomes and key not in told:
                told = {**self._explain(item, decision), **told}
        return sorted({**told, **self._outcomes}.values(), key=by_name)

    def _allocate(self, item: ClaimSet, claims: Sequence[ObjectRecord]) -> Decision:
        nodes = self._nodes(item)
        if item.pod is None or not self._are_nodes_given:
            return self._scheduler.allocate(claims, nodes, decider=item.decider)
        return self._scheduler.allocate_for_pod(claims, nodes, decider=item.decider)

    def _open(self, item: ClaimSet) -> list[ObjectRecord]:
        """Return the claims of a set that have come to nothing yet."""
        return [record for record in item.claims if _key(record) not in self._outcomes]

    def _nodes(self, item: ClaimSet) -> tuple[str, ...] | None:
        """Return the nodes on which the claims of a set can be used by their pod; None for all."""
        nodes = self._scheduler.nodes
        runnable = None if item.pod is None else self._find_runnable(item.pod)
        outcomes = [self._outcomes.get(_key(record)) for record in item.claims]
        allocations = [
            outcome.allocation for outcome in outcomes if outcome is not None and outcome.allocation
        ]
        if not allocations:
            return runnable
        return tuple(usable(nodes, nodes if runnable is None else runnable, allocations))

    def _find_runnable(self, pod: ObjectRecord) -> tuple[str, ...] | None:
        """Return the nodes on which a pod can run; None for all."""
        is_bound = pod.obj.spec.node_name or node_of(pod) is not None
        if not is_bound and not self._are_nodes_given:
            # Of nodes that are only assumed nobody knows which labels they have.
            return None
        found = self._scheduler.placement.find_runnable(pod)
        return None if found is None else found.nodes

    def _place(self, item: ClaimSet) -> None:
        """Place a pod whose claims are all allocated, if there is one node alone for it."""
        if item.pod is None or self._scheduler.placement.is_placed(item.pod):
            return
        nodes = self._nodes(item) or ()
        outcomes = [self._outcomes[_key(record)] for record in item.claims]
        if len(nodes) == 1 and all(outcome.allocation is not None for outcome in outcomes):
            self._scheduler.placement.place(item.pod, nodes[0])

    def _explain(self, item: ClaimSet, decision: Decision) -> dict[_Key, Outcome]:
        """Return the claims of a set that wait, each with the reason: those of a pod as the operator tells it."""
        if item.pod is None:
            (record,) = item.claims
            return {_key(record): self._explain_alone(record, decision, item.decider)}
        claims, pod = self._open(item), _with_claims(item.pod, item.claims)
        explainer = self._explainers[item.decider]
        found = explainer.explain(pod, self._requirements(item.pod))
        if found is None or found.node:
            # What it had to fit beside has gone to another pod, on a node where there is room for both.
            again = self._allocate(item, claims)
            if isinstance(again, Allocated):
                self._explained.clear()
                return {_key(outcome.record): outcome for outcome in self._scheduler.accept(claims, again)}
            text = f"{len(claims)} claims wait" if found is None else found.message
            found = PodExplanation(Reason.NOT_SCHEDULED, text)
        names = explainer.claims_of(pod)
        reasons = {names[entry]: each for entry, each in found.claims.items() if entry in names}
        others = Explanation(found.reason, found.message)
        return {
            _key(record): pending(record, reasons.get(record.obj.metadata.name, others)) for record in claims
        }

    def _explain_alone(self, record: ObjectRecord, decision: Decision, decider: Decider) -> Outcome:
        """Return a claim that no pod uses, and why it fits nowhere."""
        claim: ResourceClaim = record.obj
        key = _spec_key(claim.spec), claim.metadata.namespace, decider
        # The text of an error names the claim.
        known = self._explained.get(key) if isinstance(decision, Unsatisfied) else None
        if known is not None:
            return replace(known[0], record=record)
        found = self._scheduler.explain(record, decision, decider=decider)
        self._explained[key] = found, claim.spec
        return found

    def _requirements(self, pod: ObjectRecord) -> PodRequirements:
        """Return what a pod asks of nodes; of nodes that are only assumed nobody knows which labels they have."""
        is_bound = pod.obj.spec.node_name or node_of(pod) is not None
        if is_bound or self._are_nodes_given:
            return self._scheduler.placement.requirements(pod)
        return PodRequirements()

    def _find_claim(self, key: _Key) -> ResourceClaim | None:
        """Return a claim with what it has by now."""
        record = self._records.get(key)
        if record is None:
            return None
        claim: ResourceClaim = record.obj
        outcome = self._outcomes.get(key)
        if outcome is None or outcome.allocation is None:
            return claim
        return replace(claim, status=replace(claim.status, allocation=outcome.allocation))


def _with_claims(pod: ObjectRecord, claims: Iterable[ObjectRecord]) -> Pod:
    """Return a pod that knows the claims that were made for its entries, as the claim controller tells it."""
    found: Pod = pod.obj
    named = {entry.resource_claim_name for entry in found.spec.resource_claims}
    statuses = {status.name: status for status in found.status.resource_claim_statuses}
    for record in claims:
        metadata = record.obj.metadata
        entry = metadata.annotations.get(POD_CLAIM_NAME)
        if entry is not None and metadata.name not in named:
            statuses[entry] = PodResourceClaimStatus(entry, metadata.name)
    return replace(found, status=replace(found.status, resource_claim_statuses=tuple(statuses.values())))


def _spec_key(spec: ResourceClaimSpec) -> object:
    """Return what equal specs have in common, where that is quickly found."""
    try:
        return spec, hash(spec)
    except TypeError:
        # Amounts are kept in a table.
        return id(spec)


def _key(record: ObjectRecord) -> _Key:
    metadata = record.obj.metadata
    return metadata.namespace, metadata.name
