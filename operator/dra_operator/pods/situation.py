"""Situations: claims that do not fit, and all that decides them, so that an edit can be applied and decided again.

Nothing is written and nothing of the cluster changes: claims are copies, and claims that end do so in a copy of the
ledger.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decider, Decision, Failed, Unsatisfied
from dra_operator.api.types import AllocationResult, DeviceAllocationResult, ResourceClaim
from dra_operator.inventory import Inventory
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.claims import ClaimLookup

Claims: TypeAlias = Mapping[str, ResourceClaim]
"""Claims by entry of their pod."""
LIMITS: Final = Limits(steps=20_000, seconds=0.25, tries=200)
_LEAST_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Situation:
    """Claims without an allocation that are decided together, if any, and what they are decided by.

    `claims` are by entry; a claim without a pod may have any name. `nodes` are those that suit the pod, None for all
    that can be used. `conditions` are what keeps the pod from others, each with the number of its nodes;
    `find_nodes_without` returns the nodes that suit if one of these is ignored on all. `find_claim` knows the claims
    that may end; `kept` are not asked to, as the pod uses them. `ended` are those that have ended.
    """

    claims: Claims
    allocator: Allocator
    decider: Decider = Decider.KUBE_SCHEDULER
    nodes: Sequence[str] | None = None
    conditions: Mapping[str, int] = field(default_factory=dict)
    find_nodes_without: Callable[[str], Sequence[str]] = lambda _: ()
    find_claim: ClaimLookup = lambda _: None
    kept: frozenset[ClaimKey] = frozenset()
    ended: frozenset[ClaimKey] = frozenset()

    @property
    def namespace(self) -> str:
        """The namespace of the claims: no object of another one is named to their users."""
        return next((claim.metadata.namespace for claim in self.claims.values()), "")

    def decide(self, limits: Limits = LIMITS) -> Decision:
        """Decide the claims; where there are none, a node that suits the pod is enough."""
        if not self.claims:
            names = [*self.allocator.inventory.nodes] if self.nodes is None else self.nodes
            return Allocated(names[0], ()) if names else Unsatisfied()
        if not self.ended:
            claims, allocator = [*self.claims.values()], self.allocator
            if self.nodes is None:
                return allocator.allocate(claims, decider=self.decider, limits=limits)
            # Which nodes suit is for the pod to say: it may tolerate a cordon, or the edit is that there is none.
            excluded = ~allocator.node_set(self.nodes)
            return allocator.allocate_for_pod(claims, excluded, decider=self.decider, limits=limits)
        inventory = self.allocator.inventory
        ledger = copy_ledger(self.allocator.ledger, inventory)
        for key in self.ended:
            ledger.withdraw(*key)
        allocator = self.allocator.for_copy(inventory, ledger)
        try:
            return replace(self, allocator=allocator, ended=frozenset()).decide(limits)
        finally:
            allocator.release()


def copy_ledger(ledger: Ledger, inventory: Inventory) -> Ledger:
    """Return a ledger in which all that is held of the devices of an inventory is assumed, to be withdrawn."""
    found = Ledger(ledger.shares, ledger.full_names)
    holders: set[ClaimKey] = set()
    for slice_ in inventory.slices():
        holders |= ledger.holders(slice_.key, slice_.names)
    for key in sorted(holders):
        found.assume(*key, AllocationResult(DeviceAllocationResult(ledger.results(key))))
    return found


class ExhaustedError(Exception):
    """No more decisions may be made."""


@dataclass(slots=True)
class Trials:
    """Decisions of edited situations, at most `left` of them until `deadline` by the allocator's clock.

    `decision` is that of the situation itself. `is_complete`: each was made to its end, so that what did not fit does
    not.
    """

    situation: Situation
    decision: Decision
    left: int
    deadline: float
    is_complete: bool = True

    def decide(self, edited: Situation) -> Decision:
        """Decide an edited situation. Raises ExhaustedError if no more decisions may be made."""
        self.check_time()
        if self.left <= 0:
            self.is_complete = False
            raise ExhaustedError
        self.left -= 1
        left = max(self.deadline - self.situation.allocator.clock(), _LEAST_SECONDS)
        decision = edited.decide(replace(LIMITS, seconds=min(left, LIMITS.seconds or left)))
        if isinstance(decision, Failed) and decision.kind == "aborted":
            self.is_complete = False
        return decision

    def fit(self, edited: Situation) -> bool:
        """Return whether an edited situation fits. Raises ExhaustedError."""
        return isinstance(self.decide(edited), Allocated)

    def check_time(self) -> None:
        """Raise ExhaustedError if the time is used up."""
        if self.situation.allocator.clock() > self.deadline:
            self.is_complete = False
            raise ExhaustedError
