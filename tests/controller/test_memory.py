"""What is kept of claims and nodes that come and go: nothing, once they are gone."""

import itertools
from collections import deque
from collections.abc import Iterator

import pytest
from cycle_bench import said_by

from cluster import CLASS, claim, node, resource_slice
from dra_operator.allocator.allocator import Allocator
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Denied, Stale, Stored, Write
from dra_operator.controller.claims import PodUse
from dra_operator.controller.cycle import SchedulingCycle
from dra_operator.controller.metrics import Metrics
from dra_operator.explain import Explainer, relax
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

CYCLES = 2000
AT_ONCE = 40
NODES = 10
BOUNDED = {
    "Log._entries": 4096,
    "Log._moves": 4096,
    "ChangeSet.pools": 2 * NODES,
    "Slice.indexes": 16 * NODES,
}
"""What fills up to a bound: what came back and which nodes moved, for problems asked about long ago; what changed, for
explanations yet to come; where the devices of slices are, of those as well that these have not let go of yet."""
DEFAULTS = {"allocationMode": "ExactCount", "count": 1}
REQUESTS = (
    {},
    {"selectors": [{"cel": {"expression": "device.driver == 'none'"}}]},
    {"count": 2},
    {"selectors": [{"cel": {"expression": "device.attributes['a.io'].none == 1"}}]},
    {"deviceClassName": "none"},
    {"deviceClassName": "failing"},
)


class World:
    """Claims, what becomes of them, and the passes that decide."""

    def __init__(self, clock) -> None:
        self.clock = clock
        inventory, ledger = Inventory(), Ledger()
        allocator = Allocator(inventory, ledger, clock=clock, share_ids=lambda: "id")
        self.cycle = SchedulingCycle(
            inventory,
            ledger,
            allocator,
            explainer=Explainer(allocator),
            metrics=Metrics(),
            event_refresh=1200,
            clock=clock,
        )
        self.versions = itertools.count(1)
        self.made = itertools.count(1)
        self.bodies = {}
        self.refused = 0
        """How often an annotation could not be taken off."""
        failing = {"selectors": [{"cel": {"expression": "device.attributes['a.io'].none == 1"}}]}
        self.items = [
            Delta("DeviceClass", "", name, {**CLASS, "metadata": {"name": name, "uid": name}, **more})
            for name, more in (("gpu", {}), ("failing", {"spec": failing}))
        ]
        self.nodes = deque[str]()
        for _ in range(NODES):
            self.add_node()

    def add_node(self) -> None:
        """Let a node come, with eight devices."""
        name = f"node-{next(self.made)}"
        there = resource_slice(*(f"gpu-{i}" for i in range(8)), name=name, pool=name, on=name)
        self.items += [Delta("Node", "", name, node(name)), Delta("ResourceSlice", "", name, there)]
        self.nodes.append(name)

    def replace_nodes(self, count: int) -> None:
        """Let the oldest node go and another one come, so many times, each time in a pass of its own."""
        for _ in range(count):
            name = self.nodes.popleft()
            self.items += [Delta("Node", "", name, None), Delta("ResourceSlice", "", name, None)]
            self.add_node()
            self.run()

    def run(self) -> None:
        """Run passes until nothing is to be taken in; each write is answered, some say no."""
        while self.items:
            items, self.items = self.items, []
            effects = []
            self.cycle.run(items, effects.extend, lambda: False)
            self.clock.now += 1
            for number, effect in enumerate(effects):
                if isinstance(effect, Write):
                    self.answer(effect, number)

    def answer(self, write, number) -> None:
        """Do what a write says, or say that the claim has changed, or that it may not be written, ever."""
        key = write.key
        if write.kind == "allocate" and write.key[1].endswith("7"):
            self.items.append(Denied(write, "no"))
            return
        if write.kind == "annotate" and said_by(write) is None and write.key[1].endswith("4"):
            self.refused += 1
            self.items.append(Denied(write, "no"))
            return
        if write.kind == "allocate" and number % 9 == 8:
            self.put(key, self.bodies[key])
            self.items.append(Stale(write, self.bodies[key], "changed"))
            return
        for step in write.patches:
            patch = step.body
            body = self.bodies[key]
            body = {
                **body,
                "metadata": {**body["metadata"], **patch.get("metadata", {})},
                "status": {**body["status"], **patch.get("status", {})},
            }
            self.put(key, body)
        self.items.append(Stored(write, self.bodies[key]))
        metadata = self.bodies[key]["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(key)

    def put(self, key, body) -> None:
        """Store a claim in a newer version."""
        metadata = {**body["metadata"], "resourceVersion": str(next(self.versions))}
        self.bodies[key] = {**body, "metadata": metadata}
        self.items.append(Delta("ResourceClaim", *key, self.bodies[key]))

    def remove(self, key) -> None:
        """Let a claim be gone."""
        del self.bodies[key]
        self.items.append(Delta("ResourceClaim", *key, None))

    def turn_over(self, count: int) -> None:
        """Make so many claims of all kinds, let them be decided and some be used by pods, and delete them."""
        for number in range(count):
            request = DEFAULTS | REQUESTS[number % len(REQUESTS)]
            name = f"claim-{next(self.made)}"
            body = {**claim(name, request=request, uid=f"uid of {name}"), "status": {}}
            self.put(("default", name), body)
            if number % 13 == 7:
                self.items.append(PodUse("default", f"pod-of-{name}", frozenset({name})))
        self.run()
        for _, name in tuple(self.bodies)[::13]:
            self.items.append(PodUse("default", f"pod-of-{name}", frozenset({name})))
        self.run()
        for key, body in tuple(self.bodies.items()):
            self.items.append(PodUse("default", f"pod-of-{key[1]}", frozenset()))
            if body["metadata"].get("finalizers"):
                self.put(
                    key,
                    {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
                )
            else:
                self.remove(key)
        self.run()
        self.clock.now += 3600
        self.run()
        assert not self.bodies


def books(root: object) -> dict[str, int]:
    """Return the number of entries of all containers that an object refers to, by the attribute they are in."""
    found: dict[str, int] = {}
    seen: set[int] = set()

    def walk(thing: object, place: str) -> None:
        if id(thing) in seen or isinstance(thing, (str, bytes, int, float, type)) or thing is None:
            return
        seen.add(id(thing))
        if isinstance(thing, (dict, set, frozenset, list, tuple, deque)):
            if not isinstance(thing, (tuple, frozenset)):
                found[place] = found.get(place, 0) + len(thing)
            parts = itertools.chain(thing, thing.values()) if isinstance(thing, dict) else thing
            for part in tuple(parts):
                walk(part, f"{place}[]")
        elif type(thing).__module__.startswith("dra_operator."):
            for name in attributes(thing):
                walk(getattr(thing, name, None), f"{type(thing).__name__}.{name}")

    walk(root, "")
    return found


def attributes(thing: object) -> Iterator[str]:
    """Yield the names of what an object refers to."""
    for kind in type(thing).__mro__:
        yield from getattr(kind, "__slots__", ())
    yield from getattr(thing, "__dict__", ())


def test_nothing_is_kept_of_claims_that_are_gone(clock):
    """After some thousand claims of all kinds every book of the operator is as long as after the first few."""
    world = World(clock)
    world.run()
    for _ in range(3):
        world.turn_over(AT_ONCE)
    before = books(world.cycle)

    for _ in range(CYCLES // AT_ONCE):
        world.turn_over(AT_ONCE)

    after = books(world.cycle)
    metrics = world.cycle.metrics
    assert {
        metrics.registry.get_sample_value("dra_operator_decisions_total", {"result": result}) > CYCLES / 5
        for result in ("allocated", "failed", "unsatisfied")
    } == {True}
    assert world.refused > CYCLES / AT_ONCE
    assert all(after.pop(place, 0) <= most for place, most in BOUNDED.items())
    assert len(after) > 50
    assert {place: count for place, count in after.items() if count > before.get(place, 0)} == {}


@pytest.mark.parametrize("claims", [0, 1, 200], ids=["no claim ever", "claims once", "claims now and then"])
def test_nothing_is_kept_of_nodes_that_are_gone(clock, monkeypatch, claims):
    """Whether or not anybody asks what there is: most clusters leave most claims to kube-scheduler."""
    monkeypatch.setattr(relax, "_SPARE_CHANGES", 0)
    world = World(clock)
    world.run()
    for number in range(200):
        if number == 10:
            before = books(world.cycle)
        if number < claims:
            world.turn_over(AT_ONCE // 4)
        world.replace_nodes(5)

    after = books(world.cycle)
    assert all(after.pop(place, 0) <= most for place, most in BOUNDED.items())
    assert {place: count for place, count in after.items() if count > before.get(place, 0)} == {}
