"""`python -m stepfuzz.hard [--count N] [--seed S]` looks for tight claims on one node that are decided wrong, or late.

Whatever the search that begins with the hardest answers must be what the exhaustive search answers;
where one of them gives up, nothing is compared. Each number stands for a case, an odd one, one with lists, one with
constraints that bind some alternatives only, and one for all devices. The exit code is 1 if something was wrong.
With `--slowest --devices 32` it measures instead, cases of the first kind.
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Decision
from dra_operator.allocator.search import chain
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.inventory import Features, Inventory
from dra_operator.ledger import Ledger
from stepfuzz.content import Body, read, sometimes
from stepfuzz.world import gave_up

_ATTRIBUTES = ("root", "numa", "rail")
_STEPS = 100_000


@dataclass(frozen=True)
class Tightness:
    """What makes a case hard: how many kinds and values there are, and what is shared, counted or bound together."""

    shares: bool
    policies: bool
    counters: bool
    parts: bool
    constraints: bool
    alternatives: bool
    kinds: int
    values: int

    @classmethod
    def of(cls, random: Random) -> "Tightness":
        """Return a tightness."""
        return cls(
            shares=sometimes(random, 0.4),
            policies=sometimes(random, 0.3),
            counters=sometimes(random, 0.4),
            parts=sometimes(random, 0.3),
            constraints=sometimes(random, 0.7),
            alternatives=sometimes(random, 0.3),
            kinds=random.choice([1, 1, 2, 3, 5]),
            values=random.choice([2, 3, 4, 6, 8]),
        )


@dataclass
class Case:
    """A node with some devices and claims that nearly fill it."""

    random: Random
    most: int
    in_use: ClassVar[float] = 0.06
    """How likely it is that a device is in use."""
    features = Features()
    paying = False
    """True if devices that draw on counters can be shared: the first share pays."""

    def __post_init__(self) -> None:
        random = self.random
        self.style = self.tightness()
        self.used: list[Body] = []
        self.slices: list[Body] = []
        self.asking = 0
        self.size = random.randint(2, self.most)
        pools = random.choice([1, 1, 1, 2, 3])
        for pool in range(pools):
            self.publish(f"p{pool}", self.size // pools + (pool < self.size % pools))
        self.claims = self.ask()

    def allocator(self, searching: SearchMode, limits: Limits) -> Allocator:
        """Return an allocator for the case."""
        inventory, ledger = Inventory(), Ledger()
        inventory.put(read("Node", {"metadata": {"name": "n"}}))
        inventory.put(read("DeviceClass", {"metadata": {"name": "any"}, "spec": {}}))
        for body in self.slices:
            inventory.put(read("ResourceSlice", body))
        for number, result in enumerate(self.used):
            status = {"allocation": {"devices": {"results": [result]}}}
            metadata = {"name": f"u{number}", "namespace": "ns"}
            ledger.put(read("ResourceClaim", {"metadata": metadata, "status": status}))
        return Allocator(
            inventory,
            ledger,
            features=self.features,
            limits=limits,
            clock=lambda: 0.0,
            share_ids=lambda: "id",
            admin_access=AdminAccess.ANY_NAMESPACE,
            searching=searching,
        )

    def tightness(self) -> Tightness:
        """Return what makes the case hard."""
        return Tightness.of(self.random)

    # --- devices

    def publish(self, pool: str, size: int) -> None:
        """Publish a pool, and let some of it be in use."""
        random, style = self.random, self.style
        counter_sets: list[Body] = []
        devices: list[Body] = [{"name": f"d{number:02}"} for number in range(size)]
        if style.counters and style.parts:
            devices, counter_sets = self.parts(size)
        elif style.counters:
            counter_sets = self.draw(devices)
        by_chance = sometimes(random, 0.5)
        for number, device in enumerate(devices):
            attributes = device.setdefault("attributes", {})
            for place, name in enumerate(_ATTRIBUTES):
                if not by_chance:
                    attributes[name] = self.value(number // (place + 1) % style.values)
                elif sometimes(random, 0.95):
                    attributes[name] = self.value(random.randrange(style.values))
            attributes["kind"] = {"int": random.randrange(style.kinds)}
            device["capacity"] = self.capacity()
            may_be_shared = self.paying or not device.get("consumesCounters")
            if style.shares and may_be_shared and sometimes(random, 0.8):
                device["allowMultipleAllocations"] = True
            if sometimes(random, self.in_use):
                result: Body = {"driver": "d", "pool": pool, "device": device["name"]}
                if device.get("allowMultipleAllocations"):
                    result |= {"shareID": "u", "consumedCapacity": self.consumed(device["capacity"])}
                self.used.append(result)
        head = {"name": pool, "generation": 1, "resourceSliceCount": 2}
        for name, content in (("a", {"devices": devices}), ("b", {"sharedCounters": counter_sets})):
            spec = {"driver": "d", "pool": head, "nodeName": "n", **content}
            self.slices.append({"metadata": {"name": f"{pool}-{name}"}, "spec": spec})

    def value(self, number: int) -> Body:
        """Return an attribute that constraints are about."""
        return {"int": number}

    def capacity(self) -> Body:
        """Return the capacity of a device."""
        random = self.random
        capacity: Body = {"m": {"value": random.choice(["10", "10", "10", "7", "12", "16"])}}
        if self.style.shares and self.style.values > 4:
            capacity["b"] = {"value": random.choice(["5", "8", "9"])}
        if self.style.policies:
            span = {"min": "1", "step": random.choice("123")}
            capacity = {
                name: {**of, "requestPolicy": {"default": "1", "validRange": span}}
                for name, of in capacity.items()
            }
        return capacity

    def consumed(self, capacity: Body) -> Body:
        """Return what a share in use consumes."""
        return dict.fromkeys(capacity, "3")

    def draw(self, devices: list[Body]) -> list[Body]:
        """Let devices draw on counter sets at random; return these."""
        random = self.random
        sets, names = random.choice([1, 1, 2, 4]), ("c0", "c1", "c2")[: random.choice([1, 2, 3])]
        for device in devices:
            if sometimes(random, 0.9):
                device["consumesCounters"] = [
                    {
                        "counterSet": f"s{number}",
                        "counters": {name: {"value": str(random.randint(0, 4))} for name in names},
                    }
                    for number in random.sample(range(sets), random.choice([1, 1, 1, min(2, sets)]))
                ]
        totals = {name: {"value": random.choice(["4", "7", "8", "10", "12"])} for name in names}
        return [{"name": f"s{number}", "counters": totals} for number in range(sets)]

    def parts(self, size: int) -> tuple[list[Body], list[Body]]:
        """Return the parts that some cards can be cut into, and what each card has."""
        devices: list[Body] = []
        cards: list[Body] = []
        while len(devices) < size:
            slots, card = self.random.choice([4, 4, 8]), f"g{len(cards)}"
            has = {"memory": {"value": str(slots)}, **{f"x{slot}": {"value": "1"} for slot in range(slots)}}
            cards.append({"name": card, "counters": has})
            for width in (8, 4, 2, 1):
                for start in range(0, slots - width + 1, width):
                    takes = {"memory": {"value": str(width)}}
                    takes |= {f"x{slot}": {"value": "1"} for slot in range(start, start + width)}
                    uses = [{"counterSet": card, "counters": takes}]
                    devices.append({"name": f"{card}-{width}-{start}", "consumesCounters": uses})
        return devices[:size], cards

    # --- claims

    def ask(self) -> tuple[Any, ...]:
        """Return claims for about as many devices as there are."""
        random = self.random
        left = max(1, int(self.size * random.choice([0.3, 0.5, 0.8, 0.95, 1, 1.1])))
        left = int(left * random.choice([1, 1.5, 2, 3])) if self.style.shares else left
        count = random.choice([None, None, 1, 2, 3])
        amounts = random.choice([("3",), ("3", "4"), ("1", "2", "5"), ("6",), ("2", "3", "7")])
        claims: list[Any] = []
        for number in range(random.choice([1, 1, 2, 3, 4, 6, 8, 12])):
            self.asking = number
            requests: list[Body] = []
            for place in range(random.choice([1, 1, 2, 3, 4, 8])):
                request, most = self.request(f"r{place}", count, amounts)
                requests.append(request)
                left -= most
                if left <= 0 or place > 5:
                    break
            spec = {"devices": {"requests": requests, "constraints": self.constraints(requests)}}
            claims.append(
                read("ResourceClaim", {"metadata": {"name": f"c{number}", "namespace": "ns"}, "spec": spec})
            )
            if left <= 0:
                break
        return tuple(claims)

    def request(self, name: str, count: int | None, amounts: tuple[str, ...]) -> tuple[Body, int]:
        """Return a request, and the largest number of devices that it asks for."""
        if self.style.alternatives and sometimes(self.random, 0.5):
            options = [self.alternative(count, amounts) for _ in range(self.random.choice([2, 2, 3]))]
            named = [{"name": f"s{number}", **option} for number, option in enumerate(options)]
            return {"name": name, "firstAvailable": named}, max(option["count"] for option in options)
        fields = self.alternative(count, amounts)
        return {"name": name, "exactly": fields}, fields["count"]

    def alternative(self, count: int | None, amounts: tuple[str, ...]) -> Body:
        """Return what one alternative asks for."""
        random = self.random
        fields: Body = {"deviceClassName": "any", "count": count or random.choice([1, 1, 1, 2, 2, 3, 4])}
        if self.style.kinds > 1 and sometimes(random, 0.6):
            operator = random.choice(["==", "<=", "!="])
            expression = f'device.attributes["d"].kind {operator} {random.randrange(self.style.kinds)}'
            fields["selectors"] = [{"cel": {"expression": expression}}]
        if self.style.shares and sometimes(random, 0.8):
            fields["capacity"] = {"requests": {"m": random.choice(amounts)}}
        return fields

    def constraints(self, requests: list[Body]) -> list[Body]:
        """Return some constraints on some of the requests, or all."""
        random = self.random
        if not self.style.constraints:
            return []
        names = [request["name"] for request in requests]
        return [
            {
                random.choice(["matchAttribute", "matchAttribute", "distinctAttribute"]): "d/"
                + random.choice(_ATTRIBUTES),
                "requests": []
                if sometimes(random, 0.5)
                else random.sample(names, random.randint(1, len(names))),
            }
            for _ in range(random.choice([0, 1, 1, 2, 3]))
        ]


class OddCase(Case):
    """A case with what is rarer in clusters.

    Devices have no capacity, or no policy for it, or one by which a share takes nothing; more of them are in use,
    shares may be of more than there is, and may pay counters. A feature may be off, and what shares hold believed.
    Requests say nothing about capacity, or are for admin access, to a number of devices or to all.
    """

    in_use = 0.2

    def __post_init__(self) -> None:
        self.bare = self.random.choice([0.1, 0.4, 0.8])
        self.silent = self.random.choice([0.1, 0.5, 1])
        self.admin = self.random.choice([0, 0.2, 0.6])
        self.paying = sometimes(self.random, 0.5)
        off = self.random.choice([(), (), (), ("consumable_capacity",), ("partitionable_devices",)])
        self.features = Features(**dict.fromkeys(off, False))
        super().__post_init__()

    def capacity(self) -> Body:
        """Return the capacity of a device, if it has any."""
        if sometimes(self.random, self.bare):
            return {}
        capacity = super().capacity()
        for of in capacity.values():
            if sometimes(self.random, 0.3):
                of.pop("requestPolicy", None)
            elif sometimes(self.random, 0.3):
                of["requestPolicy"] = {"default": "0", "validRange": {"min": "0", "step": "1"}}
        return capacity

    def consumed(self, capacity: Body) -> Body:
        """Return what a share in use consumes, by a writer that need not keep within what there is."""
        return {name: self.random.choice(("0", "3", "3", "6", "20")) for name in capacity}

    def request(self, name: str, count: int | None, amounts: tuple[str, ...]) -> tuple[Body, int]:
        """Return a request, and the largest number of devices that it asks for; for all of them that is one."""
        request, most = super().request(name, count, amounts)
        # Where a claim after the first asks for admin access nothing is counted.
        if "exactly" in request and sometimes(
            self.random, self.admin if self.asking == 0 else self.admin / 10
        ):
            request["exactly"]["adminAccess"] = True
            if sometimes(self.random, 0.1):
                del request["exactly"]["count"]
                request["exactly"]["allocationMode"] = "All"
                most = 1
        return request, most

    def alternative(self, count: int | None, amounts: tuple[str, ...]) -> Body:
        """Return what one alternative asks for."""
        fields = super().alternative(count, amounts)
        if not self.features.consumable_capacity or sometimes(self.random, self.silent):
            fields.pop("capacity", None)
        return fields


class ListedCase(Case):
    """A case in which constraints are about lists, of some devices or of most: these have several values in common.

    As in clusters, some are the values next to each other, and some are those of many devices.
    """

    how_listed = (0.2, 0.6, 1.0)

    def __post_init__(self) -> None:
        self.listed = self.random.choice(self.how_listed)
        self.longest = self.random.choice([2, 2, 3, 5])
        self.features = Features(list_type_attributes=sometimes(self.random, 0.9))
        super().__post_init__()

    def value(self, number: int) -> Body:
        """Return an attribute that constraints are about: mostly a list that begins with the number."""
        random = self.random
        if not sometimes(random, self.listed):
            return super().value(number)
        others = [number + 1, random.randrange(self.style.values), 100 + number // 4]
        return {"ints": [number, *random.choices(others, k=random.randrange(self.longest))]}


class LooseCase(ListedCase):
    """A case in which constraints bind some alternatives of a request and leave its others alone.

    Many devices lack the attributes, which are lists or not.
    """

    how_listed = (0.0, 0.0, 0.6)

    def __post_init__(self) -> None:
        self.lacking = self.random.choice([0, 0.1, 0.4])
        super().__post_init__()

    def tightness(self) -> Tightness:
        """Return what makes the case hard: alternatives and constraints for certain."""
        return replace(super().tightness(), alternatives=True, constraints=True)

    def publish(self, pool: str, size: int) -> None:
        """Publish a pool, and let some of it be in use."""
        super().publish(pool, size)
        for body in self.slices[-2:]:
            for device in body["spec"].get("devices", ()):
                for name in _ATTRIBUTES:
                    if sometimes(self.random, self.lacking):
                        device["attributes"].pop(name, None)

    def constraints(self, requests: list[Body]) -> list[Body]:
        """Return some constraints on some of the requests, or on some of their alternatives."""
        found = super().constraints(requests)
        options = [
            f"{item['name']}/{option['name']}"
            for item in requests
            for option in item.get("firstAvailable", ())
        ]
        for constraint in found if options else ():
            if sometimes(self.random, 0.7):
                some = self.random.sample(options, self.random.randint(1, len(options)))
                constraint["requests"] = [*self.random.choice([(), constraint["requests"]]), *some]
        return found


class WholeCase(Case):
    """A case with one request for all devices, or all of a kind; of some devices nobody can tell the kind."""

    in_use = 0.12

    def publish(self, pool: str, size: int) -> None:
        """Publish a pool, and let some of it be in use."""
        super().publish(pool, size)
        for body in self.slices[-2:]:
            for device in body["spec"].get("devices", ()):
                if sometimes(self.random, 0.05):
                    del device["attributes"]["kind"]

    def ask(self) -> tuple[Any, ...]:
        """Return one claim."""
        fields = {**self.alternative(1, ("1", "3")), "allocationMode": "All"}
        del fields["count"]
        spec = {"devices": {"requests": [{"name": "r", "exactly": fields}]}}
        return (read("ResourceClaim", {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec}),)


def decide_twice(case: Case) -> tuple[Decision | None, Decision | None]:
    """Return what the search that begins with the hardest decides, and the exhaustive one; None for one that gives up.

    The check of the node, which decides most claims, is left out.
    """
    with patch.object(chain, "lowest_devices", _undecided), patch.object(chain, "first_fit", _undecided):
        ours = case.allocator(SearchMode.COUNTING, Limits(seconds=None)).allocate(case.claims)
    plain = case.allocator(SearchMode.PLAIN, Limits(_STEPS, None)).allocate(case.claims)
    return None if gave_up(ours) else ours, None if gave_up(plain) else plain


def _undecided(*_: object) -> None:
    return None


def _slowest(seed: int, first: int, count: int, most: int) -> None:
    spent: list[tuple[float, str, int]] = []
    for number in range(first, first + count):
        case = Case(Random(f"{seed} {number}"), most)  # noqa: S311 - a seed makes a run repeatable
        allocator = case.allocator(SearchMode.COUNTING, Limits(seconds=None))
        # The first time selectors are compiled.
        allocator.allocate(case.claims[:1])
        started = time.process_time()
        decision = allocator.allocate(case.claims)
        name = "undecided" if gave_up(decision) else type(decision).__name__
        spent.append((time.process_time() - started, name, number))
    spent.sort(reverse=True)
    undecided = sum(name == "undecided" for _, name, _ in spent)
    print(f"{count} cases, {undecided} undecided; the slowest:")  # noqa: T201 - the answer
    for seconds, name, number in spent[:10]:
        print(f"{seconds * 1000:8.1f} ms {name} number {number}")  # noqa: T201 - the answer


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="stepfuzz.hard", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--devices", type=int, default=7, help="the largest number of devices")
    parser.add_argument("--slowest", action="store_true", help="measure instead of comparing")
    arguments = parser.parse_args()
    if arguments.slowest:
        _slowest(arguments.seed, arguments.first, arguments.count, arguments.devices)
        return 0
    compared = wrong = undecided = 0
    for number in range(arguments.first, arguments.first + arguments.count):
        for make in (Case, OddCase, ListedCase, LooseCase, WholeCase):
            case = make(Random(f"{arguments.seed} {number}"), arguments.devices)  # noqa: S311 - as above
            ours, plain = decide_twice(case)
            undecided += ours is None
            if ours is None or plain is None:
                continue
            compared += 1
            if ours != plain:
                wrong += 1
                print(f"--- {make.__name__} {number}:\nexpected {plain}\nfound    {ours}")  # noqa: T201 - the answer
    cases = 5 * arguments.count
    print(f"seed {arguments.seed}: {compared} of {cases} compared, {wrong} wrong, {undecided} undecided")  # noqa: T201 - the answer
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
