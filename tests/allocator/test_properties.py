"""The allocator against an independent checker that tries everything.

The checker knows nothing of views, masks or stacks: it takes plain dicts, tries each way of giving devices to requests,
and judges it as a whole. On clusters as small as these it can say for sure whether a claim fits.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.allocator import Allocated, Allocator, Features, Limits, Unsatisfied
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

NODES = ("n1", "n2")
SELECTORS = {
    'device.attributes["d"].?kind.orValue("") == "x"': lambda device: device["kind"] == "x",
    'device.capacity["d"].memory.isGreaterThan(quantity("3"))': lambda device: device["memory"] > 3,
}
DEVICE = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["x", "y", None]),
        "memory": st.integers(2, 6),
        "shareable": st.booleans(),
        "cores": st.sampled_from([0, 0, 1, 2]),
        "tainted": st.sampled_from([False, False, False, True]),
    }
)
POOLS = st.fixed_dictionaries({node: st.lists(DEVICE, max_size=3) for node in (*NODES, "all")})
REQUEST = st.fixed_dictionaries(
    {
        "count": st.integers(1, 2),
        "selector": st.sampled_from([None, None, *SELECTORS]),
        "memory": st.sampled_from([None, None, 2, 3]),
        "tolerates": st.booleans(),
        "alternative": st.sampled_from([None, None, None, 1]),
    }
)
CLAIM = st.fixed_dictionaries(
    {
        "requests": st.lists(REQUEST, min_size=1, max_size=2),
        "constraint": st.sampled_from([None, None, "matchAttribute", "distinctAttribute"]),
    }
)
CORES = 3
"""How much each pool's counter holds."""


# --- the same thing as objects of the API


def slices(pools: dict[str, list[dict[str, Any]]]) -> Iterator[Any]:
    """Yield the slices of all pools: devices, and counters."""
    for pool, devices in pools.items():
        where: dict[str, Any] = {"allNodes": True} if pool == "all" else {"nodeName": pool}
        if any("node" in device for device in devices):
            where = {"perDeviceNodeSelection": True}
        head = {"driver": "d", "pool": {"name": pool, "generation": 1, "resourceSliceCount": 2}, **where}
        counters = [{"name": "set", "counters": {"cores": {"value": str(CORES)}}}]
        for name, content in (
            ("devices", {"devices": [as_device(number, item) for number, item in enumerate(devices)]}),
            ("counters", {"sharedCounters": counters}),
        ):
            body = {"metadata": {"name": f"{pool}-{name}"}, "spec": {**head, **content}}
            yield read_object(body, "ResourceSlice")


def as_device(number: int, device: dict[str, Any]) -> dict[str, Any]:
    """Return a device of the API."""
    groups = device.get("groups", ())
    use = [
        {
            "counterSet": "set",
            "counters": {"cores": {"value": str(device["cores"])}},
            "compatibilityGroups": groups,
        }
    ]
    return {
        "name": str(number),
        **({"nodeName": device["node"]} if "node" in device else {}),
        "attributes": {"kind": {"string": device["kind"]}} if device["kind"] else {},
        "capacity": {"memory": {"value": str(device["memory"])}},
        "allowMultipleAllocations": device["shareable"] or None,
        "consumesCounters": use if device["cores"] else [],
        "taints": [{"key": "k", "effect": "NoSchedule"}] if device["tainted"] else [],
    }


def as_claim(claim: dict[str, Any], name: str = "claim") -> Any:
    """Return a claim of the API."""
    requests: list[dict[str, Any]] = []
    for number, request in enumerate(claim["requests"]):
        fields = {
            "deviceClassName": "c",
            "selectors": [{"cel": {"expression": request["selector"]}}] if request["selector"] else [],
            "capacity": {"requests": {"memory": str(request["memory"])}} if request["memory"] else None,
            "tolerations": [{"operator": "Exists"}] if request["tolerates"] else [],
        }
        if request["alternative"]:
            counts = (request["count"], request["alternative"])
            options = [{"name": f"s{place}", **fields, "count": count} for place, count in enumerate(counts)]
            requests.append({"name": f"r{number}", "firstAvailable": options})
        elif request.get("all"):
            requests.append({"name": f"r{number}", "exactly": {**fields, "allocationMode": "All"}})
        else:
            admin = {"adminAccess": True} if request.get("admin") else {}
            requests.append({"name": f"r{number}", "exactly": {**fields, **admin, "count": request["count"]}})
    constraints = [{claim["constraint"]: "d/kind"}] if claim["constraint"] else []
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    return apply_defaults(
        read_object({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}, "ResourceClaim")
    )


def allocator(
    pools: dict[str, list[dict[str, Any]]], *, backwards: bool = False, ledger: Ledger | None = None
) -> Allocator:
    """Return an allocator for a cluster whose objects arrived in order, or backwards."""
    objects = [
        *(read_object({"metadata": {"name": node}}, "Node") for node in NODES),
        read_object({"metadata": {"name": "c"}, "spec": {}}, "DeviceClass"),
        *slices(pools),
    ]
    inventory = Inventory()
    for item in reversed(objects) if backwards else objects:
        inventory.put(item)
    labels = {"resource.kubernetes.io/admin-access": "true"}
    inventory.put(read_object({"metadata": {"name": "ns", "labels": labels}}, "Namespace"))
    return Allocator(
        inventory,
        Ledger() if ledger is None else ledger,
        features=Features.all_on(),
        limits=Limits(),
        clock=lambda: 0.0,
        share_ids=lambda: "id",
    )


# --- the checker

Device = tuple[str, int]
Choice = tuple[int, tuple[Device, ...]]


def fits(device: dict[str, Any], request: dict[str, Any]) -> bool:
    """True if a device by itself can serve a request."""
    if request["selector"] and not SELECTORS[request["selector"]](device):
        return False
    if device["tainted"] and not request["tolerates"]:
        return False
    return (request["memory"] or 0) <= device["memory"]


def choices(pools: dict[str, Any], node: str, request: dict[str, Any]) -> Iterator[Choice]:
    """Yield every way to serve a request by itself on a node: the number of devices, and which."""
    candidates = [
        (pool, number)
        for pool in sorted((node, "all"))
        for number, device in enumerate(pools[pool])
        if fits(device, request)
    ]
    for count in (request["count"], request["alternative"]):
        if count is not None:
            yield from ((count, chosen) for chosen in combinations(candidates, count))


def allowed(
    pools: dict[str, Any], claim: dict[str, Any], picks: list[Choice], held: list[tuple[Device, int]]
) -> bool:
    """True if picks for the requests of a claim keep every rule, beside what others hold of devices."""
    uses: list[tuple[Device, int]] = []
    for request, (_, chosen) in zip(claim["requests"], picks, strict=True):
        uses += [(device, request["memory"] or pools[device[0]][device[1]]["memory"]) for device in chosen]
    everything = uses + held
    times = Counter(device for device, _ in everything)
    amounts: Counter[Device] = Counter()
    for device, amount in everything:
        amounts[device] += amount
    cores: Counter[str] = Counter()
    for device in times:
        published = pools[device[0]][device[1]]
        cores[device[0]] += published["cores"]
        if times[device] > 1 and not published["shareable"]:
            return False
        if published["shareable"] and amounts[device] > published["memory"]:
            return False
    if any(amount > CORES for amount in cores.values()):
        return False
    kinds = [pools[pool][number]["kind"] for (pool, number), _ in uses]
    if claim["constraint"] == "matchAttribute":
        return None not in kinds and len(set(kinds)) <= 1
    if claim["constraint"] == "distinctAttribute":
        return None not in kinds and len(set(kinds)) == len(kinds)
    return True


def solvable(pools: dict[str, Any], node: str, claim: dict[str, Any], held: list[tuple[Device, int]]) -> bool:
    """True if there is any way to serve a claim on a node."""

    def extend(picks: list[Choice]) -> bool:
        if len(picks) == len(claim["requests"]):
            return allowed(pools, claim, picks, held)
        options = choices(pools, node, claim["requests"][len(picks)])
        return any(extend([*picks, option]) for option in options)

    return extend([])


def check(
    pools: dict[str, Any], claim: dict[str, Any], decision: Any, held: list[tuple[Device, int]]
) -> None:
    """Check a decision; add what it takes to what is held."""
    if isinstance(decision, Unsatisfied):
        assert not any(solvable(pools, node, claim, held) for node in NODES)
        return
    assert isinstance(decision, Allocated), decision
    assert not any(solvable(pools, node, claim, held) for node in NODES if node < decision.node)
    results = decision.results[0].devices.results
    picks: list[Choice] = []
    for number, request in enumerate(claim["requests"]):
        chosen = tuple(
            (item.pool, int(item.device))
            for item in results
            if item.request.partition("/")[0] == f"r{number}"
        )
        assert (len(chosen), chosen) in set(choices(pools, decision.node, request))
        picks.append((len(chosen), chosen))
    assert allowed(pools, claim, picks, held)
    for request, (_, chosen) in zip(claim["requests"], picks, strict=True):
        held += [(device, request["memory"] or pools[device[0]][device[1]]["memory"]) for device in chosen]


@settings(max_examples=200)
@given(POOLS, st.lists(CLAIM, min_size=1, max_size=4))
def test_every_decision_is_right(pools: dict[str, Any], claims: list[dict[str, Any]]) -> None:
    """No device twice, no counter or capacity overdrawn, constraints hold, and a no is truly one.

    The claims come one after the other, so that what is remembered from one to the next is tested as well.
    """
    deciding = allocator(pools)
    held: list[tuple[Device, int]] = []
    for number, claim in enumerate(claims):
        decision = deciding.allocate((as_claim(claim, f"c{number}"),))
        check(pools, claim, decision, held)
        if isinstance(decision, Allocated):
            deciding.ledger.assume("ns", f"c{number}", decision.results[0])


@settings(max_examples=100)
@given(POOLS, st.lists(CLAIM, min_size=1, max_size=2))
def test_the_order_of_arrival_does_not_matter(pools: dict[str, Any], claims: list[dict[str, Any]]) -> None:
    """Objects that arrive backwards lead to the same decision."""
    wanted = [as_claim(claim, f"c{number}") for number, claim in enumerate(claims)]

    assert allocator(pools).allocate(wanted) == allocator(pools, backwards=True).allocate(wanted)


RICH_DEVICE = st.builds(
    lambda device, groups, node: {**device, "groups": groups, **({"node": node} if node else {})},
    DEVICE,
    st.sampled_from([(), (), ("p",), ("q",), ("p", "q")]),
    st.sampled_from([None, None, None, *NODES]),
)
RICH_CLAIM = st.builds(
    lambda claim, extra: {**claim, "requests": [{**request, **extra} for request in claim["requests"]]},
    CLAIM,
    st.sampled_from([{}, {}, {}, {"all": True}, {"admin": True}]),
)
RULE = {"deviceSelector": {"device": "0"}, "taint": {"key": "rule", "effect": "NoSchedule"}}
EVENT = st.one_of(
    st.tuples(st.just("allocate"), RICH_CLAIM, st.just("")),
    st.tuples(st.just("allocate"), RICH_CLAIM, st.just("")),
    st.tuples(st.just("free"), st.integers(0, 9), st.just("")),
    st.tuples(st.just("slice"), st.lists(RICH_DEVICE, max_size=3), st.sampled_from([*NODES, "all"])),
    st.tuples(st.just("cordon"), st.booleans(), st.sampled_from(NODES)),
    st.tuples(st.just("foreign"), st.integers(0, 2), st.sampled_from([*NODES, "all"])),
    st.tuples(st.just("rule"), st.booleans(), st.sampled_from([*NODES, "all"])),
)


@settings(max_examples=120)
@given(POOLS, st.lists(EVENT, min_size=1, max_size=14))
def test_what_is_remembered_never_changes_a_decision(
    pools: dict[str, Any], events: list[tuple[str, Any, str]]
) -> None:
    """An allocator that followed every event decides as one that has just been started."""
    pools = dict(pools)
    old = allocator(pools)
    explainer = Explainer(old)
    extras: dict[tuple[str, str], Any] = {}
    waiting: list[dict[str, Any]] = []
    for number, (kind, content, where) in enumerate(events):
        if kind == "allocate":
            waiting.append(content)
        elif kind == "free":
            old.ledger.remove("ns", f"c{content}")
        elif kind == "slice":
            pools[where] = content
            for item in slices({where: content}):
                old.inventory.put(item)
        elif kind == "foreign":
            # Another writer need not keep our rules: its devices may contradict each other.
            result = {"driver": "d", "pool": where, "device": str(content)}
            status = {"allocation": {"devices": {"results": [result]}}}
            name = {"metadata": {"name": f"c{number}", "namespace": "ns"}}
            old.ledger.put(read_object({**name, "status": status}, "ResourceClaim"))
        elif kind == "cordon":
            node = {"metadata": {"name": where}, "spec": {"unschedulable": content}}
            extras[kind, where] = read_object(node, "Node")
            old.inventory.put(extras[kind, where])
        else:
            selector = {"device": "0", "pool": where if content else "none"}
            rule = {"metadata": {"name": where}, "spec": {**RULE, "deviceSelector": selector}}
            extras[kind, where] = read_object(rule, "DeviceTaintRule")
            old.inventory.put(extras[kind, where])
        # Each claim that was ever asked for is asked for again: stale memory shows only on a second asking.
        for claim in waiting:
            fresh = allocator(pools, ledger=old.ledger)
            for item in extras.values():
                fresh.inventory.put(item)
            wanted = (as_claim(claim),)
            decisions = old.allocate(wanted), fresh.allocate(wanted)
            assert decisions[0] == decisions[1]
            told = explainer.explain(wanted, decisions[0]), Explainer(fresh).explain(wanted, decisions[1])
            assert told[0] == told[1]
        if kind == "allocate":
            decision = old.allocate((as_claim(content),))
            if isinstance(decision, Allocated):
                old.ledger.assume("ns", f"c{number}", decision.results[0])
