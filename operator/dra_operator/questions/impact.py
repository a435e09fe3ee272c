"""Impact: which claims and pods a change hits, and which of them would fit elsewhere.

The change is applied to a copy. Claims that are hit count as gone there, all at once, and are then decided anew by
`replacement`. Requests are counted by the published devices that could serve them before and after, whoever uses these.
Source: docs/audit.md.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, Final, NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, Decider, claim_key
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.api.kinds import RESOURCE_GROUP
from dra_operator.api.text import listed, shown
from dra_operator.api.types import (
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceClaim,
)
from dra_operator.inventory import bits
from dra_operator.inventory.ownership import is_owned_taint
from dra_operator.inventory.taints import taint_text, tolerates
from dra_operator.ledger import ClaimKey
from dra_operator.ledger.broken import tolerated_until
from dra_operator.pods.claim_sets import Outcome
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.pods.edits import find_parts
from dra_operator.pods.workloads import part
from dra_operator.questions.answers import (
    DECISION,
    IMPACT,
    UNFINISHED,
    Conclusion,
    QuestionError,
    UnknownObjectError,
    conclude,
    find_decision_kinds,
    find_unchecked,
)
from dra_operator.questions.claims import (
    ConsumerIndex,
    Use,
    allocated_claims,
    device_path,
    node_of_claim,
    results_of,
)
from dra_operator.questions.device_table import ClassDevices, PublishedDevices, devices_by_node
from dra_operator.questions.replacement import decide_anew, pod_key
from dra_operator.questions.state import ClusterState
from dra_operator.questions.usage import classes_of_request, unknown_object

_EFFECTIVE: Final = ("NoSchedule", "NoExecute")


class Effect(StrEnum):
    """What becomes of a claim that is hit."""

    EVICTED = "evicted"
    """Its pods are evicted: a NoExecute taint that it does not tolerate, or a drained node."""
    UNKNOWN = "unknown"
    """It is on a node that is drained, and nobody knows whether its pods are evicted: they cannot be read."""
    KEPT = "kept"
    """It keeps its devices; after its end they are not given to a claim like it."""
    LOST = "lost"
    """Its devices are no longer published."""


@dataclass(frozen=True, slots=True)
class PodImpact:
    """A pod, or a group of pods, that uses a claim which is hit.

    `is_replaced`: a controller makes another one; None if that is not known.
    """

    name: str
    node: str = ""
    is_replaced: bool | None = None
    kind: str = "Pod"


@dataclass(frozen=True, slots=True)
class ClaimImpact:
    """A claim that holds devices which are hit.

    `after_seconds` is how long its toleration still lasts. `fits_elsewhere` says whether it gets devices if it is
    decided anew after the change: on `new_node`, `new_devices`; or `reason` and `message` why not. It is None if that
    cannot be said, as not everything could be read or as a search ran out of its time.
    """

    namespace: str
    name: str
    devices: tuple[str, ...]
    effect: Effect
    pods: tuple[PodImpact, ...]
    fits_elsewhere: bool | None
    new_node: str = ""
    new_devices: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    after_seconds: int | None = None
    is_being_deleted: bool = False


@dataclass(frozen=True, slots=True)
class RequestImpact:
    """A request of a claim that waits, or of a template, which fewer or more devices can serve after a change.

    It asks for so many devices; 0 stands for all.
    """

    kind: str
    namespace: str
    name: str
    request: str
    devices_before: int
    devices_after: int
    asked: int = 1

    @property
    def is_decisive(self) -> bool:
        """Whether enough devices could serve it before and cannot after the change, or the other way round."""
        return not self.asked or (self.devices_before < self.asked) is not (self.devices_after < self.asked)


@dataclass(frozen=True, slots=True)
class ImpactReport:
    """What a change hits: `devices` of them, `used` of which are held.

    `problems` say why the change does not do what it should, `warnings` what else to think of. `partial` has a line for
    each thing without which it is not known what is hit, or what would fit elsewhere.
    """

    change: str
    devices: int
    used: int
    claims: tuple[ClaimImpact, ...]
    requests: tuple[RequestImpact, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether nothing that is in use is hit."""
        is_hit = any(claim.effect is not Effect.UNKNOWN for claim in self.claims)
        is_partial = bool(self.partial) or (bool(self.claims) and not is_hit)
        return conclude(is_yes=not is_hit, is_partial=is_partial)


@dataclass(frozen=True, slots=True)
class _Hit:
    """A claim that is hit, with the devices by which it is."""

    claim: ResourceClaim
    devices: frozenset[str]
    effect: Effect
    after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class _ChangeOutcome:
    """A change and the state after it. `devices` are those that are hit, by path.

    `evicted` are the pods that are, by namespace and name; None if all users of a claim that is hit are. `drained` is
    the node that is. `kinds` are the optional kinds on which it depends, `unfinished` the classes of which
    not all devices could be asked.
    """

    text: str
    state: ClusterState
    devices: frozenset[str]
    hits: Sequence[_Hit]
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    evicted: frozenset[tuple[str, str]] | None = None
    drained: str = ""
    kinds: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


def find_impact(
    state: ClusterState,
    *,
    rules: Sequence[Mapping[str, Any]] = (),
    device_class: Mapping[str, Any] | None = None,
    drained_node: str = "",
    removed_driver: str = "",
) -> ImpactReport:
    """Return what one change hits.

    `rules` are DeviceTaintRules, as on the wire, and `device_class` a DeviceClass, that are created or replaced. A node
    that is drained is cordoned, and its pods but those of DaemonSets are evicted; a driver goes with all of its slices.
    Raises QuestionError for a change that cannot be made, naming the field, or if slices or classes were not read.
    """
    number = bool(rules) + (device_class is not None) + bool(drained_node) + bool(removed_driver)
    if number != 1:
        raise QuestionError(
            f"{number} changes are given: give one of rule, device_class, drained_node and removed_driver"
        )
    IMPACT.check(state.unread)
    if rules:
        found = _apply_rules(state, rules)
    elif device_class is not None:
        found = _apply_class(state, device_class)
    elif drained_node:
        found = _drain(state, drained_node)
    else:
        found = _remove_driver(state, removed_driver)
    hits = sorted(found.hits, key=lambda hit: claim_key(hit.claim))
    keys = {claim_key(hit.claim) for hit in hits}
    outcomes = decide_anew(found.state, keys, evicted=found.evicted, drained=found.drained)
    missing = IMPACT.find_missing(state.unread, found.kinds)
    elsewhere = _find_missing_elsewhere(state, hits)
    claims = [
        _build_claim(state, hit, outcomes[claim_key(hit.claim)], found.evicted, is_partial=bool(elsewhere))
        for hit in hits
    ]
    held = {
        device_path(result)
        for claim in allocated_claims(state.objects)
        for result in results_of(claim)
        if not result.admin_access
    }
    requests, unfinished = compare_requests(state, found.state)
    return ImpactReport(
        found.text,
        len(found.devices),
        len(found.devices & held),
        tuple(claims),
        requests,
        tuple(found.problems),
        tuple(found.warnings),
        state.unread_lines,
        tuple(dict.fromkeys((*missing, *(elsewhere if claims else ()), *found.unfinished, *unfinished))),
    )


def _build_claim(
    state: ClusterState,
    hit: _Hit,
    outcome: Outcome,
    evicted: frozenset[tuple[str, str]] | None,
    *,
    is_partial: bool,
) -> ClaimImpact:
    allocation = outcome.allocation
    may_fit = is_partial or outcome.reason == Reason.SEARCH_ABORTED
    return ClaimImpact(
        *claim_key(hit.claim),
        tuple(sorted(hit.devices)),
        hit.effect,
        tuple(_find_users(state.consumers, hit, evicted)),
        fits_elsewhere=allocation is not None or (None if may_fit else False),
        new_node=outcome.node,
        new_devices=tuple(map(device_path, allocation.devices.results)) if allocation is not None else (),
        reason=outcome.reason,
        message=outcome.message,
        after_seconds=hit.after_seconds,
        is_being_deleted=hit.claim.metadata.deletion_timestamp is not None,
    )


def _find_users(
    consumers: ConsumerIndex, hit: _Hit, evicted: frozenset[tuple[str, str]] | None
) -> Iterator[PodImpact]:
    """Yield the pods, and groups of pods, that use a claim and have not ended; of a drained node those on it."""
    is_of_node = evicted is not None and hit.effect is Effect.EVICTED
    for item in consumers.find_consumers(hit.claim):
        key = hit.claim.metadata.namespace, item.name
        if item.use in (Use.ENDED, Use.GONE) or (is_of_node and key not in (evicted or ())):
            continue
        pod = consumers.pods.get(key) if item.kind == "Pod" else None
        is_replaced = None if pod is None else any(each.controller for each in pod.metadata.owner_references)
        yield PodImpact(item.name, item.node, is_replaced, item.kind)


def _find_missing_elsewhere(state: ClusterState, hits: Iterable[_Hit]) -> tuple[str, ...]:
    """Return what it lacks to say whether claims fit elsewhere, with the pods that use them."""
    pods = {pod_key(pod): pod for hit in hits for pod in state.consumers.find_users(hit.claim)}
    # The other claims of these pods may begin anew as well.
    keys = {claim_key(hit.claim) for hit in hits}
    keys |= {(namespace, name) for (namespace, _), pod in pods.items() for name in named_claims(pod)}
    claims = [claim for key in keys if (claim := state.find_claim(key)) is not None]
    bodies = [state.objects.records["Pod", *key].body for key in pods]
    # Pods that cannot be read may use it as well.
    kinds = ("Pod", *find_decision_kinds(state.inventory, claims, bodies))
    return (*DECISION.find_missing(state.unread, kinds), *find_unchecked(bodies))


# --- a DeviceTaintRule


def _apply_rules(state: ClusterState, bodies: Sequence[Mapping[str, Any]]) -> _ChangeOutcome:
    changed = _with_objects(state, bodies, "DeviceTaintRule")
    rules = [changed.inventory.rules[str(body["metadata"]["name"])] for body in bodies]
    before, after = PublishedDevices(state.inventory), PublishedDevices(changed.inventory)
    chosen: set[str] = set()
    hits: dict[ClaimKey, _Hit] = {}
    for rule in rules:
        here = {
            slice_.path(index)
            for slice_ in after.slices()
            for index in bits.each(changed.inventory.tainted_by(rule, slice_))
            if not _has_taint(before, (*slice_.key, slice_.names[index]), rule.spec.taint)
        }
        chosen |= here
        for claim in allocated_claims(state.objects):
            if (hit := _hit_by_taint(claim, here, rule.spec.taint, state)) is not None:
                hits[claim_key(claim)] = _merge(hits.get(claim_key(claim), hit), hit)
    names = [rule.metadata.name for rule in rules]
    # What draws on counters together is owned together, or not at all.
    half_owned = [slice_.name for slice_ in after.slices() if slice_.half_owned]
    return _ChangeOutcome(
        "; ".join(map(_describe_rule, rules)),
        changed,
        frozenset(chosen),
        [*hits.values()],
        _new_notes(state, changed, "ResourceSlice", half_owned),
        _new_notes(state, changed, "DeviceTaintRule", names),
        kinds=("DeviceTaintRule",),
    )


def _describe_rule(rule: DeviceTaintRule) -> str:
    return f'DeviceTaintRule "{rule.metadata.name}" sets the taint {taint_text(rule.spec.taint)}'


def _merge(one: _Hit, other: _Hit) -> _Hit:
    """Return a claim that is hit by two rules: what is worse counts, and what is sooner."""
    seconds = [each.after_seconds for each in (one, other) if each.after_seconds is not None]
    effect = Effect.EVICTED if Effect.EVICTED in (one.effect, other.effect) else other.effect
    return _Hit(one.claim, one.devices | other.devices, effect, min(seconds, default=None))


def _has_taint(published: PublishedDevices, path: tuple[str, str, str], taint: DeviceTaint) -> bool:
    """Return whether a device has a taint already, whoever set it."""
    found = published.find(*path)
    taints = found[0].taints[found[1]] if found is not None and found[0].taints else ()
    return taint_text(taint) in map(taint_text, taints)


def _hit_by_taint(
    claim: ResourceClaim, chosen: Collection[str], taint: DeviceTaint, state: ClusterState
) -> _Hit | None:
    """Return how a taint hits a claim; None if it holds none of the devices, or tolerates the taint for ever.

    Admin access is hit by eviction alone: it takes nothing away from anybody.
    """
    if taint.effect not in _EFFECTIVE:
        return None
    is_evicting, now = taint.effect == "NoExecute", state.now
    ends: dict[str, float] = {}
    for result in results_of(claim):
        path = device_path(result)
        if path not in chosen or (result.admin_access and not is_evicting):
            continue
        if is_evicting:
            until = tolerated_until(taint, result.tolerations, state.rules, now)
            ends[path] = min(until, ends.get(path, math.inf))
        elif is_owned_taint(taint) or not any(tolerates(item, taint) for item in result.tolerations):
            # Who tolerates the taint by which a device is ours gets none from kube-scheduler all the same.
            ends[path] = now
    hit = {path: end for path, end in ends.items() if end < math.inf}
    if not hit:
        return None
    if not is_evicting:
        return _Hit(claim, frozenset(hit), Effect.KEPT)
    return _Hit(claim, frozenset(hit), Effect.EVICTED, max(int(min(hit.values()) - now), 0))


# --- a class


def _apply_class(state: ClusterState, body: Mapping[str, Any]) -> _ChangeOutcome:
    changed = _with_objects(state, [body], "DeviceClass")
    name = str(body["metadata"]["name"])
    before, after = (ClassDevices(each) for each in (state, changed))
    lost = PublishedDevices(state.inventory).paths(
        lambda slice_: before.find(name, slice_) & ~after.find(name, slice_)
    )
    hits = _find_hits(
        state,
        Effect.KEPT,
        lambda claim: {
            path
            for result in results_of(claim)
            if (path := device_path(result)) in lost and name in classes_of_request(claim, result.request)
        },
    )
    verb = "is changed" if name in state.inventory.classes else "is new"
    problems = _new_notes(state, changed, "DeviceClass", [name])
    return _ChangeOutcome(
        f'DeviceClass "{name}" {verb}',
        changed,
        lost,
        hits,
        problems,
        unfinished=(*before.partial, *after.partial),
    )


# --- a node


def _drain(state: ClusterState, name: str) -> _ChangeOutcome:
    if name not in state.nodes and state.find_record("Node", "", name) is None:
        raise _absent_node(state, name)
    local = PublishedDevices(state.inventory).paths(lambda slice_: devices_by_node(slice_).get(name, 0))
    here = [pod for pod in state.consumers.pods.values() if pod.spec.node_name == name and not is_over(pod)]
    staying = {pod_key(pod) for pod in here if _is_of_daemon_set(pod)}
    evicted = frozenset(map(pod_key, here)) - staying
    hits: list[_Hit] = []
    for claim in allocated_claims(state.objects):
        users = {pod_key(pod) for pod in state.consumers.find_users(claim)}
        devices = frozenset(map(device_path, results_of(claim)))
        if users & evicted:
            hits.append(_Hit(claim, devices, Effect.EVICTED))
        elif not users & staying and (node_of_claim(claim) == name or local & devices):
            uses = {item.use for item in state.consumers.find_consumers(claim)}
            is_known = state.consumers.are_pods_known or Use.UNKNOWN not in uses
            hits.append(_Hit(claim, devices, Effect.KEPT if is_known else Effect.UNKNOWN))
    names = ["/".join(key) for key in sorted(staying)]
    return _ChangeOutcome(
        f'node "{name}" is drained',
        state.with_objects(_cordoned(state, name)),
        local,
        hits,
        warnings=[f"pods of DaemonSets stay on node {name}: {listed(names)}"] if names else [],
        evicted=evicted,
        drained=name,
        kinds=("Pod",),
    )


def _absent_node(state: ClusterState, name: str) -> QuestionError:
    """Return that a node is not there, and whether a claim is still allocated on it."""
    for claim in allocated_claims(state.objects):
        if node_of_claim(claim) == name:
            holder = "/".join(claim_key(claim))
            return UnknownObjectError(
                f'Node "{name}" is gone, and claim {holder} is still allocated there: see `kubectl dra audit`'
            )
    return unknown_object("Node", name, state.nodes)


def _cordoned(state: ClusterState, name: str) -> list[Mapping[str, Any]]:
    """Return a node that is cordoned, with the others that are only assumed, as then none may be given alone."""
    record = state.find_record("Node", "", name)
    if record is not None:
        return [{**record.body, "spec": {**part(record.body, "spec"), "unschedulable": True}}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": each, "labels": dict(node.metadata.labels)},
            "spec": {"unschedulable": each == name},
        }
        for each, node in state.nodes.items()
    ]


def _is_of_daemon_set(pod: Pod) -> bool:
    return any(owner.controller and owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


# --- a driver


def _remove_driver(state: ClusterState, name: str) -> _ChangeOutcome:
    changed = state.without(drivers=(name,))
    gone = PublishedDevices(state.inventory).paths(
        lambda slice_: slice_.every if slice_.driver == name else 0
    )
    hits = _find_hits(
        state,
        Effect.LOST,
        lambda claim: {device_path(each) for each in results_of(claim) if each.driver == name},
    )
    return _ChangeOutcome(f'driver "{name}" is removed', changed, gone, hits)


# --- what all have in common


def _find_hits(
    state: ClusterState, effect: Effect, find_devices: Callable[[ResourceClaim], set[str]]
) -> list[_Hit]:
    """Return the claims of which some devices are hit."""
    found = [(claim, find_devices(claim)) for claim in allocated_claims(state.objects)]
    return [_Hit(claim, frozenset(devices), effect) for claim, devices in found if devices]


def _with_objects(state: ClusterState, bodies: Sequence[Mapping[str, Any]], kind: str) -> ClusterState:
    """Return the state with some objects of a kind. Raises QuestionError if the API server would refuse one."""
    for body in bodies:
        if body.get("kind") != kind:
            raise QuestionError(f"kind: {shown(body.get('kind'))} is no {kind}")
    changed = state.with_objects(bodies)
    known = set(state.errors)
    for error in changed.errors:
        if error not in known:
            raise QuestionError(error)
    for body in bodies:
        name = body["metadata"].get("name")
        if not name:
            raise QuestionError("metadata.name: is required, as the change is about one object")
        if changed.find_record(kind, "", name) is None:
            raise QuestionError(f"apiVersion: {shown(body.get('apiVersion'))} is not of {RESOURCE_GROUP}")
    return changed


def _new_notes(before: ClusterState, after: ClusterState, kind: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return what is worth knowing about some objects of a kind after a change, and was not before."""
    beginnings = tuple(f'{kind} "{name}":' for name in names)
    known = {*before.notes}
    return tuple(line for line in after.notes if line.startswith(beginnings) and line not in known)


# --- whom devices would serve


def compare_requests(
    before: ClusterState, after: ClusterState
) -> tuple[tuple[RequestImpact, ...], tuple[str, ...]]:
    """Return the requests of templates and of claims that wait, which another number of devices can serve afterwards.

    And a line for each of which that is not known, as its selectors take longer than a tenth of the time of a claim.
    """
    found: list[RequestImpact] = []
    unfinished: list[str] = []
    count_before, count_after = (cache(partial(_count, state)) for state in (before, after))
    for kind, claim, decider in _find_claims(before):
        names = kind, claim.metadata.namespace, claim.metadata.name
        for one in find_parts({"": claim}):
            asked = one.asked
            request = _Request(
                decider,
                asked.device_class_name,
                _expressions(asked.selectors),
                asked.tolerations,
                bool(getattr(asked, "admin_access", None)),
            )
            number = asked.count if asked.allocation_mode == "ExactCount" else 0
            first, then = count_before(request), count_after(request)
            if first is None or then is None:
                unfinished.append(f"{kind} {'/'.join(names[1:])}: {UNFINISHED}")
            elif first != then:
                found.append(RequestImpact(*names, one.path, first, then, number))
    return tuple(found), tuple(unfinished)


class _Request(NamedTuple):
    """What requests have in common that the same devices can serve."""

    decider: Decider
    device_class: str
    selectors: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]
    is_admin: bool


def _find_claims(state: ClusterState) -> Iterator[tuple[str, ResourceClaim, Decider]]:
    """Yield the claims that wait, and templates as such, each with who decides."""
    for record in state.objects.of_kind("ResourceClaimTemplate"):
        claim = ResourceClaim(record.obj.metadata, record.obj.spec.spec)
        yield "ResourceClaimTemplate", claim, Decider.KUBE_SCHEDULER
    for record in state.objects.of_kind("ResourceClaim"):
        claim = record.obj
        if claim.status.allocation is None and not claim.metadata.deletion_timestamp:
            is_of_pod = claim.metadata.is_made_for_pods
            yield "ResourceClaim", claim, Decider.KUBE_SCHEDULER if is_of_pod else Decider.OPERATOR


def _count(state: ClusterState, request: _Request) -> int | None:
    """Return how many devices can serve a request, none if there is no such class; None if that takes too long."""
    found = state.inventory.classes.get(request.device_class)
    if found is None:
        return 0
    allocator, nodes, total = state.allocators[request.decider], state.inventory.nodes, 0
    content = AskContent(
        _expressions(found.spec.selectors),
        request.selectors,
        request.tolerations,
        request.decider.implied(admin_access=request.is_admin),
    )
    key = allocator.candidates.key(content, ())
    budget = Budget(allocator.limits, allocator.clock).tenth()
    for slice_ in PublishedDevices(state.inventory).slices():
        try:
            devices = allocator.candidates.select(key, slice_, budget)
        except AbortedError:
            return None
        devices = allocator.candidates.tolerated(key, slice_, devices)
        for name, here in devices_by_node(slice_).items() if devices else ():
            if not name or ((node := nodes.get(name)) is not None and node.unusable is None):
                total += (devices & here).bit_count()
    return total


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple([item.cel.expression for item in selectors if item.cel is not None])
