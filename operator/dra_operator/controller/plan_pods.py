"""Plans for gated pods: the next step of a decided pod, and which allocations nobody is going to use.

Level-triggered: each follows from what is stored of the pod and its claims. A pod that was decided is nominated to its
node, and let go once all that is stored has been seen: claims that several pods share are reserved, then the
nomination, at last our gate. Source: docs/pods.md; kube-scheduler, binding cycle and PreEnqueue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.cluster.writes import Consumer, Write, annotate, nominate, open_gate, reserve
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, Standing, annotation
from dra_operator.controller.context import Context
from dra_operator.controller.fencing import EarlierWrites
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.gate import SchedulingPod, let_go_mark
from dra_operator.pods.pod_decision import PodDecider

WaitsFor: TypeAlias = Literal["answers", "decision", "watch", "earlier writes"]


@dataclass(frozen=True, slots=True)
class Step:
    """What is written to a pod or to its claims, and what the pod waits for then."""

    waits_for: WaitsFor = "answers"
    to_pod: Write | None = None
    to_claims: tuple[Write, ...] = ()

    @property
    def opens_gate(self) -> bool:
        """Whether it takes the gate off."""
        return self.to_pod is not None and self.to_pod.kind == "gate"


def plan_gang(steps: Sequence[Step], *, is_begun: bool) -> tuple[Step, ...]:
    """Return the next steps of the gated pods of a gang that were decided: no gate comes off before all may.

    `is_begun`: the gate of one is off, so the others follow, each as soon as it may. A step for a decision has all
    decided again, and nothing of the others is written.
    """
    if is_begun:
        return tuple(steps)
    if any(step.waits_for == "decision" for step in steps):
        return (Step("decision"),) * len(steps)
    if all(step.opens_gate for step in steps):
        return tuple(steps)
    return tuple(replace(step, to_pod=None) if step.opens_gate else step for step in steps)


@dataclass(frozen=True, slots=True)
class PodPlans:
    """Plans by the state of the cluster, which they only read."""

    context: Context
    cluster: ClusterPods
    decider: PodDecider
    earlier_writes: EarlierWrites

    def plan_hand_over(self, pod: SchedulingPod, node: str, claims: Sequence[ResourceClaim]) -> Step:
        """Return the next step of a pod that was decided for a node, and all of whose claims are allocated."""
        # kube-scheduler counts the time that binding conditions may take from that of the allocation.
        is_urgent = any(
            claim.status.allocation and waits_for_binding(claim.status.allocation) for claim in claims
        )
        if not self._suits(pod, node, claims):
            return Step("decision")
        if reserving := [claim for claim in claims if self._is_to_reserve(pod, claim)]:
            consumer = Consumer(pod.name, pod.uid)
            writable = filter(self.context.is_writable, reserving)
            return Step(to_claims=tuple(reserve(claim, consumer) for claim in writable))
        if not is_urgent and pod.nominated_node != node:
            return Step(to_pod=nominate(pod, node))
        fences = self._plan_fences(claims)
        if any(map(self.earlier_writes.may_take_back, claims)):
            return Step("earlier writes", to_claims=fences)
        # Whoever watches as well should know what is stored before the gate comes off.
        if not (is_urgent or all(self.context.has_told(claim.metadata.resource_version) for claim in claims)):
            return Step("watch", to_claims=fences)
        mark = let_go_mark(self.context.wall(), node, pod.uid)
        return Step(to_pod=open_gate(pod, mark), to_claims=fences)

    def _suits(self, pod: SchedulingPod, node: str, claims: Sequence[ResourceClaim]) -> bool:
        """True if a node still suits a pod; somebody else may have allocated a claim meanwhile, elsewhere."""
        waiting = self.cluster.gated.get(pod.key)
        if waiting is None or node not in self.cluster.nodes:
            return False
        return self.decider.can_use(claims, node) and (
            self.cluster.find_obstacle(waiting.requirements, node, pod.key) is None
        )

    def _is_to_reserve(self, pod: SchedulingPod, claim: ResourceClaim) -> bool:
        """True if a claim is to be reserved for a pod, as others name it or have named it.

        Else kube-controller-manager clears it with the reservation of the last pod that has run or is gone: at any
        moment, and for a pod that has run and is still there again and again. kube-scheduler does not reserve it once
        more. What somebody else allocated is left to them.
        """
        users = claim.status.reserved_for
        if any(each.uid == pod.uid for each in users):
            return False
        is_shared = bool(users) or self.context.claims.is_shared(claim_key(claim))
        return is_shared and self.context.is_ours(claim)

    def _plan_fences(self, claims: Sequence[ResourceClaim]) -> tuple[Write, ...]:
        """Return what gives claims another version that an earlier operator may be taking back.

        They get our annotation, which says so, and lose it again: what was sent for the version before fails then.
        """
        writes = list[Write]()
        for claim in filter(self.context.is_writable, claims):
            is_told = annotation(claim) is not None
            if is_told or self.earlier_writes.may_take_back(claim):
                told = None if is_told else messages.CLAIM_FENCED
                writes.append(annotate(claim, PENDING_ANNOTATION, told))
        return tuple(writes)

    # --- what nobody is going to use

    def find_unused(self, pod: SchedulingPod, is_going: Callable[[Key], bool]) -> list[ResourceClaim]:
        """Return the claims of a pod, which cannot use their allocations, that nobody else is going to use.

        A claim is ours to clear, and only gated pods name it: then it is reserved for these at most. `is_going` says
        whether a pod has been decided, or is being written.
        """
        claims, context = self.context.claims, self.context
        return [
            claim
            for claim in claims.find_all(pod.namespace, pod.claims)
            if claim.status.allocation is not None
            and claims.standing(claim) is Standing.GATED
            and context.is_writable(claim)
            and context.may_end(claim)
            and self.is_for_us_to_clear(claim)
            and not any(
                is_going((pod.namespace, name)) for name in claims.users(claim_key(claim)) - {pod.name}
            )
        ]

    def is_orphan(self, claim: ResourceClaim) -> bool:
        """True if a claim has an allocation and no pod names it; false where claims without pods are ours."""
        return (
            claim.status.allocation is not None
            and not claim.status.reserved_for
            and not claim.metadata.deletion_timestamp
            and self.context.claims.standing(claim) is Standing.STANDALONE
        )

    def is_for_us_to_clear(self, claim: ResourceClaim) -> bool:
        """True if an operator made the allocation of a claim, or its node is gone: then nobody can use it."""
        assert claim.status.allocation is not None
        node = pinned_to(claim.status.allocation.node_selector)
        return self.context.is_ours(claim) or (node is not None and node not in self.cluster.nodes)


def waits_for_binding(allocation: AllocationResult) -> bool:
    """True if some device of an allocation must get ready before a pod can be bound."""
    return any(result.binding_conditions for result in allocation.devices.results)
