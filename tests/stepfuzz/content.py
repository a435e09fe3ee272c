"""Slices and rules at random: small, so that claims meet, and of every kind that a search tells apart."""

from dataclasses import dataclass
from random import Random
from typing import Any

from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object

NODES = tuple(f"n{number:x}" for number in range(12))
FEW_NODES = NODES[:4]
POOLS = ("n1", "n2", "n3", "all", "each", "zone", "apiece")
"""Pools of one node, for all nodes, with a node for each device, for a zone, and with a slice for each node."""
SHARED_POOLS = ("all", "each", "zone", "apiece", "fabric")
"""Pools that a wide cluster may have beside those of its nodes; `fabric` is for all nodes, and large."""
SELECTORS = (
    'device.attributes["d"].?kind.orValue("") == "x"',
    'device.attributes["d"].?rail.orValue(0) < 2',
    'device.capacity["d"].?memory.orValue(quantity("0")).isGreaterThan(quantity("3"))',
    'device.driver == "e"',
)
DRIVER = 'device.driver == "d"'
OF_CLASSES = (
    DRIVER,
    DRIVER,
    f"{DRIVER} && {SELECTORS[1]}",
    f"{SELECTORS[0]} && {DRIVER}",
    f"{DRIVER} || {SELECTORS[1]}",
    f'{DRIVER} && device.attributes["d"].kind != "x"',
)
"""What classes ask for that are for devices of a driver: of no other pool anybody needs to look at a device."""
TAINTS = ({"key": "k", "effect": "NoSchedule"}, {"key": "k2", "effect": "NoExecute", "value": "v"})
TEAMS = ("t0", "t1", "t2")
"""Values of taints that keep devices for one of several."""
IDENTITIES = 30
"""There are so many numbers of which a device has one: a claim that asks for one mostly finds none or one."""
_POLICIES: tuple[dict[str, Any], ...] = (
    {"default": "1", "validRange": {"min": "500m", "step": "250m"}},
    {"default": "2", "validRange": {"min": "1", "max": "3"}},
    {"default": "500m", "validValues": ["500m", "1500m", "3"]},
    {"default": "1"},
)
_ODD_POLICIES: tuple[dict[str, Any], ...] = (
    {"default": "-1", "validRange": {"min": "1", "step": "1"}},
    {"default": "1", "validRange": {"min": "-3", "step": "500m"}},
    {"default": "1", "validRange": {"min": "1", "step": str(2**63 - 1)}},
    {"default": "1", "validRange": {"min": "1n", "step": "1"}},
    {"default": "1", "validRange": {"max": "4"}},
    {"validValues": ["-1", "2"]},
)
FEATURES = (
    "admin_access", "compatibility_groups", "consumable_capacity", "derived_attributes",
    "device_binding_and_status", "device_taints", "fractional_capacity_range", "list_type_attributes",
    "optional_node_operations", "partitionable_devices", "prioritized_list",
)  # fmt: skip
"""The features that a run may have switched off."""

Body = dict[str, Any]


def sometimes(random: Random, chance: float) -> bool:
    """Say yes with this probability."""
    return random.random() < chance


@dataclass(frozen=True)
class Style:
    """How odd a cluster is. Most leave out what only the exhaustive search can answer, so that the others are asked.

    `paying`: devices that can be shared draw on counters, which the first share pays. `giving`: devices give counters
    back, which no API server admits. `skipping`: slices are for nodes that can do without some of their operations.
    `deriving`: requests derive attributes that constraints ask for. `listing`: devices have lists that constraints are
    about.
    `admin` is how likely a request is one for admin access. `parting`: devices are kept for teams, and each request
    tolerates what it likes.
    `wide`: there are many nodes, most with a pool of their own, and claims come in numbers that ask for the same but
    for tolerations, amounts and selectors of their own. What is kept between claims is about nodes that have little
    left; so some of the devices are `used` from the beginning, by claims of others.
    `eager`: what pays where there is much of something is done where there is little. `cramped`: nothing is kept for
    long, as if there were more of everything than is kept. `choosy`: classes ask for a driver. `spelt`: drivers write
    their own domain out in names of attributes, or not. `broken`: nobody can parse some node selectors, most of them of
    devices; nodes that see a device before it live with that. `grouping`: devices that draw on counters name the
    compatibility groups that they can live with.
    """

    counters: bool
    shares: bool
    odd: bool
    paying: bool
    giving: bool
    skipping: bool
    deriving: bool
    listing: bool
    admin: float
    parting: bool
    wide: bool
    used: float
    eager: bool
    cramped: bool
    choosy: bool
    spelt: bool
    broken: bool
    grouping: bool

    @classmethod
    def of(cls, random: Random) -> "Style":
        """Return a style."""
        wide = sometimes(random, 0.6)
        counters, shares = sometimes(random, 0.3 if wide else 0.65), sometimes(random, 0.7 if wide else 0.4)
        return cls(
            counters=counters,
            shares=shares,
            odd=sometimes(random, 0.25),
            paying=counters and shares and sometimes(random, 0.6),
            giving=counters and not shares and sometimes(random, 0.7),
            skipping=sometimes(random, 0.15),
            deriving=sometimes(random, 0.3),
            listing=sometimes(random, 0.4),
            admin=random.choice([0.03, 0.03, 0.03 if wide else 0.3, 0.03 if wide else 0.7]),
            parting=sometimes(random, 0.4),
            wide=wide,
            used=random.choice([0, 0.5, 0.8, 0.95]) if wide else 0,
            eager=sometimes(random, 0.6),
            cramped=sometimes(random, 0.2),
            choosy=sometimes(random, 0.5),
            spelt=sometimes(random, 0.2),
            broken=sometimes(random, 0.1),
            grouping=counters and sometimes(random, 0.25),
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that may be there."""
        return NODES if self.wide else FEW_NODES

    def pools(self, random: Random) -> list[str]:
        """Return the names of the pools of a cluster."""
        if not self.wide:
            return random.sample(POOLS, random.choice([1, 2, 3, 4, len(POOLS)]))
        own = random.sample(NODES, random.randint(6, len(NODES)))
        if self.broken:
            return [*own, "each"]
        match random.randrange(6):
            case 0 | 1:
                return own
            case 2 | 3 | 4:
                return [*own, "fabric"]
            case _:
                return own + random.sample(SHARED_POOLS, random.choice([1, 2]))


def driver_of(pool: str) -> str:
    """Return the driver of a pool."""
    return "e" if pool == "all" else "d"


def a_device(random: Random, style: Style, name: str, pool: str) -> Body:
    """Return a device of the API."""
    kinds: list[Any] = [{"string": "x"}, {"string": "x"}, {"string": "y"}, {"string": "z"}, None]
    if style.odd:
        kinds += [{"strings": ["x", "y"]}, {"version": "1.0.0"}, {"bool": True}, {"int": 1}]
    kind = random.choice(kinds)
    attributes: Body = {} if kind is None else {"kind": kind}
    attributes |= {"rail": {"int": random.randrange(3)}} if sometimes(random, 0.8) else {}
    attributes |= {"other.io/root": {"string": random.choice("ab")}} if sometimes(random, 0.8) else {}
    if style.listing:
        attributes |= _lists(random)
    if style.wide:
        attributes |= {"uuid": {"int": random.randrange(IDENTITIES)}}
    if style.spelt:
        attributes = {_spelt(random, key): value for key, value in attributes.items()}
        # Whoever has both has two.
        attributes |= {"d/rail": {"int": random.randrange(3)}} if sometimes(random, 0.1) else {}
    if style.odd and sometimes(random, 0.06):
        # No selector can be asked about it.
        attributes["odd"] = {"version": "1.x"}
    device: Body = {"name": name, "attributes": attributes, "capacity": _capacity(random, style, pool)}
    if style.shares and sometimes(random, 0.9 if pool == "fabric" else 0.5):
        device["allowMultipleAllocations"] = True
        if sometimes(random, 0 if pool == "fabric" else 0.2):
            del device["capacity"]
    if (
        style.counters
        and sometimes(random, 0.6)
        and (style.paying or "allowMultipleAllocations" not in device)
    ):
        sets = random.sample(("s0", "s1"), random.choice([1, 1, 2]))
        # No API server admits a set twice.
        sets += random.sample(sets, 1) if style.odd and sometimes(random, 0.1) else []
        device["consumesCounters"] = [_use(random, style, item) for item in sets]
    if sometimes(random, 0.7 if style.parting and pool != "fabric" else 0.1):
        device["taints"] = [a_taint(random, style) for _ in range(random.choice([1, 1, 1, 2]))]
    if pool == "each":
        device |= _device_nodes(random, style, first=name.endswith("-0"))
    if sometimes(random, 0.05):
        device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    return device


def _spelt(random: Random, name: str) -> str:
    """Return the name of an attribute with its domain, or as it is."""
    return f"d/{name}" if "/" not in name and sometimes(random, 0.5) else name


def _capacity(random: Random, style: Style, pool: str) -> Body:
    """Return what a device has to give, and by which policy."""
    capacity: Body = {"memory": {"value": str(random.randint(2, 6))}}
    if style.wide and sometimes(random, 0.9 if pool == "fabric" else 0.3):
        capacity["band"] = {"value": random.choice(["4", "2500m", "6"])}
    for amount in capacity.values():
        if style.shares and sometimes(random, 0.3):
            amount["requestPolicy"] = a_policy(random, style)
    return capacity


def a_policy(random: Random, style: Style) -> Body:
    """Return what a policy makes of amounts; no API server admits the odd ones."""
    if not style.wide or sometimes(random, 0.5):
        return {"default": "1", "validRange": {"min": "1", "step": "1"}}
    if style.odd and sometimes(random, 0.3):
        return random.choice(_ODD_POLICIES)
    return random.choice(_POLICIES)


def _lists(random: Random) -> Body:
    """Return attributes that are lists, mostly, of values that other devices have as well.

    No API server admits a list of nothing.
    """
    links: list[Any] = [{"strings": random.sample("abcd", random.choice([1, 2, 2, 3]))} for _ in range(6)]
    links += [{"string": random.choice("abcd")}] * 2 + [
        {"versions": ["1.0.0", "2.0.0"]},
        {"strings": []},
        None,
    ]
    ports: list[Any] = [
        {"ints": random.choices(range(3), k=random.choice([1, 2]))},
        {"int": random.randrange(3)},
    ]
    ports += [{"bools": [True, False]}, None]
    found = {"links": random.choice(links), "other.io/ports": random.choice(ports[:2] * 3 + ports)}
    return {name: value for name, value in found.items() if value is not None}


def helps_when_taken(device: Body) -> bool:
    """True if a device gives counters back, or pays those that its next user need not pay."""
    uses = device.get("consumesCounters", ())
    gives = any(use["counters"]["cores"]["value"].startswith("-") for use in uses)
    return gives or bool(uses and "allowMultipleAllocations" in device)


def _use(random: Random, style: Style, counter_set: str) -> Body:
    amounts = [-3, -2, 2, 3, 3] if style.giving else [0, 0, 1, 1, 2, 3]
    groups = {}
    if style.grouping and sometimes(random, 0.5):
        groups["compatibilityGroups"] = random.sample("pqr", random.choice([1, 1, 2]))
    cores = {"value": str(random.choice(amounts))}
    return {"counterSet": counter_set, "counters": {"cores": cores, "memory": {"value": "1"}}, **groups}


def _device_nodes(random: Random, style: Style, *, first: bool) -> Body:
    if sometimes(random, 0.9 if first and style.broken else 0.2):
        return {"allNodes": True}
    if sometimes(random, 0.4 if style.broken else 0.2):
        return {"nodeSelector": _zone(random, 0.7 * style.broken)}
    return {"nodeName": random.choice(style.nodes)}


def _zone(random: Random, broken: float) -> Body:
    operator = "Bogus" if sometimes(random, broken) else "In"
    expression = {"key": "zone", "operator": operator, "values": [random.choice("ab")]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def _where(random: Random, style: Style, pool: str, part: int) -> Body:
    match pool:
        case "all" | "fabric":
            return {"allNodes": True}
        case "each":
            return {"perDeviceNodeSelection": True}
        case "zone":
            return {"nodeSelector": _zone(random, 0.05 * style.broken)}
        case "apiece":
            return {"nodeName": style.nodes[part]}
        case _:
            return {"nodeName": pool}


def counters(random: Random, style: Style) -> list[Body]:
    """Return the counter sets of a pool."""
    least = -1 if style.odd else 0
    # What is given back, or paid already, matters where there is little.
    cores = [0, 1, 2] if style.giving or style.paying else [4, 4, 2]
    return [
        {
            "name": name,
            "counters": {
                "cores": {"value": str(random.choice([*cores, random.randint(least, 6)]))},
                "memory": {"value": str(9 if style.giving else random.choice([2, 2, 3, 4, 1]))},
            },
        }
        for name in ("s0", "s1")
    ]


def devices(random: Random, style: Style, pool: str, part: int) -> list[Body]:
    """Return the devices of a slice. Slices for different nodes may have devices of the same name."""
    prefix = 0 if pool == "apiece" and sometimes(random, 0.3) else part
    size = random.choice([6, 12, 14, 16] if pool == "fabric" else [0, 1, 2, 3, 4, 5])
    return [a_device(random, style, f"{prefix}-{number}", pool) for number in range(size)]


def pool_slices(random: Random, style: Style, pool: str, generation: int) -> list[Body]:
    """Return the slices of a pool as one generation has them: counters, and devices in one slice or several."""
    match pool:
        case "apiece":
            parts = len(style.nodes)
        case "fabric":
            parts = 5
        case _:
            parts = random.choice([1, 1, 2])
    where = _where(random, style, pool, 0)
    contents: list[Body] = [{**where, "sharedCounters": counters(random, style)}]
    for part in range(parts):
        where = _where(random, style, pool, part) if pool == "apiece" else where
        contents.append({**where, "devices": devices(random, style, pool, part)})
        if style.skipping and sometimes(random, 0.5):
            contents[-1]["skipNodeOperations"] = ["NodePrepareResources"]
    if not style.counters and (pool == "fabric" or sometimes(random, 0.5)):
        # Without counters a slice for one node is nobody else's business.
        del contents[0]
    count = len(contents) + sometimes(random, 0.05)
    head = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return [
        {
            "metadata": {"name": f"{pool}-{number}"},
            "spec": {"driver": driver_of(pool), "pool": head, **content},
        }
        for number, content in enumerate(contents)
    ]


def a_taint(random: Random, style: Style) -> Body:
    """Return a taint."""
    if not style.parting:
        return random.choice(TAINTS)
    effect = random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])
    return {"key": random.choice(["team", "team", "k"]), "value": random.choice(TEAMS), "effect": effect}


def a_rule(random: Random, style: Style) -> Body:
    """Return what a taint rule says: of one device, a pool, a driver, all there is, or nothing."""
    selector: Body | None = {}
    if sometimes(random, 0.05):
        selector = None
    elif sometimes(random, 0.9):
        pools = (*SHARED_POOLS, *NODES) if style.wide else POOLS
        choices = {"driver": random.choice("de"), "pool": random.choice(pools)}
        choices["device"] = f"{random.randrange(2)}-{random.randrange(3)}"
        names = random.choice([["pool", "device"], ["pool", "device"], ["device"], ["pool"], ["driver"]])
        selector = {name: choices[name] for name in names}
    return {"deviceSelector": selector, "taint": a_taint(random, style)}


def read(kind: str, body: Body) -> Any:
    """Return an object of the API as the operator reads it."""
    return apply_defaults(read_object(body, kind))
