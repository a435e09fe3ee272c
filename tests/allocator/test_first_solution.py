"""The allocator against an independent checker that goes through everything in upstream's order.

The checker knows nothing of masks, stacks and undoing: it takes plain dicts and judges each device anew by all that was
picked before it. So it also says which of the solutions has to be found: the first. What can end an attempt with an
error is left out, as it would have to be told apart from a plain no.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from dra_operator.allocator import Allocated, Allocator, Features, Limits, SearchMode, Unsatisfied
from dra_operator.allocator.search import chain
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

CORES = 3
"""How much each pool's counter holds."""
SELECTOR = 'device.attributes["d"].rail == 0'
PATIENCE = 100_000
"""How many devices the checker tries in a row of attempts before it leaves an example alone."""
DERIVED = 'device.attributes["d"].rail == 0 ? "x" : "y"'

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from([("x",), ("x",), ("y",), ("x", "y"), ("y", "z"), None]),
    "rail": st.integers(0, 1),
    "memory": st.integers(2, 6),
    "shareable": st.sampled_from([False, False, True]),
    "default": st.sampled_from([None, 1, 3]),
    "cores": st.sampled_from([0, 0, 1, 2]),
    "groups": st.sampled_from([(), (), (), ("p",), ("q",), ("p", "q")]),
    "tainted": st.sampled_from([False, False, False, True]),
}
# What goes wrong only where several devices have it.
THEMES: list[dict[str, st.SearchStrategy[Any]]] = [
    {},
    {"cores": st.just(1), "groups": st.sampled_from([("p", "q"), ("q", "r"), ("p", "r"), ()])},
    {"cores": st.just(0), "kind": st.sampled_from([("x", "y"), ("y", "z"), ("x", "z"), ("x",)])},
    {"shareable": st.just(True), "tainted": st.just(False)},
]


def a_cluster(theme: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Return the pools of a cluster whose devices have something in common."""
    devices = st.lists(st.fixed_dictionaries(FIELDS | theme), max_size=3)
    return st.fixed_dictionaries({"all": devices, "n": devices})


POOLS = st.sampled_from(THEMES).flatmap(a_cluster)
ASKED = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 1, 1, 2, 2, 3, None]),
        "selects": st.sampled_from([False, False, True]),
        "memory": st.sampled_from([None, None, 1, 2, 3]),
        "tolerates": st.booleans(),
        "derives": st.sampled_from([False, False, True]),
    }
)
REQUEST = st.fixed_dictionaries(
    {
        "alternatives": st.lists(ASKED, min_size=1, max_size=3),
        "admin": st.sampled_from([False, False, False, True]),
    }
)
CLAIM = st.fixed_dictionaries(
    {
        "requests": st.lists(REQUEST, min_size=1, max_size=3),
        "constraints": st.lists(
            st.tuples(
                st.sampled_from(["matchAttribute", "distinctAttribute"]),
                st.sampled_from([None, None, "r0", "r1", "r0/s1"]),
            ),
            max_size=2,
        ),
    }
)
ATTEMPTS = st.lists(st.lists(CLAIM, min_size=1, max_size=3), min_size=1, max_size=3)


# --- the same thing as objects of the API


def as_device(number: int, device: dict[str, Any]) -> dict[str, Any]:
    """Return a device of the API."""
    kind = device["kind"]
    memory: dict[str, Any] = {"value": str(device["memory"])}
    if device["shareable"] and device["default"]:
        memory["requestPolicy"] = {"default": str(device["default"])}
    counters = {"cores": {"value": str(device["cores"])}}
    use = {"counterSet": "set", "counters": counters, "compatibilityGroups": device["groups"]}
    return {
        "name": str(number),
        "attributes": {
            "rail": {"int": device["rail"]},
            **({} if kind is None else {"kind": {"strings": kind} if len(kind) > 1 else {"string": kind[0]}}),
        },
        "capacity": {"memory": memory},
        "allowMultipleAllocations": device["shareable"],
        "consumesCounters": [use] if device["cores"] else [],
        "taints": [{"key": "k", "effect": "NoSchedule"}] if device["tainted"] else [],
    }


def slices(pools: dict[str, list[dict[str, Any]]]) -> Iterator[Any]:
    """Yield the slices of all pools: devices, and counters."""
    for pool, devices in pools.items():
        where: dict[str, Any] = {"allNodes": True} if pool == "all" else {"nodeName": pool}
        head = {"driver": "d", "pool": {"name": pool, "generation": 1, "resourceSliceCount": 2}, **where}
        counters = [{"name": "set", "counters": {"cores": {"value": str(CORES)}}}]
        listed = [as_device(number, item) for number, item in enumerate(devices)]
        for name, content in (("devices", {"devices": listed}), ("counters", {"sharedCounters": counters})):
            body = {"metadata": {"name": f"{pool}-{name}"}, "spec": {**head, **content}}
            yield read_object(body, "ResourceSlice")


def as_asked(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what an exact request and an alternative have in common."""
    return {
        "deviceClassName": "c",
        **({"allocationMode": "All"} if asked["count"] is None else {"count": asked["count"]}),
        "selectors": [{"cel": {"expression": SELECTOR}}] if asked["selects"] else [],
        "capacity": {"requests": {"memory": str(asked["memory"])}} if asked["memory"] else None,
        "tolerations": [{"operator": "Exists"}] if asked["tolerates"] else [],
        "derivedAttributes": [{"name": "d/kind", "expression": DERIVED}] if asked["derives"] else [],
    }


def as_claim(claim: dict[str, Any], name: str) -> Any:
    """Return a claim of the API."""
    requests: list[dict[str, Any]] = []
    for number, request in enumerate(claim["requests"]):
        asked = list(map(as_asked, request["alternatives"]))
        if request["admin"]:
            requests.append({"name": f"r{number}", "exactly": {**asked[0], "adminAccess": True}})
        elif len(asked) == 1:
            requests.append({"name": f"r{number}", "exactly": asked[0]})
        else:
            options = [{"name": f"s{place}", **item} for place, item in enumerate(asked)]
            requests.append({"name": f"r{number}", "firstAvailable": options})
    constraints = [
        {kind: "d/kind", "requests": [only] if only else []} for kind, only in constraints_of(claim)
    ]
    body = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }
    return apply_defaults(read_object(body, "ResourceClaim"))


def an_allocator(pools: dict[str, list[dict[str, Any]]]) -> Allocator:
    """Return an allocator for a cluster of one node."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    inventory = Inventory()
    for item in (
        read_object({"metadata": {"name": "n"}}, "Node"),
        read_object({"metadata": {"name": "c"}, "spec": {}}, "DeviceClass"),
        read_object({"metadata": {"name": "ns", "labels": labels}}, "Namespace"),
        *slices(pools),
    ):
        inventory.put(item)
    return Allocator(
        inventory,
        Ledger(),
        features=Features.all_on(),
        limits=Limits(),
        clock=lambda: 0.0,
        share_ids=lambda: "id",
    )


# --- the checker

Device = tuple[str, int]


def constraints_of(claim: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the constraints of a claim: none with All, where a conflict is an error."""
    asks_for_all = any(
        item["count"] is None for request in claim["requests"] for item in request["alternatives"]
    )
    return [] if asks_for_all else claim["constraints"]


@dataclass(frozen=True)
class Pick:
    """A device picked in an attempt: for which claim and request, by which of its names, and what is asked of it."""

    claim: int
    request: str
    asked: dict[str, Any]
    admin: bool
    device: Device


@dataclass
class World:
    """What is published, and what earlier claims hold of it: whole devices, and amounts of shared ones."""

    pools: dict[str, list[dict[str, Any]]]
    whole: set[Device] = field(default_factory=set)
    shares: list[tuple[Device, int]] = field(default_factory=list)
    tried: int = 0

    def of(self, device: Device) -> dict[str, Any]:
        """Return what is published of a device."""
        return self.pools[device[0]][device[1]]

    def consumed(self, asked: dict[str, Any], device: Device) -> int:
        """Return what a request consumes of a device's memory."""
        published = self.of(device)
        unasked = (
            published["default"] if published["shareable"] and published["default"] else published["memory"]
        )
        return asked["memory"] or unasked

    def candidates(self, asked: dict[str, Any]) -> list[Device]:
        """Return the devices that selectors and amounts admit, in upstream's order."""
        return [
            (pool, number)
            for pool in sorted(self.pools)
            for number, device in enumerate(self.pools[pool])
            if (not asked["selects"] or device["rail"] == 0)
            and self.consumed(asked, (pool, number)) <= device["memory"]
        ]

    def first(self, claims: Sequence[dict[str, Any]]) -> list[Pick] | None:
        """Return the first way to serve some claims together, or None."""
        wanted = [
            (number, f"r{place}", request)
            for number, claim in enumerate(claims)
            for place, request in enumerate(claim["requests"])
        ]
        return self._serve(claims, wanted, [])

    def _serve(
        self,
        claims: Sequence[dict[str, Any]],
        wanted: list[tuple[int, str, dict[str, Any]]],
        before: list[Pick],
    ) -> list[Pick] | None:
        if not wanted:
            return before
        (claim, name, request), *rest = wanted
        alternatives = request["alternatives"][:1] if request["admin"] else request["alternatives"]
        for place, asked in enumerate(alternatives):
            full_name = name if len(alternatives) == 1 else f"{name}/s{place}"
            candidates = self.candidates(asked)
            count = len(candidates) if asked["count"] is None else asked["count"]
            for chosen in combinations(candidates, count) if count else ():
                picks = [*before]
                for device in chosen:
                    pick = Pick(claim, full_name, asked, request["admin"], device)
                    if not self.admits(claims, picks, pick):
                        break
                    picks.append(pick)
                else:
                    found = self._serve(claims, rest, picks)
                    if found is not None:
                        return found
        return None

    def admits(self, claims: Sequence[dict[str, Any]], before: list[Pick], pick: Pick) -> bool:
        """True if a device can be picked after others."""
        self.tried += 1
        if self.tried > PATIENCE:
            reject()
        published = self.of(pick.device)
        if published["tainted"] and not pick.asked["tolerates"]:
            return False
        if not self._is_free(before, pick) or not self._has_room(before, pick):
            return False
        pays = published["cores"] and not (published["shareable"] and self._is_shared(before, pick.device))
        if pays and not (self._has_cores(before, pick) and self._suits_groups(before, pick)):
            return False
        return all(
            self._keeps(kind, only, before, pick)
            for kind, only in constraints_of(claims[pick.claim])
            if applies(only, pick.request)
        )

    def _is_free(self, before: list[Pick], pick: Pick) -> bool:
        others = [item for item in before if item.device == pick.device]
        if pick.admin:
            return self.of(pick.device)["shareable"] or all(item.claim != pick.claim for item in others)
        return pick.device not in self.whole and (self.of(pick.device)["shareable"] or not others)

    def _is_shared(self, before: list[Pick], device: Device) -> bool:
        return any(shared == device for shared, _ in self.shares) or any(
            item.device == device for item in before
        )

    def _has_room(self, before: list[Pick], pick: Pick) -> bool:
        if not self.of(pick.device)["shareable"]:
            return True
        amounts = [amount for device, amount in self.shares if device == pick.device]
        amounts += [
            self.consumed(item.asked, item.device) for item in (*before, pick) if item.device == pick.device
        ]
        return sum(amounts) <= self.of(pick.device)["memory"]

    def charged(self, before: list[Pick], pool: str) -> list[Device]:
        """Return the devices of a pool that have paid its counter, those of earlier claims first, in order."""
        held = self.whole | {device for device, _ in self.shares}
        paid = sorted(device for device in held if device[0] == pool and self.of(device)["cores"])
        for number, item in enumerate(before):
            published = self.of(item.device)
            if item.device[0] != pool or not published["cores"]:
                continue
            if not (published["shareable"] and self._is_shared(before[:number], item.device)):
                paid.append(item.device)
        return paid

    def _has_cores(self, before: list[Pick], pick: Pick) -> bool:
        paid = sum(self.of(device)["cores"] for device in self.charged(before, pick.device[0]))
        return bool(paid + self.of(pick.device)["cores"] <= CORES)

    def _suits_groups(self, before: list[Pick], pick: Pick) -> bool:
        own = set(self.of(pick.device)["groups"])
        placed = [set(self.of(device)["groups"]) for device in self.charged(before, pick.device[0])]
        if not own:
            return not any(placed)
        return not placed or (all(placed) and bool(own.intersection(*placed)))

    def _keeps(self, kind: str, only: str | None, before: list[Pick], pick: Pick) -> bool:
        values = [
            self.values(item)
            for item in (*before, pick)
            if item.claim == pick.claim and applies(only, item.request)
        ]
        if None in values:
            return False
        sets = [set(value or ()) for value in values]
        if kind == "matchAttribute":
            return bool(set.intersection(*sets))
        return all(sets[-1].isdisjoint(other) for other in sets[:-1])

    def values(self, pick: Pick) -> tuple[str, ...] | None:
        """Return what a constraint compares of a device."""
        published = self.of(pick.device)
        if pick.asked["derives"]:
            return ("x",) if published["rail"] == 0 else ("y",)
        kind: tuple[str, ...] | None = published["kind"]
        return kind

    def hold(self, picks: list[Pick]) -> None:
        """Keep what claims were given; admin access leaves nothing behind."""
        for pick in picks:
            if pick.admin:
                continue
            if self.of(pick.device)["shareable"]:
                self.shares.append((pick.device, self.consumed(pick.asked, pick.device)))
            else:
                self.whole.add(pick.device)


def applies(only: str | None, request: str) -> bool:
    """True if a constraint is about a request: all, the whole of it, or this alternative."""
    return only is None or only in (request, request.partition("/")[0])


@contextmanager
def without_fast_searches() -> Iterator[None]:
    """Search exhaustively only."""
    with patch.object(chain, "is_countable", lambda _: False):
        yield


@pytest.mark.parametrize(
    ("searching", "way"),
    [
        pytest.param(SearchMode.PLAIN, nullcontext, id="plain"),
        pytest.param(SearchMode.COUNTING, nullcontext, id="counting"),
        pytest.param(SearchMode.COUNTING, without_fast_searches, id="no fast search"),
    ],
)
@settings(max_examples=120)
@given(pools=POOLS, attempts=ATTEMPTS)
def test_the_first_solution_is_found_or_there_is_none(
    searching: SearchMode,
    way: Callable[[], AbstractContextManager[None]],
    pools: dict[str, Any],
    attempts: list[list[dict[str, Any]]],
) -> None:
    """Attempts follow each other, so that what one takes is missing to the next."""
    world, deciding = World(pools), an_allocator(pools)
    deciding.searching = searching
    for number, claims in enumerate(attempts):
        names = [f"c{number}-{place}" for place in range(len(claims))]
        wanted = [as_claim(claim, name) for claim, name in zip(claims, names, strict=True)]
        expected = world.first(claims)
        with way():
            decision = deciding.allocate(wanted)
        if expected is None:
            assert decision == Unsatisfied()
            continue
        assert isinstance(decision, Allocated), (decision, expected)
        given_out = [
            (claim, item.request, (item.pool, int(item.device)))
            for claim, result in enumerate(decision.results)
            for item in result.devices.results
        ]
        assert given_out == [(pick.claim, pick.request, pick.device) for pick in expected]
        world.hold(expected)
        for name, result in zip(names, decision.results, strict=True):
            deciding.ledger.assume("ns", name, result)
