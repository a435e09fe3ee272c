"""Double allocations: devices that two claims hold, counters and capacities with more allocated than published.

What claims brought about is reported on the claims; what slices brought about on the slice, once for the pool and not
for each of hundreds of claims. Nothing is taken back: who uses a device only a person can tell, and kube-scheduler
forgets a device when any claim that holds it is cleared.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key
from dra_operator.controller.event_dedup import EventDeduplicator, subject_of
from dra_operator.controller.ingest import Ingest
from dra_operator.controller.metrics import Metrics
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger, Overcommitment, Overcommitments

LASTING_SECONDS = 2.0
"""How long more must be allocated of something than there is, in seconds, before it is told.

An allocation can be seen before the slice that made room for it: they come in by watches of their own. Of the time in
which nothing is heard of slices, none counts.
"""


@dataclass(frozen=True, slots=True)
class _Reported:
    """What was reported of a case, while that was so."""

    case: Overcommitment
    facts: AbstractSet[Hashable]


@dataclass(slots=True)
class DoubleAllocationReporter:
    """Keeps track of what claims have too much. `hears` says whether a kind is heard of now.

    `retained` are the claims whose deletion waits, since another claim holds a device of theirs.
    """

    inventory: InitVar[Inventory]
    ledger: Ledger
    claims: ClaimStore
    retained: AbstractSet[Key]
    ingest: Ingest
    events: EventDeduplicator
    metrics: Metrics
    clock: Callable[[], float]
    hears: Callable[[str], bool]
    _heard: bool = True
    _overcommitments: Overcommitments = field(init=False)
    _ledger_version: int = -1
    _facts: dict[str, set[Hashable]] = field(
        default_factory=lambda: {"device": set(), "overcommitment": set()}
    )
    """What was reported, by sort."""
    _reported: dict[tuple[object, ...], _Reported] = field(default_factory=dict)
    """What was reported of each thing that is overcommitted."""
    _since: dict[tuple[object, ...], float] = field(default_factory=dict)
    """Since when each thing is overcommitted, by the clock; for ever if that has lasted."""

    def __post_init__(self, inventory: Inventory) -> None:
        self._overcommitments = Overcommitments(inventory, self.ledger)

    def report(self) -> float | None:
        """Report what is new, if what is used or published has changed.

        What was decided and is not stored yet does not count: of two who are after one device at the same moment the
        API server may still refuse one. Return when the next thing will have been overcommitted for long.
        """
        self._report_devices()
        self._report_overcommitments()
        begun = [since for since in self._since.values() if since > -math.inf]
        return min(begun) + LASTING_SECONDS if begun else None

    def _report_devices(self) -> None:
        version = self.ledger.version
        if version == self._ledger_version:
            return
        found, count = set[Hashable](), 0
        for collision in self.ledger.collisions():
            # Looked at again until it is over: that an assumption is confirmed, or that a claim waits to be cleared,
            # changes no version of the ledger.
            version = -1
            stored = self._stored(collision.claims)
            if len(stored) < 2:
                continue
            count += 1
            for claim in stored:
                key = claim_key(claim)
                others = [claim_key(other) for other in stored if other is not claim]
                fact, waits = ("collision", collision.device, key), key in self.retained
                self._add("device", fact, found)
                message = messages.collision(collision.device, key, others, waits=waits)
                self.events.report_problem(fact, subject_of(claim), messages.EVENT_COLLISION, message)
        self._clear("device", found)
        self._ledger_version = version
        self.metrics.collisions.set(count)

    def _report_overcommitments(self) -> None:
        found = set[Hashable]()
        cases = self._lasting(self._overcommitments.find())
        for case in cases:
            self._report_case(case, found)
        self._reported = {case.key: self._reported[case.key] for case in cases}
        self._clear("overcommitment", found)
        self.metrics.overcommitments.set(len(cases))

    def _lasting(self, cases: Iterable[Overcommitment]) -> list[Overcommitment]:
        """Return those of some cases that have lasted, and are stored with all their claims."""
        now, heard = self.clock(), self._heard
        self._heard = self.hears("ResourceSlice")
        stored = [case for case in cases if len(self._stored(case.claims)) == len(case.claims)]
        since = {case.key: self._since.get(case.key, now) for case in stored}
        # What was heard again may have come while the cycle was under way.
        if not (heard and self._heard):
            since = {key: now if begun > -math.inf else begun for key, begun in since.items()}
        lasting = [case for case in stored if now >= since[case.key] + LASTING_SECONDS]
        self._since = since | {case.key: -math.inf for case in lasting}
        return lasting

    def _stored(self, keys: Iterable[Key]) -> list[ResourceClaim]:
        """Return those of some claims whose allocation is stored."""
        claims = [claim for key in keys if (claim := self.claims.get(key)) is not None]
        return [claim for claim in claims if claim.status.allocation is not None]

    def _report_case(self, case: Overcommitment, found: set[Hashable]) -> None:
        before = self._reported.get(case.key)
        if before is not None and before.case is case:
            # As it was: the sentence of each of hundreds of cases takes longer than to find them.
            found |= before.facts
            return
        facts = set[Hashable]()
        if case.by_claims:
            subjects = [subject_of(claim) for claim in self._stored(case.claims)]
        else:
            subjects = [self.ingest.subject("ResourceSlice", case.slice_name)]
        namespaces = dict.fromkeys(subject.namespace for subject in subjects)
        texts = {namespace: messages.overcommitted(case, namespace) for namespace in namespaces}
        for subject in subjects:
            fact = ("overcommitted", case.key, subject.kind, subject.namespace, subject.name)
            self._add("overcommitment", fact, facts)
            # Who else has a share of it by now, and how much, is no news.
            message = texts[subject.namespace]
            self.events.report_problem(fact, subject, messages.EVENT_OVERCOMMITTED, message, case.key)
        self._reported[case.key] = _Reported(case, facts)
        found |= facts

    def _add(self, sort: str, fact: Hashable, found: set[Hashable]) -> None:
        found.add(fact)
        # At once: after a defect further down it is still known what is to be cleared.
        self._facts[sort].add(fact)

    def _clear(self, sort: str, found: set[Hashable]) -> None:
        for fact in self._facts[sort] - found:
            self.events.clear(fact)
        self._facts[sort] = found
