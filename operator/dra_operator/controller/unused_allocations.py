"""Unused allocations: what was stored for gated pods and nobody is going to use is taken back.

A pod cannot use what is on another node than its other claims, or on one that suits it no more; and a pod may go before
it was let go. What somebody else allocated is theirs, unless its node is gone. Source: docs/pods.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import withdraw
from dra_operator.controller.claims import ClaimStore, Key, Standing
from dra_operator.controller.queue import Backoff, InFlightWrites
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.gate import SchedulingPod


@dataclass(slots=True)
class UnusedAllocations:
    """Finds allocations that nobody is going to use, and has them taken back.

    `in_flight` and `backoff` are those of claims. `is_ours` says whether the operator made the allocation of a claim,
    `shares_a_device` whether another claim holds a device of one: kube-scheduler keeps the devices in use as a set, and
    would forget one that another claim holds as well.
    """

    claims: ClaimStore
    cluster: ClusterPods
    in_flight: InFlightWrites
    backoff: Backoff
    is_ours: Callable[[ResourceClaim], bool]
    shares_a_device: Callable[[Key], bool]
    _orphaned: set[Key] = field(default_factory=set)
    """Claims of pods that are gone, or that no pod names. Empty where claims without pods are ours."""

    def observe_claim(self, claim: ResourceClaim) -> None:
        """Take in the present state of a claim: it may be of a pod that went while no operator ran."""
        key = claim_key(claim)
        if claim.status.allocation is not None and not self.claims.users(key):
            self._add_orphans([key])

    def observe_end(self, pod: SchedulingPod) -> None:
        """Take in that a pod is gone, is over, or has a node."""
        self._add_orphans([(pod.namespace, name) for name in pod.claims])

    def _add_orphans(self, keys: Iterable[Key]) -> None:
        if not self.claims.scope.has_standalone:
            self._orphaned.update(keys)

    def release_orphans(self) -> None:
        """Have taken back what was stored for gated pods that are gone, if nobody names the claims any more."""
        for key in tuple(self._orphaned):
            claim = self.claims.get(key)
            if claim is None or claim.status.allocation is None or self._is_for_us_to_clear(claim):
                self._release_orphan(key, claim)
            elif self.claims.users(key):
                self._orphaned.discard(key)
            # Else its devices may be ours once they have settled.

    def _release_orphan(self, key: Key, claim: ResourceClaim | None) -> None:
        if key in self.in_flight or (claim is not None and self.backoff.holds_claim(claim)):
            return
        if (
            claim is None
            or claim.status.allocation is None
            or claim.status.reserved_for
            or claim.metadata.deletion_timestamp
            or self.claims.standing(claim) is not Standing.STANDALONE
        ):
            self._orphaned.discard(key)
        elif not self.shares_a_device(key):
            self.withdraw([claim])

    def find(self, pod: SchedulingPod, is_going: Callable[[Key], bool]) -> list[ResourceClaim]:
        """Return the claims of a pod, which cannot use their allocations, that nobody else is going to use.

        `is_going` says whether a pod has been decided, or is being written.
        """
        return [
            claim
            for claim in self.claims.find_all(pod.namespace, pod.claims)
            if self._may_take_back(claim)
            and not any(
                is_going((pod.namespace, name)) for name in self.claims.users(claim_key(claim)) - {pod.name}
            )
        ]

    def withdraw(self, claims: Iterable[ResourceClaim]) -> None:
        """Have the allocations of some claims taken back."""
        for claim in claims:
            self.in_flight.submit(withdraw(claim, unreserves=True))

    def _may_take_back(self, claim: ResourceClaim) -> bool:
        """True if a claim is allocated by us, and only gated pods name it: then it is reserved for these at most."""
        key = claim_key(claim)
        return (
            claim.status.allocation is not None
            and key not in self.in_flight
            and not self.backoff.holds_claim(claim)
            and self.claims.standing(claim) is Standing.GATED
            and not self.shares_a_device(key)
            and self._is_for_us_to_clear(claim)
        )

    def _is_for_us_to_clear(self, claim: ResourceClaim) -> bool:
        """True if an operator made the allocation of a claim, or its node is gone: then nobody can use it."""
        assert claim.status.allocation is not None
        node = pinned_to(claim.status.allocation.node_selector)
        return self.is_ours(claim) or (node is not None and node not in self.cluster.nodes)
