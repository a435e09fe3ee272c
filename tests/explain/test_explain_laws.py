"""What holds of every explanation: its numbers add up, and what it blames is to blame."""

import re
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Explanation
from dra_operator.allocator.reasons import Reason
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.explain import Explainer
from dra_operator.inventory import Features, Inventory
from dra_operator.ledger import Ledger

NODES = ("n1", "n2")
NEVER = "; it would not fit even if no device were in use or tainted"
SELECTORS = {
    "model a": 'device.attributes["d"].model == "a"',
    "memory 2": 'device.capacity["d"].memory.compareTo(quantity("2")) >= 0',
    "numa 1": 'device.attributes["d"].?numa.orValue(0) == 1',
}
CONSTRAINTS = (
    {"matchAttribute": "d/numa"},
    {"matchAttribute": "d/model"},
    {"distinctAttribute": "d/numa"},
    {"distinctAttribute": "d/model"},
    {"matchAttribute": "d/nope"},
)


class World(NamedTuple):
    """A cluster as plain data: devices by node, nodes that are cordoned, claims that take what they can first.

    `newer` is a newer generation of the pool of n1, which lies on n2.
    """

    pools: dict[str, list[dict[str, Any]]]
    cordoned: tuple[str, ...]
    used: int
    class_selectors: tuple[str, ...]
    newer: tuple[dict[str, Any], ...] = ()


devices = st.fixed_dictionaries(
    {
        "model": st.sampled_from("ab"),
        "numa": st.sampled_from([None, 0, 1]),
        "memory": st.integers(1, 2),
        "cores": st.integers(0, 2),
        "tainted": st.sampled_from([False, False, True]),
    }
)
worlds = st.builds(
    World,
    st.fixed_dictionaries({node: st.lists(devices, max_size=4) for node in NODES}),
    st.sampled_from([(), (), ("n1",), ("n2",)]),
    st.integers(0, 3),
    st.sampled_from([(), (), ("model a",)]),
    st.one_of(st.just(()), st.just(()), st.tuples(devices.map(lambda device: {**device, "cores": 0}))),
)
requests = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 2, 3, 4, None]),
        "selectors": st.lists(st.sampled_from(sorted(SELECTORS)), unique=True, max_size=2),
        "memory": st.sampled_from([0, 0, 2, 3]),
        "tolerates": st.booleans(),
    }
)
easy = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 2, 2, 3]),
        "selectors": st.lists(st.sampled_from(sorted(SELECTORS)), max_size=1),
        "memory": st.just(0),
        "tolerates": st.just(value=True),
    }
)
worlds_that_share = st.builds(
    World,
    st.fixed_dictionaries(
        {node: st.lists(devices.map(lambda device: {**device, "shared": True}), max_size=3) for node in NODES}
    ),
    st.just(()),
    st.integers(0, 3),
    st.just(()),
    st.just(()),
)
sharing = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 1, 2]),
        "selectors": st.lists(st.sampled_from(sorted(SELECTORS)), max_size=1),
        "memory": st.sampled_from([1, 1, 2]),
        "tolerates": st.just(value=True),
    }
)
asked = st.one_of(
    st.tuples(worlds, st.lists(st.one_of(easy, requests), min_size=2, max_size=4)),
    st.tuples(worlds_that_share, st.lists(sharing, min_size=2, max_size=4)),
)
constraints = st.lists(st.sampled_from(CONSTRAINTS), min_size=1, max_size=3)


def _device(number: int, device: dict[str, Any]) -> dict[str, Any]:
    numa = {} if device["numa"] is None else {"numa": {"int": device["numa"]}}
    use = {"counterSet": "set", "counters": {"cores": {"value": str(device["cores"])}}}
    return {
        "name": f"d{number}",
        "attributes": {"model": {"string": device["model"]}, **numa},
        "capacity": {"memory": {"value": str(device["memory"])}},
        "taints": [{"key": "k", "effect": "NoSchedule"}] if device["tainted"] else [],
        "consumesCounters": [use] if device["cores"] else [],
        "allowMultipleAllocations": device.get("shared", False),
    }


def _allocator(world: World) -> Allocator:
    """Return an allocator in which the claims that come first have been served, one device each, if there was one."""
    inventory = Inventory()
    selectors = [{"cel": {"expression": SELECTORS[name]}} for name in world.class_selectors]
    inventory.put(read_object({"metadata": {"name": "c"}, "spec": {"selectors": selectors}}, "DeviceClass"))
    for node in NODES:
        spec = {"unschedulable": node in world.cordoned}
        inventory.put(read_object({"metadata": {"name": node}, "spec": spec}, "Node"))
        pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
        counters = [{"name": "set", "counters": {"cores": {"value": "3"}}}]
        listed = [_device(number, device) for number, device in enumerate(world.pools[node])]
        for name, content in (("c", {"sharedCounters": counters}), ("d", {"devices": listed})):
            body = {"driver": "d", "pool": pool, "nodeName": node, **content}
            slice_ = {"metadata": {"name": f"{node}-{name}"}, "spec": body}
            inventory.put(apply_defaults(read_object(slice_, "ResourceSlice")))
    if world.newer:
        body = {
            "driver": "d",
            "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1},
            "nodeName": "n2",
            "devices": [_device(number, device) for number, device in enumerate(world.newer)],
        }
        inventory.put(
            apply_defaults(read_object({"metadata": {"name": "newer"}, "spec": body}, "ResourceSlice"))
        )
    ledger = Ledger()
    made = Allocator(
        inventory,
        ledger,
        features=Features.all_on(),
        limits=Limits(),
        clock=lambda: 0.0,
        share_ids=lambda: "id",
    )
    for number in range(world.used):
        name = f"user-{number}"
        decision = made.allocate(
            [_claim([{"count": 1, "selectors": [], "memory": 0, "tolerates": True}], (), name)]
        )
        if isinstance(decision, Allocated):
            ledger.assume(_namespace(name), name, decision.results[0])
    return made


def _namespace(user: str) -> str:
    return "other" if user == "user-1" else "ns"


def _take_away(made: Allocator, number: int) -> bool:
    """Take a user's device away, and return whether it had one."""
    version = made.ledger.version
    made.ledger.withdraw(_namespace(f"user-{number}"), f"user-{number}")
    return made.ledger.version > version


def _claim(wanted: list[dict[str, Any]], bound: Any, name: str = "claim") -> Any:
    listed = []
    for number, item in enumerate(wanted):
        mode = {"allocationMode": "All"} if item["count"] is None else {"count": item["count"]}
        exactly = {
            "deviceClassName": "c",
            "selectors": [{"cel": {"expression": SELECTORS[each]}} for each in item["selectors"]],
            "tolerations": [{"operator": "Exists"}] if item["tolerates"] else [],
            **({"capacity": {"requests": {"memory": str(item["memory"])}}} if item["memory"] else {}),
            **mode,
        }
        listed.append({"name": f"r{number}", "exactly": exactly})
    spec = {"devices": {"requests": listed, "constraints": list(bound)}}
    body = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}
    return apply_defaults(read_object(body, "ResourceClaim"))


def _explain(world: World, wanted: list[dict[str, Any]], bound: Any = ()) -> Explanation | None:
    """Return why a claim is not allocated, or None if it is."""
    made = _allocator(world)
    claim = _claim(wanted, bound)
    found = Explainer(made).explain((claim,), made.allocate([claim]))
    return found[0] if found else None


NUMBERS = re.compile(
    r"(?P<published>\d+) devices? published, (?P<in_class>\d+) in class c"
    r"(?P<selectors>(?:, \d+ match selector #\d)*)"
    r"(?P<obstacles>(?:, \d+ (?!left|requested)[a-z][^,(]*(?:\([^)]*\))?)*)"
    r"(?:, (?P<left>\d+) left)?"
    r"(?:, at most (?P<most>\d+) on one node(?: \(n\d\))?(?: even if none were in use(?: or tainted)?)?)?"
    r"(?:, but only (?P<together>\d+) of them together[^,]*)?(?:, (?P<requested>\d+) requested)?"
    r"(?:, at most (?P<free>\d+) on one node if none were in use(?: or tainted)?)?"
)


@settings(max_examples=150)
@given(worlds, requests)
def test_the_numbers_add_up(world: World, wanted: dict[str, Any]) -> None:
    """What is kept away and what is left is what the last selector left; and what is left is too little."""
    found = _explain(world, [wanted])
    if found is None or " published, " not in found.message:
        return
    match = NUMBERS.search(found.message)
    assert match is not None
    stages = [match["published"], match["in_class"], *re.findall(r"(\d+) match", match["selectors"])]
    numbers = list(map(int, stages))
    old = 0 if world.newer and "n1" in world.cordoned else len(world.pools["n1"])
    every = old + len(world.pools["n2"]) + len(world.newer)
    kept = [
        int(number) for number in re.findall(r", (\d+) [a-z]", re.sub(r"\(.*?\)", "", match["obstacles"]))
    ]
    left = int(match["left"] or 0)

    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == every
    if numbers[-1]:
        assert sum(kept) + left == numbers[-1]
    for text, count in re.findall(r", (\d+) [a-z ]+\(([^)]*)\)", match["obstacles"]):
        assert sum(map(int, re.findall(r" on (\d+)(?:[,;]|$)", count))) == int(text)
    if match["requested"]:
        assert int(match["together"] or match["most"] or 0) < int(match["requested"]) == wanted["count"]
        assert int(match["together"] or -1) < int(match["most"] or 0) <= left


@settings(max_examples=150)
@given(worlds, requests)
def test_what_is_blamed_once_removed_changes_the_answer(world: World, wanted: dict[str, Any]) -> None:
    """The selector, the taints, the nodes, those who use devices, the amount or the number that is asked for."""
    found = _explain(world, [wanted])
    if found is None:
        return
    free = world._replace(used=0)
    if (
        found.reason is Reason.DEVICE_IN_USE
        and wanted["count"]
        and NEVER not in found.message
        and not any(device["cores"] for pool in world.pools.values() for device in pool)
    ):
        assert _explain(free, [wanted]) is None or "tainted" in found.message or "nodes that" in found.message
    if NEVER in found.message:
        assert _explain(free, [{**wanted, "tolerates": True}]) is not None
    removed: dict[Reason, tuple[World, dict[str, Any]]] = {
        Reason.CLASS_MATCHES_NO_DEVICE: (world._replace(class_selectors=()), wanted),
        Reason.DEVICE_TAINTED: (world, {**wanted, "tolerates": True}),
        Reason.NODE_UNUSABLE: (world._replace(cordoned=()), wanted),
        Reason.DEVICE_IN_USE: (free, wanted),
        Reason.COUNTERS_EXHAUSTED: (free, wanted),
        Reason.CAPACITY_TOO_SMALL: (world, {**wanted, "memory": 0}),
    }
    if found.reason is Reason.NO_DEVICES:
        assert not any(world.pools.values()) or (world.newer and "n1" in world.cordoned)
        return
    if found.reason is Reason.SELECTOR_MATCHES_NO_DEVICE:
        number = int(re.findall(r", 0 match selector #(\d)", found.message)[0])
        fewer = [name for place, name in enumerate(wanted["selectors"]) if place != number]
        removed[found.reason] = (world, {**wanted, "selectors": fewer})
    if found.reason is Reason.NOT_ENOUGH_DEVICES:
        if wanted["count"] is None:
            return
        if " left, " not in found.message:
            return
        fits = int(
            (re.findall(r"but only (\d+) of", found.message) or re.findall(r"most (\d+) on", found.message))[
                0
            ]
        )
        removed[found.reason] = (world, {**wanted, "count": fits})
        assert fits
        assert _explain(world, [{**wanted, "count": fits}]) is None
        if named := re.search(r"on one node \((n\d)\)", found.message):
            claim = _claim([{**wanted, "count": fits}], ())
            assert isinstance(_allocator(world).allocate([claim], [named[1]]), Allocated)
        assert _explain(world, [{**wanted, "count": fits + 1}]) is not None
    after = _explain(removed[found.reason][0], [removed[found.reason][1]])

    assert after is None or (after.reason, after.message) != (found.reason, found.message)


def _check_values(
    world: World, wanted: list[dict[str, Any]], bound: list[dict[str, str]], message: str
) -> None:
    """What is said of a node's values holds there: each request fits alone, and not all of them do."""
    made = _allocator(world)

    def fits(node: str, asked: list[dict[str, Any]], some: list[dict[str, str]] = bound) -> bool:
        return isinstance(made.allocate([_claim(asked, some)], [node]), Allocated)

    if "; with it, no node has enough left for each of r0 and r1" in message:
        assert not any(all(fits(node, [item]) for item in wanted) for node in NODES)
    if told := re.search(r"; (n\d) has ([^;]*)", message):
        assert all(fits(told[1], [item]) for item in wanted)
        assert not fits(told[1], wanted)
    if told and (different := re.search(r"enough left for r0 with (.*), for r1 with (.*)", told[2])):
        first, second = (set(text.split(" and ")) for text in different.groups())
        assert first
        assert second
        assert not first & second
    elif told:
        have, want = re.findall(r"(\d)", re.sub(r"r\d", "", told[2]))
        assert int(have) < int(want) == sum(item["count"] for item in wanted)


@settings(max_examples=150)
@given(worlds, st.lists(easy, min_size=1, max_size=2), constraints)
def test_a_constraint_that_is_blamed_is_in_the_way(
    world: World, wanted: list[dict[str, Any]], bound: list[dict[str, str]]
) -> None:
    """Without it the claim fits; alone it does not if it is named alone; and as many fit as the line says."""
    found = _explain(world, wanted, bound)
    if found is None or found.reason is not Reason.CONSTRAINT_UNSATISFIABLE:
        return
    together = wanted
    if found.request is not None:
        wanted = [wanted[int(found.request[1:])]]
    message, never, when = found.message.partition("; even if none were in use")
    if never:
        # The request that is named may fit alone then, and the requests not.
        asked = together if "the requests do not fit together" in when else wanted
        idle = [{**item, "tolerates": item["tolerates"] or " or tainted" in when} for item in asked]
        assert _explain(world._replace(used=0), idle, bound) is not None
    blamed = [int(number) for number in re.findall(r"constraint #(\d)", message)]
    if not blamed:
        assert _explain(world, wanted) is None
        assert all(_explain(world, wanted, bound[:n] + bound[n + 1 :]) for n in range(len(bound)))
        return
    conflict = [bound[number] for number in blamed]
    if users := re.search(r"; others are in use by (\d) claims?", found.message):
        made = _allocator(world)
        holding = [number for number in range(3) if _take_away(made, number)]
        assert 0 < int(users[1]) <= len(holding)
        if not any(item["selectors"] for item in wanted):
            assert int(users[1]) == len(holding)

    assert _explain(world, wanted, [item for n, item in enumerate(bound) if n != blamed[0]]) is None
    if len(wanted) > 1:
        _check_values(world, wanted, conflict, message)
    assert _explain(world, wanted, conflict) is not None
    for number in range(len(conflict)):
        assert _explain(world, wanted, conflict[:number] + conflict[number + 1 :]) is None
    if vain := re.search(r"at most (\d)(?: together even)? if none were in use", found.message):
        assert int(vain[1]) < wanted[0]["count"]
        # What could be had of idle devices is found out with all constraints, also those that are not blamed.
        assert _explain(world._replace(used=0), [{**wanted[0], "count": int(vain[1]) + 1}], bound) is not None
    if together := re.search(
        r"at most (\d) together(?: even if none were in use)?, (\d) requested", found.message
    ):
        most = int(together[1])
        assert int(together[2]) == wanted[0]["count"]
        assert _explain(world, [{**wanted[0], "count": most}], bound) is None
        assert _explain(world, [{**wanted[0], "count": most + 1}], bound) is not None


CAUSE = re.compile(
    r"; (?P<node>n\d) has (?P<have>\d+) (?:of )?(?P<what>[a-z/ ]+) left for (?P<names>[^;]*), "
    r"which want (?P<least>at least )?(?P<want>\d+)$"
)


def _check_cause(world: World, wanted: list[dict[str, Any]], message: str) -> None:
    """What is said of a node holds there: each request fits alone, all but any one fit, and all of them do not."""

    def fits(node: str, *numbers: int) -> bool:
        claim = _claim([wanted[number] for number in numbers], ())
        return isinstance(made.allocate([claim], [node]), Allocated)

    made = _allocator(world)

    if apart := re.search(
        r"; [^;]* have no node in common even if|; no node has enough left for each of .*", message
    ):
        numbers = list(map(int, re.findall(r"r(\d)", apart[0])))
        if "even if" in message:
            made = _allocator(world._replace(used=0))
        assert not any(all(fits(node, number) for number in numbers) for node in NODES)
        return
    every = [device for pool in world.pools.values() for device in pool]
    # Only the exhaustive search looks at devices that are shared and draw on counters.
    plain_only = any(device.get("shared") and device["cores"] for device in every)
    cause = CAUSE.search(message) or re.search(r"; on (?P<node>n\d), (?P<names>.*)", message)
    if cause is None:
        # No sum shows it.
        return
    # Of more than three requests the rest is counted, and nobody asks for more than four.
    numbers = sorted(set(map(int, re.findall(r"r(\d)", cause["names"]))))
    numbers = list(range(len(wanted))) if " more " in f"{cause['names']} " else numbers
    node = cause["node"]
    assert not fits(node, *numbers)
    for left_out in numbers:
        assert fits(node, left_out)
        assert plain_only or fits(node, *(number for number in numbers if number != left_out))
    if "which want" not in cause[0]:
        return
    assert int(cause["have"]) < int(cause["want"])
    counts = [wanted[number]["count"] for number in numbers]
    if cause["what"].startswith("device") and None not in counts:
        assert int(cause["want"]) == sum(counts)
    if cause["what"] == "capacity memory":
        total = sum(wanted[number]["memory"] * wanted[number]["count"] for number in numbers)
        assert (int(cause["want"]), cause["least"]) == (total, None)


@settings(max_examples=150)
@given(asked)
def test_requests_that_are_named_are_stuck(case: tuple[World, list[dict[str, Any]]]) -> None:
    """Those that do not fit together do not, and would without any one of them; another that fits is not named."""
    world, wanted = case
    found = _explain(world, wanted)
    if found is None:
        return
    if found.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER:
        named = re.search(r"not even for ([^;]*)", found.message)
        every = list(range(len(wanted)))
        stuck = list(map(int, re.findall(r"r(\d)", named[1]))) if named else every
        assert _explain(world, [wanted[number] for number in stuck]) is not None
        for left_out in stuck:
            assert _explain(world, [wanted[number] for number in stuck if number != left_out]) is None
        message, never, when = found.message.partition("; even if none were in use")
        _check_cause(world, wanted, message)
        if never:
            idle = [{**item, "tolerates": item["tolerates"] or " or tainted" in when} for item in wanted]
            assert _explain(world._replace(used=0), idle) is not None
            assert not any(_explain(world._replace(used=0), [item]) for item in idle)
    for name, reason in re.findall(r"request (r\d) does not fit either \((\w+)\)", found.message):
        alone = _explain(world, [wanted[int(name[1:])]])
        assert alone is not None
        assert alone.reason == reason != found.reason


def _holders(text: str) -> tuple[int, set[str]]:
    """Return how many claims a line says use what is wanted, and the names of those it names."""
    phrases = re.findall(
        r"in use by (\d) claims?( of other namespaces| of another namespace)?[ :(]*([^;)]*)\)?", text
    )
    named = {name for _, _, names in phrases for name in re.findall(r"user-\d", names)}
    for number, all_others, names in phrases:
        others = number if all_others else (re.findall(r"(\d) of (?:an)?other", names) or [0])[0]
        assert int(number) == int(others) + len(re.findall(r"user-\d", names))
        assert int(others) <= 1
    return len(phrases), named


@settings(max_examples=150)
@given(worlds, requests, st.integers(0, 2))
def test_claims_are_named_that_use_what_is_wanted(world: World, wanted: dict[str, Any], left: int) -> None:
    """When one of them is gone the line is another one; when another claim is, it is the same."""
    made = _allocator(world)
    claim = _claim([wanted], ())
    decision = made.allocate([claim])
    (before, *_) = Explainer(made).explain((claim,), decision) or (None,)
    user = f"user-{left}"
    if before is None or not made.ledger.version or " published, " not in before.message:
        return
    phrases, named = _holders(before.message)
    version = made.ledger.version
    made.ledger.withdraw(_namespace(user), user)
    if made.ledger.version == version:
        assert user not in named
        return
    (after, *_) = Explainer(made).explain((claim,), made.allocate([claim])) or (None,)

    assert "user-1" not in before.message
    if user in named:
        assert after != before
    elif user != "user-1" and phrases and "together" not in before.message:
        # What draws on the same counters as those that are left is not told by name.
        assert after == before
