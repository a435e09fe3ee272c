"""Times and limits that nobody has to set: a Lease, a pass, writes, health. Tests construct others."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times are in seconds."""

    quiet_seconds: float = 0.02
    """A pass starts when nothing has changed for this long."""
    latest_seconds: float = 0.25
    """A pass starts at the latest this long after the first change."""
    full_pass_seconds: float = 300
    """How often all pending claims are tried again, even if nothing has changed."""
    tries_per_node: int = 1000
    """How many devices the allocator may try in vain on one node before it gives up on the claim for now."""
    identity: str = ""
    """The operator's name in the Lease, never that of two. Empty: its pod's, else its host's."""
    lease_seconds: int = 15
    """After how long without a renewal of the Lease another operator takes over."""
    write_concurrency: int = 12
    """How many claims are written to at the same time."""
    request_timeout_seconds: float = 60
    """How long one request may take that writes to a claim or reads it back."""
    event_refresh_seconds: float = 1200
    """How often the Event of a waiting claim is refreshed. The API server deletes Events after an hour."""
    ownership_quiet_seconds: float = 600
    """How long nobody else must have stored an allocation in a pool before its owned devices are used, where no policy
    protects them."""
    maintenance_quiet_seconds: float = 120
    """How long no claim must have held a device in maintenance before it is safe to work on: kube-scheduler stores what
    it decided before a rule up to 83 s after it."""
    stale_seconds: float = 120
    """Not ready if the API server was not heard of for this long; of a kind that nobody changes, 75 are normal."""
    stuck_seconds: float = 300
    """Not alive if one pass makes no progress for this long."""
    drain_seconds: float = 10
    """How long the operator, when it stops, waits for the running pass, and then for writes that were sent. The
    `terminationGracePeriodSeconds` of its pod is twice as long, plus ten."""
