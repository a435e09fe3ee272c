"""The context: what the parts of a cycle share, so that each is made of it and of what it alone needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import DeviceRequestAllocationResult, ResourceClaim
from dra_operator.cluster.ownership_policy import RuleProbe
from dra_operator.cluster.writes import Write
from dra_operator.controller.claims import ClaimStore
from dra_operator.controller.facts import Facts
from dra_operator.controller.ingest import Ingest
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.queue import InFlightWrites, SchedulingQueue, Timers
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger


@dataclass(slots=True, kw_only=True)
class Context:
    """The state, what is under way, and the way out; used in the thread of cycles.

    `clock` is monotonic, in seconds, `wall` the time of day in UTC. `send` gets writes to pods and rules, those to
    claims go through `in_flight`. `hears` says whether what is known of a kind is up to date, `has_told` whether the
    watch of claims has brought a version.
    """

    inventory: Inventory
    ledger: Ledger
    explainer: Explainer
    claims: ClaimStore
    ingest: Ingest
    in_flight: InFlightWrites
    queue: SchedulingQueue
    events: Facts
    metrics: Metrics
    timers: Timers
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    send: Callable[[Write | RuleProbe], None]
    hears: Callable[[str], bool]
    has_told: Callable[[str], bool]

    def is_writable(self, claim: ResourceClaim) -> bool:
        """True if no write to a claim is under way and it does not back off."""
        return claim_key(claim) not in self.in_flight and not self.queue.backoff.holds_claim(claim)

    def may_end(self, claim: ResourceClaim) -> bool:
        """True if the allocation of a claim may end: no other claim holds one of its devices.

        kube-scheduler keeps the devices in use as a set, and would forget one that another claim holds as well.
        """
        return not self.ledger.shares_a_device(claim_key(claim))

    def is_ours(self, claim: ResourceClaim) -> bool:
        """True if an operator made the allocation of a claim: of devices that are ours nobody else makes one.

        Where all devices are, nobody else allocates. Admin access anybody may allocate on any device, so of a claim
        that has nothing else nobody knows who made it.
        """
        if self.inventory.settlement is None:
            return True
        results = [] if claim.status.allocation is None else claim.status.allocation.devices.results
        exclusive = [result for result in results if not result.admin_access]
        return bool(exclusive) and all(map(self._is_settled, exclusive))

    def is_foreign(self, claim: ResourceClaim) -> bool:
        """True if it is known that somebody else allocated a claim: a device of it is published, and not ours."""
        if self.inventory.settlement is None or claim.status.allocation is None:
            return False
        results = [result for result in claim.status.allocation.devices.results if not result.admin_access]
        published = [result for result in results if (result.driver, result.pool) in self.inventory.pools]
        return len(published) == len(results) and not all(map(self._is_settled, results))

    def _is_settled(self, result: DeviceRequestAllocationResult) -> bool:
        found = next(self.inventory.find_device(result.driver, result.pool, result.device), None)
        return found is not None and bool(found[0].ours >> found[1] & 1)
