"""The allocator: claims in, one decision out.

It joins the parts: a plan for each claim, the walk over nodes, a search in each node, and the result of the first that
fits. It reads the inventory and the ledger and changes neither; the caller enters decisions in the ledger.

The first node by name that fits wins. An error that is fatal upstream ends the attempt, even if another node would fit.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decider import Decider
from dra_operator.allocator.decision import (
    AbortedError,
    Allocated,
    Decision,
    Explanation,
    Failed,
    FatalError,
    Unsatisfied,
    claim_key,
)
from dra_operator.allocator.explanation.device_counts import DeviceCounter, DeviceCounts, SliceDevices
from dra_operator.allocator.explanation.explain import Explainer, explain_failure
from dra_operator.allocator.explanation.failing_selectors import FailingSelectors
from dra_operator.allocator.explanation.idle_cluster import IdleAnswers, IdleCluster
from dra_operator.allocator.explanation.incomplete_pools import POOL_REASONS, IncompletePools
from dra_operator.allocator.explanation.pool_records import PublishedSlices
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.allocator.nodes.iteration import NodeIterator
from dra_operator.allocator.plan import Alternative, ClaimPlan, Planner
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.result import build_result
from dra_operator.allocator.search.chain import SearchChain, SearchMode
from dra_operator.api.names import ADMIN_ACCESS_LABEL, SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.cel import STORED, Environment
from dra_operator.inventory import ChangeSet, Features, Inventory, Views
from dra_operator.ledger import Availability, Ledger


class AdminAccess(Enum):
    """Who may ask for admin access: claims in namespaces with the label, or any claim.

    The API server checks the label when a claim is created, and the allocator checks it again. Recorded scenarios have
    no namespaces, so there any claim may.
    """

    LABELLED_NAMESPACES = "labelled namespaces"
    ANY_NAMESPACE = "any namespace"


@dataclass(slots=True)
class Allocator:
    """Decides for an inventory and a ledger, which it follows.

    `decider` is on whose behalf it decides unless a call says otherwise. `clock` returns seconds and only serves the
    deadline; `share_ids` returns a fresh lower-case UUID for each share. `sharing` are the candidates of another
    allocator with the same features and environment, whose answers of selectors are used.
    """

    inventory: Inventory
    ledger: Ledger
    features: Features = field(default_factory=Features.all_on, kw_only=True)
    limits: Limits = field(default_factory=Limits, kw_only=True)
    clock: Callable[[], float] = field(kw_only=True)
    share_ids: Callable[[], str] = field(kw_only=True)
    environment: Environment = field(default=STORED, kw_only=True)
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
    _class_changes: ChangeSet = field(init=False)
    _explainer: Explainer | None = None
    _incomplete_pools: IncompletePools | None = None
    _failing_selectors: FailingSelectors | None = None
    _idle: IdleCluster | None = None

    def __post_init__(self, sharing: Candidates | None) -> None:
        self._class_changes = self.inventory.subscribe()
        views = Views(self.inventory, self.features)
        self.availability = Availability(views, self.ledger)
        self.candidates = sharing or Candidates(self.features, SelectorCache(self.environment))
        self._planner = Planner(self.inventory.classes, self.candidates, self.decider)
        self._counting = SearchChain.counting(self.availability, self.candidates)
        self._plain = SearchChain(self.availability, self.candidates)
        self._nodes = NodeIterator(self.availability, self.candidates)

    def allocate(
        self,
        claims: Sequence[ResourceClaim],
        nodes: Sequence[str] | int | None = None,
        *,
        decider: Decider | None = None,
        limits: Limits | None = None,
    ) -> Decision:
        """Decide for some claims together: all of them on one node, or none.

        `nodes` restricts the nodes that are asked: by name, of which unknown ones are left out, or as of `node_set`.
        `limits` are for this attempt alone.
        """
        self.refresh()
        allowed = self.availability.views.usable
        if nodes is not None:
            allowed &= nodes if isinstance(nodes, int) else self.availability.views.set_of(nodes)
        return self._allocate(claims, allowed, decider, limits)

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
        return self._allocate(claims, allowed, decider, limits)

    def _allocate(
        self, claims: Sequence[ResourceClaim], allowed: int, decider: Decider | None, limits: Limits | None
    ) -> Decision:
        budget = self.candidates.selectors.budget = Budget(limits or self.limits, self.clock)
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

    def explain(
        self,
        claims: Sequence[ResourceClaim],
        decision: Decision,
        *,
        decider: Decider | None = None,
        limits: Limits | None = None,
        is_preempted: Callable[[], bool] | None = None,
    ) -> tuple[Explanation, ...]:
        """Return, for each of some claims, why it is not allocated; empty for a decision that allocates them.

        It explains the present state, which should be the one in which the decision was made. Raises PreemptedError
        soon after it `is_preempted`; what was evaluated until then makes the next attempt shorter.
        """
        if isinstance(decision, Allocated):
            return ()
        if isinstance(decision, Failed) and decision.reason not in POOL_REASONS:
            return tuple(explain_failure(decision, self.inventory.classes) for _ in claims)
        self.refresh()
        budget = Budget(limits or self.limits, self.clock, is_preempted)
        self.candidates.selectors.budget = budget
        try:
            plans = [self.plan(claim, decider) for claim in claims]
        except FatalError as error:
            return tuple(explain_failure(error.failed(), self.inventory.classes) for _ in claims)
        explainer, pools = self._make_explainers()
        if isinstance(decision, Failed):
            return tuple(pools.explain(decision, plans, number, budget) for number in range(len(plans)))
        return tuple(explainer.explain(plans, number, budget) for number in range(len(plans)))

    def count_devices(
        self, claim: ResourceClaim, *, decider: Decider | None = None, limits: Limits | None = None
    ) -> tuple[tuple[Alternative, DeviceCounts], ...]:
        """Return for each alternative of each request of a claim how many devices each stage keeps away.

        Nothing is said of a claim that cannot be planned, as without its class, nor where counting takes too long.
        """
        self.refresh()
        budget = self.candidates.selectors.budget = Budget(limits or self.limits, self.clock)
        try:
            plan = self.plan(claim, decider)
            counter = self._make_explainers()[0].counter
            items = [item for request in plan.requests for item in request.alternatives]
            return tuple([(item, counter.count(item, budget)) for item in items])
        except (FatalError, AbortedError):
            return ()

    def find_devices(
        self, claim: ResourceClaim, *, decider: Decider | None = None, limits: Limits | None = None
    ) -> Iterator[tuple[Alternative, SliceDevices]]:
        """Yield the devices that each alternative of each request of a claim selects, and what keeps some of them away.

        Nothing of a claim that cannot be planned; what takes too long ends it.
        """
        self.refresh()
        budget = self.candidates.selectors.budget = Budget(limits or self.limits, self.clock)
        try:
            plan = self.plan(claim, decider)
            counter = self._make_explainers()[0].counter
            for request in plan.requests:
                for item in request.alternatives:
                    for found in counter.find_devices(item, budget):
                        yield item, found
        except (FatalError, AbortedError):
            return

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
            environment=self.environment,
            admin_access=self.admin_access,
            searching=self.searching,
            decider=self.decider,
            sharing=self.candidates,
        )

    def release(self) -> None:
        """Forget what is kept about the views of this allocator; it cannot be used any more."""
        views = self.availability.views.of_pool.values()
        self.candidates.forget([view for of_pool in views for view in of_pool.values()])

    def fits_if_idle(self, claim: ResourceClaim, *, decider: Decider | None = None) -> bool | None:
        """Return whether a claim would fit if no device were in use or tainted; None if that cannot be told."""
        self.refresh()
        budget = self.candidates.selectors.budget = Budget(self.limits, self.clock)
        try:
            plan = self.plan(claim, decider)
        except FatalError:
            return False
        return self._make_explainers()[0].idle.fits(plan, budget)

    def find_failing(self, claim: ResourceClaim) -> list[str]:
        """Return a sentence for each selector of a claim that fails on some device, whether reached or not.

        What would take long is not looked at. Nothing is said of a claim that cannot be planned, as without its class.
        """
        self.refresh()
        self.candidates.selectors.budget = Budget(self.limits, self.clock)
        try:
            plan = self.plan(claim)
        except (FatalError, AbortedError):
            return []
        if self._failing_selectors is None:
            published = PublishedSlices(self.inventory, self.availability.views)
            self._failing_selectors = FailingSelectors(published, self.candidates)
        return self._failing_selectors.find(plan, self.clock)

    def _make_explainers(self) -> tuple[Explainer, IncompletePools]:
        if self._explainer is None or self._incomplete_pools is None:
            # They refer back to this allocator. Without them it is in no reference cycle, so tests and benchmarks that
            # make many allocators free each at once, without the garbage collector.
            counter = DeviceCounter(self.availability, self.candidates)
            cluster = self._idle = IdleCluster(self.inventory, self.candidates)
            idle = IdleAnswers(cluster, SearchChain.counting)
            self._explainer = Explainer(counter, self._fits, idle)
            self._incomplete_pools = IncompletePools(counter, cluster)
        return self._explainer, self._incomplete_pools

    def refresh(self) -> None:
        """Take in what has changed in inventory and ledger."""
        changes = self.availability.refresh()
        class_changes = self._class_changes
        if changes is not None:
            self.candidates.forget(changes.removed)
            if self._explainer is not None and self._idle is not None:
                self._explainer.counter.keep_up()
                self._idle.keep_up()
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

    def _fits(self, plans: Sequence[ClaimPlan], budget: Budget) -> str | None:
        usable = self.availability.views.usable
        found = self._nodes.first_that_fits(plans, usable, self._searches(), budget)
        return None if found is None else found[1]

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
