"""The desk: what the parts of a pass have in common, and the way out for what they want done.

A pass takes in (`intake`), receives the answers to writes (`landing`), tidies up (`tidying`) and decides
(`passes`). All of them look at the same claims and put what must happen on the event loop, writes and Events,
on one pile, in order.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.rule_writer import RuleWrite
from dra_operator.cluster.writes import Write
from dra_operator.controller.claims import ClaimBook, Key, version_of
from dra_operator.controller.flights import Flights
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.putoff import PutOffs
from dra_operator.controller.reports import Notice, Reports
from dra_operator.controller.rights import MissingRights
from dra_operator.controller.telling import Telling
from dra_operator.ledger import Ledger

Effect: TypeAlias = Write | RuleWrite | Notice
"""What a pass wants done on the event loop."""

MOST_STORED = 4096
"""Of more claims that were allocated at once the first ones are not looked at any further."""


@dataclass(slots=True)
class Desk:
    """The shared state of a pass. `clock` is monotonic, `wall` the time of day in UTC."""

    ledger: Ledger
    book: ClaimBook
    flights: Flights
    putoffs: PutOffs
    reports: Reports
    telling: Telling
    metrics: Metrics
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    since: dict[Key, float] = field(default_factory=dict)
    """When each claim that waits began to, by the clock, in that order."""
    nodes: dict[Key, str] = field(default_factory=dict)
    """The node each allocation on its way was decided for."""
    stored: deque[tuple[Key, str]] = field(default_factory=lambda: deque(maxlen=MOST_STORED))
    """The claims, by uid, whose allocation was just stored and whose selectors are to be looked at."""
    pile: list[Effect] = field(default_factory=list)
    number: int = 0
    """The number of the pass."""
    uncleared: set[Key] = field(default_factory=set)
    """The claims whose deletion waits, since another claim holds a device of theirs."""
    lingering: PutOffs = field(init=False)
    """The claims of which an annotation cannot be written just now. That holds up nothing else of them."""
    rights: MissingRights = field(default_factory=MissingRights)
    """What the API server does not permit us to write."""

    def __post_init__(self) -> None:
        self.lingering = PutOffs(self.clock)

    def say(self, notice: Notice | None) -> None:
        """Have an Event recorded, if there is one to record."""
        if notice is not None:
            self.pile.append(notice)

    def launch(self, write: Write) -> None:
        """Have a write sent, at once or as soon as the one before it has been answered."""
        if self.flights.start(write):
            self.pile.append(write)

    def is_put_off(self, claim: ResourceClaim) -> bool:
        """True if the claim must not be tried yet."""
        namespace, name, uid, version = version_of(claim)
        return self.putoffs.waits((namespace, name), uid, version)


def text(key: Key) -> str:
    """Return a claim's key as people write it."""
    return "/".join(key)
