"""The fast searches against the plain one, step by step.

Two allocators follow one inventory and one ledger, one of them asking the plain search only. Whatever happens between
the claims, devices that come back, slices, rules, classes and nodes that change, both decide the same, errors and their
texts included: memory that is stale shows only on a second asking, so each claim is asked for again after each event.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator import AdminAccess, Allocated, Allocator, Decision, Failed, Limits, Searching
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

NODES = ("n1", "n2", "n3")
POOLS = ("n1", "n2", "n3", "all", "each", "zone")
SELECTORS = (
    'device.attributes["d"].?kind.orValue("") == "x"',
    'device.attributes["d"].?rail.orValue(0) < 2',
    'device.capacity["d"].memory.isGreaterThan(quantity("3"))',
    'device.driver == "e"',
)
FAILING = 'device.attributes["d"].kind == "x"'
"""A selector that fails on devices which lack the attribute, or have it with another type."""
TAINT = {"key": "k", "effect": "NoSchedule"}


def sometimes(random: Random, chance: float) -> bool:
    """Say yes with this probability."""
    return random.random() < chance


@dataclass(frozen=True)
class Style:
    """How odd a cluster is: most runs leave out what only the plain search can answer, so that the others are asked."""

    counters: bool
    shares: bool
    odd: bool

    @classmethod
    def of(cls, random: Random) -> "Style":
        """Return a style."""
        return cls(sometimes(random, 0.4), sometimes(random, 0.4), sometimes(random, 0.3))


def a_device(random: Random, style: Style, name: str, pool: str) -> dict[str, Any]:
    """Return a device of the API."""
    kinds: list[Any] = [{"string": "x"}, {"string": "x"}, {"string": "y"}, {"string": "z"}, None]
    if style.odd:
        kinds += [{"strings": ["x", "y"]}, {"version": "1.0.0"}, {"bool": True}, {"int": 1}]
    kind = random.choice(kinds)
    attributes: dict[str, Any] = {} if kind is None else {"kind": kind}
    attributes |= {"rail": {"int": random.randrange(3)}} if sometimes(random, 0.8) else {}
    attributes |= {"other.io/root": {"string": random.choice("ab")}} if sometimes(random, 0.8) else {}
    memory: dict[str, Any] = {"value": str(random.randint(2, 6))}
    if style.shares and sometimes(random, 0.3):
        memory["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    device: dict[str, Any] = {"name": name, "attributes": attributes, "capacity": {"memory": memory}}
    if style.shares and sometimes(random, 0.5):
        device["allowMultipleAllocations"] = True
    if style.counters and sometimes(random, 0.6) and (style.odd or "allowMultipleAllocations" not in device):
        sets = random.sample(("s0", "s1"), random.choice([1, 1, 2]))
        device["consumesCounters"] = [
            {
                "counterSet": item,
                "counters": {"cores": {"value": str(random.randrange(3))}, "memory": {"value": "1"}},
                **(
                    {"compatibilityGroups": random.sample("pq", 1)}
                    if style.odd and sometimes(random, 0.2)
                    else {}
                ),
            }
            for item in sets
        ]
    if sometimes(random, 0.1):
        device["taints"] = [TAINT]
    if pool == "each":
        device["nodeName"] = random.choice(NODES)
    if sometimes(random, 0.05):
        device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    return device


def pool_slices(random: Random, style: Style, pool: str, generation: int) -> list[dict[str, Any]]:
    """Return the slices of a pool as one generation has them: counters, and devices in one slice or two."""
    where: dict[str, Any] = {"nodeName": pool}
    if pool == "all":
        where = {"allNodes": True}
    elif pool == "each":
        where = {"perDeviceNodeSelection": True}
    elif pool == "zone":
        expression = {"key": "zone", "operator": "In", "values": ["a"]}
        where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    driver = "e" if pool == "all" else "d"
    parts = random.choice([1, 1, 2])
    totals = {"cores": {"value": "4"}, "memory": {"value": "2"}}
    contents: list[dict[str, Any]] = [
        {"sharedCounters": [{"name": name, "counters": totals} for name in ("s0", "s1")]}
    ]
    for part in range(parts):
        names = [f"{part}{number}" for number in range(random.randint(0, 4))]
        contents.append({"devices": [a_device(random, style, name, pool) for name in names]})
        if style.odd and sometimes(random, 0.1):
            contents[-1]["skipNodeOperations"] = ["NodePrepareResources"]
    count = len(contents) + (sometimes(random, 0.05))
    head = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return [
        {
            "metadata": {"name": f"{pool}-{number}"},
            "spec": {"driver": driver, "pool": head, **where, **content},
        }
        for number, content in enumerate(contents)
    ]


def a_request(random: Random, style: Style, name: str) -> dict[str, Any]:
    """Return a request of the API."""

    def alternative() -> dict[str, Any]:
        expressions = random.sample(SELECTORS, random.choice([0, 0, 1, 1, 2]))
        expressions += [FAILING] if style.odd and sometimes(random, 0.2) else []
        fields: dict[str, Any] = {
            "deviceClassName": random.choice("cc") if sometimes(random, 0.9) else "e",
            "count": random.choice([1, 1, 1, 2, 2, 3]),
            "selectors": [{"cel": {"expression": item}} for item in expressions],
        }
        if sometimes(random, 0.3):
            fields["capacity"] = {"requests": {"memory": str(random.randint(1, 3))}}
        if sometimes(random, 0.4):
            fields["tolerations"] = [{"operator": "Exists"}]
        return fields

    if sometimes(random, 0.25):
        options = [{"name": f"s{number}", **alternative()} for number in range(random.randint(1, 3))]
        return {"name": name, "firstAvailable": options}
    fields = alternative()
    if style.odd and sometimes(random, 0.1):
        del fields["count"]
        fields["allocationMode"] = "All"
    elif style.odd and sometimes(random, 0.1):
        fields["adminAccess"] = True
    return {"name": name, "exactly": fields}


def a_claim(random: Random, style: Style, name: str) -> Any:
    """Return a claim of the API."""
    requests = [
        a_request(random, style, f"r{number}") for number in range(random.choice([1, 1, 1, 2, 2, 3, 4]))
    ]
    constraints = [
        {
            random.choice(["matchAttribute", "distinctAttribute"]): random.choice(
                ["d/kind", "d/rail", "other.io/root"]
            ),
            "requests": random.choice(
                [[], [], [item["name"] for item in requests[:2]], [requests[-1]["name"]]]
            ),
        }
        for _ in range(random.choice([0, 0, 1, 1, 2]))
    ]
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    return apply_defaults(
        read_object({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}, "ResourceClaim")
    )


@dataclass
class World:
    """One inventory and ledger, the two allocators that follow them, and the claims that were ever asked for."""

    random: Random
    style: Style
    inventory: Inventory = field(default_factory=Inventory)
    ledger: Ledger = field(default_factory=Ledger)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    generation: int = 1
    number: int = 0

    def __post_init__(self) -> None:
        self.plain, self.counting = (
            Allocator(
                self.inventory,
                self.ledger,
                limits=Limits(20_000, None),
                clock=lambda: 0.0,
                share_ids=lambda: "id",
                admin_access=AdminAccess.ANY_NAMESPACE,
                searching=searching,
            )
            for searching in (Searching.PLAIN, Searching.COUNTING)
        )
        for name in NODES:
            self.node(name)
        self.put("DeviceClass", "c", spec={})
        self.put("DeviceClass", "e", spec={"selectors": [{"cel": {"expression": SELECTORS[0]}}]})
        for pool in POOLS:
            if sometimes(self.random, 0.6):
                self.slices(pool)

    def put(self, kind: str, name: str, **fields: Any) -> None:
        """Put an object."""
        self.inventory.put(apply_defaults(read_object({"metadata": {"name": name}, **fields}, kind)))

    def node(self, name: str) -> None:
        """Put a node, in a zone or another, cordoned or not."""
        labels = {"zone": self.random.choice("ab")}
        features = ["DRAOptionalNodeOperations"] if sometimes(self.random, 0.5) else []
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": sometimes(self.random, 0.1)},
            "status": {"declaredFeatures": features},
        }
        self.inventory.put(read_object(body, "Node"))

    def slices(self, pool: str) -> None:
        """Publish a pool anew, in the same generation or the next."""
        self.generation += sometimes(self.random, 0.2)
        for body in pool_slices(self.random, self.style, pool, self.generation):
            self.inventory.put(apply_defaults(read_object(body, "ResourceSlice")))

    # --- what can happen

    def ask(self) -> None:
        """Let one claim, or two together, be asked for from now on, and take what they get."""
        names = [f"c{self.number}", f"d{self.number}"][: 1 + sometimes(self.random, 0.2)]
        claims = tuple(a_claim(self.random, self.style, name) for name in names)
        self.waiting = [*self.waiting[-5:], claims]
        self.take(claims, names)

    def ask_again(self) -> None:
        """Take what claims that were asked for before get under another name."""
        if self.waiting:
            claims = self.random.choice(self.waiting)
            self.take(claims, [f"c{self.number}", f"d{self.number}"])

    def take(self, claims: tuple[Any, ...], names: list[str]) -> None:
        """Decide and carry it out."""
        decision = self.decide(claims)
        if isinstance(decision, Allocated):
            for name, result in zip(names, decision.results, strict=False):
                self.ledger.assume("ns", name, result)

    def free(self) -> None:
        """Let a claim go."""
        self.ledger.remove("ns", f"{self.random.choice('cd')}{self.random.randrange(self.number + 1)}")

    def slice_changes(self) -> None:
        """Let a driver publish."""
        self.slices(self.random.choice(POOLS))

    def slice_goes(self) -> None:
        """Let a driver take back a slice."""
        self.inventory.remove("ResourceSlice", f"{self.random.choice(POOLS)}-{self.random.randrange(3)}")

    def node_changes(self) -> None:
        """Let a node get another label, be cordoned, or come back."""
        self.node(self.random.choice(NODES))

    def node_goes(self) -> None:
        """Let a node go."""
        self.inventory.remove("Node", self.random.choice(NODES))

    def rule_changes(self) -> None:
        """Let an administrator taint some devices, or others."""
        selector = {"device": f"0{self.random.randrange(3)}", "pool": self.random.choice(POOLS)}
        self.put(
            "DeviceTaintRule", self.random.choice("ab"), spec={"deviceSelector": selector, "taint": TAINT}
        )

    def rule_goes(self) -> None:
        """Let an administrator take back a rule."""
        self.inventory.remove("DeviceTaintRule", self.random.choice("ab"))

    def class_changes(self) -> None:
        """Let a class select other devices, or come with configuration."""
        expressions = self.random.sample((*SELECTORS[:3], "true"), 1)
        config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}] if sometimes(self.random, 0.5) else []
        selectors = [{"cel": {"expression": item}} for item in expressions]
        self.put("DeviceClass", self.random.choice("ce"), spec={"selectors": selectors, "config": config})

    def foreign(self) -> None:
        """Let another writer, who need not keep our rules, give a device away."""
        result: dict[str, Any] = {"driver": "d", "pool": self.random.choice(POOLS), "device": "00"}
        if sometimes(self.random, 0.5):
            result |= {"shareID": "f", "consumedCapacity": {"memory": "2"}}
        body = {
            "metadata": {"name": f"c{self.number}", "namespace": "ns"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        self.ledger.put(read_object(body, "ResourceClaim"))

    def step(self) -> None:
        """Let something happen, then ask for every claim again."""
        self.number += 1
        events: list[Callable[[], None]] = [self.ask] * 6 + [self.ask_again] * 2 + [self.free] * 3
        events += [self.slice_changes] * 2
        events += [self.slice_goes, self.node_changes, self.node_goes, self.rule_changes, self.rule_goes]
        events += [self.class_changes, self.foreign]
        self.random.choice(events)()
        for claims in self.waiting:
            self.decide(claims)

    def decide(self, claims: tuple[Any, ...]) -> Decision:
        """Ask both allocators, and compare."""
        plain, counting = self.plain.allocate(claims), self.counting.allocate(claims)
        if isinstance(plain, Failed) and plain.kind == "aborted":
            return counting
        assert counting == plain
        return plain


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.integers(1, 25))
def test_fast_searches_decide_as_the_plain_one(random: Random, steps: int) -> None:
    """Whatever happens between the claims, counting changes no decision, no error and no text."""
    world = World(random, Style.of(random))
    for _ in range(steps):
        world.step()
