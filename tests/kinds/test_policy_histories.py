"""Random histories of policies on the API server in memory: they come, change and go, and the operator is killed."""

import random
import sys
from pathlib import Path

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import OWNED_FINALIZER, POLICY_FINALIZER
from dra_operator.api.read import read_object
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import MERGE_PATCH, ApiSession
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import RuleStatus
from dra_operator.kinds.allocation_policy import KIND
from dra_operator.kinds.policy_controller import PolicyController
from dra_operator.kinds.world import World
from dra_operator.ledger import Ledger
from factories import allocation, claim, request, resource_slice, result

sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from cluster import access_to
from faulty_server import FaultyServer
from kinds.states import build_state

GPU, NIC = "gpu.example.com", "nic.example.com"
ENTRIES = (
    {"driver": GPU},
    {"driver": GPU, "pool": "node-1"},
    {"driver": GPU, "device": "gpu-0"},
    {"driver": NIC},
)
POOLS = ((GPU, "node-1"), (GPU, "node-2"), (NIC, "node-1"))
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
SEEDS, STEPS = 25, 60
"""`python tests/kinds/test_policy_histories.py 500` tries more of them."""


class Killed(Exception):  # noqa: N818 - it is no error
    """The operator ended."""


class ShortLivedWorld(World):
    """A way to the cluster on which the operator may be killed before each write; the policies are kept here."""

    async def list(self, where):
        """Return policies, or rules as the server has them."""
        return (
            [*self.policies.values()] if where.endswith("allocationpolicies") else await super().list(where)
        )

    async def write(self, change):
        """Send a change, unless the operator is killed before."""
        if self.chance.random() < self.chance_of_kill:
            raise Killed
        await super().write(change)


class Cluster:
    """Policies and claims, with rules on the server, and what the operator does with these rules by itself."""

    def __init__(self, session, seed):
        self.session, self.random = session, random.Random(seed)  # noqa: S311 - a history, no secret
        self.numbers, self.holders, self.settled = 0, {}, set()
        self.policies, self.orphans, self.given_back = {}, set(), set()
        self.inventory, self.ledger = Inventory(), Ledger()
        for driver, pool in POOLS:
            devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
            body = resource_slice(f"{driver}-{pool}", devices, driver=driver, pool=pool, nodeName=pool)
            self.inventory.put(read_object(body))
        state = build_state(self.inventory, self.ledger, find_rule=self.find_rule)
        self.world = ShortLivedWorld(
            session, lambda asked: asked.answer(state), self.permit, self.find_served, self.record, None
        )
        self.world.policies, self.world.chance, self.world.chance_of_kill = self.policies, self.random, 0.2
        self.controller = PolicyController(self.world)

    def find_rule(self, _, uid):
        """Whether a rule has settled."""
        return RuleStatus(is_settled=uid in self.settled, is_fenced=True)

    @staticmethod
    async def permit():
        """The Lease is held."""

    @staticmethod
    def find_served(kind):
        """How rules are served."""
        return Served(KINDS[kind], "v1")

    @staticmethod
    def record(subject, *_):
        """Events are about policies."""
        assert subject.kind == KIND

    # --- what others do

    async def create(self):
        """Somebody names devices."""
        self.numbers += 1
        name = f"p-{self.numbers}"
        self.policies[name] = {
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "annotations": {}},
            "spec": {"devices": self.random.sample(ENTRIES, self.random.randint(1, 3))},
        }

    async def edit(self):
        """Somebody names others."""
        if living := [each for each in self.policies.values() if "deletionTimestamp" not in each["metadata"]]:
            chosen = self.random.choice(living)
            chosen["spec"]["devices"] = self.random.sample(ENTRIES, self.random.randint(1, 3))
            chosen["metadata"]["generation"] += 1

    async def delete(self):
        """Somebody deletes a policy."""
        if self.policies:
            chosen = self.random.choice([*self.policies.values()])
            chosen["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    async def orphan(self):
        """Somebody deletes a policy with --cascade=orphan: the collector takes off the references before."""
        if self.policies and self.random.random() < 0.3:
            chosen = self.random.choice([*self.policies.values()])
            for rule in await self.rules():
                kept = [
                    each
                    for each in rule["metadata"].get("ownerReferences", ())
                    if each["uid"] != chosen["metadata"]["uid"]
                ]
                if len(kept) < len(rule["metadata"].get("ownerReferences", ())):
                    await self.patch(rule, {"ownerReferences": kept or None})
                    self.orphans |= set() if kept else {rule["metadata"]["uid"]}
            chosen["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    async def give_back(self):
        """Somebody gives devices back although claims hold them."""
        if self.policies and self.random.random() < 0.2:
            chosen = self.random.choice([*self.policies.values()])
            chosen["metadata"]["annotations"]["dra-operator.io/give-back"] = "in-use"
            self.given_back.add(chosen["metadata"]["uid"])

    async def remove_rule(self):
        """Somebody deletes a rule by hand."""
        if rules := await self.rules():
            await self.session.request("DELETE", f"{RULES}/{self.random.choice(rules)['metadata']['name']}")

    async def hold(self):
        """The operator allocates a device of a rule that has settled."""
        rules = [each for each in await self.rules() if each["metadata"]["uid"] in self.settled]
        free = [
            key
            for key in self.devices()
            if key not in self.holders and any(owns(each, key) for each in rules)
        ]
        if free:
            self.numbers += 1
            key, name = self.random.choice(free), f"c-{self.numbers}"
            driver, pool, device = key
            status = {"allocation": allocation(result(device, pool, driver=driver))}
            self.holders[key] = name
            self.ledger.put(read_object(claim(name, request("gpu"), status=status, namespace="team")))

    async def end(self):
        """A claim ends."""
        if self.holders:
            self.ledger.remove("team", self.holders.pop(self.random.choice([*self.holders])))

    # --- what the operator does

    async def settle(self):
        """It puts its finalizer on rules and uses their devices, and lets go of rules that are deleted."""
        for rule in await self.rules():
            metadata = rule["metadata"]
            finalizers = [each for each in metadata.get("finalizers", ()) if each != OWNED_FINALIZER]
            if metadata.get("deletionTimestamp"):
                self.settled.discard(metadata["uid"])
                await self.patch(rule, {"finalizers": finalizers or None})
            else:
                self.settled.add(metadata["uid"])
                await self.patch(rule, {"finalizers": [*finalizers, OWNED_FINALIZER]})

    async def reconcile(self):
        """A policy is reconciled, or rules that nobody owns are looked after; a write may be the last one."""
        names = [*self.policies]
        try:
            if not names or self.random.random() < 0.1:
                await self.controller.sweep()
            else:
                await self.reconcile_one(self.random.choice(names))
        except Killed:
            pass

    async def reconcile_one(self, name):
        """Reconcile a policy, and let it go when nothing belongs to it any more."""
        body = self.policies[name]
        found = await self.controller.reconcile(body)
        body["status"] = found.status
        if "deletionTimestamp" in body["metadata"] and found.is_released:
            del self.policies[name]

    # --- what there is

    async def rules(self):
        """The rules."""
        return (await self.session.request("GET", RULES))["items"]

    async def patch(self, rule, metadata):
        """Change metadata of a rule."""
        where = f"{RULES}/{rule['metadata']['name']}"
        await self.session.request("PATCH", where, body={"metadata": metadata}, content_type=MERGE_PATCH)

    @staticmethod
    def devices():
        """All devices."""
        return [(driver, pool, name) for driver, pool in POOLS for name in ("gpu-0", "gpu-1")]


def owns(rule, key):
    """Whether a rule owns a device, read from the wire."""
    selector = rule["spec"]["deviceSelector"]
    return all(
        selector.get(field, value) == value
        for field, value in zip(("driver", "pool", "device"), key, strict=True)
    )


async def run(session, seed):
    """Check one history: no rule goes while claims hold its devices, and at the end exactly what is named is owned."""
    cluster = Cluster(session, seed)
    steps = [cluster.create, cluster.edit, cluster.delete, cluster.remove_rule, cluster.end]
    # Who gives back in use, or lets rules go on, has nobody who keeps them.
    steps += [cluster.orphan, cluster.give_back] if seed % 2 else []
    steps += [*[cluster.hold] * 3, *[cluster.settle] * 3, *[cluster.reconcile] * 8]
    for _ in range(STEPS):
        before = await cluster.rules()
        await cluster.random.choice(steps)()
        left = await cluster.rules()
        guarded = [each for each in before if POLICY_FINALIZER in each["metadata"].get("finalizers", ())]
        for key in cluster.holders:
            was_guarded = any(owns(each, key) for each in guarded)
            # An orphan, or a rule whose policy gave it back in use, is nobody's to keep.
            if was_guarded and not cluster.given_back and not cluster.orphans:
                assert any(owns(each, key) for each in left), (seed, key)
    await settle_down(cluster)
    await check_end(cluster, seed)
    await clean_up(cluster)


async def settle_down(cluster):
    """End all claims, and let an operator that is not killed any more do what is left."""
    cluster.world.chance_of_kill = 0
    while cluster.holders:
        await cluster.end()
    for _ in range(8):
        for name in [*cluster.policies]:
            await cluster.reconcile_one(name)
        await cluster.settle()
        await cluster.controller.sweep()


async def check_end(cluster, seed):
    """Nothing is left of what was deleted, and each entry that is named has its rule."""
    rules = await cluster.rules()
    wanted = [entry for each in cluster.policies.values() for entry in each["spec"]["devices"]]
    assert all("deletionTimestamp" not in each["metadata"] for each in cluster.policies.values()), seed
    for rule in rules:
        metadata = rule["metadata"]
        assert "deletionTimestamp" not in metadata, seed
        owners = {each["uid"] for each in metadata.get("ownerReferences", ())}
        assert owners <= {each["metadata"]["uid"] for each in cluster.policies.values()}, seed
        assert (POLICY_FINALIZER in metadata["finalizers"]) is bool(owners), seed
        assert owners or metadata["uid"] in cluster.orphans, seed
    owned = [rule["spec"]["deviceSelector"] for rule in rules if rule["metadata"].get("ownerReferences")]
    assert sorted(map(str, owned)) == sorted({str(each) for each in wanted}), seed
    for each in cluster.policies.values():
        conditions = {found["type"]: found["status"] for found in each["status"]["conditions"]}
        assert (conditions["Settled"], conditions["Releasing"]) == ("True", "False"), seed


async def clean_up(cluster):
    """Remove what is left for the next history."""
    for rule in await cluster.rules():
        await cluster.patch(rule, {"finalizers": None})
        await cluster.session.request("DELETE", f"{RULES}/{rule['metadata']['name']}")


async def run_all(seeds):
    """Check some histories on one server."""
    async with FaultyServer() as server, ApiSession(access_to(server.url)) as session:
        for seed in seeds:
            await run(session, seed)


async def test_any_history_ends_with_the_rules_that_are_named():
    """Whatever was written last when the operator was killed."""
    await run_all(range(SEEDS))


if __name__ == "__main__":
    import asyncio

    asyncio.run(run_all(range(int(sys.argv[1]))))
    print(f"{sys.argv[1]} histories, 0 wrong")  # noqa: T201
