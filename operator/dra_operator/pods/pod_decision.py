"""The decision about a gated pod: the first node by name that suits it and has what all its claims ask for together.

Claims that are allocated keep the pod to the nodes where they can be used; the others are decided on devices of ours.
What the pod asks for as extended resources must fit there as well, on devices that kube-scheduler may take.
Source: kube-scheduler's Filter, docs/dra-semantics 8.2 and 8.7; docs/pods.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decider, Failed
from dra_operator.allocator.extended import classes_by_resource, extended_resources, special_claim
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, DeviceClass, ResourceClaim
from dra_operator.explain import Explainer
from dra_operator.pods.claims import ClaimLookup, PodEntry, TemplateLookup, can_use, resolve_entries
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.explanation import (
    EXTENDED,
    LIMITS,
    PodExplainer,
    PodExplanation,
    explain_no_node,
)
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.smallest_change import Effort

_CORDONED = "cordoned"
"""Of what makes a node unusable for claims without a pod, this is for a pod to tolerate."""


@dataclass(frozen=True, slots=True)
class PodDecision:
    """The node of a pod, and what its claims get there that had no allocation, by name of the claim.

    The allocations have no timestamp. `extended` is the claim that it needs there for its extended resources, with what
    that gets.
    """

    node: str
    allocations: Mapping[str, AllocationResult]
    extended: tuple[ResourceClaim, AllocationResult] | None = None


@dataclass(slots=True)
class PodDecider:
    """Decides pods by the present state of what `explainer` follows, and of the nodes of `cluster`.

    Nothing is written and nothing enters the ledger. `find_claim` returns a claim with the allocation that counts,
    also one that is not stored yet: a claim without one is decided, on behalf of `decider`.
    """

    explainer: Explainer
    cluster: ClusterPods
    find_claim: ClaimLookup
    has_template: TemplateLookup
    decider: Decider = Decider.OPERATOR
    limits: Limits = LIMITS
    """Of each decision for an explanation."""
    explainer_of_pods: PodExplainer = field(init=False)
    _unready: tuple[object, frozenset[str]] = (None, frozenset())

    def __post_init__(self) -> None:
        self.explainer_of_pods = PodExplainer(
            self.explainer, self.cluster, self.find_claim, self.has_template, self.decider, self.limits
        )

    @property
    def allocator(self) -> Allocator:
        """What decides claims."""
        return self.explainer.allocator

    def decide(self, pod: Pod, requirements: PodRequirements) -> PodDecision | PodExplanation:
        """Return where a pod can run and what its claims get there, or why it waits."""
        found = self.find_node(pod, requirements)
        return found if isinstance(found, PodDecision) else self.explain(pod, requirements)

    def find_node(self, pod: Pod, requirements: PodRequirements) -> PodDecision | Failed | None:
        """Return where a pod can run and what its claims get there; None if it waits, Failed if that was not found out.

        The time of the allocator's limits is for the whole of it.
        """
        entries = [*resolve_entries(pod, self.find_claim, self.has_template), *self.find_made(pod)]
        if any(entry.problem is not None for entry in entries):
            return None
        claims = [entry.claim for entry in entries if entry.claim is not None]
        unallocated = [claim for claim in claims if claim.status.allocation is None]
        excluded = self.find_excluded(pod, requirements, claims)
        aborted, until = None, self._deadline()
        for extended, others in self._options(pod, excluded):
            asked = unallocated if extended is None else [*unallocated, extended]
            if not asked:
                return self._first_node(excluded | others)
            decision = self.allocator.allocate_for_pod(
                asked, excluded | others, decider=self.decider, limits=self._limits(until)
            )
            if isinstance(decision, Allocated):
                names = [claim.metadata.name for claim in unallocated]
                special = None if extended is None else (extended, decision.results[-1])
                return PodDecision(decision.node, dict(zip(names, decision.results, strict=False)), special)
            if isinstance(decision, Failed) and decision.kind == "aborted":
                aborted = decision
        return aborted

    def _deadline(self) -> float | None:
        seconds = self.allocator.limits.seconds
        return None if seconds is None else self.allocator.clock() + seconds

    def _limits(self, until: float | None) -> Limits:
        """Return the limits of a search that ends at a time."""
        limits = self.allocator.limits
        return limits if until is None else replace(limits, seconds=max(0.0, until - self.allocator.clock()))

    def can_use(self, claims: Iterable[ResourceClaim], node: str) -> bool:
        """Return whether a pod on a node can use all of some claims: they are allocated, and not elsewhere."""
        there = self.allocator.inventory.nodes.get(node)
        return there is not None and all(
            claim.status.allocation is not None and can_use(claim.status.allocation, there)
            for claim in claims
        )

    def explain(self, pod: Pod, requirements: PodRequirements) -> PodExplanation:
        """Return why a pod waits for which no node was found."""
        found = self.explainer_of_pods.explain(pod, requirements, self.find_extended(pod, requirements))
        if found is None:
            return explain_no_node(self.cluster.find_obstacles(requirements))
        if not found.node:
            return found
        reason, text = Reason.NODE_UNSUITABLE, f"its claims fit on node {found.node}"
        if (why := self.allocator.inventory.nodes[found.node].unusable) not in (None, _CORDONED):
            text = f"{text}, which is {why}"
        else:
            reason, text = Reason.CLAIMS_DO_NOT_FIT_TOGETHER, f"{text} without some of its {EXTENDED}"
        return PodExplanation(reason, text)

    def find_extended(self, pod: Pod, requirements: PodRequirements) -> ResourceClaim | None:
        """Return a claim for a pod's extended resources; None if it needs none.

        It is another one on nodes with a device plugin; which of them is returned matters little.
        """
        if made := self.find_made(pod):
            return made[0].claim
        if not self._find_wanted(pod):
            return None
        excluded = self.find_excluded(pod, requirements, ())
        if excluded >= self.allocator.inventory.nodes.keys():
            # No node suits, and what is said of that is said of its claims.
            return special_claim(pod, classes_by_resource(self.allocator.inventory.classes.values()), {})
        return next((claim for claim, _ in self._options(pod, excluded) if claim is not None), None)

    def find_made(self, pod: Pod) -> list[PodEntry]:
        """Return the claim that kube-scheduler made for a pod's extended resources, as an entry, if it did."""
        status = pod.status.extended_resource_claim_status
        key = pod.metadata.namespace, "" if status is None else status.resource_claim_name
        return [] if (claim := self.find_claim(key)) is None else [PodEntry(EXTENDED, claim)]

    def _find_wanted(self, pod: Pod) -> tuple[str, ...]:
        """Return the extended resources for which a pod still needs a claim: none where it has one, or a node."""
        return () if pod.spec.node_name or self.find_made(pod) else extended_resources(pod)

    def advise(self, pod: Pod, requirements: PodRequirements, effort: Effort) -> str:
        """Return what would make the claims of a pod fit, as the end of its explanation; nothing if it is not known."""
        if extended_resources(pod):
            # Nobody can edit the requests that kube-scheduler makes of them.
            return ""
        return self.explainer_of_pods.advise(pod, requirements, effort)

    def find_excluded(
        self, pod: Pod, requirements: PodRequirements, claims: Sequence[ResourceClaim]
    ) -> frozenset[str]:
        """Return the nodes that do not suit a pod, or where it cannot use one of some claims that is allocated."""
        nodes = self.allocator.inventory.nodes
        # On its node a pod has what it requests, and counts against itself.
        bound = pod.spec.node_name
        obstacles = {} if bound else self.cluster.find_obstacles(requirements)
        excluded = nodes.keys() - {bound} if bound else {*obstacles, *self._find_unready()}
        nominated = pod.status.nominated_node_name
        key = pod.metadata.namespace, pod.metadata.name
        if nominated in obstacles and self.cluster.find_obstacle(requirements, nominated, key) is None:
            # It counted there against itself.
            excluded.discard(nominated)
        for claim in claims:
            if (allocation := claim.status.allocation) is not None:
                pinned = pinned_to(allocation.node_selector)
                # Most name one node.
                candidates = nodes.keys() - excluded if pinned is None else nodes.keys() & {pinned}
                excluded.update(nodes.keys() - candidates)
                excluded.update(name for name in candidates if not can_use(allocation, nodes[name]))
        return frozenset(excluded)

    def _find_unready(self) -> frozenset[str]:
        """Return the nodes that are for no pod: being deleted, not ready, or with a Node object that cannot be read."""
        nodes, known = self.allocator.inventory.nodes, self.cluster.nodes
        version = self.allocator.inventory.version, len(known)
        if self._unready[0] != version:
            found = [
                name
                for name, node in nodes.items()
                if node.unusable not in (None, _CORDONED) or name not in known
            ]
            self._unready = version, frozenset(found)
        return self._unready[1]

    def _first_node(self, excluded: frozenset[str]) -> PodDecision | None:
        names = self.allocator.inventory.nodes.keys() - excluded
        return PodDecision(min(names), {}) if names else None

    def _options(
        self, pod: Pod, excluded: frozenset[str]
    ) -> Iterator[tuple[ResourceClaim | None, frozenset[str]]]:
        """Yield the claims for a pod's extended resources, each with the nodes that it is not for.

        On nodes with a device plugin it needs another one, or none. They come in the order of the first of their nodes.
        """
        names = self._find_wanted(pod)
        if not names:
            yield None, frozenset()
            return
        classes = classes_by_resource(self.allocator.inventory.classes.values())
        nodes = [name for name in sorted(self.allocator.inventory.nodes) if name not in excluded]
        for extended, run in self._runs(pod, names, classes, nodes):
            yield extended, frozenset(nodes).difference(run)

    def _runs(
        self, pod: Pod, resources: Sequence[str], classes: Mapping[str, DeviceClass], nodes: Sequence[str]
    ) -> Iterator[tuple[ResourceClaim | None, list[str]]]:
        """Yield runs of nodes that serve the same of some resources by a device plugin, with the claim for the rest."""
        last: tuple[bool, ...] | None = None
        run: list[str] = []
        for name in nodes:
            allocatable = self.cluster.nodes[name].allocatable
            plugged = tuple([allocatable.get(each, 0) > 0 for each in resources])
            if run and plugged != last:
                yield special_claim(pod, classes, self.cluster.nodes[run[0]].allocatable), run
                run = []
            last = plugged
            run.append(name)
        if run:
            yield special_claim(pod, classes, self.cluster.nodes[run[0]].allocatable), run
