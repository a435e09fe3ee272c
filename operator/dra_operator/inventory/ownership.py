"""Ownership: which devices this operator may allocate, told by a taint that keeps kube-scheduler away from them.

A device is owned if a taint in force on it has the key dra-operator.io/owned, the effect NoSchedule and no value.
Devices that draw on a common counter set are owned together or not at all (connected components).
Source: docs/ownership.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from dra_operator.api.core import Metadata
from dra_operator.api.names import OWNED_KEY, SETTLED_ANNOTATION
from dra_operator.api.text import listed, shown
from dra_operator.api.types import DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceClaimSpec
from dra_operator.inventory import bits
from dra_operator.inventory.slices import PoolKey, Slice, with_taints
from dra_operator.inventory.taints import (
    FENCED,
    UNOWNED,
    EffectiveTaint,
    EffectiveTaints,
    names_device,
    tolerates,
    touches,
)

OWNED_TAINT: Final = EffectiveTaint(OWNED_KEY, "", "NoSchedule")
"""What keeps kube-scheduler from devices that are ours."""
OWNED_TOLERATION: Final = DeviceToleration(key=OWNED_KEY, operator="Equal", effect="NoSchedule")
"""What the operator tolerates by itself."""
UNOWNED_TOLERATION: Final = DeviceToleration(key=OWNED_KEY, operator="Exists", effect=UNOWNED)
"""What admin access tolerates as well: it holds nothing, so it takes nothing from anybody."""
FENCED_TOLERATION: Final = DeviceToleration(key=OWNED_KEY, operator="Exists", effect=FENCED)
"""What the operator and admin access tolerate, and nobody else: the policy lets them through."""


class Ownership(Enum):
    """Whether a device is ours, and if not, why; the value says so in words."""

    OURS = "ours"
    SETTLING = "owned, but not settled yet"
    LEAVING = "being given back"
    UNOWNED = "without the taint dra-operator.io/owned:NoSchedule"
    HALF_OWNED = "drawing on a counter set with devices that are not owned"


@dataclass(slots=True)
class Settlement:
    """Which owned taints have been in force for long enough.

    `rules` are the names of DeviceTaintRules that nobody else can ignore any more, as the policy protects what they
    own; `pools` are those in which every owned taint counts, whoever set it. The caller changes both, and has the
    inventory derive the devices anew.
    """

    rules: set[str] = field(default_factory=set)
    pools: set[PoolKey] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """Whether the operator uses the devices of a rule by now, and whether nobody else can.

    `is_fenced` is None where that is not known. `why` says why it is not True.
    """

    is_settled: bool = False
    is_fenced: bool | None = None
    why: str = ""


def is_owned_taint(taint: DeviceTaint) -> bool:
    """True if the taint makes a device ours."""
    return taint.key == OWNED_KEY and taint.effect == "NoSchedule" and not taint.value


def tolerates_owned(tolerations: Iterable[DeviceToleration]) -> bool:
    """True if one of them covers the taint by which devices are ours."""
    return any(tolerates(item, OWNED_TAINT) for item in tolerations)


def tolerant_requests(spec: ResourceClaimSpec) -> tuple[str, ...]:
    """Return the requests that tolerate our taint without admin access, as `gpu`, or `gpu/large` of alternatives."""
    found = []
    for request in spec.devices.requests:
        if (exactly := request.exactly) is not None and not exactly.admin_access:
            found += [request.name] if tolerates_owned(exactly.tolerations) else []
        found += [
            f"{request.name}/{item.name}"
            for item in request.first_available
            if tolerates_owned(item.tolerations)
        ]
    return tuple(found)


def tolerance_problem(spec: ResourceClaimSpec) -> str | None:
    """Return what follows if a claim tolerates our taint without admin access; None if it does not."""
    if not (names := tolerant_requests(spec)):
        return None
    is_one = len(names) == 1
    return (
        f"request{'' if is_one else 's'} {listed(names)} tolerate{'s' if is_one else ''} the taint {OWNED_KEY}, so "
        "kube-scheduler chooses devices that only the operator allocates, is refused, and tries again: all pods are "
        "scheduled later"
    )


def taint_problem(taint: DeviceTaint) -> str | None:
    """Return why a taint with the key of ownership does not make devices ours; None if it does, or has another key."""
    if taint.key != OWNED_KEY or is_owned_taint(taint):
        return None
    if taint.value:
        value = shown(taint.value)
        return f"taint {OWNED_KEY} has the value {value}, so its devices are not owned: leave the value out"
    return f"taint {OWNED_KEY} has the effect {shown(taint.effect)}, so its devices are not owned: write NoSchedule"


def rule_problem(rule: DeviceTaintRule) -> str | None:
    """Return why a DeviceTaintRule with the key of ownership owns nothing, or None."""
    if rule.spec.taint.key != OWNED_KEY:
        return None
    if problem := taint_problem(rule.spec.taint):
        return f"spec.taint: {problem}"
    selector = rule.spec.device_selector
    if selector is None:
        return "spec.deviceSelector is not set, so the rule owns no device: name a driver"
    if not selector.driver:
        return "spec.deviceSelector.driver is not set, so the rule owns no device: a rule owns devices of one driver"
    if selector.device_class_name is not None or selector.selectors:
        return (
            "spec.deviceSelector selects by class or CEL, so the rule owns no device: "
            "a rule owns devices by driver, pool and device alone"
        )
    return None


def settled_mark(metadata: Metadata, fence: str = "") -> str:
    """Return what a rule is marked with once it has settled; the mark of another rule, or of before, does not fit.

    `fence` is the uid of the policy that protects it, if there is one.
    """
    return "/".join(filter(None, (metadata.uid, str(metadata.generation), fence)))


def has_settled(rule: DeviceTaintRule) -> bool:
    """True if an operator has marked the rule, as it is now, as one whose devices it uses."""
    mark = rule.metadata.annotations.get(SETTLED_ANNOTATION, "")
    return owns(rule) and mark.split("/")[:2] == settled_mark(rule.metadata).split("/")


def owns(rule: DeviceTaintRule) -> bool:
    """True if the rule makes the devices that it matches ours."""
    return is_owned_taint(rule.spec.taint) and rule_problem(rule) is None


def ownership_of_slice(
    slice_: Slice, rules: Iterable[DeviceTaintRule], settlement: Settlement
) -> tuple[Ownership, ...]:
    """Return for each device of a slice whether it is ours, counter sets aside.

    Where several taints own a device, the one that owns it most counts.
    """
    owning = [rule for rule in rules if owns(rule) and touches(rule, slice_.driver, slice_.pool)]
    published = Ownership.OURS if slice_.key in settlement.pools else Ownership.SETTLING
    states = [(rule, _ownership_by_rule(rule, slice_.key, settlement)) for rule in owning]
    found = []
    for name, device_fields in zip(slice_.names, slice_.device_fields, strict=True):
        here = {state for rule, state in states if names_device(rule, name)}
        if device_fields.taints and any(map(is_owned_taint, device_fields.taints)):
            here.add(published)
        found.append(next((state for state in _MOST_FIRST if state in here), Ownership.UNOWNED))
    return tuple(found)


def fenced_devices(
    slice_: Slice, rules: Iterable[DeviceTaintRule], settlement: Settlement
) -> tuple[bool, ...]:
    """Return for each device of a slice whether the policy refuses it to everybody but the operator."""
    fencing = [
        rule
        for rule in rules
        if rule.metadata.name in settlement.rules and owns(rule) and touches(rule, *slice_.key)
    ]
    return tuple([any(names_device(rule, name) for rule in fencing) for name in slice_.names])


_MOST_FIRST: Final = (Ownership.OURS, Ownership.SETTLING, Ownership.LEAVING)


def _ownership_by_rule(rule: DeviceTaintRule, key: PoolKey, settlement: Settlement) -> Ownership:
    if rule.metadata.deletion_timestamp:
        return Ownership.LEAVING
    settled = rule.metadata.name in settlement.rules or key in settlement.pools
    return Ownership.OURS if settled else Ownership.SETTLING


def close_over_counters(
    slices: Sequence[Slice], states: Mapping[str, Sequence[Ownership]]
) -> dict[str, tuple[Ownership, ...]]:
    """Return the states of the devices by slice name, where a device that shares counters is ours only with all others.

    `slices` are those of one pool; the counter sets of each generation are its own. `states` has for each slice those
    that `ownership_of_slice` returned.
    """
    refused = set[tuple[int, str]]()
    groups = [
        (slice_.generation, sets, states[slice_.name][index] is Ownership.OURS)
        for slice_ in slices
        for index, sets in counter_sets(slice_)
    ]
    spreading = True
    while spreading:
        before = len(refused)
        for generation, sets, is_ours in groups:
            if not is_ours or any((generation, name) in refused for name in sets):
                refused.update((generation, name) for name in sets)
        spreading = len(refused) > before
    closed = {}
    for slice_ in slices:
        row = list(states[slice_.name])
        for index, sets in counter_sets(slice_):
            if row[index] is Ownership.OURS and any((slice_.generation, name) in refused for name in sets):
                row[index] = Ownership.HALF_OWNED
        closed[slice_.name] = tuple(row)
    return closed


def counter_sets(slice_: Slice) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the position of each device that draws on counters, and the counter sets that it draws on."""
    for index in bits.each(slice_.counted):
        yield index, frozenset(use.counter_set for use in slice_.device_fields[index].consumes)


def with_ownership(
    slice_: Slice,
    taints: tuple[tuple[DeviceTaint, ...], ...],
    states: Sequence[Ownership],
    fenced: Iterable[bool] = (),
) -> Slice:
    """Return the slice with these taints in force, and its devices ours and fenced or not, as a new object."""
    half_owned = bits.from_flags([state is Ownership.HALF_OWNED for state in states])
    unowned = [_EFFECTIVE_TAINTS[state] for state in states]
    fences = [_FENCE if is_fenced else () for is_fenced in fenced]
    return with_taints(slice_, taints, unowned, half_owned, fences or None)


_FENCE: Final[EffectiveTaints] = (EffectiveTaint(OWNED_KEY, "", FENCED),)

_EFFECTIVE_TAINTS: Final[Mapping[Ownership, EffectiveTaints]] = {
    state: () if state is Ownership.OURS else (EffectiveTaint(OWNED_KEY, state.value, UNOWNED),)
    for state in Ownership
}
