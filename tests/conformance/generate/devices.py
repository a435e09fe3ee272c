"""Devices: attributes of each type, capacities with and without policies, taints, groups and the rest."""

from typing import Any

from conformance.generate.chance import Chance
from conformance.generate.style import Style
from conformance.generate.words import (
    CAPACITIES,
    COUNTERS,
    EFFECTS,
    GROUPS,
    ROOT,
    TAINT_KEYS,
    TAINT_VALUES,
    amount,
    family_of,
)

Wire = dict[str, Any]

VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "model": ("string", ("h100", "a100", "l4")),
    "index": ("int", (0, 1, 2, 3)),
    "healthy": ("bool", (True, False)),
    "driverVersion": ("version", ("1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0", "1.2.3+a", "1.2.3+b")),
    "numa": ("int", (0, 1)),
    ROOT: ("string", ("pci0", "pci1", "pci2")),
    "vendor.example.com/tier": ("string", ("gold", "tin")),
    "roots": ("string", ("pci0", "pci1", "pci2")),
}


_FRACTIONAL: tuple[Wire, ...] = (
    {"min": "500m", "step": "250m"},
    {"min": "100m", "max": "2500m", "step": "200m"},
    {"min": "0", "step": "500m"},
)
"""Ranges in which amounts below one matter, as far as the feature for them is on."""


def make_device(chance: Chance, style: Style, driver: str, name: str, sets: list[str]) -> Wire:
    """Return a device; `sets` are the counter sets it may consume from."""
    device: Wire = {"name": name, "attributes": _attributes(chance, style, driver)}
    shareable = chance.maybe(style.shareable)
    if shareable or chance.maybe(0.05):
        device["allowMultipleAllocations"] = shareable
    if capacity := _capacities(chance, style, driver, shareable):
        device["capacity"] = capacity
    if sets and chance.maybe(max(style.counters, 0.3)):
        names = chance.some(sets, 1, 1 if chance.maybe(0.7) else 2)
        if chance.maybe(style.broken):
            # No API server admits the same set twice; both count.
            names.append(names[0])
        device["consumesCounters"] = [_consumption(chance, style, name) for name in names]
    if chance.maybe(style.taints / 2):
        device["taints"] = [make_taint(chance) for _ in range(chance.pick(1, 1, 2))]
    if chance.maybe(style.binding / 2):
        device["bindingConditions"] = ["example.com/ready"]
        device["bindingFailureConditions"] = ["example.com/failed"]
    if chance.maybe(style.binding / 3):
        device["bindsToNode"] = chance.maybe(0.8)
    return device


def make_taint(chance: Chance) -> Wire:
    """Return a taint; now and then with an effect of a future version."""
    taint = {"key": chance.pick(*TAINT_KEYS), "effect": chance.pick(*EFFECTS, "NoSchedule")}
    if chance.maybe(0.03):
        taint["effect"] = "Future"
    if value := chance.pick(*TAINT_VALUES):
        taint["value"] = value
    if chance.maybe(0.3):
        taint["timeAdded"] = "2026-01-01T00:00:00Z"
    return taint


def _attributes(chance: Chance, style: Style, driver: str) -> Wire:
    attributes: Wire = {}
    for name, (kind, values) in VALUES.items():
        if not chance.maybe(0.75):
            continue
        # A bare name means the same as one with the driver's own domain.
        key = f"{driver}/{name}" if "/" not in name and chance.maybe(0.08) else name
        attributes[key] = _value(chance, style, kind, values)
    if chance.maybe(style.broken / 4):
        attributes["odd"] = chance.pick({}, {"version": "1.x"}, {"strings": []}, {"futureType": "x"})
    return attributes


def _value(chance: Chance, style: Style, kind: str, values: tuple[Any, ...]) -> Wire:
    if chance.maybe(style.lists):
        return {f"{kind}s": chance.some(values, 1, 3)}
    if chance.maybe(0.03):
        return chance.pick({"string": "pci0"}, {"int": 1}, {"bool": True}, {"version": "1.2.3"})
    return {kind: chance.pick(*values)}


def _capacities(chance: Chance, style: Style, driver: str, shareable: bool) -> Wire:  # noqa: FBT001 - a fact
    capacities: Wire = {}
    if shareable and chance.maybe(0.15):
        return capacities
    for name in CAPACITIES:
        if not chance.maybe(0.15 if "/" in name else 0.6):
            continue
        # A bare name is one in the driver's domain. With both, the order of Go's maps decides which one CEL sees.
        if {name.removeprefix(f"{driver}/"), f"{driver}/{name}"} & capacities.keys():
            continue
        value = amount(chance, style, family_of(name))
        capacities[name] = {"value": value}
        if chance.maybe(style.policies if shareable else style.policies / 6):
            capacities[name]["requestPolicy"] = _policy(chance, style, family_of(name))
    return capacities


def _policy(chance: Chance, style: Style, family: str) -> Wire:
    policy: Wire = {}
    if chance.maybe(0.8):
        policy["default"] = amount(chance, style, family)
    match chance.pick("none", "values", "range", "range"):
        case "values":
            policy["validValues"] = [amount(chance, style, family) for _ in range(chance.randint(1, 3))]
        case "range":
            policy["validRange"] = _range(chance, style, family)
    return policy


def _range(chance: Chance, style: Style, family: str) -> Wire:
    if family == "fractions" and chance.maybe(0.3):
        return dict(chance.pick(*_FRACTIONAL))
    span = {"min": amount(chance, style, family)}
    if chance.maybe(style.broken / 2):
        del span["min"]
    if chance.maybe(0.6):
        span["max"] = amount(chance, style, family)
    if chance.maybe(0.6):
        step = amount(chance, style, family)
        span["step"] = "1" if step == "0" and not chance.maybe(style.broken) else step
    return span


def _consumption(chance: Chance, style: Style, counter_set: str) -> Wire:
    counters = chance.some(COUNTERS, 1, len(COUNTERS))
    if chance.maybe(style.broken):
        counters.append("unknown")
    consumption: Wire = {
        "counterSet": counter_set,
        "counters": {name: {"value": amount(chance, style, family_of(name))} for name in counters},
    }
    if chance.maybe(style.groups):
        consumption["compatibilityGroups"] = chance.some(GROUPS, 0 if chance.maybe(0.05) else 1, 2)
    return consumption
