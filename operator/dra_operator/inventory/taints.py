"""Effective taints: which devices a request must tolerate, and what of a DeviceTaintRule matches a device.

A driver or a rule taints whole nodes, so devices are grouped by their taints, and tolerations are asked once a group.
Source: docs/dra-semantics 5.1; DeviceTaintRule of resource.k8s.io/v1.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from dra_operator.api.types import DeviceTaint, DeviceTaintRule, DeviceToleration


class EffectiveTaint(NamedTuple):
    """A taint that keeps away who does not tolerate it, of a device or of a node. It does not matter since when."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """What a pod tolerates of nodes. An empty key or effect stands for all."""

    key: str
    operator: str
    value: str
    effect: str


EffectiveTaints: TypeAlias = tuple[EffectiveTaint, ...]
"""All effective taints of a device, in order."""
TaintedGroups: TypeAlias = tuple[tuple[EffectiveTaints, int], ...]
"""Effective taints, and the devices that have just these as a set of bits; none without taints."""

UNOWNED: Final = "NotOwned"
"""The effect of the taint on devices that are not ours. The API has no such effect, so no user tolerates it."""
FENCED: Final = "Fenced"
"""The effect of the taint on devices that the policy refuses to everybody but the operator; no user tolerates it."""
_EFFECTIVE = frozenset(("NoSchedule", "NoExecute"))
"""Effects that keep a device from a claim; others count as None. docs/contributing.md says what a new one needs."""


def tainted_groups(
    taints: Sequence[Sequence[DeviceTaint]],
    unowned: Sequence[EffectiveTaints] | None = None,
    fenced: Sequence[EffectiveTaints] | None = None,
) -> TaintedGroups:
    """Return which devices have which effective taints; `taints` has all taints of each device.

    `unowned` has, for each device, those that keep us from what is not ours; they come first. `fenced` has those that
    keep everybody else from what is ours; they come last.
    """
    groups: dict[EffectiveTaints, int] = {}
    for index, of_device in enumerate(taints):
        effective = tuple(
            [EffectiveTaint(item.key, item.value, item.effect) for item in of_device if is_effective(item)]
        )
        if unowned is not None:
            effective = unowned[index] + effective
        if fenced is not None:
            effective += fenced[index]
        if effective:
            groups[effective] = groups.get(effective, 0) | 1 << index
    return tuple(groups.items())


def taint_text(taint: DeviceTaint | EffectiveTaint) -> str:
    """Return a taint as kubectl writes those of nodes: `key=value:effect`."""
    return key_value_effect(taint.key, taint.value, taint.effect)


def key_value_effect(key: str, value: str, effect: str) -> str:
    """Return a taint, or a toleration of some, in the notation of kubectl."""
    return key + (f"={value}" if value else "") + (f":{effect}" if effect else "")


def is_effective(taint: DeviceTaint) -> bool:
    """True if a taint keeps a device from claims that do not tolerate it."""
    return taint.effect in _EFFECTIVE


def touches(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    """True if the rule can match a device of this pool; one without a selector matches none."""
    selector = rule.spec.device_selector
    return selector is not None and selector.driver in (None, driver) and selector.pool in (None, pool)


def names_device(rule: DeviceTaintRule, device: str) -> bool:
    """True if the rule, which touches the pool of a device, matches the device, class and CEL aside."""
    selector = rule.spec.device_selector
    return selector is not None and selector.device in (None, device)


def tolerates(toleration: DeviceToleration | Toleration, taint: DeviceTaint | EffectiveTaint) -> bool:
    """True if a toleration covers a taint. Source: docs/dra-semantics 5.1.

    So it is with nodes: operators that compare numbers are off in 1.37, as by default.
    """
    if toleration.effect != taint.effect and (toleration.effect or taint.effect in (UNOWNED, FENCED)):
        # What only the operator tolerates is tolerated by nothing that a user can write.
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False
