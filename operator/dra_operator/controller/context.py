"""The context: what the parts of a cycle share, so that each is made of it and of what it alone needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import Write
from dra_operator.controller.claims import ClaimStore
from dra_operator.controller.facts import Facts
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.queue import InFlightWrites, SchedulingQueue
from dra_operator.controller.timers import Timers
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger


@dataclass(slots=True, kw_only=True)
class Context:
    """The state, what is under way, and the way out; used in the thread of cycles.

    `clock` is monotonic, in seconds, `wall` the time of day in UTC. `send` gets writes to pods, those to claims go
    through `in_flight`. `has_told` says whether the watch of claims has brought a version, `is_ours` whether the
    operator made the allocation of a claim.
    """

    inventory: Inventory
    ledger: Ledger
    claims: ClaimStore
    in_flight: InFlightWrites
    queue: SchedulingQueue
    events: Facts
    metrics: Metrics
    timers: Timers
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    send: Callable[[Write], None]
    has_told: Callable[[str], bool]
    is_ours: Callable[[ResourceClaim], bool]

    def is_writable(self, claim: ResourceClaim) -> bool:
        """True if no write to a claim is under way and it does not back off."""
        return claim_key(claim) not in self.in_flight and not self.queue.backoff.holds_claim(claim)

    def may_end(self, claim: ResourceClaim) -> bool:
        """True if the allocation of a claim may end: no other claim holds one of its devices.

        kube-scheduler keeps the devices in use as a set, and would forget one that another claim holds as well.
        """
        return not self.ledger.shares_a_device(claim_key(claim))
