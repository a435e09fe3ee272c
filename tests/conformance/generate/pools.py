"""Pools: slices on nodes, generations that follow each other, counters, and what can be wrong with them."""

from conformance.generate.chance import Chance
from conformance.generate.devices import Wire, make_device, make_taint
from conformance.generate.style import Style
from conformance.generate.words import COUNTERS, DRIVERS, GPU, POOLS, SETS, amount, family_of
from factories import manifest

_BROKEN: tuple[Wire, ...] = (
    {"key": "zone", "operator": "Near", "values": ["z1"]},
    {"key": "rack", "operator": "Gt", "values": ["many"]},
    {"key": "zone", "operator": "In"},
)
"""Requirements on nodes that nobody can parse."""


def make_node(chance: Chance, style: Style, number: int) -> Wire:
    """Return a node."""
    name = f"node-{number}"
    labels = {
        "zone": chance.pick("z1", "z2"),
        "rack": str(chance.randint(1, 3)),
        "kubernetes.io/hostname": name,
    }
    if chance.maybe(0.2):
        del labels["rack"]
    node: Wire = manifest("Node", name, labels=labels)
    if chance.maybe(0.7 if style.node_operations else 0.1):
        node["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
    return node


def make_slices(chance: Chance, style: Style, nodes: list[str]) -> list[Wire]:
    """Return the slices of a few pools, in a random order."""
    slices: list[Wire] = []
    wanted = chance.pick(1, 2, 2, 3, 3, 4)
    keys = {(chance.pick(GPU, GPU, GPU, *DRIVERS), chance.pick(*POOLS)) for _ in range(wanted)}
    for driver, pool in sorted(keys):
        slices += _pool(chance, style, driver, pool, nodes)
    chance.shuffle(slices)
    return slices


def _pool(chance: Chance, style: Style, driver: str, pool: str, nodes: list[str]) -> list[Wire]:
    sets = chance.some(SETS, 1, 2) if chance.maybe(style.counters) else []
    specs: list[Wire] = []
    number = 0
    home = _placement(chance, style, nodes)
    for _ in range(chance.pick(1, 1, 1, 2, 2, 3)):
        place = home if chance.maybe(0.75) else _placement(chance, style, nodes)
        devices = []
        for _ in range(chance.pick(0, 1, 2, 3, 4, 5, 6)):
            name = f"dev-{number}" if not chance.maybe(style.bad_pools / 4) else "dev-0"
            devices.append(
                _placed(chance, style, make_device(chance, style, driver, name, sets), place, nodes)
            )
            number += 1
        specs.append({**place, "devices": devices})
        if chance.maybe(style.node_operations):
            specs[-1]["skipNodeOperations"] = chance.pick(
                ["*"], ["NodePrepareResources", "NodeUnprepareResources"]
            )
    if sets:
        specs.append(
            {
                **_counter_place(chance, style, home, nodes),
                "sharedCounters": _counter_sets(chance, style, sets),
            }
        )
    generation = chance.pick(0, 1, 5)
    count = len(specs)
    pools = {"name": pool, "generation": generation, "resourceSliceCount": count}
    if chance.maybe(style.bad_pools):
        pools["resourceSliceCount"] = max(1, count + chance.pick(-1, 1))
    slices = []
    for place, spec in enumerate(specs):
        described = dict(pools)
        if chance.maybe(style.generations / 3):
            described["generation"] = max(0, generation + chance.pick(-1, 1, 2))
            described["resourceSliceCount"] = chance.pick(1, 1, count)
        slices.append(_slice(driver, f"{driver}-{pool.replace('/', '-')}-{place}", described, spec))
    if chance.maybe(style.generations):
        slices += _older(chance, slices, nodes)
    return slices


def _older(chance: Chance, slices: list[Wire], nodes: list[str]) -> list[Wire]:
    """Return copies of some slices as another generation, as seen while a driver updates its pool."""
    copies = []
    # One node may see the new generation, another still the old one.
    elsewhere = chance.pick(*nodes) if chance.maybe(0.5) else None
    for item in chance.some(slices, 1, len(slices)):
        spec = dict(item["spec"])
        if elsewhere and "nodeName" in spec:
            spec["nodeName"] = elsewhere
        spec["pool"] = dict(spec["pool"])
        spec["pool"]["generation"] = max(0, spec["pool"]["generation"] + chance.pick(-1, 1))
        name = chance.pick("", "0-") + item["metadata"]["name"] + "-old"
        copies.append({**item, "metadata": {"name": name}, "spec": spec})
    if chance.maybe(0.5):
        for item in copies:
            item["spec"]["pool"]["resourceSliceCount"] = len(copies)
    return copies


def _slice(driver: str, name: str, pool: Wire, spec: Wire) -> Wire:
    return manifest("ResourceSlice", name, {"driver": driver, "pool": pool, **spec})


def _placement(chance: Chance, style: Style, nodes: list[str]) -> Wire:
    """Return the node fields of a slice."""
    if chance.maybe(style.per_device):
        return {"perDeviceNodeSelection": True}
    if chance.maybe(style.broken / 3):
        return chance.pick({}, {"allNodes": False}, {"perDeviceNodeSelection": False})
    return _node_fields(chance, style, nodes)


def _node_fields(chance: Chance, style: Style, nodes: list[str]) -> Wire:
    match chance.pick("name", "name", "name", "all", "all", "all", "selector"):
        case "name":
            return {"nodeName": chance.pick(*nodes) if chance.maybe(0.95) else "node-9"}
        case "all":
            return {"allNodes": True}
    return {"nodeSelector": {"nodeSelectorTerms": [_term(chance, style, nodes)]}}


def _placed(chance: Chance, style: Style, device: Wire, place: Wire, nodes: list[str]) -> Wire:
    """Return a device with node fields of its own where its slice leaves them to it."""
    if not place.get("perDeviceNodeSelection"):
        return device
    if style.misplaced and chance.maybe(0.7):
        # A node that can use a device before the broken one sees the slice all the same.
        broken = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [chance.pick(*_BROKEN)]}]}}
        return {**device, **(broken if chance.maybe(style.misplaced) else {"allNodes": True})}
    fields = {} if chance.maybe(style.broken) else _node_fields(chance, style, nodes)
    if "nodeSelector" in fields and chance.maybe(style.broken * 2):
        fields["nodeSelector"]["nodeSelectorTerms"].append(_term(chance, style, nodes))
    return {**device, **fields}


def _term(chance: Chance, style: Style, nodes: list[str]) -> Wire:
    named = {
        "key": "metadata.name",
        "operator": chance.pick("In", "In", "NotIn"),
        "values": [chance.pick(*nodes)],
    }
    if chance.maybe(0.15):
        return {"matchFields": [named]}
    expressions = [_expression(chance) for _ in range(chance.pick(1, 1, 2))]
    if chance.maybe(style.broken / 2):
        expressions.append(chance.pick(*_BROKEN))
    if chance.maybe(style.broken):
        # A term that asks for nothing is met by no node.
        return chance.pick({}, {"matchExpressions": []}, {"matchFields": []})
    return {"matchExpressions": expressions, **({"matchFields": [named]} if chance.maybe(0.1) else {})}


def _expression(chance: Chance) -> Wire:
    match chance.pick("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
        case ("In" | "NotIn") as operator:
            return {"key": "zone", "operator": operator, "values": chance.some(("z1", "z2", "z3"), 1, 2)}
        case ("Gt" | "Lt") as operator:
            return {"key": "rack", "operator": operator, "values": [chance.pick("0", "1", "2")]}
        case operator:
            return {"key": chance.pick("zone", "rack"), "operator": operator}


def _counter_place(chance: Chance, style: Style, home: Wire, nodes: list[str]) -> Wire:
    if home.get("perDeviceNodeSelection") or chance.maybe(0.2):
        return {"allNodes": True} if chance.maybe(0.7) else _node_fields(chance, style, nodes)
    return home


def _counter_sets(chance: Chance, style: Style, sets: list[str]) -> list[Wire]:
    made = [
        {
            "name": name,
            "counters": {
                counter: {"value": amount(chance, style, family_of(counter))} for counter in COUNTERS
            },
        }
        for name in sets
    ]
    if chance.maybe(style.bad_pools / 3):
        made.append(made[0])
    return made


def make_rules(chance: Chance, style: Style) -> list[Wire]:
    """Return taint rules; some without a selector, some with an empty one."""
    rules = []
    for number in range(chance.pick(1, 2, 3) if chance.maybe(style.rules) else 0):
        spec: Wire = {"taint": make_taint(chance)}
        if not chance.maybe(0.15):
            selector = {
                "driver": chance.pick(*DRIVERS),
                "pool": chance.pick(*POOLS),
                "device": f"dev-{chance.randint(0, 3)}",
            }
            spec["deviceSelector"] = {
                key: selector[key] for key in chance.some(sorted(selector), 0 if chance.maybe(0.1) else 1, 3)
            }
        rules.append(manifest("DeviceTaintRule", f"rule-{number}", spec))
    return rules
