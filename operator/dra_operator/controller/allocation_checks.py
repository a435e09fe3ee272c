"""Checks of stored allocations: devices that two claims hold, broken allocations, and selectors that fail elsewhere.

Devices held twice and broken allocations are reported on the claims, overcommitment on whoever caused it: for slices
once for the pool. Nothing is taken back: who uses a device only a person can tell, and kube-scheduler forgets a device
when any claim that holds it is cleared. Overcommitment and breakages are not judged while slices are not heard of.
"""

import math
import operator
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.names import GROUP, OPT_OUT_LABEL
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.context import Context
from dra_operator.controller.facts import Annotations, Problem, one_line, subject_of, warning
from dra_operator.ledger import Breakage, BrokenAllocations, Cause, Overcommitment, Overcommitments
from dra_operator.questions import fault_texts

LASTING_SECONDS = 2.0
"""How long more must be allocated of something than there is, in seconds, before it is reported.

An allocation can be seen before the slice that made room for it: they come in by watches of their own. Of the time in
which nothing is heard of slices, none counts.
"""


@dataclass(slots=True)
class DoubleAllocationReporter:
    """Reports devices that two claims hold, and counters and capacities that are overcommitted.

    `retained` are the claims whose deletion waits, since another claim holds a device of theirs.
    """

    context: Context
    retained: AbstractSet[Key]
    held_twice: tuple[str, ...] = ()
    """The devices that more than one claim holds."""
    _heard: bool = True
    _overcommitments: Overcommitments = field(init=False)
    _ledger_version: int = -1
    _reported: tuple[Overcommitment, ...] = ()
    _since: dict[tuple[object, ...], float] = field(default_factory=dict)
    """Since when each thing is overcommitted, by the clock; for ever if that has lasted."""

    def __post_init__(self) -> None:
        self._overcommitments = Overcommitments(self.context.inventory, self.context.ledger)

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
        version = self.context.ledger.version
        if version == self._ledger_version:
            return
        found, devices = dict[Hashable, Problem](), list[str]()
        for collision in self.context.ledger.collisions():
            # Looked at again until it is over: that an assumption is confirmed, or that a claim waits to be cleared,
            # changes no version of the ledger.
            version = -1
            stored = self._stored(collision.claims)
            if len(stored) < 2:
                continue
            devices.append("/".join(collision.device))
            for claim in stored:
                key = claim_key(claim)
                others = [claim_key(other) for other in stored if other is not claim]
                message = messages.collision(collision.device, key, others, waits=key in self.retained)
                problem = (subject_of(claim), messages.EVENT_COLLISION, message, None)
                found["collision", collision.device, key] = problem
        self.context.events.set_topic("collisions", found)
        self._ledger_version = version
        self.held_twice = tuple(devices)
        self.context.metrics.collisions.set(len(devices))

    def _report_overcommitments(self) -> None:
        cases = tuple(self._lasting(self._overcommitments.find()))
        if len(cases) == len(self._reported) and all(map(operator.is_, cases, self._reported)):
            # The sentence of each of hundreds of cases takes longer than to find them.
            return
        found = dict[Hashable, Problem]()
        for case in cases:
            found |= self._describe_case(case)
        self.context.events.set_topic("overcommitments", found)
        self._reported = cases
        self.context.metrics.overcommitments.set(len(cases))

    def _lasting(self, cases: Iterable[Overcommitment]) -> list[Overcommitment]:
        """Return those of some cases that have lasted, and are stored with all their claims."""
        now, heard = self.context.clock(), self._heard
        self._heard = self.context.hears("ResourceSlice")
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
        claims = [claim for key in keys if (claim := self.context.claims.get(key)) is not None]
        return [claim for claim in claims if claim.status.allocation is not None]

    def _describe_case(self, case: Overcommitment) -> dict[Hashable, Problem]:
        """Return what is told of a case, on the claims that brought it about, or else on the slice."""
        if case.by_claims:
            subjects = [subject_of(claim) for claim in self._stored(case.claims)]
        else:
            subjects = [self.context.ingest.subject("ResourceSlice", case.slice_name)]
        namespaces = dict.fromkeys(subject.namespace for subject in subjects)
        texts = {namespace: messages.overcommitted(case, namespace) for namespace in namespaces}
        # Who else has a share of it by now, and how much, is no news.
        return {
            ("overcommitted", case.key, subject): (
                subject,
                messages.EVENT_OVERCOMMITTED,
                texts[subject.namespace],
                case.key,
            )
            for subject in subjects
        }


UNHEARD_SECONDS = 1.0
"""How often it is asked whether slices are heard of again."""


@dataclass(slots=True)
class BrokenAllocationReporter:
    """Keeps track of broken allocations, and has it told on claims and the pods that name them."""

    context: Context
    annotations: Annotations
    allocations: BrokenAllocations = field(init=False)
    _heard: bool = True
    _seen: dict[Key, None] = field(default_factory=dict)
    """The claims that came in since the last check."""
    _unknown: set[Key] = field(default_factory=set)
    """The claims that could not be judged: what was reported of them stays."""
    _told_pods: dict[Key, set[Hashable]] = field(default_factory=dict)
    """What was told to the pods that name each broken claim."""

    def __post_init__(self) -> None:
        self.allocations = BrokenAllocations(self.context.inventory)

    def observe(self, keys: Iterable[Key]) -> None:
        """Take in that claims came, or are gone."""
        self._seen.update(dict.fromkeys(keys))

    def report(self) -> float | None:
        """Judge what has changed, and report it; return when time alone makes that necessary again."""
        self._collect()
        self.allocations.follow()
        was_heard, self._heard = (
            self._heard,
            self.context.hears("ResourceSlice") and self.context.hears("Node"),
        )
        if self._heard:
            if not was_heard:
                self.allocations.restart(self.context.clock())
            self.allocations.refresh(self.context.clock(), self.context.wall().timestamp())
            for key in tuple(self.allocations.judged):
                self._report_claim(key, is_known=self.allocations.judged.pop(key))
        self._count()
        if not self._heard:
            return self.context.clock() + UNHEARD_SECONDS if self.allocations.is_pending else None
        return self.allocations.next_due()

    def _collect(self) -> None:
        while self._seen:
            key = next(iter(self._seen))
            # After a defect the others go on.
            del self._seen[key]
            claim = self.context.claims.get(key)
            allocation = None if claim is None else claim.status.allocation
            stated = None if claim is None else self.annotations.stated(claim)
            if self.allocations.put(key, allocation, was_broken=stated is not None) and stated is not None:
                self._unknown.add(key)
            if allocation is None:
                self._unknown.discard(key)
                self.context.events.clear(("broken", key))
            self._report_pods(key, claim)
            if claim is None:
                self.annotations.forget(key)
            else:
                self._annotate(claim)

    def _report_claim(self, key: Key, *, is_known: bool) -> None:
        """Report what was found of a claim."""
        claim = self.context.claims.get(key)
        if not is_known:
            self._unknown.add(key)
            return
        self._unknown.discard(key)
        if claim is None:
            return
        fact, breakages = ("broken", key), self.allocations.found.get(key)
        self._report_pods(key, claim)
        if breakages is None:
            self.context.events.clear(fact)
        else:
            text = self._describe(claim, breakages)
            if self.annotations.stated(claim) == one_line(text):
                # An operator that ran before this one has said so.
                event = warning(subject_of(claim), messages.EVENT_BROKEN, text)
                self.context.events.set_known(fact, event, breakages)
            self.context.events.report_problem(
                fact, subject_of(claim), messages.EVENT_BROKEN, text, breakages
            )
        self._annotate(claim)

    def _annotate(self, claim: ResourceClaim) -> None:
        """Have a claim say what is wrong with its allocation, unless that is not known, or it opted out."""
        key = claim_key(claim)
        if claim.metadata.labels.get(OPT_OUT_LABEL) == "false" or key in self._unknown:
            return
        breakages = self.allocations.found.get(key)
        if breakages is None:
            self.annotations.take_off(claim)
        else:
            self.annotations.set(claim, one_line(self._describe(claim, breakages)))

    def _describe(self, claim: ResourceClaim, breakages: Sequence[Breakage]) -> str:
        """Return what is wrong with an allocation, and what becomes of the claim or its pods."""
        holders = claim.status.reserved_for
        if self.context.claims.users(claim_key(claim)) or any(each.api_group != GROUP for each in holders):
            return messages.broken_in_use(breakages)
        return (
            messages.broken_in_reservation(breakages, holders[0].name)
            if holders
            else fault_texts.broken(breakages)
        )

    def _report_pods(self, key: Key, claim: ResourceClaim | None) -> None:
        """Report on each pod that names a claim that it is broken, and what becomes of the pod."""
        breakages, told = self.allocations.found.get(key), set[Hashable]()
        if claim is not None and breakages is not None:
            reserved = {consumer.uid for consumer in claim.status.reserved_for}
            for use in self.context.claims.uses(key):
                fact = ("broken", key, use.name, use.uid)
                told.add(fact)
                text = messages.broken_for_pod(key[1], breakages, is_reserved=use.uid in reserved)
                subject = Subject("Pod", use.namespace, use.name, use.uid)
                self.context.events.report_problem(fact, subject, messages.EVENT_BROKEN, text, breakages)
        for known in self._told_pods.pop(key, set()) - told:
            self.context.events.clear(known)
        if told:
            self._told_pods[key] = told

    def find_known(self) -> Mapping[Key, tuple[Breakage, ...]]:
        """Return the claims of which it is known now that they are broken."""
        if not self._heard:
            return {}
        found = self.allocations.found
        return {key: breakages for key, breakages in found.items() if key not in self._unknown}

    def _count(self) -> None:
        causes = Counter(
            cause for found in self.allocations.found.values() for cause in {item.cause for item in found}
        )
        for cause in Cause:
            self.context.metrics.broken_allocations.labels(cause.value).set(causes[cause])


SELECTOR_SECONDS = 0.02
"""How long a cycle looks at claims; one of them may take longer."""
MOST_STORED = 4096
"""Of more claims that were allocated at once the first ones are not looked at any further."""
SELECTOR_PAUSE = 10
"""How many times as long as it took nothing is looked at afterwards."""


@dataclass(slots=True)
class SelectorWarnings:
    """Has an Event recorded for each claim whose allocation was just stored and whose selectors fail on a device."""

    context: Context
    _stored: deque[tuple[Key, str]] = field(default_factory=lambda: deque(maxlen=MOST_STORED))
    _again_at: float = float("-inf")

    def add(self, key: Key, uid: str) -> None:
        """Have the selectors of a claim looked at whose allocation was just stored."""
        self._stored.append((key, uid))

    def report(self) -> float | None:
        """Look at some of the claims; return when the next one is to be looked at."""
        started = self.context.clock()
        if self._stored and started >= self._again_at:
            now = started
            while self._stored and now < started + SELECTOR_SECONDS:
                self._check(*self._stored.popleft())
                now = self.context.clock()
            self._again_at = now + SELECTOR_PAUSE * (now - started)
        return max(self._again_at, self.context.clock()) if self._stored else None

    def _check(self, key: Key, uid: str) -> None:
        claim = self.context.claims.get(key)
        if claim is not None and claim.metadata.uid == uid:
            for text in self.context.explainer.find_failing(claim):
                message = f"{text}; {fault_texts.NOT_REACHED}"
                self.context.events.record(warning(subject_of(claim), Reason.SELECTOR_FAILED.value, message))
