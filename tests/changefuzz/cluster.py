"""Clusters and claims at random in wire form: small, and mostly with one thing that is in the way."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger
from dra_operator.pods.situation import Situation

Body = dict[str, Any]
Key = tuple[str, str]
DRIVER = "gpu.example.com"
MODELS = ("a", "b", "c", "d")
VERSIONS = ("1.0.0", "1.2.0", "2.0.0", "2.0.0-rc.1", "3.1.0")
TAINTS = (
    ("k", "v", "NoSchedule"),
    ("k", "w", "NoExecute"),
    ("team", "x", "NoSchedule"),
    ("off", "", "NoExecute"),
)
CONDITIONS = ("cpu", "nodeSelector", "taint")


@dataclass(frozen=True)
class Case:
    """A cluster and claims that are decided together, all in wire form.

    `holders` are the claims that hold something, `obstacles` the node conditions that keep the pod from nodes.
    """

    objects: tuple[tuple[str, Body], ...]
    holders: Mapping[Key, Body]
    claims: Mapping[str, Body]
    obstacles: Mapping[str, str] = field(default_factory=dict)

    def without_condition(self, name: str) -> "Case":
        """Return the case in which a condition keeps the pod from no node."""
        return replace(self, obstacles={node: each for node, each in self.obstacles.items() if each != name})

    def inventory(self) -> Inventory:
        """Return all that exists."""
        inventory = Inventory()
        for kind, body in self.objects:
            inventory.put(read(kind, body))
        return inventory

    def nodes(self) -> list[str]:
        """Return the nodes that suit the pod."""
        names = [body["metadata"]["name"] for kind, body in self.objects if kind == "Node"]
        return [name for name in names if name not in self.obstacles]

    def allocator(self, searching: SearchMode = SearchMode.COUNTING) -> Allocator:
        """Return an allocator without a past."""
        ledger = Ledger()
        for body in self.holders.values():
            ledger.put(read("ResourceClaim", body))
        return build_allocator(self.inventory(), ledger, searching)

    def read_claims(self) -> dict[str, ResourceClaim]:
        """Return the claims by entry."""
        return {entry: read("ResourceClaim", body) for entry, body in self.claims.items()}

    def situation(self) -> Situation:
        """Return what the package is asked about."""
        allocator = self.allocator()
        holders = {key: read("ResourceClaim", body) for key, body in self.holders.items()}
        counts = {name: [*self.obstacles.values()].count(name) for name in self.obstacles.values()}

        return Situation(
            self.read_claims(),
            allocator,
            nodes=self.nodes(),
            conditions=counts,
            find_nodes_without=lambda name: self.without_condition(name).nodes(),
            find_claim=holders.get,
        )


def build_allocator(inventory: Inventory, ledger: Ledger, searching: SearchMode) -> Allocator:
    """Return an allocator without a deadline."""
    return Allocator(
        inventory,
        ledger,
        limits=Limits(200_000, None),
        clock=lambda: 0.0,
        share_ids=lambda: "id",
        searching=searching,
    )


def read(kind: str, body: Body) -> Any:
    """Return an object of the API as the operator reads it."""
    return apply_defaults(read_object(body, kind))


# --- at random


def make_case(seed: object) -> Case:
    """Return the case of a seed; whether its claims fit nobody knows."""
    random = Random(f"changefuzz {seed}")  # noqa: S311 - a seed makes a case repeatable
    return _Maker(random).make()


def sometimes(random: Random, probability: float) -> bool:
    """Return true now and then."""
    return random.random() < probability


@dataclass
class _Maker:
    """Makes one case, in which mostly one thing is in the way."""

    random: Random
    main: str = ""

    def likely(self, thing: str) -> bool:
        """Return whether something is to be in the way here: the main thing once, others hardly ever."""
        if self.main != thing:
            return sometimes(self.random, 0.03)
        found = sometimes(self.random, 0.85)
        if found:
            self.main = ""
        return found

    def make(self) -> Case:
        random = self.random
        nodes = [f"n{number}" for number in range(random.choice([1, 1, 2, 2, 3]))]
        things = (
            "taint",
            "taint",
            "selector",
            "selector",
            "amount",
            "count",
            "constraint",
            "condition",
            "amount",
            "use",
            "use",
        )
        self.main = random.choice(things)
        self.is_shared = sometimes(random, 0.9 if self.main == "amount" else 0.2)
        self.is_counted = not self.is_shared and sometimes(random, 0.25)
        self.is_tainted = self.likely("taint")
        self.taints = random.sample(TAINTS, random.choice([1, 1, 1, 2]))
        objects: list[tuple[str, Body]] = [("Node", {"metadata": {"name": name}}) for name in nodes]
        objects.append(("DeviceClass", {"metadata": {"name": "gpu"}, "spec": {"selectors": []}}))
        strict = f'device.attributes["{DRIVER}"].model != "d"'
        selectors = [{"cel": {"expression": strict}}]
        objects.append(("DeviceClass", {"metadata": {"name": "few"}, "spec": {"selectors": selectors}}))
        pools = {name: self.devices() for name in nodes}
        if sometimes(random, 0.3):
            pools["fabric"] = self.devices()
        objects += [("ResourceSlice", body) for name in pools for body in self.slices(name, pools[name])]
        holders = dict(self.holders(pools))
        count = random.choice([1, 1, 1, 1, 2])
        claims = {f"e{number}": self.claim(f"c{number}") for number in range(count)}
        obstacles = {}
        if self.likely("condition"):
            obstacles = {name: random.choice(CONDITIONS) for name in nodes if sometimes(random, 0.9)}
        return Case(tuple(objects), holders, claims, obstacles)

    def devices(self) -> list[Body]:
        return [self.device(f"d{number}") for number in range(self.random.choice([1, 2, 3, 4, 5]))]

    def device(self, name: str) -> Body:
        random = self.random
        body: Body = {
            "name": name,
            "attributes": {
                "model": {"string": random.choice(MODELS)},
                "rank": {"int": random.choice([0, 1, 2, 5, 9])},
                "firmware": {"version": random.choice(VERSIONS)},
                "fast": {"bool": sometimes(random, 0.5)},
                "numa": {"int": random.randrange(2)},
            },
            "capacity": {"memory": {"value": f"{random.choice([2, 4, 8, 16])}Gi"}},
        }
        if sometimes(random, 0.1):
            del body["attributes"]["numa"]
        if self.is_shared and sometimes(random, 0.8):
            body["allowMultipleAllocations"] = True
            if sometimes(random, 0.4):
                policy = random.choice(
                    [
                        {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi", "8Gi"]},
                        {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
                        {"default": "2Gi", "validRange": {"min": "2Gi", "step": "3Gi"}},
                    ]
                )
                body["capacity"]["memory"]["requestPolicy"] = policy
        if self.is_counted:
            counters = {"slots": {"value": str(random.choice([1, 1, 2]))}}
            body["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
        if self.is_tainted and sometimes(random, 0.85):
            chosen = random.sample(self.taints, random.randint(1, len(self.taints)))
            body["taints"] = [
                {"key": key, "effect": effect, **({"value": value} if value else {})}
                for key, value, effect in chosen
            ]
        return body

    def slices(self, pool: str, devices: list[Body]) -> list[Body]:
        where: Body = {"allNodes": True} if pool == "fabric" else {"nodeName": pool}
        contents: list[Body] = [{"devices": devices}]
        if self.is_counted:
            value = str(self.random.choice([1, 2, 3]))
            contents.insert(0, {"sharedCounters": [{"name": "set", "counters": {"slots": {"value": value}}}]})
        count = len(contents) + sometimes(self.random, 0.03)
        head = {"name": pool, "generation": 1, "resourceSliceCount": count}
        return [
            {
                "metadata": {"name": f"{pool}-{number}"},
                "spec": {"driver": DRIVER, "pool": head, **where, **content},
            }
            for number, content in enumerate(contents)
        ]

    def holders(self, pools: Mapping[str, list[Body]]) -> Iterable[tuple[Key, Body]]:
        random = self.random
        free = [(pool, device) for pool, devices in pools.items() for device in devices]
        random.shuffle(free)
        used = random.choice([0.6, 0.9, 1.0] if self.likely("use") else [0.0, 0.0, 0.3])
        # Of a counted pool no more is held than there is, mostly; the allocator does not mind.
        free = [each for each in free if sometimes(random, used)]
        number = 0
        while free:
            share = free[: random.choice([1, 1, 1, 2, 3])]
            free = free[len(share) :]
            results = [result for pool, device in share for result in self.results(pool, device, number)]
            key = random.choice(["ns", "ns", "ns", "other"]), f"h{number}"
            status: Body = {"allocation": {"devices": {"results": results}}}
            if sometimes(random, 0.6):
                status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
            metadata = {"namespace": key[0], "name": key[1]}
            yield key, {"metadata": metadata, "spec": {}, "status": status}
            number += 1

    def results(self, pool: str, device: Body, number: int) -> Iterable[Body]:
        result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device["name"]}
        if "allowMultipleAllocations" in device:
            memory = int(device["capacity"]["memory"]["value"].removesuffix("Gi"))
            result["shareID"] = f"s{number}"
            result["consumedCapacity"] = {"memory": f"{self.random.randint(1, memory)}Gi"}
        yield result

    # --- claims

    def claim(self, name: str) -> Body:
        random = self.random
        requests = [
            self.request(f"r{number}")
            for number in range(2 if self.main == "constraint" else random.choice([1, 1, 1, 2]))
        ]
        devices: Body = {"requests": requests}
        if self.likely("constraint"):
            names = [request["name"] for request in requests]
            devices["constraints"] = [
                {
                    random.choice(
                        ["matchAttribute", "matchAttribute", "distinctAttribute"]
                    ): f"{DRIVER}/{attribute}",
                    **({"requests": random.sample(names, random.randint(1, len(names)))} if some else {}),
                }
                for attribute, some in [
                    (random.choice(["model", "numa", "firmware", "no"]), sometimes(random, 0.5))
                    for _ in range(random.choice([1, 1, 2]))
                ]
            ]
        return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": devices}}

    def request(self, name: str) -> Body:
        random = self.random
        if sometimes(random, 0.15):
            parts = [{"name": f"s{number}", **self.asked()} for number in range(random.choice([1, 2]))]
            return {"name": name, "firstAvailable": parts}
        return {"name": name, "exactly": self.asked()}

    def asked(self) -> Body:
        random = self.random
        asked: Body = {"deviceClassName": random.choice(["gpu"] * 6 + ["few"])}
        if sometimes(random, 0.01):
            asked["deviceClassName"] = "missing"
        if sometimes(random, 0.05):
            asked["allocationMode"] = "All"
        else:
            asked["count"] = random.choice([3, 4, 5] if self.likely("count") else [1, 1, 1, 1, 2])
        if self.likely("selector"):
            expressions = [self.expression() for _ in range(random.choice([1, 1, 1, 2]))]
            asked["selectors"] = [{"cel": {"expression": text}} for text in expressions]
        if self.is_shared and self.likely("amount"):
            asked["capacity"] = {"requests": {"memory": f"{random.choice([3, 6, 9, 12, 20])}Gi"}}
        if sometimes(random, 0.2):
            key, value, effect = random.choice(TAINTS)
            asked["tolerations"] = [{"key": key, "operator": "Equal", "value": value, "effect": effect}]
        return deepcopy(asked)

    def expression(self) -> str:
        random = self.random
        return " && ".join(self.comparison() for _ in range(random.choice([1, 1, 1, 1, 2])))

    def comparison(self) -> str:
        """Return a comparison, mostly plain."""
        random = self.random
        attributes = f'device.attributes["{DRIVER}"]'
        match random.randrange(9):
            case 0 | 1:
                return f'{attributes}.model == "{random.choice(["a", "b", "x", "y"])}"'
            case 2 | 3:
                return f"{attributes}.rank {random.choice(['>=', '==', '>', '<='])} {random.choice([3, 7, 10, 20])}"
            case 4:
                version = random.choice(["2.5.0", "4.0.0", "0.9.0"])
                return f'{attributes}.firmware.compareTo(semver("{version}")) {random.choice([">=", "<="])} 0'
            case 5 | 6:
                memory = random.choice(["8Gi", "12Gi", "32Gi", "64Gi"])
                return f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}")) >= 0'
            case 7:
                return f"{attributes}.fast == {random.choice(['true', 'false'])}"
            case _:
                return random.choice(
                    [
                        f'{attributes}.model in ["x", "y"]',
                        f'({attributes}.model == "x" || {attributes}.rank == 4)',
                        'device.driver == "other.example.com"',
                        f'{attributes}.model == "x" && has({attributes}.numa)',
                        f"{attributes}.numa == 1",
                        f"{attributes}.none == 1",
                    ]
                )
