"""AllocationPolicy: which devices the operator allocates. The plan keeps a DeviceTaintRule for each entry.

A rule belongs to every policy that names its devices, by owner references, and is given back with the last of them: it
is deleted, which ends new decisions there, and its finalizer keeps the taint until no claim holds a device of it.
Source: docs/kinds.md; docs/ownership.md.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from dra_operator.api.names import (
    GIVE_BACK_ANNOTATION,
    OWNED_FINALIZER,
    POLICY_FINALIZER,
)
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceTaintRule
from dra_operator.inventory.ownership import RuleStatus, owns
from dra_operator.kinds.changes import (
    RULE,
    Body,
    Change,
    Create,
    Delete,
    Patch,
    Plan,
    PlanEvent,
    condition,
    first_names,
    owner_reference,
)
from dra_operator.kinds.selector import Selector, from_rule_selector

KIND: Final = "AllocationPolicy"
PLURAL: Final = "allocationpolicies"
IN_USE: Final = "in-use"
EVENT_OWNING: Final = "Owning"
EVENT_SETTLED: Final = "Settled"
EVENT_NOT_FENCED: Final = "NotFenced"
EVENT_OVERLAPPING: Final = "Overlapping"
EVENT_RELEASING: Final = "Releasing"
EVENT_GIVEN_BACK: Final = "GivenBack"
_EVENTS: Final = {
    ("Settled", "True"): (EVENT_SETTLED, False),
    ("Fenced", "False"): (EVENT_NOT_FENCED, True),
    ("Overlapping", "True"): (EVENT_OVERLAPPING, True),
    ("Releasing", "True"): (EVENT_RELEASING, False),
}
"""Of which conditions, as they become so, there is an Event: its reason, and whether it is a warning."""

_NOTHING: Final = Selector("")
ClaimName: TypeAlias = tuple[str, str]


class PolicyDevices(BaseModel):
    """An entry of `spec.devices`: devices of a driver, of one of its pools, or of one name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    driver: str = Field(min_length=1, max_length=63)
    pool: str | None = Field(default=None, min_length=1, max_length=253)
    device: str | None = Field(default=None, min_length=1, max_length=63)

    @property
    def selector(self) -> Selector:
        """Which devices a rule selects for it."""
        return Selector(self.driver, self.pool, self.device)


class PolicySpec(BaseModel):
    """`spec` of a policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    devices: tuple[PolicyDevices, ...] = Field(min_length=1, max_length=64)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy; `selectors` are empty of one that is being deleted."""

    name: str
    uid: str
    generation: int
    selectors: tuple[Selector, ...]
    gives_back_in_use: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)
    """The status that it has."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A DeviceTaintRule that owns devices; `owners` are the uids of its policies."""

    name: str
    uid: str
    version: str
    selector: Selector
    owners: frozenset[str]
    references: tuple[Mapping[str, Any], ...]
    finalizers: tuple[str, ...]
    is_deleted: bool
    status: RuleStatus = field(default_factory=RuleStatus)

    @property
    def is_settled(self) -> bool:
        """Whether the operator uses its devices by now."""
        return self.status.is_settled

    @property
    def is_decided_on(self) -> bool:
        """Whether the operator has not let go of it yet, and may still store what it decided there."""
        return OWNED_FINALIZER in self.finalizers


@dataclass(frozen=True, slots=True)
class Hits:
    """What a selector selects: how many published devices, how many of them claims hold, and which claims do.

    `half_owned` are devices, as POOL/NAME, that the operator does not use, as they draw on counters with others.
    """

    devices: int = 0
    used: int = 0
    holders: Sequence[ClaimName] = ()
    half_owned: Sequence[str] = ()


def read_policy(body: Mapping[str, Any]) -> Policy:
    """Return a policy as on the wire. Raises pydantic.ValidationError for a spec that the CRD would refuse."""
    metadata = body["metadata"]
    is_deleted = bool(metadata.get("deletionTimestamp"))
    chosen: dict[Selector, None] = {}
    if not is_deleted:
        spec = PolicySpec.model_validate({"devices": (body.get("spec") or {}).get("devices", ())})
        chosen = dict.fromkeys(entry.selector for entry in spec.devices)
    annotations = metadata.get("annotations") or {}
    return Policy(
        metadata["name"],
        metadata["uid"],
        int(metadata.get("generation", 0)),
        tuple(chosen),
        annotations.get(GIVE_BACK_ANNOTATION) == IN_USE,
        body.get("status") or {},
    )


def read_rule(rule: DeviceTaintRule, body: Mapping[str, Any]) -> Rule | None:
    """Return a rule, read and as on the wire; None of one that owns no devices.

    One of a policy that somebody edited, so that it owns nothing any more, is as one that no policy names.
    """
    metadata, chosen = rule.metadata, rule.spec.device_selector
    is_ours = owns(rule) and chosen is not None
    if not is_ours and POLICY_FINALIZER not in metadata.finalizers:
        return None
    references = tuple((body.get("metadata") or {}).get("ownerReferences") or ())
    return Rule(
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        from_rule_selector(chosen) if is_ours and chosen is not None else _NOTHING,
        frozenset(str(each.get("uid")) for each in references if each.get("kind") == KIND),
        references,
        tuple(metadata.finalizers),
        bool(metadata.deletion_timestamp),
    )


def find_selectors(policy: Policy, rules: Iterable[Rule]) -> set[Selector]:
    """Return of which devices a plan asks who holds them."""
    return {*policy.selectors, *(rule.selector for rule in rules if policy.uid in rule.owners)}


def find_kept(selector: Selector, policy: Policy, rules: Iterable[Rule]) -> tuple[Selector, ...]:
    """Return which devices stay owned when a rule of a policy is given back: those of settled rules beside it."""
    if selector in policy.selectors:
        return ()
    return tuple(
        [
            each.selector
            for each in rules
            if each.is_settled and not each.is_deleted and each.selector != selector
        ]
    )


def plan(
    policy: Policy,
    others: Iterable[Policy],
    rules: Sequence[Rule],
    find_hits: Callable[[Selector], Hits],
    api_version: str,
) -> Plan:
    """Return what is to be written for a policy.

    `others` are all other policies, `rules` all rules that own devices, `find_hits` returns what a selector
    selects, but for devices of `find_kept`; rules are made in `api_version`.
    """
    rivals = tuple([each for each in others if each.uid != policy.uid])
    found = _Planner(policy, rivals, rules, find_hits, api_version)
    for selector in policy.selectors:
        found.keep(selector)
    for rule in rules:
        if policy.uid in rule.owners and rule.selector not in policy.selectors:
            found.release(rule)
    status = _build_status(found)
    return Plan(
        tuple(found.changes),
        status,
        is_released=not found.told,
        is_ending=not found.releasing,
        events=tuple(_find_events(policy.told, status, found.changes)),
    )


def plan_sweep(
    rules: Iterable[Rule], alive: Collection[str], find_hits: Callable[[Selector], Hits]
) -> Iterator[Patch]:
    """Yield what takes our finalizer off rules that no policy names any more; `alive` are the uids of all policies.

    A policy that is deleted with `--cascade=orphan` leaves its rules, which go on owning devices.
    """
    for rule in rules:
        if POLICY_FINALIZER not in rule.finalizers or not rule.owners.isdisjoint(alive):
            continue
        if not rule.is_deleted or not (rule.is_decided_on or find_hits(rule.selector).holders):
            yield _without_finalizer(rule)


@dataclass(slots=True)
class _Planner:
    """What a plan is made of, and what it has found so far: changes, what is told of rules, claims waited for.

    `kept` are the rules that own what the policy names, `hits` what these are about.
    """

    policy: Policy
    rivals: Sequence[Policy]
    rules: Sequence[Rule]
    find_hits: Callable[[Selector], Hits]
    api_version: str
    changes: list[Change] = field(default_factory=list)
    told: list[Body] = field(default_factory=list)
    releasing: dict[ClaimName, None] = field(default_factory=dict)
    kept: list[Rule] = field(default_factory=list)
    hits: dict[Selector, Hits] = field(default_factory=dict)

    def keep(self, selector: Selector) -> None:
        """See to it that a rule owns the devices of a selector, and belongs to the policy."""
        here = [rule for rule in self.rules if rule.selector == selector]
        rule = next((each for each in here if not each.is_deleted), None)
        hits = self.hits[selector] = self.find_hits(selector)
        if rule is not None:
            self._adopt(rule)
            self.kept.append(rule)
            state = "Settled" if rule.is_settled else "Settling"
            self.told.append(_describe(selector, rule.name, state, hits))
        elif here:
            # One that is being given back, or was deleted by hand: another of its name can be made once it is gone.
            if POLICY_FINALIZER in here[0].finalizers and not hits.holders and not here[0].is_decided_on:
                self.changes.append(_without_finalizer(here[0]))
            self.told.append(_describe(selector, here[0].name, "Deleted", hits))
        else:
            body = selector.rule(self.api_version, [_reference(self.policy)])
            body["metadata"]["finalizers"] = [POLICY_FINALIZER]
            self.changes.append(Create(RULE, body))
            self.told.append(_describe(selector, selector.rule_name, "Created", hits))

    def _adopt(self, rule: Rule) -> None:
        metadata: Body = {}
        if self.policy.uid not in rule.owners:
            metadata["ownerReferences"] = [*rule.references, _reference(self.policy)]
        if POLICY_FINALIZER not in rule.finalizers:
            metadata["finalizers"] = [*rule.finalizers, POLICY_FINALIZER]
        if metadata:
            self.changes.append(_patch(rule, metadata))

    def release(self, rule: Rule) -> None:
        """Give a rule back that the policy no longer names: to the other policies that do, or for good."""
        if not rule.is_deleted and (
            heirs := [each for each in self.rivals if rule.selector in each.selectors]
        ):
            # One of these may have had no time yet to take the rule over.
            left = [each for each in rule.references if each.get("uid") != self.policy.uid]
            left += [_reference(each) for each in heirs if each.uid not in rule.owners]
            self.changes.append(_patch(rule, {"ownerReferences": left}))
            return
        hits = self.find_hits(rule.selector)
        self.told.append(_describe(rule.selector, rule.name, "Releasing", hits))
        self.releasing |= dict.fromkeys(hits.holders)
        if not rule.is_deleted:
            self.changes.append(Delete(RULE, rule.name, rule.uid, rule.version))
        if POLICY_FINALIZER in rule.finalizers and (
            self.policy.gives_back_in_use or (rule.is_deleted and not hits.holders and not rule.is_decided_on)
        ):
            self.changes.append(_without_finalizer(rule))


def _without_finalizer(rule: Rule) -> Patch:
    return _patch(rule, {"finalizers": [each for each in rule.finalizers if each != POLICY_FINALIZER]})


def _patch(rule: Rule, metadata: Body) -> Patch:
    return Patch(RULE, rule.name, rule.uid, rule.version, {"metadata": metadata})


def _reference(policy: Policy) -> Body:
    return owner_reference(KIND, policy.name, policy.uid)


def _describe(selector: Selector, name: str, state: str, hits: Hits) -> Body:
    return {
        **selector.fields,
        "rule": name,
        "state": state,
        "devices": hits.devices,
        "claims": len(hits.holders),
    }


# --- the status


def _build_status(found: _Planner) -> Body:
    return {
        "observedGeneration": found.policy.generation,
        "hits": _describe_hits(found.hits),
        "rules": found.told,
        "conditions": [
            _fenced(found),
            _settled(found.told),
            _overlapping(found.policy, found.rivals),
            _releasing(found.told, found.releasing),
        ],
    }


def _describe_hits(hits: Mapping[Selector, Hits]) -> str:
    """Return what the rules are about, as of now; devices that two of them select count twice."""
    if not hits:
        return ""
    count, used = (sum(getattr(each, name) for each in hits.values()) for name in ("devices", "used"))
    claims = sorted({"/".join(holder) for each in hits.values() for holder in each.holders})
    texts = [
        f"{used} of {count} devices are held by claims {first_names(claims)}"
        if claims
        else f"{count} devices"
    ]
    if half_owned := [device for each in hits.values() for device in each.half_owned]:
        texts.append(
            f"{first_names(half_owned)} draw on counters with devices that are not owned, so the operator uses none of "
            "them"
        )
    if absent := [str(selector) for selector, each in hits.items() if not each.devices]:
        texts.append(f"{first_names(absent)} names no published device")
    return "; ".join(texts)


def _fenced(found: _Planner) -> Body:
    open_ = {rule.name: rule.status.why for rule in found.kept if rule.status.is_fenced is False}
    if open_:
        text = f"others may allocate the devices of {first_names([*open_])}: {first_names(sorted({*open_.values()}))}"
        return condition("Fenced", "False", "NotProtected", text)
    unknown = {rule.name: rule.status.why for rule in found.kept if rule.status.is_fenced is None}
    if unknown or len(found.kept) < len(found.hits) or not found.kept:
        why = first_names(sorted({*unknown.values()})) or "not all rules are there"
        return condition("Fenced", "Unknown", "NotKnown", why)
    return condition("Fenced", "True", "PolicyInForce", "nobody else allocates these devices")


def _settled(told: Sequence[Body]) -> Body:
    wanted = [each for each in told if each["state"] != "Releasing"]
    waiting = [f"{each['rule']} ({each['state']})" for each in wanted if each["state"] != "Settled"]
    if wanted and not waiting:
        return condition("Settled", "True", "Settled", "the operator allocates these devices")
    text = f"not used yet: {first_names(waiting)}" if waiting else "it names no devices any more"
    return condition("Settled", "False", "Waiting", text)


def _overlapping(policy: Policy, rivals: Sequence[Policy]) -> Body:
    shared = sorted(
        {
            each.name
            for each in rivals
            for other in each.selectors
            for own in policy.selectors
            if own.overlaps(other)
        }
    )
    if not shared:
        return condition("Overlapping", "False", "None", "no other policy names these devices")
    text = (
        f"policy {listed(shared)} names some of these devices as well: they are given back with the last one"
    )
    return condition("Overlapping", "True", "NamedTwice", text)


def _releasing(told: Sequence[Body], releasing: Iterable[ClaimName]) -> Body:
    rules = [each["rule"] for each in told if each["state"] == "Releasing"]
    if not rules:
        return condition("Releasing", "False", "None", "nothing is given back")
    claims = ["/".join(each) for each in releasing]
    if not claims:
        return condition(
            "Releasing", "True", "Ending", f"{listed(rules)}: no claim holds its devices any more"
        )
    text = (
        f"{listed(rules)}: nothing new is decided there, and the devices are given back once these claims end: "
        f"{first_names(claims)}; the annotation {GIVE_BACK_ANNOTATION}: {IN_USE} gives them back at "
        "once, after which kube-scheduler must be restarted"
    )
    return condition("Releasing", "True", "ClaimsHoldDevices", text)


# --- the Events


def _find_events(before: Mapping[str, Any], after: Body, changes: Iterable[Change]) -> Iterator[PlanEvent]:
    """Yield what has become otherwise since a status."""
    if made := [change.body["metadata"]["name"] for change in changes if isinstance(change, Create)]:
        yield PlanEvent(EVENT_OWNING, f"{first_names(made)}: {after['hits']}; what claims hold stays theirs")
    known = {each["type"]: each["status"] for each in before.get("conditions") or ()}
    for each in after["conditions"]:
        event = _EVENTS.get((each["type"], each["status"]))
        if event is not None and known.get(each["type"]) != each["status"]:
            reason, is_warning = event
            yield PlanEvent(reason, each["message"], is_warning)
    left = {each["rule"] for each in after["rules"]}
    gone = [
        each["rule"]
        for each in before.get("rules") or ()
        if each["state"] == "Releasing" and each["rule"] not in left
    ]
    if gone:
        text = f"{first_names(gone)}: the operator decides about these devices no more"
        yield PlanEvent(EVENT_GIVEN_BACK, text)
