"""Scenarios: a cluster, what is in use, and claims to be allocated together."""

from dataclasses import replace

from conformance.generate.chance import Chance
from conformance.generate.devices import Wire
from conformance.generate.pools import make_node, make_rules, make_slices
from conformance.generate.requests import make_claim, make_classes
from conformance.generate.style import Style
from conformance.generate.usage import make_allocated, make_state

FEATURES = (
    "AdminAccess", "CompatibilityGroups", "ConsumableCapacity", "DerivedAttributes",
    "DeviceBindingAndStatus", "DeviceTaints", "FractionalCapacityRange", "ListTypeAttributes",
    "OptionalNodeOperations", "PartitionableDevices", "PrioritizedList",
)  # fmt: skip
_USED_GATES = {
    "CompatibilityGroups": "groups",
    "ConsumableCapacity": "shareable",
    "DeviceBindingAndStatus": "binding",
    "DeviceTaints": "taints",
    "FractionalCapacityRange": "policies",
    "ListTypeAttributes": "lists",
    "OptionalNodeOperations": "node_operations",
    "PartitionableDevices": "counters",
}


def make_scenario(seed: int, number: int) -> Wire:
    """Return the scenario of that number, in the format that `python -m conformance replay` reads."""
    chance = Chance(f"scenario {seed} {number}")
    style = Style.drawn(chance)
    off = {name for name in FEATURES if chance.maybe(style.gates)}
    # A gate matters where its feature is used.
    off |= {gate for gate, level in _USED_GATES.items() if getattr(style, level) and chance.maybe(0.04)}
    if "ConsumableCapacity" in off and chance.maybe(0.8):
        # What asks for an amount is an error then, and nothing else is looked at.
        style = replace(style, capacity_requests=0)
    nodes = [make_node(chance, style, place) for place in range(chance.pick(1, 1, 2, 2, 3, 4))]
    slices = make_slices(chance, style, [node["metadata"]["name"] for node in nodes])
    scenario: Wire = {
        "name": f"{seed}-{number}",
        "mode": "firstNodeThatFits",
        "nodes": nodes,
        "deviceClasses": make_classes(chance, style),
        "resourceSlices": slices,
        "deviceTaintRules": make_rules(chance, style),
        "allocated": make_allocated(chance, style, slices),
        "claims": [make_claim(chance, style, place) for place in range(chance.pick(1, 1, 1, 1, 2, 2, 3))],
    }
    if chance.maybe(0.05) and (state := make_state(chance, style, slices)):
        scenario["allocatedState"] = state
    if "allocatedState" in scenario and chance.maybe(0.15):
        # What it says of shares is believed all the same.
        off.add("ConsumableCapacity")
    if off:
        scenario["features"] = dict.fromkeys(sorted(off), False)
    if chance.maybe(0.03):
        scenario["noDefaults"] = True
    return scenario
