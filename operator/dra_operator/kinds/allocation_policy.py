"""AllocationPolicy: which devices the operator allocates. The plan keeps a DeviceTaintRule for each entry.

A rule belongs to every policy that names its devices, by owner references, and is given back with the last of them: it
is deleted, which ends new decisions there, and its finalizer keeps the taint until no claim holds a device of it.
Source: docs/kinds.md; docs/operator.md, "Devices that are ours".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from dra_operator.api.names import (
    GIVE_BACK_ANNOTATION,
    GROUP,
    GROUP_VERSION,
    OWNED_FINALIZER,
    POLICY_FINALIZER,
    SETTLED_ANNOTATION,
)
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceTaintRule
from dra_operator.inventory.ownership import owns, settled_mark
from dra_operator.kinds.changes import Body, Change, Create, Delete, Patch, condition
from dra_operator.kinds.selector import Selector, from_rule_selector

KIND: Final = "AllocationPolicy"
PLURAL: Final = "allocationpolicies"
IN_USE: Final = "in-use"
_MOST_NAMED: Final = 5

_RULE: Final = "DeviceTaintRule"
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
    is_settled: bool
    fence: str
    """The uid of the policy that protects it, as its mark has it; empty if none does."""

    @property
    def is_decided_on(self) -> bool:
        """Whether the operator has not let go of it yet, and may still store what it decided there."""
        return OWNED_FINALIZER in self.finalizers


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written for a policy, and its status.

    `is_released`: no rule belongs to it any more; `is_ending`: no claim is waited for.
    """

    changes: tuple[Change, ...]
    status: Body
    is_released: bool
    is_ending: bool


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
    )


def read_rule(rule: DeviceTaintRule, body: Mapping[str, Any]) -> Rule | None:
    """Return a rule, read and as on the wire; None of one that owns no devices."""
    if not owns(rule) or rule.spec.device_selector is None:
        return None
    metadata = rule.metadata
    references = tuple((body.get("metadata") or {}).get("ownerReferences") or ())
    parts = metadata.annotations.get(SETTLED_ANNOTATION, "").split("/")
    return Rule(
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        from_rule_selector(rule.spec.device_selector),
        frozenset(str(each.get("uid")) for each in references if each.get("kind") == KIND),
        references,
        tuple(metadata.finalizers),
        bool(metadata.deletion_timestamp),
        parts[:2] == settled_mark(metadata).split("/"),
        parts[2] if len(parts) > 2 else "",
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
    find_holders: Callable[[Selector], Sequence[ClaimName]],
    api_version: str,
) -> Plan:
    """Return what is to be written for a policy.

    `others` are all other policies, `rules` all rules that own devices, `find_holders` returns the claims that hold
    devices of a selector, but for those of `find_kept`, by namespace and name; rules are made in `api_version`.
    """
    rivals = tuple([each for each in others if each.uid != policy.uid])
    found = _Planner(policy, rivals, rules, find_holders, api_version)
    for selector in policy.selectors:
        found.keep(selector)
    for rule in rules:
        if policy.uid in rule.owners and rule.selector not in policy.selectors:
            found.release(rule)
    status = _build_status(policy, rivals, found.told, found.releasing)
    return Plan(tuple(found.changes), status, is_released=not found.told, is_ending=not found.releasing)


@dataclass(slots=True)
class _Planner:
    """What a plan is made of, and what it has found so far: changes, what is told of rules, claims waited for."""

    policy: Policy
    rivals: Sequence[Policy]
    rules: Sequence[Rule]
    find_holders: Callable[[Selector], Sequence[ClaimName]]
    api_version: str
    changes: list[Change] = field(default_factory=list)
    told: list[Body] = field(default_factory=list)
    releasing: dict[ClaimName, None] = field(default_factory=dict)

    def keep(self, selector: Selector) -> None:
        """See to it that a rule owns the devices of a selector, and belongs to the policy."""
        here = [rule for rule in self.rules if rule.selector == selector]
        rule = next((each for each in here if not each.is_deleted), None)
        holders = self.find_holders(selector)
        if rule is not None:
            self._adopt(rule)
            state = "Settled" if rule.is_settled else "Settling"
            self.told.append(_describe(selector, rule.name, state, holders) | {"isFenced": bool(rule.fence)})
        elif here:
            # One that is being given back, or was deleted by hand: another of its name can be made once it is gone.
            if POLICY_FINALIZER in here[0].finalizers and not holders and not here[0].is_decided_on:
                self.changes.append(_without_finalizer(here[0]))
            self.told.append(_describe(selector, here[0].name, "Deleted", holders))
        else:
            body = selector.rule(self.api_version)
            body["metadata"] |= {
                "finalizers": [POLICY_FINALIZER],
                "ownerReferences": [_reference(self.policy)],
            }
            self.changes.append(Create(_RULE, body))
            self.told.append(_describe(selector, selector.rule_name, "Created", holders))

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
        holders = self.find_holders(rule.selector)
        self.told.append(_describe(rule.selector, rule.name, "Releasing", holders))
        self.releasing |= dict.fromkeys(holders)
        if not rule.is_deleted:
            self.changes.append(Delete(_RULE, rule.name, rule.uid, rule.version))
        if POLICY_FINALIZER in rule.finalizers and (
            self.policy.gives_back_in_use or (rule.is_deleted and not holders and not rule.is_decided_on)
        ):
            self.changes.append(_without_finalizer(rule))


def _without_finalizer(rule: Rule) -> Patch:
    return _patch(rule, {"finalizers": [each for each in rule.finalizers if each != POLICY_FINALIZER]})


def _patch(rule: Rule, metadata: Body) -> Patch:
    return Patch(_RULE, rule.name, rule.uid, rule.version, {"metadata": metadata})


def _reference(policy: Policy) -> Body:
    return {"apiVersion": f"{GROUP}/{GROUP_VERSION}", "kind": KIND, "name": policy.name, "uid": policy.uid}


def _describe(selector: Selector, name: str, state: str, holders: Sequence[ClaimName]) -> Body:
    chosen = {key: value for key in ("driver", "pool", "device") if (value := getattr(selector, key))}
    return {**chosen, "rule": name, "state": state, "claims": len(holders)}


# --- the status


def _build_status(
    policy: Policy, rivals: Sequence[Policy], told: Sequence[Body], releasing: Iterable[ClaimName]
) -> Body:
    wanted = [each for each in told if each["state"] != "Releasing"]
    settled = [each for each in wanted if each["state"] == "Settled"]
    conditions = [
        _fenced(wanted, settled),
        _settled(wanted, settled),
        _overlapping(policy, rivals),
        _releasing(told, releasing),
    ]
    return {
        "observedGeneration": policy.generation,
        "rules": [{name: value for name, value in each.items() if name != "isFenced"} for each in told],
        "conditions": [{**each, "observedGeneration": policy.generation} for each in conditions],
    }


def _fenced(wanted: Sequence[Body], settled: Sequence[Body]) -> Body:
    if len(settled) < len(wanted) or not wanted:
        text = "not all rules have settled: that takes some seconds, and a claim by which the API server can be asked"
        return condition("Fenced", "Unknown", "NotSettled", text)
    open_ = [each["rule"] for each in settled if not each["isFenced"]]
    if open_:
        text = (
            f"others may allocate the devices of {listed(open_)}: install the policy dra-operator-owned "
            "(manifests/components/ownership)"
        )
        return condition("Fenced", "False", "NoPolicy", text)
    return condition("Fenced", "True", "PolicyInForce", "nobody else allocates these devices")


def _settled(wanted: Sequence[Body], settled: Sequence[Body]) -> Body:
    if len(settled) == len(wanted) and wanted:
        return condition("Settled", "True", "Settled", "the operator allocates these devices")
    waiting = [f"{each['rule']} ({each['state']})" for each in wanted if each not in settled]
    text = f"not used yet: {listed(waiting)}" if waiting else "it names no devices any more"
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
    more = f" and {len(claims) - _MOST_NAMED} others" if len(claims) > _MOST_NAMED else ""
    text = (
        f"{listed(rules)}: nothing new is decided there, and the devices are given back once these claims end: "
        f"{', '.join(claims[:_MOST_NAMED])}{more}; the annotation {GIVE_BACK_ANNOTATION}: {IN_USE} gives them back at "
        "once, after which kube-scheduler must be restarted"
    )
    return condition("Releasing", "True", "ClaimsHoldDevices", text)
