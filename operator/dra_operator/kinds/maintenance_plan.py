"""The plan of a maintenance: it keeps a taint on the cards that were begun, and takes pods off them.

At most `maxUnavailable` cards are begun at a time, those of the first names before. Source: docs/kinds.md.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from dra_operator.api.names import MAINTENANCE_KEY
from dra_operator.api.text import listed, timestamp
from dra_operator.kinds.changes import (
    RULE,
    Body,
    Change,
    Create,
    Delete,
    Plan,
    PlanEvent,
    condition,
    first_lines,
    owner_reference,
    taint_rule,
)
from dra_operator.kinds.device_maintenance import (
    ALL,
    KIND,
    MOST_CARDS,
    UNAVAILABLE,
    CardStatus,
    Maintenance,
    Phase,
)
from dra_operator.kinds.maintenance_cards import Card, ClaimName, Holder, Pod
from dra_operator.kinds.selector import DeviceKey

_RULE_PREFIX: Final = "dra-operator-maintenance"
_HASH_LETTERS: Final = 12
SAFE: Final = "SafeToWork"
BROKEN: Final = "AllocatedInMaintenance"
"""Reasons of Events that are counted as well."""


@dataclass(frozen=True, slots=True)
class MaintenanceRule:
    """A rule of a maintenance; `device` is None where it is not as it was made."""

    name: str
    uid: str
    created: datetime
    device: DeviceKey | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Quiet:
    """How long nobody must hold a card until it is safe: `fenced` where the policy refuses its allocation, else `open`.

    `fences` says since when it is known to do so, by the uids of rules.
    """

    open: timedelta
    fenced: timedelta
    fences: Mapping[str, datetime] = field(default_factory=dict)

    def find_end(self, since: datetime, rules: Iterable[MaintenanceRule]) -> datetime:
        """Return when a card with these rules is safe, that nobody has held since a moment."""
        known = [self.fences.get(rule.uid) for rule in rules]
        fenced = [each for each in known if each is not None]
        end = since + self.open
        return end if len(fenced) < len(known) else min(end, max(since, *fenced) + self.fenced)


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction of a pod, for the sake of a card; `key` is told apart from others by owner and device."""

    card: str
    pod: Pod
    key: str


def read_rule(body: Mapping[str, Any], uid: str) -> MaintenanceRule | None:
    """Return a DeviceTaintRule as on the wire; None of one that is not of a maintenance of this uid."""
    metadata = body["metadata"]
    if all(each.get("uid") != uid for each in metadata.get("ownerReferences") or ()):
        return None
    spec = body.get("spec") or {}
    chosen, taint = spec.get("deviceSelector") or {}, spec.get("taint") or {}
    key = DeviceKey(chosen.get("driver", ""), chosen.get("pool", ""), chosen.get("device", ""))
    is_ours = (
        set(chosen) == {"driver", "pool", "device"}
        and (taint.get("key"), taint.get("effect")) == (MAINTENANCE_KEY, "NoSchedule")
        and metadata["name"] == name_rule(uid, key)
    )
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    is_deleted = bool(metadata.get("deletionTimestamp"))
    return MaintenanceRule(metadata["name"], metadata["uid"], created, key if is_ours else None, is_deleted)


def name_rule(uid: str, key: DeviceKey) -> str:
    """Return the name of the rule of a device, for the maintenance of a uid."""
    digest = hashlib.sha256("\0".join((uid, *key)).encode()).hexdigest()[:_HASH_LETTERS]
    return f"{_RULE_PREFIX}-{digest}"


def build_rule(own: Maintenance, key: DeviceKey, api_version: str) -> Body:
    """Return the rule that taints a device for a maintenance, as on the wire."""
    owner = owner_reference(KIND, own.name, own.uid)
    return taint_rule(name_rule(own.uid, key), key.selector, MAINTENANCE_KEY, api_version, [owner])


def plan(
    own: Maintenance,
    others: Iterable[Maintenance],
    cards: Sequence[Card],
    *,
    rules: Iterable[MaintenanceRule],
    holders: Mapping[ClaimName, Holder],
    now: datetime,
    quiet: Quiet,
    api_version: str,
    misfit: str = "",
) -> "MaintenancePlan":
    """Return what is to be done for a maintenance.

    `others` are the other maintenances; `cards` those that it names, and `rules` its own; `holders` is known of claims
    that hold cards that were begun; rules are made in `api_version`. `misfit` says what would not fit if another card
    were begun, so that none is.
    """
    mine = list(rules)
    before = {each.name: each for each in own.entries}
    intact = {each.device: each for each in mine if each.device is not None and not each.is_deleted}
    found = MaintenancePlan(own, holders, now, quiet, api_version, misfit, before, intact)
    found.is_released = not mine and own.is_deleted
    chosen = sorted(cards, key=lambda each: each.name)
    found.unresolved = _find_unresolved(own, chosen)
    if len(chosen) > MOST_CARDS:
        text = f"spec.devices names {len(chosen)} cards, of {MOST_CARDS} at most: nothing more is begun"
        found.unresolved, chosen = (text,), [each for each in chosen if each.name in before]
    found.decide(chosen, list(others))
    found.write_rules(mine)
    return found


def _find_unresolved(own: Maintenance, cards: Sequence[Card]) -> tuple[str, ...]:
    found = [
        f"spec.devices: {entry}: nobody publishes such a device" + (" alone" if entry.node else "")
        for entry in own.spec.devices
        if not any(entry.names(key, card.node) for card in cards for key in card.devices)
    ]
    known = {ALL} | {name for card in cards for name in card.all_names}
    unknown = [each for each in own.spec.finished if each not in known]
    return (*found, *[f"spec.finished: {each}: no such device is in this maintenance" for each in unknown])


@dataclass(slots=True)
class MaintenancePlan:
    """What is to be done for a maintenance, and what will be told of it; before that, of what it is made.

    `blocked` says which other maintenance works on a card, `misfit` what would not fit without the next one,
    `unresolved` what of the spec names nothing. `beginning` are the cards that are begun by it, `begun` the devices of
    all that are.
    """

    own: Maintenance
    holders: Mapping[ClaimName, Holder]
    now: datetime
    quiet: Quiet
    api_version: str
    misfit: str
    before: Mapping[str, CardStatus]
    rules: Mapping[DeviceKey, MaintenanceRule]
    """Those that are as they were made."""
    changes: list[Change] = field(default_factory=list)
    evicted: dict[str, Eviction] = field(default_factory=dict)
    """By the uid of the pod."""
    events: list[PlanEvent] = field(default_factory=list)
    entries: list[CardStatus] = field(default_factory=list)
    blocked: dict[str, str] = field(default_factory=dict)
    begun: dict[DeviceKey, None] = field(default_factory=dict)
    beginning: list[str] = field(default_factory=list)
    unresolved: tuple[str, ...] = ()
    is_released: bool = False

    def decide(self, cards: Sequence[Card], others: Sequence[Maintenance]) -> None:
        """Find out the phase of each card. Those that were begun stay so, and make others wait."""
        known = {name for name, entry in self.before.items() if entry.is_begun}
        begun = {card.name for card in cards if card.name in known}
        finished = {card.name for card in cards if self._is_finished(card)}
        for card in cards:
            rival = self._find_rival(card, others, is_begun=card.name in begun)
            if rival and card.name not in finished:
                self.blocked[card.name] = rival
                begun.discard(card.name)
        free = (self.own.spec.max_unavailable or 1) - len(begun)
        returning = begun & finished
        begun -= finished
        if self.own.spec.must_still_fit:
            # Whether all fits is asked for one card after the other.
            free = min(free, 0 if self.misfit else 1)
        for card in cards:
            if free > 0 and card.name not in begun | finished | self.blocked.keys():
                begun.add(card.name)
                self.beginning.append(card.name)
                free -= 1
        for card in cards:
            if card.name in begun:
                self.begun |= dict.fromkeys(card.devices)
        for card in cards:
            if card.name in finished:
                self.entries.append(self._return(card, was_begun=card.name in returning))
            else:
                self.entries.append(self._judge(card, is_begun=card.name in begun))

    def _find_rival(self, card: Card, others: Iterable[Maintenance], *, is_begun: bool) -> str:
        """Return which other maintenance works on a card: the older one, unless only the younger one has begun."""
        for each in others:
            is_older = (each.created, each.uid) < (self.own.created, self.own.uid)
            theirs = next((entry for entry in each.entries if entry.name == card.name), None)
            # One that no longer names a card that it has begun has its taint still.
            if theirs is not None and theirs.is_begun:
                if is_older or not is_begun:
                    return each.name
            elif (
                is_older
                and each.names(card.devices, card.node)
                and not (theirs and theirs.phase == "Returned")
            ):
                return each.name
        return ""

    def _is_finished(self, card: Card) -> bool:
        named = self.own.spec.finished
        return ALL in named or not card.all_names.isdisjoint(named)

    def _judge(self, card: Card, *, is_begun: bool) -> CardStatus:
        if card.name in self.blocked:
            return self._enter(card, "Waiting", f"in maintenance {self.blocked[card.name]}")
        if not is_begun:
            text = (
                "claims of spec.mustStillFit would not fit without the next"
                if self.misfit
                else "spec.maxUnavailable says"
            )
            return self._enter(card, "Waiting", f"waits for others, as {text}")
        away = "" if card.is_published else "not published at the moment"
        lacking = [key for key in card.devices if key not in self.rules]
        if lacking:
            self._tell_restored(card, lacking)
            return self._enter(card, "Tainted", "is being tainted")
        if card.claims:
            return self._drain(card)
        known = self.before.get(card.name)
        rules = [self.rules[key] for key in card.devices]
        tainted = max(rule.created for rule in rules)
        is_free = known is not None and known.phase in ("Drained", "Safe")
        since = max(tainted, known.since if known is not None and is_free else self.now)
        if known is not None and known.phase == "Safe":
            # A killed operator may have made a rule anew, and not have said so.
            least = min(self.quiet.fenced, self.quiet.open)
            if tainted + least <= known.since or tainted + self.quiet.open <= self.now:
                return self._enter(card, "Safe", away)
        end = self.quiet.find_end(since, rules)
        if not is_free or end > self.now:
            text = f"no claim holds it; safe at {timestamp(end)} if it stays so"
            return self._enter(card, "Drained", text).model_copy(update={"since": since})
        seconds = (self.now - tainted).total_seconds()
        self.events.append(PlanEvent(SAFE, f"{card.name} can be worked on", seconds=seconds))
        return self._enter(card, "Safe", away)

    def _return(self, card: Card, *, was_begun: bool) -> CardStatus:
        if not was_begun:
            return self._enter(card, "Returned", "")
        if any(key in self.rules and key not in self.begun for key in card.devices):
            return self._enter(card, "Finished", "the taint is being taken off")
        if not card.is_published:
            return self._enter(
                card, "Finished", "nobody publishes it: publish it, or take it out of spec.devices"
            )
        if card.taints:
            return self._enter(card, "Finished", f"still has the taint {', '.join(card.taints)}")
        self.events.append(PlanEvent("Returned", f"{card.name} is back in service"))
        return self._enter(card, "Returned", "")

    def _enter(self, card: Card, phase: Phase, message: str) -> CardStatus:
        known = self.before.get(card.name)
        return CardStatus(
            name=card.name,
            phase=phase,
            since=known.since if known is not None and known.phase == phase else self.now,
            devices=tuple([key.name for key in card.devices]),
            node=card.node,
            evicted=known.evicted if known is not None and phase in UNAVAILABLE else (),
            message=message,
        )

    # --- holders

    def _drain(self, card: Card) -> CardStatus:
        """Tell who holds a card, and have pods evicted whose time has come."""
        known = self.before.get(card.name)
        if known is not None and known.phase == "Safe":
            claims = first_lines(["/".join(each) for each in card.claims])
            text = f"{card.name} was safe, and is held by claim {claims}: stop the work on it"
            self.events.append(PlanEvent(BROKEN, text, is_warning=True))
        entry = self._enter(card, "Tainted", "")
        wait = timedelta(seconds=self.own.spec.evict_after_seconds)
        due = max(self.rules[key].created for key in card.devices) + wait
        lines = []
        for name in card.claims:
            holder = self.holders.get(name)
            fate = "" if holder is None else f" {holder.users}, {self._decide_fate(entry, holder, due)}"
            lines.append(f"claim {'/'.join(name)}{fate}")
        return entry.model_copy(update={"message": f"held by {first_lines(lines)}"})

    def _decide_fate(self, entry: CardStatus, holder: Holder, due: datetime) -> str:
        """Return what becomes of a claim; have its pod evicted, if it goes with it and its time has come."""
        if holder.obstacle or holder.pod is None:
            return holder.obstacle
        if self.own.spec.drain == "Wait":
            return "which is waited for, as spec.drain is Wait"
        if due > self.now:
            return f"evicted at {timestamp(due)}"
        device = next((key.name for key in holder.devices if key in entry.keys), "")
        eviction = Eviction(entry.name, holder.pod, f"{device} {holder.pod.owner}")
        if eviction.key in entry.evicted:
            return "not evicted, as a pod of its owner was evicted from this device before"
        # One that holds several cards is evicted for the sake of the first.
        self.evicted.setdefault(holder.pod.uid, eviction)
        return "being evicted"

    # --- rules

    def _tell_restored(self, card: Card, lacking: Iterable[DeviceKey]) -> None:
        known = self.before.get(card.name)
        if (
            known is not None
            and known.is_worked_on
            and (names := [key.name for key in lacking if key in known.keys])
        ):
            text = f"the taint of {', '.join(names)} of {card.name} was taken off or edited, and is made anew"
            self.events.append(PlanEvent("RuleRestored", text, is_warning=True))

    def write_rules(self, rules: Iterable[MaintenanceRule]) -> None:
        """Have rules made that are needed, and all others deleted before: a killed operator may have made others."""
        gone = [
            rule
            for rule in rules
            if not rule.is_deleted and (rule.device is None or rule.device not in self.begun)
        ]
        self.changes += [Delete(RULE, rule.name, rule.uid) for rule in gone]
        names = {rule.name for rule in rules}
        for key in self.begun:
            # One that is being deleted, or was edited, is in the way for a moment.
            if key not in self.rules and name_rule(self.own.uid, key) not in names:
                self.changes.append(Create(RULE, build_rule(self.own, key, self.api_version)))


# --- the status: what became of a plan, and the conditions


def build_result(plan: MaintenancePlan, evictions: Mapping[Eviction, str], refused: Sequence[str]) -> Plan:
    """Return what is left of a plan that was carried out: the status, and the Events.

    `evictions` says why an eviction was refused, empty where it was granted; `refused` are changes that were.
    """
    entries = [_with_evictions(each, evictions) for each in plan.entries]
    evicted = [
        PlanEvent("Evicted", f"evicted pod {each.pod.namespace}/{each.pod.name}, which held {each.card}")
        for each, why in evictions.items()
        if not why
    ]
    status = {
        "observedGeneration": plan.own.generation,
        "summary": _summarize(entries),
        "cards": [each.model_dump(mode="json", exclude_defaults=True) for each in entries],
        "conditions": [
            _safe_to_work(entries),
            _drained(entries),
            _blocked(plan.blocked, plan.misfit, refused),
            _resolved(plan.unresolved),
            _previewed(plan.own.preview),
        ],
    }
    # Nothing of it waits for claims to end.
    return Plan((), status, plan.is_released, is_ending=True, events=(*plan.events, *evicted))


def _with_evictions(entry: CardStatus, evictions: Mapping[Eviction, str]) -> CardStatus:
    own = {each: why for each, why in evictions.items() if each.card == entry.name}
    told = [f"; eviction of {each.pod.name} refused: {why}" for each, why in own.items() if why]
    evicted = (*entry.evicted, *(each.key for each, why in own.items() if not why))
    return entry.model_copy(update={"message": entry.message + "".join(told), "evicted": evicted})


def _summarize(entries: Iterable[CardStatus]) -> str:
    counts = Counter(each.phase for each in entries)
    return ", ".join(f"{number} {phase}" for phase, number in counts.items())


def _safe_to_work(entries: Sequence[CardStatus]) -> Body:
    worked = [each for each in entries if each.is_worked_on]
    unsafe = [each for each in worked if each.phase != "Safe"]
    if unsafe:
        lines = [f"{each.name} is {each.phase}" for each in unsafe]
        return condition("SafeToWork", "False", "NotSafe", first_lines(lines))
    if worked:
        text = f"no claim holds {listed([each.name for each in worked])}: work on it, then name it in spec.finished"
        return condition("SafeToWork", "True", "Safe", text)
    if entries and all(each.phase in ("Finished", "Returned") for each in entries):
        return condition("SafeToWork", "False", "Finished", "everything is finished")
    return condition("SafeToWork", "False", "NotBegun", "no card was begun")


def _drained(entries: Sequence[CardStatus]) -> Body:
    worked = [each for each in entries if each.is_worked_on]
    held = [each for each in worked if each.phase == "Tainted"]
    if held:
        return condition(
            "Drained", "False", "Held", first_lines([f"{each.name}: {each.message}" for each in held])
        )
    if worked:
        return condition("Drained", "True", "Drained", "no claim holds a card that was begun")
    return condition("Drained", "Unknown", "NotBegun", "no card is being worked on")


def _blocked(blocked: Mapping[str, str], misfit: str, refused: Sequence[str]) -> Body:
    if refused:
        return condition("Blocked", "True", "WriteRefused", first_lines(refused))
    if misfit:
        return condition("Blocked", "True", "WouldNotFit", f"spec.mustStillFit: {misfit}")
    if blocked:
        lines = [
            f"{card} is in maintenance {name}, which works on it first" for card, name in blocked.items()
        ]
        return condition("Blocked", "True", "InAnotherMaintenance", first_lines(lines))
    return condition("Blocked", "False", "None", "nothing keeps it from its devices")


def _previewed(preview: str | None) -> Body:
    if preview is None:
        return condition("Previewed", "Unknown", "NothingPublished", "nobody publishes such a device")
    return condition("Previewed", "True", "Previewed", preview)


def _resolved(unresolved: Sequence[str]) -> Body:
    if unresolved:
        return condition("Resolved", "False", "NotFound", first_lines(unresolved))
    return condition(
        "Resolved", "True", "Found", "all devices that it names are published, or were when it began"
    )
