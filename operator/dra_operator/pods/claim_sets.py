"""Claim sets: the claims that are decided together, all of them on one node or none.

kube-scheduler decides the claims of a pod so, for a node on which the pod can run and can use those that are allocated
already. A claim that several pods use belongs to the first of them that gets its claims. One that no pod uses is a set
of its own, which the operator decides.
Source: docs/dra-semantics 8.2.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dra_operator.allocator import Allocated, Decider, Decision, Explanation, Failed, Reason, Unsatisfied
from dra_operator.api.names import POD_CLAIM_NAME
from dra_operator.api.text import listed
from dra_operator.api.types import (
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dra_operator.pods.claims import ClaimsOfPods, is_over
from dra_operator.pods.nodes import usable
from dra_operator.pods.objects import ObjectRecord, ObjectSet, by_age, by_priority
from dra_operator.pods.scheduler import Outcome, Scheduler, by_name, pending
from dra_operator.pods.workloads import node_of

_Key: TypeAlias = tuple[str, str]
"""Namespace and name of a claim."""
_LIMIT = "a claim can have"
"""What a text says only about requests of one claim."""


@dataclass(frozen=True, slots=True)
class ClaimSet:
    """Claims, and the pod that uses them, which is None for a claim that no pod uses."""

    claims: tuple[ObjectRecord, ...]
    pod: ObjectRecord | None = None

    @property
    def decider(self) -> Decider:
        """Who decides it: the operator, if no pod uses it and no controller owns it; its pod may not be here."""
        owners = [owner for record in self.claims for owner in record.obj.metadata.owner_references]
        is_of_pod = self.pod is not None or any(owner.controller for owner in owners)
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
            sets.append(ClaimSet(tuple(of_pod), pod))
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
        self._explained: dict[object, tuple[Outcome, object]] = {}
        """Of claims that ask for the same on the same nodes one is explained; beside it is what its key goes by."""

    def decide(self, sets: Iterable[ClaimSet]) -> list[Outcome]:
        waiting: dict[_Key, tuple[ClaimSet, Decision]] = {}
        for item in sets:
            for record in item.claims:
                if (found := self._scheduler.settled(record)) is not None:
                    self._outcomes[_key(record)] = found
            if not (open_claims := self._open(item)):
                self._place(item)
                continue
            decision = self._scheduler.allocate(open_claims, self._nodes(item), decider=item.decider)
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
        """Return the claims of a set that wait, each with the reason."""
        claims, nodes = self._open(item), self._nodes(item)
        if len(item.claims) == 1:
            return {_key(claims[0]): self._explain_alone(claims[0], nodes, decision, item)}
        alone = {
            _key(record): self._scheduler.allocate((record,), nodes, decider=item.decider)
            for record in claims
        }
        if len(claims) == 1 and isinstance(again := alone[_key(claims[0])], Allocated):
            # What it had to fit beside has gone to another pod, on a node where there is room for both.
            self._explained.clear()
            return {_key(claims[0]): self._scheduler.accept(claims, again)[0]}
        found = {
            _key(record): self._explain_alone(record, nodes, each, item)
            for record in claims
            if not isinstance(each := alone[_key(record)], Allocated)
        }
        if found:
            # Why a pod waits is told by the claims that fit nowhere; the others wait for them.
            first = next(iter(found.values()))
            name = "/".join(_key(first.record))
            others = Explanation(Reason(first.reason), f"claim {name} of the same pod waits")
        elif isinstance(decision, Failed):
            others = Explanation(decision.reason, " ".join(decision.message.split()))
        else:
            others = self._explain_together(claims, nodes, alone)
        return {_key(record): found.get(_key(record)) or pending(record, others) for record in claims}

    def _explain_alone(
        self, record: ObjectRecord, nodes: tuple[str, ...] | None, decision: Decision, item: ClaimSet
    ) -> Outcome:
        """Return a claim of a set that fits on none of some nodes by itself, and why."""
        runnable = None if item.pod is None else self._scheduler.placement.find_runnable(item.pod)
        claim: ResourceClaim = record.obj
        key = _spec_key(claim.spec), claim.metadata.namespace, nodes, item.decider, id(runnable)
        # The text of an error names the claim.
        known = self._explained.get(key) if isinstance(decision, Unsatisfied) else None
        if known is not None:
            return replace(known[0], record=record)
        if nodes is None:
            found = self._scheduler.explain(record, decision, decider=item.decider)
        else:
            found = self._scheduler.explain_on(record, nodes, item.pod)
        self._explained[key] = found, (claim.spec, runnable)
        return found

    def _explain_together(
        self, claims: Sequence[ObjectRecord], nodes: Sequence[str] | None, alone: Mapping[_Key, Decision]
    ) -> Explanation:
        """Return why claims do not fit together, each of which fits by itself."""
        if nodes is None and (told := self._explain_as_one(claims)) is not None:
            return told
        places = [
            f"{key[1]} on {decision.node}"
            for key, decision in alone.items()
            if isinstance(decision, Allocated)
        ]
        where = "no node" if nodes is None else f"none of the nodes for the pod ({listed(nodes)})"
        text = f"each claim of the pod fits alone ({listed(places)}), but {where} has room for all of them"
        return Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text)

    def _explain_as_one(self, claims: Sequence[ObjectRecord]) -> Explanation | None:
        """Return what requests of several claims take from each other; None where it would be another for one claim."""
        # The pods of a workload name the same entries, so that what is found out for one is known for all.
        names = [
            record.obj.metadata.annotations.get(POD_CLAIM_NAME, record.obj.metadata.name) for record in claims
        ]
        if len({*names}) < len(names):
            names = [record.obj.metadata.name for record in claims]
        one = replace(claims[0], obj=merge_claims(names, [record.obj for record in claims]))
        decision = self._scheduler.allocate((one,), decider=Decider.KUBE_SCHEDULER)
        if not isinstance(decision, Unsatisfied):
            # One claim has a limit of devices, which several have each.
            return None
        found = self._scheduler.explain(one, decision, decider=Decider.KUBE_SCHEDULER)
        if found.reason != Reason.REQUESTS_DO_NOT_FIT_TOGETHER.value or _LIMIT in found.message:
            return None
        text = f"the claims of the pod must fit on one node: {found.message}"
        return Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text)


def _spec_key(spec: ResourceClaimSpec) -> object:
    """Return what equal specs have in common, where that is quickly found."""
    try:
        return spec, hash(spec)
    except TypeError:
        # Amounts are kept in a table.
        return id(spec)


def merge_claims(names: Sequence[str], claims: Sequence[ResourceClaim]) -> ResourceClaim:
    """Return a claim that asks for what several ask for; its requests say by `names` of which claim they are."""
    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    for name, claim in zip(names, claims, strict=True):
        asked = claim.spec.devices
        own = {request.name: f"{request.name} of {name}" for request in asked.requests}
        requests += [replace(request, name=own[request.name]) for request in asked.requests]
        for constraint in asked.constraints:
            parts = [path.partition("/") for path in constraint.requests or own]
            bound = tuple(f"{own[first]}{slash}{rest}" for first, slash, rest in parts if first in own)
            constraints.append(replace(constraint, requests=bound))
    spec = ResourceClaimSpec(DeviceClaim(tuple(requests), tuple(constraints)))
    return replace(claims[0], spec=spec)


def _key(record: ObjectRecord) -> _Key:
    metadata = record.obj.metadata
    return metadata.namespace, metadata.name
