"""Collisions: what claims have that is not there, told on them.

A device that two claims have is one of them too many, whatever else is true. Counters and shared capacity are a matter
of amounts, which slices may lower; what claims brought about is told on the claims, and what slices brought about on
the slice, once for the pool and not for each of hundreds of claims that are not to blame. Nothing is taken back: who
uses a device only a person can tell, and kube-scheduler forgets a device when any claim that holds it is cleared.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.desk import Desk
from dra_operator.controller.intake import Intake
from dra_operator.controller.problems import tell
from dra_operator.controller.telling import subject_of
from dra_operator.inventory import Inventory
from dra_operator.ledger import Overcommitment, Overcommitments

LASTING_SECONDS = 2.0
"""How long more must be allocated of something than there is, in seconds, before it is told.

An allocation can be seen before the slice that made room for it: they come in by watches of their own. Of the time in
which nothing is heard of slices, none counts.
"""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What was told of a case, while that was so."""

    case: Overcommitment
    facts: AbstractSet[Hashable]


class Collisions:
    """Keeps track of what claims have too much. `hears` says whether slices are heard of now."""

    def __init__(self, desk: Desk, inventory: Inventory, intake: Intake, hears: Callable[[], bool]) -> None:
        self._desk = desk
        self._intake = intake
        self._hears = hears
        self._heard = True
        self._overcommitments = Overcommitments(inventory, desk.ledger)
        self._ledger_version = -1
        self._facts: dict[str, set[Hashable]] = {"device": set(), "overcommitment": set()}
        """What was told, by sort."""
        self._told: dict[tuple[object, ...], _Sentence] = {}
        """What was told of each thing that is overcommitted."""
        self._since: dict[tuple[object, ...], float] = {}
        """Since when each thing is overcommitted, by the clock; for ever if that has lasted."""

    def report(self) -> None:
        """Look for collisions, if what is used or published has changed.

        What we have decided and nobody has stored yet is no collision: of two who are after one device at the same
        moment the API server may still refuse one.
        """
        self._report_devices()
        self._report_overcommitments()

    def next_due(self) -> float | None:
        """Return when the next thing will have been overcommitted for long, by the clock, or None."""
        begun = [since for since in self._since.values() if since > -math.inf]
        return min(begun) + LASTING_SECONDS if begun else None

    def _report_devices(self) -> None:
        version = self._desk.ledger.version
        if version == self._ledger_version:
            return
        desk, found, count = self._desk, set[Hashable](), 0
        for collision in desk.ledger.collisions():
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
                fact, waits = ("collision", collision.device, key), key in desk.uncleared
                self._note("device", fact, found)
                message = messages.collision(collision.device, key, others, waits=waits)
                tell(desk, fact, subject_of(claim), messages.EVENT_COLLISION, message)
        self._clear("device", found)
        self._ledger_version = version
        desk.metrics.collisions.set(count)

    def _report_overcommitments(self) -> None:
        found = set[Hashable]()
        cases = self._lasting(self._overcommitments.find())
        for case in cases:
            self._tell(case, found)
        self._told = {case.key: self._told[case.key] for case in cases}
        self._clear("overcommitment", found)
        self._desk.metrics.overcommitments.set(len(cases))

    def _lasting(self, cases: Iterable[Overcommitment]) -> list[Overcommitment]:
        """Return those of some cases that have lasted, and are stored with all their claims."""
        now, heard = self._desk.clock(), self._heard
        self._heard = self._hears()
        stored = [case for case in cases if len(self._stored(case.claims)) == len(case.claims)]
        since = {case.key: self._since.get(case.key, now) for case in stored}
        # What was heard again may have come while the pass was under way.
        if not (heard and self._heard):
            since = {key: now if begun > -math.inf else begun for key, begun in since.items()}
        lasting = [case for case in stored if now >= since[case.key] + LASTING_SECONDS]
        self._since = since | {case.key: -math.inf for case in lasting}
        return lasting

    def _stored(self, keys: Iterable[Key]) -> list[ResourceClaim]:
        """Return those of some claims whose allocation is stored."""
        claims = [claim for key in keys if (claim := self._desk.book.get(key)) is not None]
        return [claim for claim in claims if claim.status.allocation is not None]

    def _tell(self, case: Overcommitment, found: set[Hashable]) -> None:
        told = self._told.get(case.key)
        if told is not None and told.case is case:
            # As it was: the sentence of each of hundreds of cases takes longer than to find them.
            found |= told.facts
            return
        facts = set[Hashable]()
        if case.by_claims:
            subjects = [subject_of(claim) for claim in self._stored(case.claims)]
        else:
            subjects = [self._intake.subject("ResourceSlice", case.slice_name)]
        namespaces = dict.fromkeys(subject.namespace for subject in subjects)
        texts = {namespace: messages.overcommitted(case, namespace) for namespace in namespaces}
        for subject in subjects:
            fact = ("overcommitted", case.key, subject.kind, subject.namespace, subject.name)
            self._note("overcommitment", fact, facts)
            # Who else has a share of it by now, and how much, is no news.
            message = texts[subject.namespace]
            tell(self._desk, fact, subject, messages.EVENT_OVERCOMMITTED, message, case.key)
        self._told[case.key] = _Sentence(case, facts)
        found |= facts

    def _note(self, sort: str, fact: Hashable, found: set[Hashable]) -> None:
        found.add(fact)
        # At once: after a defect further down it is still known what is to be cleared.
        self._facts[sort].add(fact)

    def _clear(self, sort: str, found: set[Hashable]) -> None:
        for fact in self._facts[sort] - found:
            self._desk.reports.clear(fact)
        self._facts[sort] = found
