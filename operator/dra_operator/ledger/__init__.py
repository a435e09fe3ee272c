"""What is used: exclusive devices, shares and counters, and our own decisions that are not yet written (assumed).

`allocated_state` is the ledger itself, by claim and device, with the devices that two claims hold. `availability` joins
it with the views of the inventory: what is free, what is left of counters, and the log of what came back.
`overcommitment` finds what is used beyond what there is, and whether claims or slices brought it about. `broken` finds
allocations whose devices or nodes are gone, or tainted so that what uses them must end.
"""

from dra_operator.ledger.allocated_state import ClaimKey, Ledger
from dra_operator.ledger.availability import Availability, Log, PoolState
from dra_operator.ledger.broken import Breakage, BrokenAllocations, Cause
from dra_operator.ledger.overcommitment import Overcommitment, Overcommitments, Resource

__all__ = [
    "Availability",
    "Breakage",
    "BrokenAllocations",
    "Cause",
    "ClaimKey",
    "Ledger",
    "Log",
    "Overcommitment",
    "Overcommitments",
    "PoolState",
    "Resource",
]
