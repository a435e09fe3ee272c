"""Collisions: what claims have that is not there, told on them, and which of them give way.

A device that two claims have for themselves alone is one of them two too many, whatever else is true. Counters and
shared capacity are a matter of amounts, which slices may lower; what claims brought about is told on the claims, and
what slices brought about on the slice, once for the pool and not for each of hundreds of claims that are not to blame.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
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
from dra_operator.controller.yielding import next_to_yield, release, yielding
from dra_operator.inventory import Inventory
from dra_operator.ledger import Overcommitment, Overcommitments

LASTING_SECONDS = 2.0
"""How long more must be allocated of something than there is, in seconds, before it is told and anybody gives way.

An allocation can be seen before the slice that made room for it: they come in by watches of their own. Of the time in
which nothing is heard of slices, none counts.
"""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What was told of a case, while that was so and these claims gave way."""

    case: Overcommitment
    giving: Sequence[Key]
    facts: AbstractSet[Hashable]


class Collisions:
    """Keeps track of what claims have too much, and has claims yield. `hears` says whether slices are heard of now."""

    def __init__(self, desk: Desk, inventory: Inventory, intake: Intake, hears: Callable[[], bool]) -> None:
        self._desk = desk
        self._intake = intake
        self._hears = hears
        self._heard = True
        self._overcommitments = Overcommitments(inventory, desk.ledger)
        self._ledger_version = -1
        self._facts: dict[str, set[Hashable]] = {"device": set(), "overcommitment": set()}
        """What was told, by sort."""
        self._givers: set[Key] = set()
        """The claims that give back a device that another has as well."""
        self._yielding: set[Key] = set()
        """The claims that give way to an overcommitment. One that was chosen stays chosen as long as it can."""
        self._told: dict[tuple[object, ...], _Sentence] = {}
        """What was told of each thing that is overcommitted."""
        self._since: dict[tuple[object, ...], float] = {}
        """Since when each thing is overcommitted, by the clock; for ever if that has lasted."""

    def report(self) -> None:
        """Look for collisions, if what is used or published has changed, and have those yield that can.

        What we have decided and nobody has stored yet is no collision: of two who are after one device at the same
        moment the API server may still refuse one.
        """
        self._report_devices()
        self._report_overcommitments()
        self._desk.yielding = self._givers | self._yielding

    def next_due(self) -> float | None:
        """Return when the next thing will have been overcommitted for long, by the clock, or None."""
        begun = [since for since in self._since.values() if since > -math.inf]
        return min(begun) + LASTING_SECONDS if begun else None

    def _report_devices(self) -> None:
        version = self._desk.ledger.version
        if version == self._ledger_version:
            return
        desk, found, count = self._desk, set[Hashable](), 0
        self._givers = set()
        for collision in desk.ledger.collisions():
            # Looked at again until it is over: that an assumption is confirmed, that somebody begins to use a claim, or
            # what becomes of a write changes no version of the ledger.
            version = -1
            stored = self._stored(collision.claims)
            if len(stored) < 2:
                continue
            count += 1
            giving = yielding(desk, stored)
            for claim in giving:
                release(desk, claim)
            keys = [claim_key(claim) for claim in giving]
            self._givers.update(keys)
            message = messages.collision(collision.device, [claim_key(claim) for claim in stored], keys)
            for claim in stored:
                fact = ("collision", collision.device, claim_key(claim))
                self._note("device", fact, found)
                tell(desk, fact, subject_of(claim), messages.EVENT_COLLISION, message)
        self._clear("device", found)
        self._ledger_version = version
        desk.metrics.collisions.set(count)

    def _report_overcommitments(self) -> None:
        desk, found = self._desk, set[Hashable]()
        cases = self._lasting(self._overcommitments.find())
        able = [(case, self._able(case)) for case in cases]
        # Whoever has begun to give way is not asked to stop halfway, and nobody else until it is gone.
        self._yielding &= {key for _, claims in able for key in claims}
        for case, claims in able:
            going = self._yielding | self._givers
            for key in self._yielding & claims.keys():
                release(desk, claims[key])
            if not going.isdisjoint(claims):
                continue
            beside = [
                other
                for other, others in able
                if not others.keys().isdisjoint(claims) and going.isdisjoint(others)
            ]
            if (chosen := next_to_yield(case, claims, beside)) is not None:
                self._yielding.add(chosen)
                release(desk, claims[chosen])
        for case in cases:
            self._tell(case, found)
        self._told = {case.key: self._told[case.key] for case in cases}
        self._clear("overcommitment", found)
        desk.metrics.overcommitments.set(len(cases))

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

    def _able(self, case: Overcommitment) -> dict[Key, ResourceClaim]:
        """Return the claims that can give way to the others of a case."""
        claims = yielding(self._desk, self._stored(case.claims)) if case.by_claims else []
        return {claim_key(claim): claim for claim in claims}

    def _stored(self, keys: Iterable[Key]) -> list[ResourceClaim]:
        """Return those of some claims whose allocation is stored."""
        claims = [claim for key in keys if (claim := self._desk.book.get(key)) is not None]
        return [claim for claim in claims if claim.status.allocation is not None]

    def _tell(self, case: Overcommitment, found: set[Hashable]) -> None:
        giving = sorted(self._yielding.intersection(case.claims))
        told = self._told.get(case.key)
        if told is not None and told.case is case and told.giving == giving:
            # As it was: the sentence of each of hundreds of cases takes longer than to find them.
            found |= told.facts
            return
        message, facts = messages.overcommitted(case, giving), set[Hashable]()
        if case.by_claims:
            subjects = [subject_of(claim) for claim in self._stored(case.claims)]
        else:
            subjects = [self._intake.subject("ResourceSlice", case.slice_name)]
        for subject in subjects:
            fact = ("overcommitted", case.key, subject.kind, subject.namespace, subject.name)
            self._note("overcommitment", fact, facts)
            # Who else has a share of it by now, and how much, is no news.
            tell(self._desk, fact, subject, messages.EVENT_OVERCOMMITTED, message, (case.key, *giving))
        self._told[case.key] = _Sentence(case, giving, facts)
        found |= facts

    def _note(self, sort: str, fact: Hashable, found: set[Hashable]) -> None:
        found.add(fact)
        # At once: after a defect further down it is still known what is to be cleared.
        self._facts[sort].add(fact)

    def _clear(self, sort: str, found: set[Hashable]) -> None:
        for fact in self._facts[sort] - found:
            self._desk.reports.clear(fact)
        self._facts[sort] = found
