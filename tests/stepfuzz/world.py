"""A world in which things happen, and the allocators that follow it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decision, Explanation, Failed, Unsatisfied
from dra_operator.allocator.matching import selectors
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.names import ADMIN_ACCESS_LABEL
from dra_operator.api.versions import FOLLOWED, RULES
from dra_operator.explain import Explainer
from dra_operator.inventory import Features, Inventory
from dra_operator.ledger import Ledger
from stepfuzz.claims import a_claim, some_claims_of_a_kind
from stepfuzz.content import (
    FEATURES,
    OF_CLASSES,
    SELECTORS,
    Body,
    Style,
    a_policy,
    a_rule,
    counters,
    devices,
    driver_of,
    helps_when_taken,
    pool_slices,
    read,
    sometimes,
)
from stepfuzz.cramped import CRAMPED, cramp
from stepfuzz.holders import held_twice

_STEPS = 20_000
_NEVER = "; it would not fit even if no device were in use or tainted"
_MANY_STEPS = 4_000_000
_MOST_WAITING = 6
_STEPS_TO_FRESH = 8
_CONSUMED = ("0", "1", "1", "2", "2", "-2")
"""What a share of another writer consumes: of one below zero no API server says no."""

_EAGER: tuple[tuple[Any, str, int], ...] = ((selectors, "_KEPT_AT_FIRST", 1),)
"""From how many on it pays to do something: of answers, of slices."""


class WrongError(AssertionError):
    """Two allocators that must decide the same did not."""


@dataclass
class World:
    """One inventory and ledger, the two allocators that follow them, and the claims that were ever asked for.

    `objects` and `held` are what the inventory and the ledger were told, for those who begin anew; `asked` counts
    decisions, `compared` those held against an allocator without a past.
    """

    random: Random
    style: Style = field(init=False)
    features: Features = field(init=False)
    admin_access: AdminAccess = field(init=False)
    shares: bool = field(init=False)
    objects: dict[tuple[str, str], Any] = field(default_factory=dict)
    written: dict[tuple[str, str], Any] = field(default_factory=dict)
    assumed: dict[tuple[str, str], Any] = field(default_factory=dict)
    published: dict[str, list[Body]] = field(default_factory=dict)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    generation: int = 1
    number: int = 0
    asked: int = 0
    compared: int = 0
    given_up: int = 0

    def __post_init__(self) -> None:
        random = self.random
        self.style = Style.of(random)
        off = random.sample(FEATURES, random.choice([1, 1, 2, 3, 5])) if sometimes(random, 0.2) else []
        # With this one off nobody pays for others.
        off += ["consumable_capacity"] * (self.style.paying and sometimes(random, 0.2))
        rules = RULES[random.choice(FOLLOWED)]
        self.features = Features(**dict.fromkeys(off, False), rules=rules)
        # Shares that are given raw are believed with the feature off, too.
        self.shares = self.features.consumable_capacity or sometimes(random, 0.5)
        self.admin_access = random.choice([AdminAccess.ANY_NAMESPACE, AdminAccess.LABELLED_NAMESPACES])
        self.inventory, self.ledger = self.nothing()
        self.plain, self.counting = (
            self.allocator(self.inventory, self.ledger, searching)
            for searching in (SearchMode.PLAIN, SearchMode.COUNTING)
        )
        self.explainer = Explainer(self.counting)
        for name in self.style.nodes:
            if sometimes(random, 0.8):
                self.node(name)
        self.namespace()
        read_by_class = random.sample(SELECTORS[:3], self.style.wide and random.choice([0, 0, 1]))
        if self.style.choosy:
            read_by_class.insert(0, random.choice(OF_CLASSES))
        self.put(
            "DeviceClass", "c", spec={"selectors": [{"cel": {"expression": item}} for item in read_by_class]}
        )
        self.put("DeviceClass", "e", spec={"selectors": [{"cel": {"expression": SELECTORS[0]}}]})
        self.pools = self.style.pools(random)
        for pool in self.pools:
            self.publish(pool)
        for pool in self.pools:
            for device in self.devices_of(pool):
                if sometimes(random, self.style.used):
                    self.number += 1
                    self.take_away(pool, device)

    def allocator(self, inventory: Inventory, ledger: Ledger, searching: SearchMode) -> Allocator:
        """Return an allocator."""
        allocator = Allocator(
            inventory,
            ledger,
            features=self.features,
            limits=Limits(_STEPS, None),
            clock=lambda: 0.0,
            share_ids=lambda: "id",
            admin_access=self.admin_access,
            searching=searching,
        )
        if self.style.cramped:
            cramp(allocator)
        return allocator

    def nothing(self) -> tuple[Inventory, Ledger]:
        """Return an inventory and a ledger that know of nothing yet."""
        full_names = self.features.rules.full_names
        return Inventory(full_names=full_names), Ledger(shares=self.shares, full_names=full_names)

    def without_a_past(self) -> Allocator:
        """Return an allocator that has just been told everything, in any order."""
        inventory, ledger = self.nothing()
        for item in self.random.sample([*self.objects.values()], len(self.objects)):
            inventory.put(item)
        for claim in self.random.sample([*self.written.values()], len(self.written)):
            ledger.put(claim)
        for key, result in self.assumed.items():
            ledger.assume(*key, result)
        return self.allocator(inventory, ledger, self.random.choice([*SearchMode]))

    # --- telling

    def put(self, kind: str, name: str, **fields: Any) -> None:
        """Put an object."""
        self.put_body(kind, {"metadata": {"name": name}, **fields})

    def put_body(self, kind: str, body: Body) -> None:
        """Put an object in wire form."""
        item = read(kind, body)
        self.objects[kind, item.metadata.name] = item
        self.inventory.put(item)

    def remove(self, kind: str, name: str) -> None:
        """Remove an object, if it is there."""
        self.objects.pop((kind, name), None)
        self.inventory.remove(kind, name)

    def node(self, name: str) -> None:
        """Put a node, in a zone or another, cordoned or not."""
        features = ["DRAOptionalNodeOperations"] if sometimes(self.random, 0.5) else []
        body = {
            "metadata": {"name": name, "labels": {"zone": self.random.choice("ab")}},
            "spec": {"unschedulable": sometimes(self.random, 0.1)},
            "status": {"declaredFeatures": features},
        }
        self.put_body("Node", body)

    def namespace(self) -> None:
        """Put a namespace, whose claims may ask for admin access or not."""
        labels = {ADMIN_ACCESS_LABEL: "true"} if sometimes(self.random, 0.7) else {}
        name = self.random.choice(["ns", "other"])
        self.put_body("Namespace", {"metadata": {"name": name, "labels": labels}})

    def publish(self, pool: str) -> None:
        """Publish a pool anew, in the same generation or the next."""
        self.generation += sometimes(self.random, 0.2)
        bodies = self.published[pool] = pool_slices(self.random, self.style, pool, self.generation)
        for body in self.random.sample(bodies, len(bodies)):
            self.put_body("ResourceSlice", body)

    # --- what can happen

    def ask(self) -> None:
        """Let one claim, or two together, be asked for from now on, and take what they get."""
        names = [f"c{self.number}", f"d{self.number}"][: 1 + sometimes(self.random, 0.2)]
        claims = tuple(a_claim(self.random, self.style, name) for name in names)
        self.waiting = [*self.waiting[1 - _MOST_WAITING :], claims]
        self.take(claims, names)

    def ask_for_a_kind(self) -> None:
        """Let several claims be asked for that are alike; most of them only this once."""
        names = [f"c{self.number}-{number}" for number in range(self.random.randint(2, 5))]
        for claim in some_claims_of_a_kind(self.random, self.style, names):
            self.take((claim,), [claim.metadata.name])
            if sometimes(self.random, 0.3):
                self.waiting = [*self.waiting[1 - _MOST_WAITING :], (claim,)]

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
                self.assumed["ns", name] = result
                self.ledger.assume("ns", name, result)

    def free(self) -> None:
        """Let a claim go."""
        key = self.some_claim()
        self.written.pop(key, None)
        self.assumed.pop(key, None)
        self.ledger.remove(*key)

    def withdraw(self) -> None:
        """Give up a decision that was not written."""
        key = self.some_claim()
        self.assumed.pop(key, None)
        self.ledger.withdraw(*key)

    def confirm(self) -> None:
        """Let the API server tell of a decision that was written, or of a claim that has lost its own."""
        key = self.some_claim()
        result = self.assumed.get(key) if sometimes(self.random, 0.9) else None
        claim = read("ResourceClaim", {"metadata": {"namespace": key[0], "name": key[1]}, "spec": {}})
        claim = replace(claim, status=replace(claim.status, allocation=result))
        self.written.pop(key, None)
        if result is not None:
            del self.assumed[key]
            self.written[key] = claim
        self.ledger.put(claim)

    def some_claim(self) -> tuple[str, str]:
        """Return the name of a claim, mostly of one that holds something."""
        held = sorted({*self.assumed, *self.written})
        if held and sometimes(self.random, 0.9):
            return self.random.choice(held)
        return "ns", f"c{self.random.randrange(self.number + 1)}"

    def some_pool(self) -> str:
        """Return the name of a pool: of the large one as often as of all those of nodes together."""
        if "fabric" in self.pools and sometimes(self.random, 0.3):
            return "fabric"
        return self.random.choice(self.pools)

    def pool_changes(self) -> None:
        """Let a driver publish a pool anew."""
        self.publish(self.some_pool())

    def pool_begins_to_change(self) -> None:
        """Let a driver publish the first slices of the next generation; the rest may follow."""
        pool = self.some_pool()
        self.generation += 1
        bodies = self.published[pool] = pool_slices(self.random, self.style, pool, self.generation)
        for body in self.random.sample(bodies, self.random.randrange(len(bodies))):
            self.put_body("ResourceSlice", body)

    def slice_follows(self) -> None:
        """Let a driver publish what is missing of a pool, or some of it."""
        bodies = self.published[self.some_pool()]
        for body in self.random.sample(bodies, self.random.randint(0, len(bodies))):
            self.put_body("ResourceSlice", body)

    def slice_changes(self) -> None:
        """Let one slice have other devices, or other totals, in the same generation."""
        pool = self.some_pool()
        bodies = self.published[pool]
        number = self.random.randrange(len(bodies))
        changed = bodies[number] = deepcopy(bodies[number])
        spec = changed["spec"]
        spec["pool"]["resourceSliceCount"] += self.random.choice([0] * 18 + [-1, 1])
        if "sharedCounters" in spec:
            spec["sharedCounters"] = counters(self.random, self.style)
        else:
            part = number - ("sharedCounters" in bodies[0]["spec"])
            spec["devices"] = devices(self.random, self.style, pool, part)
        self.put_body("ResourceSlice", changed)

    def policy_changes(self) -> None:
        """Let the devices of a slice be shared by another policy."""
        pool = self.some_pool()
        bodies = self.published[pool]
        number = self.random.randrange(len(bodies))
        changed = bodies[number] = deepcopy(bodies[number])
        for device in changed["spec"].get("devices", ()):
            for amount in device.get("capacity", {}).values():
                amount["requestPolicy"] = a_policy(self.random, self.style)
        self.put_body("ResourceSlice", changed)

    def sharing_changes(self) -> None:
        """Let some devices of a slice be shareable that were not, or the other way round; their claims stay."""
        bodies = self.published[self.some_pool()]
        number = self.random.randrange(len(bodies))
        changed = bodies[number] = deepcopy(bodies[number])
        for device in changed["spec"].get("devices", ()):
            if sometimes(self.random, 0.5) and (self.style.paying or "consumesCounters" not in device):
                device["allowMultipleAllocations"] = not device.get("allowMultipleAllocations")
        self.put_body("ResourceSlice", changed)

    def slice_goes(self) -> None:
        """Let a driver take back a slice."""
        self.remove("ResourceSlice", f"{self.some_pool()}-{self.random.randrange(3)}")

    def slice_moves(self) -> None:
        """Let a slice of one pool become one of another."""
        moved, pool = self.some_pool(), self.some_pool()
        body = deepcopy(self.random.choice(self.published[pool]))
        body["metadata"]["name"] = f"{moved}-{self.random.randrange(3)}"
        self.put_body("ResourceSlice", body)

    def node_changes(self) -> None:
        """Let a node get another label, be cordoned, or come back."""
        self.node(self.random.choice(self.style.nodes))

    def node_goes(self) -> None:
        """Let a node go."""
        self.remove("Node", self.random.choice(self.style.nodes))

    def rule_changes(self) -> None:
        """Let an administrator taint some devices, or others."""
        self.put("DeviceTaintRule", self.random.choice("ab"), spec=a_rule(self.random, self.style))

    def rule_goes(self) -> None:
        """Let an administrator take back a rule."""
        self.remove("DeviceTaintRule", self.random.choice("ab"))

    def class_changes(self) -> None:
        """Let a class select other devices, or come with configuration."""
        others = OF_CLASSES if self.style.choosy else ("true", "true", "true")
        expression = self.random.choice((*SELECTORS[:3], *others))
        config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}] if sometimes(self.random, 0.5) else []
        spec = {"selectors": [{"cel": {"expression": expression}}], "config": config}
        missing = [name for name in "ce" if ("DeviceClass", name) not in self.objects]
        self.put("DeviceClass", self.random.choice(missing or "ce"), spec=spec)

    def class_goes(self) -> None:
        """Let a class go; it comes back by `class_changes`."""
        self.remove("DeviceClass", "c" if sometimes(self.random, 0.1) else "e")

    def foreign(self) -> None:
        """Let another writer, who need not keep our rules, give a device away."""
        pool = self.some_pool()
        listed = self.devices_of(pool)
        helpful = [device for device in listed if helps_when_taken(device)]
        device = self.random.choice((sometimes(self.random, 0.7) and helpful) or listed or [{"name": "gone"}])
        self.take_away(pool, device)

    def devices_of(self, pool: str) -> list[Body]:
        """Return the devices that a pool has, or will have when all of it is published."""
        return [device for body in self.published[pool] for device in body["spec"].get("devices", ())]

    def take_away(self, pool: str, device: Body) -> None:
        """Let a claim of another writer have a device, or a share of it."""
        result: Body = {"driver": driver_of(pool), "pool": pool, "device": device["name"]}
        if sometimes(self.random, 0.8 if device.get("allowMultipleAllocations") else 0.2):
            result |= {"shareID": "f", "consumedCapacity": {"memory": self.random.choice(_CONSUMED)}}
        body = {
            "metadata": {"name": f"c{self.number}", "namespace": "ns"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        claim = read("ResourceClaim", body)
        self.assumed.pop(("ns", f"c{self.number}"), None)
        self.written["ns", f"c{self.number}"] = claim
        self.ledger.put(claim)

    # --- a step

    def step(self) -> None:
        """Let something happen, or several things at once, then ask for every claim again."""
        with ExitStack() as stack:
            for module, name, number in (*self.style.eager * _EAGER, *self.style.cramped * CRAMPED):
                stack.enter_context(patch.object(module, name, number))
            self.live()

    def live(self) -> None:
        """Take a step."""
        events: list[Callable[[], None]] = [self.ask] * 8 + [self.ask_again] * 3 + [self.free] * 7
        events += [self.pool_changes, self.slice_changes] * 2
        events += [self.withdraw, self.confirm, self.pool_begins_to_change, self.slice_follows]
        events += [self.slice_goes, self.slice_moves, self.rule_changes]
        events += [self.sharing_changes] * (1 + 2 * self.style.shares)
        events += [self.node_changes, self.node_goes] * 4
        events += [self.rule_goes, self.class_changes, self.class_changes, self.class_goes, self.foreign]
        events += [self.policy_changes, self.slice_follows, self.slice_follows] * self.style.wide
        events += [self.namespace] + [self.foreign] * (6 * self.style.paying + 3 * self.style.giving)
        for _ in range(self.random.choice([1, 1, 1, 2, 4])):
            self.number += 1
            self.random.choice(events)()
        if self.style.wide:
            self.number += 1
            self.ask_for_a_kind()
        nodes = self.some_nodes()
        for claims in self.waiting:
            self.decide(claims, nodes)
        if self.random.randrange(_STEPS_TO_FRESH) == 0:
            self.begin_anew()

    def some_nodes(self) -> tuple[str, ...] | None:
        """Return which nodes are asked: mostly all."""
        if sometimes(self.random, 0.7):
            return None
        names = (*self.style.nodes, "unknown")
        return tuple(self.random.sample(names, self.random.randint(0, len(names))))

    def decide(self, claims: tuple[Any, ...], nodes: Sequence[str] | None = None) -> Decision:
        """Ask both allocators, and compare. Raises WrongError."""
        plain, counting = self.decide_plainly(claims, nodes), self.counting.allocate(claims, nodes)
        self.asked += 1
        # The budget is for all nodes together, and the plain allocator was given it for each.
        if gave_up(plain) or (gave_up(counting) and gave_up(self.plain.allocate(claims, nodes))):
            self.given_up += 1
            return counting
        self.same(claims, plain, counting)
        if isinstance(plain, Allocated):
            self.check_holders(claims, plain)
        return plain

    def check_holders(self, claims: tuple[Any, ...], decision: Allocated) -> None:
        """Check that nothing is given away twice, whatever others did before. Raises WrongError."""
        written = (claim.status.allocation for claim in self.written.values())
        twice = held_twice(decision.results, (*written, *self.assumed.values()))
        # Shares that are given raw block nobody with the feature off, as upstream.
        if twice and self.features.consumable_capacity:
            raise WrongError(
                f"step {self.number}, {self.style}:\n{claims}\nheld twice: {sorted(twice)}\n{decision}"
            )

    def decide_plainly(self, claims: tuple[Any, ...], nodes: Sequence[str] | None) -> Decision:
        """Ask the plain allocator for one node after the other; it remembers nothing of where it failed."""
        known = {name for kind, name in self.objects if kind == "Node"}
        for node in sorted(known if nodes is None else known.intersection(nodes)):
            decision = self.decide_on(claims, (node,))
            if not isinstance(decision, Unsatisfied):
                return decision
        return self.decide_on(claims, ())

    def decide_on(self, claims: tuple[Any, ...], nodes: Sequence[str]) -> Decision:
        """Ask the plain allocator, as if no node were known to have nothing, and each were the only one of its kind."""
        self.plain._nodes._memory.forget()
        self.plain.refresh()
        self.plain.availability.nonempty = -1
        return self.plain.allocate(claims, nodes)

    def begin_anew(self) -> None:
        """Ask an allocator without a past for every claim; compare decisions and explanations. Raises WrongError."""
        fresh = self.without_a_past()
        for claims in self.waiting:
            mine: Any = self.counting.allocate(claims)
            other: Any = fresh.allocate(claims)
            if gave_up(mine) or gave_up(other):
                continue
            self.compared += 1
            self.same(claims, other, mine)
            mine, other = explain(self.explainer, claims, mine), explain(Explainer(fresh), claims, other)
            if not any(item.reason is Reason.SEARCH_ABORTED for item in (*mine, *other)):
                self.same(claims, other, mine)

    def same(self, claims: tuple[Any, ...], expected: Any, found: Any) -> None:
        """Compare. Raises WrongError."""
        if expected != found:
            raise WrongError(
                f"step {self.number}, {self.style}, {self.features}:\n{claims}\nexpected {expected}\nfound    {found}"
            )


def explain(explainer: Explainer, claims: tuple[Any, ...], decision: Decision) -> tuple[Explanation, ...]:
    """Return why claims are not allocated. That steps ran out is not always told, so there are more of them.

    Nor is it that they ran out before it was known whether the claim would ever fit, so that clause is left out.
    """
    found = explainer.explain(claims, decision, limits=Limits(_MANY_STEPS, None))
    return tuple([replace(item, message=item.message.removesuffix(_NEVER)) for item in found])


def gave_up(decision: Decision) -> bool:
    """Return whether an allocator ended before it knew."""
    return isinstance(decision, Failed) and decision.kind == "aborted"
