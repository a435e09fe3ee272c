"""Claim sets: the claims that are decided together, all of them on one node or none, one set after the other.

kube-scheduler decides the claims of a pod so, with the one that it makes for extended resources, and the pod counts on
its node for the next one. A claim that several pods use belongs to the first of them that gets its claims. One that no
pod uses is a set of its own, which the operator decides.
Source: docs/dra-semantics 8.2.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import (
    Allocated,
    Decider,
    Explanation,
    Failed,
    Unsatisfied,
    claim_key,
)
from dra_operator.api.core import Pod, PodExtendedResourceClaimStatus, PodResourceClaimStatus
from dra_operator.api.names import GATE, OPT_OUT_LABEL, POD_CLAIM_NAME, SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.types import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from dra_operator.explain import Explainer
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import (
    MOST_CONSUMERS,
    ClaimLookup,
    PodKey,
    TemplateLookup,
    is_over,
    pod_key,
    subject,
)
from dra_operator.pods.explanation import EXTENDED, PodExplainer, PodExplanation
from dra_operator.pods.gate import gets_gate
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.objects import ObjectRecord, ObjectSet, Place, by_age, by_priority
from dra_operator.pods.placement import PodPlacement
from dra_operator.pods.pod_decision import PodDecider, PodDecision
from dra_operator.pods.special_claims import build_special, find_made
from dra_operator.pods.workloads import node_of

_NO_PLACE = Place("", 0, 0)


class State(Enum):
    """What a claim comes to; the value is the word that is printed."""

    ALLOCATED = "allocated"
    HELD = "held"
    BROKEN = "broken"
    PENDING = "pending"
    LEFT_ALONE = "left alone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A claim and what it comes to.

    `allocation` and `node` are set for ALLOCATED, `allocation` for HELD and BROKEN; `reason` (of docs/reasons.md) for
    PENDING; `message` is the line for PENDING, BROKEN and LEFT_ALONE.
    """

    record: ObjectRecord
    state: State
    allocation: AllocationResult | None = None
    node: str = ""
    reason: str = ""
    message: str = ""

    @property
    def claim(self) -> ResourceClaim:
        """The claim as it was before."""
        claim: ResourceClaim = self.record.obj
        return claim


def find_settled(record: ObjectRecord, broken: Mapping[ClaimKey, str]) -> Outcome | None:
    """Return what a claim comes to of which nothing is decided; None for another.

    `broken` says what is wrong with allocations.
    """
    claim: ResourceClaim = record.obj
    metadata = claim.metadata
    if claim.status.allocation is not None:
        problem = broken.get(claim_key(claim))
        state = State.HELD if problem is None else State.BROKEN
        return Outcome(record, state, claim.status.allocation, message=problem or "")
    if metadata.deletion_timestamp:
        return Outcome(record, State.LEFT_ALONE, message="it is being deleted")
    if metadata.labels.get(OPT_OUT_LABEL) == "false":
        return Outcome(record, State.LEFT_ALONE, message=f'label {OPT_OUT_LABEL} is "false"')
    return None


def pending(record: ObjectRecord, explanation: Explanation) -> Outcome:
    """Return a claim that waits, and why."""
    return Outcome(record, State.PENDING, reason=explanation.reason.value, message=explanation.message)


# --- the sets


@dataclass(frozen=True, slots=True)
class ClaimSet:
    """Claims, who decides them, and the pod that uses them, which is None for a claim that no pod uses.

    With `asks` the pod needs a claim for its extended resources, which is made where it is decided.
    """

    claims: tuple[ObjectRecord, ...]
    decider: Decider
    pod: ObjectRecord | None = None
    asks: bool = False

    @classmethod
    def of_claims(
        cls, claims: Iterable[ResourceClaim], decider: Decider, pod: ObjectRecord | None
    ) -> "ClaimSet":
        """Return a set of claims that stand nowhere."""
        return cls(tuple([ObjectRecord(_NO_PLACE, {}, claim) for claim in claims]), decider, pod)


def make_sets(
    objects: ObjectSet, claims: Sequence[ObjectRecord], asking: Collection[PodKey] = ()
) -> list[ClaimSet]:
    """Return the sets in the order in which they are decided: by priority, then by the age of the pod or of the claim.

    So kube-scheduler sorts pods; a claim that no pod uses has the priority of a pod without one. Pods of DaemonSets
    come last: they have a node, and the others may choose. `asking` are the pods that need claims for extended
    resources. The operator decides for pods that have its gate or get it, and a claim that neither a pod uses nor a
    controller owns: the pod of that may not be here.
    """
    records = {claim_key(record.obj): record for record in claims}
    made = find_made(claims)
    sets: list[ClaimSet] = []
    used: set[ClaimKey] = set()
    for pod in objects.of_kind("Pod"):
        keys = () if is_over(pod.obj) else _claims_of(pod.obj, made.get(pod_key(pod.obj), {}))
        used.update(keys)
        of_pod = sorted([records[key] for key in dict.fromkeys(keys) if key in records], key=by_age)
        asks = pod_key(pod.obj) in asking
        if of_pod or asks:
            has_gate = any(gate.name == GATE for gate in pod.obj.spec.scheduling_gates)
            is_gated = has_gate or gets_gate(pod, objects)
            decider = Decider.OPERATOR if is_gated else Decider.KUBE_SCHEDULER
            sets.append(ClaimSet(tuple(of_pod), decider, pod, asks))
    for record in claims:
        if claim_key(record.obj) not in used:
            is_of_pod = record.obj.metadata.is_made_for_pods
            sets.append(ClaimSet((record,), Decider.KUBE_SCHEDULER if is_of_pod else Decider.OPERATOR))
    return sorted(sets, key=_order)


def _claims_of(pod: Pod, made: Mapping[str, str]) -> list[ClaimKey]:
    """Return the claims that a pod names, and those that were made for it."""
    statuses = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    names = [
        entry.resource_claim_name or statuses.get(entry.name) or made.get(entry.name)
        for entry in pod.spec.resource_claims
    ]
    special = pod.status.extended_resource_claim_status
    names.append(made.get("") if special is None else special.resource_claim_name)
    return [(pod.metadata.namespace, name) for name in names if name]


def _order(item: ClaimSet) -> tuple[object, ...]:
    if item.pod is None:
        return False, 0, by_age(item.claims[0])
    return node_of(item.pod) is not None, *by_priority(item.pod)


# --- what decides them


@dataclass(slots=True)
class SetDecider:
    """Decides claim sets in a state, within a trial of it; each decision counts for the next, as does its pod.

    `find_stored` knows the claims of the state; `results` are what others got. Of nodes that are only assumed nobody
    knows what they have.
    """

    explainers: Mapping[Decider, Explainer]
    placement: PodPlacement
    find_stored: ClaimLookup
    has_template: TemplateLookup
    are_nodes_assumed: bool
    results: dict[ClaimKey, AllocationResult] = field(default_factory=dict)
    _users: Counter[ClaimKey] = field(default_factory=Counter)
    _asked: Mapping[ClaimKey, ResourceClaim] = field(default_factory=dict)
    """The claims of the set that is asked about."""
    _read: tuple[object, PodRequirements] = (None, PodRequirements())
    """The spec that was read last, with what it asks of nodes: copies of a pod share theirs."""
    _pods: Mapping[Decider, PodDecider] = field(init=False)

    def __post_init__(self) -> None:
        cluster = self.placement.cluster
        self._pods = {
            decider: PodDecider(each, cluster, self._find_claim, self.has_template, decider, Limits())
            for decider, each in self.explainers.items()
        }

    def decide(
        self, item: ClaimSet, requirements: PodRequirements | None = None
    ) -> PodDecision | Failed | Unsatisfied:
        """Decide a set, or where a pod goes whose claims are all allocated, and let that count.

        With `requirements` its pod asks those of nodes instead of its own.
        """
        decider, pod = self._begin(item)
        if pod is None:
            decision = decider.allocator.allocate([each.obj for each in item.claims], decider=item.decider)
            if not isinstance(decision, Allocated):
                return decision
            names = [each.obj.metadata.name for each in item.claims]
            found = PodDecision(decision.node, dict(zip(names, decision.results, strict=True)))
        else:
            decided = decider.find_node(pod, requirements or self.requirements(item))
            if not isinstance(decided, PodDecision):
                return decided or Unsatisfied()
            found = decided
        for record, result in granted(item, found):
            key = claim_key(record.obj)
            decider.allocator.ledger.assume(*key, result)
            self.results[key] = result
        if item.pod is not None:
            self._users.update(claim_key(each.obj) for each in item.claims)
            if not item.pod.obj.spec.node_name:
                self.placement.place(item.pod, found.node)
        return found

    def explain(self, item: ClaimSet, decision: Failed | Unsatisfied) -> PodExplanation:
        """Return why a set waits of which this was decided, in the state as it is."""
        decider, pod = self._begin(item)
        if pod is not None:
            return decider.explain(pod, self.requirements(item))
        claims = [each.obj for each in item.claims]
        why = decider.explainer.explain(claims, decision, decider=item.decider)[0]
        return PodExplanation(why.reason, why.message, {each.metadata.name: why for each in claims})

    def explainer_of(self, item: ClaimSet) -> tuple[PodExplainer, Pod]:
        """Return what explains the pod of a set, and the pod; it holds until another set is asked about."""
        decider, pod = self._begin(item)
        assert pod is not None
        return decider.explainer_of_pods, pod

    def find_special(self, item: ClaimSet) -> ResourceClaim | None:
        """Return a claim that the pod of a set needs for its extended resources, if it needs one."""
        decider, pod = self._begin(item)
        return None if pod is None else decider.find_extended(pod, self.requirements(item))

    def requirements(self, item: ClaimSet) -> PodRequirements:
        """Return what the pod of a set asks of nodes, as far as that counts."""
        pod = item.pod
        if pod is None or (self.are_nodes_assumed and not pod.obj.spec.node_name and node_of(pod) is None):
            return PodRequirements()
        if self._read[0] is not pod.body.get("spec"):
            self._read = pod.body.get("spec"), self.placement.requirements(pod)
        return self._read[1]

    def _begin(self, item: ClaimSet) -> tuple[PodDecider, Pod | None]:
        self._asked = {claim_key(each.obj): each.obj for each in item.claims}
        return self._pods[item.decider], None if item.pod is None else _with_claims(item.pod, item.claims)

    def _find_claim(self, key: ClaimKey) -> ResourceClaim | None:
        """Return a claim with what it has by now, and those that use it."""
        claim = self._asked.get(key) or self.find_stored(key)
        if claim is None or not (key in self.results or self._users[key]):
            return claim
        number = min(self._users[key], MOST_CONSUMERS)
        others = [ResourceClaimConsumerReference(resource="pods", uid=f"#{each}") for each in range(number)]
        allocation = claim.status.allocation or self.results.get(key)
        reserved = (*claim.status.reserved_for, *others)
        return replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=reserved))


def granted(item: ClaimSet, decision: PodDecision) -> Iterator[tuple[ObjectRecord, AllocationResult]]:
    """Yield the claims of a set that got something, and the one that was made for extended resources."""
    records = {each.obj.metadata.name: each for each in item.claims}
    yield from ((records[name], each) for name, each in decision.allocations.items())
    if item.pod is not None and decision.extended is not None:
        claim, result = decision.extended
        yield build_special(item.pod, claim), result


def _with_claims(pod: ObjectRecord, claims: Iterable[ObjectRecord]) -> Pod:
    """Return a pod that knows the claims that were made for its entries, as the claim controller tells it."""
    found: Pod = pod.obj
    named = {entry.resource_claim_name for entry in found.spec.resource_claims}
    statuses = {status.name: status for status in found.status.resource_claim_statuses}
    special = found.status.extended_resource_claim_status
    for record in claims:
        metadata = record.obj.metadata
        entry = metadata.annotations.get(POD_CLAIM_NAME)
        if entry is not None and metadata.name not in named:
            statuses[entry] = PodResourceClaimStatus(entry, metadata.name)
        if SPECIAL_CLAIM_ANNOTATION in metadata.annotations:
            special = special or PodExtendedResourceClaimStatus(metadata.name)
    status = replace(
        found.status,
        resource_claim_statuses=tuple(statuses.values()),
        extended_resource_claim_status=special,
    )
    return replace(found, status=status)


# --- all of them


@dataclass(slots=True)
class DecidedSets:
    """What claims come to, by namespace and name; lines worth knowing; why pods cannot use what their claims have."""

    outcomes: list[Outcome]
    notes: list[str]
    stuck: dict[tuple[str, str], str]


def decide(sets: Iterable[ClaimSet], decider: SetDecider, broken: Mapping[ClaimKey, str]) -> DecidedSets:
    """Decide some sets one after the other; `broken` says what is wrong with allocations.

    As in the operator, those that wait are explained when all are decided: what an older claim waits for may have
    gone to a younger one that asks for less.
    """
    found = DecidedSets([], [], {})
    outcomes: dict[ClaimKey, Outcome] = {}
    waiting: list[tuple[ClaimSet, Failed | Unsatisfied]] = []

    def accept(item: ClaimSet, decision: PodDecision) -> None:
        for record, result in granted(item, decision):
            outcomes[claim_key(record.obj)] = Outcome(record, State.ALLOCATED, result, decision.node)
        found.notes += _notes(item, decision, decider)

    for item in sets:
        for record in item.claims:
            settled = find_settled(record, broken)
            # kube-scheduler allocates for pods what the operator leaves alone.
            if settled is not None and (item.pod is None or settled.allocation is not None):
                outcomes[claim_key(record.obj)] = settled
        if not _is_decided(item, outcomes, decider):
            continue
        decision = decider.decide(item)
        if isinstance(decision, PodDecision):
            accept(item, decision)
        else:
            waiting.append((item, decision))
    for item, decision in waiting:
        if item.pod is not None and any(claim_key(each.obj) in decider.results for each in item.claims):
            # What it had to fit beside has gone to another pod, on a node where there may be room for both.
            again = decider.decide(item)
            if isinstance(again, PodDecision):
                accept(item, again)
                continue
        open_claims = [each for each in item.claims if claim_key(each.obj) not in outcomes]
        if open_claims or item.asks:
            told = _explain(item, decider, decision, open_claims)
            outcomes |= {claim_key(each.claim): each for each in told}
        elif all(
            claim_key(each.obj) in decider.results or each.obj.status.allocation for each in item.claims
        ):
            assert item.pod is not None
            why = decider.explain(item, decision).message
            found.stuck[item.pod.obj.metadata.namespace, item.pod.obj.metadata.name] = why
            found.notes.append(f"{_named(item.pod)} cannot use its claims: {why}")
    found.outcomes += sorted(outcomes.values(), key=lambda each: claim_key(each.claim))
    return found


def _is_decided(item: ClaimSet, outcomes: Mapping[ClaimKey, Outcome], decider: SetDecider) -> bool:
    """Return whether there is something to decide of a set: open claims, or where its pod goes."""
    keys = [claim_key(each.obj) for each in item.claims]
    if item.asks or not all(key in outcomes for key in keys):
        return True
    # A pod that has a node uses its claims, but for those that were decided here.
    return item.pod is not None and (
        not item.pod.obj.spec.node_name or any(key in decider.results for key in keys)
    )


def _notes(item: ClaimSet, decision: PodDecision, decider: SetDecider) -> Iterator[str]:
    if item.asks and item.pod is not None and decision.extended is None:
        yield f"{subject(item.pod.obj)}: device plugins serve it on {decision.node}; it needs no claim there"
    if item.pod is not None and decider.are_nodes_assumed:
        placement = decider.placement
        admitted = placement.cluster.find_admitted(placement.requirements(item.pod))
        if admitted is not None and decision.node not in admitted:
            yield (
                f"{_named(item.pod)} cannot use its claims, which are on node {decision.node}: its nodeName, "
                "nodeSelector or node affinity does not admit it"
            )


def _named(pod: ObjectRecord) -> str:
    return f"pod {pod.obj.metadata.namespace}/{pod.obj.metadata.name}"


def _explain(
    item: ClaimSet, decider: SetDecider, decision: Failed | Unsatisfied, claims: Sequence[ObjectRecord]
) -> Iterator[Outcome]:
    """Yield some claims of a set that wait, each with the reason: those of a pod as the operator tells it."""
    found = decider.explain(item, decision)
    others, names = Explanation(found.reason, found.message), {}
    if item.pod is not None:
        explainer, pod = decider.explainer_of(item)
        names = {name: entry for entry, name in explainer.claims_of(pod).items()}
    for record in claims:
        name = record.obj.metadata.name
        yield pending(record, found.claims.get(names.get(name, name), others))
    if item.asks and item.pod is not None and (special := decider.find_special(item)) is not None:
        yield pending(build_special(item.pod, special), found.claims.get(EXTENDED, others))
