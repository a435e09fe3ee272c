"""The allocator: claims in, one decision out.

It joins the parts: a plan for each claim, the walk over nodes, a search in each node, and the result of the first that
fits. It reads the inventory and the ledger and changes neither; the caller enters decisions in the ledger.

The first node by name that fits wins. An error that is fatal upstream ends the attempt, even if another node would fit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from enum import Enum

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import (
    AbortedError,
    Allocated,
    Decider,
    Decision,
    Failed,
    FatalError,
    Unsatisfied,
    claim_key,
)
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.allocator.nodes import NodeIterator
from dra_operator.allocator.plan import ClaimPlan, Planner
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.result import build_result
from dra_operator.allocator.search.chain import SearchChain, SearchMode
from dra_operator.allocator.search.problem import Solution
from dra_operator.api.names import ADMIN_ACCESS_LABEL, SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.api.versions import Rules
from dra_operator.cel.types.environment import Environment
from dra_operator.inventory import ChangeSet, Features, Inventory, NodeView, Verdict, Views
from dra_operator.ledger import Availability, Ledger


class AdminAccess(Enum):
    """Who may ask for admin access: claims in namespaces with the label, or any claim.

    The API server checks the label when a claim is created, and the allocator checks it again. Recorded scenarios have
    no namespaces, so there any claim may.
    """

    LABELLED_NAMESPACES = "labelled namespaces"
    ANY_NAMESPACE = "any namespace"


def _environment(features: Features) -> Environment:
    return Environment(
        features.rules.kubernetes,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )


class _CompletePoolsSearches(SearchChain):
    """The searches in a node of which only the complete pools are seen."""

    __slots__ = ()

    def search(
        self, plans: Sequence[ClaimPlan], node: str, view: NodeView, budget: Budget
    ) -> Solution | None:
        """Return what some claims get on a node, or None. Raises FatalError and AbortedError."""
        return super().search(plans, node, _complete(view), budget)


def _complete(view: NodeView) -> NodeView:
    """Return a view of the complete pools alone: the others have no devices in it."""
    row = tuple([pair for pair in view.row if pair[1].verdict is Verdict.COMPLETE])
    if len(row) == len(view.row):
        return view
    starts, pools = tuple([start for start, _ in row]), tuple([pool for _, pool in row])
    return replace(view, pools=pools, starts=starts, row=row)


@dataclass(slots=True)
class Allocator:
    """Decides for an inventory and a ledger, which it follows.

    `decider` is on whose behalf it decides unless a call says otherwise. `clock` returns seconds and only serves the
    deadline; `share_ids` returns a fresh lower-case UUID for each share. `sharing` are the candidates of another
    allocator with the same features, whose answers of selectors are used.
    """

    inventory: Inventory
    ledger: Ledger
    features: Features = field(default_factory=Features.all_on, kw_only=True)
    limits: Limits = field(default_factory=Limits, kw_only=True)
    clock: Callable[[], float] = field(kw_only=True)
    share_ids: Callable[[], str] = field(kw_only=True)
    admin_access: AdminAccess = field(default=AdminAccess.LABELLED_NAMESPACES, kw_only=True)
    searching: SearchMode = field(default=SearchMode.COUNTING, kw_only=True)
    decider: Decider = field(default=Decider.KUBE_SCHEDULER, kw_only=True)
    sharing: InitVar[Candidates | None] = field(default=None, kw_only=True)
    availability: Availability = field(init=False)
    candidates: Candidates = field(init=False)
    _planner: Planner = field(init=False)
    _planner_of_other: Planner | None = None
    _counting: SearchChain = field(init=False)
    _plain: SearchChain = field(init=False)
    _nodes: NodeIterator = field(init=False)
    _complete: SearchChain = field(init=False)
    _complete_nodes: NodeIterator = field(init=False)
    _class_changes: ChangeSet = field(init=False)

    def __post_init__(self, sharing: Candidates | None) -> None:
        self._class_changes = self.inventory.subscribe()
        views = Views(self.inventory, self.features)
        self.availability = Availability(views, self.ledger)
        self.candidates = sharing or Candidates(self.features, SelectorCache(_environment(self.features)))
        self._planner = Planner(self.inventory.classes, self.candidates, self.decider)
        self._counting = SearchChain.counting(self.availability, self.candidates)
        self._plain = SearchChain(self.availability, self.candidates)
        self._nodes = NodeIterator(self.availability, self.candidates)
        self._complete = _CompletePoolsSearches.counting(self.availability, self.candidates)
        self._complete_nodes = NodeIterator(self.availability, self.candidates)

    def allocate(
        self,
        claims: Sequence[ResourceClaim],
        nodes: Sequence[str] | int | None = None,
        *,
        decider: Decider | None = None,
        limits: Limits | None = None,
        is_preempted: Callable[[], bool] | None = None,
    ) -> Decision:
        """Decide for some claims together: all of them on one node, or none.

        `nodes` restricts the nodes that are asked: by name, of which unknown ones are left out, or as of `node_set`.
        `limits` are for this attempt alone. Raises PreemptedError soon after it `is_preempted`; what was evaluated
        until then makes the next attempt shorter.
        """
        self.refresh()
        allowed = self.availability.views.usable
        if nodes is not None:
            allowed &= nodes if isinstance(nodes, int) else self.availability.views.set_of(nodes)
        return self._allocate(claims, allowed, decider, self.new_budget(limits, is_preempted))

    def allocate_for_pod(
        self,
        claims: Sequence[ResourceClaim],
        excluded: Iterable[str] | int,
        *,
        decider: Decider | None = None,
        limits: Limits | None = None,
    ) -> Decision:
        """Decide for the claims of a pod together: all of them on one node that is not `excluded`, or none.

        Nodes are excluded by name, or as of `node_set`. Which nodes suit is for the pod to say: one that tolerates a
        cordon is given nodes that other claims are not.
        """
        self.refresh()
        views = self.availability.views
        left_out = excluded if isinstance(excluded, int) else views.set_of(excluded)
        allowed = (1 << len(views.order)) - 1 & ~left_out
        return self._allocate(claims, allowed, decider, self.new_budget(limits))

    def _allocate(
        self, claims: Sequence[ResourceClaim], allowed: int, decider: Decider | None, budget: Budget
    ) -> Decision:
        try:
            plans = [self.plan(claim, decider) for claim in claims]
            found = self._nodes.first_that_fits(plans, allowed, self._searches(), budget)
            if found is None:
                return Unsatisfied()
            served, node = found
            record = self.inventory.nodes[node]
            results = [
                build_result(plan, devices, record, self.candidates, self.share_ids)
                for plan, devices in zip(plans, served, strict=True)
            ]
            return Allocated(node, tuple(results))
        except FatalError as error:
            return error.failed()
        except AbortedError as error:
            first = claim_key(claims[0]) if claims else None
            return Failed("aborted", str(error), Reason.SEARCH_ABORTED, claim=first)

    def node_set(self, nodes: Sequence[str]) -> int:
        """Return some nodes as `allocate` takes them without looking them up; it holds until nodes come or go."""
        self.refresh()
        return self.availability.views.set_of(nodes)

    def new_budget(
        self, limits: Limits | None = None, is_preempted: Callable[[], bool] | None = None
    ) -> Budget:
        """Return what an attempt may cost from now on; selectors are compiled in its time.

        The attempt ends with PreemptedError soon after it `is_preempted`.
        """
        budget = self.candidates.selectors.budget = Budget(limits or self.limits, self.clock, is_preempted)
        return budget

    def find_node(
        self, plans: Sequence[ClaimPlan], budget: Budget, *, allowed: int = -1, complete_only: bool = False
    ) -> str | None:
        """Return the first usable node by name on which some plans fit together, or None.

        `allowed` restricts the nodes as of `node_set`; with `complete_only` only complete pools are seen. What has
        changed is not taken in: call `refresh` before. Raises FatalError and AbortedError.
        """
        usable = self.availability.views.usable & allowed
        walk, searches = (
            (self._complete_nodes, self._complete) if complete_only else (self._nodes, self._searches())
        )
        found = walk.first_that_fits(plans, usable, searches, budget)
        return None if found is None else found[1]

    def for_copy(self, inventory: Inventory, ledger: Ledger | None = None) -> "Allocator":
        """Return an allocator like this one for another inventory, and ledger, that shares the answers of selectors.

        When nobody needs it any more, `release` it.
        """
        return Allocator(
            inventory,
            ledger or self.ledger,
            features=self.features,
            limits=self.limits,
            clock=self.clock,
            share_ids=self.share_ids,
            admin_access=self.admin_access,
            searching=self.searching,
            decider=self.decider,
            sharing=self.candidates,
        )

    def decide_by(self, rules: Rules) -> None:
        """Decide by the rules of another version of Kubernetes.

        Nothing may have been put into inventory and ledger yet: what is kept there depends on them.
        """
        self.features = replace(self.features, rules=rules)
        self.inventory.full_names = self.ledger.full_names = rules.full_names
        self.__post_init__(None)

    def release(self) -> None:
        """Forget what is kept about the views of this allocator; it cannot be used any more."""
        views = self.availability.views.of_pool.values()
        self.candidates.forget([view for of_pool in views for view in of_pool.values()])

    def refresh(self) -> None:
        """Take in what has changed in inventory and ledger."""
        changes = self.availability.refresh()
        class_changes = self._class_changes
        if changes is not None:
            self.candidates.forget(changes.removed)
            class_changes.pools.clear()
            class_changes.nodes.clear()
        if class_changes.classes:
            class_changes.classes.clear()
            self._planner.forget()
            self._planner_of_other = None

    def plan(self, claim: ResourceClaim, decider: Decider | None = None) -> ClaimPlan:
        """Return the plan of a claim. Raises FatalError for errors that do not depend on the node.

        What a pod asks for as extended resources is kube-scheduler's to decide, whoever decides its claims.
        """
        if SPECIAL_CLAIM_ANNOTATION in claim.metadata.annotations:
            decider = Decider.KUBE_SCHEDULER
        if decider is None or decider is self.decider:
            plan = self._planner.plan(claim)
        else:
            if self._planner_of_other is None:
                self._planner_of_other = Planner(self.inventory.classes, self.candidates, decider)
            plan = self._planner_of_other.plan(claim)
        if plan.evaluates_used:
            self._check_admin_access(plan)
        return plan

    def _searches(self) -> SearchChain:
        return self._counting if self.searching is SearchMode.COUNTING else self._plain

    def _check_admin_access(self, plan: ClaimPlan) -> None:
        if self.admin_access is AdminAccess.ANY_NAMESPACE:
            return
        namespace = plan.key[0]
        for request in plan.requests:
            if any(item.admin_access for item in request.alternatives):
                if self.inventory.admits_admin_access(namespace):
                    return
                raise FatalError(
                    f"request {request.name}: asks for admin access, but namespace {namespace} has no label "
                    f'{ADMIN_ACCESS_LABEL}: "true"',
                    Reason.ADMIN_ACCESS_DENIED,
                    claim=plan.key,
                    request=request.name,
                    subject=("Namespace", namespace),
                )
