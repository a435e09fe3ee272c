"""Why a pod waits for its claims: they are decided together, without a write, on the nodes that suit it.

Nodes that do not suit the pod, or where it cannot use a claim that is allocated already, are unusable in a copy of the
inventory; so decisions and explanations are those of the allocator. What `node_fit` leaves out is not asked here
either: pod affinity, topology spread, volumes that bind late, attach limits, preemption.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decider, Decision, Explanation, Failed, claim_key
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.api.text import listed
from dra_operator.api.types import (
    AllocationResult,
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dra_operator.explain import DeviceCounts, Explainer
from dra_operator.pods.claims import ClaimLookup, PodEntry, TemplateLookup, can_use, resolve_entries
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import Obstacle, PodRequirements
from dra_operator.pods.situation import Situation
from dra_operator.pods.smallest_change import Effort, SmallestChanges, find_smallest_changes

_MOST_NODES = 100
"""Nodes on which claims fit and the pod cannot run, that are looked for."""
_MOST_COPIED = 250
"""Nodes of a cluster of which copies are made: a copy takes a quarter of a millisecond for each."""
_FEW_NODES = 3
"""Where a pod can run on so few nodes, it is said what its claims wait for there."""
_MOST_CAUSES = 3
LIMITS: Final = Limits(seconds=0.25)
"""Of each decision and explanation: nothing depends on them, and claims that are decided wait meanwhile."""
EXTENDED: Final = "extended resources"
"""What messages call the claim for a pod's extended resources, as its other claims are called by their entries."""
_MOST_INVENTORIES = 4
_MOST_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Why a pod waits: a reason of the closed list, one line of text, and the same for each of its claims, by entry.

    `node` is set if nothing is in the way: the first node on which its claims fit. Then no claim is told of.
    """

    reason: Reason
    message: str
    claims: Mapping[str, Explanation] = field(default_factory=dict)
    node: str = ""


@dataclass(slots=True)
class PodExplainer:
    """Explains pods by the present state of what `explainer` follows, and of the nodes of `cluster`.

    `decider` is who decides their claims.
    """

    explainer: Explainer
    cluster: ClusterPods
    find_claim: ClaimLookup
    has_template: TemplateLookup
    decider: Decider = Decider.KUBE_SCHEDULER
    limits: Limits = LIMITS
    """Of each decision and explanation."""
    _copies: dict[frozenset[tuple[str, str]], Explainer] = field(default_factory=dict)
    _known: dict[object, tuple[PodExplanation | None, tuple[object, ...]]] = field(default_factory=dict)
    """What pods of one workload have in common, and what keeps the ids in the key from being given again."""
    _advice: dict[object, SmallestChanges] = field(default_factory=dict)
    _version: object = None
    _inventory_version: int = -1

    @property
    def allocator(self) -> Allocator:
        """What decides the claims."""
        return self.explainer.allocator

    def explain(
        self, pod: Pod, requirements: PodRequirements, extended: ResourceClaim | None = None
    ) -> PodExplanation | None:
        """Return why a pod waits; None for one that waits for none of its claims.

        `extended` is the claim for its extended resources, if that is decided with the others.
        """
        self._refresh()
        entries = self._entries(pod, extended)
        problems = {entry.name: entry.problem for entry in entries if entry.problem is not None}
        if problems:
            name, first = next(iter(problems.items()))
            # A claim that has a problem may be another pod's.
            others = {
                entry.name: Explanation(first.reason, f'entry "{name}" of its pod: {first.message}')
                for entry in entries
                if entry.problem is None and _is_open(entry)
            }
            return PodExplanation(first.reason, _about(entries, name, first.message), others)
        used = [entry for entry in entries if entry.claim is not None]
        if not used:
            return None
        key = self._key(pod, requirements, used)
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
                self._advice.clear()
            answer = _Attempt(self, requirements, used).explain()
            self._known[key] = answer, tuple([(entry.claim.spec, entry.claim.status) for entry in used])  # type: ignore[union-attr]
        return self._known[key][0]

    def advise(self, pod: Pod, requirements: PodRequirements, effort: Effort) -> str:
        """Return what would make the claims of a pod fit, as the end of its message; nothing if that is not known."""
        found = self.find_changes(pod, requirements, effort)
        return "" if found is None else found.text

    def find_changes(self, pod: Pod, requirements: PodRequirements, effort: Effort) -> SmallestChanges | None:
        """Return what would make the claims of a pod fit, or let it go where they are.

        Only of a pod whose explanation is about its claims and nodes; None if it is about an entry that has no claim.
        """
        self._refresh()
        entries = self._entries(pod)
        used = [entry for entry in entries if entry.claim is not None]
        if not used or any(entry.problem is not None for entry in entries):
            return None
        key = self._key(pod, requirements, used)
        if key not in self._advice:
            situation = _Attempt(self, requirements, used).situation()
            self._advice[key] = find_smallest_changes(situation, effort)
        return self._advice[key]

    def count_devices(
        self, pod: Pod, requirements: PodRequirements, extended: ResourceClaim | None = None
    ) -> Mapping[str, tuple[tuple[Alternative, DeviceCounts], ...]]:
        """Return, by entry of a pod, for each alternative of its claims how many devices each stage keeps away.

        Devices on nodes that do not suit the pod are kept away by that, where nodes are not too many to be copied.
        `extended` is as for `explain`.
        """
        self._refresh()
        entries = self._entries(pod, extended)
        used = [entry for entry in entries if entry.claim is not None and entry.problem is None]
        return _Attempt(self, requirements, used).count_devices()

    def _entries(self, pod: Pod, extended: ResourceClaim | None = None) -> list[PodEntry]:
        entries = list(resolve_entries(pod, self.find_claim, self.has_template))
        return entries if extended is None else [*entries, PodEntry(EXTENDED, extended)]

    @staticmethod
    def _key(pod: Pod, requirements: PodRequirements, used: Sequence[PodEntry]) -> object:
        """Return what pods in the same situation have in common."""
        return (
            pod.metadata.namespace,
            requirements,
            tuple([(entry.name, *_identity(entry)) for entry in used]),
        )

    def version(self) -> object:
        """Return what every answer depends on: it holds for as long as this stays."""
        return self.allocator.inventory.version, self.allocator.ledger.version, self.cluster.version

    def claims_of(self, pod: Pod) -> dict[str, str]:
        """Return the names of the claims of a pod, by entry."""
        entries = self._entries(pod)
        return {entry.name: entry.claim.metadata.name for entry in entries if entry.claim is not None}

    def node_set(self, causes: Mapping[str, str]) -> "NodeSet":
        """Return the nodes that can be used: all but these; `causes` says why they cannot.

        In a large cluster nothing is copied: there devices are counted on all nodes.
        """
        self.allocator.refresh()
        nodes, views = self.allocator.inventory.nodes, self.allocator.availability.views
        # On a node without devices, as those of the control plane, nothing depends on what is wrong with it.
        effective = {
            name: node.unusable or causes[name]
            for name, node in nodes.items()
            if name in causes and (node.unusable is not None or views.of_node(name).pools)
        }
        if all(node.unusable == effective.get(name) for name, node in nodes.items()):
            return NodeSet(self.explainer, self.decider, self.limits)
        if len(nodes) > _MOST_COPIED:
            suitable = tuple([name for name in sorted(nodes) if name not in causes])
            return NodeSet(self.explainer, self.decider, self.limits, suitable)
        return NodeSet(self._copy_with(effective), self.decider, self.limits)

    def _copy_with(self, causes: Mapping[str, str]) -> Explainer:
        """Return the explainer of a copy for which these nodes, and no others, cannot be used."""
        key = frozenset(causes.items())
        found = self._copies.pop(key, None)
        if found is None:
            inventory = self.allocator.inventory.with_unusable_nodes(causes)
            found = Explainer(self.allocator.for_copy(inventory))
        self._copies[key] = found
        if len(self._copies) > _MOST_INVENTORIES:
            self._copies.pop(next(iter(self._copies))).release()
        return found

    def _refresh(self) -> None:
        """Forget what is out of date: a copy of the inventory does not follow it."""
        if (version := self.version()) != self._version:
            self._known.clear()
            self._advice.clear()
            self._version = version
        if (version := self.allocator.inventory.version) != self._inventory_version:
            while self._copies:
                self._copies.popitem()[1].release()
            self._inventory_version = version


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes that can be used, as an explainer's allocator has them; where `nodes` are given, only these of them."""

    explainer: Explainer
    decider: Decider
    limits: Limits
    nodes: tuple[str, ...] | None = None

    @property
    def allocator(self) -> Allocator:
        """What decides there."""
        return self.explainer.allocator

    def decide(self, claims: Iterable[ResourceClaim], among: Iterable[str] | None = None) -> Decision:
        """Decide some claims together on one of the nodes, of those that are `among` these."""
        nodes = self.nodes
        if among is not None:
            nodes = tuple(sorted(among)) if nodes is None else tuple(sorted({*among} & {*nodes}))
        if self.nodes is None:
            return self.allocator.allocate(list(claims), nodes, decider=self.decider, limits=self.limits)
        # Which nodes suit is for the pod to say: it may tolerate a cordon.
        excluded = ~self.allocator.node_set(nodes or ())
        return self.allocator.allocate_for_pod(
            list(claims), excluded, decider=self.decider, limits=self.limits
        )

    def decide_anywhere(self, claim: ResourceClaim) -> Decision:
        """Decide a claim on all nodes that the allocator has."""
        return self.allocator.allocate([claim], decider=self.decider, limits=self.limits)

    def explain(self, claim: ResourceClaim, decision: Decision) -> Explanation:
        """Return why a claim does not fit, where that was decided."""
        if self.nodes is not None:
            elsewhere = self.decide_anywhere(claim)
            if isinstance(elsewhere, Allocated):
                text = f"it fits on node {elsewhere.node}, which the pod cannot use, and on none that it can"
                return Explanation(Reason.NODE_UNSUITABLE, text)
        found = self.explainer.explain([claim], decision, decider=self.decider, limits=self.limits)[0]
        if found.reason is Reason.NODE_UNUSABLE:
            found = replace(found, reason=Reason.NODE_UNSUITABLE)
        if self.nodes is None:
            return found
        total = len(self.allocator.inventory.nodes)
        text = f"{found.message}; counted on all {total} nodes, of which the pod can use {len(self.nodes)}"
        return replace(found, message=text)


@dataclass(slots=True)
class _Attempt:
    """One attempt to find out what a pod waits for."""

    explainer: PodExplainer
    requirements: PodRequirements
    entries: Sequence[PodEntry]

    def explain(self) -> PodExplanation:
        obstacles = self.explainer.cluster.find_obstacles(self.requirements)
        elsewhere = self._nodes_out_of_reach()
        claims = self._open_claims()
        nodes = self.explainer.allocator.inventory.nodes
        if self._is_pinned() and all(name in elsewhere or name in obstacles for name in nodes):
            return self._explain_held(claims, obstacles, elsewhere)
        causes = {name: f"unsuitable: {obstacle}" for name, obstacle in obstacles.items()}
        causes = {**elsewhere, **causes}
        if not claims:
            node = next((name for name in sorted(nodes) if name not in causes), "")
            return _fitting(node) if node else explain_no_node(obstacles)
        usable = self.explainer.node_set(causes)
        decision = usable.decide(claims.values())
        if isinstance(decision, Allocated):
            return _fitting(decision.node)
        if pinned := self._find_pinned(elsewhere):
            return self._explain_pinned(claims, pinned, elsewhere)
        if (found := self._explain_by_nodes(claims, obstacles, elsewhere)) is not None:
            suitable = [name for name in sorted(nodes) if name not in causes]
            if not 0 < len(suitable) <= _FEW_NODES:
                return found
            text = f"{found.message}; on {listed(suitable)}: {self._explain_on(claims, suitable)}"
            return _of_all(claims, found.reason, text)
        if all(name in causes for name in nodes):
            # That no node can be used would hide what else is in the way.
            reachable = self.explainer.node_set(elsewhere)
            found = self._explain_by_claims(claims, reachable, reachable.decide(claims.values()))
            text = f"{found.message}; and the pod can run on no node: {count_obstacles(obstacles)}"
            return replace(found, message=text) if obstacles else found
        return self._explain_by_claims(claims, usable, decision)

    def count_devices(self) -> dict[str, tuple[tuple[Alternative, DeviceCounts], ...]]:
        """Return what keeps devices from each open claim, by entry."""
        obstacles = self.explainer.cluster.find_obstacles(self.requirements)
        elsewhere = self._nodes_out_of_reach()
        causes = {**elsewhere, **{name: f"unsuitable: {obstacle}" for name, obstacle in obstacles.items()}}
        nodes = self.explainer.allocator.inventory.nodes
        if pinned := self._find_pinned(elsewhere):
            with self._only(pinned, elsewhere) as there:
                return self._count(there)
        return self._count(
            self.explainer.node_set(elsewhere if all(name in causes for name in nodes) else causes)
        )

    def _count(self, nodes: NodeSet) -> dict[str, tuple[tuple[Alternative, DeviceCounts], ...]]:
        return {
            name: nodes.explainer.count_devices(claim, decider=nodes.decider, limits=nodes.limits)
            for name, claim in self._open_claims().items()
        }

    def _find_pinned(self, elsewhere: Mapping[str, str]) -> list[str]:
        """Return the nodes to which the pod's own fields keep it, if they are few; none if it has no such fields."""
        known = self.explainer.allocator.inventory.nodes
        admitted = self.explainer.cluster.find_admitted(self.requirements) or []
        found = sorted(name for name in admitted if name in known and name not in elsewhere)
        return found if len(found) <= _FEW_NODES else []

    @contextmanager
    def _only(self, names: Sequence[str], elsewhere: Mapping[str, str]) -> Iterator[NodeSet]:
        """Give nodes as if there were no others, and as if nothing but what the pod has were in the way there."""
        explainer = self.explainer
        inventory = explainer.allocator.inventory.with_nodes(frozenset(names)).with_unusable_nodes(elsewhere)
        copy = Explainer(explainer.allocator.for_copy(inventory))
        try:
            yield NodeSet(copy, explainer.decider, explainer.limits)
        finally:
            copy.release()

    def _explain_pinned(
        self, claims: Mapping[str, ResourceClaim], names: Sequence[str], elsewhere: Mapping[str, str]
    ) -> PodExplanation:
        """Explain a pod that its own fields keep to a few nodes, with all that is in the way there."""
        cluster, requirements = self.explainer.cluster, self.requirements
        obstacles = {
            name: cluster.find_all_obstacles(requirements, name) for name in names if name in cluster.nodes
        }
        told = [f"{name}: {', '.join(map(str, each))}" for name, each in obstacles.items() if each]
        fields = [
            field
            for field, value in (
                ("nodeName", requirements.node_name),
                ("nodeSelector", requirements.node_selector),
                ("node affinity", requirements.affinity),
            )
            if value
        ]
        kept = f"{listed(names)}, to which its {' and '.join(fields)} keep{'s' if len(fields) == 1 else ''} the pod"
        with self._only(names, elsewhere) as there:
            decision = there.decide(claims.values())
            if not isinstance(decision, Allocated):
                found = self._explain_by_claims(claims, there, decision)
                where = f"; counted on {kept}"
                where += f"; and the pod cannot run there: {'; '.join(told)}" if told else ""
                each = {
                    name: replace(one, message=f"{one.message}{where}") for name, one in found.claims.items()
                }
                return replace(found, message=f"{found.message}{where}", claims=each)
        text = f"{_fit(claims)} on {kept}, and the pod cannot run there: {'; '.join(told)}"
        return _of_all(claims, Reason.NODE_UNSUITABLE, text)

    def situation(self) -> Situation:
        """Return what an edit is applied to."""
        explainer, cluster, elsewhere = self.explainer, self.explainer.cluster, self._nodes_out_of_reach()
        allocator = explainer.node_set(elsewhere).allocator
        names = [name for name in sorted(allocator.inventory.nodes) if name not in elsewhere]
        obstacles = dict(cluster.find_obstacles(self.requirements))

        def find_nodes_without(condition: str) -> Sequence[str]:
            left = cluster.find_obstacles_without(self.requirements, condition)
            return [name for name in names if name not in left]

        return Situation(
            self._open_claims(),
            allocator,
            explainer.decider,
            nodes=[name for name in names if name not in obstacles] if obstacles or elsewhere else None,
            conditions=Counter(each.condition for name, each in obstacles.items() if name not in elsewhere),
            find_nodes_without=find_nodes_without,
            find_claim=explainer.find_claim,
            kept=frozenset(claim_key(each.claim) for each in self.entries if each.claim is not None),
        )

    def _open_claims(self) -> dict[str, ResourceClaim]:
        """Return the claims without an allocation, by entry."""
        return {entry.name: entry.claim for entry in self.entries if _is_open(entry) and entry.claim}

    def _is_pinned(self) -> bool:
        """Return whether a claim that is allocated keeps the pod to some nodes."""
        return any(allocation.node_selector is not None for _, allocation in self._held())

    def _held(self) -> Iterator[tuple[str, AllocationResult]]:
        """Yield what the pod has already, by entry."""
        for entry in self.entries:
            if entry.claim is not None and entry.claim.status.allocation is not None:
                yield entry.name, entry.claim.status.allocation

    def _places(self) -> Iterator[str]:
        """Yield, for each claim that is allocated, the nodes that can use it."""
        nodes = sorted(self.explainer.allocator.inventory.nodes.items())
        for entry, allocation in self._held():
            names = [name for name, node in nodes if can_use(allocation, node)]
            yield f'"{entry}" on {listed(names) if names else "none"}'

    def _nodes_out_of_reach(self) -> dict[str, str]:
        """Return the nodes where the pod cannot use a claim that is allocated already, and why."""
        causes: dict[str, str] = {}
        for entry, allocation in self._held():
            for name, node in self.explainer.allocator.inventory.nodes.items():
                if name not in causes and not can_use(allocation, node):
                    causes[name] = f'not where claim "{entry}" is allocated'
        return causes

    def _explain_held(
        self,
        claims: Mapping[str, ResourceClaim],
        obstacles: Mapping[str, Obstacle],
        elsewhere: Mapping[str, str],
    ) -> PodExplanation:
        """Explain a pod that can run nowhere where it can use what it has."""
        reachable = sorted(self.explainer.allocator.inventory.nodes.keys() - elsewhere.keys())
        held = [f'"{entry}"' for entry, _ in self._held()]
        subject = f"claim{'s' if len(held) > 1 else ''} {listed(held)}"
        is_are = "are" if len(held) > 1 else "is"
        if not reachable:
            text = f"{subject} {is_are} allocated, and no node can use {'all of them' if len(held) > 1 else 'it'}"
            if len(held) > 1:
                text += f": {', '.join(self._places())}"
        else:
            at = {name: obstacles[name] for name in reachable}
            where = f"on {listed(reachable)}, where the pod cannot run: {count_obstacles(at)}"
            text = f"{subject} {is_are} allocated {where}"
        return _of_all(claims, Reason.ALLOCATED_NODE_UNSUITABLE, text)

    def _explain_by_nodes(
        self,
        claims: Mapping[str, ResourceClaim],
        obstacles: Mapping[str, Obstacle],
        elsewhere: Mapping[str, str],
    ) -> PodExplanation | None:
        """Return that the claims fit on nodes that the pod cannot use; None if they fit on no node."""
        if not obstacles:
            return None
        reachable = self.explainer.node_set(elsewhere)
        left = {name for name in obstacles if name not in elsewhere}
        found: dict[str, Obstacle] = {}
        while left and len(found) < _MOST_NODES:
            decision = reachable.decide(claims.values(), left)
            if not isinstance(decision, Allocated):
                break
            found[decision.node] = obstacles[decision.node]
            left.discard(decision.node)
        if not found:
            return None
        count = f"{len(found)}{' or more' if len(found) == _MOST_NODES and left else ''}"
        nodes = f"node{'s' if len(found) > 1 else ''}"
        text = f"{_fit(claims)} on {count} {nodes}, where the pod cannot run: {count_obstacles(found)}"
        return _of_all(claims, Reason.NODE_UNSUITABLE, text)

    def _explain_on(self, claims: Mapping[str, ResourceClaim], nodes: Sequence[str]) -> str:
        """Return what claims wait for on some nodes, as if there were no others."""
        with self._only(nodes, {}) as there:
            return self._explain_by_claims(claims, there, there.decide(claims.values())).message

    def _explain_by_claims(
        self, claims: Mapping[str, ResourceClaim], usable: NodeSet, decision: Decision
    ) -> PodExplanation:
        """Explain claims that fit on no node: those that fit nowhere alone, or that they do not fit together."""
        alone = {name: usable.decide((claim,)) for name, claim in claims.items()}
        stuck = {
            name: usable.explain(claims[name], each)
            for name, each in alone.items()
            if not isinstance(each, Allocated)
        }
        if stuck:
            name, first = next(iter(stuck.items()))
            waits = Explanation(first.reason, f'claim "{name}" of the same pod waits')
            told = {each: stuck.get(each, waits) for each in claims}
            return PodExplanation(first.reason, _about(self.entries, name, first.message), told)
        if isinstance(decision, Failed):
            return _of_all(claims, decision.reason, decision.message)
        together = explain_together(claims, alone, usable)
        return _of_all(claims, together.reason, together.message)


def explain_together(
    claims: Mapping[str, ResourceClaim], alone: Mapping[str, Decision], usable: NodeSet
) -> Explanation:
    """Return why claims do not fit together, each of which fits by itself."""
    places = [f"{name} on {each.node}" for name, each in alone.items() if isinstance(each, Allocated)]
    text = (
        f"each claim fits alone ({listed(places)}), but no node that suits the pod has room for all of them"
    )
    merged = merge_claims([*claims], [*claims.values()])
    decision = usable.decide((merged,))
    if not isinstance(decision, Allocated | Failed):
        why = usable.explain(merged, decision)
        if why.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER:
            text = f"{text}: {why.message}"
    return Explanation(Reason.CLAIMS_DO_NOT_FIT_TOGETHER, text)


def _of_all(claims: Iterable[str], reason: Reason, text: str) -> PodExplanation:
    """Return that a pod waits, and all of its open claims for the same reason."""
    return PodExplanation(reason, text, dict.fromkeys(claims, Explanation(reason, text)))


def _fit(claims: Sized) -> str:
    return "its claim fits" if len(claims) == 1 else "its claims fit"


def count_obstacles(obstacles: Mapping[str, Obstacle]) -> str:
    """Return what is in the way on some nodes, what most have first, each with its nodes."""
    groups: dict[str, list[str]] = {}
    for name in sorted(obstacles):
        groups.setdefault(str(obstacles[name]), []).append(name)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    texts = [f"{len(names)} {text} ({listed(names)})" for text, names in ranked[:_MOST_CAUSES]]
    if more := sum(len(names) for _, names in ranked[_MOST_CAUSES:]):
        texts.append(f"{more} others")
    return ", ".join(texts)


def _fitting(node: str) -> PodExplanation:
    text = f"its claims fit on node {node}, and the scheduler has not placed it"
    return PodExplanation(Reason.NOT_SCHEDULED, text, node=node)


def explain_no_node(obstacles: Mapping[str, Obstacle]) -> PodExplanation:
    """Return that a pod can run on no node, and how many nodes each condition keeps it from."""
    text = f"the pod can run on no node: {count_obstacles(obstacles)}" if obstacles else "there are no nodes"
    return PodExplanation(Reason.NODE_UNSUITABLE if obstacles else Reason.NO_NODES, text)


def _is_open(entry: PodEntry) -> bool:
    return entry.claim is not None and entry.claim.status.allocation is None


def _identity(entry: PodEntry) -> tuple[object, ...]:
    """Return what decisions about the claim of an entry depend on: claims of one template share their spec."""
    claim = entry.claim
    assert claim is not None
    return id(claim.spec), id(claim.status.allocation) if claim.status.allocation is not None else None


def _about(entries: Sequence[PodEntry], name: str, text: str) -> str:
    return text if len(entries) == 1 else f'claim "{name}": {text}'


# --- One claim that asks for what several ask for: where it fits, they fit together.


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
